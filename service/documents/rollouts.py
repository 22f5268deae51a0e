"""Rollouts as documents."""

from __future__ import annotations

from typing import Any, Self

import msgspec
from pydantic import ConfigDict

from service.documents.base import Asked, Document, Figure, timestamp
from service.documents.predictions import WatermarkDocument
from service.documents.switches import watermark_document
from service.rollouts.freeze import Freeze
from service.rollouts.runner import Rollout
from switches.rollout.events import Checked, Event, Failed, Measured, Proposed, Staged, ToSwitch
from switches.rollout.plan import Figures
from switches.rollout.state import SwitchProgress
from telemetry.settings import NS_PER_S
from twin.watermark import Watermark


class FiguresSeenDocument(Document):
    """What telemetry saw of the switches set so far; null: not reported."""

    queue_mean_bytes: Figure
    throughput_bytes_per_s: Figure
    pause_share: Figure
    pfc_frames_per_s: Figure
    drops_per_s: Figure

    @classmethod
    def of(cls, figures: Figures) -> Self:
        """The document of such figures."""
        return cls(**msgspec.structs.asdict(figures))


class RolloutSwitchDocument(Document):
    """One switch of a rollout.

    ``progress``: waiting, staged, applying, applied, verified, set, restored, left_alone. ``target`` is what
    was wanted, ``after`` what the device holds of it (``notes`` say why it differs), ``before`` what it ran
    (null where its queues differed), ``read_back`` what it was read to run after. ``detail``: the last
    failure.
    """

    switch: str
    stage: int
    writes: bool
    progress: str
    target: WatermarkDocument
    before: WatermarkDocument | None
    after: WatermarkDocument | None
    read_back: WatermarkDocument | None
    diff: str
    notes: list[str]
    detail: str

    @classmethod
    def of(cls, name: str, one: SwitchProgress, *, stage: int, writes: bool, target: Watermark) -> Self:
        """The document of one switch."""
        change = one.change
        return cls(
            switch=name,
            stage=stage,
            writes=writes,
            progress=one.progress.value,
            target=WatermarkDocument.of(target),
            before=None if change is None else watermark_document(change.ran),
            after=None if change is None else WatermarkDocument.of(change.after),
            read_back=watermark_document(one.runs),
            diff="" if change is None else change.diff,
            notes=[] if change is None else list(change.notes),
            detail=one.detail,
        )


class RolloutEventDocument(Document):
    """One thing that happened; ``what`` is its name in the journal."""

    at: str
    what: str
    switch: str | None
    detail: str


class PhaseDocument(Document):
    """A phase, and when it began."""

    at: str
    phase: str


class RolloutDocument(Document):
    """A rollout.

    ``phase``: proposed, approved, canary, soak, fleet, done, rolling_back, rolled_back; ``why`` says why it
    turned back. ``stages`` are switches in the order they are set, the canary first; ``stage`` counts them.
    ``seen`` is what telemetry saw last of the switches set so far, ``before`` and ``predicted`` what the same
    were and were expected to be. ``stalled``: why nothing goes on just now. ``events`` are null in lists.
    """

    id: str
    recommendation: str
    phase: str
    ended: bool
    why: str | None
    approved_by: str | None
    frozen: bool
    stalled: str | None
    proposed_at: str
    since: str
    stage: int
    stages: list[list[str]]
    phases: list[PhaseDocument]
    soak_s: float
    soak_from: str | None
    seen: FiguresSeenDocument | None
    before: FiguresSeenDocument
    predicted: FiguresSeenDocument
    switches: list[RolloutSwitchDocument]
    events: list[RolloutEventDocument] | None

    @classmethod
    def of(cls, rollout: Rollout, *, events: bool = True) -> Self:
        """The document of a rollout."""
        state, plan = rollout.state, rollout.state.plan
        return cls(
            id=plan.id,
            recommendation=plan.recommendation,
            phase=state.phase.value,
            ended=state.phase.ended,
            why=state.why,
            approved_by=state.approved_by,
            frozen=state.frozen,
            stalled=rollout.stalled,
            proposed_at=_at(state.proposed_s),
            since=_at(state.since_s),
            stage=state.stage,
            stages=[list(stage) for stage in plan.stages],
            phases=[PhaseDocument(at=_at(at_s), phase=phase.value) for at_s, phase in state.phases],
            soak_s=plan.soak_s(state.stage),
            soak_from=None if state.soak_from_s is None else _at(state.soak_from_s),
            seen=None if state.measured is None else FiguresSeenDocument.of(state.measured),
            before=FiguresSeenDocument.of(plan.known(plan.before, state.stage)),
            predicted=FiguresSeenDocument.of(plan.known(plan.predicted, state.stage)),
            switches=[
                RolloutSwitchDocument.of(
                    name,
                    state.switches[name],
                    stage=stage,
                    writes=name in plan.written,
                    target=plan.targets[name],
                )
                for stage, names in enumerate(plan.stages)
                for name in names
            ],
            events=[_event(event) for event in rollout.events] if events else None,
        )


class RolloutsDocument(Document):
    """The newest rollouts first, out of ``total`` remembered."""

    total: int
    rollouts: list[RolloutDocument]


class FreezeDocument(Document):
    """Whether switches may be set; ``by`` whom and when that was last changed. ``unknown``: why that is not
    known, while the journal of rollouts cannot be read; until then ``frozen`` is true, and none is set.
    """

    frozen: bool
    by: str | None
    at: str | None
    unknown: str | None

    @classmethod
    def of(cls, freeze: Freeze) -> Self:
        """The document of the switch."""
        at = None if freeze.at_s is None else _at(freeze.at_s)
        return cls(frozen=freeze.frozen, by=freeze.by, at=at, unknown=freeze.unknown)


class FreezeInput(Asked):
    """What an operator wants."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    frozen: bool


def _event(event: Event) -> RolloutEventDocument:
    return RolloutEventDocument(
        at=_at(event.at_s),
        what=type(event).__name__,
        switch=event.switch if isinstance(event, ToSwitch) else None,
        detail=_detail(event),
    )


def _detail(event: Event) -> str:
    match event:
        case Proposed(plan=plan):
            return f"{len(plan.switches)} switches in {len(plan.stages)} stages"
        case Staged(change=change):
            return "; ".join(change.notes)
        case Checked(switches=switches):
            return ", ".join(switches)
        case Failed(step=step, reason=reason, sentence=sentence):
            return f"{step} ({reason}): {sentence}"
        case Measured(figures=figures):
            seen: dict[str, Any] = msgspec.structs.asdict(figures)
            return ", ".join(f"{name} {value:.4g}" for name, value in seen.items() if value is not None)
    for name in ("sentence", "by"):
        if (said := getattr(event, name, None)) is not None:
            return str(said)
    return ""


def _at(at_s: float) -> str:
    return timestamp(round(at_s * NS_PER_S))
