"""Settings of the sliding window."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from telemetry.errors import WindowError
from telemetry.report import ReportBatch

NS_PER_S = 1_000_000_000
NS_PER_HOUR = 3_600 * NS_PER_S
NS_PER_DAY = 24 * NS_PER_HOUR
DEFAULT_MAX_REPORTS = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSettings:
    """A sliding window of ``n_periods`` periods of ``period_ns`` each, on a grid through ``origin_ns``.

    ``elephant_bytes``: a flow with at least this much in the window is an elephant. ``max_reports``,
    ``max_flows``, ``max_paths``, ``max_queues`` bound memory: beyond them reports are thinned evenly, the
    smallest flows merged, reports with new paths or queues rejected. ``max_jump_periods``,
    ``confirm_reports``: the window's end follows a step in time of up to so many periods at once, a wider one
    when so many reports confirm it (``window.timeline``). ``idle_gap_ns``: a longer silence ends a flow's
    message, unless such gaps are usual for the flow. ``default_rate_gbps``, ``default_delay_us``: links of a
    discovered topology without a measured value. Raises ``WindowError`` naming a field that is out of range.
    """

    period_ns: int = NS_PER_S
    n_periods: int = 10
    origin_ns: int = 0
    elephant_bytes: float = 1_000_000
    max_reports: int = DEFAULT_MAX_REPORTS
    max_flows: int = 1_000_000
    max_paths: int = 1_000_000
    max_queues: int = 65_536
    max_jump_periods: int = 2
    confirm_reports: int = 8
    idle_gap_ns: int = 1_000_000
    default_rate_gbps: float = 100.0
    default_delay_us: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            real = field.name in ("elephant_bytes", "default_rate_gbps", "default_delay_us")
            least = 0 if field.name in ("origin_ns", "default_delay_us", "idle_gap_ns") else 1
            if isinstance(value, bool) or not isinstance(value, int | float if real else int):
                kind = "a number" if real else "a whole number"
                raise WindowError(f"window {field.name}", repr(value), f"it must be {kind}", "correct it")
            above_zero = real and least
            if not math.isfinite(value) or (value <= 0 if above_zero else value < least):
                rule = "it must be above 0" if above_zero else f"it must be {least} or more"
                raise WindowError(f"window {field.name}", repr(value), rule, "correct it")

    @property
    def step_ns(self) -> int:
        """A step in time that the window's end follows at once."""
        return self.max_jump_periods * self.period_ns

    @property
    def length_ns(self) -> int:
        return self.period_ns * self.n_periods

    @classmethod
    def covering(cls, batch: ReportBatch, **changes: Any) -> WindowSettings:
        """A window of ten periods that just covers a recording, for offline use.

        Reports further from the bulk than five times the span of the middle 98 % do not stretch it; the
        window then rejects them. ``changes`` are further fields. Raises ``WindowError`` for an empty batch.
        """
        if len(batch) == 0:
            raise WindowError("window", None, "the recording holds no reports", "give reports")
        n_periods = int(changes.pop("n_periods", 10))
        low, high = np.quantile(batch.ts_ns, [0.01, 0.99], method="nearest").tolist()
        reach = 5 * (high - low) or NS_PER_S
        ts_ns = batch.ts_ns[(batch.ts_ns >= low - reach) & (batch.ts_ns <= high + reach)]
        first, last = int(ts_ns.min()), int(ts_ns.max())
        period_ns = -(-(last + 1 - first) // n_periods)
        fitted: dict[str, Any] = {
            "period_ns": period_ns,
            "n_periods": n_periods,
            "origin_ns": first,
            "max_reports": max(len(batch), DEFAULT_MAX_REPORTS),
        }
        return cls(**(fitted | changes))
