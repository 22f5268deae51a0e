"""Which timestamps to believe, and where the window ends.

Time is the reports' own. A wrong clock must not drag the window away, and a real gap or restart must not
leave it behind. So the end moves by the number of reports, not by the largest timestamp:

- a step of up to ``max_jump_periods`` periods is followed at once;
- a wider step, up to a window's length, once ``confirm_reports`` reports lie at or beyond it (fewer when
  there are few reports in all); until then they are kept, and count when the end reaches them;
- anything further away is rejected, but remembered as a rival timeline. When more reports support it than the
  newest periods of this one hold, not outvoted by later reports of this one, the window restarts there. They
  must also be as dense as those here, or go on for two windows beyond the end, or be more than all that are
  here: one sender's body may hold tens of thousands, while the others' are still under way;
- what is up to ten windows older than the window is rejected, as it is late, and may be a rival as well: the
  clocks here may be ahead, or all may have been set back. It must be more than all that are here, and go on
  like a clock: beside this timeline at about its pace, where reports sent late catch up, or for two windows
  while nothing of this one comes.

The end depends only on which reports were seen, not on their order (after the first few dozen).
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
_GOES_ON_WINDOWS = 2


class Verdict(IntEnum):
    """Decision on a report by its time."""

    KEEP = 0
    TOO_OLD = 1
    FAR = 2


@dataclass(slots=True)
class _Rival:
    """Another timeline: the periods its reports span, and how many support it; its first period since it has
    been seen, the end here then, and its reports by period, of the newest. ``alone``: its newest period when
    the last report came here.
    """

    low: int
    high: int
    votes: int
    since: int
    beside: int
    alone: int
    counts: dict[int, int]


class Timeline:
    """Reports per period of the current timeline, its end, and a rival if there is one."""

    def __init__(self, settings: WindowSettings) -> None:
        self._settings = settings
        self._late = _LATE_WINDOWS * settings.n_periods
        self._rival: _Rival | None = None
        self._counts: dict[int, int] = {}
        self._total = 0
        self.end: int | None = None
        """The newest accepted period; None before the first report."""

    @property
    def oldest(self) -> int:
        """The oldest period to keep (older than the window only while the end is not settled)."""
        assert self.end is not None
        slack = self._settings.n_periods if self._total < _SETTLED_REPORTS else 0
        return self.end - self._settings.n_periods + 1 - slack

    def judge(self, periods: NDArray[np.int64]) -> tuple[NDArray[np.int8], bool]:
        """A ``Verdict`` per report, and whether the window restarts on another timeline.

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
        far = verdicts != Verdict.KEEP
        if not far.any():
            self._outvote(len(periods))
            return verdicts, False
        far_unique, far_counts = np.unique(periods[far], return_counts=True)
        rival = self._updated_rival(far_unique, far_counts, int(periods[far][0]))
        newest = sorted(self._counts)[-2:]
        rule = min(max(self._settings.confirm_reports, *(self._counts[p] for p in newest)), _VOTES_LIMIT)
        self._outvote(int(np.count_nonzero(verdicts == Verdict.KEEP)))
        if rival is None or rival.votes < rule or not self._outweighed_by(rival):
            return verdicts, False
        self._counts, self._total, self.end, self._rival = {}, 0, None, None
        high = self._reach(unique, counts, rival.low, rival.high)
        return self._verdicts(periods, rival.low, high), True

    def _outweighed_by(self, rival: _Rival) -> bool:
        """Whether the rival is more than some senders among all: where its fullest period has as many reports
        as a usual one here, where it goes on, or where it outnumbers all reports here; one of late reports
        must outnumber them and go on as a clock does.
        """
        here, counts = sum(self._counts.values()), rival.counts
        # A period's worth of reports may lie in two.
        fullest = max(count + counts.get(period + 1, 0) for period, count in counts.items())
        assert self.end is not None
        long = _GOES_ON_WINDOWS * self._settings.n_periods
        if self.oldest - self._late <= rival.high < self.oldest:
            moved = self.end - rival.beside
            paced = moved >= self._settings.max_jump_periods and rival.high - rival.since <= 2 * moved
            return rival.votes > here and (paced or rival.high - rival.alone >= long)
        goes_on = rival.since > self.end and rival.high - rival.since >= long
        return fullest * len(self._counts) >= here or goes_on or rival.votes > here

    def _reach(self, unique: NDArray[np.int64], counts: NDArray[np.int64], low: int, high: int) -> int:
        """The last period accepted on a timeline that begins with these reports: a window's length beyond its
        end, which also bounds how many periods are stored.
        """
        inside = (unique >= low) & (unique <= high)
        begun = dict(zip(unique[inside].tolist(), counts[inside].tolist(), strict=True))
        return min(high, self._advanced(begun, min(begun), sum(begun.values())) + self._settings.n_periods)

    def record(self, periods: NDArray[np.int64]) -> list[int]:
        """Counts kept reports and moves the end; returns the periods that fell out of the window."""
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
        """The end that follows from these counts, walking up from ``start``."""
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
        verdicts[(periods > high) | (periods < low - self._late)] = Verdict.FAR
        return verdicts

    def _updated_rival(
        self, unique: NDArray[np.int64], counts: NDArray[np.int64], first: int
    ) -> _Rival | None:
        """The rival with these reports in it; None where they are of neither timeline."""
        assert self.end is not None
        low, high, votes = self._biggest_cluster(unique, counts, first)
        inside = (unique >= low) & (unique <= high)
        here = dict(zip(unique[inside].tolist(), counts[inside].tolist(), strict=True))
        rival, reach = self._rival, self._settings.n_periods
        if rival is not None and low <= rival.high + reach and high >= rival.low - reach:
            for period, count in rival.counts.items():
                here[period] = here.get(period, 0) + count
            low, high = min(low, rival.low), max(high, rival.high)
            since = min(low, rival.since)
            rival = _Rival(low, high, rival.votes + votes, since, rival.beside, rival.alone, here)
        elif rival is not None and low > rival.high > self.end:
            # The same rival further on: with few reports a minute, its gaps may exceed a window.
            rival = _Rival(low, high, rival.votes + votes, rival.since, rival.beside, rival.alone, here)
        elif rival is None or votes > rival.votes:
            rival = _Rival(low, high, votes, low, self.end, high, here)
        else:
            rival.votes -= votes
            return None
        oldest = rival.high - reach + 1
        rival.counts = {period: count for period, count in rival.counts.items() if period >= oldest}
        self._rival = rival
        return rival

    def _outvote(self, votes: int) -> None:
        if self._rival is not None and votes:
            self._rival.votes -= votes
            self._rival.alone = self._rival.high
            if self._rival.votes <= 0:
                self._rival = None

    def _biggest_cluster(
        self, unique: NDArray[np.int64], counts: NDArray[np.int64], first: int
    ) -> tuple[int, int, int]:
        """Span and size of the largest run of periods without a gap of a window (tie: the first report's)."""
        starts = np.concatenate(([0], np.flatnonzero(np.diff(unique) > self._settings.n_periods) + 1))
        sizes = np.add.reduceat(counts, starts)
        ends = np.concatenate((starts[1:], [len(unique)])) - 1
        best = int(np.argmax(sizes))
        own = int(np.searchsorted(unique[starts], first, side="right")) - 1
        if sizes[own] == sizes[best]:
            best = own
        return int(unique[starts[best]]), int(unique[ends[best]]), int(sizes[best])
