"""Whether a recommendation may be issued, as a pure machine: (state, event) → (state, actions).

No clock (events carry their time), no I/O. Must import no engine, no scenario and nothing of telemetry.

A recommendation passes when its predicted gain exceeds the margin, telemetry is fresh, the last change has
had time to show, the twin agreed with the last measurement, and its engines agree with each other. What
passes is kept inside the bounds and within one step of the incumbent. Everything else is held, each hold
naming its reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum

from twin.errors import ParameterError
from twin.units import bytes_text, duration_text, percent_text
from twin.watermark import Watermark, WatermarkBounds

RESIDUAL_OFFSET_BYTES = 1_000.0  # as in the score: below a packet or so, factors mean nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings:
    """Limits. ``max_step`` is the largest factor by which one change may move Kmin, Kmax or Pmax.

    ``residual_limit`` is the largest ratio, either way, between the measured queue and the predicted one;
    ``disagreement_limit`` the largest disagreement of two engines (0.5: a factor of 1.5), inf for any.
    Raises ``ParameterError`` for a limit outside its meaning.
    """

    bounds: WatermarkBounds = field(default_factory=WatermarkBounds)
    max_step: float = 8.0
    margin: float = 0.05
    cool_down_s: float = 30.0
    fresh_for_s: float = 5.0
    residual_limit: float = 1.5
    disagreement_limit: float = 1.0

    def __post_init__(self) -> None:
        for name in ("margin", "cool_down_s", "fresh_for_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ParameterError(f"guard {name}", str(value), "it is 0 or more", "give 0 or more")
        if not self.disagreement_limit > 0:
            raise ParameterError(
                "guard disagreement_limit",
                str(self.disagreement_limit),
                "a limit is above 0",
                "give such as 1, a factor of two",
            )
        for name in ("max_step", "residual_limit"):
            value = getattr(self, name)
            if not value > 1:
                raise ParameterError(
                    f"guard {name}", str(value), "a factor limit is above 1", "give such as 2"
                )


@dataclass(frozen=True, slots=True)
class GuardState:
    """What the guard remembers; times in seconds of the caller's clock, None for never.

    ``residual`` is measured ÷ predicted queue of the last comparison, both with 1000 bytes added.
    """

    telemetry_at_s: float | None = None
    changed_at_s: float | None = None
    predicted_queue_bytes: float | None = None
    residual: float | None = None


@dataclass(frozen=True, slots=True)
class TelemetryArrived:
    """Reports came in."""

    at_s: float


@dataclass(frozen=True, slots=True)
class QueuePredicted:
    """The mean queue the twin expects of what runs now."""

    queue_mean_bytes: float


@dataclass(frozen=True, slots=True)
class QueueMeasured:
    """The mean queue telemetry then saw, over the same ports."""

    queue_mean_bytes: float


@dataclass(frozen=True, slots=True)
class WatermarkChanged:
    """A switch runs another watermark now, whoever set it."""

    at_s: float


@dataclass(frozen=True, slots=True)
class Recommended:
    """A round ended with this watermark against this incumbent; ``score_gain`` is the twin's.

    ``disagreement`` is how far its two engines differ, None where only one was asked.
    """

    at_s: float
    watermark: Watermark
    incumbent: Watermark
    score_gain: float
    disagreement: float | None = None


Event = TelemetryArrived | QueuePredicted | QueueMeasured | WatermarkChanged | Recommended


class HoldReason(Enum):
    """Why a recommendation is not issued."""

    NO_CHANGE = "no_change"
    GAIN_BELOW_MARGIN = "gain_below_margin"
    TELEMETRY_STALE = "telemetry_stale"
    COOLING_DOWN = "cooling_down"
    TWIN_OUT_OF_STEP = "twin_out_of_step"
    ENGINES_DISAGREE = "engines_disagree"


@dataclass(frozen=True, slots=True)
class Issue:
    """Hand this watermark on; ``shortened`` where bounds or step limit stopped short of the recommended."""

    watermark: Watermark
    shortened: bool


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep the incumbent, for this reason, said in one sentence."""

    reason: HoldReason
    sentence: str


Action = Issue | Hold


def advance(
    state: GuardState, event: Event, settings: GuardSettings
) -> tuple[GuardState, tuple[Action, ...]]:
    """The next state and what to do. Only ``Recommended`` causes actions: one ``Issue``, or every ``Hold``
    that applies.

    A change forgets the prediction made for the watermark before it, but not the residual: a twin out of step
    stays so until a comparison clears it.
    """
    match event:
        case TelemetryArrived(at_s):
            latest = at_s if state.telemetry_at_s is None else max(at_s, state.telemetry_at_s)
            return replace(state, telemetry_at_s=latest), ()
        case QueuePredicted(queue_mean_bytes):
            return replace(state, predicted_queue_bytes=_measurable(queue_mean_bytes)), ()
        case QueueMeasured(queue_mean_bytes):
            return replace(state, residual=_residual(state, _measurable(queue_mean_bytes))), ()
        case WatermarkChanged(at_s):
            return replace(state, changed_at_s=at_s, predicted_queue_bytes=None), ()
        case Recommended():
            return state, _decide(state, event, settings)


