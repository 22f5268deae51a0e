"""Which timestamps to believe, and where the window ends; imports only numpy and ``telemetry.settings``.

Time is the reports' own. A wrong clock must not drag the window away, and a real gap or restart must not
leave it behind, so the end moves by support, not by the largest timestamp:

- a step of up to ``max_jump_periods`` periods is followed at once;
- a wider one, up to a window's length ahead, when ``confirm_reports`` reports stand at or beyond it (few
  reports in all need fewer); until then they are held, and count from the moment the end reaches them;
- anything further away, back or forth, is rejected, but remembered as another timeline: when more reports
  speak for it than the newest periods of this one hold, with none of this one's in between to outvote them,
  the window moves there and starts anew.

Where the end lies depends only on which reports were seen, not on their order (beyond the first few dozen).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from telemetry.settings import WindowSettings

_SETTLED_REPORTS = 64
_VOTES_LIMIT = 5_000
_LATE_WINDOWS = 10


class Verdict(IntEnum):
    """What becomes of one report by its time."""

    KEEP = 0
    TOO_OLD = 1
    FAR = 2


@dataclass(slots=True)
class _Rival:
    """Another timeline: the periods its reports span, and how many speak for it."""

    low: int
    high: int
    votes: int


class Timeline:
    """Reports per period of the current timeline, its end, and a rival if there is one."""

    def __init__(self, settings: WindowSettings) -> None:
        self._settings = settings
        self._rival: _Rival | None = None
        self._counts: dict[int, int] = {}
        self._total = 0
        self.end: int | None = None
        """The newest believed period; None before the first report."""

    @property
    def oldest(self) -> int:
        """The oldest period worth keeping (below ``end``'s window only while the end is not settled)."""
        assert self.end is not None
        slack = self._settings.n_periods if self._total < _SETTLED_REPORTS else 0
        return self.end - self._settings.n_periods + 1 - slack

    def judge(self, periods: NDArray[np.int64]) -> tuple[NDArray[np.int8], bool]:
        """A ``Verdict`` per report, and whether everything held so far belongs to a timeline now given up.

        ``periods`` are the period numbers of reports not seen before.
        """
        if len(periods) == 0:
            return np.empty(0, np.int8), False
        unique, counts = np.unique(periods, return_counts=True)
        if self.end is None:
            low, high, _ = self._biggest_cluster(unique, counts, int(periods[0]))
            return self._verdicts(periods, low, self._reach(unique, counts, low, high)), False
        ahead = self._advanced(self._merged(unique, counts), self.end, self._total + len(periods))
        low, high = min(self.oldest, ahead), ahead + self._settings.n_periods
        verdicts = self._verdicts(periods, low, high)
        far = verdicts == Verdict.FAR
        if not far.any():
            self._outvote(len(periods))
            return verdicts, False
        far_unique, far_counts = np.unique(periods[far], return_counts=True)
        rival = self._heard(far_unique, far_counts, int(periods[far][0]))
        newest = sorted(self._counts)[-2:]
        rule = min(max(self._settings.confirm_reports, *(self._counts[p] for p in newest)), _VOTES_LIMIT)
        self._outvote(int(np.count_nonzero(verdicts == Verdict.KEEP)))
        if rival.votes < rule:
            return verdicts, False
        self._counts, self._total, self.end, self._rival = {}, 0, None, None
        high = self._reach(unique, counts, rival.low, rival.high)
        return self._verdicts(periods, rival.low, high), True

    def _reach(self, unique: NDArray[np.int64], counts: NDArray[np.int64], low: int, high: int) -> int:
        """Up to which period a timeline that begins with these reports is believed: a window's length beyond
        its end, as later on. However few reports each of them has, that bounds how many periods are held.
        """
        inside = (unique >= low) & (unique <= high)
        begun = dict(zip(unique[inside].tolist(), counts[inside].tolist(), strict=True))
        return min(high, self._advanced(begun, min(begun), sum(begun.values())) + self._settings.n_periods)

    def record(self, periods: NDArray[np.int64]) -> list[int]:
        """Count kept reports, move the end, and name the periods that fell out of the window."""
        if len(periods) == 0:
            return []
        unique, counts = np.unique(periods, return_counts=True)
        self._counts = self._merged(unique, counts)
        self._total += len(periods)
        start = min(self._counts) if self.end is None or self._total < _SETTLED_REPORTS else self.end
        self.end = self._advanced(self._counts, start, self._total)
        gone = [period for period in self._counts if period < self.oldest]
        for period in gone:
            del self._counts[period]
        return gone

    def _advanced(self, counts: dict[int, int], start: int, total: int) -> int:
        """The end these counts lead to, walking up from ``start``."""
        settings = self._settings
        need = min(settings.confirm_reports, 1 + total // settings.confirm_reports)
        ordered = sorted(period for period in counts if period > start)
        before = list(accumulate([counts[period] for period in ordered], initial=0))
        end = start
        for place, period in enumerate(ordered):
            step = period - end
            if step > settings.n_periods:
                break
            if step > settings.max_jump_periods:
                within = bisect_right(ordered, period + settings.n_periods)
                if before[within] - before[place] < need:
                    break
            end = period
        return end

    def _merged(self, unique: NDArray[np.int64], counts: NDArray[np.int64]) -> dict[int, int]:
        merged = dict(self._counts)
        for period, count in zip(unique.tolist(), counts.tolist(), strict=True):
            merged[period] = merged.get(period, 0) + count
        return merged

    def _verdicts(self, periods: NDArray[np.int64], low: int, high: int) -> NDArray[np.int8]:
        verdicts = np.full(len(periods), Verdict.KEEP, np.int8)
        verdicts[periods < low] = Verdict.TOO_OLD
        late = _LATE_WINDOWS * self._settings.n_periods
        verdicts[(periods > high) | (periods < low - late)] = Verdict.FAR
        return verdicts

    def _heard(self, unique: NDArray[np.int64], counts: NDArray[np.int64], first: int) -> _Rival:
        low, high, votes = self._biggest_cluster(unique, counts, first)
        rival, reach = self._rival, self._settings.n_periods
        if rival is not None and low <= rival.high + reach and high >= rival.low - reach:
            rival = _Rival(min(low, rival.low), max(high, rival.high), rival.votes + votes)
        elif rival is not None and self.end is not None and low > rival.high > self.end:
            # It goes on, with longer gaps than a window: few reports a minute are a timeline too.
            rival = _Rival(low, high, rival.votes + votes)
        elif rival is None or votes > rival.votes:
            rival = _Rival(low, high, votes)
        self._rival = rival
        return rival

    def _outvote(self, votes: int) -> None:
        if self._rival is not None:
            self._rival.votes -= votes
            if self._rival.votes <= 0:
                self._rival = None

    def _biggest_cluster(
        self, unique: NDArray[np.int64], counts: NDArray[np.int64], first: int
    ) -> tuple[int, int, int]:
        """Span and size of the most populous run of periods without a gap of a window (a tie: the first
        report's).
        """
        starts = np.concatenate(([0], np.flatnonzero(np.diff(unique) > self._settings.n_periods) + 1))
        sizes = np.add.reduceat(counts, starts)
        ends = np.concatenate((starts[1:], [len(unique)])) - 1
        best = int(np.argmax(sizes))
        own = int(np.searchsorted(unique[starts], first, side="right")) - 1
        if sizes[own] == sizes[best]:
            best = own
        return int(unique[starts[best]]), int(unique[ends[best]]), int(sizes[best])
