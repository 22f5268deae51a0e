"""The end of a call to a switch, however many parts its answer comes in."""

from __future__ import annotations

import time
from collections.abc import Callable


class Deadline:
    """The end of the current call."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._until_s = 0.0

    def within(self, seconds: float) -> None:
        self._until_s = self._monotonic_s() + seconds

    @property
    def over(self) -> bool:
        return self._monotonic_s() > self._until_s

    def left_s(self, timeout: float | None, late: type[Exception]) -> float:
        """The part of ``timeout`` that is left; raises ``late`` at the deadline."""
        left_s = self._until_s - self._monotonic_s()
        if left_s <= 0:
            raise late("the call's time is over")
        return left_s if timeout is None else min(left_s, timeout)
