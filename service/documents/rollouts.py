"""Rollouts as documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field

from rollout.state import (
    Checked,
    Event,
    Failed,
    HashStaged,
    Measured,
    Progress,
    Proposed,
    RolloutState,
    Staged,
    ToMember,
)
from service.documents.alarms import LONGEST_NOTE
from service.documents.base import Document, Figure, RequestBody, SwitchName, Time, timestamp
from service.documents.predictions import WatermarkDocument, watermark_document
from service.documents.switches import RoleTargetDocument, role_targets
from service.rollouts.rollout import Freeze, Rollout
from store.tables import NAME_LENGTH
from switches.base import StagedChange
from switches.hashing.values import StagedHash
from telemetry.settings import NS_PER_S
from twin.units import bytes_text, percent_text


class FiguresSeenDocument(Document):
    """Telemetry of a rollout's switches; null: not reported."""

    queue_mean_bytes: Figure
    """Mean depth of their queues, in bytes."""
    throughput_bytes_per_s: Figure
    """Bytes sent a second."""
    pause_share: Figure
    """Share of time paused by PFC, from 0 to 1."""
    pfc_frames_per_s: Figure
    """PFC frames sent a second."""
    drops_per_s: Figure
    """Packets dropped a second."""


class RolloutSwitchDocument(Document):
    """One switch of a rollout."""

    switch: SwitchName
    """The switch."""
    stage: int
    """Index into `stages`, from 0."""
    writes: bool
    """Whether the device is written; false for a dry run."""
    progress: str
    """`waiting`, `staged`, `applying`, `applied`, `verified`, `set`, `restored`, `left_alone`, `given_up`."""
    target: WatermarkDocument
    """The planned watermark; where its ports are set by role, that of most ports."""
    by_role: list[RoleTargetDocument] = Field(default_factory=list)
    """The planned watermarks of its ports by role; empty where all get `target`."""
    before: WatermarkDocument | None
    """What it ran before; null where its queues differed, or it was not read yet."""
    after: WatermarkDocument | None
    """What the device makes of the target; null before it was staged."""
    read_back: WatermarkDocument | None
    """What was read afterwards; null before that."""
    diff: str
    """The change as the platform shows it; empty before it was staged."""
    notes: list[str]
    """Sentences on why `after` differs from `target`."""
    detail: str
    """The last failure, in a sentence; of one given up, who did, why, and what may be left; empty without."""

    @classmethod
    def of(cls, name: str, state: RolloutState, stage: int) -> Self:
        one, plan = state.members[name], state.plan
        change = one.change if isinstance(one.change, StagedChange) else None
        return cls(
            switch=name,
            target=WatermarkDocument.of(plan.targets[name]),
            by_role=role_targets(plan.by_role.get(name, {})),
            before=None if change is None else watermark_document(change.ran),
            after=None if change is None else WatermarkDocument.of(change.after),
            read_back=watermark_document(one.runs),
            notes=[] if change is None else list(change.notes),
            **_member(name, state, stage),
        )


class RolloutHostDocument(Document):
    """One host of a rollout, whose NICs are set."""

    host: str
    """The host."""
    stage: int
    """Index into `stages`, from 0."""
    writes: bool
    """Whether its NICs are written; false for a dry run."""
    progress: str
    """As of a switch, or `left_out`: it could not be reached before anything was set."""
    target: dict[str, int]
    """The planned values, by the driver's names."""
    diff: str
    """The change of each NIC; empty before it was staged."""
    detail: str
    """The last failure, in a sentence; empty without one."""

    @classmethod
    def of(cls, name: str, state: RolloutState, stage: int) -> Self:
        return cls(host=name, target=dict(state.plan.nics[name]), **_member(name, state, stage))


class RolloutHashDocument(Document):
    """One switch of a rollout, of which what it hashes flows by is set."""

    switch: str
    """The switch."""
    stage: int
    """Index into `stages`, from 0."""
    writes: bool
    """Whether it is written; false for a dry run."""
    progress: str
    """As of a switch whose watermark is set."""
    target: str
    """The planned value."""
    before: str | None
    """What it hashed by; null before it was staged, and where the switch chooses one itself."""
    diff: str
    """The change; empty before it was staged."""
    detail: str
    """The last failure, in a sentence; empty without one."""

    @classmethod
    def of(cls, name: str, state: RolloutState, stage: int) -> Self:
        change = state.members[name].change
        return cls(
            switch=name,
            target=state.plan.hashes[name],
            before=change.before if isinstance(change, StagedHash) else None,
            **_member(name, state, stage),
        )


