"""Detects lost reports by the sequence numbers of their senders."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_SENDERS = 65_536
_REORDERED_AT_MOST = 1024
_FIRST_NUMBERS = 1024
_LONGEST_GAP = 1 << 21  # a larger jump is a restarted or another sender
_REMEMBERED = (1 << _REORDERED_AT_MOST) - 1
_LONG_GAP = 65_536  # a larger jump to one of the first numbers is a restart, too


class Sender(NamedTuple):
    """One hardware unit of a device, with its own sequence. Reports of v0.5 may lack the node: then ``node``
    is -1, and ``source`` the address they came from.
    """

    node: int
    hardware: int
    version: int
    source: str = ""


@dataclass(frozen=True, slots=True)
class SequenceCounts:
    """Datagrams of a sender: ``received`` (some maybe twice), ``lost`` (numbers never seen), ``late`` (first
    seen after a later one, and no longer lost), and ``restarts`` of its sequence.
    """

    received: int = 0
    lost: int = 0
    late: int = 0
    restarts: int = 0

    def since(self, before: SequenceCounts) -> SequenceCounts:
        """The difference to earlier counts."""
        return SequenceCounts(
            self.received - before.received,
            self.lost - before.lost,
            self.late - before.late,
            self.restarts - before.restarts,
        )


@dataclass(slots=True)
class _Progress:
    due: int
    received: int = 0
    lost: int = 0
    late: int = 0
    restarts: int = 0
    missing: int = 0
    """Bit n: the number n + 1 before ``due`` was not received; of the last ``_REORDERED_AT_MOST``."""

    def skip(self, count: int) -> None:
        """Passes over so many numbers from ``due`` on, which are lost unless they come late."""
        count_held = min(count, _REORDERED_AT_MOST)
        self.missing = (self.missing << count_held | (1 << count_held) - 1) & _REMEMBERED
        self.lost += count

    def arrive(self, count: int) -> None:
        """So many numbers in a row were received."""
        self.received += count
        self.missing = self.missing << min(count, _REORDERED_AT_MOST) & _REMEMBERED

    def take(self, sequence: int, turn: int) -> None:
        ahead = (sequence - self.due) % turn
        if ahead < min(turn // 2, _LONGEST_GAP) and not (ahead >= _LONG_GAP and sequence < _FIRST_NUMBERS):
            self.skip(ahead)
            self.arrive(1)
            self.due = (sequence + 1) % turn
        elif (before := turn - ahead) <= _REORDERED_AT_MOST:
            self.received += 1
            late = self.missing >> before - 1 & 1  # else it was received before
            self.missing ^= late << before - 1
            self.late += late
            self.lost -= late
        else:
            self.received += 1
            self.restarts += 1
            self.missing = 0
            self.due = (sequence + 1) % turn

    def counts(self) -> SequenceCounts:
        return SequenceCounts(self.received, self.lost, self.late, self.restarts)


class SequenceGaps:
    """Counts gaps per sender; forgets the one silent for longest beyond ``max_senders``."""

    def __init__(self, max_senders: int = MOST_SENDERS) -> None:
        self._max_senders = max_senders
        self._senders: OrderedDict[Sender, _Progress] = OrderedDict()

    def __len__(self) -> int:
        return len(self._senders)

    def note(self, sender: Sender, sequence: int, sequence_bits: int) -> SequenceCounts:
        """Notes a received sequence number (it wraps at 2**``sequence_bits``).

        Returns the increase of the counts; ``lost`` is negative for a late datagram.
        """
        progress = self._progress(sender, sequence)
        before = progress.counts()
        progress.take(sequence, 1 << sequence_bits)
        return progress.counts().since(before)

    def note_all(
        self,
        senders: Sequence[Sender],
        sequences: NDArray[np.int64],
        ends: NDArray[np.int64],
        sequence_bits: Sequence[int],
    ) -> list[SequenceCounts]:
        """The same for many datagrams, grouped by sender in the order received; ``ends`` is where each
        (non-empty) group ends.
        """
        begins = np.concatenate(([0], ends[:-1])).astype(np.int64)
        turn = np.left_shift(1, np.asarray(sequence_bits, np.int64))
        ahead = np.diff(sequences, prepend=0) - 1 & np.repeat(turn, ends - begins) - 1
        ahead[begins] = 0
        anew = (ahead >= _LONG_GAP) & (sequences < _FIRST_NUMBERS)
        longest = np.minimum(turn // 2, _LONGEST_GAP)
        in_order = (np.maximum.reduceat(ahead, begins) < longest) & ~np.logical_or.reduceat(anew, begins)
        runs = zip(
            senders,
            begins.tolist(),
            ends.tolist(),
            turn.tolist(),
            in_order.tolist(),
            np.add.reduceat(ahead, begins).tolist(),
            sequences[begins].tolist(),
            sequences[ends - 1].tolist(),
            strict=True,
        )
        rose = []
        for sender, begin, end, of, ordered, skipped, first, last in runs:
            progress = self._progress(sender, first)
            before = (first - progress.due) % of
            anew_first = before >= _LONG_GAP and first < _FIRST_NUMBERS
            if ordered and before < min(of // 2, _LONGEST_GAP) and not anew_first:  # no late one, no restart
                progress.skip(before)
                at = begin
                gaps = begin + 1 + np.flatnonzero(ahead[begin + 1 : end]) if skipped else ahead[:0]
                for gap, count in zip(gaps.tolist(), ahead[gaps].tolist(), strict=True):
                    progress.arrive(gap - at)
                    progress.skip(count)
                    at = gap
                progress.arrive(end - at)
                progress.due = (last + 1) % of
                rose.append(SequenceCounts(end - begin, before + skipped))
                continue
            counts = progress.counts()
            for sequence in sequences[begin:end].tolist():
                progress.take(sequence, of)
            rose.append(progress.counts().since(counts))
        return rose

    def counts(self) -> dict[Sender, SequenceCounts]:
        return {sender: one.counts() for sender, one in self._senders.items()}

    def _progress(self, sender: Sender, sequence: int) -> _Progress:
        progress = self._senders.get(sender)
        if progress is None:
            progress = self._senders[sender] = _Progress(due=sequence)
            if len(self._senders) > self._max_senders:
                self._senders.popitem(last=False)
        self._senders.move_to_end(sender)
        return progress
