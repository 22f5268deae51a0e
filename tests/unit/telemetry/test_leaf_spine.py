"""Leaf-spine topologies: cabling, and paths over every spine."""

from __future__ import annotations

import ipaddress
import math
from collections import Counter
from typing import Any

import pytest

from telemetry.errors import TopologyError
from telemetry.topology import GBPS, leaf_spine, topology_from_json


def test_names_ports_and_addresses() -> None:
    fabric = leaf_spine(2, 2, 3, rate_gbps=100, uplink_gbps=400, delay_us=2)
    assert [host.name for host in fabric.hosts] == ["h0", "h1", "h2", "h3", "h4", "h5"]
    assert [host.ip for host in fabric.hosts] == [f"10.0.0.{n}" for n in range(1, 7)]
    assert fabric.switches == ("leaf1", "leaf2", "spine1", "spine2")
    cables = {
        (port.node, port.port): (port.peer, port.rate_bytes_per_s / GBPS, port.delay_s)
        for port in fabric.ports
        if port.port is not None
    }
    assert cables["leaf1", "Ethernet0"] == ("h0", 100, 2e-6)
    assert cables["leaf2", "Ethernet2"] == ("h5", 100, 2e-6)
    assert cables["leaf1", "Ethernet3"] == ("spine1", 400, 2e-6)
    assert cables["leaf2", "Ethernet4"] == ("spine2", 400, 2e-6)
    assert cables["spine2", "Ethernet0"] == ("leaf1", 400, 2e-6)
    assert cables["spine2", "Ethernet1"] == ("leaf2", 400, 2e-6)
    assert len(fabric.links) == 6 + 4


def test_host_ports_come_first_in_the_order_of_the_hosts() -> None:
    fabric = leaf_spine(3, 2, 4)
    nics = [port.node for port in fabric.ports if port.port is None]
    assert nics == [host.name for host in fabric.hosts]


def test_pairs_meet_at_their_leaf_or_over_every_spine() -> None:
    fabric = leaf_spine(2, 3, 2)

    def switches_on_the_way(src: str, dst: str) -> Counter[tuple[str, ...]]:
        return Counter(
            tuple(fabric.ports[port].node for port in fabric.path(src, dst, number)[1:])
            for number in range(600)
        )

    assert set(switches_on_the_way("h0", "h1")) == {("leaf1",)}
    ways = switches_on_the_way("h0", "h3")
    assert set(ways) == {("leaf1", f"spine{n}", "leaf2") for n in (1, 2, 3)}
    assert min(ways.values()) > 150


def test_one_leaf_needs_no_spine() -> None:
    fabric = leaf_spine(1, 0, 16)
    assert fabric.switches == ("leaf1",)
    assert len(fabric.links) == 16


def test_it_is_a_declared_topology_like_any_other() -> None:
    fabric = leaf_spine(4, 2, 8, uplink_gbps=400)
    assert topology_from_json(fabric.to_json()) == fabric


def test_addresses_of_a_large_fabric_are_all_different() -> None:
    fabric = leaf_spine(12, 6, 100)
    addresses = {ipaddress.ip_address(host.ip) for host in fabric.hosts if host.ip}
    assert len(addresses) == 1200
    assert all(address in ipaddress.ip_network("10.0.0.0/8") for address in addresses)


@pytest.mark.parametrize(
    ("counts", "options", "says"),
    [
        ((0, 1, 4), {}, "n_leaves: received 0; it must be at least 1"),
        ((2, 0, 4), {}, "n_spines: received 0; it must be at least 1"),
        ((2, 1, 0), {}, "hosts_per_leaf: received 0"),
        ((2.0, 1, 4), {}, "n_leaves: received 2.0; it is a whole number"),
        ((True, 1, 4), {}, "n_leaves: received True"),
        ((1, 0, 1), {}, "hosts: received 1 × 1; a fabric has 2 to"),
        ((2, 1, 10**8), {}, "hosts: received 2 × 100000000"),
        ((2, 1, 4), {"rate_gbps": 0}, "rate_gbps: received 0; a rate is finite and above 0"),
        ((2, 1, 4), {"rate_gbps": "100"}, "rate_gbps: received '100'; it must be a number"),
        ((2, 1, 4), {"uplink_gbps": math.inf}, "uplink_gbps: received inf"),
        ((2, 1, 4), {"delay_us": -1}, "delay_us: received -1; a delay is finite and 0 or more"),
        ((2, 1, 4), {"delay_us": math.nan}, "delay_us: received nan"),
    ],
)
def test_numbers_no_fabric_has_are_refused(counts: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(TopologyError, match=f"leaf-spine {says}"):
        leaf_spine(*counts, **options)