class RolloutSummaryDocument(Document):
    """The members of a rollout, counted: what a list shows of hundreds without `switches` and `hosts`."""

    switches: int
    """How many switches there are."""
    written: int
    """How many of them are written; 0 in a dry run."""
    progress: dict[str, int]
    """How many have come how far, by the `progress` of `switches`."""
    written_progress: dict[str, int]
    """The same of those that are written: a dry run of the others comes as far, and sets nothing."""
    left_alone: list[SwitchName]
    """Switches and hosts that are left alone, since someone else has set them."""
    given_up: list[SwitchName]
    """Switches and hosts whose undo kept failing and was given up: they may still run the change."""
    target: WatermarkDocument | None
    """The planned watermark of the first; null where none is set."""
    hosts: int
    """How many hosts there are, whose NICs are set."""
    hosts_written: int
    """How many of them are written; 0 in a dry run."""
    hosts_progress: dict[str, int]
    """How many have come how far, by the `progress` of `hosts`."""
    left_out: list[str]
    """Hosts that are left out, as they could not be reached before anything was set."""

    @classmethod
    def of(cls, state: RolloutState) -> Self:
        plan, members = state.plan, state.members
        return cls(
            switches=len(plan.switches),
            written=sum(name not in plan.nics for name in plan.written),
            progress=Counter(members[name].progress.value for name in plan.switches),
            written_progress=Counter(
                members[name].progress.value for name in plan.written if name not in plan.nics
            ),
            left_alone=[name for name in plan.members if members[name].progress is Progress.LEFT_ALONE],
            given_up=[name for name in plan.members if members[name].progress is Progress.GIVEN_UP],
            target=next(
                (WatermarkDocument.of(mark) for mark in map(plan.targets.get, plan.switches) if mark), None
            ),
            hosts=len(plan.hosts),
            hosts_written=sum(name in plan.nics for name in plan.written),
            hosts_progress=Counter(members[name].progress.value for name in plan.hosts),
            left_out=[name for name in plan.hosts if members[name].progress is Progress.LEFT_OUT],
        )


class RolloutEventDocument(Document):
    """One event of the journal."""

    at: Time
    """When it happened."""
    what: str
    """Name of the event."""
    switch: SwitchName | None
    """The switch or host it concerns; null where it concerns all."""
    detail: str
    """More, in a phrase; may be empty."""


class PhaseDocument(Document):
    """A phase and its start."""

    at: Time
    """When it began."""
    phase: str
    """Name of the phase."""


class RolloutDocument(Document):
    """A rollout: how far a change has come."""

    id: str
    """Id of the rollout."""
    recommendation: str
    """Id of the recommendation it carries out."""
    phase: str
    """`proposed`, `approved`, `canary`, `soak`, `fleet`, `done`, `rolling_back` or `rolled_back`."""
    ended: bool
    """Whether it has ended."""
    why: str | None
    """Reason of a rollback; null without one."""
    approved_by: str | None
    """Who approved it; null before that."""
    frozen: bool
    """Whether it waits because switches are frozen."""
    stalled: str | None
    """Why it does not proceed now, in a sentence; null where it does."""
    proposed_at: Time
    """When it was proposed."""
    since: Time
    """When its phase began."""
    stage: int
    """Index into `stages`, from 0: the stage under way."""
    stages: list[list[str]]
    """Switches and hosts in the order they are set, the canary first."""
    phases: list[PhaseDocument]
    """The phases so far."""
    soak_s: float
    """How long telemetry is watched after this stage, in seconds."""
    soak_from: Time | None
    """When that began; null before that."""
    seen: FiguresSeenDocument | None
    """Last telemetry of the switches set so far, of all once NICs are; null before that."""
    before: FiguresSeenDocument
    """What it was before the change."""
    predicted: FiguresSeenDocument
    """What it was expected to be."""
    summary: RolloutSummaryDocument
    """Its switches and hosts, counted."""
    switches: list[RolloutSwitchDocument]
    """One per switch, in the order they are set."""
    hosts: list[RolloutHostDocument]
    """One per host, in the order they are set."""
    hashes: list[RolloutHashDocument]
    """One per switch of which what it hashes by is set; those are not in `switches`."""
    events: list[RolloutEventDocument] | None
    """All events; null in lists."""

    @classmethod
    def of(cls, rollout: Rollout, *, switches: bool = True, hosts: bool = True, events: bool = True) -> Self:
        """``switches`` and ``hosts``: whether to list them; one by one they are most of it."""
        state, plan = rollout.state, rollout.state.plan
        members = [(name, stage) for stage, names in enumerate(plan.stages) for name in names]
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
            summary=RolloutSummaryDocument.of(state),
            switches=[
                RolloutSwitchDocument.of(name, state, stage)
                for name, stage in members
                if switches and name not in plan.nics and name not in plan.hashes
            ],
            hosts=[
                RolloutHostDocument.of(name, state, stage)
                for name, stage in members
                if hosts and name in plan.nics
            ],
            hashes=[
                RolloutHashDocument.of(name, state, stage) for name, stage in members if name in plan.hashes
            ],
            events=[_event(event) for event in rollout.events] if events else None,
        )


