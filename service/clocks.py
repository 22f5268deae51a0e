"""Where time comes from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clocks:
    """Monotonic seconds, wall-clock nanoseconds since 1970, and the seconds by which work is measured."""

    monotonic_s: Callable[[], float] = time.monotonic
    wall_ns: Callable[[], int] = time.time_ns
    cost_s: Callable[[], float] = time.perf_counter
