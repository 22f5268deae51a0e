"""Cables from both sides, beside what is declared and what INT showed: the file, and every difference."""

from __future__ import annotations

import pytest

from telemetry.neighbours.model import Neighbour, Port, SwitchNeighbours
from telemetry.topology import Host, Link, Topology
from tests.unit.telemetry.neighbours.fabric import (
    AS_IT_IS,
    cables,
    declared,
    fabric,
    link,
    merged,
    sees,
    to,
    told,
)

WHOLE = [
    "h1:ens1f0 <-> leaf1:Ethernet0",
    "h2:ens1f0 <-> leaf2:Ethernet0",
    "leaf1:Ethernet4 <-> spine1:Ethernet0",
    "leaf2:Ethernet4 <-> spine1:Ethernet4",
]


def test_both_sides_of_every_cable_make_one_link_with_the_nics_of_hosts() -> None:
    found = merged(delay_us=0.5)
    assert cables(found) == WHOLE
    assert found.differences == ()
    assert found.topology.switches == ("leaf1", "leaf2", "spine1")
    assert [host.name for host in found.topology.hosts] == ["h1", "h2"]
    assert {(one.rate_gbps, one.delay_us) for one in found.topology.links} == {(100.0, 0.5)}
    assert (found.default_delays, found.default_rates) == (4, 0)


def test_what_is_declared_alike_gives_delays_and_addresses_and_no_difference() -> None:
    found = merged(declared=declared())
    assert cables(found) == WHOLE
    assert found.differences == ()
    assert {one.delay_us for one in found.topology.links} == {2.5}
    assert found.topology.hosts == (Host("h1", "10.0.0.1"), Host("h2", "10.0.0.2"))
    assert found.default_delays == 0


def test_a_cable_in_another_port_than_declared_is_told_and_taken() -> None:
    wrong = [*AS_IT_IS[:2], ("leaf1:Ethernet4", "spine1:Ethernet4"), ("leaf2:Ethernet4", "spine1:Ethernet0")]
    found = merged(declared=declared(*(link(*ends) for ends in wrong)))
    assert cables(found) == WHOLE
    assert told(found) == [
        "leaf1:Ethernet4 <-> spine1:Ethernet4 and leaf2:Ethernet4 <-> spine1:Ethernet0 are declared, "
        "LLDP sees leaf1:Ethernet4 <-> spine1:Ethernet0; the latter is taken",
        "leaf2:Ethernet4 <-> spine1:Ethernet0 and leaf1:Ethernet4 <-> spine1:Ethernet4 are declared, "
        "LLDP sees leaf2:Ethernet4 <-> spine1:Ethernet4; the latter is taken",
    ]
    assert {one.kind for one in found.differences} == {"moved"}


def test_a_link_that_is_not_declared_is_told_and_added() -> None:
    found = merged(declared=declared(*(link(*ends) for ends in AS_IT_IS[:3])))
    assert cables(found) == WHOLE
    assert told(found) == [
        "LLDP sees leaf2:Ethernet4 <-> spine1:Ethernet4, which is not declared; it is added"
    ]


def test_a_declared_link_that_no_switch_sees_is_told_and_kept() -> None:
    more = link("leaf1:Ethernet8", "leaf2:Ethernet8", gbps=400)
    found = merged(declared=declared(*(link(*ends) for ends in AS_IT_IS), more))
    assert "leaf1:Ethernet8 <-> leaf2:Ethernet8" in cables(found)
    assert told(found) == [
        "leaf1:Ethernet8 <-> leaf2:Ethernet8 is declared, and LLDP does not see it; it is kept"
    ]


def test_hosts_without_lldp_are_one_sentence() -> None:
    quiet = fabric(
        leaf1=sees(to("Ethernet4", "spine1", "Ethernet0")), leaf2=sees(to("Ethernet4", "spine1", "Ethernet4"))
    )
    found = merged(quiet, declared=declared())
    assert told(found) == [
        "h1 <-> leaf1:Ethernet0 and 1 more such links are declared, and no switch sees LLDP of their hosts; "
        "they are kept"
    ]
    assert cables(found)[:2] == ["h1 <-> leaf1:Ethernet0", "h2 <-> leaf2:Ethernet0"]


def test_a_link_seen_from_one_side_is_told_and_taken() -> None:
    found = merged(fabric(spine1=sees(to("Ethernet4", "leaf2", "Ethernet4"))))
    assert cables(found) == WHOLE
    assert told(found, "one_sided") == [
        "leaf1:Ethernet4 sees spine1:Ethernet0, which does not see it; leaf1:Ethernet4 <-> spine1:Ethernet0 "
        "is taken; is LLDP on at both ends?"
    ]


