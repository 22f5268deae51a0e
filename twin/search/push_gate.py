"""Push gate: whether a recommended watermark may be written to switches, and how far one step may go.

Writing is held back while telemetry is stale, or its newest traffic that of a few sinks; while the twin is
out of step with the last measurement; and while its engines disagree. Every hold is a sentence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from twin.errors import ParameterError, check_above_zero, check_not_negative
from twin.units import bytes_text, duration_text, percent_text
from twin.watermark import Watermark, WatermarkBounds

_MOST_BEHIND = 0.5
RESIDUAL_OFFSET_BYTES = 1_000.0  # as in the score: below a packet or so, ratios mean nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSettings:
    """Limits of the gate.

    ``max_step`` is the largest factor by which one change may move Kmin, Kmax or Pmax, ``residual_limit`` the
    largest factor, either way, between predicted and measured queue. ``disagreement_limit`` is the largest
    disagreement of two engines (0.5: a factor of 1.5), inf for any.
    Raises ``ParameterError`` for a limit out of range.
    """

    bounds: WatermarkBounds = field(default_factory=WatermarkBounds)
    max_step: float = 8.0
    cool_down_s: float = 30.0
    fresh_for_s: float = 5.0
    residual_limit: float = 1.5
    disagreement_limit: float = 1.0

    def __post_init__(self) -> None:
        check_not_negative("push gate cool_down_s", self.cool_down_s)
        check_not_negative("push gate fresh_for_s", self.fresh_for_s)
        check_above_zero("push gate disagreement_limit", self.disagreement_limit, endless=True)
        for name in ("max_step", "residual_limit"):
            value = getattr(self, name)
            if not value > 1:
                raise ParameterError(f"push gate {name}", str(value), "a factor is above 1", "give such as 2")


def residual_ratio(predicted_bytes: float, measured_bytes: float | None) -> float | None:
    """The residual: predicted ÷ measured mean queue of the same ports and window, less 1.

    0 is a twin in step; 0.5 predicts half as much again as was measured. Both have 1000 bytes added, so that
    near-empty queues do not make it explode. None where nothing was measured. Raises ``ParameterError`` for a
    queue that is negative or not finite.
    """
    if measured_bytes is None:
        return None
    for value in (predicted_bytes, measured_bytes):
        if not (math.isfinite(value) and value >= 0):
            received = bytes_text(value) if math.isfinite(value) else str(value)
            rule = "a mean queue is finite and 0 or more"
            raise ParameterError("residual", received, rule, "leave the comparison out")
    return (predicted_bytes + RESIDUAL_OFFSET_BYTES) / (measured_bytes + RESIDUAL_OFFSET_BYTES) - 1


def holds(
    settings: GateSettings,
    *,
    report_age_s: float,
    residual: float | None,
    disagreement: float | None,
    behind_share: float = 0.0,
) -> tuple[str, ...]:
    """Why nothing may be written now, in sentences; empty: it may.

    None stands for no comparison so far, and for one engine asked alone. ``behind_share`` is how many of the
    reports were seconds behind the newest one when they came: where most are, the clocks of some sinks are
    ahead, and the moments that a round looks at show the traffic of these alone.
    """
    found = []
    if report_age_s > settings.fresh_for_s:
        age, fresh = duration_text(report_age_s), duration_text(settings.fresh_for_s)
        found.append(f"Held: the last report is {age} old, above {fresh}.")
    if behind_share > _MOST_BEHIND:
        found.append(
            f"Held: {percent_text(behind_share)} of the INT reports since the last round were seconds behind "
            "the newest, so that it saw the traffic of a few sinks only."
        )
    if residual is not None:
        limit, measured_ratio = settings.residual_limit, 1 / (1 + residual)
        if not 1 / limit <= measured_ratio <= limit:
            found.append(
                f"Held: the measured queue is {measured_ratio:.2f} times the predicted one, "
                f"outside 1/{limit:g} to {limit:g}."
            )
    if disagreement is not None and not disagreement <= settings.disagreement_limit:
        found.append(
            f"Held: the twin's engines disagree by {percent_text(disagreement)}, "
            f"beyond the limit of {percent_text(settings.disagreement_limit)}."
        )
    return tuple(found)


def next_step(settings: GateSettings, incumbent: Watermark, target: Watermark) -> Watermark | None:
    """The next watermark on the way to ``target``: one step, inside the bounds. None: no change."""
    step, bounds = within_step(incumbent, target, settings.max_step), settings.bounds
    if not bounds.contains(step):
        # Only from an incumbent outside the bounds; then all the way to them.
        kmax = max(step.kmax_bytes, bounds.kmax_low_bytes, bounds.kmin_low_bytes + 1)
        kmax = min(kmax, bounds.kmax_high_bytes)
        kmin = min(max(step.kmin_bytes, bounds.kmin_low_bytes), bounds.kmin_high_bytes, kmax - 1)
        step = Watermark(kmin, kmax, min(max(step.pmax, bounds.pmax_low), bounds.pmax_high))
    return None if step == incumbent else step


def within_step(incumbent: Watermark, target: Watermark, max_step: float) -> Watermark:
    """The farthest point on the way to ``target`` that moves no value by more than the factor ``max_step``.

    The way is a straight line in logarithms, so Kmin stays below Kmax all along it.
    """
    pairs = (
        (max(incumbent.kmin_bytes, 1), max(target.kmin_bytes, 1)),
        (incumbent.kmax_bytes, target.kmax_bytes),
        (incumbent.pmax, target.pmax),
    )
    farthest = max(abs(math.log(after / before)) for before, after in pairs)
    limit = math.log(max_step)
    if farthest <= limit:
        return target
    share = limit / farthest
    kmin, kmax, pmax = (before * (after / before) ** share for before, after in pairs)
    # Rounded towards the incumbent, so that rounding never exceeds the step.
    kmin_bytes = math.floor(kmin) if target.kmin_bytes > incumbent.kmin_bytes else math.ceil(kmin)
    kmax_bytes = math.floor(kmax) if target.kmax_bytes > incumbent.kmax_bytes else math.ceil(kmax)
    return Watermark(min(kmin_bytes, kmax_bytes - 1), kmax_bytes, min(pmax, 1.0))
