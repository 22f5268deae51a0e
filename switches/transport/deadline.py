"""The end of a call to a switch, however many parts its answer comes in."""

from __future__ import annotations

import time


class Deadline:
    def __init__(self) -> None:
        self._until_s = 0.0

    def within(self, seconds: float) -> None:
        self._until_s = time.monotonic() + seconds

    def left_s(self, timeout: float | None, late: type[Exception]) -> float:
        """The part of ``timeout`` that is left; raises ``late`` at the deadline."""
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise late("the call's time is over")
        return left_s if timeout is None else min(left_s, timeout)
