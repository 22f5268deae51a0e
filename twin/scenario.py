"""A scenario as arrays: egress ports, flows with their paths, DCQCN parameters, what to measure.

``scenario_file`` reads the file format, ``arrivals.from_telemetry`` builds one from a window of telemetry.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, compress, pairwise

import numpy as np
from numpy.typing import NDArray

from telemetry.roles import port_roles
from telemetry.topology import EgressPort
from twin.errors import ScenarioError, check_above_zero, check_not_negative
from twin.senders.classes import unlike_most
from twin.senders.dcqcn import DcqcnParams
from twin.senders.rtt import RttSender


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Waits:
    """Which flows start once others have been delivered: a transfer after the one before it, as in a chain,
    or all that a rank of a collective sends in a step after all of the step before.

    Flow f starts ``gap_s[f]`` after the last delivery that its barrier ``barrier[f]`` waits for, −1 for none;
    barrier b waits for the flows ``row[offset[b]:offset[b + 1]]``. Flows that wait for each other never
    start.
    """

    barrier: NDArray[np.int64]
    gap_s: NDArray[np.float64]
    offset: NDArray[np.int64]
    row: NDArray[np.int64]

    @classmethod
    def of(cls, awaited: Iterable[Sequence[int]], gap_s: NDArray[np.float64]) -> Waits | None:
        """Each flow f waits for the rows ``awaited[f]``; those that wait for the same share a barrier. None
        where no flow waits.
        """
        known: dict[tuple[int, ...], int] = {}
        barrier = [known.setdefault(tuple(rows), len(known)) if len(rows) else -1 for rows in awaited]
        offset = np.cumsum([0, *map(len, known)])
        row = np.array(list(chain.from_iterable(known)), np.int64)
        return cls(barrier=np.array(barrier), gap_s=gap_s, offset=offset, row=row) if known else None

    @property
    def waiting(self) -> NDArray[np.bool_]:
        """Which flows wait for others."""
        return np.asarray(self.barrier >= 0)

    @property
    def barrier_of_row(self) -> NDArray[np.int64]:
        """The barrier of each entry of ``row``."""
        return np.repeat(np.arange(len(self.offset) - 1), np.diff(self.offset))

    @property
    def first_start(self) -> NDArray[np.int64]:
        """The first flow that each barrier starts, where each starts one."""
        waiting = np.flatnonzero(self.waiting)
        return waiting[np.unique(self.barrier[waiting], return_index=True)[1]]

    def of_each_flow(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows that each flow f waits for, ``after[begin[f]:begin[f + 1]]``: ``begin`` and ``after``."""
        counts = np.where(self.waiting, np.diff(self.offset)[self.barrier], 0)
        begin = np.concatenate([[0], np.cumsum(counts)])
        first = np.repeat(self.offset[self.barrier] - begin[:-1], counts)
        return begin, self.row[np.arange(begin[-1]) + first]

    def but_for(self, begun: NDArray[np.bool_]) -> Waits:
        """Of the flows ``begun`` none waits any more."""
        return replace(self, barrier=np.where(begun, -1, self.barrier))

    def only(self, rows: NDArray[np.int64]) -> Waits | None:
        """Those of the ``rows``, in that order; rows left out are waited for no more. None where no row waits
        then.
        """
        place = np.full(len(self.barrier), -1)
        place[rows] = np.arange(len(rows))
        barrier, of = self.barrier[rows], self.barrier_of_row
        left = np.bincount(of[place[self.row] >= 0], minlength=len(self.offset) - 1)
        stays = np.zeros(len(left), np.bool_)
        stays[barrier[barrier >= 0]] = True
        stays &= left > 0
        if not np.any(stays):
            return None
        number = np.where(stays, np.cumsum(stays) - 1, -1)
        return Waits(
            barrier=np.where(barrier >= 0, number[barrier], -1),
            gap_s=self.gap_s[rows],
            offset=np.concatenate([[0], np.cumsum(left[stays])]),
            row=place[self.row[(place[self.row] >= 0) & stays[of]]],
        )


