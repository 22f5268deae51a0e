"""The fields of the service's documents that commands show; unknown fields are ignored, as newer services add
some.

``service.documents`` is not used: it takes a second to import (SQLAlchemy, SciPy) and refuses unknown fields.
"""

from __future__ import annotations

from typing import Any

import msgspec


class MarkAnswer(msgspec.Struct, frozen=True):
    kmin_bytes: int
    kmax_bytes: int
    pmax: float


class SlowdownAnswer(msgspec.Struct, frozen=True):
    """Completion time ÷ completion time alone, of a class of flows or of a probe."""

    mean: float | None = None
    p99: float | None = None


class PredictionAnswer(MarkAnswer, frozen=True):
    queue_mean_bytes: float | None
    queue_p99_bytes: float | None
    goodput_gbps: float | None
    marked_fraction: float | None
    loss_bytes: float | None
    pfc_pause_s: float | None
    slowdown: dict[str, SlowdownAnswer]
    score: float | None
    probe_slowdown: SlowdownAnswer = SlowdownAnswer()
    score_error: float | None = None


class CandidateAnswer(PredictionAnswer, frozen=True, kw_only=True):
    origin: str
    source: str


class ImprovementAnswer(msgspec.Struct, frozen=True):
    score_gain: float | None
    relative: dict[str, float | None]
    score_error: float | None = None


class OpinionAnswer(msgspec.Struct, frozen=True):
    sentence: str


class ExpiredAnswer(msgspec.Struct, frozen=True):
    at: str
    reason: str


class BlockAnswer(msgspec.Struct, frozen=True):
    """What an approval waits for."""

    reason: str
    remedy: str = ""


class SupportAnswer(msgspec.Struct, frozen=True):
    rounds: int
    last: str
    moments: int
    traffic_s: float
    hour_rounds: int
    hour_agreeing: int
    changed: str | None


class SettingChangeAnswer(msgspec.Struct, frozen=True):
    name: str
    kind: str
    unit: str
    before: float | None
    after: float | None
    share: float | None


class SensitivityAnswer(msgspec.Struct, frozen=True):
    name: str
    unit: str
    before: float | None
    best: float | None
    gain: float | None
    worst: float | None


class RoleMarkAnswer(MarkAnswer, frozen=True, kw_only=True):
    role: str


class CoTuningAnswer(msgspec.Struct, frozen=True):
    sentence: str
    watermark: MarkAnswer
    changes: list[SettingChangeAnswer]
    sensitivities: list[SensitivityAnswer]
    connectx: dict[str, int]
    recommended: bool = False
    by_role: list[RoleMarkAnswer] = []
    connectx_by_class: dict[str, dict[str, int]] = {}

    @property
    def beside(self) -> list[str]:
        """What it changes beside one watermark for all ports, as parts of an approval."""
        nics = self.connectx or any(self.connectx_by_class.values())
        return [part for part, changes in (("nic", nics), ("roles", self.by_role)) if changes]


class PortLoadAnswer(msgspec.Struct, frozen=True):
    port: str
    rate_gbps: float
    load_gbps: float
    elephants: int


class PathMoveAnswer(msgspec.Struct, frozen=True):
    sport: int
    dport: int
    src_host: str
    dst_host: str
    before: str
    after: str


class PathGoodputAnswer(msgspec.Struct, frozen=True):
    engine: str
    before_gbps: float | None
    after_gbps: float | None


class MovedAnswer(msgspec.Struct, frozen=True):
    advised: bool
    moves: list[PathMoveAnswer]
    first: PathGoodputAnswer
    second: PathGoodputAnswer | None


class PathFixAnswer(msgspec.Struct, frozen=True):
    switch: str
    sentence: str
    ports: list[PortLoadAnswer]
    moved: MovedAnswer | None


class PathsAnswer(msgspec.Struct, frozen=True):
    sentence: str
    notes: list[str]
    collisions: list[PathFixAnswer]


class ConditionAnswer(msgspec.Struct, frozen=True):
    level: str
    sentence: str


