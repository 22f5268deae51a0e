"""What a host's NIC does: its line rate alone, shares among equals, the rate of each that is paced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.topology import GBPS
from tests.oracles.store_and_forward import completion_s
from tests.unit.twin.packet.by_hand import Hand
from tests.unit.twin.packet.plans import CHURNING, line, port_between, running, star, two_tiers
from twin.packet._sender import change_rate, join_round
from twin.packet.fabric import Fabric
from twin.packet.layout import PACED
from twin.packet.plan import FabricPlan
from twin.scenario import Flows
from twin.traffic.base import Traffic

PACKET, LINE = 1_048, 100 * GBPS


def started_at(rates: Sequence[float], *, payload: float = math.inf) -> Fabric:
    """Flows from host 0 to hosts 1, 2, …, each begun at its rate and never marked."""
    fabric = running(star(len(rates) + 1), retransmit_timeout_s=1.0)
    paths = [(0, 2 * (k + 1) + 1) for k in range(len(rates))]
    count = len(rates)
    fabric.offer_routed(
        Flows(
            src=("h0",) * count,
            dst=tuple(f"h{k + 1}" for k in range(count)),
            payload_bytes=np.full(count, payload),
            start_s=np.zeros(count),
            start_rate_bytes_per_s=np.array(rates),
            path_offset=np.arange(0, 2 * count + 1, 2, dtype=np.int32),
            path_ports=np.array(paths, dtype=np.int32).ravel(),
        )
    )
    return fabric


def sent(fabric: Fabric) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return fabric._flows.rows["next_seq"].copy()


@pytest.mark.kernels
@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_flows_at_line_rate_share_a_nic_evenly(n: int) -> None:
    fabric = started_at([math.inf] * n)
    fabric.advance(1e-5)
    before = sent(fabric)
    fabric.advance(3e-5)
    counts = sent(fabric) - before
    assert counts.max() - counts.min() <= 1
    assert abs(counts.sum() - 2e-5 * LINE / PACKET) <= 1


@pytest.mark.kernels
def test_a_paced_flow_gets_its_rate() -> None:
    fabric = started_at([0.1 * LINE])
    fabric.advance(100 * PACKET / (0.1 * LINE) * (1 + 1e-9))
    assert sent(fabric)[0] == 101


@pytest.mark.kernels
def test_paced_flows_wait_their_turn_and_line_rate_flows_take_the_rest() -> None:
    rates = np.array([0.1, 0.25])
    fabric = started_at([*(rates * LINE), math.inf, math.inf])
    fabric.advance(1e-5)
    before = sent(fabric)
    fabric.advance(2.1e-4)
    share = (sent(fabric) - before) * PACKET / 2e-4 / LINE
    # A packet whose time has come waits for one of each other flow at most; its successor's gap begins then.
    packet = PACKET / (2e-4 * LINE)
    assert np.all(share[:2] <= rates + packet)
    assert np.all(share[:2] >= rates / (1 + 4 * rates) - packet)
    assert share[2] == pytest.approx(share[3], abs=1.5 * packet)
    assert share.sum() == pytest.approx(1.0, abs=packet)


@pytest.mark.kernels
def test_a_flow_held_back_by_its_rate_takes_its_own_turn() -> None:
    # The second was served last: whoever becomes ready when, the third comes next and then the first.
    fabric = started_at([math.inf, math.inf, 0.2 * LINE])
    fabric.advance(1e-5)
    hand, nic = Hand(fabric), fabric._state.ports[port_between(fabric.plan, "h0", "s")]
    flows = hand.state.flows
    for row in (0, 1, 2):
        flows[row]["state"] = PACED
    nic["head"], nic["served"] = -1, 1
    for row, order in ((1, [1]), (0, [0, 1]), (2, [2, 0, 1])):
        join_round(hand.state, row)
        seen, at = [], int(nic["head"])
        while at >= 0:
            seen.append(at)
            at = int(flows[at]["next_ready"])
        assert seen == order


@pytest.mark.kernels
def test_paced_flows_that_ask_for_more_than_the_line_share_it() -> None:
    fabric = started_at([0.8 * LINE, 0.8 * LINE, 0.1 * LINE])
    fabric.advance(1e-5)
    before = sent(fabric)
    fabric.advance(1.1e-4)
    share = (sent(fabric) - before) * PACKET / 1e-4 / LINE
    assert share == pytest.approx([0.45, 0.45, 0.1], abs=0.012)


@pytest.mark.kernels
@pytest.mark.parametrize(("first", "then"), [(0.01, 0.5), (0.5, 0.01), (0.001, 0.9), (0.3, 0.3)])
def test_a_rate_changed_while_a_packet_waits_spaces_those_after_it(first: float, then: float) -> None:
    fabric = started_at([first * LINE])
    gap_s, k = PACKET / (first * LINE), 3
    at = (k - 1 + 0.4) * gap_s
    fabric.advance(at)
    assert sent(fabric)[0] == k
    hand = Hand(fabric)
    change_rate(hand.state, 0, then * LINE)
    due = k * gap_s
    fabric.advance(due * (1 - 1e-9))
    assert sent(fabric)[0] == k
    fabric.advance(due * (1 + 1e-9))
    assert sent(fabric)[0] == k + 1
    later = due + 20 * PACKET / (then * LINE)
    fabric.advance(later * (1 + 1e-9))
    assert sent(fabric)[0] == k + 21


@pytest.mark.kernels
def test_a_flow_slowed_down_in_its_turn_lets_the_others_go() -> None:
    fabric = started_at([math.inf, math.inf])
    fabric.advance(5e-6)
    hand = Hand(fabric)
    change_rate(hand.state, 0, 1e-3 * LINE)
    before = sent(fabric)
    fabric.advance(5e-6 + 50 * PACKET / LINE)
    slow, fast = sent(fabric) - before
    assert slow <= 1
    assert abs(fast - 50) <= 2


PLANS: dict[str, FabricPlan] = {
    "one switch": star(2),
    "no propagation": star(2, delay_us=0.0),
    "two switches": line(2),
    "a slow cable between": line(2, rates_gbps=[25.0]),
    "three switches": line(3, rates_gbps=[40.0, 10.0]),
    "a slow edge": line(3, edge_gbps=10.0),
    "leaf and spine": two_tiers(2, 2, 2),
    "no overhead": star(2, wire_overhead_bytes=0, ack_wire_bytes=0),
}


def exact_s(fabric: Fabric, size: int) -> float:
    """What the only flow offered takes alone, packet by packet."""
    plan, [path] = fabric.plan, fabric._paths.values()
    hops = [(plan.ports[port].rate_bytes_per_s, plan.ports[port].delay_s) for port in path]
    count = math.ceil(size / plan.mtu_payload_bytes)
    packets = [plan.packet_wire_bytes] * (count - 1)
    packets.append(size - (count - 1) * plan.mtu_payload_bytes + plan.wire_overhead_bytes)
    return completion_s(packets, hops, plan.ack_wire_bytes, hops[::-1])


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("size", [1, 60, 1_000, 1_001, 2_000, 123_456])
def test_a_flow_alone_takes_what_its_packets_take(name: str, size: int) -> None:
    fabric = running(PLANS[name])
    fabric.offer(Traffic.independent([0], [len(fabric.hosts) - 1], [float(size)], 1e-6))
    over = fabric.advance(3e-4).completions
    taken_s = exact_s(fabric, size)
    assert over.start_s.tolist() == [1e-6]
    assert over.end_s[0] - 1e-6 == pytest.approx(taken_s, rel=1e-9)
    # The time alone takes every packet for a full one where it waits; a short last one is spared a little.
    if size <= 1_000 or size % 1_000 == 0:
        assert over.slowdown[0] == pytest.approx(1.0, rel=1e-9)
    else:
        slowest = min(port.rate_bytes_per_s for port in fabric.plan.ports)
        assert abs(taken_s - over.alone_s[0]) <= 3 * PACKET / slowest
    if "slow" not in name and name != "three switches":
        assert fabric.measured().depth_peak_bytes.max() == 0


@settings(max_examples=40)
@given(
    size=st.integers(1, 300_000),
    mtu=st.sampled_from([8, 64, 1000, 4096]),
    start_s=st.floats(0, 1e-3),
    rates=st.lists(st.sampled_from([10.0, 25.0, 100.0]), min_size=1, max_size=2),
)
def test_a_flow_alone_takes_what_its_packets_take_at_any_size(
    size: int, mtu: int, start_s: float, rates: list[float]
) -> None:
    fabric = running(replace(line(3, rates_gbps=rates), mtu_payload_bytes=mtu))
    size = min(size, 500 * mtu)
    fabric.offer(Traffic.independent([0], [5], [float(size)], start_s))
    over = fabric.advance(start_s + 3e-3).completions
    assert over.end_s[0] - start_s == pytest.approx(exact_s(fabric, size), abs=1e-12)


@pytest.mark.kernels
def test_a_flow_with_nothing_left_to_send_leaves_the_round_to_the_others() -> None:
    fabric = running(star(3, dcqcn=CHURNING))
    fabric.offer(Traffic.independent([0, 0], [1, 2], [2_000.0, 50_000.0], 0.0))
    over = fabric.advance(1e-3).completions
    assert over.flow.tolist() == [0, 1]
    assert over.end_s[1] == pytest.approx(over.alone_s[1] + 2 * PACKET / LINE, rel=1e-6)
