"""What is dropped is sent again: go-back-N, timeouts, cables that fail."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.twin.kernels.uncompiled import long_uncompiled
from tests.unit.twin.packet.by_hand import Hand
from tests.unit.twin.packet.plans import (
    NEVER,
    active_flows,
    check_books,
    check_silence,
    inside_bytes,
    joined,
    line,
    port_between,
    running,
    star,
    two_tiers,
)
from twin.packet._sender import go_back
from twin.packet.fabric import Fabric
from twin.packet.layout import LOSSLESS_TIMEOUT_S, LOSSY_TIMEOUT_S, PacketSettings
from twin.traffic.base import Traffic

pytestmark = pytest.mark.kernels


def overflowing(buffer_bytes: float = 20_000.0, *, timeout_s: float = 5e-5, n: int = 3) -> Fabric:
    fabric = running(
        star(n + 1, pfc=False, buffer_bytes=buffer_bytes), watermark=NEVER, retransmit_timeout_s=timeout_s
    )
    fabric.offer(Traffic.independent(range(1, n + 1), [0] * n, 60_000.0, 0.0))
    return fabric


@pytest.mark.parametrize("buffer_bytes", [1_048.0, 5_000.0, 20_000.0, 100_000.0])
def test_all_is_delivered_in_order_whatever_the_buffer(buffer_bytes: float) -> None:
    fabric = overflowing(buffer_bytes)
    completions = [fabric.advance(k * 1e-5).completions for k in range(1, 50)]
    completions.append(fabric.advance(2e-3).completions)
    over, measured = joined(completions), fabric.measured()
    assert sorted(over["flow"].tolist()) == [0, 1, 2]
    assert measured.delivered_bytes == 3 * 60_000
    assert measured.dropped_packets.sum() > 0
    assert measured.dropped_bytes == 1_000 * measured.dropped_packets.sum()
    assert measured.dropped_wire_bytes.sum() == 1_048 * measured.dropped_packets.sum()
    assert measured.retransmissions > 0
    # What was sent more than once was dropped or came out of turn.
    again = measured.injected_bytes - 3 * 60_000
    assert again == measured.dropped_bytes + measured.discarded_bytes
    assert measured.injected_packets == 180 + again / 1_000
    check_silence(fabric)


def test_a_receiver_asks_once_for_what_it_misses() -> None:
    # A switch that loses one packet of a hundred: one request, one return, no timeout.
    fabric = running(star(2, pfc=False), watermark=NEVER, retransmit_timeout_s=1.0)
    fabric.offer(Traffic.independent([0], [1], [100_000.0], 0.0))
    fabric.advance(3e-6)
    nic = port_between(fabric.plan, "h0", "s")
    before = fabric.measured()
    assert before.dropped_bytes == 0
    fabric.fail_link(nic)
    fabric.restore_link(nic)
    lost = fabric.measured().dropped_packets[nic]
    assert 1 <= lost <= 14  # a microsecond of cable
    [end_s] = fabric.advance(1e-3).completions.end_s
    measured = fabric.measured()
    assert measured.retransmissions == 1
    assert measured.discarded_bytes > 0
    assert measured.injected_bytes == 100_000 + 1_000 * lost + measured.discarded_bytes
    assert end_s < 3e-5  # far sooner than a timeout


def test_a_lost_tail_comes_again_after_the_timeout() -> None:
    timeout_s = 1e-4
    fabric = running(star(2), retransmit_timeout_s=timeout_s)
    fabric.offer(Traffic.independent([0], [1], [1_000.0], 0.0))
    fabric.advance(5e-7)
    nic = port_between(fabric.plan, "h0", "s")
    fabric.fail_link(nic)
    fabric.restore_link(nic)
    assert fabric.measured().dropped_packets[nic] == 1
    [over] = [fabric.advance(1e-3).completions]
    assert over.end_s[0] == pytest.approx(timeout_s + over.alone_s[0], rel=1e-6)
    assert fabric.measured().retransmissions == 1
    check_silence(fabric)


def test_a_lost_last_acknowledgement_costs_a_timeout_but_no_second_delivery() -> None:
    timeout_s = 1e-4
    fabric = running(star(2), retransmit_timeout_s=timeout_s)
    fabric.offer(Traffic.independent([0], [1], [1_000.0], 0.0))
    fabric.advance(2.5e-6)
    assert fabric.measured().delivered_bytes == 1_000
    back = port_between(fabric.plan, "h1", "s")
    fabric.fail_link(back)
    fabric.restore_link(back)
    [over] = [fabric.advance(1e-3).completions]
    assert over.end_s[0] > timeout_s
    measured = fabric.measured()
    assert (measured.delivered_bytes, measured.discarded_bytes) == (1_000, 1_000)
    check_silence(fabric)


def test_timeouts_go_on_while_a_host_is_cut_off_and_all_ends_once_it_is_back() -> None:
    fabric = running(star(3), retransmit_timeout_s=2e-5)
    fabric.offer(Traffic.independent([0, 2], [1, 1], [30_000.0, 30_000.0], 0.0))
    fabric.advance(2e-6)
    to_h1 = port_between(fabric.plan, "s", "h1")
    fabric.fail_link(to_h1)
    check_books(fabric)
    assert len(fabric.advance(1e-3).completions) == 0
    check_books(fabric)
    measured = fabric.measured()
    assert measured.retransmissions > 20
    assert measured.dropped_packets[to_h1] > 0
    assert inside_bytes(fabric) == 0 or active_flows(fabric) == 2
    fabric.restore_link(to_h1)
    over = fabric.advance(3e-3).completions
    assert sorted(over.flow.tolist()) == [0, 1]
    check_silence(fabric)


@long_uncompiled
def test_a_nic_that_is_cut_off_keeps_its_flows() -> None:
    fabric = running(star(2), retransmit_timeout_s=1e-3)
    nic = port_between(fabric.plan, "h0", "s")
    fabric.offer(Traffic.independent([0, 0], [1, 1], [30_000.0, 500.0], 0.0))
    fabric.advance(1e-6)
    fabric.fail_link(nic)
    fabric.advance(1e-4)
    sent = fabric.measured().injected_packets
    fabric.advance(2e-4)
    assert fabric.measured().injected_packets == sent
    fabric.restore_link(nic)
    assert len(fabric.advance(5e-3).completions) == 2
    check_silence(fabric)


def test_a_switch_drops_what_has_no_way_on() -> None:
    fabric = running(line(2), retransmit_timeout_s=1e-4)
    right = port_between(fabric.plan, "s0", "s1")
    fabric.offer(Traffic.independent([0], [2], [200_000.0], 0.0))
    fabric.advance(5e-6)
    fabric.fail_link(right)
    fabric.advance(1e-5)
    check_books(fabric)
    assert fabric.measured().dropped_packets[right] > 10
    assert fabric.depths_bytes([right])[0] == 0
    fabric.restore_link(right)
    assert len(fabric.advance(2e-3).completions) == 1
    check_silence(fabric)


def test_with_a_second_path_a_cable_costs_little() -> None:
    fabric = running(two_tiers(2, 2, 2), retransmit_timeout_s=5e-4)
    fabric.offer(Traffic.independent([0], [2], [100_000.0], 0.0))
    fabric.advance(5e-6)
    [path] = fabric._paths.values()
    fabric.fail_link(path[1])
    [over] = [fabric.advance(2e-3).completions]
    assert over.slowdown[0] < 4
    assert fabric.measured().retransmissions == 1
    check_silence(fabric)


def test_the_timeout_suits_the_fabric() -> None:
    assert PacketSettings().retransmit_s(pfc=True) == LOSSLESS_TIMEOUT_S
    assert PacketSettings().retransmit_s(pfc=False) == LOSSY_TIMEOUT_S
    assert PacketSettings(retransmit_timeout_s=1e-3).retransmit_s(pfc=True) == 1e-3


@long_uncompiled
def test_a_pause_longer_than_the_timeout_only_repeats_what_arrives_anyway() -> None:
    fabric = running(star(4, buffer_bytes=200_000.0), watermark=NEVER, retransmit_timeout_s=4e-6)
    fabric.offer(Traffic.independent([1, 2, 3], [0] * 3, 150_000.0, 0.0))
    over = fabric.advance(5e-3).completions
    measured = fabric.measured()
    assert len(over) == 3
    assert np.all(measured.dropped_packets == 0)
    assert measured.injected_bytes == 450_000 + measured.discarded_bytes
    check_silence(fabric)


@pytest.mark.parametrize("packets", [3, 60, 300])
def test_acknowledgements_that_come_while_all_is_sent_again_end_the_flow(packets: int) -> None:
    # The way there and back is longer than the timeout: nothing is lost, everything is repeated.
    fabric = running(star(3, delay_us=10.0), retransmit_timeout_s=1.1e-5)
    fabric.offer(Traffic.independent([0, 0, 2], [1, 1, 1], packets * 1_000.0, 0.0))
    over = fabric.advance(1e-3).completions
    measured = fabric.measured()
    assert sorted(over.flow.tolist()) == [0, 1, 2]
    assert measured.retransmissions > 2
    assert measured.dropped_bytes == 0
    assert measured.delivered_bytes == 3_000 * packets
    assert measured.injected_bytes == measured.delivered_bytes + measured.discarded_bytes
    check_silence(fabric)


def test_a_switch_port_cut_off_lets_go_of_those_it_had_paused() -> None:
    fabric = running(
        line(2, rates_gbps=[25.0], buffer_bytes=250_000.0), watermark=NEVER, retransmit_timeout_s=2e-4
    )
    fabric.offer(Traffic.independent([0, 1], [2, 3], 200e3, 0.0))
    nics = [port_between(fabric.plan, f"h{n}", "s0") for n in (0, 1)]
    at = 0.0
    while not fabric._state.ports["paused"][nics].any():
        at += 5e-7
        fabric.advance(at)
    fabric.fail_link(port_between(fabric.plan, "s0", "s1"))
    check_books(fabric)
    fabric.advance(at + 3e-6)
    assert not fabric._state.ports["paused"][nics].any()
    fabric.restore_link(port_between(fabric.plan, "s0", "s1"))
    assert len(fabric.advance(5e-3).completions) == 2
    check_silence(fabric)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_flows_acknowledged_in_their_nic_s_round_leave_it(order: tuple[int, ...]) -> None:
    fabric = running(star(4), retransmit_timeout_s=1e-4)
    fabric.offer(Traffic.independent([0, 0, 0], [1, 2, 3], 1_000.0, 0.0))
    fabric.advance(1e-6)
    hand, nic = Hand(fabric), port_between(fabric.plan, "h0", "s")
    fabric._state.ports["paused"][nic] = 1  # all is sent; a pause holds what is to be sent again
    for row in order:
        go_back(hand.state, hand.params, row, 0, fabric.now_s)
    over = fabric.advance(2e-5).completions
    assert over.flow.tolist() == [0, 1, 2]
    assert fabric._state.ports["head"][nic] == -1
    fabric._state.ports["paused"][nic] = 0
    fabric.offer(Traffic.independent([0, 0], [1, 2], 5_000.0, 0.0))
    assert len(fabric.advance(1e-3).completions) == 2
    assert fabric.measured().discarded_bytes == 0
    check_silence(fabric)


def test_a_flow_held_by_its_rate_ends_when_all_is_acknowledged() -> None:
    fabric = running(star(2), retransmit_timeout_s=1e-4)
    fabric.offer(Traffic.independent([0], [1], 2_000.0, 0.0))
    fabric.advance(1e-6)
    hand = Hand(fabric)
    fabric._state.flows["next_avail"][0] = 5e-5  # held back by its rate
    go_back(hand.state, hand.params, 0, 0, fabric.now_s)
    [over] = [fabric.advance(1e-3).completions]
    assert over.slowdown[0] == pytest.approx(1.0)
    assert fabric.measured().injected_packets == 2
    check_silence(fabric)