@dataclass(frozen=True, kw_only=True)
class Flows:
    """The flows of a scenario, ordered by start; one row a flow.

    ``path_ports[path_offset[f]:path_offset[f + 1]]`` are the egress ports flow f waits in, its NIC first.
    ``payload_bytes`` is inf for a flow that never ends. Rates are bytes/s of wire bytes, times seconds. Of a
    flow that ``waits`` for others, ``start_s`` is when it was seen to start. What is left of a flow that
    began earlier is ``rest``; None: every flow is whole.
    """

    src: tuple[str, ...]
    dst: tuple[str, ...]
    payload_bytes: NDArray[np.float64]
    start_s: NDArray[np.float64]
    start_rate_bytes_per_s: NDArray[np.float64]
    path_offset: NDArray[np.int32]
    path_ports: NDArray[np.int32]
    waits: Waits | None = None
    rest: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.src)

    @cached_property
    def routes(self) -> tuple[tuple[tuple[int, ...], ...], NDArray[np.int32]]:
        """Distinct paths in order of first use, and each flow's index into them."""
        known: dict[tuple[int, ...], int] = {}
        ports, ends = self.path_ports.tolist(), self.path_offset.tolist()
        of_flow = [known.setdefault(tuple(ports[begin:end]), len(known)) for begin, end in pairwise(ends)]
        return tuple(known), np.array(of_flow, dtype=np.int32)

    def path(self, flow: int) -> tuple[int, ...]:
        """Egress ports of one flow, its NIC first."""
        return tuple(self.path_ports[self.path_offset[flow] : self.path_offset[flow + 1]].tolist())

    def only(self, kept: NDArray[np.bool_]) -> Flows:
        """The flows that ``kept`` marks, in their order."""
        lengths, marks = np.diff(self.path_offset), kept.tolist()
        return Flows(
            src=tuple(compress(self.src, marks)),
            dst=tuple(compress(self.dst, marks)),
            payload_bytes=self.payload_bytes[kept],
            start_s=self.start_s[kept],
            start_rate_bytes_per_s=self.start_rate_bytes_per_s[kept],
            path_offset=np.concatenate([[0], np.cumsum(lengths[kept])]).astype(np.int32),
            path_ports=self.path_ports[: self.path_offset[-1]][np.repeat(kept, lengths)],
            waits=None if self.waits is None else self.waits.only(np.flatnonzero(kept)),
            rest=None if self.rest is None else self.rest[kept],
        )


