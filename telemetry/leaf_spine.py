"""A regular two-tier fabric: every leaf switch on every spine switch, hosts on the leaves.

Must import nothing but this package.
"""

from __future__ import annotations

import math

from telemetry.errors import TopologyError
from telemetry.topology import Host, Link, Topology

_MOST_HOSTS = 2**24 - 2  # 10.0.0.1 to 10.255.255.254


def leaf_spine(
    n_leaves: int,
    n_spines: int,
    hosts_per_leaf: int,
    *,
    rate_gbps: float = 100,
    uplink_gbps: float | None = None,
    delay_us: float = 1.0,
) -> Topology:
    """Hosts ``h0`` … on switches ``leaf1`` …, each of them on every ``spine1`` …; addresses from 10.0.0.1.

    Leaf ports ``Ethernet0`` up to ``Ethernet{hosts_per_leaf - 1}`` go to its hosts, the next to the spines in
    order; a spine's ``EthernetN`` goes to ``leaf{N + 1}``. Hosts are cabled at ``rate_gbps``, spines at
    ``uplink_gbps`` (None: the same); every cable is ``delay_us`` long. One leaf needs no spine (0 is allowed
    then). Raises ``TopologyError`` for counts and numbers no fabric has.
    """
    _check_count("n_leaves", n_leaves, least=1)
    _check_count("n_spines", n_spines, least=0 if n_leaves == 1 else 1)
    _check_count("hosts_per_leaf", hosts_per_leaf, least=1)
    if not 2 <= n_leaves * hosts_per_leaf <= _MOST_HOSTS:
        raise TopologyError(
            "leaf-spine hosts",
            f"{n_leaves} × {hosts_per_leaf}",
            f"a fabric has 2 to {_MOST_HOSTS} hosts (10.0.0.0/8)",
            "change n_leaves or hosts_per_leaf",
        )
    uplink = rate_gbps if uplink_gbps is None else uplink_gbps
    for name, value, positive in (
        ("rate_gbps", rate_gbps, True),
        ("uplink_gbps", uplink, True),
        ("delay_us", delay_us, False),
    ):
        _check_number(name, value, positive=positive)
    hosts = tuple(Host(f"h{n}", _address(n)) for n in range(n_leaves * hosts_per_leaf))
    leaves = tuple(f"leaf{n + 1}" for n in range(n_leaves))
    spines = tuple(f"spine{n + 1}" for n in range(n_spines))
    down = [
        Link(host.name, leaves[n // hosts_per_leaf], float(rate_gbps), float(delay_us), b_port=port)
        for n, host in enumerate(hosts)
        for port in [f"Ethernet{n % hosts_per_leaf}"]
    ]
    up = [
        Link(
            leaf,
            spine,
            float(uplink),
            float(delay_us),
            a_port=f"Ethernet{hosts_per_leaf + to_spine}",
            b_port=f"Ethernet{to_leaf}",
        )
        for to_leaf, leaf in enumerate(leaves)
        for to_spine, spine in enumerate(spines)
    ]
    return Topology(hosts, leaves + spines, (*down, *up))


def oversubscription(
    n_spines: int, hosts_per_leaf: int, *, rate_gbps: float = 100, uplink_gbps: float | None = None
) -> float:
    """What a leaf's hosts can send ÷ what its uplinks carry: 1 blocks nothing, 3 is 3:1, inf has no spine."""
    _check_count("n_spines", n_spines, least=0)
    _check_count("hosts_per_leaf", hosts_per_leaf, least=1)
    uplink = rate_gbps if uplink_gbps is None else uplink_gbps
    _check_number("rate_gbps", rate_gbps, positive=True)
    _check_number("uplink_gbps", uplink, positive=True)
    return hosts_per_leaf * rate_gbps / (n_spines * uplink) if n_spines else math.inf


def _address(host: int) -> str:
    number = host + 1
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def _check_count(name: str, value: int, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TopologyError(f"leaf-spine {name}", repr(value), "it is a whole number", "round it")
    if value < least:
        raise TopologyError(
            f"leaf-spine {name}", str(value), f"it must be at least {least}", f"give {least} or more"
        )


def _check_number(name: str, value: float, *, positive: bool) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TopologyError(f"leaf-spine {name}", repr(value), "it must be a number", "give a number")
    if not math.isfinite(value) or value < 0 or (positive and value == 0):
        rule = "a rate is finite and above 0" if positive else "a delay is finite and 0 or more"
        raise TopologyError(f"leaf-spine {name}", str(value), rule, "correct it")
