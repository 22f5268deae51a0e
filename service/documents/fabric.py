"""The fabric by pods and switches, in columns, and one switch port by port: what a map of any size needs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from service.documents.base import Document, Figure, PortName, SwitchName, Time
from service.documents.predictions import WatermarkDocument, watermark_document
from service.documents.telemetry import QueueDocument, deepest_first
from telemetry.counters.window import PortRates
from telemetry.state import NetworkState, QueueRef, QueueState
from telemetry.topology import EgressPort, Topology
from twin.watermark import Watermark

Runs = Callable[[QueueRef], Watermark | None]
"""The watermark that a queue runs; None: it does not mark."""


class PodDocument(Document):
    """The switches of one pod, in columns: a value for each of ``switches``."""

    name: str
    """Name of the pod; switches above all pods, or of a fabric without pods, are grouped by role instead."""
    switches: list[SwitchName]
    """Its switches, by name."""
    role: list[str]
    """`leaf` (with hosts), `spine` (next to a leaf), `core` (further away) or `other`."""
    ports: list[int]
    """Ports with a cable or a queue."""
    hosts: list[int]
    """Hosts at its ports."""
    queues: list[int]
    """Queues in the window."""
    over_kmin: list[int]
    """Queues whose 99th percentile is over the Kmin that they run."""
    over_kmax: list[int]
    """Of those, queues over Kmax."""
    depth_p99_bytes: list[Figure]
    """99th percentile of its deepest queue, in bytes; null where no depth is known."""
    deepest_port: list[PortName | None]
    """The port of that queue."""
    kmin_bytes: list[Figure]
    """Kmin that it runs, in bytes; null where it does not mark."""
    kmax_bytes: list[Figure]
    """Kmax that it runs, in bytes."""
    load: list[Figure]
    """Share of its capacity that its busiest port sends; null where no capacity is known."""
    busiest_port: list[PortName | None]
    """That port."""
    marked_ratio: list[Figure]
    """Share of its bytes whose packets are marked, from 0 to 1."""
    pause_share: list[Figure]
    """Share of time that its most paused port was paused, by counters."""
    drops_per_s: list[Figure]
    """Packets dropped a second, all ports, by counters."""


class FabricDocument(Document):
    """The fabric at a glance."""

    topology: str
    """Whether it is `declared`, or `discovered` from hops of reports."""
    host_count: int
    """Hosts."""
    switch_count: int
    """Switches."""
    port_count: int
    """Ports with a cable or a queue."""
    queue_count: int
    """Queues in the window."""
    delivered_bytes_per_s: Figure
    """What goes out of the ports that hosts are at; null where none was seen."""
    pods: list[PodDocument]
    """Pods, by name."""

    @classmethod
    def of(cls, state: NetworkState, ports: Sequence[PortRates], runs: Runs) -> Self:
        topology = state.topology
        hosts = {host.name for host in topology.hosts}
        switches = _switches(state, hosts, ports, runs)
        last = {(one.node, one.port) for one in topology.ports if one.peer in hosts}
        delivered = [
            queue.throughput_bytes_per_s
            for queue in state.queues
            if (queue.ref.switch, queue.ref.port) in last
        ]
        pods: defaultdict[str, list[_Switch]] = defaultdict(list)
        for name in sorted(switches):
            pods[topology.pods.get(name, "other")].append(switches[name])
        return cls(
            topology="declared" if state.topology_declared else "discovered",
            host_count=len(hosts),
            switch_count=len(switches),
            port_count=sum(len(one.ports) for one in switches.values()),
            queue_count=len(state.queues),
            delivered_bytes_per_s=sum(delivered) if delivered else None,
            pods=[_pod(name, pods[name]) for name in sorted(pods)],
        )


class LatestFabric:
    """Keeps the last document made until something in it changes; for one thread.

    With 32 000 queues making one takes a fifth of a second, and every page asks every two seconds.
    """

    def __init__(self) -> None:
        self._made: tuple[NetworkState, Sequence[PortRates], int, FabricDocument] | None = None

    def of(
        self, state: NetworkState, ports: Sequence[PortRates], runs: Runs, *, read_count: int
    ) -> FabricDocument:
        """``read_count`` grows whenever ``runs`` may have changed."""
        if self._made is not None:
            was, had, count, document = self._made
            if was is state and count == read_count and had == ports:  # mostly the same objects: quick
                return document
        document = FabricDocument.of(state, ports, runs)
        self._made = state, ports, read_count, document
        return document


class QueueColumnsDocument(Document):
    """Every queue of the window in columns: a value for each queue, the deepest first."""

    names: list[SwitchName]
    """Switches that have queues, by name."""
    switch: list[int]
    """The switch, as its place in `names`."""
    port: list[PortName]
    """The port."""
    queue: list[int]
    """Number of the queue."""
    depth_mean_bytes: list[Figure]
    """Mean depth, in bytes; null where its units are unknown."""
    depth_p99_bytes: list[Figure]
    """99th percentile of the depth, in bytes."""
    marked_ratio: list[Figure]
    """Share of its packets marked, from 0 to 1."""
    throughput_bytes_per_s: list[Figure]
    """Bytes sent a second."""
    capacity_bytes_per_s: list[Figure]
    """Speed of its port, in bytes a second."""

    @classmethod
    def of(cls, state: NetworkState) -> Self:
        queues = sorted(state.queues, key=deepest_first)
        names = sorted({queue.ref.switch for queue in queues})
        places = {name: place for place, name in enumerate(names)}
        return cls(
            names=names,
            switch=[places[queue.ref.switch] for queue in queues],
            port=[queue.ref.port for queue in queues],
            queue=[queue.ref.queue for queue in queues],
            depth_mean_bytes=_rounded((queue.depth_mean_bytes for queue in queues), 0),
            depth_p99_bytes=_rounded((queue.depth_p99_bytes for queue in queues), 0),
            marked_ratio=_rounded((queue.marked_ratio for queue in queues), 4),
            throughput_bytes_per_s=_rounded((queue.throughput_bytes_per_s for queue in queues), 0),
            capacity_bytes_per_s=_rounded((queue.capacity_bytes_per_s for queue in queues), 0),
        )


class SwitchPortDocument(Document):
    """One port of a switch."""

    port: PortName
    """The port."""
    peer: str | None
    """Host or switch at the other end; null where unknown."""
    peer_port: str | None
    """Its port there; null at a host."""
    up: bool
    """Whether it leads to a switch further from the hosts."""
    capacity_bytes_per_s: Figure
    """Its speed, in bytes a second."""
    queues: list[QueueDocument]
    """Its queues in the window, the deepest first."""
    runs: WatermarkDocument | None
    """What the deepest of them runs; null where it does not mark, and without a queue."""


class SwitchPortsDocument(Document):
    """One switch, port by port."""

    name: SwitchName
    """The switch."""
    role: str
    """`leaf` (with hosts), `spine` (next to a leaf), `core` (further away) or `other`."""
    pod: str
    """Its pod."""
    ports: list[SwitchPortDocument]
    """Its ports: those that lead up first."""

    @classmethod
    def of(cls, state: NetworkState, switch: str, runs: Runs) -> Self | None:
        """None for a switch that neither the topology nor a report knows."""
        topology = state.topology
        queues: defaultdict[str, list[QueueState]] = defaultdict(list)
        for queue in state.queues:
            if queue.ref.switch == switch:
                queues[queue.ref.port].append(queue)
        ends = (topology.ports[index] for index in topology.ports_of.get(switch, ()))
        cabled = {end.port: end for end in ends if end.port is not None}
        if not queues and switch not in topology.switch_names:
            return None
        ports = [
            _port(topology, cabled.get(name), name, sorted(queues.get(name, ()), key=deepest_first), runs)
            for name in dict.fromkeys([*cabled, *queues])
        ]
        return cls(
            name=switch,
            role=topology.roles.get(switch, "other"),
            pod=topology.pods.get(switch, "other"),
            ports=sorted(ports, key=lambda port: not port.up),
        )


@dataclass(slots=True)
class _Switch:
    """The figures added up over one switch; ``ports`` are names."""

    name: str
    role: str
    ports: set[str] = field(default_factory=set)
    hosts: int = 0
    queues: int = 0
    over_kmin: int = 0
    over_kmax: int = 0
    depth_bytes: float = math.nan
    deepest_port: str | None = None
    watermark: Watermark | None = None
    sent: dict[str, tuple[float, float]] = field(default_factory=dict)
    told_bytes: float = 0.0
    marked_bytes: float = 0.0
    paused: float | None = None
    drops: float | None = None

    def saw(self, queue: QueueState, runs: Watermark | None) -> None:
        port, rate = queue.ref.port, queue.throughput_bytes_per_s
        self.ports.add(port)
        self.queues += 1
        if queue.has_depth:
            if not queue.depth_p99_bytes <= self.depth_bytes:
                self.depth_bytes, self.deepest_port, self.watermark = queue.depth_p99_bytes, port, runs
            self.over_kmin += runs is not None and queue.depth_p99_bytes > runs.kmin_bytes
            self.over_kmax += runs is not None and queue.depth_p99_bytes > runs.kmax_bytes
        if queue.capacity_bytes_per_s is not None:
            self.sent[port] = (self.sent.get(port, (0.0, 0.0))[0] + rate, queue.capacity_bytes_per_s)
        if queue.marked_ratio is not None:
            self.told_bytes += rate
            self.marked_bytes += rate * queue.marked_ratio

    def counted(self, port: PortRates) -> None:
        self.paused = _most(self.paused, port.rates.pause_share)
        if port.rates.drops_per_s is not None:
            self.drops = (self.drops or 0.0) + port.rates.drops_per_s

    @property
    def busiest(self) -> tuple[str | None, float | None]:
        loads = {port: rate / capacity for port, (rate, capacity) in self.sent.items()}
        port = max(loads, key=loads.__getitem__, default=None)
        return port, None if port is None else loads[port]


def _switches(
    state: NetworkState, hosts: Collection[str], ports: Sequence[PortRates], runs: Runs
) -> Mapping[str, _Switch]:
    """Every switch by name; ``hosts`` are names."""
    topology = state.topology
    found = {name: _Switch(name, role) for name, role in topology.roles.items()}
    for end in topology.ports:
        if (one := found.get(end.node)) is not None and end.port is not None:
            one.ports.add(end.port)
            one.hosts += end.peer in hosts
    for queue in state.queues:
        name = queue.ref.switch
        found.setdefault(name, _Switch(name, "other")).saw(queue, runs(queue.ref))
    for port in ports:
        if port.switch in found:
            found[port.switch].counted(port)
    return found


def _pod(name: str, switches: Sequence[_Switch]) -> PodDocument:
    busiest = [one.busiest for one in switches]
    watermarks = [one.watermark for one in switches]
    return PodDocument(
        name=name,
        switches=[one.name for one in switches],
        role=[one.role for one in switches],
        ports=[len(one.ports) for one in switches],
        hosts=[one.hosts for one in switches],
        queues=[one.queues for one in switches],
        over_kmin=[one.over_kmin for one in switches],
        over_kmax=[one.over_kmax for one in switches],
        depth_p99_bytes=_rounded((one.depth_bytes for one in switches), 0),
        deepest_port=[one.deepest_port for one in switches],
        kmin_bytes=[None if one is None else one.kmin_bytes for one in watermarks],
        kmax_bytes=[None if one is None else one.kmax_bytes for one in watermarks],
        load=_rounded((load for _, load in busiest), 4),
        busiest_port=[port for port, _ in busiest],
        marked_ratio=_rounded(
            (one.marked_bytes / one.told_bytes if one.told_bytes else None for one in switches), 4
        ),
        pause_share=_rounded((one.paused for one in switches), 4),
        drops_per_s=_rounded((one.drops for one in switches), 1),
    )


def _rounded(values: Iterable[float | None], digits: int) -> list[Any]:
    """Enough for a picture: a long fraction would be most of the document."""
    return [
        None if value is None or not math.isfinite(value) else round(value, digits or None)
        for value in values
    ]


def _most(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else max(one, other)


def _port(
    topology: Topology, end: EgressPort | None, name: str, queues: Sequence[QueueState], runs: Runs
) -> SwitchPortDocument:
    peer = None if end is None else end.peer
    known = [queue.capacity_bytes_per_s for queue in queues if queue.capacity_bytes_per_s is not None]
    tiers = topology.tiers
    return SwitchPortDocument(
        port=name,
        peer=peer,
        peer_port=None if end is None else _other_end(topology, end),
        up=end is not None and tiers.get(end.peer, 0) > tiers.get(end.node, 0),
        capacity_bytes_per_s=max(known, default=None if end is None else end.rate_bytes_per_s),
        queues=[QueueDocument.of(queue) for queue in queues],
        runs=watermark_document(runs(queues[0].ref) if queues else None),
    )


def _other_end(topology: Topology, end: EgressPort) -> str | None:
    """Both directions of a cable are in a row."""
    assert end.port is not None
    return topology.ports[topology.port_index[end.node, end.port] ^ 1].port


ConditionLevel = Literal["well", "watch", "bad"]


class ConditionFigure(Document):
    """One figure of the newest window, its thresholds and its last hour."""

    name: str
    """`packet_p99_slowdown` (a full packet, to its acknowledgement) or `elephant_slowdown` (messages of 1 MB
    and more), durations ÷ durations alone; `paused_share` of port time, `loss_share` or `marked_share` of
    packets.
    """
    value: Figure
    """Null: the window shows none of it, or nobody counts it."""
    level: ConditionLevel
    """By the thresholds; `well` where it is not known."""
    watch_from: Figure
    """From this value on it is to be watched; null: never."""
    bad_from: Figure
    """From this value on the fabric is not well; null: never."""
    sentence: str
    """The figure in words."""
    hour_median: Figure
    """Median of the last hour; null where nothing was measured."""
    hour: list[tuple[Time, float]]
    """The last hour as time and value, the oldest first: all that was measured where that is at most 60
    values, else the highest of each minute.
    """


class ConditionDocument(Document):
    """Whether the fabric is well, by what its traffic gets."""

    level: Literal["well", "watch", "bad", "unknown"]
    """The worst level of the figures; `bad` also under a critical alarm, `unknown` without fresh reports."""
    sentence: str
    """The verdict in words, with the figures that decide it."""
    as_of: Time | None
    """When the newest window was measured; null: none was."""
    figures: list[ConditionFigure]
    """Small messages first, then bulk, pauses, loss and marks."""