class RecommendationAnswer(msgspec.Struct, frozen=True):
    id: str
    created: str
    status: str
    recommendation: PredictionAnswer
    incumbent: PredictionAnswer
    changes: bool
    why: str
    remarks: list[str]
    notes: list[str]
    left_out: list[str]
    improvement: ImprovementAnswer
    candidates: list[CandidateAnswer]
    second_opinion: OpinionAnswer | None
    wall_s: float
    decided_by: str | None
    decided_at: str | None
    staged: MarkAnswer | None
    switches: list[str]
    holds: list[str]
    caution: str | None
    rollout: str | None
    score_is: str = "normalised"
    expired: ExpiredAnswer | None = None
    blocked: list[BlockAnswer] = []
    support: SupportAnswer | None = None
    co_tuning: CoTuningAnswer | None = None
    sets: list[str] = []
    nics_refused: str | None = None
    roles_refused: str | None = None
    paths: PathsAnswer | None = None

    @property
    def settable(self) -> CoTuningAnswer | None:
        """What an approval can set beside the watermark; None where it would be refused."""
        found = self.co_tuning
        if found is None or not found.recommended or not found.beside:
            return None
        refused = {"nic": self.nics_refused, "roles": self.roles_refused}
        return None if any(refused[part] for part in found.beside) else found

    @property
    def wanted(self) -> MarkAnswer:
        """The watermark that an approval sets: the recommendation, or a step towards it."""
        return self.staged or self.recommendation


class AdviceAnswer(msgspec.Struct, frozen=True):
    watermark: MarkAnswer | None
    why: str


class AdviserAnswer(msgspec.Struct, frozen=True):
    problem: str | None
    newest: AdviceAnswer | None
    confirmed: int
    contradicted: int
    version: int | None = None


class RecommendationsAnswer(msgspec.Struct, frozen=True):
    total: int
    recommendations: list[RecommendationAnswer]


class RoleTargetAnswer(RoleMarkAnswer, frozen=True, kw_only=True):
    ports: list[str]


class RolloutSwitchAnswer(msgspec.Struct, frozen=True):
    switch: str
    stage: int
    writes: bool
    progress: str
    target: MarkAnswer
    before: MarkAnswer | None
    after: MarkAnswer | None
    notes: list[str]
    detail: str
    by_role: list[RoleTargetAnswer] = []


class RolloutHostAnswer(msgspec.Struct, frozen=True):
    host: str
    stage: int
    writes: bool
    progress: str
    target: dict[str, int]
    diff: str
    detail: str


class RolloutHashAnswer(msgspec.Struct, frozen=True):
    switch: str
    writes: bool
    progress: str
    target: str
    before: str | None
    detail: str


class HashAnswer(msgspec.Struct, frozen=True):
    setting: str
    value: str | None
    choices: list[str]
    fields: list[str] | None
    fixed: str | None = None
    notes: list[str] = []


class RolloutEventAnswer(msgspec.Struct, frozen=True):
    at: str
    what: str
    switch: str | None
    detail: str


class RolloutSummaryAnswer(msgspec.Struct, frozen=True):
    switches: int
    written: int
    progress: dict[str, int]
    written_progress: dict[str, int]
    left_alone: list[str]
    hosts: int = 0
    hosts_written: int = 0
    hosts_progress: dict[str, int] = {}
    left_out: list[str] = []
    given_up: list[str] = []

    @property
    def counted(self) -> int:
        """Of how many switches ``done`` is told: those that are written, or in a dry run all."""
        return self.written or self.switches

    @property
    def done(self) -> int:
        """How many of these run the new watermark."""
        progress = self.written_progress if self.written else self.progress
        return progress.get("verified", 0) + progress.get("set", 0)

    @property
    def hosts_done(self) -> int:
        """How many hosts' NICs run the new values."""
        return self.hosts_progress.get("verified", 0) + self.hosts_progress.get("set", 0)


class ListedRolloutAnswer(msgspec.Struct, frozen=True):
    """A rollout without its switches one by one, as ``LISTED_ROLLOUT`` asks for it."""

    id: str
    phase: str
    ended: bool
    why: str | None
    approved_by: str | None
    stalled: str | None
    proposed_at: str
    since: str
    stage: int
    stages: list[list[str]]
    summary: RolloutSummaryAnswer

    @property
    def writes(self) -> bool:
        """Whether it writes to any switch or host; otherwise it is a dry run."""
        return self.summary.written + self.summary.hosts_written > 0


LISTED_ROLLOUT = ",".join(ListedRolloutAnswer.__struct_fields__)


class RolloutAnswer(ListedRolloutAnswer, frozen=True):
    recommendation: str
    switches: list[RolloutSwitchAnswer]
    events: list[RolloutEventAnswer] | None
    hosts: list[RolloutHostAnswer] = []
    hashes: list[RolloutHashAnswer] = []


class RolloutsAnswer(msgspec.Struct, frozen=True):
    total: int
    rollouts: list[ListedRolloutAnswer]


