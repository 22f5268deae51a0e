"""The reaction point: against an oracle that steps its clocks, and by hand."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from telemetry.topology import GBPS
from tests.oracles.reaction_point import Sender, rates
from tests.unit.twin.packet.by_hand import Hand
from tests.unit.twin.packet.plans import CHURNING, running, star
from twin.packet import layout
from twin.packet._sender import cnp, count_bytes, increase_tick
from twin.traffic.base import Traffic

pytestmark = pytest.mark.kernels

STEP_S = 2.0**-20  # sums of it are exact, so that clocks meet where they should
LINE = 100 * GBPS


def sender(*, sizes: tuple[float, ...] = (math.inf,), **changed: Any) -> Hand:
    """One host's flows, begun at 0 and never served."""
    plan = star(2, dcqcn=replace(CHURNING, **changed))
    fabric = running(plan, retransmit_timeout_s=1e6)
    fabric.offer(Traffic.independent([0] * len(sizes), [1] * len(sizes), list(sizes), 0.0))
    hand = Hand(fabric)
    hand.begin()
    return hand


def stepped(hand: Hand, cnp_steps: Collection[int], n_steps: int) -> NDArray[np.float64]:
    """Rate and target at the end of each step, as the oracle gives them."""
    out = np.empty((n_steps, 2))
    for step in range(n_steps):
        if step in cnp_steps:
            # In a step CNPs come before clocks; the first sets the clocks, half a step before the end.
            early = 0.5 if hand.flow()["armed"] == 0 else 0.75
            cnp(hand.state, 0, (step - early) * STEP_S)
        end_s = (step - 0.25) * STEP_S
        while hand.next_s < end_s:
            at, kind = hand.ring()
            if hand.next_s == at and {kind, hand.next_kind} == {layout.CUT, layout.INCREASE}:
                reject()  # whichever goes first is right
        out[step] = hand.flow()["rate"], hand.flow()["target"]
    return out


@settings(max_examples=60)
@given(
    cnps=st.sets(st.integers(1, 400), max_size=40),
    clocks=st.tuples(st.integers(1, 50), st.integers(1, 50), st.integers(1, 80)),
    recovery=st.integers(1, 5),
    gain=st.sampled_from([1 / 256, 0.3]),
    least=st.sampled_from([0.0, 0.3]),
    clamp=st.booleans(),
)
def test_it_follows_the_oracle(
    cnps: set[int],
    clocks: tuple[int, int, int],
    recovery: int,
    gain: float,
    least: float,
    clamp: bool,
) -> None:
    cut, alpha, increase = clocks
    hand = sender(
        cnp_interval_s=cut * STEP_S,
        alpha_timer_s=alpha * STEP_S,
        increase_timer_s=increase * STEP_S,
        ai_rate_bytes_per_s=0.01 * LINE,
        hai_rate_bytes_per_s=0.05 * LINE,
        gain=gain,
        min_rate_bytes_per_s=least * LINE,
        fast_recovery_steps=recovery,
        clamp_target_rate=clamp,
    )
    oracle = Sender(
        line_rate=LINE,
        ai_rate=0.01 * LINE,
        hai_rate=0.05 * LINE,
        gain=gain,
        cut_clock=cut,
        alpha_clock=alpha,
        increase_clock=increase,
        fast_recovery_steps=recovery,
        min_rate=least * LINE,
        clamp_target=clamp,
    )
    np.testing.assert_allclose(stepped(hand, cnps, 450), rates(oracle, cnps, 450), rtol=1e-9)


@pytest.mark.parametrize("quiet_ticks", [0, 1, 2, 7, 1000])
def test_alpha_settled_late_is_alpha_ticked_in_time(quiet_ticks: int) -> None:
    gain, timer = 1 / 64, 8 * STEP_S
    hand = sender(gain=gain, alpha_timer_s=timer, cnp_interval_s=1e6 * STEP_S)
    cnp(hand.state, 0, 0.0)
    # Its second CNP comes after the first α tick; the third that many ticks later.
    cnp(hand.state, 0, 1.5 * timer)
    expected = 1.0 - gain  # the first tick: no CNP since the clocks were set
    assert hand.flow()["alpha"] == expected
    cnp(hand.state, 0, (1.5 + quiet_ticks) * timer)
    for tick in range(quiet_ticks):
        expected = (1.0 - gain) * expected + (gain if tick == 0 else 0.0)
    assert hand.flow()["alpha"] == pytest.approx(expected, rel=1e-11)
    assert hand.flow()["alpha_at"] == (2 + quiet_ticks) * timer


