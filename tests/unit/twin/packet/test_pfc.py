"""The shared buffer and PFC: thresholds, headroom, pause and resume, worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from telemetry.topology import GBPS
from tests.unit.twin.packet.by_hand import Hand
from tests.unit.twin.packet.plans import (
    NEVER,
    active_flows,
    check_books,
    check_silence,
    port_between,
    running,
    star,
)
from twin.packet._switch import admit, may_resume, must_pause, release, threshold
from twin.packet.fabric import Fabric
from twin.packet.plan import HEADROOM_PACKETS
from twin.traffic.base import Traffic

pytestmark = pytest.mark.kernels

PACKET = 1_048
RESERVE, RESUME = 4_096, 3_072


class Buffer:
    """A switch's buffer, filled and emptied by hand through its first ingress."""

    def __init__(self, *, shared: float = 80_000.0, headroom: float = 3 * PACKET, **kept: Any) -> None:
        self.fabric = running(star(3, **kept), watermark=NEVER)
        self.up = port_between(self.fabric.plan, "h0", "s")
        self.hand = Hand(self.fabric)
        self.switch = self.fabric._state.switches[0]
        self.ingress = self.fabric._state.ports[self.up]
        self.switch["shared"] = shared
        self.ingress["headroom"] = headroom

    def put(self, wire: int = PACKET) -> bool:
        return bool(admit(self.hand.state, self.hand.params, self.up, 0, float(wire)))

    def take(self, wire: int = PACKET) -> None:
        release(self.hand.state, self.hand.params, self.up, 0, float(wire))

    def books(self) -> tuple[float, ...]:
        """Held, in headroom, shared in use, waiting in all."""
        ingress, switch = self.ingress, self.switch
        return (
            float(ingress["held"]),
            float(ingress["headroom_held"]),
            float(switch["used"]),
            float(switch["waiting"]),
        )


def test_the_reserve_comes_first_then_an_eighth_of_what_is_free_then_headroom() -> None:
    buffer = Buffer()
    for count in range(1, 4):
        assert buffer.put()
        assert buffer.books() == (count * PACKET, 0, 0, count * PACKET)
    # The fourth fills the reserve (4 096 bytes) and takes the rest from what is shared.
    assert buffer.put()
    assert buffer.books() == (4 * PACKET, 0, 4 * PACKET - RESERVE, 4 * PACKET)
    # held − 4 096 may grow while it is at most (80 000 − used) / 8.
    held = 4 * PACKET
    while held + PACKET - RESERVE <= (80_000 - (held - RESERVE)) / 8:
        assert not must_pause(buffer.hand.state, buffer.up, 0)
        assert buffer.put()
        held += PACKET
    assert held == 12 * PACKET
    assert buffer.books() == (held, 0, held - RESERVE, held)
    assert (
        threshold(buffer.hand.state.ports[buffer.up], buffer.hand.state.switches[0])
        == (80_000 - (held - RESERVE)) / 8
    )
    assert not must_pause(buffer.hand.state, buffer.up, 0)
    # Beyond: headroom, and the far end is told; beyond that: no room.
    for count in (1, 2, 3):
        assert buffer.put()
        assert buffer.books() == (held, count * PACKET, held - RESERVE, held + count * PACKET)
        assert must_pause(buffer.hand.state, buffer.up, 0)
    assert not buffer.put()
    assert buffer.books() == (held, 3 * PACKET, held - RESERVE, held + 3 * PACKET)


def test_headroom_empties_first_and_a_pause_ends_three_kilobytes_below_the_threshold() -> None:
    buffer = Buffer()
    while buffer.put():
        pass
    buffer.ingress["pausing"] = 1
    assert not must_pause(buffer.hand.state, buffer.up, 0)  # it has been told
    held = 12 * PACKET
    for left in (2, 1, 0):
        assert not may_resume(buffer.hand.state, buffer.up, 0)
        buffer.take()
        assert buffer.books() == (held, left * PACKET, held - RESERVE, held + left * PACKET)
    while held - RESERVE + RESUME > (80_000 - (held - RESERVE)) / 8:
        assert not may_resume(buffer.hand.state, buffer.up, 0)
        buffer.take()
        held -= PACKET
        assert buffer.books() == (held, 0, held - RESERVE, held)
    assert held == 9 * PACKET
    assert may_resume(buffer.hand.state, buffer.up, 0)
    buffer.ingress["pausing"] = 0
    assert not may_resume(buffer.hand.state, buffer.up, 0)
    while held:
        buffer.take()
        held -= PACKET
    assert buffer.books() == (0, 0, 0, 0)


def test_a_packet_may_leave_partly_from_headroom() -> None:
    buffer = Buffer(headroom=500.0)
    while buffer.put():
        pass
    assert buffer.put(300)
    buffer.take()
    held, headroom, used, waiting = buffer.books()
    assert headroom == 0
    assert held == waiting == 12 * PACKET + 300 - PACKET
    assert used == held - RESERVE


def test_a_packet_in_headroom_pauses_its_sender_while_the_reserve_is_not_full() -> None:
    buffer = Buffer(shared=6_000.0, headroom=3 * 1_948)
    assert buffer.put(1_948)
    assert buffer.put(1_948)
    assert not must_pause(buffer.hand.state, buffer.up, 0)
    assert buffer.put(1_948)  # 1 748 bytes beyond the reserve, where 750 of what is shared are its own
    assert buffer.books() == (2 * 1_948, 1_948, 0, 3 * 1_948)
    assert must_pause(buffer.hand.state, buffer.up, 0)