class FlowAnswer(msgspec.Struct, frozen=True):
    sport: int
    dport: int
    src_host: str
    dst_host: str
    flow_class: str
    window_bytes: float
    throughput_bytes_per_s: float
    reports: int
    path: list[str]


class FlowsAnswer(msgspec.Struct, frozen=True):
    total: int
    flows: list[FlowAnswer]


class AcknowledgementAnswer(msgspec.Struct, frozen=True):
    by: str
    at: str
    note: str | None


class SilenceAnswer(msgspec.Struct, frozen=True):
    """``kind`` and ``switch`` are None where the silence covers any."""

    id: str
    kind: str | None
    switch: str | None
    until: str
    by: str
    note: str | None


class SilencesAnswer(msgspec.Struct, frozen=True):
    silences: list[SilenceAnswer]


class AlarmSubjectAnswer(msgspec.Struct, frozen=True):
    subject: str


class AlarmAnswer(msgspec.Struct, frozen=True):
    """``id`` and the fields after ``why`` are missing from services that do not join alarms by cause."""

    kind: str
    subject: str
    level: str
    since: str
    sentence: str
    look: str
    ended: str | None
    why: str | None
    id: str = ""
    subjects: list[AlarmSubjectAnswer] = []
    subject_count: int = 1
    carried: bool = False
    acknowledged: AcknowledgementAnswer | None = None
    silenced: SilenceAnswer | None = None
    group: str | None = None


class AlarmGroupAnswer(msgspec.Struct, frozen=True):
    id: str
    level: str
    switch_count: int
    alarm_count: int
    open_count: int
    sentence: str


class AlarmsAnswer(msgspec.Struct, frozen=True):
    """``alarms`` are the current ones, worst first; ``groups`` joins those that began at once."""

    warning: int
    critical: int
    left_off: int
    alarms: list[AlarmAnswer]
    ended: list[AlarmAnswer] | None
    acknowledged: int = 0
    silenced: int = 0
    open_warning: int = 0
    open_critical: int = 0
    groups: list[AlarmGroupAnswer] = []
    open_causes: int = 0
    notes: list[str] = []


class ForecastPathAnswer(msgspec.Struct, frozen=True):
    at: list[str]
    throughput_bytes_per_s: list[float | None]
    low_bytes_per_s: list[float | None]
    high_bytes_per_s: list[float | None]
    error_bytes_per_s: list[float | None]


class PortForecastAnswer(msgspec.Struct, frozen=True):
    """``then_at``: begin of the busiest step within the horizon; ``why``: there is no forecast."""

    switch: str
    port: str
    why: str | None
    method: str | None
    now_bytes_per_s: float | None
    then_bytes_per_s: float | None
    then_at: str | None
    error_bytes_per_s: float | None
    low_bytes_per_s: float | None
    high_bytes_per_s: float | None
    utilisation: float | None
    path: ForecastPathAnswer | None


class ForecastAnswer(msgspec.Struct, frozen=True):
    why: str | None
    ports: list[PortForecastAnswer]
    total: int


class FreezeAnswer(msgspec.Struct, frozen=True):
    """``unknown``: why the state of the freeze is not known; ``saved``: a restart keeps it."""

    frozen: bool
    by: str | None
    at: str | None
    unknown: str | None = None
    saved: bool = True


class CapabilitiesAnswer(msgspec.Struct, frozen=True):
    """``reads`` False: no device is asked what runs."""

    reads: bool = True


class SwitchAnswer(msgspec.Struct, frozen=True):
    """``queues`` is empty unless they differ."""

    name: str
    writes: bool
    reachable: bool
    running: MarkAnswer | None
    queues: list[Any]
    drifted: bool
    untuned: bool
    capabilities: CapabilitiesAnswer = CapabilitiesAnswer()

    @property
    def assumed(self) -> bool:
        """Whether ``running`` is from the settings: a dry run without a device asks nobody."""
        return not self.capabilities.reads


class QueueAnswer(msgspec.Struct, frozen=True):
    switch: str
    port: str
    queue: int
    depth_mean_bytes: float | None
    depth_p99_bytes: float | None


class StateAnswer(msgspec.Struct, frozen=True):
    duration_s: float
    reports: int
    dominant_class: str
    flows: dict[str, int]
    queue_count: int
    queues: list[QueueAnswer]
    age_s: float | None
    stale: bool


class HealthAnswer(msgspec.Struct, frozen=True):
    version: str


class ReadinessAnswer(msgspec.Struct, frozen=True):
    ready: bool
    reasons: list[str]
