"""The lab's control interface as documents."""

from __future__ import annotations

from typing import Self

from pydantic import ConfigDict, Field

from lab.figures import Figures
from service.documents.base import Asked, Document
from service.documents.predictions import SlowdownDocument, WatermarkDocument, WatermarkInput
from service.documents.switches import QueueWatermarkDocument
from twin.dcqcn import GBPS
from twin.prediction import SIZE_CLASSES

MOST_PORTS = 4_096  # of a switch


class LabSwitchDocument(Document):
    """One switch: what all of it runs (null: its queues differ), and each egress queue."""

    name: str
    watermark: WatermarkDocument | None
    queues: list[QueueWatermarkDocument]


class LabSwitchesDocument(Document):
    """Every switch."""

    switches: list[LabSwitchDocument]


class FiguresDocument(Document):
    """What the fabric did between two simulated times."""

    begin_s: float
    end_s: float
    queue_mean_bytes: float
    queue_p99_bytes: float
    slowdown: dict[str, SlowdownDocument]
    completions: int
    goodput_gbps: float
    marked_fraction: float
    cnps: int
    pauses: int
    paused_s: float
    dropped_packets: int
    dropped_bytes: float

    @classmethod
    def of(cls, figures: Figures) -> Self:
        """The document of a stretch."""
        absent = SlowdownDocument(n=0, mean=None, p99=None)
        found = {
            name: SlowdownDocument(n=one.n, mean=one.mean, p99=one.p99)
            for name, one in figures.slowdown.items()
        }
        return cls(
            begin_s=figures.begin_s,
            end_s=figures.end_s,
            queue_mean_bytes=figures.queue_mean_bytes,
            queue_p99_bytes=figures.queue_p99_bytes,
            slowdown={name: found.get(name, absent) for name in SIZE_CLASSES},
            completions=figures.completions,
            goodput_gbps=figures.goodput_bytes_per_s / GBPS,
            marked_fraction=figures.marked_fraction,
            cnps=figures.cnps,
            pauses=figures.pauses,
            paused_s=figures.paused_s,
            dropped_packets=figures.dropped_packets,
            dropped_bytes=figures.dropped_bytes,
        )


class DatagramsDocument(Document):
    """Datagrams sent by UDP, and how many of them the service never took (null: it cannot be asked)."""

    sent: int
    lost: int | None


class ReportsDocument(Document):
    """Reports made, and what became of them. ``waits_for``: why they cannot be posted right now.

    ``accepted`` and ``rejected`` are the service's answers to what was posted over HTTP. ``datagrams`` is
    there where they are sent by UDP, which answers nothing.
    """

    made: int
    posted: int
    accepted: int
    rejected: int
    retries: int
    waits_for: str | None
    datagrams: DatagramsDocument | None = None


class CountersDocument(Document):
    """What became of the ports' counters."""

    accepted: int
    rejected: int


class LabDocument(Document):
    """The lab now. ``lately`` is the newest whole stretch: a millisecond, or an advance."""

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
    """One direction of a cable; both share its fate."""

    switch: str
    port: str
    peer: str
    up: bool


class _Asked(Asked):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class AdvanceInput(_Asked):
    """Run until this simulated time."""

    until_s: float


class LinkInput(_Asked):
    """A cable, by its end at a switch."""

    switch: str
    port: str


class LabWatermarkInput(Asked, WatermarkInput):
    """A watermark for a switch, or for these ports of it only."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    ports: list[str] | None = Field(default=None, min_length=1, max_length=MOST_PORTS)