def test_a_pause_ends_when_the_shared_part_is_empty_however_full_the_switch() -> None:
    buffer = Buffer(shared=10_000.0)
    while buffer.put():
        pass
    buffer.ingress["pausing"] = 1
    buffer.switch["used"] += 9_000.0  # other ingresses
    while buffer.ingress["held"] > RESERVE:
        assert not may_resume(buffer.hand.state, buffer.up, 0)
        buffer.take()
    assert may_resume(buffer.hand.state, buffer.up, 0)


def test_without_pfc_the_whole_buffer_is_shared_and_nothing_pauses() -> None:
    buffer = Buffer(pfc=False, buffer_bytes=10_000.0)
    for _ in range(9):
        assert buffer.put()
    assert not buffer.put()
    assert buffer.put(10_000 - 9 * PACKET)
    assert buffer.books() == (0, 0, 0, 10_000)


@pytest.mark.parametrize("delay_us", [0.0, 1.0, 5.0])
def test_headroom_holds_what_a_cable_does(delay_us: float) -> None:
    plan = star(3, delay_us=delay_us)
    rate = 100 * GBPS
    expected = 2 * rate * delay_us * 1e-6 + HEADROOM_PACKETS * PACKET
    assert np.allclose(plan.port_table()["headroom"], expected)
    # What is left is shared: every host's ingress has its headroom and 4 096 bytes set aside.
    assert plan.switch_table()["shared"][0] == pytest.approx(32e6 - 3 * (expected + RESERVE))


def test_a_buffer_below_its_own_set_asides_still_shares_a_tenth() -> None:
    assert star(3, buffer_bytes=10_000.0).switch_table()["shared"][0] == 1_000.0


def incast(senders: int, kilobytes: int, **kept: Any) -> Fabric:
    fabric = running(star(senders + 1, **kept), watermark=NEVER, retransmit_timeout_s=3e-4)
    fabric.offer(
        Traffic.independent(range(1, senders + 1), [0] * senders, [kilobytes * 1_000.0] * senders, 0.0)
    )
    return fabric


def test_pauses_stop_the_senders_and_their_time_is_counted() -> None:
    fabric = incast(3, 150, buffer_bytes=200_000.0)
    nics = [port_between(fabric.plan, f"h{n}", "s") for n in (1, 2, 3)]
    paused_s, seen = np.zeros(len(fabric.plan.ports)), 0
    step_s, k = 2e-7, 0
    while active_flows(fabric) or k == 0:
        k += 1
        fabric.advance(k * step_s)
        state = fabric._state.ports["paused"] == 1
        paused_s += step_s * state
        if state.any():
            seen += 1
            before = fabric.measured().sent_packets[nics].copy()
            assert before.sum() == 0  # only switches count what they send
        check_books(fabric)
    measured = fabric.measured()
    assert seen > 10
    assert measured.pauses[nics].min() > 0
    assert np.abs(measured.paused_s - paused_s)[nics].max() <= step_s * (measured.pauses[nics].max() + 1)
    assert set(np.flatnonzero(measured.pauses)) <= set(nics)
    assert not measured.dropped_packets.any()
    assert measured.retransmissions == 0
    fabric.advance(1e-3)
    check_silence(fabric)


def test_a_pause_under_way_counts_up_to_now() -> None:
    fabric = incast(3, 400, buffer_bytes=200_000.0)
    nic = port_between(fabric.plan, "h1", "s")
    at = 0.0
    while fabric._state.ports["paused"][nic] == 0:
        at += 1e-7
        fabric.advance(at)
    first = fabric.measured().paused_s[nic]
    fabric.advance(at + 1e-8)
    assert fabric._state.ports["paused"][nic] == 1
    assert fabric.measured().paused_s[nic] == pytest.approx(first + 1e-8, rel=1e-6)


def test_a_paused_sender_still_acknowledges() -> None:
    # Host 1 sends into a jam and receives from host 4: its pauses must not slow what it receives.
    fabric = running(star(5, buffer_bytes=250_000.0), watermark=NEVER)
    fabric.offer(Traffic.independent([1, 2, 3, 4], [0, 0, 0, 1], [300e3, 300e3, 300e3, 100e3], 0.0))
    over = fabric.advance(1e-3).completions
    assert fabric.measured().pauses[port_between(fabric.plan, "h1", "s")] > 0
    [alone] = over.slowdown[over.flow == 3]
    assert alone < 1.1


def test_a_pause_on_a_cable_that_fails_and_returns_at_once_is_lost_with_it() -> None:
    fabric = incast(3, 150, buffer_bytes=200_000.0)
    nic = port_between(fabric.plan, "h1", "s")
    at = 0.0
    while fabric._state.ports["pausing"][nic] == 0:
        at += 2e-8
        fabric.advance(at)
    assert fabric._state.ports["paused"][nic] == 0  # the pause is on the cable
    fabric.fail_link(nic)
    fabric.restore_link(nic)
    check_books(fabric)
    over = fabric.advance(1e-3)
    assert math.isfinite(over.completions.end_s.max())
    check_silence(fabric)