def test_a_switch_that_sees_nothing_at_all_is_one_sentence() -> None:
    found = merged(fabric(spine1=sees()), declared=declared())
    assert cables(found) == WHOLE
    assert told(found) == ["spine1 sees no neighbour at any port; is LLDP on there?"]


def test_a_switch_that_was_not_read_is_seen_by_its_neighbours() -> None:
    read = fabric()
    del read["spine1"]
    found = merged(read)
    assert cables(found) == WHOLE
    assert found.differences == ()


def test_a_switch_that_was_not_read_announces_an_alias_of_a_declared_port() -> None:
    read = fabric(leaf1=sees(to("Ethernet4", "spine1", "etp1", port_description="Ethernet0")))
    del read["spine1"]
    found = merged(read, declared=declared())
    assert "leaf1:Ethernet4 <-> spine1:Ethernet0" in cables(found)
    assert not told(found, "moved")


def test_what_both_ends_say_is_taken_against_a_third() -> None:
    third = sees(to("Ethernet4", "spine1", "Ethernet0"))
    found = merged(fabric(leaf2=third, spine1=sees(to("Ethernet0", "leaf1", "Ethernet4"))))
    assert cables(found) == [WHOLE[0], WHOLE[2]]
    assert told(found) == [
        "leaf2:Ethernet4 says leaf2:Ethernet4 <-> spine1:Ethernet0, but leaf1:Ethernet4 <-> spine1:Ethernet0 "
        "is there; the latter is taken"
    ]


def test_claims_of_one_port_that_nothing_decides_between_are_told_and_left_out() -> None:
    read = fabric(leaf2=sees(to("Ethernet4", "spine1", "Ethernet0")), spine1=sees())
    found = merged(read)
    assert cables(found) == [WHOLE[0]]
    assert told(found) == [
        "spine1:Ethernet0 leads to leaf1:Ethernet4 and to leaf2:Ethernet4; a port holds one cable; "
        "none is taken",
        "spine1 sees no neighbour at any port; is LLDP on there?",
    ]
    decided = merged(read, declared=declared(link("leaf2:Ethernet4", "spine1:Ethernet0")))
    assert "leaf2:Ethernet4 <-> spine1:Ethernet0" in cables(decided)


def test_several_devices_behind_a_port_are_told_and_left_out() -> None:
    read = fabric(leaf1=sees(to("Ethernet0", "h1", "ens1f0"), to("Ethernet0", "h9", "ens1f0")))
    found = merged(read)
    assert "leaf1:Ethernet0" not in " ".join(cables(found))
    assert told(found, "contradiction") == [
        "leaf1:Ethernet0 leads to h1:ens1f0 and to h9:ens1f0; a port holds one cable; none is taken"
    ]


def test_the_agent_of_a_nic_beside_its_host_s_does_not_count() -> None:
    own = to("Ethernet0", None, "b8:59:9f:00:00:01", chassis="b8:59:9f:00:00:01")
    found = merged(fabric(leaf1=sees(own, to("Ethernet0", "h1", "ens1f0"))))
    assert "h1:ens1f0 <-> leaf1:Ethernet0" in cables(found)
    assert not told(found, "contradiction")


def test_a_device_without_a_name_is_named_by_its_chassis_and_its_nic_by_what_it_says() -> None:
    row = to("Ethernet0", None, "b8:59:9f:00:00:01", chassis="b8:59:9f:00:00:02", port_description="ens3")
    found = merged(fabric(leaf1=sees(row)))
    assert cables(found)[0] == "b8:59:9f:00:00:02:ens3 <-> leaf1:Ethernet0"
    assert [host.name for host in found.topology.hosts] == ["b8:59:9f:00:00:02", "h2"]


@pytest.mark.parametrize("announced", ["leaf1.dc.example", "LEAF1", "Leaf1.DC.example"])
def test_short_and_full_names_are_one_switch(announced: str) -> None:
    row = to("Ethernet0", announced, "Ethernet4")
    found = merged(fabric(spine1=sees(row, to("Ethernet4", "leaf2", "Ethernet4"))))
    assert cables(found) == WHOLE
    assert found.differences == ()


