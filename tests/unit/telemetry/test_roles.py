"""Roles of ports: by the kind of switch, the way they lead and their rate."""

from __future__ import annotations

from collections import Counter

from telemetry.roles import port_roles
from telemetry.topology import Host, Link, Topology, leaf_spine


def test_a_leaf_spine_fabric_has_three_roles() -> None:
    topology = leaf_spine(2, 2, 4, rate_gbps=25, uplink_gbps=100)
    assert Counter(port_roles(topology.ports)) == {
        None: 8,
        "leaf-host-25G": 8,
        "leaf-up-100G": 4,
        "spine-down-100G": 4,
    }


def test_each_port_has_the_role_of_its_own_end() -> None:
    topology = leaf_spine(2, 1, 1, rate_gbps=25, uplink_gbps=400)
    by_end = {
        (port.node, port.peer): role
        for port, role in zip(topology.ports, port_roles(topology.ports), strict=True)
    }
    assert by_end == {
        ("h0", "leaf1"): None,
        ("leaf1", "h0"): "leaf-host-25G",
        ("leaf1", "spine1"): "leaf-up-400G",
        ("spine1", "leaf1"): "spine-down-400G",
        ("h1", "leaf2"): None,
        ("leaf2", "h1"): "leaf-host-25G",
        ("leaf2", "spine1"): "leaf-up-400G",
        ("spine1", "leaf2"): "spine-down-400G",
    }


def cabled(*links: tuple[str, str]) -> Topology:
    """Links of 100 Gbit/s between switches, and hosts where a name begins with h."""
    names = dict.fromkeys(name for link in links for name in link)

    def port(node: str, peer: str) -> str | None:
        return None if node.startswith("h") else f"to-{peer}"

    return Topology(
        tuple(Host(name) for name in names if name.startswith("h")),
        tuple(name for name in names if not name.startswith("h")),
        tuple(Link(a, b, 100, 1, port(a, b), port(b, a)) for a, b in links),
    )


def test_a_third_tier_is_the_core_and_its_ports_lead_down() -> None:
    topology = cabled(("h0", "l"), ("l", "s"), ("s", "c"), ("c", "s2"), ("s2", "l2"), ("l2", "h1"))
    roles = {
        (port.node, port.peer): role
        for port, role in zip(topology.ports, port_roles(topology.ports), strict=True)
    }
    assert roles["s", "c"] == "spine-up-100G"
    assert roles["c", "s"] == "core-down-100G"
    assert roles["s2", "l2"] == "spine-down-100G"


def test_switches_as_far_from_hosts_are_beside_each_other() -> None:
    topology = cabled(("h0", "l1"), ("h1", "l2"), ("l1", "l2"))
    assert [role for role in port_roles(topology.ports) if role and "side" in role] == ["leaf-side-100G"] * 2


def test_a_switch_without_a_way_to_a_host_is_other() -> None:
    topology = cabled(("h0", "l1"), ("x1", "x2"))
    assert topology.roles["x1"] == "other"
    assert [role for role in port_roles(topology.ports) if role and role.startswith("other")] == [
        "other-side-100G"
    ] * 2
