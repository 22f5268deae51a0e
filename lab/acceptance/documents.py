"""The answer of an acceptance as JSON."""

from __future__ import annotations

from typing import Literal

from lab.documents import DcqcnDocument
from service.documents.base import Document
from service.documents.predictions import WatermarkDocument

Criterion = Literal["completes", "bus_bandwidth", "loss", "paused", "slowest_rank", "ecmp_spread"]


class CheckDocument(Document):
    """One criterion on one collective, under the seed with the worst value."""

    criterion: Criterion
    value: float | None
    """Null: not judged."""
    limit: float
    """At least that for `completes` and `bus_bandwidth`, at most for the others."""
    passed: bool | None
    """Null: not judged."""
    seed: int
    finding: str | None
    """Where it fails and what to look at; null where it does not."""


class CollectiveDocument(Document):
    name: str
    messages: int
    took_s: float
    """Simulated time to the last delivery, of the slowest seed."""
    ideal_s: float
    """What it takes at line rate."""
    links_allow: float | None
    """Bus bandwidth ÷ line rate that links allow where ECMP spreads evenly; null where it is not defined."""
    passed: bool
    checks: list[CheckDocument]


class AcceptanceDocument(Document):
    topology: str
    hosts: int
    switches: int
    line_rate_gbps: float
    """Of the host whose NICs together are slowest; bandwidths are shares of it."""
    watermark: WatermarkDocument | None
    """Of most switch ports; null where they do not mark."""
    other_ports: int
    """Switch ports with another watermark, or none."""
    dcqcn: DcqcnDocument
    seeds: list[int]
    passed: bool
    collectives: list[CollectiveDocument]
    notes: list[str]
    """Links unlike the others of their role, and hosts left out."""
    wall_s: float
    version: str
