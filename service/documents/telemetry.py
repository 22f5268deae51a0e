"""Answers to posted reports, the network state, flows, counters and the topology as documents.

Null: the device does not report the figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from service.documents.base import Document, Figure, PortName, SwitchName, Time, timestamp
from service.documents.neighbours import NeighboursDocument
from service.neighbours.cabling import Cabled
from telemetry.counters.window import PortRates
from telemetry.decode.body import Decoded
from telemetry.report import ReportProblem
from telemetry.state import FlowClass, FlowTable, NetworkState, QueueRef, QueueState
from telemetry.topology import Topology


class IncastDocument(Document):
    """One receiver of the window."""

    receiver: str
    """The receiving host."""
    degree: int
    """Most senders with an unfinished message to it at one moment."""
    senders: int
    """Senders in all of the window."""


class RatesDocument(Document):
    """Current rates by counters; null: not reported."""

    pause_share: Figure
    """Share of time that its peer kept it from sending by PFC, from 0 to 1."""
    pfc_rx_frames_per_s: Figure
    """PFC frames received a second."""
    pfc_tx_frames_per_s: Figure
    """PFC frames sent a second."""
    ecn_marked_per_s: Figure
    """Packets marked CE a second."""
    cnp_per_s: Figure
    """Congestion notification packets a second."""
    drops_per_s: Figure
    """Packets dropped a second."""
    wred_drops_per_s: Figure
    """Of those, packets that WRED dropped."""
    tx_bytes_per_s: Figure
    """Bytes sent a second, headers included."""


class QueueRatesDocument(RatesDocument):
    """The counters of one queue."""

    queue: int
    """Number of the queue."""


class PortDocument(RatesDocument):
    """The counters of one port: pauses of its most paused queue, sums of all else."""

    switch: SwitchName
    """The switch."""
    port: PortName
    """The port."""
    covered_s: float
    """Time that the rates are over, by the switch's own clock, in seconds."""
    queues: list[QueueRatesDocument]
    """The same of each of its queues."""

    @classmethod
    def of(cls, port: PortRates) -> Self:
        queues = [QueueRatesDocument.from_attributes(rates, queue=one) for one, rates in port.queues.items()]
        return cls.from_attributes(port, queues=queues, **port.rates._asdict())


def worst_first(port: PortRates) -> tuple[float, float, str, str]:
    """Sort key: lost packets, then pauses."""
    rates = port.rates
    return -(rates.drops_per_s or 0.0), -(rates.pause_share or 0.0), port.switch, port.port


class ReportErrorDocument(Document):
    """One rejected report."""

    index: int
    """Its position in the body, from 0; of a capture the number of its frame."""
    detail: str
    """Why it was rejected, in a sentence."""


class IngestDocument(Document):
    """What became of a body's reports."""

    accepted: int
    """Reports taken."""
    duplicates: int
    """Of those, INT reports that the window held already and takes once; ingest processes cannot tell: 0."""
    rejected: int
    """Reports left out."""
    errors: list[ReportErrorDocument]
    """The first of them, with the reason."""
    error_count: int
    """How many there are, listed or not."""
    unread: list[str]
    """Keys of the first JSON record that no record has, such as a misspelt one: they were not read."""

    @classmethod
    def of(
        cls,
        accepted: int,
        rejected: int,
        *,
        malformed: Sequence[ReportProblem],
        refused: Sequence[ReportProblem] = (),
        duplicates: int = 0,
        unread: Sequence[str] = (),
        listed: int,
    ) -> Self:
        """With the first ``listed`` problems by position; ``malformed`` are in that order."""
        position = attrgetter("index")
        first = islice(merge(malformed, sorted(refused, key=position), key=position), listed)
        return cls(
            accepted=accepted,
            duplicates=duplicates,
            rejected=rejected,
            errors=[ReportErrorDocument(index=item.index, detail=item.detail) for item in first],
            error_count=len(malformed) + len(refused),
            unread=list(unread),
        )

    @classmethod
    def of_decoded(cls, decoded: Decoded, *, listed: int) -> Self:
        """As decoding found the reports, whatever becomes of them in the window."""
        accepted, errors = len(decoded.batch) + decoded.aside, decoded.errors
        return cls.of(accepted, len(errors), malformed=errors, unread=decoded.unread, listed=listed)


