"""Other paths for a scenario's flows: elephants moved to equal-cost ports, or all of a switch hashed anew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from telemetry.network.collisions import Collision, Elephant
from telemetry.topology import Topology
from twin.scenario import Flows

Path = tuple[int, ...]
Changes = Mapping[int, Path]
"""The new path of some flows, by row."""

MOST_MOVES = 8
_HASH_STREAM, _ONWARD_STREAM = 0, 1


@dataclass(frozen=True, slots=True)
class Carried:
    """An elephant, and the rows of a scenario's flows that are its messages."""

    elephant: Elephant
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """One elephant to the equal-cost port ``to``, and the paths of its rows then."""

    elephant: Elephant
    to: int
    paths: tuple[tuple[int, Path], ...]


def carried(flows: Flows, collision: Collision) -> list[Carried]:
    """The group's elephants that the flows show.

    Flows have no five-tuple: several elephants between the same hosts through one port share their rows in
    turn.
    """
    ports = {one.port for one in collision.ports}
    paths, of_flow = flows.routes
    port_of = [next((port for port in path if port in ports), -1) for path in paths]
    rows: defaultdict[tuple[str, str, int], list[int]] = defaultdict(list)
    for row, path in enumerate(of_flow.tolist()):
        if port_of[path] >= 0:
            rows[flows.src[row], flows.dst[row], port_of[path]].append(row)
    alike: defaultdict[tuple[str, str, int], list[Elephant]] = defaultdict(list)
    for one in collision.elephants:
        alike[one.src_host, one.dst_host, one.port].append(one)
    found = [
        Carried(one, tuple(rows.get(ends, [])[place :: len(elephants)]))
        for ends, elephants in alike.items()
        for place, one in enumerate(elephants)
    ]
    return [one for one in found if one.rows]


def spread(
    topology: Topology,
    flows: Flows,
    collision: Collision,
    elephants: Sequence[Carried],
    loads: Mapping[int, float],
) -> list[Move]:
    """Moves from the fullest port of the group to the emptiest, while the fuller of both gets emptier.

    ``loads`` in bytes per second by port, where seen. An elephant moves once, and only where its way onward
    from the other port stays emptier than the port that it leaves.
    """
    ways = _Ways(topology, loads)
    group = [one.port for one in collision.ports]
    waiting = {one.elephant: one for one in elephants}
    found: list[Move] = []
    while len(found) < MOST_MOVES:
        fullest = max(group, key=lambda port: (ways.busy(port), -port))
        options = []
        for one in (one for one in waiting.values() if one.elephant.port == fullest):
            for to in (other for other in group if other != fullest):
                onward = ways.onward(to, one.elephant.dst_host)
                after = ways.busy_after(one.elephant, fullest, flows.path(one.rows[0]), onward)
                if after < ways.busy(fullest) * (1 - 1e-9):
                    options.append((after, one.elephant.key, to, one, onward))
        if not options:
            break
        _, _, to, one, onward = min(options, key=lambda option: option[:3])
        del waiting[one.elephant]
        paths = tuple((row, _turned(flows.path(row), fullest, onward)) for row in one.rows)
        ways.move(one.elephant.bytes_per_s, flows.path(one.rows[0]), paths[0][1])
        found.append(Move(one.elephant, to, paths))
    return found


class _Ways:
    """Loads of ports as elephants move, and the emptiest ways."""

    def __init__(self, topology: Topology, loads: Mapping[int, float]) -> None:
        self._topology = topology
        self._next_hops = cache(topology.next_hops)
        self._loads = dict(loads)

    def busy(self, port: int) -> float:
        """Load ÷ rate."""
        return self._loads.get(port, 0.0) / self._topology.ports[port].rate_bytes_per_s

    def busy_after(self, elephant: Elephant, left: int, before: Path, onward: Path) -> float:
        """The fullest that the port left, or one that is new on its way, is once the elephant has moved."""
        ports, rate = self._topology.ports, elephant.bytes_per_s
        new = [self.busy(port) + rate / ports[port].rate_bytes_per_s for port in onward if port not in before]
        return max(self.busy(left) - rate / ports[left].rate_bytes_per_s, *new)

    def onward(self, port: int, host: str) -> Path:
        """The way to a host that begins with this port, by the emptiest port of each switch."""
        found = [port]
        while (node := self._topology.ports[found[-1]].peer) != host:
            found.append(min(self._next_hops(node, host), key=lambda one: (self.busy(one), one)))
        return tuple(found)

    def move(self, bytes_per_s: float, before: Path, after: Path) -> None:
        for ports, change in ((before, -bytes_per_s), (after, bytes_per_s)):
            for port in ports:
                self._loads[port] = max(self._loads.get(port, 0.0) + change, 0.0)


def hashed(
    topology: Topology, flows: Flows, switch: str, elephants: Sequence[Carried], seed: int
) -> dict[int, Path]:
    """Paths where a switch has another hash seed: each flow takes any of its equal-cost ports alike.

    Hash functions of hardware are not known, so ports are drawn at random: for all rows of an elephant one,
    for others each its own. Switches onward keep their seeds: what a flow takes there does not depend on
    ``seed``.
    """
    ports, next_hops = topology.ports, cache(topology.next_hops)
    unit = np.arange(len(flows))
    for one in elephants:
        unit[list(one.rows)] = one.rows[0]
    draws = np.random.default_rng([seed, _HASH_STREAM]).random(len(flows)).tolist()
    onward = np.random.default_rng([0, _ONWARD_STREAM]).random(len(flows)).tolist()
    paths, of_flow = flows.routes
    turns = [next((port for port in path[1:] if ports[port].node == switch), -1) for path in paths]
    found: dict[int, Path] = {}
    for row, (path, number) in enumerate(zip(of_flow.tolist(), unit.tolist(), strict=True)):
        if turns[path] < 0:
            continue
        host = flows.dst[row]
        choices = next_hops(switch, host)
        if len(choices) < 2 or turns[path] not in choices:
            continue
        way = [choices[int(draws[number] * len(choices))]]
        if way[0] == turns[path]:
            continue
        while (node := ports[way[-1]].peer) != host:
            further = next_hops(node, host)
            way.append(further[int(onward[number] * len(further))])
        found[row] = _turned(paths[path], turns[path], tuple(way))
    return found


def rerouted(flows: Flows, changes: Changes) -> Flows:
    """The same flows, some on other paths."""
    paths = [changes.get(row) or flows.path(row) for row in range(len(flows))]
    return replace(
        flows,
        path_offset=np.cumsum([0, *map(len, paths)]).astype(np.int32),
        path_ports=np.array([port for path in paths for port in path], dtype=np.int32),
    )


def _turned(path: Path, port: int, onward: Path) -> Path:
    """A path up to ``port``, then ``onward`` instead."""
    return (*path[: path.index(port)], *onward)