def in_step(state: GuardState, settings: GuardSettings) -> bool:
    """The fidelity gate: whether the last comparison, if any, was within the limit."""
    if state.residual is None:
        return True
    return 1 / settings.residual_limit <= state.residual <= settings.residual_limit


def cooling_down(state: GuardState, at_s: float, settings: GuardSettings) -> Hold | None:
    """The hold of the last change, where it has not had ``cool_down_s`` to show."""
    if state.changed_at_s is None or at_s - state.changed_at_s >= settings.cool_down_s:
        return None
    left = duration_text(settings.cool_down_s - (at_s - state.changed_at_s))
    return Hold(HoldReason.COOLING_DOWN, f"Held: the last change cools down for another {left}.")


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


def _decide(state: GuardState, event: Recommended, settings: GuardSettings) -> tuple[Action, ...]:
    holds = _holds(state, event, settings)
    if holds:
        return holds
    watermark = within_step(event.incumbent, event.watermark, settings.max_step)
    if not settings.bounds.contains(watermark):
        # Only a step cut short of an incumbent outside the bounds ends outside them: go all the way to the
        # bounds.
        watermark = _into(watermark, settings.bounds)
    if watermark == event.incumbent:
        return (Hold(HoldReason.NO_CHANGE, "Held: inside the bounds the recommendation is the incumbent."),)
    return (Issue(watermark, shortened=watermark != event.watermark),)


def _holds(state: GuardState, event: Recommended, settings: GuardSettings) -> tuple[Hold, ...]:
    if event.watermark == event.incumbent:
        return (Hold(HoldReason.NO_CHANGE, "Held: the recommendation is to keep the incumbent."),)
    holds = []
    if not event.score_gain > settings.margin:
        holds.append(
            Hold(
                HoldReason.GAIN_BELOW_MARGIN,
                f"Held: a gain of {event.score_gain:.3f} does not exceed the margin of {settings.margin:g}.",
            )
        )
    if state.telemetry_at_s is None:
        holds.append(Hold(HoldReason.TELEMETRY_STALE, "Held: no telemetry has arrived yet."))
    elif event.at_s - state.telemetry_at_s > settings.fresh_for_s:
        age, limit = duration_text(event.at_s - state.telemetry_at_s), duration_text(settings.fresh_for_s)
        holds.append(Hold(HoldReason.TELEMETRY_STALE, f"Held: the last report is {age} old, above {limit}."))
    cooling = cooling_down(state, event.at_s, settings)
    if cooling is not None:
        holds.append(cooling)
    if not in_step(state, settings):
        holds.append(
            Hold(
                HoldReason.TWIN_OUT_OF_STEP,
                f"Held: the measured queue is {state.residual:.2f} times the predicted one, "
                f"outside 1/{settings.residual_limit:g} to {settings.residual_limit:g}.",
            )
        )
    if event.disagreement is not None and not event.disagreement <= settings.disagreement_limit:
        holds.append(
            Hold(
                HoldReason.ENGINES_DISAGREE,
                f"Held: the twin's engines disagree by {percent_text(event.disagreement)}, "
                f"beyond the limit of {percent_text(settings.disagreement_limit)}.",
            )
        )
    return tuple(holds)


def _into(watermark: Watermark, bounds: WatermarkBounds) -> Watermark:
    kmax = max(watermark.kmax_bytes, bounds.kmax_low_bytes, bounds.kmin_low_bytes + 1)
    kmax = min(kmax, bounds.kmax_high_bytes)
    kmin = min(max(watermark.kmin_bytes, bounds.kmin_low_bytes), bounds.kmin_high_bytes, kmax - 1)
    return Watermark(kmin, kmax, min(max(watermark.pmax, bounds.pmax_low), bounds.pmax_high))


def _residual(state: GuardState, measured_bytes: float) -> float | None:
    if state.predicted_queue_bytes is None:
        return state.residual
    return (measured_bytes + RESIDUAL_OFFSET_BYTES) / (state.predicted_queue_bytes + RESIDUAL_OFFSET_BYTES)


def _measurable(queue_bytes: float) -> float:
    if not (math.isfinite(queue_bytes) and queue_bytes >= 0):
        raise ParameterError(
            "guard queue",
            bytes_text(queue_bytes) if math.isfinite(queue_bytes) else str(queue_bytes),
            "a mean queue is finite and 0 or more",
            "leave the comparison out",
        )
    return queue_bytes
