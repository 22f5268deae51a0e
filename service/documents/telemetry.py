"""Answers to posted reports, the network state, flows, counters and the topology as documents.

Null: the device does not report the figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Any, Self

import numpy as np

from service.documents.base import Document, Figure, timestamp
from telemetry.counters.window import PortRates
from telemetry.report import ReportProblem
from telemetry.state import FlowClass, FlowTable, NetworkState, QueueRef, QueueState
from telemetry.topology import Topology


class IncastDocument(Document):
    """One receiver: ``degree`` is the most senders with an unfinished message to it at one moment of the
    window, ``senders`` how many there were in all of it.
    """

    receiver: str
    degree: int
    senders: int


class RatesDocument(Document):
    """Current counter rates: share of time paused by PFC, then events per second; null where not reported."""

    pause_share: Figure
    pfc_rx_frames_per_s: Figure
    pfc_tx_frames_per_s: Figure
    ecn_marked_per_s: Figure
    cnp_per_s: Figure
    drops_per_s: Figure
    wred_drops_per_s: Figure


class QueueRatesDocument(RatesDocument):
    """The counters of one queue."""

    queue: int


class PortDocument(RatesDocument):
    """The counters of one port over ``covered_s``: pauses of its most paused queue, sums of all else."""

    switch: str
    port: str
    covered_s: float
    queues: list[QueueRatesDocument]

    @classmethod
    def of(cls, port: PortRates) -> Self:
        queues = [QueueRatesDocument.from_attributes(rates, queue=one) for one, rates in port.queues.items()]
        return cls.from_attributes(port, queues=queues, **port.rates._asdict())


def worst_first(port: PortRates) -> tuple[float, float, str, str]:
    """Sort key: lost packets, then pauses."""
    rates = port.rates
    return -(rates.drops_per_s or 0.0), -(rates.pause_share or 0.0), port.switch, port.port


class ReportErrorDocument(Document):
    """One rejected report: its index in the body, and why."""

    index: int
    detail: str


class IngestDocument(Document):
    """How many reports were accepted; ``errors`` lists the first of ``error_count``."""

    accepted: int
    rejected: int
    errors: list[ReportErrorDocument]
    error_count: int

    @classmethod
    def of(
        cls,
        accepted: int,
        rejected: int,
        *,
        malformed: Sequence[ReportProblem],
        refused: Sequence[ReportProblem] = (),
        listed: int,
    ) -> Self:
        """With the first ``listed`` problems by position; ``malformed`` are in that order."""
        position = attrgetter("index")
        first = islice(merge(malformed, sorted(refused, key=position), key=position), listed)
        return cls(
            accepted=accepted,
            rejected=rejected,
            errors=[ReportErrorDocument(index=item.index, detail=item.detail) for item in first],
            error_count=len(malformed) + len(refused),
        )


class QueueDocument(Document):
    """One egress queue in the window."""

    switch: str
    port: str
    queue: int
    samples: int
    depth_mean_bytes: Figure
    depth_p99_bytes: Figure
    depth_max_bytes: Figure
    marked_ratio: Figure
    marked_packets_per_s: Figure
    throughput_bytes_per_s: Figure
    capacity_bytes_per_s: Figure

    @classmethod
    def of(cls, queue: QueueState) -> Self:
        return cls.from_attributes(
            queue,
            switch=queue.ref.switch,
            port=queue.ref.port,
            queue=queue.ref.queue,
            samples=queue.n_samples,
        )


class StateDocument(Document):
    """One window of the network.

    ``mice_to_elephants`` and ``mice_to_elephants_bytes`` are mice per elephant, by number and by bytes; null
    without elephants. ``incast`` lists the receivers with the most senders, of ``receiver_count``; ``ports``
    the counters of the ports with the most drops and pauses, of ``port_count`` that report any.
    """

    window_start: str
    window_end: str
    duration_s: float
    reports: int
    packet_bytes: int
    topology: str
    dominant_class: str
    flows: dict[str, int]
    bytes: dict[str, float]
    mice_to_elephants: Figure
    mice_to_elephants_bytes: Figure
    flow_groups: int
    receiver_count: int
    incast: list[IncastDocument]
    queue_count: int
    queues: list[QueueDocument]
    port_count: int
    ports: list[PortDocument]
    age_s: Figure
    stale: bool

    @classmethod
    def of(
        cls, state: NetworkState, ports: Sequence[PortRates], *, age_s: float | None, stale: bool, limit: int
    ) -> Self:
        """The ``limit`` worst of each; queues the deepest first, those of unknown depth last."""
        deepest = sorted(state.queues, key=deepest_first)
        return cls.from_attributes(
            state,
            window_start=timestamp(state.window_start_ns),
            window_end=timestamp(state.window_end_ns),
            reports=state.n_reports,
            topology="declared" if state.topology_declared else "discovered",
            dominant_class=state.dominant_class.label,
            flows=by_label(state.flows_by_class),
            bytes=by_label(state.bytes_by_class),
            flow_groups=len(state.groups),
            receiver_count=len(state.incast),
            incast=[IncastDocument.from_attributes(one) for one in state.incast[:limit]],
            queue_count=len(state.queues),
            queues=[QueueDocument.of(queue) for queue in deepest[:limit]],
            port_count=len(ports),
            ports=[PortDocument.of(port) for port in sorted(ports, key=worst_first)[:limit]],
            age_s=age_s,
            stale=stale,
        )


class FlowDocument(Document):
    """One flow of the window."""

    src: str
    dst: str
    sport: int
    dport: int
    protocol: int
    src_host: str
    dst_host: str
    flow_class: str
    window_bytes: float
    throughput_bytes_per_s: float
    reports: int
    path: list[str]


class FlowsDocument(Document):
    """The requested flows, most bytes first, out of ``total`` of that class."""

    total: int
    flows: list[FlowDocument]

    @classmethod
    def of(cls, state: NetworkState, *, flow_class: FlowClass | None, limit: int) -> Self:
        """The first ``limit`` flows of a class (None: of all)."""
        table = state.flows
        rows = np.arange(len(table)) if flow_class is None else np.flatnonzero(table.flow_class == flow_class)
        return cls(total=len(rows), flows=[_flow(state, table, int(row)) for row in rows[:limit]])


def deepest_first(queue: QueueState) -> tuple[bool, float, QueueRef]:
    """Sort key: by depth; queues of unknown depth last."""
    return not queue.has_depth, -queue.depth_mean_bytes if queue.has_depth else 0.0, queue.ref


def by_label(values: Any) -> dict[str, Any]:
    """A mapping by ``FlowClass`` as one by its label, every class present."""
    return {flow_class.label: values.get(flow_class, 0) for flow_class in FlowClass}


def _flow(state: NetworkState, table: FlowTable, row: int) -> FlowDocument:
    key = table.keys[row]
    path = state.paths[int(table.path[row])] if int(table.path[row]) >= 0 else ()
    return FlowDocument(
        **key._asdict(),
        src_host=table.src_host[row],
        dst_host=table.dst_host[row],
        flow_class=FlowClass(int(table.flow_class[row])).label,
        window_bytes=float(table.window_bytes[row]),
        throughput_bytes_per_s=float(table.throughput_bytes_per_s[row]),
        reports=int(table.n_reports[row]),
        path=[f"{ref.switch}/{ref.port}/{ref.queue}" for ref in path],
    )


class TopologyDocument(Document):
    """The declared topology, and the one discovered from hops of reports."""

    declared: dict[str, Any] | None
    discovered: dict[str, Any] | None

    @classmethod
    def of(cls, declared: Topology | None, discovered: Topology | None) -> Self:
        return cls(
            declared=declared.to_json() if declared else None,
            discovered=discovered.to_json() if discovered else None,
        )
