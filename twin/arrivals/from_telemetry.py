"""Builds a ``Scenario`` from one window of telemetry."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from telemetry.columns import fingerprint_of
from telemetry.errors import TopologyError
from telemetry.state import NetworkState, QueueRef
from telemetry.topology import Topology
from twin.arrivals.links import NO_LINKS, Links, linked
from twin.errors import ScenarioError
from twin.scenario import Flows, Scenario
from twin.senders.dcqcn import DcqcnParams

REPLAY_S = 0.05  # replayed from the end of a longer window; a thousand CNP intervals
MOST_STARTS = 20_000  # flows that begin inside the replay; a busier window is replayed for less time
WARM_UP = 0.07  # share of the replay before metrics count, while running flows find their rates
MOST_WARM_UP = 0.5  # where running flows carry most bytes: their α takes τ′/g to find its level
_SPEED_UP = 2.0  # without a mark a flow never speeds up: one that ran before starts above its average
_QUEUES_FROM = 0.01
_NEARLY_FULL = 0.8
RUNNING_FROM_S = 1e-9  # flows that start this early in a replay ran before it


def scenario_from_state(
    state: NetworkState,
    dcqcn: DcqcnParams,
    *,
    mtu_payload_bytes: int,
    wire_overhead_bytes: int,
    buffer_bytes: float,
    pfc: bool,
    monitored: tuple[int, ...] | None = None,
    begin_s: float | None = None,
    links: Links = NO_LINKS,
) -> Scenario:
    """The window from ``begin_s`` on (None: ``replayed_from_s``) as a scenario.

    It monitors the congested ports, or those given.

    Flows follow the path telemetry saw. One that began inside the replayed time starts at line rate, one that
    ran before at its average rate with the bytes it had left. Large messages wait for one another as
    ``links`` says. Raises ``ScenarioError`` where no flow can be placed on the topology.
    """
    topology, arrivals = state.topology, state.arrivals
    congested = _congested(state)
    begin_s = replayed_from_s(state) if begin_s is None else begin_s
    duration_s = state.duration_s - begin_s
    in_order = linked(arrivals, links, topology.nic_bytes_per_s, begin_s, state.duration_s)
    if in_order is not None:
        arrivals = in_order.arrivals
    running_s = np.maximum(arrivals.last_s - arrivals.start_s, 1e-6)
    average = arrivals.sent_bytes / running_s
    before = arrivals.start_s <= max(begin_s, RUNNING_FROM_S)
    # What an earlier flow still had to send when the replay begins, at its average rate.
    left = np.where(
        before, arrivals.wire_bytes - average * np.maximum(begin_s - arrivals.start_s, 0.0), np.inf
    )
    left = np.minimum(left, arrivals.wire_bytes)
    alive = np.where(before & np.isfinite(arrivals.wire_bytes), arrivals.last_s > begin_s, True)
    chosen = np.flatnonzero(alive & (left > 0.0))
    start_s = np.maximum(arrivals.start_s - begin_s, 0.0)
    order = chosen[np.argsort(start_s[chosen], kind="stable")]
    if not len(order):
        received = f"{len(arrivals)} flows, all over when the replay begins"
        rule = "a replay needs flows that send in it"
        raise ScenarioError("telemetry window", received, rule, "record reports of a longer time")

    routes = _Routes(topology, state.paths)
    rows: list[int] = []
    paths: list[tuple[int, ...]] = []
    for row in order.tolist():
        path = routes.path(arrivals.src_host[row], arrivals.dst_host[row], int(arrivals.path[row]))
        if path is not None:
            rows.append(row)
            paths.append(path)
    if not rows:
        received = f"{len(arrivals)} flows, none of them between hosts the topology joins"
        remedy = "declare the hosts' addresses in the topology, or leave it to be discovered"
        raise ScenarioError("telemetry window", received, "a replay needs flows with a path", remedy)
    kept = np.array(rows, dtype=np.int64)
    line_rate = np.array([topology.ports[path[0]].rate_bytes_per_s for path in paths])
    packets = left[kept] / (mtu_payload_bytes + wire_overhead_bytes)
    resumed = _resumed(before[kept], arrivals.start_s[kept], begin_s)
    # An endless flow where no port is full is held back by its sender, not by DCQCN.
    full = {port for port, share in _busy(state).items() if share >= _NEARLY_FULL}
    held = np.array([full.isdisjoint(path) for path in paths]) & np.isinf(left[kept])
    flows = Flows(
        src=tuple(arrivals.src_host[row] for row in rows),
        dst=tuple(arrivals.dst_host[row] for row in rows),
        payload_bytes=np.where(np.isfinite(packets), np.maximum(packets * mtu_payload_bytes, 1.0), np.inf),
        start_s=start_s[kept],
        start_rate_bytes_per_s=np.where(
            resumed,
            np.minimum(np.where(held, 1.0, _SPEED_UP) * average[kept], line_rate),
            line_rate,
        ),
        path_offset=np.cumsum([0, *map(len, paths)]).astype(np.int32),
        path_ports=np.array([port for path in paths for port in path], dtype=np.int32),
        waits=None if in_order is None else in_order.waits.but_for(before).only(kept),
        rest=(arrivals.ran_before | (before & (arrivals.start_s < begin_s)))[kept],
    )
    return Scenario(
        name="telemetry window",
        ports=topology.ports,
        flows=flows,
        monitored=monitored or congested,
        dcqcn=dcqcn,
        mtu_payload_bytes=mtu_payload_bytes,
        wire_overhead_bytes=wire_overhead_bytes,
        buffer_bytes=buffer_bytes,
        pfc=pfc,
        duration_s=duration_s,
        window_s=(_warm_up(arrivals.sent_bytes[kept], resumed, dcqcn, duration_s) * duration_s, duration_s),
    )


def replayed_from_s(state: NetworkState, replay_s: float | None = None) -> float:
    """When the replay of a window's last ``replay_s`` begins, in seconds after the window's start.

    None: ``REPLAY_S``, or twice that where endless flows, half of whose replay is warm-up, carry most bytes.
    """
    starts = state.arrivals.start_s
    if replay_s is None:
        endless = np.isinf(state.arrivals.wire_bytes)
        settling = state.arrivals.sent_bytes[endless].sum() > 0.5 * state.arrivals.sent_bytes.sum()
        replay_s = 2.0 * REPLAY_S if settling else REPLAY_S
    begin_s = max(0.0, state.duration_s - replay_s)
    if len(starts) > MOST_STARTS:
        begin_s = max(begin_s, min(float(np.sort(starts)[-MOST_STARTS]), 0.95 * state.duration_s))
    return begin_s


def _warm_up(
    sent: NDArray[np.float64], resumed: NDArray[np.bool_], dcqcn: DcqcnParams, duration_s: float
) -> float:
    """The share of the replay before metrics count."""
    carried = float(sent[resumed].sum() / sent.sum())
    settling = 4.0 * dcqcn.alpha_timer_s / dcqcn.gain / duration_s
    return WARM_UP if carried <= 0.5 else min(max(WARM_UP, settling), MOST_WARM_UP)


def _resumed(before: NDArray[np.bool_], start_s: NDArray[np.float64], begin_s: float) -> NDArray[np.bool_]:
    """Whether each flow was already sending when the replay begins."""
    return np.asarray(before & ((start_s < begin_s) | (start_s <= RUNNING_FROM_S)))


def _congested(state: NetworkState) -> tuple[int, ...]:
    """The bottlenecks: ports that run nearly full or queue at least a hundredth of the deepest mean.

    Ports where nothing waits would dilute the mean that candidates are judged by. Queues without a reported
    depth are left out; raises ``ScenarioError`` where no queue has one.
    """
    index = state.topology.port_index
    busy = _busy(state)
    depth: dict[int, float] = {}
    for queue in state.queues:
        port = index.get((queue.ref.switch, queue.ref.port))
        if port is not None and queue.has_depth:
            depth[port] = depth.get(port, 0.0) + queue.depth_mean_bytes
    if state.queues and not any(queue.has_depth for queue in state.queues):
        received = f"{len(state.queues)} queues, none of them with a depth"
        rule = "a round needs the depth of a queue in bytes"
        remedy = (
            "send queue_bytes of each hop (docs/telemetry/int-report.md), or give switches that report in "
            "binary a unit profile in the inventory (docs/telemetry/int-binary.md)"
        )
        raise ScenarioError("telemetry window", received, rule, remedy)
    deepest = max(depth.values(), default=0.0)
    if deepest <= 0.0:
        return tuple(sorted(depth))
    return tuple(sorted(p for p in depth if depth[p] >= _QUEUES_FROM * deepest or busy[p] >= _NEARLY_FULL))


def _busy(state: NetworkState) -> dict[int, float]:
    """Throughput of ports seen, as shares of their rates; a port's queues added."""
    index = state.topology.port_index
    busy: dict[int, float] = {}
    for queue in state.queues:
        port = index.get((queue.ref.switch, queue.ref.port))
        if port is not None:
            rate = state.topology.ports[port].rate_bytes_per_s
            busy[port] = busy.get(port, 0.0) + queue.throughput_bytes_per_s / rate
    return busy


