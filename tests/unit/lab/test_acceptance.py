"""Acceptance of small fabrics: a good one passes, each planted fault fails with the finding that names it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from lab.acceptance.collectives import Collective, collectives, cost_s
from lab.acceptance.criteria import Criteria, Judge
from lab.acceptance.documents import CheckDocument, CollectiveDocument
from lab.acceptance.links import even_loads, shared_groups, unlike_others
from lab.acceptance.run import ECN_OFF, run
from telemetry.topology import Link, Topology, leaf_spine
from twin.errors import ParameterError
from twin.packet.plan import FabricPlan
from twin.senders.dcqcn import PRESETS
from twin.traffic.base import Traffic
from twin.watermark import Watermark

GOOD = leaf_spine(2, 4, 4)
MARK = Watermark(400_000, 1_600_000, 0.2)
DURATION_S = 2e-3


def with_links(change: Callable[[Link], Link | None]) -> Topology:
    """The good fabric with each cable between switches changed, or left out."""
    changed = [change(link) if link.a in GOOD.switch_names else link for link in GOOD.links]
    return Topology(GOOD.hosts, GOOD.switches, tuple(link for link in changed if link is not None))


def is_first(link: Link) -> bool:
    return {link.a, link.b} == {"leaf1", "spine1"}


SLOW = with_links(lambda link: replace(link, rate_gbps=25.0) if is_first(link) else link)
MISSING = with_links(lambda link: None if is_first(link) else link)


def plan_of(topology: Topology, *, pfc: bool = True, dcqcn: str = "paper") -> FabricPlan:
    return FabricPlan(ports=topology.ports, dcqcn=PRESETS[dcqcn], pfc=pfc)


def accepted(
    topology: Topology = GOOD,
    watermark: Watermark = MARK,
    *,
    pfc: bool = True,
    dcqcn: str = "paper",
    seeds: int = 1,
    criteria: Criteria | None = None,
) -> dict[str, CollectiveDocument]:
    """What each collective shows, by its name."""
    plan = plan_of(topology, pfc=pfc, dcqcn=dcqcn)
    marks = dict.fromkeys(plan.switch_ports, watermark)
    judge = Judge(topology, plan, marks, criteria or Criteria())
    found: dict[str, CollectiveDocument] = {}
    for of_one in zip(
        *(collectives(plan, duration_s=DURATION_S, seed=seed) for seed in range(seeds)), strict=True
    ):
        document = judge.document([run(plan, marks, one, seed=seed) for seed, one in enumerate(of_one)])
        found[document.name] = document
    return found


def failed(documents: dict[str, CollectiveDocument]) -> dict[tuple[str, str], CheckDocument]:
    """The checks that failed, by collective and criterion."""
    return {
        (name, check.criterion): check
        for name, document in documents.items()
        for check in document.checks
        if check.passed is False
    }


@pytest.mark.parametrize("dcqcn", ["paper", "vendor"])
def test_a_good_fabric_passes(dcqcn: str) -> None:
    found = accepted(dcqcn=dcqcn, seeds=2)
    assert list(found) == ["ring all-reduce", "all-to-all", "incast", "storage mix"]
    assert failed(found) == {}
    for name in ("ring all-reduce", "all-to-all"):
        values = {check.criterion: check.value for check in found[name].checks}
        assert values["bus_bandwidth"] == pytest.approx(0.82, abs=0.04)
        # 1000 of 1048 bytes are payload, and the fabric is not blocking.
        assert found[name].links_allow == pytest.approx(1000 / 1048)
    assert [check.passed for check in found["incast"].checks] == [True, None, True, True, None, None]
    assert [check.criterion for check in found["all-to-all"].checks if check.passed is None] == []


def test_the_bus_bandwidth_is_that_of_nccl_tests() -> None:
    plan = plan_of(GOOD)
    ring, every, *_ = collectives(plan, duration_s=DURATION_S, seed=0)
    (shown,) = (check for check in accepted()["ring all-reduce"].checks if check.criterion == "bus_bandwidth")
    sent = np.bincount(ring.traffic.src, weights=ring.traffic.payload_bytes)
    iterations = len(ring.traffic) / (2 * 7 * 8)
    data = 8 * 512_000 * iterations  # what each rank holds
    took_s = run(plan, dict.fromkeys(plan.switch_ports, MARK), ring, seed=0).took_s
    assert ring.bus_bytes == pytest.approx(data * 2 * 7 / 8) == pytest.approx(sent[0])
    assert shown.value == pytest.approx(data / took_s * 2 * 7 / 8 / 12.5e9)
    assert every.bus_bytes == pytest.approx(
        np.bincount(every.traffic.dst, weights=every.traffic.payload_bytes)[0]
    )


def test_a_slow_uplink_is_named() -> None:
    checks = failed(accepted(SLOW))
    assert {("all-to-all", "bus_bandwidth"), ("ring all-reduce", "slowest_rank")} <= set(checks)
    finding = checks["all-to-all", "bus_bandwidth"].finding
    assert finding is not None
    assert finding.startswith("The links allow 41.7 % of the line rate, as leaf1 Ethernet4 to spine1 ")
    assert "leaf1 Ethernet4 to spine1 runs at 25 Gbit/s, most such links at 100." in finding
    slowest = checks["ring all-reduce", "slowest_rank"].finding
    assert slowest is not None
    assert slowest.startswith(
        ("Messages of h3 ", "Messages of h7 ")
    )  # whose next ranks are at the other leaf


def test_a_missing_uplink_is_named() -> None:
    checks = failed(accepted(MISSING))
    assert list(checks) == [("all-to-all", "ecmp_spread")]
    assert checks["all-to-all", "ecmp_spread"].value == pytest.approx(1.0)
    finding = checks["all-to-all", "ecmp_spread"].finding
    assert finding is not None
    assert finding.startswith("leaf2 Ethernet4 to spine1 carried 0 % of the mean")
    assert "spine1 has fewer links to a leaf (leaf2) than most of its role (2)" in finding


def test_a_watermark_above_the_depth_at_which_pfc_pauses_is_named() -> None:
    checks = failed(accepted(watermark=Watermark(8_000_000, 16_000_000, 0.1)))
    assert list(checks) == [("incast", "paused")]
    finding = checks["incast", "paused"].finding
    assert finding is not None
    assert "less than its Kmax of 16 MB: the buffer runs short" in finding


@pytest.mark.parametrize(("pfc", "criterion"), [(True, "paused"), (False, "loss")])
def test_ecn_off_is_named(pfc: bool, criterion: str) -> None:
    checks = failed(accepted(watermark=ECN_OFF, pfc=pfc))
    finding = checks["incast", criterion].finding
    assert finding is not None
    assert "ECN is off there: set a watermark" in finding


def test_what_does_not_end_is_told() -> None:
    plan = plan_of(GOOD)
    never = Collective("never", Traffic.independent([0, 1], [2, 3], [1e6, np.inf], 0.0), 1e-4)
    outcome = run(plan, {}, never, seed=1)
    document = Judge(GOOD, plan, {}, Criteria()).document([outcome])
    check = document.checks[0]
    assert (check.criterion, check.value, check.passed) == ("completes", 0.5, False)
    assert check.finding is not None
    assert check.finding.startswith(
        "1 of 2 messages were not delivered within 500 ms, most of them from h1. "
    )


def test_criteria_are_the_operator_s() -> None:
    checks = failed(accepted(criteria=Criteria(bus_bandwidth=0.9, slowest_rank=0.0)))
    assert {("ring all-reduce", "bus_bandwidth"), ("all-to-all", "slowest_rank")} <= set(checks)
    assert checks["ring all-reduce", "bus_bandwidth"].limit == 0.9
    with pytest.raises(ParameterError, match="criterion paused"):
        Criteria(paused=-0.1)


def test_even_loads_follow_every_equal_path() -> None:
    traffic = Traffic.independent([0, 0, 1], [4, 1, 0], [800.0, 100.0, 10.0], 0.0)
    loads = even_loads(GOOD, traffic, traffic.payload_bytes)
    carried = {
        (port.node, port.peer): load for port, load in zip(GOOD.ports, loads.tolist(), strict=True) if load
    }
    assert carried == {
        ("h0", "leaf1"): 900.0,
        ("h1", "leaf1"): 10.0,
        ("leaf1", "h1"): 100.0,
        ("leaf1", "h0"): 10.0,
        ("leaf2", "h4"): 800.0,
        **{("leaf1", f"spine{number}"): 200.0 for number in range(1, 5)},
        **{(f"spine{number}", "leaf2"): 200.0 for number in range(1, 5)},
    }


def test_ports_that_share_a_load_are_the_uplinks() -> None:
    for topology, leaf1 in ((GOOD, 4), (MISSING, 3)):
        groups = [{topology.ports[port].node for port in group} for group in shared_groups(topology)]
        assert groups == [{"leaf1"}, {"leaf2"}]
        assert [len(group) for group in shared_groups(topology)] == [leaf1, 4]


def test_nothing_is_unlike_others_in_a_good_fabric() -> None:
    assert unlike_others(GOOD) == []


def test_larger_fabrics_run_in_groups_and_their_cost_grows_in_proportion() -> None:
    small, large = (leaf_spine(leaves, 4, 32, uplink_gbps=800.0) for leaves in (4, 8))
    costs = {}
    for topology in (small, large):
        plan = plan_of(topology)
        ring, *_ = collectives(plan, duration_s=1e-4, seed=1)
        costs[len(plan.hosts)] = cost_s(topology, plan, ring)
    assert costs[256] == pytest.approx(2 * costs[128], rel=0.1)
