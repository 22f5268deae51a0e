"""Topologies discovered from hops."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from telemetry.network.discovery import Journey, discover
from telemetry.report import HopSite, ReportBatch
from telemetry.topology import GBPS, Topology
from telemetry.window.window import Window

EPOCH_NS = 1_767_225_600_000_000_000


def site(switch: str | None, ingress: str | None, egress: str | None) -> HopSite:
    return HopSite(switch, ingress, egress, 3)


def built(
    *journeys: Journey,
    rates: dict[tuple[str, str], float] | None = None,
    bounds: dict[tuple[str, str], tuple[float, float]] | None = None,
) -> Topology:
    return discover(
        journeys,
        rates_bytes_per_s=rates or {},
        bounds_bytes_per_s=bounds or {},
        default_rate_gbps=100,
        default_delay_us=1,
    )


def route(topology: Topology, src: str, dst: str, flow: int = 0) -> list[tuple[str, str | None]]:
    return [(topology.ports[p].node, topology.ports[p].port) for p in topology.path(src, dst, flow)]


LEAF_SPINE = [
    Journey("A", "B", (site("l1", "1", "9"), site("s1", "1", "2"), site("l2", "9", "1"))),
    Journey("A", "B", (site("l1", "1", "8"), site("s2", "1", "2"), site("l2", "8", "1"))),
    Journey("C", "A", (site("l1", "2", "1"),)),
]


def test_switches_cables_and_hosts_are_found() -> None:
    topology = built(*LEAF_SPINE)
    assert set(topology.switches) == {"l1", "l2", "s1", "s2"}
    assert {host.name for host in topology.hosts} == {"A", "B", "C"}
    assert len(topology.links) == 7
    assert {link.rate_gbps for link in topology.links} == {100}
    taken = {tuple(route(topology, "A", "B", flow)) for flow in range(64)}
    assert taken == {
        (("A", None), ("l1", "9"), ("s1", "2"), ("l2", "1")),
        (("A", None), ("l1", "8"), ("s2", "2"), ("l2", "1")),
    }
    assert route(topology, "B", "C")[-1] == ("l1", "2")


def test_the_order_of_journeys_does_not_matter() -> None:
    shuffled = LEAF_SPINE.copy()
    random.Random(4).shuffle(shuffled)
    assert built(*shuffled, *shuffled) == built(*LEAF_SPINE)


def test_measured_rates_snap_to_standard_ones() -> None:
    topology = built(*LEAF_SPINE, rates={("l1", "9"): 27e9, ("l2", "1"): 45e9})
    rate = {(link.a, link.b): link.rate_gbps for link in topology.links}
    assert sorted(rate.values()) == [100, 100, 100, 100, 100, 200, 400]


SPINES = ("s0", "s1", "s2", "s3")
GBPS_400, GBPS_40 = 50e9, 5e9


def two_leaves(
    rates: dict[tuple[str, str], float], bounds: dict[tuple[str, str], tuple[float, float]] | None = None
) -> dict[tuple[str, str], float]:
    """The rate in Gbit/s by ends of a fabric of two leaves with a host each under four spines."""
    journeys = [
        Journey(src, dst, (site(one, "1", spine), site(spine, one, other), site(other, spine, "1")))
        for src, dst, one, other in (("A", "B", "l1", "l2"), ("B", "A", "l2", "l1"))
        for spine in SPINES
    ]
    return {
        (min(link.a, link.b), max(link.a, link.b)): link.rate_gbps
        for link in built(*journeys, rates=rates, bounds=bounds).links
    }


class TestRatesThatAreNotMeasured:
    def test_are_those_of_most_links_of_the_kind(self) -> None:
        found = two_leaves({("l1", spine): GBPS_400 for spine in SPINES[:3]})
        assert found == {
            **{(leaf, spine): 400 for leaf in ("l1", "l2") for spine in SPINES},
            ("A", "l1"): 100,
            ("B", "l2"): 100,
        }

    def test_of_their_own_switches_first(self) -> None:
        found = two_leaves(
            {("l1", spine): GBPS_400 for spine in SPINES[:3]} | {("l2", spine): GBPS_40 for spine in SPINES}
        )
        assert found["l1", "s3"] == 400

    @pytest.mark.parametrize("of_l2", [[], [GBPS_40, GBPS_40]], ids=["few", "unlike"])
    def test_are_the_default_where_few_or_unlike_ones_were_measured(self, of_l2: list[float]) -> None:
        measured = {("l1", spine): GBPS_400 for spine in SPINES[:2]}
        found = two_leaves(
            measured | {("l2", spine): rate for spine, rate in zip(SPINES, of_l2, strict=False)}
        )
        assert found["l1", "s3"] == found["l2", "s3"] == 100


class TestRatesThatAreNotSure:
    MEASURED = {("l1", spine): GBPS_400 for spine in SPINES[:3]} | {("l1", "s3"): GBPS_40}

    @pytest.mark.parametrize(
        ("least", "most", "rate"),
        [(4e9, 60e9, 400), (4e9, 30e9, 40), (5e9, 5e9, 40)],
        ids=["they may be", "they may not", "sure"],
    )
    def test_are_those_of_links_alike_where_they_may_be(self, least: float, most: float, rate: float) -> None:
        assert two_leaves(self.MEASURED, {("l1", "s3"): (least, most)})["l1", "s3"] == rate

    def test_are_no_less_than_the_far_end_shows(self) -> None:
        far = {("s3", "l1"): 2 * GBPS_400}
        assert two_leaves(self.MEASURED | far, {("l1", "s3"): (4e9, 60e9)})["l1", "s3"] == 800


def test_bursts_into_a_slow_port_do_not_make_it_faster(
    report: Callable[..., dict[str, Any]], batch: Callable[[list[dict[str, Any]]], ReportBatch]
) -> None:
    """60 packets of 1000 bytes come at 100 Gbit/s and leave at 25; each tells what it left behind."""
    reports = []
    for begin_ns in range(EPOCH_NS, EPOCH_NS + 20_000_000, 1_000_000):
        for packet in range(60):
            came_ns, left_ns = 80 * packet, 320 * (packet + 1)
            behind = min(60, left_ns // 80 + 1) - packet - 1
            hop = {
                "queue_bytes": 1000 * behind,
                "ingress_ts_ns": begin_ns + came_ns,
                "egress_ts_ns": begin_ns + left_ns,
            }
            reports.append(report(begin_ns + left_ns, hop=hop))
    window = Window()
    assert window.add(batch(reports)).rejected == 0
    state = window.state()
    assert [queue.capacity_bytes_per_s for queue in state.queues] == [25 * GBPS]


def test_two_addresses_behind_one_port_share_an_unseen_switch() -> None:
    topology = built(
        Journey("A", "B", (site("s", "1", "2"),)),
        Journey("C", "B", (site("s", "1", "2"),)),
    )
    assert "behind s 1" in topology.switches
    assert route(topology, "C", "B")[1:] == [("behind s 1", route(topology, "C", "B")[1][1]), ("s", "2")]
    assert len(route(topology, "A", "C")) == 2


def test_ports_that_are_not_named_are_stood_in_for() -> None:
    topology = built(
        Journey("A", "B", (site("x", None, "2"), site("y", None, None))),
        Journey("B", "A", (site("y", None, "7"), site("x", None, None))),
    )
    there, back = route(topology, "A", "B"), route(topology, "B", "A")
    assert there[1] == ("x", "2")
    assert back[1] == ("y", "7")
    assert [node for node, _ in there] == ["A", "x", "y"]


def test_hops_that_do_not_name_their_switch_leave_hosts_apart() -> None:
    topology = built(Journey("A", "B", (site(None, "1", "2"),)))
    assert topology.switches == ()
    assert topology.links == ()


def test_a_report_that_lost_its_last_hop_does_not_bend_the_fabric() -> None:
    topology = built(*LEAF_SPINE, Journey("A", "B", (site("l1", "1", "9"),)))
    assert topology == built(*LEAF_SPINE)


def test_names_that_clash_are_told_apart() -> None:
    topology = built(
        Journey("x", "B", (site("x", "1", "to B"), site("y", "to x 1", None))),
        Journey("x", "C", (site("x", "1", None), site("y", "to x 1", "to B"))),
    )
    assert len({host.name for host in topology.hosts} | set(topology.switches)) == 5
    assert topology.host_by_address["x"] != "x"


@pytest.mark.parametrize("path", [(), (site("s", None, None),), (site("s", "1", "1"),)])
def test_odd_journeys_never_break_it(path: tuple[HopSite, ...]) -> None:
    built(Journey("A", "A", path), Journey("A", "B", path))


def test_a_report_that_shows_no_packet_tells_of_switches_and_of_no_host() -> None:
    queue = Journey("0.0.0.0", "0.0.0.0", (site("l1", "2", "9"),))
    assert built(*LEAF_SPINE, queue) == built(*LEAF_SPINE)
    alone = built(queue)
    assert (alone.hosts, alone.switches, alone.links) == ((), ("l1",), ())


class Counted(str):
    """A name that counts how often names are looked up."""

    lookups = 0

    def __hash__(self) -> int:
        Counted.lookups += 1
        return super().__hash__()


def lookups_of_one_group(n: int) -> int:
    """``n`` ports that reports join in one group, with ``2 n`` addresses behind it."""

    def end(number: int) -> HopSite:
        return site(Counted(f"s{number}"), "1", "1")

    journeys = [
        Journey(Counted(f"a{number}"), Counted(f"b{number}"), (end(number), end(number + 1)))
        for number in range(n)
    ]
    Counted.lookups = 0
    assert len(built(*journeys).links) == 3 * n + 1
    return Counted.lookups


def test_the_work_grows_with_ports_and_addresses_not_with_their_pairs() -> None:
    assert lookups_of_one_group(400) < 5 * lookups_of_one_group(100)


def test_a_host_is_linked_by_the_port_that_one_report_names_and_once_where_none_does() -> None:
    unnamed = Journey("A", "B", (site("s", None, None), site("t", None, None)))
    named = Journey("A", "C", (site("s", "1", "2"),))
    assert [link.a_port for link in built(unnamed, named).links if "A" in (link.a, link.b)] == ["1"]
    assert [link.b_port for link in built(unnamed, unnamed).links if link.a == "A"] == ["to A"]