class QueueDocument(Document):
    """One egress queue in the window."""

    switch: SwitchName
    """The switch."""
    port: PortName
    """The port."""
    queue: int
    """Number of the queue."""
    samples: int
    """Reports that told its depth."""
    depth_mean_bytes: Figure
    """Mean depth, in bytes; null where its units are unknown."""
    depth_p99_bytes: Figure
    """99th percentile of the depth, in bytes."""
    depth_max_bytes: Figure
    """Largest depth, in bytes."""
    marked_ratio: Figure
    """Share of its packets marked, from 0 to 1."""
    marked_packets_per_s: Figure
    """Packets marked a second, with the sampling undone."""
    throughput_bytes_per_s: Figure
    """Bytes sent a second."""
    capacity_bytes_per_s: Figure
    """Speed of its port, in bytes a second."""

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
    """One window of the network."""

    window_start: Time
    """Begin of the window, by the reports' clock."""
    window_end: Time
    """End of the window."""
    duration_s: float
    """Its length, in seconds."""
    reports: int
    """Reports in it."""
    packet_bytes: int
    """Usual size of a packet, in bytes."""
    topology: str
    """Whether it is `declared`, or `discovered` from hops of reports."""
    dominant_class: str
    """Class of flows with the most bytes: `mouse`, `potential_elephant` or `elephant`."""
    flows: dict[str, int]
    """Flows by class."""
    bytes: dict[str, float]
    """Bytes by class, with the sampling undone."""
    mice_to_elephants: Figure
    """Mice per elephant, by number; null without elephants."""
    mice_to_elephants_bytes: Figure
    """Mice per elephant, by bytes; null without elephants."""
    flow_groups: int
    """Groups of flows to one receiver along one path."""
    receiver_count: int
    """Receivers, listed or not."""
    incast: list[IncastDocument]
    """The receivers with the most senders."""
    queue_count: int
    """Queues that match, listed or not."""
    queues: list[QueueDocument]
    """The deepest first."""
    port_count: int
    """Ports that match and report counters, listed or not."""
    ports: list[PortDocument]
    """The ports with the most drops and pauses."""
    age_s: Figure
    """Seconds since the newest report was accepted."""
    stale: bool
    """Whether that is longer ago than `tuning.stale_after_s`."""

    @classmethod
    def of(
        cls,
        state: NetworkState,
        ports: Sequence[PortRates],
        *,
        age_s: float | None,
        stale: bool,
        limit: int,
        switch: str | None,
    ) -> Self:
        """The ``limit`` worst of each; queues the deepest first, those of unknown depth last; with ``switch``
        only its queues and ports.
        """
        ports = [port for port in ports if switch in (None, port.switch)]
        deepest = sorted((one for one in state.queues if switch in (None, one.ref.switch)), key=deepest_first)
        return cls.from_attributes(
            state,
            window_start=timestamp(state.window_start_ns),
            window_end=timestamp(state.window_end_ns),
            reports=state.n_reports,
            topology="declared" if state.topology_declared else "discovered",
            dominant_class=state.dominant_class.label,
            flows=by_label(state.flows_by_class),
            bytes=by_label(state.bytes_by_class),
            receiver_count=len(state.incast),
            incast=[IncastDocument.from_attributes(one) for one in state.incast[:limit]],
            queue_count=len(deepest),
            queues=[QueueDocument.of(queue) for queue in deepest[:limit]],
            port_count=len(ports),
            ports=[PortDocument.of(port) for port in sorted(ports, key=worst_first)[:limit]],
            age_s=age_s,
            stale=stale,
        )


