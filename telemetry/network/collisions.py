"""Elephants that share a port while an equal-cost one has room.

Ports are equal-cost where they are next hops of one switch towards one destination, at the same rate. Loads
are those of the window, with sampling undone.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from telemetry.state import FlowClass, FlowKey, NetworkState, QueueState
from telemetry.topology import Topology

COLLISION_RATIO = 1.5
LEAST_LOAD = 0.25  # of its rate: less on the fullest port of a group slows nobody
_ERRORS = 2.0  # that a sampled load must be over the mean of its group
_TOGETHER = 2  # elephants that share a port


@dataclass(frozen=True, slots=True)
class Elephant:
    """An elephant that crosses a group of equal-cost ports; ``port`` indexes the topology's ports."""

    key: FlowKey
    src_host: str
    dst_host: str
    port: int
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class PortLoad:
    """What one port of a group carries of all traffic, and its elephants, the largest first."""

    port: int
    name: str
    rate_bytes_per_s: float
    load_bytes_per_s: float
    elephants: tuple[Elephant, ...]


@dataclass(frozen=True, slots=True)
class Collision:
    """A group of equal-cost ports of one switch that elephants load unevenly; the fullest port first."""

    switch: str
    ports: tuple[PortLoad, ...]

    @property
    def ratio(self) -> float:
        """The fullest port's load ÷ the mean of the group."""
        loads = [one.load_bytes_per_s for one in self.ports]
        return max(loads) * len(loads) / sum(loads)

    @property
    def elephants(self) -> tuple[Elephant, ...]:
        return tuple(one for port in self.ports for one in port.elephants)


@dataclass(frozen=True, slots=True)
class Collisions:
    """The collisions of a window, the worst first; what could be looked at.

    ``n_groups`` are groups of equal-cost ports that elephants cross; ``n_elephants`` all elephants of the
    window, ``n_unknown`` those whose hosts or path are not the topology's.
    """

    found: tuple[Collision, ...]
    n_groups: int
    n_elephants: int
    n_unknown: int


def collisions(state: NetworkState, ratio: float = COLLISION_RATIO) -> Collisions:
    """Groups whose fullest port carries at least ``ratio`` times the mean, more than sampling explains.

    On that port are two elephants or more, and another port has room for one of them.
    """
    elephants, n_unknown = _elephants(state)
    loads, reports = port_loads(state), _reports(state)
    next_hops = cache(state.topology.next_hops)
    groups: defaultdict[tuple[int, ...], list[Elephant]] = defaultdict(list)
    for one in elephants:
        own = state.topology.ports[one.port]
        groups[_equal_cost(state.topology, one.port, next_hops(own.node, one.dst_host))].append(one)
    wide = {ports: crossing for ports, crossing in groups.items() if len(ports) > 1}
    found: dict[int, Collision] = {}
    for ports, crossing in wide.items():
        group = _loaded(state.topology, ports, crossing, loads)
        if _collides(group, reports, ratio):
            # Groups of several destinations may share their fullest port: the one with most elephants tells.
            fullest = group.ports[0].port
            other = found.get(fullest)
            if other is None or len(group.elephants) > len(other.elephants):
                found[fullest] = group
    n_elephants = int(np.count_nonzero(state.flows.flow_class == FlowClass.ELEPHANT))
    order = sorted(found.values(), key=lambda one: (-_excess(one), one.switch, one.ports[0].name))
    return Collisions(tuple(order), len(wide), n_elephants, n_unknown)


def port_loads(state: NetworkState) -> dict[int, float]:
    """Bytes per second through each port seen, its queues added; keys index the topology's ports."""
    found: defaultdict[int, float] = defaultdict(float)
    for port, queue in _queues(state):
        found[port] += queue.throughput_bytes_per_s
    return dict(found)


def _reports(state: NetworkState) -> Mapping[int, int]:
    found: defaultdict[int, int] = defaultdict(int)
    for port, queue in _queues(state):
        found[port] += queue.n_samples
    return found


def _queues(state: NetworkState) -> Iterable[tuple[int, QueueState]]:
    index = state.topology.port_index
    for queue in state.queues:
        port = index.get((queue.ref.switch, queue.ref.port))
        if port is not None:
            yield port, queue


def _elephants(state: NetworkState) -> tuple[list[Elephant], int]:
    """Each elephant once for every switch port that it crosses; how many of them have no known path."""
    topology, flows = state.topology, state.flows
    found: list[Elephant] = []
    unknown = 0
    hosts = {host.name for host in topology.hosts}
    for row in np.flatnonzero(flows.flow_class == FlowClass.ELEPHANT).tolist():
        path, dst = int(flows.path[row]), flows.dst_host[row]
        refs = state.paths[path] if 0 <= path < len(state.paths) else ()
        ports = [topology.port_index.get((ref.switch, ref.port)) for ref in refs]
        if not ports or None in ports or not {flows.src_host[row], dst} <= hosts:
            unknown += 1
            continue
        rate = float(flows.throughput_bytes_per_s[row])
        found += [
            Elephant(flows.keys[row], flows.src_host[row], dst, port, rate)
            for port in ports
            if port is not None
        ]
    return found, unknown


def _equal_cost(topology: Topology, port: int, choices: Sequence[int]) -> tuple[int, ...]:
    """Those of the next hops that have the port's rate; () where it is none of them: a detour."""
    rate = topology.ports[port].rate_bytes_per_s
    return tuple(one for one in choices if topology.ports[one].rate_bytes_per_s == rate and port in choices)


def _loaded(
    topology: Topology, ports: Sequence[int], crossing: Sequence[Elephant], loads: Mapping[int, float]
) -> Collision:
    by_port: defaultdict[int, list[Elephant]] = defaultdict(list)
    for one in crossing:
        by_port[one.port].append(one)
    found = []
    for port in ports:
        elephants = tuple(sorted(by_port[port], key=lambda one: (-one.bytes_per_s, one.key)))
        end = topology.ports[port]
        load = loads.get(port, 0.0)
        found.append(PortLoad(port, end.port or "", end.rate_bytes_per_s, load, elephants))
    found.sort(key=lambda one: (-one.load_bytes_per_s, one.port))
    return Collision(topology.ports[ports[0]].node, tuple(found))


def _collides(group: Collision, reports: Mapping[int, int], ratio: float) -> bool:
    fullest, *others = group.ports
    load, rate = fullest.load_bytes_per_s, fullest.rate_bytes_per_s
    if len(fullest.elephants) < _TOGETHER or load < LEAST_LOAD * rate or group.ratio < ratio:
        return False
    if _excess(group) <= _ERRORS * load / math.sqrt(max(reports[fullest.port], 1)):
        return False
    # Not more on the other port afterwards than there is on this one now.
    room = min(rate, load) - min(one.load_bytes_per_s for one in others)
    return room >= min(one.bytes_per_s for one in fullest.elephants)


def _excess(group: Collision) -> float:
    """Bytes per second on the fullest port above the mean of its group."""
    loads = [one.load_bytes_per_s for one in group.ports]
    return max(loads) - sum(loads) / len(loads)
