"""ECN marking: who is marked at which depth, when the depth is read, and how even the draws are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.oracles.marking import marking_probability
from tests.unit.twin.packet.by_hand import Hand
from tests.unit.twin.packet.plans import port_between, running, star
from twin.packet._switch import draw, is_marked
from twin.packet.fabric import Fabric
from twin.traffic.base import Traffic
from twin.watermark import Watermark

PACKET = 1_048


def incast(packets: int = 30, *, hosts: int = 3, **settings: Any) -> Fabric:
    """Every host but the first sends the first one so many packets at once."""
    fabric = running(star(hosts), sampling_rate=1.0, **settings)
    # Each a little later than the one before: no two packets meet the switch in one instant.
    starts = np.arange(hosts - 1) * 1.3e-8
    fabric.offer(Traffic.independent(range(1, hosts), [0] * (hosts - 1), packets * 1_000.0, starts))
    return fabric


@pytest.mark.kernels
def test_draws_are_even_and_independent() -> None:
    with np.errstate(over="ignore"):
        drawn = np.array([draw(1, flow, seq, 3) for flow in range(20) for seq in range(200)])
        again = np.array([draw(1, flow, seq, 3) for flow in range(20) for seq in range(200)])
        others = [
            np.array([draw(seed, flow, seq, place) for flow in range(20) for seq in range(200)])
            for seed, place in ((2, 3), (1, 4))
        ]
    assert np.array_equal(drawn, again)
    assert drawn.min() >= 0.0
    assert drawn.max() < 1.0
    # Kolmogorov-Smirnov: beyond 1.63/√n once in a hundred.
    ordered = np.sort(drawn)
    ideal = np.arange(ordered.size) / ordered.size
    assert np.abs(ordered - ideal).max() < 1.63 / math.sqrt(ordered.size)
    for other in (*others, np.roll(drawn, 1), np.roll(drawn, 200)):
        assert abs(np.corrcoef(drawn, other)[0, 1]) < 4 / math.sqrt(drawn.size)


@pytest.mark.kernels
@pytest.mark.parametrize("depth", [0, 10_000, 10_001, 30_000, 49_000, 50_000, 50_001, 90_000])
def test_the_share_marked_is_the_curve(depth: int) -> None:
    watermark = Watermark(10_000, 50_000, 0.3)
    fabric = running(star(2), watermark=watermark)
    hand = Hand(fabric)
    port = hand.state.ports[fabric.plan.switch_ports[0]]
    n = 2_000
    with np.errstate(over="ignore"):
        marked = sum(is_marked(port, float(depth), 7, 0, seq, 1) for seq in range(n))
    expected = float(marking_probability(depth, watermark))
    assert abs(marked / n - expected) <= 4 * math.sqrt(expected * (1 - expected) / n)


@pytest.mark.kernels
def test_marks_follow_the_depth_left_behind() -> None:
    # Beyond Kmax every packet is marked, up to Kmin none: with Kmax = Kmin + 1 depths decide alone.
    fabric = incast(watermark=Watermark(10 * PACKET, 10 * PACKET + 1, 1.0))
    samples = fabric.advance(1e-3).samples
    assert len(samples) == 60
    marked = samples.marked
    assert np.array_equal(marked, samples.queue_bytes > 10 * PACKET)
    measured = fabric.measured()
    assert 0 < marked.sum() < 60
    assert measured.marked_packets.sum() == marked.sum()
    assert measured.sent_packets.sum() == 60


@pytest.mark.kernels
def test_a_deeper_watermark_marks_some_of_the_same_packets() -> None:
    # The same luck under every watermark: what a lower probability marks, a higher one marks too.
    few, many = (incast(watermark=Watermark(0, 80_000, pmax)).advance(2e-5).samples for pmax in (0.2, 0.6))
    n = min(len(few), len(many))
    assert np.array_equal(few.queue_bytes[:n], many.queue_bytes[:n])  # too early for a cut to matter
    assert few.marked[:n].sum() < many.marked[:n].sum()
    assert not np.any(few.marked[:n] & ~many.marked[:n])


@pytest.mark.kernels
def test_a_watermark_holds_for_its_ports_from_now_on() -> None:
    fabric = incast(40, hosts=4, watermark=Watermark(1_000_000, 2_000_000, 1.0))
    port = port_between(fabric.plan, "s", "h0")
    fabric.advance(3e-6)
    assert fabric.measured().marked_packets.sum() == 0
    fabric.set_watermark([port], Watermark(0, 1, 1.0))
    assert fabric.watermark(port) == Watermark(0, 1, 1.0)
    others = set(fabric.plan.switch_ports) - {port}
    assert {fabric.watermark(other) for other in others} == {Watermark(1_000_000, 2_000_000, 1.0)}
    before = fabric.measured()
    fabric.advance(6e-6)
    window = fabric.measured().since(before)
    assert window.marked_packets[port] == window.sent_packets[port] > 0


@pytest.mark.kernels
def test_every_marked_packet_brings_one_cnp_when_the_sender_paces() -> None:
    fabric = incast(watermark=Watermark(5_000, 40_000, 0.5))
    fabric.advance(1e-3)
    measured = fabric.measured()
    assert 0 < measured.cnps == measured.marked_packets.sum()
