"""Builders of INT reports, and the recordings of the reference folder."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from telemetry.decode.json import decode
from telemetry.report import ReportBatch
from telemetry.topology import Topology, topology_from_json

START_NS = 1_767_225_600_000_000_000

Report = dict[str, Any]
MakeReport = Callable[..., Report]


def make_report(
    ts_ns: int = START_NS, src: str = "10.0.0.1", dst: str = "10.0.0.2", **changes: Any
) -> Report:
    """One sound report; ``flow`` and ``hop`` are merged into its parts, other keys replace whole ones."""
    flow = {"src": src, "dst": dst, "sport": 10_000, "dport": 4791, "protocol": 17} | changes.pop("flow", {})
    hop = {
        "switch": "tor1",
        "ingress_port": "Ethernet1",
        "egress_port": "Ethernet2",
        "queue": 3,
        "queue_bytes": 0,
        "ingress_ts_ns": ts_ns,
        "egress_ts_ns": ts_ns,
        "ecn_marked": False,
    } | changes.pop("hop", {})
    report = {"ts_ns": ts_ns, "flow": flow, "packet_bytes": 1000, "sampling_rate": 0.01, "hops": [hop]}
    return report | changes


def batch_of(reports: list[Report]) -> ReportBatch:
    """Reports through the real decoder; all of them must be sound."""
    decoded = decode(json.dumps(reports).encode())
    assert decoded.errors == ()
    return decoded.batch


@pytest.fixture
def report() -> MakeReport:
    return make_report


@pytest.fixture
def batch() -> Callable[[list[Report]], ReportBatch]:
    return batch_of


@pytest.fixture
def two_hosts() -> Topology:
    return topology_from_json(
        {
            "hosts": [{"name": "h1", "ip": "10.0.0.1"}, {"name": "h2", "ip": "10.0.0.2"}],
            "switches": [{"name": "tor1"}],
            "links": [
                {"a": "h1", "b": "tor1", "b_port": "Ethernet1", "rate_gbps": 100, "delay_us": 1},
                {"a": "h2", "b": "tor1", "b_port": "Ethernet2", "rate_gbps": 100, "delay_us": 1},
            ],
        }
    )


Recording = tuple[ReportBatch, Topology, list[dict[str, str]]]


@pytest.fixture(scope="session")
def recording(reference: Path) -> Callable[[str], Recording]:
    """A recording of the reference folder: its reports, its declared topology, its true flows."""

    def read(name: str) -> Recording:
        scenario = json.loads((reference / f"{name}.scenario.json").read_text())
        with gzip.open(reference / f"{name}.flows.csv.gz", "rt") as rows:
            flows = list(csv.DictReader(rows))
        reports = decode((reference / f"{name}.int.ndjson.gz").read_bytes()).batch
        return reports, topology_from_json(scenario["topology"]), flows

    return read
