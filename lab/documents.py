"""JSON documents of the lab's control interface."""

from __future__ import annotations

from typing import Self

from pydantic import ConfigDict, Field

from service.documents.base import Document, RequestBody
from service.documents.predictions import ProbeDocument, SlowdownDocument, WatermarkDocument, WatermarkInput
from service.documents.switches import QueueWatermarkDocument
from twin.scenario_file import dcqcn_from_json, dcqcn_to_json
from twin.senders.dcqcn import DcqcnParams

MOST_PORTS = 4_096  # of a switch


class LabSwitchDocument(Document):
    """``watermark`` is null where its egress queues differ, ``ecmp_seed`` where it has none of its own."""

    name: str
    ecmp_seed: int | None
    watermark: WatermarkDocument | None
    queues: list[QueueWatermarkDocument]


class LabSwitchesDocument(Document):
    switches: list[LabSwitchDocument]


class DcqcnDocument(Document):
    """What the flows a host sends run, by the keys of a scenario's ``dcqcn``."""

    rai_gbps: float
    rhai_gbps: float
    g: float
    cnp_interval_us: float
    alpha_timer_us: float
    increase_timer_us: float
    byte_counter_bytes: float | None
    fast_recovery_steps: int
    min_rate_gbps: float
    clamp_target_rate: bool
    initial_alpha: float

    @classmethod
    def of(cls, params: DcqcnParams) -> Self:
        written = dcqcn_to_json(params)
        return cls.model_validate({key: written[key] for key in cls.model_fields})


class LabHostDocument(Document):
    name: str
    dcqcn: DcqcnDocument


class LabHostsDocument(Document):
    hosts: list[LabHostDocument]


class LabPortDocument(Document):
    """An egress port as ``twin.packet.results.PortReadings`` has it."""

    port: str
    sent_bytes: float
    """Since the start, on the wire, packets of all kinds; so are the other totals."""
    marked_bytes: float
    """Data packets that this port marked."""
    dropped_bytes: float
    """Data packets that found no room or were lost with the cable."""
    paused_s: float
    """How long the far end has held the port."""
    depth_byte_s: float
    """Time integral of the depth: its increase between two readings ÷ the time between is the mean."""
    depth_bytes: float
    """Data waiting now."""
    peak_bytes: float
    """Deepest since the reading before."""


class LabPortsDocument(Document):
    now_s: float
    ports: list[LabPortDocument]


class FiguresDocument(Document):
    begin_s: float
    end_s: float
    queue_mean_bytes: float
    queue_p99_bytes: float
    slowdown: dict[str, SlowdownDocument]
    completions: int
    goodput_gbps: float
    marked_fraction: float
    marked_bytes: float
    cnps: int
    pauses: int
    paused_s: float
    dropped_packets: int
    dropped_bytes: float
    probe_slowdown: ProbeDocument
    paused_share: float
    loss_share: float


class DatagramsDocument(Document):
    """``lost``: datagrams the service never took; null where it is not asked."""

    sent: int
    lost: int | None


class ReportsDocument(Document):
    """``accepted`` and ``rejected`` by the service, over HTTP only; ``datagrams`` when sent by UDP.

    ``waits_for``: why reports cannot be posted now.
    """

    made: int
    posted: int
    accepted: int
    rejected: int
    retries: int
    waits_for: str | None
    datagrams: DatagramsDocument | None = None


class CountersDocument(Document):
    accepted: int
    rejected: int


class LabDocument(Document):
    """``lately``: figures of the newest complete millisecond, or of the last advance."""

    now_s: float
    duration_s: float
    ended: bool
    stepwise: bool
    flows_offered: int
    flows_completed: int
    reports: ReportsDocument
    counters: CountersDocument
    lately: FiguresDocument | None
    links_down: list[str]
    seed: int
    version: str


class LinkDocument(Document):
    """A cable by one of its directions; both fail and recover together."""

    switch: str
    port: str
    peer: str
    up: bool


class _Asked(RequestBody):
    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False)


class AdvanceInput(_Asked):
    until_s: float


class EcmpSeedInput(_Asked):
    seed: int | None
    """Null takes it away."""


class LinkInput(_Asked):
    """A cable, by its end at a switch."""

    switch: str
    port: str


class DcqcnInput(_Asked):
    """Parameters for the flows a host sends, by the keys of a scenario's ``dcqcn``; those left out stay."""

    rai_gbps: float | None = None
    rhai_gbps: float | None = None
    g: float | None = None
    cnp_interval_us: float | None = None
    alpha_timer_us: float | None = None
    increase_timer_us: float | None = None
    byte_counter_bytes: float | None = None
    """Null: none."""
    fast_recovery_steps: int | None = None
    min_rate_gbps: float | None = None
    clamp_target_rate: bool | None = None
    initial_alpha: float | None = None

    def over(self, running: DcqcnParams) -> DcqcnParams:
        """These in place of those that run; raises a ``TwinError``."""
        return dcqcn_from_json(self.model_dump(exclude_unset=True), missing=running)


class LabWatermarkInput(RequestBody, WatermarkInput):
    """A watermark for a switch, or only for these ports of it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    ports: list[str] | None = Field(default=None, min_length=1, max_length=MOST_PORTS)
