"""Queues against an oracle that keeps every byte apart: depth, departures, and marks by arrival step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.fifo_packets import Port, one_queue, red
from tests.oracles.marking import marking_probability
from tests.unit.twin.fluid.problems import flow, star
from tests.unit.twin.kernels.uncompiled import long_uncompiled
from tests.unit.twin.replay.records import (
    FIRST,
    KMAX,
    KMIN,
    LAST,
    PACKET,
    PMAX,
    STEP_S,
    Bench,
    two_queues,
)
from twin.replay._cells import left_by, left_until, marks_until
from twin.replay._flows import unmarked_hazard
from twin.replay._queues import append_ending, marking
from twin.watermark import Watermark

pytestmark = pytest.mark.kernels


@given(st.floats(0, 1e6), st.integers(0, 10**5), st.integers(1, 10**5), st.floats(0.001, 1.0))
def test_the_curve_is_the_watermarks(depth: float, kmin: int, width: int, pmax: float) -> None:
    watermark = Watermark(kmin, kmin + width, pmax)
    expected = float(marking_probability(depth, watermark))
    assert marking(depth, float(kmin), float(kmin + width), pmax) == pytest.approx(
        expected, rel=1e-12, abs=1e-15
    )


def gone(port: Port, now: int) -> tuple[int, float, float]:
    """By the end of step ``now``: arrival steps that left, the part of the next, and its marks a byte."""
    if not port.waiting:
        return now + 1, 0.0, 0.0
    head = port.waiting[0][0]
    left = len(port.left_at.get(head, []))
    count = left + sum(step == head for step, _ in port.waiting)
    return head, left / count, sum(port.met.get(head, [])) / count


steps = st.lists(st.tuples(st.integers(0, 90), st.integers(0, 60)), min_size=1, max_size=40)


@given(steps)
def test_every_step_is_as_if_each_byte_queued(moves: Sequence[tuple[int, int]]) -> None:
    # Empty at the end, so that every arrival step is settled.
    moves = [*moves, *[(0, 100)] * 40]
    arrivals, capacity = zip(*moves, strict=True)
    whole, expected = one_queue(arrivals, capacity, red(KMIN, KMAX, PMAX))
    port, ours = Port(red(KMIN, KMAX, PMAX)), two_queues(delay=3)
    queue, sent = ours.tables.queues[FIRST], []
    for now, (count, room) in enumerate(moves):
        port.step(now, [(0, count)], room)
        if count:
            ours.bring(0, now, count)
        ours.advance(now, {FIRST: room, LAST: 1e9})
        assert queue["backlog"] == pytest.approx(port.depth[now], abs=1e-6)
        sent.append(float(queue["sent"]) if count or queue["busy"] else 0.0)
        # What a flow may ask at once: how far the queue has come, and the marks so far.
        step, part, marks = gone(port, now)
        settled = sum(np.mean(port.met[j]) for j in range(step) if j in port.met)
        position, known = left_by(ours.work, FIRST, now)
        assert position == pytest.approx(step + part, abs=1e-4)
        assert known == pytest.approx(settled + marks, abs=1e-9)
    found = [marks_until(ours.work, FIRST, float(step)) for step in range(len(moves) + 1)]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    # What leaves arrives at the next queue a cable later, byte for byte.
    leaving = np.bincount([now for times in whole.left_at.values() for now in times], minlength=len(moves))
    np.testing.assert_allclose(sent, leaving, atol=1e-6)
    np.testing.assert_allclose(
        [ours.arrived(LAST, step + 3) for step in range(len(moves))], leaving, atol=1e-6
    )
    stream = ours.tables.entries[ours.tables.flows[0]["entry"]]["suffix"]
    assert ours.tables.suffixes[stream]["total"] == pytest.approx(sum(arrivals))
    # Nothing is on its way any more, and every parcel can be used again.
    assert ours.work.pool[0]["n_busy"] == 0
    assert ours.free_parcels == ours.work.pool[0]["n_parcels"]


def test_part_of_a_step_is_between_its_ends() -> None:
    ours = two_queues()
    for now in range(4):
        ours.bring(0, now, 100)
        ours.advance(now, {FIRST: 50.0, LAST: 1e9})
    assert [left_until(ours.work, FIRST, time)[0] for time in (-1.0, 0.0, 2.0, 2.25, 3.0, 3.5)] == [
        0.0, 0.0, 1.0, 1.125, 1.5, 1.75,
    ]  # fmt: skip


def through_two(moves: Sequence[tuple[int, int, int, int]], delay: int) -> tuple[Bench, Port, Port]:
    """Stream 0 crosses both queues, stream 1 only the last: (0's bytes, 1's, capacities) a step."""
    first, last = Port(red(KMIN, KMAX, PMAX)), Port(red(KMIN, KMAX, PMAX))
    ours = two_queues(delay=delay)
    on_the_cable: dict[int, int] = {}
    for now, (long, short, first_room, last_room) in enumerate(moves):
        out = first.step(now, [(0, long)], first_room)
        on_the_cable[now + delay] = len(out)
        last.step(now, [(0, on_the_cable.get(now, 0)), (1, short)], last_room)
        ours.bring(0, now, long)
        ours.bring(1, now, short)
        ours.advance(now, {FIRST: first_room, LAST: last_room})
    return ours, first, last


def test_marks_of_both_queues_combine_as_independent_ones() -> None:
    # Constant depths: 70 bytes stand in both queues, so p = 0.2 at each.
    moves = [(120, 170, 50, 100)] + [(50, 50, 50, 100)] * 60
    ours, _, _ = through_two(moves, delay=1)
    for q in (FIRST, LAST):
        met = np.diff([marks_until(ours.work, q, float(step)) for step in range(10, 40)])
        assert met == pytest.approx(0.2)
    ours.begin(3 * PACKET)
    asked = [unmarked_hazard(ours.tables, ours.work, 0, float(time)) for time in (15, 35)]
    # Of steps (15, 35] of the last queue, the packets of 20 steps: 60 that two queues may mark.
    assert np.exp(-asked[1]) == pytest.approx((0.8 * 0.8) ** 60, rel=1e-4)


@long_uncompiled
@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 40), st.integers(20, 60), st.integers(30, 90)),
        min_size=5,
        max_size=40,
    ),
    st.integers(1, 4),
)
def test_a_flow_knows_of_its_bytes_when_they_have_left_the_last_queue(
    moves: list[tuple[int, int, int, int]], delay: int
) -> None:
    moves = [*moves, *[(0, 0, 60, 90)] * 60]
    ours, first, last = through_two(moves, delay)
    ours.begin(PACKET)
    known, hazards = [], []
    for time in range(1, len(moves) + 1):
        hazards.append(unmarked_hazard(ours.tables, ours.work, 0, float(time)))
        known.append(float(ours.work.reads[0, 0]["position"]))
    assert np.all(np.diff(known) >= -1e-6)
    # By arrival step at the first queue: when its last byte left that one, hence when it reached the last.
    for step, times in first.left_at.items():
        reached = max(times) + delay
        if reached >= len(moves):
            continue
        begin, end = min(last.left_at[reached]), max(last.left_at[reached])
        assert known[end] >= step + 1 - 1e-3  # known[t]: by the end of step t
        assert begin == 0 or known[begin - 1] < step + 1 - 1e-3
    assert min(hazards) >= 0.0
    # At least what the first queue marked: one packet a step, each unmarked with 1 − p.
    alone = -sum(np.log1p(-min(np.mean(met), 1 - 1e-12)) for met in first.met.values())
    if not any(np.mean(met) > 0.999 for port in (first, last) for met in port.met.values()):
        n_packets = known[-1]
        spread = -n_packets * np.log1p(-sum(np.mean(met) for met in first.met.values()) / n_packets)
        assert sum(hazards) >= min(alone, spread) * (1 - 1e-3) - 1e-6


def completed(fraction: float, capacity: float, behind: float) -> float:
    """When a flow ends whose last byte comes ``fraction`` into step 0, 100 bytes in all in that step."""
    ours = Bench(star([flow("h0", "h3", 1e6)], duration_s=30 * STEP_S))
    append_ending(ours.tables, ours.work, 0, 0, 0, fraction)
    for now in range(20):
        ours.bring(0, now, 100.0 if now == 0 else behind)
        ours.advance(now, [capacity])
    return float(ours.tables.flows[0]["completed"])


def test_a_last_byte_leaves_when_its_turn_comes() -> None:
    assert completed(0.25, 200.0, 0.0) == pytest.approx(0.25)
    # At 10 bytes a step the byte at place 55 of 100 leaves in step 5, half a step in on average.
    assert completed(0.55, 10.0, 0.0) == pytest.approx(5.5)
    assert completed(0.95, 10.0, 0.0) == pytest.approx(9.5)
    # What comes behind does not hold it up.
    assert completed(0.55, 10.0, 40.0) == completed(0.55, 10.0, 0.0)


def test_a_last_byte_goes_on_to_the_next_queue() -> None:
    ours = two_queues(delay=3)
    stream = int(ours.tables.entries[ours.tables.flows[0]["entry"]]["suffix"])
    append_ending(ours.tables, ours.work, 0, stream, 0, 0.55)
    ours.bring(0, 0, 100)
    for now in range(20):
        ours.advance(now, {FIRST: 10.0, LAST: 1e9})
    # It leaves the first in step 5 and reaches an empty one three steps later.
    assert ours.tables.flows[0]["completed"] == pytest.approx(8.5)
    assert ours.tables.queues[LAST]["ending_first"] == -1