class _Routes:
    """Egress ports of a flow: its NIC and the path telemetry saw, or else an equal-cost path."""

    def __init__(self, topology: Topology, seen: Sequence[tuple[QueueRef, ...]]) -> None:
        self._topology = topology
        self._seen = seen
        self._found: dict[tuple[str, str, int], tuple[int, ...] | None] = {}

    def path(self, src: str, dst: str, seen: int) -> tuple[int, ...] | None:
        key = (src, dst, seen)
        if key not in self._found:
            self._found[key] = self._as_seen(src, dst, seen) or self._as_routed(src, dst, seen)
        return self._found[key]

    def _as_seen(self, src: str, dst: str, seen: int) -> tuple[int, ...] | None:
        topology = self._topology
        if not 0 <= seen < len(self._seen) or not self._seen[seen]:
            return None
        hops = [topology.port_index.get((ref.switch, ref.port)) for ref in self._seen[seen]]
        path: list[int] = []
        node = src
        for hop in hops:
            if hop is None:
                return None
            if not path:
                first_switch = topology.ports[hop].node
                nics = topology.ports_of.get(src, ())
                nic = next((port for port in nics if topology.ports[port].peer == first_switch), None)
                if nic is None:
                    return None
                path.append(nic)
                node = topology.ports[nic].peer
            if topology.ports[hop].node != node:
                return None
            path.append(hop)
            node = topology.ports[hop].peer
        return tuple(path) if node == dst else None

    def _as_routed(self, src: str, dst: str, seen: int) -> tuple[int, ...] | None:
        try:
            return self._topology.path(src, dst, fingerprint_of((src, dst, seen)))
        except TopologyError:
            return None
