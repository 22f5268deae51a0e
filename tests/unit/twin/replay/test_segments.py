"""What a flow sent when, and how much of it was marked: two look-ups in a running sum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.unit.twin.replay.records import PACKET, fresh_slots, segments_for
from twin.replay import layout
from twin.replay._flows import remember, unmarked_hazard
from twin.replay.layout import Table

pytestmark = pytest.mark.kernels

Floats = NDArray[np.float64]


def remembered(changes: list[tuple[int, float]], delay: int = 0) -> tuple[Table, Table]:
    slots, segments = fresh_slots(1), segments_for(1)
    slots[0].delay = delay
    for step, rate in changes:
        remember(slots[0], segments, 0, rate, step)
    return slots, segments


def running_sum(p: Floats, delay: int = 0) -> Floats:
    """A column of marks: what is sent in step j meets ``p[j]``, kept at j + delay."""
    column = np.concatenate([np.zeros(delay + 1), np.cumsum(p)])
    return column.reshape(-1, 1)


def expected_hazard(rates: Floats, p: Floats) -> float:
    """−log of the chance that none of evenly spaced packets is marked."""
    sent, marked = rates.sum() / PACKET, (rates * p).sum() / PACKET
    if marked == 0:
        return 0.0
    count = max(sent, 1.0)
    return float(-count * math.log1p(-min(marked / count, 1 - 1e-12)))


def per_step(changes: list[tuple[int, float]], n_steps: int) -> Floats:
    rates = np.zeros(n_steps)
    for step, rate in changes:
        rates[step:] = rate
    return rates


def test_many_packets_stay_unmarked_as_independent_ones_do() -> None:
    slots, segments = remembered([(0, 3 * PACKET)])
    hazard = unmarked_hazard(slots, segments, 0, 10, running_sum(np.full(10, 0.02)), 0, PACKET)
    assert math.exp(-hazard) == pytest.approx(0.98**30, rel=1e-12)


def test_less_than_a_packet_is_marked_in_proportion() -> None:
    slots, segments = remembered([(0, 0.01 * PACKET)])
    hazard = unmarked_hazard(slots, segments, 0, 10, running_sum(np.full(10, 0.5)), 0, PACKET)
    assert math.exp(-hazard) == pytest.approx(1 - 0.1 * 0.5, rel=1e-12)


def test_certain_marks_are_certain() -> None:
    slots, segments = remembered([(0, 2 * PACKET)])
    assert unmarked_hazard(slots, segments, 0, 3, running_sum(np.ones(3)), 0, PACKET) > 100


def test_nothing_is_looked_at_twice() -> None:
    slots, segments = remembered([(0, PACKET)])
    marks = running_sum(np.full(20, 0.1))
    first = unmarked_hazard(slots, segments, 0, 8, marks, 0, PACKET)
    assert unmarked_hazard(slots, segments, 0, 8, marks, 0, PACKET) == 0.0
    assert unmarked_hazard(slots, segments, 0, 5, marks, 0, PACKET) == 0.0
    rest = unmarked_hazard(slots, segments, 0, 20, marks, 0, PACKET)
    assert math.exp(-first - rest) == pytest.approx(0.9**20, rel=1e-12)


def test_a_second_change_in_a_step_replaces_the_first() -> None:
    slots, segments = remembered([(0, PACKET), (4, 9 * PACKET), (4, 2 * PACKET)])
    assert slots[0].segment_end - slots[0].segment_first == 2
    hazard = unmarked_hazard(slots, segments, 0, 10, running_sum(np.full(10, 0.1)), 0, PACKET)
    assert hazard == pytest.approx(-16 * math.log(0.9), rel=1e-12)


def test_what_was_lost_is_to_be_sent_again() -> None:
    slots, segments = remembered([(0, PACKET), (5, 3 * PACKET)])
    slots[0].remaining = 50 * PACKET
    marked, lost = running_sum(np.zeros(10)), running_sum(np.full(10, 0.25))
    both = np.concatenate([marked, lost], axis=1)
    assert unmarked_hazard(slots, segments, 0, 10, both, 1, PACKET) == 0.0
    assert slots[0].remaining == pytest.approx(50 * PACKET + 0.25 * 20 * PACKET)


changes = st.lists(
    st.tuples(st.integers(1, 4), st.floats(0.0, 5 * PACKET)), min_size=1, max_size=layout.SEGMENTS - 1
)


@given(changes, st.integers(0, 5), st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6), st.data())
def test_it_adds_up_step_by_step(
    gaps: list[tuple[int, float]], delay: int, waits: list[float], data: st.DataObject
) -> None:
    steps = np.cumsum([gap for gap, _ in gaps]) - gaps[0][0]
    history = [(int(step), rate) for step, (_, rate) in zip(steps, gaps, strict=True)]
    n_steps = int(steps[-1]) + 5
    p = np.array(data.draw(st.lists(st.floats(0.0, 0.9), min_size=n_steps, max_size=n_steps)))
    slots, segments = remembered(history, delay)
    marks, rates, begin = running_sum(p, delay), per_step(history, n_steps), 0
    for end in sorted({round(wait * n_steps) for wait in waits} | {n_steps}):
        found = unmarked_hazard(slots, segments, 0, end, marks, 0, PACKET)
        assert found == pytest.approx(expected_hazard(rates[begin:end], p[begin:end]), rel=1e-6, abs=1e-9)
        begin = end


@given(st.lists(st.floats(0.0, 5 * PACKET), min_size=layout.SEGMENTS + 1, max_size=200), st.integers(1, 3))
def test_merging_keeps_every_byte(rates: list[float], gap: int) -> None:
    history = [(gap * place, rate) for place, rate in enumerate(rates)]
    n_steps = gap * len(rates)
    slots, segments = remembered(history)
    assert slots[0].segment_end - slots[0].segment_first == layout.SEGMENTS
    p = np.full(n_steps, 0.05)
    found = unmarked_hazard(slots, segments, 0, n_steps, running_sum(p), 0, PACKET)
    assert found == pytest.approx(expected_hazard(per_step(history, n_steps), p), rel=1e-9)


def test_a_burst_is_not_smeared_over_the_quiet_after_it() -> None:
    history = [(0, 50 * PACKET), *((10 + 5 * k, 0.1 * PACKET * 0.99**k) for k in range(300))]
    slots, segments = remembered(history)
    assert slots[0].segment_end - slots[0].segment_first == layout.SEGMENTS
    found = unmarked_hazard(slots, segments, 0, 10, running_sum(np.full(2_000, 0.05)), 0, PACKET)
    assert found == pytest.approx(-500 * math.log(0.95), rel=1e-3)


def test_part_of_a_step_is_marked_in_proportion() -> None:
    slots, segments = remembered([(0, 4 * PACKET)])
    marks = running_sum(np.full(20, 0.1))
    first = unmarked_hazard(slots, segments, 0, 2.25, marks, 0, PACKET)
    assert first == pytest.approx(-9 * math.log(0.9), rel=1e-9)
    assert slots[0].read == 2.25
    rest = unmarked_hazard(slots, segments, 0, 5.0, marks, 0, PACKET)
    assert rest == pytest.approx(-11 * math.log(0.9), rel=1e-9)
