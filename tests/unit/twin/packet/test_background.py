"""Ports shared with flows outside a slice: who leaves when, what is marked, what each gets of a NIC."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import typeof
from numpy.typing import NDArray

from telemetry.topology import GBPS
from tests.unit.twin import fabrics
from tests.unit.twin.packet.by_hand import Hand
from tests.unit.twin.packet.plans import NEVER, check_books, port_between, running, star
from twin.errors import ScenarioError
from twin.packet._background import brought, settle
from twin.packet._kernels import stop_or_go
from twin.packet.fabric import Fabric
from twin.packet.layout import PAUSE, RESUME
from twin.packet.model import PacketEngine
from twin.probe._draws import PROBES, slowdown_bin
from twin.scenario import Background
from twin.traffic.base import Traffic
from twin.watermark import Watermark

PACKET, LINE = 1_048, 100 * GBPS
BIN_S = 1e-6


def others(port: int, shares: Sequence[float], n: int = 1) -> Background:
    """At one port, in each microsecond this share of the line, from ``n`` flows."""
    wire = np.array([shares], dtype=np.float32) * np.float32(LINE * BIN_S)
    return Background(
        ports=np.array([port], dtype=np.int32),
        bin_s=BIN_S,
        wire_bytes=wire,
        n_flows=np.full(wire.shape, n, dtype=np.float32),
    )


def others_sent(fabric: Fabric, port: int) -> float:
    """What the others have sent by now."""
    hand = Hand(fabric)
    settle(hand.state, hand.params, hand.state.ports[port], fabric.now_s)
    return float(fabric._state.ports["others_sent"][port])


def check_never_more_than_brought(fabric: Fabric, port: int) -> None:
    hand = Hand(fabric)
    # A NIC's turn is given ahead, up to where it begins.
    at = max(fabric.now_s, float(fabric._state.ports["free_at"][port]))
    assert 0 <= others_sent(fabric, port) <= brought(hand.state, hand.params, 0, at) * (1 + 1e-12)


def fluid_s(background: Background, arrived_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """When each packet begins to leave: Lindley's recursion over the work of packets and fluid together."""
    edges = np.arange(background.wire_bytes.shape[1] + 1) * background.bin_s
    rates = [*(background.wire_bytes[0].astype(float) / background.bin_s), 0.0]
    work, at, begins = 0.0, 0.0, []
    for arrival in arrived_s:
        for until in (*edges[(edges > at) & (edges < arrival)], arrival):
            rate = rates[min(int((0.5 * (at + until)) / background.bin_s), len(rates) - 1)]
            work = max(0.0, work + (rate - LINE) * (until - at))
            at = until
        begins.append(arrival + work / LINE)
        work += PACKET
    return np.array(begins)


def bytes_by(background: Background, at_s: NDArray[np.float64]) -> NDArray[np.float64]:
    edges = np.arange(background.wire_bytes.shape[1] + 1) * background.bin_s
    return np.interp(at_s, edges, np.cumsum([0.0, *background.wire_bytes[0].astype(float)]))


STEPS = [0.0, 0.3, 2.0, 0.0, 0.9, 0.1, 0.0, 0.0, 0.2, 3.0, 0.0]


@pytest.mark.kernels
@given(
    shares=st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0, 1.7, 4.0]), min_size=1, max_size=12),
    starts=st.lists(st.integers(0, 1_400), min_size=3, max_size=3),
    packets=st.integers(1, 25),
)
@settings(max_examples=40, deadline=None)
def test_packets_leave_and_are_marked_first_come_first_served(
    shares: list[float], starts: list[int], packets: int
) -> None:
    check_first_come_first_served(shares, starts, packets)


@pytest.mark.kernels
def test_packets_wait_for_what_came_before_them_in_steps() -> None:
    marked = check_first_come_first_served(STEPS, [10, 304, 1_130], 30)
    assert 0 < marked < 90


