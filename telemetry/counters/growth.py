"""Growth of one cumulative counter from one reading to the next."""

from __future__ import annotations

from typing import NamedTuple


class Growth(NamedTuple):
    """Growth, in the counter's unit: ``before`` the last reading, where not yet counted, and ``since`` it."""

    before: int
    since: int

    @property
    def whole(self) -> int:
        return self.before + self.since


def growth(last: int, value: int, high: int | None) -> Growth | None:
    """What a reading of ``value`` after one of ``last`` tells. None: it went down, and the next one tells.

    A counter goes down when it was cleared, restarted or wrapped, but also for a single reading: an exporter
    that lags behind another, a row that reads 0 while the device restarts. Taken for a reset, such a glitch
    would make the counter's whole lifetime growth. ``high`` is the count before it went down to ``last``
    (None: it did not): what reaches it again has gone on from it, and else the counter began at 0. Of a
    counter that did begin at 0 and got as far in between that is too little, never too much.
    """
    if value < last:
        return None
    if high is None:
        return Growth(0, value - last)
    if value >= high:
        return Growth(0, value - high)
    return Growth(last, value - last)
