"""What a port shows between two readings: bytes sent and marked, pauses, the depth by integral and peak."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.unit.twin.packet.plans import NEVER, port_between, running, star, two_tiers
from twin.errors import ScenarioError
from twin.packet.fabric import Fabric
from twin.packet.results import PortReadings
from twin.traffic.base import Traffic
from twin.watermark import Watermark

PACKET = 1_048
EVERY = Watermark(0, 1, 1.0)  # marks whatever leaves a packet behind


def incast(watermark: Watermark = EVERY, **settings: object) -> tuple[Fabric, int]:
    """Two hosts send 100 packets each to the first of three; the fabric, and the port they share."""
    fabric = running(star(3), watermark=watermark, **settings)
    fabric.offer(Traffic.independent([1, 2], [0, 0], 100e3, [0.0, 1.3e-8]))
    return fabric, port_between(fabric.plan, "s", "h0")


@pytest.mark.kernels
def test_a_queue_s_integral_peak_and_marks_are_those_counted_by_hand() -> None:
    fabric, port = incast(queue_sample_s=1.0)  # no sample helps
    packet_s = PACKET / 12.5e9
    fabric.advance(1e-6 + 20.5 * packet_s)
    begun = fabric.read_ports([port])
    mean, deepest = 0.0, 0.0
    # Two packets come and one leaves in each packet's time, all at moments inside it that stay the same.
    for k in range(1_000):
        fabric.advance(begun.now_s + (k + 0.5) * 1e-9)
        depth = float(fabric.depths_bytes([port])[0])
        mean, deepest = mean + depth / 1_000, max(deepest, depth)
    fabric.advance(begun.now_s + 1e-6)
    ended = fabric.read_ports([port])
    stood = (ended.depth_byte_s - begun.depth_byte_s) / (ended.now_s - begun.now_s)
    assert stood[0] == pytest.approx(mean, rel=2e-3)
    assert ended.peak_bytes[0] == deepest > begun.peak_bytes[0]
    assert ended.depth_bytes[0] == fabric.depths_bytes([port])[0] > 0
    sent, marked = ended.sent_bytes - begun.sent_bytes, ended.marked_bytes - begun.marked_bytes
    assert marked[0] == sent[0] == pytest.approx(1e-6 * 12.5e9, abs=PACKET)


@pytest.mark.kernels
def test_packets_that_never_wait_are_no_queue() -> None:
    fabric = running(star(2))
    fabric.offer(Traffic.independent([0], [1], 50e3, 0.0))
    fabric.advance(1e-4)
    read = fabric.read_ports(fabric.plan.switch_ports)
    assert read.sent_bytes.max() == 50 * PACKET
    assert read.depth_byte_s.max() < 1e-3 * 1e-4  # bytes: arrivals and departures differ by rounding errors
    assert read.peak_bytes.max() <= 2 * PACKET
    assert not read.depth_bytes.any()
    assert not read.marked_bytes.any()


def test_the_peak_is_that_since_the_last_reading_of_its_port() -> None:
    fabric, port = incast(NEVER)
    fabric.advance(1e-5)
    first, again = fabric.read_ports([port]), fabric.read_ports([port])
    assert first.peak_bytes[0] > again.peak_bytes[0] == again.depth_bytes[0] == first.depth_bytes[0]
    fabric.advance(1e-3)
    drained = fabric.read_ports([port])
    assert (drained.peak_bytes[0], drained.depth_bytes[0]) == (first.depth_bytes[0], 0.0)
    assert fabric.read_ports([port]).peak_bytes[0] == 0.0
    assert fabric.measured().depth_peak_bytes[port] > 0  # samples have a peak of their own


def test_readings_come_in_the_order_asked_for_and_agree_with_the_totals() -> None:
    fabric = running(two_tiers(2, 2, 3), watermark=Watermark(2_000, 40_000, 0.3), queue_sample_s=1e-6)
    fabric.offer(Traffic.independent([0, 1, 2, 4, 5], [3, 3, 3, 3, 0], 400e3, 0.0))
    fabric.advance(1e-4)
    measured = fabric.measured()
    ports = list(reversed(fabric.plan.switch_ports))
    read = fabric.read_ports(ports)
    assert read.now_s == measured.now_s
    assert np.array_equal(read.sent_bytes, measured.sent_bytes[ports])
    assert np.array_equal(read.marked_bytes, measured.marked_bytes[ports])
    assert np.array_equal(read.marked_bytes, PACKET * measured.marked_packets[ports])
    assert np.array_equal(read.dropped_bytes, measured.dropped_wire_bytes[ports])
    assert np.array_equal(read.paused_s, measured.paused_s[ports])
    assert measured.marked_bytes.any()
    sampled = measured.depth_sum_bytes[ports] * 1e-6
    assert read.depth_byte_s.sum() == pytest.approx(sampled.sum(), rel=0.02)
    assert np.all(read.peak_bytes >= measured.depth_peak_bytes[ports])


def test_pauses_and_drops_show_while_they_last() -> None:
    fabric = running(star(5, buffer_bytes=300_000.0))
    fabric.offer(Traffic.independent([1, 2, 3, 4], [0] * 4, math.inf, 0.0))
    seen: list[PortReadings] = []
    nics = [port_between(fabric.plan, f"h{k}", "s") for k in range(1, 5)]
    for k in range(1, 21):
        fabric.advance(k * 1e-5)
        seen.append(fabric.read_ports(nics))
    paused = np.array([one.paused_s for one in seen])
    assert np.all(np.diff(paused, axis=0) <= 1e-5 + 1e-12)
    assert paused[-1].min() > 0

    lossy = running(star(5, buffer_bytes=30_000.0, pfc=False), watermark=EVERY)
    lossy.offer(Traffic.independent([1, 2, 3, 4], [0] * 4, math.inf, 0.0))
    lossy.advance(1e-4)
    [port] = [port_between(lossy.plan, "s", "h0")]
    read = lossy.read_ports([port])
    assert 0 < read.dropped_bytes[0] == lossy.measured().dropped_wire_bytes[port]
    assert read.peak_bytes[0] <= 30_000


@pytest.mark.kernels
def test_a_cable_that_fails_empties_its_queue_in_the_readings_too() -> None:
    fabric, port = incast(NEVER)
    fabric.advance(1e-5)
    before = fabric.read_ports([port])
    fabric.fail_link(port)
    fabric.advance(2e-5)
    after = fabric.read_ports([port])
    assert before.depth_bytes[0] > after.depth_bytes[0] == 0.0
    assert np.array_equal(before.depth_byte_s, after.depth_byte_s)
    assert after.peak_bytes[0] == before.depth_bytes[0]
    assert after.dropped_bytes[0] > before.depth_bytes[0]


def test_how_often_ports_are_read_changes_no_total() -> None:
    (often, port), (once, _) = incast(), incast()
    for k in range(1, 200):
        often.advance(k * 1e-7)
        often.read_ports([port])
    often.advance(1e-4)
    once.advance(1e-4)
    mine, theirs = often.read_ports([port]), once.read_ports([port])
    for name in ("sent_bytes", "marked_bytes", "dropped_bytes", "paused_s", "depth_byte_s", "depth_bytes"):
        assert getattr(mine, name).tobytes() == getattr(theirs, name).tobytes(), name


@pytest.mark.parametrize("port", [-1, 6])
def test_a_port_that_is_not_there_is_not_read_and_no_peak_begins_anew(port: int) -> None:
    fabric, shared = incast()
    fabric.advance(1e-3)
    with pytest.raises(ScenarioError, match="the fabric has 6 ports, numbered from 0"):
        fabric.read_ports([shared, port])
    assert fabric.depths_bytes([shared])[0] == 0
    assert fabric.read_ports([shared]).peak_bytes[0] > 0