def check_first_come_first_served(shares: Sequence[float], starts: Sequence[int], packets: int) -> int:
    """Three hosts send one so many packets each, from ``starts`` in 10 ns; returns how many are marked."""
    kmin = 20_000
    # Packets of 83.84 ns never come in one instant.
    starts_s = np.array(starts) * 1e-8 + np.arange(3) * 1.3e-9
    port = port_between(star(4), "s", "h3")
    background = others(port, shares)
    fabric = running(
        star(4),
        watermark=Watermark(kmin, kmin + 1, 1.0),
        background=background,
        sampling_rate=1.0,
    )
    fabric.offer(Traffic.independent([0, 1, 2], [3] * 3, packets * 1_000.0, starts_s))
    parts = []
    for until_s in np.linspace(0.0, 4e-5, 9):
        parts.append(fabric.advance(until_s).samples)
        check_never_more_than_brought(fabric, port)
        check_books(fabric)
    arrived = np.concatenate([one.ingress_s for one in parts])
    left = np.concatenate([one.egress_s for one in parts])
    depth = np.concatenate([one.queue_bytes for one in parts])
    marked = np.concatenate([one.marked for one in parts])
    assert len(arrived) == 3 * packets
    begins = fluid_s(background, arrived)
    assert left == pytest.approx(begins, abs=1e-13)
    number = np.arange(len(arrived))
    # What leaves as another comes may leave before or behind it.
    apart = np.abs(arrived[:, None] - begins) > 1e-12
    apart |= np.eye(len(arrived), dtype=np.bool_)
    # First come first served: a packet leaves behind what came after it.
    came = np.searchsorted(arrived, begins, side="right") - number - 1
    behind = PACKET * came + bytes_by(background, begins) - bytes_by(background, arrived)
    alone = apart.all(axis=0)
    assert depth[alone] == pytest.approx(behind[alone], abs=0.01)
    clear = alone & (np.abs(behind - kmin) > 2.0)
    assert np.array_equal(marked[clear], behind[clear] > kmin)
    return int(marked.sum())


@pytest.mark.kernels
def test_a_flow_shares_a_switch_port_by_what_each_brings() -> None:
    port = port_between(star(2), "s", "h1")
    # Ours brings the whole line and the others half of it: of three bytes that leave two are ours.
    fabric = running(star(2), background=others(port, [0.5] * 100), retransmit_timeout_s=1.0)
    fabric.offer(Traffic.independent([0], [1], math.inf, 0.0))
    fabric.advance(2e-5)
    before, theirs = fabric.measured(), others_sent(fabric, port)
    fabric.advance(8e-5)
    ours = fabric.measured().since(before).sent_bytes[port]
    assert ours / (6e-5 * LINE) == pytest.approx(2 / 3, abs=2 * PACKET / (6e-5 * LINE))
    assert others_sent(fabric, port) - theirs + ours == pytest.approx(6e-5 * LINE, abs=PACKET)


@pytest.mark.kernels
@pytest.mark.parametrize(("ours", "n"), [(1, 1), (1, 3), (2, 1), (3, 2)])
def test_every_flow_has_its_turn_at_a_nic_that_all_want(ours: int, n: int) -> None:
    fabric = running(star(ours + 1), background=others(0, [1.0] * 60, n), retransmit_timeout_s=1.0)
    fabric.offer(Traffic.independent([0] * ours, range(1, ours + 1), math.inf, np.zeros(ours)))
    # All that comes waits: the others have always a packet ready after the first rounds.
    fabric.advance(1e-5)
    before = fabric.measured().sent_packets, fabric.measured().sent_bytes[0]
    fabric.advance(5e-5)
    share = (fabric.measured().sent_bytes[0] - before[1]) / (4e-5 * LINE)
    assert share == pytest.approx(ours / (ours + n), abs=(ours + n) * PACKET / (4e-5 * LINE))
    check_never_more_than_brought(fabric, 0)


@pytest.mark.kernels
@pytest.mark.parametrize("light", [0.05, 0.3, 0.49])
def test_a_light_background_leaves_a_nic_the_rest(light: float) -> None:
    fabric = running(star(2), background=others(0, [light] * 60), retransmit_timeout_s=1.0)
    fabric.offer(Traffic.independent([0], [1], math.inf, 0.0))
    fabric.advance(5e-5)
    packet = PACKET / (5e-5 * LINE)
    assert fabric.measured().sent_bytes[0] / (5e-5 * LINE) == pytest.approx(1 - light, abs=2 * packet)
    assert others_sent(fabric, 0) / (5e-5 * LINE) == pytest.approx(light, abs=2 * packet)


