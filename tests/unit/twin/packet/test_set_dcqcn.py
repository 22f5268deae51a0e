"""Sender parameters set while a fabric runs: who takes them, when, and what stays as it was."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from telemetry.topology import GBPS
from tests.unit.twin.kernels.uncompiled import long_uncompiled
from tests.unit.twin.packet.by_hand import Hand
from tests.unit.twin.packet.plans import CHURNING, columns, running, star, two_tiers
from twin.errors import ScenarioError
from twin.packet._sender import cnp
from twin.packet.fabric import Fabric
from twin.senders.dcqcn import PAPER, VENDOR, DcqcnParams
from twin.traffic.base import Traffic
from twin.watermark import Watermark

pytestmark = pytest.mark.kernels

STEP_S = 2.0**-20  # sums of it are exact
LINE = 100 * GBPS
BOLD = replace(CHURNING, ai_rate_bytes_per_s=5 * GBPS, hai_rate_bytes_per_s=5 * GBPS)


def busy(dcqcn: DcqcnParams = CHURNING, **settings: Any) -> Fabric:
    """Three senders towards each of two hosts of a leaf-spine fabric, marked early."""
    plan = two_tiers(2, 2, 4, dcqcn=dcqcn)
    fabric = running(plan, watermark=Watermark(2_000, 40_000, 0.3), sampling_rate=0.2, **settings)
    fabric.offer(Traffic.independent([0, 1, 2, 5, 6, 7], [4, 4, 4, 3, 3, 3], [4e5, math.inf, 9e5] * 2, 0.0))
    return fabric


def rates(fabric: Fabric) -> list[float]:
    flows = fabric._flows.rows
    order = np.argsort(flows["number"][: fabric._flows.numbered])
    return flows["rate"][order].tolist()


@long_uncompiled
def test_the_same_parameters_again_change_nothing_at_all() -> None:
    left, told = busy(), busy()
    for k in range(1, 31):
        mine, theirs = left.advance(k * 7e-6), told.advance(k * 7e-6)
        assert all(
            column.tobytes() == columns(theirs.samples)[name].tobytes()
            for name, column in columns(mine.samples).items()
        )
        assert left._flows.rows.tobytes() == told._flows.rows.tobytes()
        assert left._state.ports.tobytes() == told._state.ports.tobytes()
        told.set_dcqcn(range(8), replace(CHURNING))


def test_parameters_set_before_any_flow_are_those_of_the_plan() -> None:
    planned, told = busy(VENDOR), busy(PAPER)
    told.set_dcqcn(range(8), VENDOR)
    mine, theirs = (columns(one.advance(1e-4).samples) for one in (planned, told))
    assert all(column.tobytes() == theirs[name].tobytes() for name, column in mine.items())
    assert rates(planned) == rates(told) != rates(busy(PAPER))


@long_uncompiled
def test_flows_of_hosts_with_a_higher_increase_recover_faster_and_others_as_before() -> None:
    """Two pairs that share nothing: only the sender that was told speeds up."""

    def recovered(told: tuple[int, ...]) -> list[float]:
        fabric = running(star(4), retransmit_timeout_s=1.0)
        fabric.offer(Traffic.independent([0, 2], [1, 3], math.inf, 0.0))
        hand = Hand(fabric)
        fabric.advance(1e-6)
        for row in (0, 1):
            cnp(hand.state, row, fabric.now_s)
        fabric.advance(fabric.now_s + CHURNING.cnp_interval_s + 1e-6)
        fabric._flows.rows["target"][:2] = fabric._flows.rows["rate"][:2]
        fabric.set_dcqcn(told, BOLD)
        before = rates(fabric)
        assert before == [0.5 * LINE, 0.5 * LINE]
        fabric.advance(1e-3)
        assert min(np.subtract(rates(fabric), before)) > 0
        return rates(fabric)

    neither, first, both = recovered(()), recovered((0,)), recovered((0, 2))
    assert first[0] == both[0] > 1.3 * neither[0]
    assert first[1] == neither[1] < both[1]


def sender(**changed: Any) -> Hand:
    """One endless flow that has begun and is never served; its first CNP comes at time 0."""
    clocks = {"cnp_interval_s": 8 * STEP_S, "alpha_timer_s": 4 * STEP_S, "increase_timer_s": 16 * STEP_S}
    fabric = running(star(2, dcqcn=replace(CHURNING, **(clocks | changed))), retransmit_timeout_s=1e6)
    fabric.offer(Traffic.independent([0], [1], math.inf, 0.0))
    hand = Hand(fabric)
    hand.begin()
    cnp(hand.state, 0, 0.0)
    return hand


def told(hand: Hand, at: float, **changed: Any) -> None:
    """Sets parameters of its sender at a moment."""
    hand.fabric._state.clock["now"] = at
    hand.fabric.set_dcqcn([0], replace(hand.fabric.dcqcn(0), **changed))


def test_rate_target_and_alpha_stay_and_clocks_tick_when_they_were_due() -> None:
    hand = sender()
    hand.ring()  # the cut, at 8
    assert hand.flow()["rate"] < LINE
    before = hand.flow().copy()
    told(hand, 9 * STEP_S, cnp_interval_s=STEP_S, alpha_timer_s=STEP_S, increase_timer_s=STEP_S)
    after = hand.flow()
    for name in ("rate", "target", "alpha", "pace", "timer_stage", "byte_stage", "alpha_at", "cut_at"):
        assert after[name] == before[name], name
    assert hand.next_s == before["increase_at"] == after["increase_at"] == 24 * STEP_S
    cnp(hand.state, 0, 10 * STEP_S)
    assert hand.next_s == 16 * STEP_S  # the cut that was due then
    hand.ring()
    assert (hand.flow()["cut_at"], hand.flow()["increase_at"]) == (17 * STEP_S, 17 * STEP_S)


def test_ticks_that_nobody_has_looked_at_count_by_the_old_parameters() -> None:
    gain = 1 / 8
    hand = sender(gain=gain)
    told(hand, 18 * STEP_S, gain=1 / 2, alpha_timer_s=32 * STEP_S)
    expected = (1 - gain) ** 4  # at 4, 8, 12 and 16
    assert hand.flow()["alpha"] == pytest.approx(expected, rel=1e-12)
    assert hand.flow()["alpha_at"] == 20 * STEP_S
    cnp(hand.state, 0, 21 * STEP_S)
    assert hand.flow()["alpha"] == pytest.approx(expected / 2, rel=1e-12)
    assert hand.flow()["alpha_at"] == 52 * STEP_S


def test_an_idle_cut_clock_ticks_by_the_old_interval_until_it_is_told() -> None:
    hand = sender(cnp_interval_s=8 * STEP_S)
    hand.ring()  # the cut at 8; its clock then ticks at 16, 24, …
    told(hand, 19 * STEP_S, cnp_interval_s=2 * STEP_S)
    cnp(hand.state, 0, 20 * STEP_S)
    assert hand.flow()["cut_at"] == 24 * STEP_S


@pytest.mark.parametrize(("before", "counted", "left"), [(1e7, 5e6, 10_480.0), (None, 5e6, 10_480.0)])
def test_bytes_beyond_a_smaller_counter_count_once(before: float | None, counted: float, left: float) -> None:
    plan = star(2, dcqcn=replace(CHURNING, byte_counter_bytes=before, cnp_interval_s=1e3))
    fabric = running(plan, retransmit_timeout_s=1e6)
    fabric.offer(Traffic.independent([0], [1], math.inf, 0.0))
    fabric.advance(1e-6)
    hand = Hand(fabric)
    cnp(hand.state, 0, fabric.now_s)
    flow = fabric._flows.rows[0]
    flow["counted"] = counted
    fabric.set_dcqcn([0], replace(plan.dcqcn, byte_counter_bytes=left))
    sent = int(flow["next_seq"])
    fabric.advance(1e-6 + 2e-6)
    packets = int(flow["next_seq"]) - sent
    assert flow["byte_stage"] == 1 + (packets * 1_048) // int(left) > 1


def test_a_counter_switched_off_counts_no_more() -> None:
    plan = star(2, dcqcn=replace(CHURNING, byte_counter_bytes=10_480.0, cnp_interval_s=1e3))
    fabric = running(plan, retransmit_timeout_s=1e6)
    fabric.offer(Traffic.independent([0], [1], math.inf, 0.0))
    fabric.advance(1e-6)
    hand = Hand(fabric)
    cnp(hand.state, 0, fabric.now_s)
    fabric.set_dcqcn([0], replace(plan.dcqcn, byte_counter_bytes=None))
    fabric.advance(1e-5)
    assert fabric._flows.rows["byte_stage"][0] == 0


def test_a_higher_least_rate_holds_from_the_next_cut_on() -> None:
    hand = sender()
    for k in range(1, 6):
        hand.ring()
        cnp(hand.state, 0, (8 * k + 1) * STEP_S)
    low = float(hand.flow()["rate"])
    assert low < 0.3 * LINE
    told(hand, 42 * STEP_S, min_rate_bytes_per_s=0.5 * LINE)
    assert hand.flow()["rate"] == low
    while hand.flow()["rate"] < 0.5 * LINE:
        hand.ring()
    assert hand.flow()["rate"] == 0.5 * LINE


def test_alpha_begins_as_told_where_no_cnp_has_come() -> None:
    fabric = running(star(2, dcqcn=replace(CHURNING, initial_alpha=1.0)))
    fabric.offer(Traffic.independent([0], [1], math.inf, 0.0))
    hand = Hand(fabric)
    hand.begin()
    fabric.set_dcqcn([0], replace(CHURNING, initial_alpha=0.25))
    cnp(hand.state, 0, 1e-6)
    assert hand.flow()["alpha"] == 0.25


def test_what_a_host_runs_is_told_and_a_mistake_leaves_all_as_they_were() -> None:
    fabric = running(star(3))
    fabric.set_dcqcn([1], BOLD)
    assert [fabric.dcqcn(host) for host in range(3)] == [CHURNING, BOLD, CHURNING]
    for wrong in (-1, 3):
        with pytest.raises(ScenarioError, match="the fabric has 3 hosts, numbered from 0"):
            fabric.set_dcqcn([0, wrong], BOLD)
        with pytest.raises(ScenarioError, match="the fabric has 3 hosts, numbered from 0"):
            fabric.dcqcn(wrong)
    assert fabric.dcqcn(0) == CHURNING


def test_every_nic_of_a_host_is_set() -> None:
    plan = star(2)
    second = tuple(
        replace(port, port=port.port and f"{port.port}b")
        for port in plan.ports
        if "h0" in (port.node, port.peer)
    )
    plan = replace(plan, ports=(*plan.ports, *second))
    assert [len(nics) for nics in plan.nics] == [2, 1]
    fabric = running(plan)
    fabric.set_dcqcn([0], BOLD)
    table = fabric._state.ports["ai_rate"]
    assert table[list(plan.nics[0])].tolist() == [BOLD.ai_rate_bytes_per_s] * 2
    assert table[list(plan.nics[1])].tolist() == [CHURNING.ai_rate_bytes_per_s]