def test_a_name_of_another_domain_is_another_device() -> None:
    read = fabric(
        leaf1=sees(to("Ethernet4", "spine1", "Ethernet0"), names=("leaf1.a.example",)),
        spine1=sees(to("Ethernet0", "leaf1.b.example", "Ethernet4")),
    )
    del read["leaf2"]
    found = merged(read, switches=("leaf1", "spine1"))
    # It is not leaf1, which announces another domain: of two claims of spine1:Ethernet0 neither is known.
    assert cables(found) == []
    assert told(found) == [
        "spine1:Ethernet0 leads to leaf1:Ethernet4 and to leaf1.b.example:Ethernet4; a port holds one cable; "
        "none is taken"
    ]


def test_two_full_names_are_never_one_short_one() -> None:
    read = {
        "spine1": sees(
            to("Ethernet0", "leaf1.a.example", "Ethernet4"), to("Ethernet4", "leaf1.b.example", "Ethernet4")
        )
    }
    found = merged(read, switches=("leaf1", "spine1"))
    assert cables(found) == []
    assert told(found, "ambiguous")[0] == (
        "spine1:Ethernet0 leads to leaf1.a.example: leaf1.a.example and leaf1.b.example are two devices, of "
        "which one at most is leaf1; it is left out; correct the name"
    )


def test_a_system_name_of_two_switches_is_told_unless_the_chassis_says_which() -> None:
    both = {
        "leaf1": sees(to("Ethernet4", "spine1", "Ethernet0"), names=("sonic",), chassis="00:00:00:00:00:01"),
        "leaf2": sees(to("Ethernet4", "spine1", "Ethernet4"), names=("sonic",), chassis="00:00:00:00:00:02"),
    }
    plain = both | {
        "spine1": sees(to("Ethernet0", "sonic", "Ethernet4"), to("Ethernet4", "sonic", "Ethernet4"))
    }
    found = merged(plain)
    assert told(found, "ambiguous")[0] == (
        "spine1:Ethernet0 leads to sonic: that is a name of leaf1 and of leaf2; it is left out; "
        "correct the name"
    )
    rows = [
        to(f"Ethernet{4 * number}", "sonic", "Ethernet4", chassis=f"00:00:00:00:00:0{number + 1}")
        for number in range(2)
    ]
    found = merged(both | {"spine1": sees(*rows)})
    assert cables(found) == WHOLE[2:]
    assert found.differences == ()


def test_two_hosts_of_one_name_are_told_and_left_out() -> None:
    read = fabric(
        leaf1=sees(to("Ethernet0", "localhost", "eth1", chassis="00:00:00:00:00:01")),
        leaf2=sees(to("Ethernet0", "localhost", "eth1", chassis="00:00:00:00:00:02")),
    )
    found = merged(read)
    assert not found.topology.hosts
    assert told(found, "ambiguous") == [
        "localhost at leaf1:Ethernet0 and leaf2:Ethernet0 has 2 chassis ids: two devices of one name, or one "
        "whose NICs speak for themselves; these ports are left out; give each a name of its own, or declare "
        "their links"
    ]


def test_a_host_on_two_leaves_has_two_nics_and_no_nic_two_cables() -> None:
    def two(nic: str) -> dict[str, SwitchNeighbours]:
        return fabric(leaf1=sees(to("Ethernet0", "h1", "ens1f0")), leaf2=sees(to("Ethernet0", "h1", nic)))

    assert cables(merged(two("ens1f1")))[:2] == [
        "h1:ens1f0 <-> leaf1:Ethernet0",
        "h1:ens1f1 <-> leaf2:Ethernet0",
    ]
    found = merged(two("ens1f0"))
    assert cables(found)[:2] == ["h1 <-> leaf1:Ethernet0", "h1 <-> leaf2:Ethernet0"]
    assert told(found, "contradiction") == [
        "h1:ens1f0 is at leaf1:Ethernet0 and leaf2:Ethernet0; a NIC has one cable; "
        "they are taken without its name"
    ]


def test_ports_are_known_by_alias_and_short_form() -> None:
    spine = SwitchNeighbours(
        (to("Ethernet0", "leaf1", "Eth1/1"),), {"Ethernet0": Port(100.0, ("etp1",)), "Ethernet4": Port()}
    )
    leaf = sees(to("Ethernet1/1", "spine1", "etp1"))
    assert cables(merged({"leaf1": leaf, "spine1": spine}, switches=("leaf1", "spine1"))) == [
        "leaf1:Ethernet1/1 <-> spine1:Ethernet0"
    ]


