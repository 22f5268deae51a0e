"""Where time comes from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clocks:
    """Monotonic seconds, and wall-clock nanoseconds since 1970."""

    monotonic_s: Callable[[], float] = time.monotonic
    wall_ns: Callable[[], int] = time.time_ns
