"""Declared topologies: parsing, checks and routing."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from telemetry.columns import fingerprint_of
from telemetry.errors import TopologyError
from telemetry.topology import topology_from_json
from tests.counterparts.pods import Pods

DOCUMENT: dict[str, Any] = {
    "hosts": [{"name": "h1", "ip": "10.0.0.1"}, {"name": "h2", "ip": "10.0.0.2"}, {"name": "h3"}],
    "switches": [{"name": "l1"}, {"name": "l2"}, {"name": "s1"}, {"name": "s2"}],
    "links": [
        {"a": "h1", "b": "l1", "b_port": "1", "rate_gbps": 100, "delay_us": 1},
        {"a": "h2", "b": "l2", "b_port": "1", "rate_gbps": 200, "delay_us": 2.5},
        {"a": "l1", "a_port": "8", "b": "s1", "b_port": "1", "rate_gbps": 400, "delay_us": 1},
        {"a": "l1", "a_port": "9", "b": "s2", "b_port": "1", "rate_gbps": 400, "delay_us": 1},
        {"a": "l2", "a_port": "8", "b": "s1", "b_port": "2", "rate_gbps": 400, "delay_us": 1},
        {"a": "l2", "a_port": "9", "b": "s2", "b_port": "2", "rate_gbps": 400, "delay_us": 1},
    ],
}


def test_ports_are_both_ends_of_every_link() -> None:
    topology = topology_from_json(DOCUMENT)
    assert len(topology.ports) == 12
    nic = topology.ports[topology.ports_of["h2"][0]]
    assert (nic.port, nic.peer) == (None, "l2")
    assert (nic.rate_bytes_per_s, nic.delay_s) == pytest.approx((25e9, 2.5e-6))
    assert topology.ports[topology.port_index["l1", "8"]].peer == "s1"
    assert topology.host_by_address["10.0.0.1"] == topology.host_by_address["h1"] == "h1"
    assert topology.switch_names == {"l1", "l2", "s1", "s2"}


@pytest.mark.parametrize(
    ("spelt", "plain"),
    [
        ("2001:DB8::1", "2001:db8::1"),
        ("2001:db8:0:0::1", "2001:db8::1"),
        ("2001:0db8::0001", "2001:db8::1"),
        ("::FFFF:10.9.0.1", "10.9.0.1"),
        ("::ffff:0:a09:1", "::ffff:0:a09:1"),
    ],
)
def test_an_ipv6_address_is_that_of_reports_however_it_is_spelt(spelt: str, plain: str) -> None:
    named = copy.deepcopy(DOCUMENT)
    named["hosts"][2]["ip"] = spelt
    assert topology_from_json(named).host_by_address[plain] == "h3"
    named["hosts"][1]["ip"] = plain
    with pytest.raises(TopologyError, match="an address belongs to one host"):
        topology_from_json(named)


def test_a_host_s_port_names_its_nic_which_is_no_egress_queue_of_a_switch() -> None:
    named = copy.deepcopy(DOCUMENT)
    named["links"][1]["a_port"] = "ens1f0"
    topology = topology_from_json(named)
    assert topology.ports == topology_from_json(DOCUMENT).ports
    assert topology.nic_bytes_per_s["h2"] == 25e9
    assert topology.to_json()["links"][1]["a_port"] == "ens1f0"


def test_a_switch_s_role_is_its_distance_from_hosts() -> None:
    assert topology_from_json(DOCUMENT).roles == {"l1": "leaf", "l2": "leaf", "s1": "spine", "s2": "spine"}
    deeper = copy.deepcopy(DOCUMENT)
    deeper["switches"] += [{"name": name} for name in ("c1", "c2", "alone")]
    for a, b, port in (("s1", "c1", "9"), ("c1", "c2", "2")):
        deeper["links"].append(
            {"a": a, "a_port": port, "b": b, "b_port": "1", "rate_gbps": 400, "delay_us": 1}
        )
    roles = topology_from_json(deeper).roles
    assert (roles["s1"], roles["c1"], roles["c2"], roles["alone"]) == ("spine", "core", "core", "other")


def test_a_switch_s_pod_is_what_holds_together_below_the_highest_tier() -> None:
    leaf_spine = topology_from_json(DOCUMENT)
    assert leaf_spine.pods == leaf_spine.roles
    named = Pods(pods=2, racks=2, aggregation=2, cores=2, uplinks=2, hosts_a_rack=1).topology()
    pods = topology_from_json(named).pods
    assert pods["core1"] == "core"
    assert {pods[name] for name in pods if name.startswith("pod1-")} == {"pod1"}
    # Names that tell nothing are numbered, all of them.
    plain = json.loads(json.dumps(named).replace("pod0-", "a").replace("pod1-", "b"))
    assert set(topology_from_json(plain).pods.values()) == {"core", "pod 1", "pod 2"}


def test_a_topology_survives_its_own_format() -> None:
    topology = topology_from_json(DOCUMENT)
    assert topology_from_json(topology.to_json()) == topology


def test_equal_cost_paths_are_shared_out_and_each_flow_keeps_its_own() -> None:
    topology = topology_from_json(DOCUMENT)
    taken = [topology.path("10.0.0.1", "h2", fingerprint_of((n,))) for n in range(200)]
    assert {len(path) for path in taken} == {4}
    spines = [topology.ports[path[1]].peer for path in taken]
    assert 60 < spines.count("s1") < 140
    assert taken == [topology.path("h1", "10.0.0.2", fingerprint_of((n,))) for n in range(200)]


@pytest.mark.parametrize(
    ("src", "dst", "said"),
    [
        ("h1", "h9", "flow end 'h9'"),
        ("h1", "10.0.0.1", "a flow from 'h1' to itself"),
        ("h1", "h3", "no path from 'h1' to 'h3'"),
        ("h3", "h1", "no path from 'h3' to 'h1'"),
    ],
)
def test_what_cannot_be_routed_is_named(src: str, dst: str, said: str) -> None:
    with pytest.raises(TopologyError, match=said):
        topology_from_json(DOCUMENT).path(src, dst, 0)


def test_hosts_do_not_forward() -> None:
    through_a_host = {
        "hosts": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
        "switches": [],
        "links": [
            {"a": "a", "b": "b", "rate_gbps": 1, "delay_us": 0},
            {"a": "b", "b": "c", "rate_gbps": 1, "delay_us": 0},
        ],
    }
    topology = topology_from_json(through_a_host)
    assert len(topology.path("a", "b", 0)) == 1
    with pytest.raises(TopologyError, match="hosts do not forward"):
        topology.path("a", "c", 0)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("links", 0, "a"), "h9", r"links\[0\]: received end 'h9'"),
        (("links", 0, "b_port"), None, r"links\[0\]: received no port on switch 'l1'"),
        (("links", 3, "a_port"), "8", r"links\[3\]: received port '8' of 'l1', already in links\[2\]"),
        (("links", 0, "rate_gbps"), 0, "rate_gbps 0"),
        (("links", 0, "rate_gbps"), 100_000, r"links\[0\]: received rate_gbps 100000; .*not in Mbit/s"),
        (("links", 0, "rate_gbps"), 0.001, "rate_gbps 0.001; rates of links are 0.01 to 6 400 Gbit/s"),
        (("links", 0, "rate_gbps"), float("nan"), "rate_gbps nan"),
        (("links", 0, "rate_gbps"), 10**400, "rate_gbps inf"),
        (("links", 0, "rate_gbps"), None, "rate_gbps: received null; it must be a number"),
        (("links", 0, "rate_mbps"), 100, r"links\[0\]: received key 'rate_mbps'; .*did you mean rate_gbps\?"),
        (("links", 0, "optics"), 3, r"key 'optics'; keys are a, .*; remove it"),
        (("hosts", 0, "address"), "10.0.0.1", r"hosts\[0\]: received key 'address'; keys are name, ip"),
        (("switches", 0, "names"), "l1", r"switches\[0\]: .* did you mean name\?"),
        (("links",), [], "links: received an empty array; a fabric has links"),
        (("links", 0, "rate_gbps"), "fast", "links\\[0\\] rate_gbps: received 'fast'"),
        (("links", 0, "delay_us"), -1, "delay_us -1"),
        (("links", 0, "b"), "h1", "both ends on 'h1'"),
        (("hosts", 1, "name"), "h1", "host 'h1' twice"),
        (("hosts", 1, "name"), "", "hosts\\[1\\] name: received ''"),
        (("hosts", 1, "name"), "h\ud800", r"hosts\[1\] name: received 'h\\ud800'; it has printable"),
        (("hosts", 1, "name"), "h\n2", r"hosts\[1\] name: received 'h\\n2'"),
        (("hosts", 1, "ip"), "10.0.0.1", "address 10.0.0.1 on 'h2' and 'h1'"),
        (("hosts", 1, "ip"), "h1", "address h1 on 'h2' and 'h1'"),
        (("switches", 0, "name"), "h1", "switch 'h1' twice"),
        (("switches",), None, "switches: received null; it must be an array"),
        (("links", 2), "l1-s1", "links\\[2\\]: received str"),
        (("ports",), [], "key 'ports'"),
    ],
)
def test_a_mistake_is_named_with_its_place(place: tuple[Any, ...], value: Any, said: str) -> None:
    document = copy.deepcopy(DOCUMENT)
    inner: Any = document
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    with pytest.raises(TopologyError, match=said) as caught:
        topology_from_json(document)
    assert caught.value.rule
    assert caught.value.remedy


@pytest.mark.parametrize("place", [("links",), ("links", 1, "rate_gbps"), ("hosts", 0, "name")])
def test_a_missing_key_is_called_missing(place: tuple[Any, ...]) -> None:
    document = copy.deepcopy(DOCUMENT)
    inner: Any = document
    for step in place[:-1]:
        inner = inner[step]
    del inner[place[-1]]
    with pytest.raises(TopologyError, match=f"{place[-1]}: this key is missing; add it"):
        topology_from_json(document)


def test_a_topology_is_an_object() -> None:
    with pytest.raises(TopologyError, match="it must be a JSON object"):
        topology_from_json([1])