@dataclass(frozen=True, kw_only=True)
class FabricSizes:
    """Sizes of packets and of a switch's shared buffer, in bytes, and whether PFC is on: their defaults.

    ``ack_wire_bytes`` per data packet load the reverse path.
    """

    mtu_payload_bytes: int = 1000
    wire_overhead_bytes: int = 48
    ack_wire_bytes: int = 60
    buffer_bytes: float = 32_000_000
    pfc: bool = True

    @property
    def packet_wire_bytes(self) -> int:
        """A full packet on the wire: payload and overhead."""
        return self.mtu_payload_bytes + self.wire_overhead_bytes

    def check_sizes(self, at: str) -> None:
        """Raises ``ScenarioError`` for a size out of range."""
        for name in ("mtu_payload_bytes", "buffer_bytes"):
            check_above_zero(f"{at} {name}", getattr(self, name), error=ScenarioError)
        for name in ("wire_overhead_bytes", "ack_wire_bytes"):
            check_not_negative(f"{at} {name}", getattr(self, name), error=ScenarioError)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Background:
    """What flows that a slice of a fabric leaves out bring to its ports.

    ``wire_bytes[i, b]`` reach (of a NIC: leave) the port ``ports[i]`` in the b-th ``bin_s`` of the scenario;
    ``n_flows[i, b]`` share a NIC then, 0 at a switch.
    """

    ports: NDArray[np.int32]
    bin_s: float
    wire_bytes: NDArray[np.float32]
    n_flows: NDArray[np.float32]

    def without(self, others: Background) -> Background:
        """The rest where ``others`` are left out, which bring a part of this to the same ports."""
        rest = np.maximum(self.wire_bytes - others.wire_bytes, 0.0)
        return replace(self, wire_bytes=rest, n_flows=self.n_flows - others.n_flows)

    def at(self, rows: NDArray[np.bool_]) -> Background:
        """Only the ports chosen by ``rows``."""
        return replace(
            self, ports=self.ports[rows], wire_bytes=self.wire_bytes[rows], n_flows=self.n_flows[rows]
        )

    def flows_in(self, edges_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """How many flows share each NIC in these bins, at least one where there are bytes."""
        own = np.minimum((edges_s[:-1] / self.bin_s + 0.5).astype(int), self.n_flows.shape[1] - 1)
        return np.maximum(self.n_flows[:, own], 1.0).astype(np.float64, order="C")

    def bytes_until(self) -> NDArray[np.float64]:
        """Bytes by the edges of the bins, ``[port, edge]``."""
        until = np.zeros((len(self.ports), self.wire_bytes.shape[1] + 1))
        np.cumsum(self.wire_bytes, axis=1, dtype=np.float64, out=until[:, 1:])
        return until

    def bytes_in(self, edges_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bytes between these moments, ``[port, bin]``; even inside a bin of its own."""
        own_s = np.arange(self.wire_bytes.shape[1] + 1) * self.bin_s
        found = [np.diff(np.interp(edges_s, own_s, row)) for row in self.bytes_until()]
        return np.array(found).reshape(len(self.ports), len(edges_s) - 1)


@dataclass(frozen=True, kw_only=True)
class Scenario(FabricSizes):
    """A fabric, its flows, and the window in which metrics are taken.

    ``ports`` are egress ports of switches and NICs alike; ``monitored`` indexes the ones pooled for queue
    metrics. Times in seconds. A slice of a fabric holds the flows to the share ``slice_share`` of the
    receivers that flows have, and what the others bring as ``background``. Where the traffic ``goes_on``
    afterwards, a flow's bytes are those it had sent by then. Where the same traffic comes several times, it
    is ``repeated`` so often, so that its runs tell less than as many of different traffic. Of the flows
    ``watched``, by row (−1: one that is left out), a prediction tells what each got. Hosts send by ``dcqcn``,
    but for those whose ``nic_class`` is in ``dcqcn_by_class``, and for those among ``senders``; engines may
    refuse both. A part of a fabric keeps the classes of hosts that it lacks. Raises ``ScenarioError`` for
    numbers out of range.
    """

    name: str
    ports: tuple[EgressPort, ...]
    flows: Flows
    monitored: tuple[int, ...]
    dcqcn: DcqcnParams
    duration_s: float
    window_s: tuple[float, float]
    background: Background | None = None
    slice_share: float = 1.0
    goes_on: bool = False
    repeated: float = 1.0
    watched: tuple[int, ...] = ()
    senders: Mapping[str, RttSender] = field(default_factory=dict)
    nic_class: Mapping[str, str] = field(default_factory=dict)
    dcqcn_by_class: Mapping[str, DcqcnParams] = field(default_factory=dict)

    def __post_init__(self) -> None:
        at = f"scenario {self.name!r}"
        self.check_sizes(at)
        check_above_zero(f"{at} duration_s", self.duration_s, error=ScenarioError)
        begin, end = self.window_s
        if not 0 <= begin < end <= self.duration_s * (1 + 1e-12):
            rule = f"0 ≤ begin < end ≤ duration_s ({self.duration_s})"
            raise ScenarioError(f"{at} window_s", f"[{begin}, {end}]", rule, "correct it")
        if len(self.flows) == 0:
            rule = "a twin needs traffic to replay"
            raise ScenarioError(f"{at} flows", "none", rule, "give at least one flow")
        if not self.monitored:
            rule = "queue metrics need a port"
            raise ScenarioError(f"{at} monitored_ports", "none", rule, "name at least one port")
        check_senders(at, self.senders, {port.node for port in self.ports if port.port is None})

    @cached_property
    def sending(self) -> Mapping[str, RttSender]:
        """Those of ``senders`` that send a flow: hosts that a watermark does not reach."""
        hosts = set(self.flows.src)
        return {host: sender for host, sender in self.senders.items() if host in hosts}

    @property
    def unmarked(self) -> bool:
        """Whether no host that sends runs DCQCN, so that no watermark changes anything."""
        return len(self.sending) == len(set(self.flows.src))

    @property
    def sending_text(self) -> str:
        """Such as ``rl-cc on 12 of 16 hosts that send``."""
        names = ", ".join(sorted({sender.name for sender in self.sending.values()}))
        return f"{names} on {len(self.sending)} of {len(set(self.flows.src))} hosts that send"

    @cached_property
    def dcqcn_by_host(self) -> Mapping[str, DcqcnParams]:
        """Hosts that run other values than ``dcqcn``."""
        return unlike_most(self.nic_class, self.dcqcn_by_class, self.dcqcn)

    def dcqcn_of(self, host: str) -> DcqcnParams:
        return self.dcqcn_by_host.get(host, self.dcqcn)

    @cached_property
    def dcqcn_run(self) -> tuple[DcqcnParams, ...]:
        """All that hosts run, each once, ``dcqcn`` first."""
        return tuple(dict.fromkeys((self.dcqcn, *self.dcqcn_by_host.values())))

    def check_one_dcqcn(self, engine: str) -> None:
        """Raises ``ScenarioError`` where hosts that send run different values of DCQCN."""
        if others := self.dcqcn_by_host.keys() & set(self.flows.src):
            received = ", ".join(sorted({self.nic_class[host] for host in others}))
            rule = f"the {engine} engine models one set of DCQCN values for all hosts"
            where = f"scenario {self.name!r} dcqcn_by_class"
            raise ScenarioError(where, received, rule, "take the replay or packet engine")

    def check_dcqcn(self, engine: str) -> None:
        """Raises ``ScenarioError`` where a host that sends runs something else than DCQCN."""
        if self.sending:
            rule = f"the {engine} engine models DCQCN alone"
            remedy = "take the packet engine"
            raise ScenarioError(f"scenario {self.name!r} senders", self.sending_text, rule, remedy)

    @cached_property
    def flow_wire_bytes(self) -> NDArray[np.float64]:
        """Per flow: payload plus an overhead a packet; inf for persistent flows."""
        payload = self.flows.payload_bytes
        packets = np.ceil(payload / self.mtu_payload_bytes)
        # A persistent flow has no last packet: inf × an overhead of 0 would be NaN.
        overhead = np.where(np.isfinite(packets), packets, 0.0) * self.wire_overhead_bytes
        return np.asarray(payload + overhead, dtype=np.float64)

    @cached_property
    def is_nic(self) -> NDArray[np.bool_]:
        """Per port: whether it is a host's NIC."""
        return np.array([port.port is None for port in self.ports], dtype=np.bool_)

    @cached_property
    def port_roles(self) -> tuple[str | None, ...]:
        """Per port: its role (``telemetry.roles``), None for a NIC."""
        return port_roles(self.ports)

    @cached_property
    def port_rate_bytes_per_s(self) -> NDArray[np.float64]:
        """Per port: its line rate in wire bytes/s."""
        return np.array([port.rate_bytes_per_s for port in self.ports], dtype=np.float64)

    @cached_property
    def port_delay_s(self) -> NDArray[np.float64]:
        """Per port: one-way propagation delay of its cable."""
        return np.array([port.delay_s for port in self.ports], dtype=np.float64)

    @cached_property
    def alone_s(self) -> NDArray[np.float64]:
        """Completion time of each flow alone on its path, from its first byte to its last acknowledgement.

        All packets at the slowest link, the last one stored and forwarded at each hop, and the way back. The
        denominator of *slowdown*; inf for persistent flows.
        """
        of_flow = self.flows.routes[1]
        last = np.minimum(self.flows.payload_bytes, self.mtu_payload_bytes) + self.wire_overhead_bytes
        return self._alone_s(self.flow_wire_bytes, last, of_flow)

    @cached_property
    def packet_alone_s(self) -> NDArray[np.float64]:
        """``alone_s`` of a flow of one full packet, per path of ``flows.routes``."""
        every = np.arange(len(self.flows.routes[0]))
        packet = np.full(len(every), float(self.packet_wire_bytes))
        return self._alone_s(packet, packet, every)

    def so_far_alone_s(self, sent_bytes: NDArray[np.float64]) -> NDArray[np.float64]:
        """``alone_s`` of flows of which only these payload bytes count, a packet at least."""
        of_flow = self.flows.routes[1]
        slowest = 1.0 / self.over_paths(self.port_rate_bytes_per_s, np.minimum)
        wire_ratio = self.packet_wire_bytes / self.mtu_payload_bytes
        unsent = np.maximum(self.flows.payload_bytes - sent_bytes, 0.0) * wire_ratio
        least = np.minimum(self.alone_s, self.packet_alone_s[of_flow])
        return np.maximum(self.alone_s - unsent * slowest[of_flow], least)

    def _alone_s(
        self, wire: NDArray[np.float64], last: NDArray[np.float64], of_flow: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        s_per_byte = self.over_paths(1.0 / self.port_rate_bytes_per_s, np.add)
        slowest = 1.0 / self.over_paths(self.port_rate_bytes_per_s, np.minimum)
        way_back = 2.0 * self.over_paths(self.port_delay_s, np.add)
        alone: NDArray[np.float64] = (
            wire * slowest[of_flow]
            + last * (s_per_byte - slowest)[of_flow]
            + self.ack_wire_bytes * s_per_byte[of_flow]
            + way_back[of_flow]
        )
        return alone

    def over_paths(self, of_port: NDArray[np.float64], by: np.ufunc) -> NDArray[np.float64]:
        """Per path of ``flows.routes``: ``by`` over a figure of its ports, such as a sum."""
        paths = self.flows.routes[0]
        ports = np.fromiter(chain.from_iterable(paths), dtype=np.int64)
        first = np.cumsum([0, *map(len, paths[:-1])])
        found: NDArray[np.float64] = by.reduceat(of_port[ports], first)
        return found

    def until(self, duration_s: float) -> Scenario:
        """The scenario cut short: flows that start later are dropped, the metrics window shrinks too.

        One that starts later but waits only for flows that start sooner stays: it may start sooner too.
        """
        if duration_s >= self.duration_s:
            return self
        scale = duration_s / self.duration_s
        begin = self.window_s[0] * scale
        kept = self.flows.start_s < duration_s
        kept[0] = True
        waits = self.flows.waits
        if waits is not None:
            kept |= waits.waiting & np.logical_and.reduceat(kept[waits.row], waits.offset[:-1])[waits.barrier]
        row = np.where(kept, np.cumsum(kept) - 1, -1).tolist()
        return replace(
            self,
            flows=self.flows.only(kept),
            duration_s=duration_s,
            window_s=(begin, duration_s),
            repeated=max(self.repeated * scale, 1.0),
            watched=tuple(-1 if one < 0 else row[one] for one in self.watched),
        )


def check_senders(at: str, senders: Collection[str], hosts: Collection[str]) -> None:
    """Raises ``ScenarioError`` where ``senders`` names no host."""
    for name in senders:
        if name not in hosts:
            rule = "senders are hosts of the topology"
            raise ScenarioError(f"{at} senders", repr(name), rule, "correct the name, or add the host")


def reverse_ports(ports: Sequence[EgressPort]) -> list[int]:
    """Per port: the other direction of its cable, −1 where it is missing.

    Parallel cables pair up in their order: the k-th from a to b with the k-th from b to a.
    """
    between: dict[tuple[str, str], list[int]] = {}
    for index, port in enumerate(ports):
        between.setdefault((port.node, port.peer), []).append(index)
    reverse = [-1] * len(ports)
    for (node, peer), there in between.items():
        for forth, back in zip(there, between.get((peer, node), ()), strict=False):
            reverse[forth] = back
    return reverse


def pfc_shares(ports: Sequence[EgressPort]) -> NDArray[np.float64]:
    """Per port: how much of the shared buffer left at its far end its packets may hold before it is paused.

    An eighth at the NICs' rate, doubled for each doubling of the rate above it, at most all: the dynamic
    thresholds of the reference problems' switches.
    """
    nic = max((port.rate_bytes_per_s for port in ports if port.port is None), default=math.inf)
    rates = np.array([port.rate_bytes_per_s for port in ports])
    doublings = np.ceil(np.log2(np.maximum(rates / nic, 1.0)) - 1e-9)
    shares: NDArray[np.float64] = np.minimum(0.125 * 2.0**doublings, 1.0)
    return shares


def packet_hops(scenario: Scenario, duration_s: float) -> float:
    """Estimates the packet engine's work: packets sent × ports crossed, acknowledgements included.

    A flow offers no more than its NIC carries, and is cut by its tightest port.
    """
    flows = scenario.flows
    lengths = np.diff(flows.path_offset).astype(np.int64)
    owner = np.repeat(np.arange(len(flows)), lengths)
    crossed = flows.path_ports[: len(owner)]
    rate = scenario.port_rate_bytes_per_s
    active_s = np.maximum(duration_s - flows.start_s, 0.0)
    nic = flows.path_ports[flows.path_offset[:-1]]
    offered = np.minimum(scenario.flow_wire_bytes, active_s * rate[nic])
    load = np.bincount(crossed, weights=offered[owner], minlength=len(rate))
    carried = np.minimum(1.0, rate * duration_s / np.maximum(load, 1.0))
    tightest = np.ones(len(flows))
    np.minimum.at(tightest, owner, carried[crossed])
    packets = np.ceil(offered / scenario.packet_wire_bytes) * tightest
    each_way = 2.0 if scenario.ack_wire_bytes > 0 else 1.0
    return float(np.dot(packets, lengths) * each_way)


def affordable_s(scenario: Scenario, budget: float) -> float:
    """Seconds from the start of the scenario that ``budget`` packet-hops pay for."""
    if packet_hops(scenario, scenario.duration_s) <= budget:
        return scenario.duration_s
    low, high = 0.0, scenario.duration_s
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if packet_hops(scenario, middle) <= budget else (low, middle)
    return low
