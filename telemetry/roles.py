"""Roles of switches and of their egress ports, by how far from the hosts they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from telemetry.topology import EgressPort

_BYTES_PER_S = 125_000_000.0  # in one Gbit/s
_KINDS = {1: "leaf", 2: "spine"}


def tiers_of(ports: Sequence[EgressPort]) -> dict[str, int]:
    """Links from each switch to its nearest host; a switch without a way to a host is left out."""
    neighbours: defaultdict[str, set[str]] = defaultdict(set)
    for port in ports:
        neighbours[port.node].add(port.peer)
    hosts = {port.node for port in ports if port.port is None}
    found: dict[str, int] = {}
    edge, tier = hosts, 0
    while edge:
        beyond = set().union(*(neighbours[node] for node in edge))
        edge, tier = beyond - hosts - found.keys(), tier + 1
        found |= dict.fromkeys(edge, tier)
    return found


def kind_of(tier: int | None) -> str:
    """``leaf``, ``spine``, then ``core``; ``other`` without a way to a host."""
    return "other" if tier is None else _KINDS.get(tier, "core")


def port_roles(ports: Sequence[EgressPort]) -> tuple[str | None, ...]:
    """Each port's role, such as ``leaf-host-100G``, ``leaf-up-400G``, ``spine-down-400G``; None for a NIC.

    Ports of one role are of one kind of switch, lead the same way (to a ``host``, ``up`` away from hosts,
    ``down`` towards them, ``side`` to a switch as far from them) and have one rate, in Gbit/s.
    """
    tiers = tiers_of(ports) | {port.node: 0 for port in ports if port.port is None}
    return tuple(None if port.port is None else _role(port, tiers) for port in ports)


def _role(port: EgressPort, tiers: Mapping[str, int]) -> str:
    here, there = tiers.get(port.node), tiers.get(port.peer)
    if there == 0:
        way = "host"
    elif here is None or there is None or here == there:
        way = "side"
    else:
        way = "up" if there > here else "down"
    return f"{kind_of(here)}-{way}-{port.rate_bytes_per_s / _BYTES_PER_S:g}G"
