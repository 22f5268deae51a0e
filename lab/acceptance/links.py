"""Links of a topology: loads under even ECMP, ports that share them, links unlike the others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from telemetry.topology import GBPS, EgressPort, Topology
from twin.traffic.base import Traffic


def even_loads(topology: Topology, traffic: Traffic, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The ``weights`` [flow] through each port, summed, where each switch spreads them over its next hops."""
    names = tuple(topology.nic_bytes_per_s)  # as a ``FabricPlan`` numbers hosts
    pairs = np.unique(np.stack([traffic.dst, traffic.src]), axis=1, return_inverse=True)
    summed = np.bincount(pairs[1].ravel(), weights=weights)
    to: defaultdict[int, dict[str, float]] = defaultdict(dict)
    for dst, src, weight in zip(*pairs[0].tolist(), summed.tolist(), strict=True):
        to[dst][names[src]] = weight
    loads = np.zeros(len(topology.ports))
    for dst, waiting in to.items():
        while waiting:  # one hop nearer each time
            nearer: defaultdict[str, float] = defaultdict(float)
            for node, weight in waiting.items():
                hops = topology.next_hops(node, names[dst])
                for port in hops:
                    loads[port] += weight / len(hops)
                    if (peer := topology.ports[port].peer) != names[dst]:
                        nearer[peer] += weight / len(hops)
            waiting = nearer
    return loads


def shared_groups(topology: Topology) -> list[tuple[int, ...]]:
    """Ports of a switch that ECMP is to load alike: next hops of a destination, and all that lead away from
    hosts. Groups that overlap are one.
    """
    found: list[tuple[int, ...]] = []
    tiers = topology.tiers
    for switch in topology.switches:
        here = tiers.get(switch, 0)
        up = {
            port
            for port in topology.ports_of.get(switch, ())
            if tiers.get(topology.ports[port].peer, 0) > here
        }
        groups = [up] if len(up) > 1 else []
        for host in topology.nic_bytes_per_s:
            hops = set(topology.next_hops(switch, host))
            if len(hops) > 1:
                apart = [group for group in groups if not group & hops]
                groups = [*apart, hops.union(*(group for group in groups if group & hops))]
        found += [tuple(sorted(group)) for group in groups]
    return found


def unlike_others(topology: Topology) -> list[str]:
    """Sentences on links that are slower than, or missing beside, those of most nodes of the same role."""
    ways: defaultdict[tuple[str, str], defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for index, port in enumerate(topology.ports):
        if port.peer in topology.roles:
            role = "host" if port.port is None else topology.roles[port.node]
            ways[role, topology.roles[port.peer]][port.node].append(index)
    return [said for (_, there), by_node in ways.items() for said in _unlike(topology, there, by_node)]


def _unlike(topology: Topology, there: str, by_node: Mapping[str, list[int]]) -> Iterator[str]:
    usual = Counter(map(len, by_node.values())).most_common(1)[0][0]
    rates = {port: topology.ports[port].rate_bytes_per_s for ports in by_node.values() for port in ports}
    usual_rate = Counter(rates.values()).most_common(1)[0][0]
    for node, ports in by_node.items():
        if len(ports) < usual:
            to = ", ".join(topology.ports[port].peer for port in ports)
            yield f"{node} has fewer links to a {there} ({to}) than most of its role ({usual})"
        for port in ports:
            if rates[port] < usual_rate:
                said = f"{port_text(topology.ports[port])} runs at {rates[port] / GBPS:g} Gbit/s"
                yield f"{said}, most such links at {usual_rate / GBPS:g}"


def port_text(port: EgressPort) -> str:
    """``leaf1 Ethernet49 to spine2``, ``the NIC of h3``."""
    return f"the NIC of {port.node}" if port.port is None else f"{port.node} {port.port} to {port.peer}"
