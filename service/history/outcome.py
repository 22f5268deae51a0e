"""What became of a recommendation: which times of its rollout compare with predictions; must not read."""

from __future__ import annotations

from dataclasses import dataclass

from service.documents.base import timestamp
from service.documents.history import (
    MeasuredFiguresDocument,
    OutcomeDocument,
    PredictedDocument,
    PredictedFiguresDocument,
)
from service.documents.recommendation import RecommendationDocument
from switches.rollout.state import Phase, RolloutState

NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Times:
    """Nanoseconds since 1970. ``before`` and ``after`` are from and until, of telemetry that shows the
    switches as they were and as they were set; ``after`` is None while there is none such. ``set_ns`` is when
    the last of ``switches`` was set.
    """

    switches: tuple[str, ...]
    before: tuple[int, int]
    set_ns: int | None
    after: tuple[int, int] | None


def times_of(rollout: RolloutState, *, span_s: float, window_s: float, now_ns: int) -> Times:
    """Up to ``span_s`` on either side; ``window_s`` is how far a look at telemetry looks back."""
    span_ns, window_ns = round(span_s * NS_PER_S), round(window_s * NS_PER_S)
    proposed_ns = _ns(rollout.proposed_s)
    back_s = next((at_s for at_s, phase in rollout.phases if phase is Phase.ROLLING_BACK), None)
    set_s = _set_s(rollout)
    set_ns = None if set_s is None else _ns(set_s)
    after = None
    if set_ns is not None:
        from_ns = set_ns + window_ns
        until_ns = min(from_ns + span_ns, now_ns, now_ns if back_s is None else _ns(back_s))
        after = (from_ns, until_ns) if from_ns < until_ns else None
    ended = rollout.phase is Phase.DONE
    reached = rollout.plan.stages if ended else rollout.plan.stages[: rollout.stage + 1]
    return Times(
        switches=tuple(name for stage in reached for name in stage),
        before=(proposed_ns - span_ns, proposed_ns),
        set_ns=set_ns,
        after=after,
    )


def outcome_document(
    found: RecommendationDocument,
    rollout: RolloutState | None,
    times: Times | None,
    before: MeasuredFiguresDocument | None,
    after: MeasuredFiguresDocument | None,
) -> OutcomeDocument:
    """All of it beside each other."""
    return OutcomeDocument(
        id=found.id,
        rollout=found.rollout,
        phase=None if rollout is None else rollout.phase.value,
        switches=list(found.switches if times is None else times.switches),
        since=None if times is None or times.set_ns is None else timestamp(times.set_ns),
        until=None if times is None or times.after is None else timestamp(times.after[1]),
        predicted=PredictedDocument(
            incumbent=PredictedFiguresDocument.of(found.incumbent),
            recommended=PredictedFiguresDocument.of(found.recommendation),
            queue_change=_change(found.recommendation.queue_mean_bytes, found.incumbent.queue_mean_bytes),
        ),
        before=before,
        after=after,
        queue_change=None
        if before is None or after is None
        else _change(after.queue_mean_bytes, before.queue_mean_bytes),
        residual_ratio=found.measured.residual_ratio,
    )


def _set_s(rollout: RolloutState) -> float | None:
    """When the last switch was set of those that are, before any of it was taken back."""
    set_s: float | None = None
    until = next(
        (number for number, (_, phase) in enumerate(rollout.phases) if phase is Phase.ROLLING_BACK), None
    )
    for at_s, phase in reversed(rollout.phases[:until]):
        if phase is Phase.SOAK:
            return at_s
        if phase is not Phase.DONE:
            break  # switches were being set
        set_s = at_s
    return set_s


def _change(new: float | None, old: float | None) -> float | None:
    return new / old - 1 if new is not None and old else None


def _ns(at_s: float) -> int:
    return round(at_s * NS_PER_S)
