"""Equal-cost shortest paths over the cables that are up, by flow hash."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twin.errors import ScenarioError
from twin.packet.plan import FabricPlan
from twin.probe._draws import ProbePaths

_MASK = 0xFFFFFFFFFFFFFFFF
_ODD_1, _ODD_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@dataclass(frozen=True, slots=True)
class Way:
    """A path there and back as places, its NIC, and the time of a flow alone on it.

    A flow alone takes ``slowest_s_per_byte`` × its wire bytes + ``store_s_per_byte`` × its last packet +
    ``back_s``.
    """

    number: int
    forward: int
    back: int
    nic: int
    slowest_s_per_byte: float
    store_s_per_byte: float
    back_s: float

    def alone_s(self, packet_wire_bytes: int) -> float:
        """The round trip of a packet alone on it, from its first bit to its acknowledgement."""
        return packet_wire_bytes * (self.slowest_s_per_byte + self.store_s_per_byte) + self.back_s


class Routes:
    """Chooses paths and keeps their places for ever."""

    def __init__(self, plan: FabricPlan) -> None:
        self._plan = plan
        self._ports = plan.ports
        self._hosts = frozenset(plan.hosts)
        self._node = {name: number for number, name in enumerate([*plan.hosts, *plan.switches])}
        self._seeds = dict(plan.ecmp_seeds)
        self._leaving: defaultdict[str, list[int]] = defaultdict(list)
        self._entering: defaultdict[str, list[int]] = defaultdict(list)
        for index, port in enumerate(plan.ports):
            self._leaving[port.node].append(index)
            self._entering[port.peer].append(index)
        self._down: set[int] = set()
        self._last: dict[str, dict[str, tuple[int, ...]]] = {}
        self._choices: dict[frozenset[str], dict[str, tuple[int, ...]]] = {}
        self._ways: dict[tuple[int, ...], Way] = {}
        self._places: list[int] = []
        self._crossed: list[int] = []  # switch ports of all ways, one after the other
        self._crossed_ends = [0]
        self._weights: list[float] = []

    def places(self) -> NDArray[np.int32]:
        return np.array(self._places or [-1], dtype=np.int32)

    def path(self, src: str, dst: str, key: int) -> tuple[int, ...] | None:
        """Egress ports from host to host, the NIC first; None where no path is up.

        ``key`` is the flow's hash; the node or its seed is mixed in, so that tiers choose independently.
        """
        last = self._last.get(dst)
        if last is None:
            last = self._last[dst] = self._into(dst)
        before = frozenset(last)
        choices = self._choices.get(before)
        if choices is None:
            choices = self._choices[before] = self._towards(before)
        node, path = src, []
        while node != dst:
            open_ports = last.get(node) or choices.get(node)
            if not open_ports:
                return None
            pick = _mix(key, self._salt(node)) % len(open_ports) if len(open_ports) > 1 else 0
            path.append(open_ports[pick])
            node = self._ports[open_ports[pick]].peer
        return tuple(path)

    def way(self, path: tuple[int, ...]) -> Way:
        """The places of a path; raises ``ScenarioError`` where it crosses no switch."""
        known = self._ways.get(path)
        if known is not None:
            return known
        if len(path) < 2:
            rule = "a flow crosses its NIC and at least one switch port"
            raise ScenarioError("fabric, a path", f"{len(path)} ports", rule, "correct the topology")
        forward = len(self._places)
        self._places += [*path, -1]
        back = len(self._places)
        self._places += [*(self._plan.reverse[port] for port in reversed(path)), -1]
        s_per_byte = np.array([1.0 / self._ports[port].rate_bytes_per_s for port in path])
        slowest = float(s_per_byte.max())
        propagation = sum(self._ports[port].delay_s for port in path)
        acknowledgement = self._plan.ack_wire_bytes * float(s_per_byte.sum())
        way = Way(
            len(self._ways),
            forward,
            back,
            path[0],
            slowest,
            float(s_per_byte.sum()) - slowest,
            2 * propagation + acknowledgement,
        )
        self._ways[path] = way
        self._crossed += path[1:]
        self._weights += (s_per_byte[1:] / way.alone_s(self._plan.packet_wire_bytes)).tolist()
        self._crossed_ends.append(len(self._crossed))
        return way

    def probed(self, ways: NDArray[np.int32]) -> ProbePaths:
        """For probes: the ways of ``ways`` by number, one entry a flow."""
        return ProbePaths(
            of_flow=ways,
            offset=np.array(self._crossed_ends, dtype=np.int32),
            queue=np.array(self._crossed, dtype=np.int32),
            weight=np.array(self._weights, dtype=np.float64),
        )

    def fail(self, ports: set[int]) -> None:
        self._down |= ports
        self._last.clear()
        self._choices.clear()

    def restore(self, ports: set[int]) -> None:
        self._down -= ports
        self._last.clear()
        self._choices.clear()

    def seed(self, switch: str) -> int | None:
        return self._seeds.get(switch)

    def set_seed(self, switch: str, seed: int | None) -> None:
        if seed is None:
            self._seeds.pop(switch, None)
        else:
            self._seeds[switch] = seed

    def _salt(self, node: str) -> int:
        """A seed is no node's number: below 0, where those begin at 0."""
        seed = self._seeds.get(node)
        return self._node[node] if seed is None else ~int(seed)

    def is_open(self, path: tuple[int, ...]) -> bool:
        return self._down.isdisjoint(path)

    def _into(self, dst: str) -> dict[str, tuple[int, ...]]:
        """The ports that end at ``dst``, by the node they leave."""
        last: defaultdict[str, tuple[int, ...]] = defaultdict(tuple)
        for port in self._entering[dst]:
            if port not in self._down:
                last[self._ports[port].node] += (port,)
        return dict(last)

    def _towards(self, last: frozenset[str]) -> dict[str, tuple[int, ...]]:
        """For each node that reaches one of ``last``: its egress ports on shortest paths.

        Hosts do not forward. Shared by all hosts of a switch, so that the work grows with cables, not pairs.
        """
        hops = dict.fromkeys(last - self._hosts, 0)
        queue = deque(hops)
        while queue:
            node = queue.popleft()
            if node in self._hosts:
                continue
            for port in self._entering[node]:
                before = self._ports[port].node
                if port not in self._down and before not in hops:
                    hops[before] = hops[node] + 1
                    queue.append(before)
        return {
            node: tuple(
                port
                for port in self._leaving[node]
                if port not in self._down
                and self._ports[port].peer not in self._hosts
                and hops.get(self._ports[port].peer, far) == far - 1
            )
            for node, far in hops.items()
            if far > 0
        }


def flow_key(seed: int, src: int, dst: int, number: int) -> int:
    """The ECMP hash: a flow's ends and, instead of its source port, its number."""
    return _mix(_mix(_mix(seed, src), dst), number)


def _mix(value: int, salt: int) -> int:
    x = (value ^ ((salt + 1) * 0x9E3779B97F4A7C15)) & _MASK
    x = ((x ^ (x >> 30)) * _ODD_1) & _MASK
    x = ((x ^ (x >> 27)) * _ODD_2) & _MASK
    return x ^ (x >> 31)
