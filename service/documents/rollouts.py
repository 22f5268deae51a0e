"""Rollouts as documents."""

from __future__ import annotations

from typing import Any, Self

import msgspec
from pydantic import ConfigDict

from service.documents.base import Document, Figure, RequestBody, timestamp
from service.documents.predictions import WatermarkDocument
from service.documents.switches import watermark_document
from service.rollouts.rollout import Freeze, Rollout
from switches.rollout.state import (
    Checked,
    Event,
    Failed,
    Measured,
    Proposed,
    Staged,
    SwitchProgress,
    ToSwitch,
)
from telemetry.settings import NS_PER_S
from twin.watermark import Watermark


class FiguresSeenDocument(Document):
    """Telemetry of the switches set so far; null: not reported."""

    queue_mean_bytes: Figure
    throughput_bytes_per_s: Figure
    pause_share: Figure
    pfc_frames_per_s: Figure
    drops_per_s: Figure


class RolloutSwitchDocument(Document):
    """One switch of a rollout.

    ``progress``: waiting, staged, applying, applied, verified, set, restored, left_alone. ``target`` is the
    planned watermark, ``after`` what the device makes of it (``notes`` say why it differs), ``before`` what
    it ran (null where its queues differed), ``read_back`` what was read afterwards. ``detail``: the last
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
    """One event; ``what`` is its name in the journal."""

    at: str
    what: str
    switch: str | None
    detail: str


class PhaseDocument(Document):
    """A phase and its start."""

    at: str
    phase: str


class RolloutDocument(Document):
    """A rollout.

    ``phase``: proposed, approved, canary, soak, fleet, done, rolling_back, rolled_back; ``why``: the reason
    of a rollback. ``stages`` are switches in the order they are set, the canary first; ``stage`` counts them.
    ``seen`` is the last telemetry of the switches set so far, ``before`` and ``predicted`` what it was and
    was expected to be. ``stalled``: why it does not proceed now. ``events`` are null in lists.
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
        state, plan = rollout.state, rollout.state.plan
        return cls.from_attributes(
            state,
            id=plan.id,
            recommendation=plan.recommendation,
            phase=state.phase.value,
            ended=state.phase.ended,
            stalled=rollout.stalled,
            proposed_at=_at(state.proposed_s),
            since=_at(state.since_s),
            stages=[list(stage) for stage in plan.stages],
            phases=[PhaseDocument(at=_at(at_s), phase=phase.value) for at_s, phase in state.phases],
            soak_s=plan.soak_s(state.stage),
            soak_from=None if state.soak_from_s is None else _at(state.soak_from_s),
            seen=None if state.measured is None else FiguresSeenDocument.from_attributes(state.measured),
            before=FiguresSeenDocument.from_attributes(plan.known(plan.before, state.stage)),
            predicted=FiguresSeenDocument.from_attributes(plan.known(plan.predicted, state.stage)),
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
    """The newest first, out of ``total`` remembered."""

    total: int
    rollouts: list[RolloutDocument]


class FreezeDocument(Document):
    """Whether switches may be set; ``by`` whom and when that last changed. ``unknown``: why the journal of
    rollouts cannot be read; until then ``frozen`` is true.
    """

    frozen: bool
    by: str | None
    at: str | None
    unknown: str | None

    @classmethod
    def of(cls, freeze: Freeze) -> Self:
        return cls.from_attributes(freeze, at=None if freeze.at_s is None else _at(freeze.at_s))


class FreezeInput(RequestBody):
    """Freeze or thaw."""

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