@pytest.mark.kernels
def test_acknowledgements_of_ours_take_their_part_of_the_line() -> None:
    port = port_between(star(2), "h1", "s")
    fabric = running(star(2), background=others(port, [1.5] * 60))
    fabric.offer(Traffic.independent([0], [1], 200_000.0, 0.0))
    fabric.advance(3e-5)
    acknowledged = fabric.measured().sent_bytes[port]
    assert acknowledged == 200 * 60
    assert others_sent(fabric, port) == pytest.approx(3e-5 * LINE - acknowledged, abs=1)


@pytest.mark.kernels
@pytest.mark.parametrize("node", ["h0", "s"])
def test_a_paused_port_sends_nothing_of_the_others(node: str) -> None:
    port = port_between(star(2), node, "s" if node == "h0" else "h1")
    fabric = running(star(2), background=others(port, [1.5] * 4))
    hand = Hand(fabric)
    for kind, at_s, sent_s in (
        (PAUSE, 1e-6, 1e-6),
        (PAUSE, 1.5e-6, 1e-6),
        (RESUME, 3e-6, 1e-6),
        (RESUME, 4e-6, 2e-6),
        (RESUME, 9e-6, 6e-6),  # all that came in 4 µs
    ):
        stop_or_go(hand.state, hand.params, port, kind, at_s)
        assert fabric._state.ports["others_sent"][port] == pytest.approx(sent_s * LINE)


@pytest.mark.kernels
def test_probes_wait_for_the_others_and_samples_of_depth_do_not() -> None:
    plan = star(2)
    port = port_between(plan, "s", "h1")
    fabric = running(plan, background=others(port, [2.0] * 40), queue_sample_s=1e-6)
    fabric.offer(Traffic.independent([0], [1], 1_000.0, 1.0))
    fabric.advance(3.05e-5)
    alone_s = 2 * PACKET / LINE + 2 * 60 / LINE + 4e-6
    # A microsecond brings as many bytes again as it takes away.
    expected = np.zeros(fabric.measured().probe_counts.shape[1], dtype=np.int64)
    for tick in range(31):
        expected[slowdown_bin(1.0 + (tick + 1e-9) * 1e-6 / alone_s)] += PROBES
    assert np.array_equal(fabric.measured().probe_counts[0], expected)
    assert fabric.measured().depth_sum_bytes[port] == 0


def test_a_background_of_nothing_changes_nothing_and_compiles_nothing() -> None:
    scenario = fabrics.star(
        [(1, 0), (2, 0), (3, 0), (0, 3)], n_hosts=4, payload_bytes=[2e6, 90e3, 4e6, 20e3], duration_s=5e-4
    )
    nothing = Background(
        ports=np.arange(len(scenario.ports), dtype=np.int32),
        bin_s=3e-6,
        wire_bytes=np.zeros((len(scenario.ports), 100), dtype=np.float32),
        n_flows=np.zeros((len(scenario.ports), 100), dtype=np.float32),
    )
    watermarks = [Watermark(2_000, 20_000, 0.5), NEVER]
    shared = replace(scenario, background=nothing)
    engine = PacketEngine()
    assert engine.predict(shared, watermarks, seed=1) == engine.predict(scenario, watermarks, seed=1)
    with_it, without = (engine._fabric(one, NEVER, 1) for one in (shared, scenario))
    assert typeof(with_it._state) == typeof(without._state)
    assert typeof(with_it._params) == typeof(without._params)


def test_a_scenario_cut_short_keeps_its_background() -> None:
    scenario = fabrics.star([(1, 0)], n_hosts=2, payload_bytes=1e5, duration_s=1e-3)
    shared = replace(scenario, background=others(2, [0.5] * 1000))
    [alone], [slower] = (
        PacketEngine().predict(one.until(1e-4), [NEVER], seed=1) for one in (scenario, shared)
    )
    assert slower.slowdown["all"].mean > 1.3 * alone.slowdown["all"].mean


def test_a_background_names_ports_of_its_fabric() -> None:
    with pytest.raises(ScenarioError, match="fabric port"):
        running(star(2), background=others(4, [0.5]))
