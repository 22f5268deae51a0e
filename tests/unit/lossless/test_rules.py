"""Each rule finds a fault planted in a sound fabric, and says what it cannot know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lossless.report import RULES
from lossless.rules import check
from nics.base import Reading
from tests.unit.lossless.fabrics import (
    MARK,
    NIC,
    PORT,
    PRIORITY,
    TOPOLOGY,
    fabric,
    faults,
    reading_of,
    the_fault,
    with_priority,
)
from tests.unit.nics.sysfs import DEFAULTS
from twin.watermark import Watermark

AT = ("leaf1", "Ethernet0")
UP = ("leaf1", "Ethernet1")


def test_a_sound_fabric_breaks_no_rule_and_all_was_checked() -> None:
    found = check(fabric())
    assert found.faults == ()
    assert found.unchecked == ()


def test_pfc_without_ecn() -> None:
    found = faults(fabric({AT: replace(PORT, watermarks={3: None, 6: None})}))
    assert ("pfc_without_ecn", "error", "leaf1 Ethernet0") in found


def test_pfc_on_one_side_of_a_cable_is_told_at_the_side_that_lacks_it() -> None:
    other = the_fault(fabric({("spine1", "Ethernet0"): replace(PORT, priorities=())}))
    assert other.where == "spine1 Ethernet0 (to leaf1 Ethernet1)"
    found = the_fault(fabric({UP: replace(PORT, priorities=())}))
    assert (found.rule, found.node) == ("pfc_one_side", "leaf1")
    assert found.where == "leaf1 Ethernet1 (to spine1 Ethernet0)"
    assert found.found == "PFC of priority 3 is off, and on at the other end"


def test_ecn_on_one_side_of_a_cable() -> None:
    off = replace(PORT, watermarks={3: MARK, 5: None, 6: None})
    on = replace(PORT, watermarks={3: MARK, 5: MARK, 6: None})
    found = faults(
        fabric(
            {UP: off, ("spine1", "Ethernet0"): on, ("spine1", "Ethernet1"): on, ("leaf2", "Ethernet1"): on}
        )
    )
    assert ("ecn_one_side", "error", "leaf1 Ethernet1 (to spine1 Ethernet0)") in found


def test_ports_of_one_role_that_mark_unlike() -> None:
    other = Watermark(100_000, 500_000, 0.1)
    found = the_fault(fabric({("leaf2", "Ethernet0"): replace(PORT, watermarks={3: other, 6: None})}))
    assert (found.rule, found.where) == ("unequal_ecn", "leaf2 Ethernet0")
    assert "on most leaf-host-100G ports it marks with Kmin 100000 B, Kmax 400000 B" in found.found


@pytest.mark.parametrize("kmax", [1_000_000, 1_000_001])
def test_kmax_at_or_above_xoff(kmax: int) -> None:
    mark = {3: Watermark(100_000, kmax, 0.1), 6: None}
    every = {(switch, port): replace(PORT, watermarks=mark) for switch, port in fabric().ports}
    found = check(fabric(every)).faults
    assert {(one.rule, one.node) for one in found} == {
        ("kmax_above_xoff", name) for name in ("leaf1", "leaf2", "spine1")
    }
    assert found[0].where == "leaf1 Ethernet0, Ethernet1"


def test_kmax_is_compared_with_the_lowest_threshold_of_the_switch() -> None:
    low = with_priority(xoff_bytes=300_000, alpha=0.125, pool_bytes=2_700_000)
    found = the_fault(fabric({UP: low}))
    assert (found.rule, found.where) == ("kmax_above_xoff", "leaf1 Ethernet0, Ethernet1")
    assert found.found == (
        "Kmax of queue 3 is 400 KB, and PFC of priority 3 pauses at 300 KB at most "
        "(alpha 0.125, a pool of 2.7 MB)"
    )


def test_headroom_is_compared_with_what_may_arrive() -> None:
    """2 frames of 9 122 B, a pause, 625 B of cable, 394 quanta of 64 B: 44 149 B, of which 9 811 B anyhow."""
    assert check(fabric({AT: with_priority(headroom_bytes=44_149)})).faults == ()
    short = the_fault(fabric({AT: with_priority(headroom_bytes=44_148)}))
    assert (short.rule, short.severity, short.where) == ("headroom", "warning", "leaf1 Ethernet0")
    assert "2 frames of 9122 B, a pause of 64 B, 625 B on 5 m of cable and back at 100 Gbit/s" in short.found
    assert the_fault(fabric({AT: with_priority(headroom_bytes=9_811)})).severity == "warning"
    lost = the_fault(fabric({AT: with_priority(headroom_bytes=9_810)}))
    assert lost.severity == "error"
    assert "9.81 KB of it even where it reacts at once" in lost.found


def test_a_longer_cable_needs_more() -> None:
    found = the_fault(fabric({AT: replace(PORT, cable_m=300)}))
    assert "37.5 KB on 300 m of cable" in found.found


@pytest.mark.parametrize(
    ("side", "says"), [("reacts", "it reacts to CNPs on none"), ("notifies", "it sends CNPs on")]
)
def test_a_nic_of_another_priority(side: str, says: str) -> None:
    nic = replace(NIC, **{side: () if side == "reacts" else (0, 5)})
    found = the_fault(fabric(nics={"h1": nic}))
    assert (found.rule, found.severity, found.where) == ("nic_priority", "error", "h1 ens1")
    assert says in found.found


def test_a_nic_is_compared_with_the_port_that_it_is_at() -> None:
    """With PFC off at its own port, others do not count."""
    every = {place: replace(PORT, priorities=()) for place in (("leaf1", "Ethernet0"),)}
    assert check(fabric(every, nics={"h0": replace(NIC, reacts=())})).faults == ()
    unnamed = fabric(every, nics={"h0": replace(NIC, reacts=())}, topology=None)
    assert [one.rule for one in check(unnamed).faults] == ["nic_priority"]


def test_a_nic_at_a_switch_that_was_not_read_is_not_compared_with_others() -> None:
    switches = {name: one for name, one in fabric().switches.items() if name != "leaf1"}
    switches["spine1"] = reading_of("spine1", {"Ethernet0": with_priority(priority=4), "Ethernet1": PORT})
    found = check(fabric(switches=switches))
    assert found.faults == ()
    assert found.unchecked == (
        "h0 ens1: what its switch port keeps lossless is not known; not checked: nic_priority",
    )


def test_the_link_says_which_nic_is_at_which_port() -> None:
    links = tuple(replace(one, a_port="ens1") if one.a == "h0" else one for one in TOPOLOGY.links)
    second = replace(TOPOLOGY.links[0], a_port="ens2", b_port="Ethernet9")
    topology = replace(TOPOLOGY, links=(*links, second))
    both = Reading("h0", 0, (replace(NIC, reacts=(4,)), replace(NIC, nic="ens2", reacts=(4,))))
    switches = dict(fabric().switches) | {
        "leaf1": reading_of(
            "leaf1", {"Ethernet0": PORT, "Ethernet1": PORT, "Ethernet9": with_priority(priority=4)}
        )
    }
    found = check(fabric(switches=switches, topology=topology, hosts={"h0": both})).faults
    assert [(one.rule, one.where) for one in found] == [
        ("nic_priority", "h0 ens1"),
        ("nic_priority", "h0 ens2"),
    ]
    assert found[1].found == "it sends CNPs on 3, and the switches keep 4 lossless"


def test_cnps_in_a_queue_that_is_not_strict() -> None:
    found = the_fault(fabric({AT: replace(PORT, strict={3: False, 6: False})}))
    assert (found.rule, found.severity) == ("cnp_queue", "warning")
    assert found.found == "queue 6 of CNPs (DSCP 48 of the NICs) is not strict"


def test_cnps_among_lossless_traffic() -> None:
    found = the_fault(fabric({AT: replace(PORT, queue_of_dscp={48: 3})}))
    assert (found.rule, found.severity) == ("cnp_queue", "error")


def test_nics_of_a_class_that_differ() -> None:
    third = Reading("h2", 0, (NIC,))
    other = replace(NIC, values={**DEFAULTS, "rpg_ai_rate": 50})
    hosts = {"h0": Reading("h0", 0, (NIC,)), "h1": Reading("h1", 0, (other,)), "h2": third}
    found = the_fault(fabric(hosts=hosts, classes=dict.fromkeys(hosts, "gpu")))
    assert (found.rule, found.where) == ("unequal_nics", "h1 ens1")
    assert (
        found.found
        == "it runs other values than most NICs of class gpu: rpg_ai_rate 50 Mbit/s (most 5 Mbit/s)"
    )
    assert check(fabric(hosts=hosts, classes={"h1": "storage"})).faults == ()


def test_nics_of_another_make_are_compared_by_their_drivers_names() -> None:
    nics = [
        replace(NIC, driver="bnxt_en", values={"init_cr": value, "cnp_dscp": 48}) for value in (200, 200, 9)
    ]
    hosts = {f"h{number}": Reading(f"h{number}", 0, (one,)) for number, one in enumerate(nics)}
    found = the_fault(fabric(hosts=hosts, classes=dict.fromkeys(hosts, "thor2")))
    assert found.found == "it runs other values than most NICs of class thor2: init_cr 9 (most 200)"


def test_ports_with_the_same_fault_share_it() -> None:
    changed = {(name, port): replace(PORT, watermarks={3: None}) for name, port in fabric().ports}
    found = check(fabric(changed)).faults
    assert [one.where for one in found if one.rule == "pfc_without_ecn"] == [
        "leaf1 Ethernet0, Ethernet1",
        "leaf2 Ethernet0, Ethernet1",
        "spine1 Ethernet0, Ethernet1",
    ]


def test_four_places_and_more_are_counted() -> None:
    ports = {f"Ethernet{number}": replace(PORT, watermarks={3: None}) for number in (10, 9, 2, 1, 3)}
    found = check(fabric(switches={"leaf1": reading_of("leaf1", ports)}, topology=None, hosts={})).faults
    assert [one.where for one in found] == ["leaf1 Ethernet1, Ethernet2, Ethernet3 and 2 more"]


def test_what_is_not_known_is_said_and_never_right() -> None:
    bare = with_priority(queue=None, xoff_bytes=None, headroom_bytes=None)
    found = check(fabric({AT: replace(bare, watermarks={}, strict={}, queue_of_dscp={})}))
    assert found.faults == ()
    assert found.unchecked == (
        "leaf1 Ethernet0: the queue of priority 3 is not known; not checked: pfc_without_ecn, "
        "kmax_above_xoff, cnp_queue",
        "leaf1 Ethernet0: the headroom of priority 3 is not known; not checked: headroom",
        "leaf1 Ethernet0: the XOFF threshold of priority 3 is not known; not checked: kmax_above_xoff",
        "leaf1 Ethernet0: the queue of CNPs (DSCP 48) is not known; not checked: cnp_queue",
    )


@pytest.mark.parametrize(
    ("port", "says"),
    [
        (replace(PORT, cable_m=None, mtu_bytes=None), "the cable's length or MTU is not known"),
        (replace(PORT, rate_gbps=33), "how fast a sender at 33 Gbit/s reacts is not known"),
        (
            replace(PORT, watermarks={6: None}),
            "whether queue 3 marks is not known; not checked: pfc_without_ecn, kmax_above_xoff, "
            "ecn_one_side, unequal_ecn",
        ),
        (replace(PORT, strict={}), "whether queue 6 of CNPs is strict is not known"),
    ],
)
def test_each_missing_part_is_named(port: object, says: str) -> None:
    (found,) = check(fabric({UP: port})).unchecked  # type: ignore[dict-item] # a port, behind parametrize
    assert found.startswith("leaf1 Ethernet1: ")
    assert says in found


def test_rules_on_marking_are_told_where_neither_end_of_a_cable_shows_it() -> None:
    """As on a chassis, whose rows of QUEUE name no port."""
    dark = replace(PORT, watermarks={})
    found = check(fabric(dict.fromkeys(fabric().ports, dark)))
    assert found.faults == ()
    rules = "pfc_without_ecn, kmax_above_xoff"
    assert found.unchecked == tuple(
        f"{where}: whether queue 3 marks is not known; not checked: {named}"
        for where, named in (
            ("leaf1 Ethernet0, Ethernet1", f"{rules}, unequal_ecn"),
            ("leaf1 Ethernet1", "ecn_one_side"),
            ("leaf2 Ethernet0, Ethernet1", f"{rules}, unequal_ecn"),
            ("leaf2 Ethernet1", "ecn_one_side"),
            ("spine1 Ethernet0, Ethernet1", f"{rules}, ecn_one_side, unequal_ecn"),
        )
    )


def test_without_a_topology_or_hosts_their_rules_are_not_checked() -> None:
    found = check(fabric(topology=None, hosts={}))
    assert found.faults == ()
    assert found.unchecked == (
        "the fabric: the topology is not known; not checked: pfc_one_side, ecn_one_side, unequal_ecn",
        "the fabric: what NICs run is not known; not checked: nic_priority, cnp_queue, unequal_nics",
    )


def test_a_port_of_the_topology_that_the_switch_does_not_show_is_told() -> None:
    switches = dict(fabric().switches) | {"leaf1": reading_of("leaf1", {"Ethernet0": PORT})}
    (found,) = check(fabric(switches=switches)).unchecked
    assert found.startswith(
        "leaf1 Ethernet1: the configuration of the port is not known; not checked: pfc_one"
    )


def test_nics_that_show_nothing_are_told() -> None:
    dark = replace(NIC, values={}, reacts=None, notifies=None)
    found = check(fabric(nics={"h0": dark, "h1": dark})).unchecked
    assert "h0 ens1: what it runs is not known; not checked: unequal_nics" in found
    assert "h0 ens1: on which priorities it reacts to CNPs is not known; not checked: nic_priority" in found
    assert "the fabric: the DSCP of CNPs is not known; not checked: cnp_queue" in found


def test_a_finding_is_a_sentence_with_where_what_rule_and_remedy() -> None:
    found = the_fault(fabric({UP: replace(PORT, priorities=())}))
    assert found.sentence == (
        "leaf1 Ethernet1 (to spine1 Ethernet0): PFC of priority 3 is off, and on at the other end; "
        f"{RULES['pfc_one_side']}; turn it on here, or off there"
    )


def test_faults_are_in_the_order_of_the_rules() -> None:
    changed = {
        AT: with_priority(headroom_bytes=0, xoff_bytes=1),
        UP: replace(PORT, priorities=(replace(PRIORITY, priority=4),)),
    }
    order = [list(RULES).index(rule) for rule, _, _ in faults(fabric(changed))]
    assert order == sorted(order)
    assert len(set(order)) > 2
