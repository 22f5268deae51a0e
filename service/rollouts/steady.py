"""Wall-clock time that no setting of the clock moves while somebody counts with it."""

from __future__ import annotations

from collections.abc import Callable


class SteadyClock:
    """Wall-clock seconds since 1970 that go on as ``clock_s``, monotonic seconds, does.

    Waits of a rollout are differences of times in its journal: a wall clock set by a day in the middle must
    not end a soak, nor keep an undo from being tried again. ``set`` takes the wall clock's time anew.
    """

    def __init__(self, wall_s: Callable[[], float], clock_s: Callable[[], float]) -> None:
        self._wall_s = wall_s
        self._clock_s = clock_s
        self._ahead_s = 0.0
        self.set()

    def set(self) -> None:
        """From now on the time is the wall clock's as it is now."""
        self._ahead_s = self._wall_s() - self._clock_s()

    def now_s(self) -> float:
        """Seconds since 1970."""
        return self._clock_s() + self._ahead_s