class RolloutsDocument(Document):
    """The newest first, out of ``total`` remembered."""

    total: int
    """How many are remembered."""
    rollouts: list[RolloutDocument]
    """The newest first, without their events."""
    next: str | None
    """Id to pass as `before` for older ones; null where there are none."""


class FreezeDocument(Document):
    """Whether switches may be set."""

    frozen: bool
    """True: no switch is set and no rollout begins; rollbacks continue."""
    by: str | None
    """Who last changed that; null where nobody did."""
    at: Time | None
    """When that was; null where nobody did."""
    unknown: str | None
    """Why the journal of rollouts cannot be read; until then `frozen` is true. Null where it can."""
    saved: bool
    """False until the database has what is said here: it ends with the service if that ends before."""

    @classmethod
    def of(cls, freeze: Freeze) -> Self:
        return cls.from_attributes(freeze, at=None if freeze.at_s is None else _at(freeze.at_s))


class GiveUpInput(RequestBody):
    """Whose undo is given up, and why."""

    model_config = ConfigDict(frozen=True, strict=True)

    member: Annotated[str, Field(min_length=1, max_length=NAME_LENGTH, examples=["leaf1"])]
    """The switch or host."""
    reason: Annotated[str, Field(min_length=1, max_length=LONGEST_NOTE, examples=["it is replaced"])]
    """For the rollout's record and the audit log."""


class FreezeInput(RequestBody):
    """Freeze or thaw."""

    model_config = ConfigDict(frozen=True, strict=True)

    frozen: bool
    """True lets no switch be set until false."""


def _member(name: str, state: RolloutState, stage: int) -> dict[str, Any]:
    """The fields that documents of all members have."""
    one = state.members[name]
    return {
        "stage": stage,
        "writes": name in state.plan.written,
        "progress": one.progress.value,
        "diff": "" if one.change is None else one.change.diff,
        "detail": one.detail,
    }


def _event(event: Event) -> RolloutEventDocument:
    return RolloutEventDocument(
        at=_at(event.at_s),
        what=type(event).__name__,
        switch=event.switch if isinstance(event, ToMember) else None,
        detail=_detail(event),
    )


def _detail(event: Event) -> str:
    match event:
        case Proposed(plan=plan):
            hosts = f" and {_several(len(plan.hosts), 'host')}" if plan.nics else ""
            switches = _several(len(plan.switches), "switch", "es")
            return f"{switches}{hosts} in {_several(len(plan.stages), 'stage')}"
        case Staged(change=change) | HashStaged(change=change):
            return "; ".join(change.notes)
        case Checked(switches=switches):
            return ", ".join(switches)
        case Failed(step=step, reason=reason, sentence=sentence):
            return f"{step} ({reason}): {sentence}"
        case Measured(figures=figures):
            return ", ".join(
                f"{label} {text(value)}"
                for name, (label, text) in _MEASURED.items()
                if (value := getattr(figures, name)) is not None
            )
    for name in ("sentence", "by"):
        if (said := getattr(event, name, None)) is not None:
            return str(said)
    return ""


_MEASURED: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "queue_mean_bytes": ("mean queue", bytes_text),
    "throughput_bytes_per_s": ("throughput", lambda value: f"{value * 8e-9:.4g} Gbit/s"),
    "pause_share": ("ports paused", percent_text),
    "pfc_frames_per_s": ("PFC frames sent", lambda value: f"{value:.4g} a second"),
    "drops_per_s": ("packets dropped", lambda value: f"{value:.4g} a second"),
}


def _several(number: int, thing: str, ending: str = "s") -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}{ending}"


def _at(at_s: float) -> str:
    return timestamp(round(at_s * NS_PER_S))
