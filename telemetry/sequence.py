"""Reports lost on the way, by the numbers their senders gave them; imports only the standard library."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

MOST_SENDERS = 65_536
_REORDERED_AT_MOST = 1024


class Sender(NamedTuple):
    """One unit of one device; each counts for itself. ``node`` is -1 where the report does not say."""

    node: int
    hardware: int
    version: int


@dataclass(frozen=True, slots=True)
class SequenceCounts:
    """Since the sender was first heard: datagrams ``received``, ``lost`` (numbers never seen), ``late`` (seen
    after a later one, and no longer lost), and ``restarts`` of the sender's count.
    """

    received: int = 0
    lost: int = 0
    late: int = 0
    restarts: int = 0


@dataclass(slots=True)
class _Progress:
    due: int
    received: int = 0
    lost: int = 0
    late: int = 0
    restarts: int = 0


class SequenceGaps:
    """Counts gaps for each sender; forgets the one not heard for longest beyond ``max_senders``."""

    def __init__(self, max_senders: int = MOST_SENDERS) -> None:
        self._max_senders = max_senders
        self._senders: OrderedDict[Sender, _Progress] = OrderedDict()

    def __len__(self) -> int:
        return len(self._senders)

    def note(self, sender: Sender, sequence: int, sequence_bits: int) -> int:
        """Takes the number of a datagram just received (it wraps at 2**``sequence_bits``).

        Returns by how many the count of lost datagrams rose (negative: one was only late).
        """
        turn = 1 << sequence_bits
        progress = self._senders.get(sender)
        if progress is None:
            progress = self._senders[sender] = _Progress(due=sequence)
            if len(self._senders) > self._max_senders:
                self._senders.popitem(last=False)
        self._senders.move_to_end(sender)
        progress.received += 1
        ahead = (sequence - progress.due) % turn
        if ahead < turn // 2:
            progress.lost += ahead
            progress.due = (sequence + 1) % turn
            return ahead
        if turn - ahead <= _REORDERED_AT_MOST:
            progress.late += 1
            found = min(progress.lost, 1)
            progress.lost -= found
            return -found
        progress.restarts += 1
        progress.due = (sequence + 1) % turn
        return 0

    def counts(self) -> dict[Sender, SequenceCounts]:
        """The counts of every sender."""
        return {
            sender: SequenceCounts(one.received, one.lost, one.late, one.restarts)
            for sender, one in self._senders.items()
        }