def test_the_least_rate_is_kept() -> None:
    hand = sender(min_rate_bytes_per_s=0.9 * LINE, initial_alpha=1.0, increase_timer_s=1e3)
    at = 0.0
    for _ in range(5):
        cnp(hand.state, 0, at)
        at, _ = hand.ring()
        assert hand.flow()["rate"] == 0.9 * LINE


def cut_to_half(**changed: Any) -> Hand:
    """A sender just cut from line rate to half of it, its increase clock far away."""
    hand = sender(
        cnp_interval_s=1e-6,
        initial_alpha=1.0,
        increase_timer_s=1e3,
        ai_rate_bytes_per_s=0.01 * LINE,
        hai_rate_bytes_per_s=0.05 * LINE,
        **changed,
    )
    cnp(hand.state, 0, 0.0)
    hand.ring()
    assert (hand.flow()["rate"], hand.flow()["target"]) == (0.5 * LINE, LINE)
    hand.flow()["target"] = 0.6 * LINE  # so that it does not reach the line rate
    return hand


def targets(hand: Hand) -> float:
    return round(float(hand.flow()["target"]) / LINE, 9)


def test_hyper_increase_waits_for_both_the_timer_and_the_byte_counter() -> None:
    hand = cut_to_half(byte_counter_bytes=100_000.0, fast_recovery_steps=2)
    for expected in (0.6, 0.6, 0.61, 0.62, 0.63):  # recovery twice, then additive: the timer has not moved
        count_bytes(hand.state, 0)
        assert targets(hand) == expected
    assert (hand.flow()["byte_stage"], hand.flow()["timer_stage"]) == (5, 0)
    for expected in (0.64, 0.65, 0.66, 0.71):  # the fourth finds both stages beyond 2
        hand.flow()["increase_at"] = 1.0
        increase_tick(hand.state, 0, 1.0)
        assert targets(hand) == expected
    count_bytes(hand.state, 0)
    assert targets(hand) == 0.76
    cnp(hand.state, 0, 2.0)
    hand.ring()
    assert (hand.flow()["byte_stage"], hand.flow()["timer_stage"], hand.flow()["counted"]) == (0, 0, 0)


def test_without_a_byte_counter_the_timer_alone_leads_to_hyper_increase() -> None:
    hand = cut_to_half(byte_counter_bytes=None, fast_recovery_steps=2)
    for expected in (0.6, 0.6, 0.61, 0.66, 0.71):
        hand.flow()["increase_at"] = 1.0
        increase_tick(hand.state, 0, 1.0)
        assert targets(hand) == expected


def test_the_increase_clock_stops_at_full_speed_and_starts_with_the_next_cut() -> None:
    hand = sender(initial_alpha=2**-20, increase_timer_s=1e-5, cnp_interval_s=1e-6)
    cnp(hand.state, 0, 0.0)
    hand.ring()
    rung = 0
    while hand.next_s < 1.0:
        hand.ring()
        rung += 1
    assert hand.flow()["rate"] == LINE
    assert 1 < rung < 60  # each halves the distance: a double has 53 bits
    assert hand.flow()["increase_due"] == 0
    cnp(hand.state, 0, 1.0)
    at, _ = hand.ring()
    assert hand.flow()["increase_due"] == 1
    assert hand.next_s == at + 1e-5


def test_bytes_are_counted_from_the_last_cut_once_armed() -> None:
    counter = 10_480.0
    at_once = replace(CHURNING, byte_counter_bytes=counter, increase_timer_s=1e3, cnp_interval_s=1e-9)
    fabric = running(star(2, dcqcn=at_once), retransmit_timeout_s=1e6)
    fabric.offer(Traffic.independent([0], [1], [math.inf], 0.0))
    fabric.advance(2e-5)
    flow = fabric._flows.rows[0]
    assert flow["byte_stage"] == 0
    hand = Hand(fabric)
    cnp(hand.state, 0, fabric.now_s)
    sent, began = int(flow["next_seq"]), fabric.now_s
    fabric.advance(began + 1e-5)
    assert flow["byte_stage"] == (int(flow["next_seq"]) - sent) * 1_048 // int(counter) > 1


def test_cnps_of_a_flow_that_is_over_change_nothing() -> None:
    fabric = running(star(2))
    fabric.offer(Traffic.independent([0], [1], [500.0], 0.0))
    assert len(fabric.advance(1e-4).completions) == 1
    hand = Hand(fabric)
    before = fabric._flows.rows[0].copy()
    cnp(hand.state, 0, fabric.now_s)
    assert fabric._flows.rows[0] == before
    assert fabric.measured().cnps == 1