def test_an_alias_that_is_another_port_s_name_is_told_unless_described() -> None:
    ports = {"Ethernet1": Port(), "Ethernet4": Port(None, ("Ethernet1",))}
    spine = SwitchNeighbours((), ports)
    switches = ("leaf1", "spine1")
    found = merged(
        {"leaf1": sees(to("Ethernet0", "spine1", "Ethernet1")), "spine1": spine}, switches=switches
    )
    assert "that is Ethernet1 and Ethernet4 there" in told(found, "ambiguous")[0]
    described = sees(to("Ethernet0", "spine1", "Ethernet1", port_description="Ethernet4"))
    found = merged({"leaf1": described, "spine1": spine}, switches=switches)
    assert cables(found) == ["leaf1:Ethernet0 <-> spine1:Ethernet4"]


def test_a_port_that_the_other_switch_does_not_have_is_told_and_left_out() -> None:
    found = merged(fabric(leaf1=sees(to("Ethernet4", "spine1", "Ethernet99"))))
    assert (
        "leaf1:Ethernet4: a frame of spine1 names port Ethernet99, which spine1 does not have; it is left out"
        in (told(found))
    )


def test_a_loop_is_told_and_left_out() -> None:
    found = merged({"leaf1": sees(to("Ethernet0", "leaf1", "Ethernet4"))}, switches=("leaf1",))
    assert cables(found) == []
    assert told(found) == ["leaf1:Ethernet0 <-> leaf1:Ethernet4 joins a switch to itself; it is left out"]


def test_rates_that_differ_are_told() -> None:
    read = fabric(
        spine1=sees(to("Ethernet0", "leaf1", "Ethernet4"), to("Ethernet4", "leaf2", "Ethernet4"), gbps=400)
    )
    found = merged(read, declared=declared(*(link(*ends, gbps=25) for ends in AS_IT_IS)))
    assert told(found, "rate")[:2] == [
        "h1:ens1f0 <-> leaf1:Ethernet0 is declared with 25 Gbit/s and runs at 100; the latter is taken",
        "h2:ens1f0 <-> leaf2:Ethernet0 is declared with 25 Gbit/s and runs at 100; the latter is taken",
    ]
    assert told(found, "rate")[2] == (
        "leaf1:Ethernet4 <-> spine1:Ethernet0 differs: leaf1:Ethernet4 runs at 100 Gbit/s and "
        "spine1:Ethernet0 runs at 400 Gbit/s; the lower is taken"
    )
    assert {one.rate_gbps for one in found.topology.links} == {100.0}


def test_a_rate_that_no_switch_gives_is_the_declared_one_or_the_default() -> None:
    read = {"leaf1": SwitchNeighbours((to("Ethernet0", "h1", None), to("Ethernet8", "h8", None)))}
    one = declared(link("h1", "leaf1:Ethernet0", gbps=25))
    found = merged(read, declared=one, rate_gbps=200)
    assert [one.rate_gbps for one in found.topology.links] == [25, 200]
    assert found.default_rates == 1


def test_declared_names_are_the_inventory_s_where_they_differ_by_a_domain() -> None:
    switches = ("leaf1.dc.example", "leaf2.dc.example", "spine1.dc.example")
    read = {f"{name}.dc.example": found for name, found in fabric().items()}
    found = merged(read, switches=switches, declared=declared())
    assert found.topology.switches == switches
    assert told(found)[0] == "leaf1 is declared, and leaf1.dc.example in the inventory: taken for one"
    assert {one.kind for one in found.differences} == {"name"}


def test_a_declared_switch_outside_the_inventory_is_told_and_no_host() -> None:
    read = fabric()
    del read["spine1"]
    found = merged(read, switches=("leaf1", "leaf2"), declared=declared())
    assert cables(found) == WHOLE
    assert told(found) == ["spine1 is declared, and no switch of the inventory"]
    assert found.topology.switches == ("leaf1", "leaf2", "spine1")


def test_a_host_whose_only_link_another_took_is_told_and_left_out() -> None:
    found = merged(fabric(leaf1=sees(to("Ethernet0", "h7", "eth1"))), declared=declared())
    assert [host.name for host in found.topology.hosts] == ["h2", "h7"]
    assert told(found, "moved") == [
        "h1 <-> leaf1:Ethernet0 is declared, LLDP sees h7:eth1 <-> leaf1:Ethernet0; the latter is taken",
        "h1 has no link any more; it is left out",
    ]


def shown(*links: Link, hosts: tuple[str, ...] = ()) -> Topology:
    """As it is discovered from hops of INT."""
    return Topology(tuple(Host(name, name) for name in hosts), ("leaf1", "leaf2", "spine1"), links)


