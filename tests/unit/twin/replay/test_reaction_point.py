"""The reaction point: line by line as the reference problems' senders are described, and an oracle."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.oracles.reaction_point import Sender, rates
from tests.unit.twin.kernels.uncompiled import long_uncompiled
from tests.unit.twin.replay.records import PACKET, fresh_slots, one_queue, parameters
from twin.replay._flows import (
    KEEPS_PACE,
    SENDS_PACKETS,
    arm,
    cnp_drawn,
    increase,
    look_for_mark,
    pace,
    tick,
    unmarked_hazard,
)
from twin.replay._nics import leave
from twin.replay.layout import Record

pytestmark = pytest.mark.kernels

LINE = 1_000.0
WAY_BACK = 1.0  # steps


class Run:
    """One flow whose CNPs come when the test says: all of a thousand packets a step marked, or none.

    A CNP "of step c" is known to whoever asks at c or later: the marks of the step that ended at
    c − ``WAY_BACK``. The first one comes at c sharp; the clocks run from there.
    """

    def __init__(self, params: Record, cnp_steps: Iterable[int], n_steps: int, rate: float = LINE) -> None:
        self.params = params
        self.n_steps = n_steps
        self.cnp_steps = sorted(cnp_steps)
        self.bench = one_queue(n_steps=n_steps)
        # Packets so small that none waits, by a NIC that is paused: only the clocks matter.
        self.bench.tables = self.bench.tables._replace(packet_bytes=1e-9 * PACKET)
        self.slot = self.bench.begin(1_000 * PACKET, WAY_BACK)
        self.slot["sending"] = 0.0
        self.slot["rate"] = self.slot["target"] = rate
        self.slot["alpha"] = 0.0
        self.alpha = np.full(n_steps, math.nan)
        self.ahead = np.zeros(n_steps)

    def go(self) -> NDArray[np.float64]:
        """Rate and target after each step."""
        slot, tables, work = self.slot, self.bench.tables, self.bench.work
        first, later = self.cnp_steps[:1], set(self.cnp_steps[1:])
        out = np.empty((self.n_steps, 2))
        for step in range(self.n_steps):
            self.bench.pass_marked(step, 1.0 if step + 1 + WAY_BACK in later else 0.0)
            if slot["armed"]:
                self.ahead[step] = tick(tables, work, 0, step, self.params, LINE, 7)
            elif step in first:
                unmarked_hazard(tables, work, 0, step - WAY_BACK)
                arm(slot, float(step), self.params)
            out[step] = slot["rate"], slot["target"]
            self.alpha[step] = slot["alpha"]
        return out


def test_the_first_cnp_cuts_nothing_and_arms_the_clocks() -> None:
    run = Run(parameters(), [10], 34)
    out = run.go()
    assert np.all(out == LINE)
    assert run.alpha[9] == 0.0
    assert np.all(run.alpha[10:] == 1.0)
    slot = run.slot
    assert (slot["cut_at"], slot["alpha_at"]) == (10 + 25, 10 + 27)
    assert slot["increase_at"] > 1e9


def test_the_first_cut_comes_one_cnp_interval_later_and_halves() -> None:
    out = Run(parameters(), [10], 100).go()
    assert out[34].tolist() == [LINE, LINE]
    assert out[35].tolist() == [LINE / 2, LINE]
    # Later cut ticks without a CNP leave the rate alone.
    assert np.all(out[35:, 0] == LINE / 2)


def test_without_a_cnp_nothing_ever_happens() -> None:
    run = Run(parameters(), [], 400)
    assert np.all(run.go() == LINE)
    assert run.slot["armed"] == 0


def test_a_cut_tick_cuts_by_half_of_alpha_and_takes_the_target_along() -> None:
    # α by the tick at 60: one α tick at 37 without a CNP.
    out = Run(parameters(), [10, 45], 70).go()
    alpha = 1 - 1 / 16
    assert out[60, 0] == pytest.approx(LINE / 2 * (1 - alpha / 2), rel=1e-12)
    assert out[60, 1] == LINE / 2


def test_alpha_rises_with_a_cnp_and_falls_without() -> None:
    g = 1 / 16
    run = Run(parameters(alpha_steps=10.0, cnp_steps=40.0), [0 + 1, 15], 45)
    run.go()
    # Armed at 1; α ticks at 11, 21 (the CNP of 15), 31, 41; all caught up by the cut at 41.
    expected = 1.0
    for cnp in (False, True, False, False):
        expected = (1 - g) * expected + (g if cnp else 0.0)
    assert run.alpha[41] == pytest.approx(expected, rel=1e-12)


def test_without_the_clamp_a_second_cut_keeps_the_target() -> None:
    cnps = [10, 40, 65]
    clamped = Run(parameters(clamp_target=True), cnps, 90).go()
    free = Run(parameters(clamp_target=False), cnps, 90).go()
    assert np.array_equal(clamped[:, 0], free[:, 0])
    assert clamped[85, 1] == clamped[60, 0]
    assert free[85, 1] == LINE
    # After an increase it follows even so.
    after = Run(parameters(clamp_target=False, increase_steps=30.0), [10, 70], 90).go()
    assert after[84, 0] == after[85, 1] == LINE * 3 / 4


def test_the_rate_never_falls_below_the_least() -> None:
    out = Run(parameters(min_rate=300.0), range(1, 400), 400).go()
    assert out[:, 0].min() == 300.0


def test_fast_recovery_then_additive_then_hyper_increase() -> None:
    params = parameters(fast_recovery_steps=2, increase_steps=30.0, ai_rate=10.0, hai_rate=50.0)
    out = Run(params, [10], 35 + 6 * 30 + 1, rate=400.0).go()
    ticks = [35 + 30 * k for k in range(7)]
    expected = [(200.0, 400.0)]
    for add in (0.0, 0.0, 10.0, 50.0, 50.0, 50.0):
        current, target = expected[-1]
        expected.append(((current + target + add) / 2, target + add))
    assert out[ticks].tolist() == [pytest.approx(one) for one in expected]


def test_a_cut_restarts_the_increase_clock_and_the_stages() -> None:
    params = parameters(fast_recovery_steps=1, increase_steps=30.0, clamp_target=True)
    # Cut at 35; increases at 65 (stage 0) and 95 (stage 1); cut again at 110 delays the next to 140.
    run = Run(params, [10, 100], 141, rate=400.0)
    out = run.go()
    assert out[95, 1] == 410.0
    assert out[139, 0] == out[110, 0] < out[95, 0]
    assert out[140, 1] == out[110, 1]  # stage 0 again: the target stays
    assert out[140, 0] == pytest.approx((out[110, 0] + out[110, 1]) / 2)


def test_rates_never_exceed_the_nics() -> None:
    params = parameters(fast_recovery_steps=1, increase_steps=26.0, hai_rate=900.0)
    out = Run(params, [10], 400).go()
    assert out.max() == LINE


@pytest.mark.parametrize(
    ("timer_stage", "byte_stage", "byte_counter", "raised"),
    [
        (0, 0, math.inf, 0.0),
        (4, 0, math.inf, 0.0),
        (5, 0, math.inf, 10.0),
        (6, 0, math.inf, 50.0),
        (6, 0, 1e6, 10.0),  # with a byte counter hyper increase waits for both
        (0, 5, 1e6, 10.0),
        (6, 5, 1e6, 10.0),
        (6, 6, 1e6, 50.0),
        (4, 4, 1e6, 0.0),
    ],
)
def test_stages_of_timer_and_byte_counter(
    timer_stage: int, byte_stage: int, byte_counter: float, raised: float
) -> None:
    slots = fresh_slots(1)
    slot = slots[0]
    slot.rate, slot.target, slot.timer_stage, slot.byte_stage = 200.0, 600.0, timer_stage, byte_stage
    increase(slot, parameters(byte_counter=byte_counter), LINE)
    assert slot.target == 600.0 + raised
    assert slot.rate == (200.0 + 600.0 + raised) / 2


def test_fractional_clocks_do_not_drift() -> None:
    run = Run(parameters(cnp_steps=26.4, increase_steps=1e6), range(1, 1_000), 1_000)
    out = run.go()
    cuts = np.flatnonzero(np.diff(out[:, 0]) < 0) + 1
    exact = 1 + 26.4 * np.arange(1, len(cuts) + 1)
    assert cuts.tolist() == np.floor(exact + 1e-9).astype(int).tolist()
    # Bytes of a step in which a cut falls: those at the rate before it, then those after.
    before, after, part = out[cuts - 1, 0], out[cuts, 0], exact - cuts
    np.testing.assert_allclose(after + run.ahead[cuts], part * before + (1 - part) * after, rtol=1e-9)
    assert np.count_nonzero(run.ahead) <= len(cuts)


def test_all_ticks_of_a_step_count_for_their_part_of_it() -> None:
    # Cuts at 10.25, 10.5 and 10.75, an increase at 10.625: four changes within one step.
    run = Run(parameters(cnp_steps=0.25, increase_steps=0.125, alpha_steps=1e6), [], 12)
    slot, tables, work = run.slot, run.bench.tables, run.bench.work
    for step in range(11):
        run.bench.pass_marked(step, 0.0)
    slot["armed"], slot["alpha"], slot["alpha_at"], slot["cut_cnp"] = 1, 1.0, 1e6, 1
    slot["cut_at"] = 10.5
    ahead = tick(tables, work, 0, 10, run.params, LINE, 7)
    # 1000 until 10.5, 500 until 10.625; then half of the way back to 1000 every eighth of a step.
    rates_after = [500.0, 750.0, 875.0, 937.5]
    assert slot["rate"] == rates_after[-1]
    assert slot["rate"] + ahead == pytest.approx(0.5 * LINE + 0.125 * sum(rates_after), rel=1e-12)
    assert (slot["cut_at"], slot["increase_at"], slot["timer_stage"]) == (11.0, 11.0, 3)


def changed(
    rate: float, packet_at: float, *, cut_at: float = 1e9, raised_at: float = 1e9
) -> tuple[Any, float]:
    """A flow of so many bytes a step whose next packet, of 1 000 bytes, leaves then.

    Its slot after step 10, in which it is cut to a half or raised half of the way to 10 000, and the bytes
    that ``tick`` adds.
    """
    run = Run(parameters(alpha_steps=1e6), [], 12)
    slot, tables, work = run.slot, run.bench.tables._replace(packet_bytes=PACKET), run.bench.work
    for step in range(11):
        run.bench.pass_marked(step, 0.0)
    slot["rate"] = slot["sending"] = rate
    slot["target"], slot["packet_at"] = 10_000.0, packet_at
    slot["armed"], slot["alpha"], slot["alpha_at"], slot["cut_cnp"] = 1, 1.0, 1e6, 1
    slot["cut_at"], slot["increase_at"] = cut_at, raised_at
    return slot, tick(tables, work, 0, 10, run.params, 10_000.0, 7)


def test_a_packet_that_waits_keeps_its_time_when_the_rate_falls() -> None:
    # It leaves 0.2 of a step later, in which the old rate sends 400 bytes and the new one 200.
    slot, ahead = changed(2_000.0, 10.2, cut_at=10.0)
    assert slot["rate"] == pace(slot) == 1_000.0
    assert ahead == pytest.approx(400.0 - 200.0)


def test_and_when_it_rises_within_a_step() -> None:
    slot, ahead = changed(2_000.0, 9.7, raised_at=10.0)  # the next one half a step after that
    assert slot["rate"] == pace(slot) == 6_000.0
    assert ahead == pytest.approx(400.0 - 1_200.0)


def test_a_rate_raised_begins_with_the_next_packet() -> None:
    slot, ahead = changed(500.0, 11.5, raised_at=10.25)
    assert (slot["rate"], pace(slot), slot["waits"], ahead) == (5_250.0, 500.0, KEEPS_PACE, 0.0)


def test_packets_far_apart_are_sent_one_by_one() -> None:
    # Half of a packet was sent as a fluid: it has left, and the rest of it goes out in this step.
    slot, ahead = changed(200.0, 12.75, cut_at=10.25)
    assert (slot["rate"], pace(slot), slot["waits"]) == (100.0, 100.0, SENDS_PACKETS)
    assert ahead == pytest.approx(0.25 * 200.0 + 500.0)
    run = Run(parameters(), [], 30)
    tables, work = run.bench.tables._replace(packet_bytes=PACKET), run.bench.work
    waiting, sent = run.slot, run.slot["sent"]
    waiting["waits"], waiting["held"], waiting["rate"], waiting["sending"] = SENDS_PACKETS, 100.0, 50.0, 0.0
    waiting["packet_at"] = 12.75
    assert leave(tables, work, 0, 12) == 0.0
    assert waiting["sent"] - sent == PACKET
    assert (waiting["packet_at"], pace(waiting)) == (12.75 + 20.0, 50.0)
    # A rate raised since goes on as a fluid, from when the packet leaves.
    waiting["rate"] = 4_000.0
    assert leave(tables, work, 0, 32) == -0.75 * 4_000.0
    assert (waiting["waits"], pace(waiting)) == (0, 4_000.0)


def test_a_packet_that_many_looks_share_is_drawn_for_once() -> None:
    [slot] = fresh_slots(1)
    slot.packets = slot.marked = 0.0
    came = [cnp_drawn(slot, 1.0, 0.25, 7) for _ in range(40)]
    assert came == [False, False, False, True] * 10
    # Half of its bytes met no mark: so it is marked with one half.
    count = 0
    for draw in range(4_000):
        slot.draws = draw
        count += cnp_drawn(slot, 0.0, 0.5, 7) + cnp_drawn(slot, 1.0, 0.5, 7)
    assert count == pytest.approx(2_000, abs=150)


@pytest.mark.parametrize("look_steps", [1, 3, 8])
@pytest.mark.parametrize("patience", [0.01, 0.5, 2.0, 7.3])
@pytest.mark.parametrize(("way_back", "within"), [(5.0, 1e-6), (5.5, 0.5)])
def test_the_first_mark_is_found_when_it_came_however_seldom_one_looks(
    look_steps: int, patience: float, way_back: float, within: float
) -> None:
    # It looks step by step from its own time on: exact where those are the queue's steps.
    # Two packets a step at 10 %, from step 20 on: −2 log 0.9 of hazard a step.
    bench, params = one_queue(n_steps=200), parameters(look_steps=look_steps)
    slot = bench.begin(2 * PACKET, way_back)
    slot["patience"], slot["cut_at"] = patience, 1.0
    step = 0
    while not slot["armed"]:
        bench.pass_marked(step, 0.1 if step >= 20 else 0.0)
        look_for_mark(bench.tables, bench.work, 0, step, params)
        step += 1
    came_at = 20 + way_back + patience / (-2 * math.log(0.9))
    assert slot["alpha_at"] == pytest.approx(came_at + params.alpha_steps, abs=within)
    assert slot["cut_at"] == pytest.approx(came_at + params.cnp_steps, abs=within)
    # Looked for every ``look_steps``, no sooner than what it saw had happened.
    assert came_at - within <= step - 1 < came_at + look_steps + 1 + within


clocks = st.integers(1, 40)


@st.composite
def senders(draw: st.DrawFn) -> Sender:
    return Sender(
        line_rate=LINE,
        ai_rate=draw(st.sampled_from([1.0, 20.0])),
        hai_rate=draw(st.sampled_from([5.0, 100.0])),
        gain=draw(st.floats(0.001, 0.9)),
        cut_clock=draw(clocks),
        alpha_clock=draw(clocks),
        increase_clock=draw(clocks),
        fast_recovery_steps=draw(st.integers(1, 6)),
        min_rate=draw(st.sampled_from([0.0, 50.0])),
        clamp_target=draw(st.booleans()),
    )


def follows(sender: Sender, cnp_steps: Collection[int]) -> None:
    params = parameters(
        ai_rate=sender.ai_rate,
        hai_rate=sender.hai_rate,
        gain=sender.gain,
        cnp_steps=float(sender.cut_clock),
        alpha_steps=float(sender.alpha_clock),
        increase_steps=float(sender.increase_clock),
        fast_recovery_steps=sender.fast_recovery_steps,
        min_rate=sender.min_rate,
        clamp_target=sender.clamp_target,
    )
    ours = Run(params, sorted(cnp_steps), 240).go()
    np.testing.assert_allclose(ours, rates(sender, cnp_steps, 240), rtol=1e-9)


@long_uncompiled
@settings(max_examples=60)
@given(senders(), st.sets(st.integers(1, 239), max_size=40))
def test_it_follows_the_oracle_under_any_marks(sender: Sender, cnp_steps: set[int]) -> None:
    follows(sender, cnp_steps)


@settings(max_examples=20)
@given(senders(), st.integers(1, 100), st.integers(1, 30))
def test_it_follows_the_oracle_under_bursts(sender: Sender, begin: int, length: int) -> None:
    follows(sender, set(range(begin, begin + length)) | {begin + 120})