class FlowDocument(Document):
    """One flow of the window."""

    src: str
    """Source address."""
    dst: str
    """Destination address."""
    sport: int
    """Source port."""
    dport: int
    """Destination port."""
    protocol: int
    """IP protocol number; 17 is UDP."""
    src_host: str
    """Sending host."""
    dst_host: str
    """Receiving host."""
    flow_class: str
    """`mouse`, `potential_elephant` or `elephant`."""
    window_bytes: float
    """Bytes in the window, with the sampling undone."""
    throughput_bytes_per_s: float
    """Bytes a second."""
    reports: int
    """Reports of it."""
    path: list[str]
    """Its egress queues, as switch/port/queue."""


@dataclass(frozen=True, slots=True)
class FlowFilter:
    """Flows of a class, through an egress queue of a switch, from or to a host; None: any."""

    flow_class: FlowClass | None
    switch: str | None
    host: str | None

    def mask(self, state: NetworkState) -> NDArray[np.bool_]:
        """By row of the state's flows, whether it is wanted."""
        table = state.flows
        kept = np.ones(len(table), np.bool_)
        if self.flow_class is not None:
            kept &= table.flow_class == self.flow_class
        if self.switch is not None:
            through = [any(ref.switch == self.switch for ref in path) for path in state.paths]
            kept &= np.array([*through, False])[table.path]  # a path of -1 is unknown: the last
        if self.host is not None:
            ends = zip(table.src_host, table.dst_host, strict=True)
            kept &= np.fromiter((self.host in one for one in ends), np.bool_, len(table))
        return kept


class FlowsDocument(Document):
    """The requested flows, most bytes first, out of ``total`` of that class."""

    total: int
    """Flows that match, listed or not."""
    flows: list[FlowDocument]
    """The most bytes first."""
    next: str | None
    """What to pass as `after` for more; null where there are none."""

    @classmethod
    def of(cls, state: NetworkState, wanted: FlowFilter, *, limit: int, after: str | None) -> Self:
        """The first ``limit`` flows that are ``wanted``, or of those after the cursor ``after``.

        Flows come and go between two pages: one goes on at the bytes of the last flow. Raises ``ValueError``
        for text that is no cursor.
        """
        table = state.flows
        rows = np.flatnonzero(wanted.mask(state))
        total = len(rows)
        if after is not None:
            held_bytes = float(after.partition("_")[0])
            rows = rows[table.window_bytes[rows] <= held_bytes]
            alike = rows[table.window_bytes[rows] == held_bytes].tolist()
            rows = rows[next((n + 1 for n, row in enumerate(alike) if _cursor(table, row) == after), 0) :]
        return cls(
            total=total,
            flows=[_flow(state, int(row)) for row in rows[:limit]],
            next=_cursor(table, int(rows[limit - 1])) if len(rows) > limit else None,
        )


def deepest_first(queue: QueueState) -> tuple[bool, float, QueueRef]:
    """Sort key: by depth; queues of unknown depth last."""
    return not queue.has_depth, -queue.depth_mean_bytes if queue.has_depth else 0.0, queue.ref


def by_label(values: Any) -> dict[str, Any]:
    """A mapping by ``FlowClass`` as one by its label, every class present."""
    return {flow_class.label: values.get(flow_class, 0) for flow_class in FlowClass}


def _cursor(table: FlowTable, row: int) -> str:
    """Where a flow stands in the list."""
    return "_".join(map(str, (float(table.window_bytes[row]), *table.keys[row])))


def _flow(state: NetworkState, row: int) -> FlowDocument:
    table = state.flows
    path = state.paths[int(table.path[row])] if int(table.path[row]) >= 0 else ()
    return FlowDocument(
        **table.keys[row]._asdict(),
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
    """Hosts, switches and links as declared; null where none are."""
    discovered: dict[str, Any] | None
    """The same as hops of reports show them; null while no report was seen."""
    neighbours: NeighboursDocument | None
    """The same as LLDP shows them; null while it is not read (`telemetry.neighbours.read`)."""

    @classmethod
    def of(cls, declared: Topology | None, discovered: Topology | None, cabled: Cabled | None) -> Self:
        return cls(
            declared=declared.to_json() if declared else None,
            discovered=discovered.to_json() if discovered else None,
            neighbours=NeighboursDocument.of(cabled) if cabled else None,
        )