def test_int_gives_hosts_their_addresses() -> None:
    seen = shown(Link("10.0.0.7", "leaf1", 100, 1, None, "Ethernet0"), hosts=("10.0.0.7",))
    found = merged(discovered=seen)
    assert found.topology.hosts[0] == Host("h1", "10.0.0.7")
    assert found.differences == ()
    found = merged(discovered=seen, declared=declared())
    assert told(found) == [
        "h1 is declared with 10.0.0.1, INT shows 10.0.0.7 at its port; the former is taken"
    ]


@pytest.mark.parametrize(
    "row",
    [to("Ethernet0", "10.0.0.1", "ens1f0"), to("Ethernet0", None, "ens1f0", chassis="10.0.0.1")],
    ids=["as its name", "as its chassis"],
)
def test_a_host_that_announces_its_declared_address_is_that_host(row: Neighbour) -> None:
    found = merged(fabric(leaf1=sees(row, to("Ethernet4", "spine1", "Ethernet0"))), declared=declared())
    assert cables(found) == WHOLE
    assert found.topology.hosts == (Host("h1", "10.0.0.1"), Host("h2", "10.0.0.2"))
    assert found.differences == ()


def test_no_host_gets_the_name_of_another_as_its_address() -> None:
    seen = shown(Link("h2", "leaf1", 100, 1, None, "Ethernet0"), hosts=("h2",))
    found = merged(discovered=seen)
    assert found.topology.hosts == (Host("h1"), Host("h2"))
    assert told(found) == ["INT shows h2 behind the port of h1, and it is the address of h2"]


def test_int_shows_several_addresses_of_a_host_with_several_nics() -> None:
    seen = shown(
        Link("10.0.0.7", "leaf1", 100, 1, None, "Ethernet0"),
        Link("10.0.0.8", "leaf2", 100, 1, None, "Ethernet0"),
        hosts=("10.0.0.7", "10.0.0.8"),
    )
    read = fabric(leaf1=sees(to("Ethernet0", "h1", "a")), leaf2=sees(to("Ethernet0", "h1", "b")))
    found = merged(read, discovered=seen)
    assert found.topology.hosts == (Host("h1"),)
    assert told(found, "int") == [
        "INT shows 10.0.0.7, 10.0.0.8 behind ports of h1; a host has one address; none is taken"
    ]


def test_a_port_that_int_shows_under_two_names_of_its_switch_has_one_link() -> None:
    seen = Topology(
        (Host("10.0.0.2", "10.0.0.2"),),
        ("leaf1", "leaf1.dc.example"),
        (
            Link("10.0.0.2", "leaf1", 25, 1, None, "Ethernet8"),
            Link("10.0.0.2", "leaf1.dc.example", 25, 1, None, "Ethernet8"),
        ),
    )
    found = merged({}, declared=declared(), discovered=seen)
    assert "h2 <-> leaf1:Ethernet8" in cables(found)
    assert found.topology.hosts[1] == Host("h2", "10.0.0.2")


def test_links_that_only_int_shows_are_told_and_added_and_those_it_contradicts_told() -> None:
    read = {"leaf1": sees(to("Ethernet4", "spine1", "Ethernet0"))}
    seen = shown(
        Link("10.0.0.7", "leaf1", 25, 1, None, "Ethernet0"),
        Link("leaf1", "spine1", 400, 1, "Ethernet4", "Ethernet8"),
        Link("leaf2", "spine1", 400, 1, "Ethernet4", "Ethernet12"),
        Link("leaf2", "spine1", 400, 1, "to spine1", "Ethernet16"),
        hosts=("10.0.0.7",),
    )
    found = merged(read, discovered=seen)
    assert cables(found) == [
        "10.0.0.7 <-> leaf1:Ethernet0",
        "leaf1:Ethernet4 <-> spine1:Ethernet0",
        "leaf2:Ethernet4 <-> spine1:Ethernet12",
    ]
    assert told(found) == [
        "INT shows 10.0.0.7 <-> leaf1:Ethernet0, which neither LLDP nor the declaration has; it is added",
        "INT shows leaf1:Ethernet4 <-> spine1:Ethernet8; the file has leaf1:Ethernet4 <-> spine1:Ethernet0",
        "INT shows leaf2:Ethernet4 <-> spine1:Ethernet12, which neither LLDP nor the declaration has; "
        "it is added",
    ]
