"""What a flow sent when, and how much of it was marked: two look-ups in a running sum."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.unit.twin.kernels.uncompiled import long_uncompiled
from tests.unit.twin.replay.records import PACKET, Bench, many_marked, one_queue
from twin.replay import layout
from twin.replay._flows import remember, unmarked_hazard
from twin.replay.layout import Record

pytestmark = pytest.mark.kernels

Floats = NDArray[np.float64]


def remembered(
    changes: list[tuple[int, float]], marks: Sequence[float] | Floats, delay: int = 0, lost: float = 0.0
) -> tuple[Bench, Record]:
    """A flow and its slot; what it sends in step j meets ``marks[j]``, ``delay`` steps later."""
    n_steps = max(len(marks) + delay + 2, changes[-1][0] + 1)
    bench = one_queue(n_steps=n_steps, pfc=lost == 0.0, nic_delay=delay)
    slot = bench.begin(0.0)
    for step, rate in changes:
        remember(slot, bench.work.segments, 0, float(rate), step)
    many_marked(bench, [*[0.0] * delay, *marks], lost=lost)
    return bench, slot


def hazard_until(bench: Bench, time: float) -> float:
    return unmarked_hazard(bench.tables, bench.work, 0, float(time))


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
    bench, _ = remembered([(0, 3 * PACKET)], [0.02] * 10)
    assert math.exp(-hazard_until(bench, 10)) == pytest.approx(0.98**30, rel=1e-12)


def test_less_than_a_packet_is_marked_in_proportion() -> None:
    bench, _ = remembered([(0, 0.01 * PACKET)], [0.5] * 10)
    assert math.exp(-hazard_until(bench, 10)) == pytest.approx(1 - 0.1 * 0.5, rel=1e-12)


def test_certain_marks_are_certain() -> None:
    bench, _ = remembered([(0, 2 * PACKET)], [1.0] * 3)
    assert hazard_until(bench, 3) > 100


def test_nothing_is_looked_at_twice() -> None:
    bench, _ = remembered([(0, PACKET)], [0.1] * 20)
    first = hazard_until(bench, 8)
    assert hazard_until(bench, 8) == 0.0
    assert hazard_until(bench, 5) == 0.0
    rest = hazard_until(bench, 20)
    assert math.exp(-first - rest) == pytest.approx(0.9**20, rel=1e-12)


def test_a_second_change_in_a_step_replaces_the_first() -> None:
    bench, slot = remembered([(0, PACKET), (4, 9 * PACKET), (4, 2 * PACKET)], [0.1] * 10)
    assert slot["segment_end"] - slot["segment_first"] == 2
    assert hazard_until(bench, 10) == pytest.approx(-16 * math.log(0.9), rel=1e-12)


def test_what_was_lost_is_to_be_sent_again() -> None:
    bench, slot = remembered([(0, PACKET), (5, 3 * PACKET)], [0.0] * 10, lost=0.25)
    slot["remaining"] = 50 * PACKET
    assert hazard_until(bench, 10) == 0.0
    assert slot["remaining"] == pytest.approx(50 * PACKET + 0.25 * 20 * PACKET)


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
    bench, _ = remembered(history, p, delay)
    rates, begin = per_step(history, n_steps), 0
    for end in sorted({round(wait * n_steps) for wait in waits} | {n_steps}):
        found = hazard_until(bench, end + delay)
        assert found == pytest.approx(expected_hazard(rates[begin:end], p[begin:end]), rel=1e-6, abs=1e-9)
        begin = end


@long_uncompiled
@given(st.lists(st.floats(0.0, 5 * PACKET), min_size=layout.SEGMENTS + 1, max_size=100), st.integers(1, 3))
def test_merging_keeps_every_byte(rates: list[float], gap: int) -> None:
    history = [(gap * place, rate) for place, rate in enumerate(rates)]
    n_steps = gap * len(rates)
    p = np.full(n_steps, 0.05)
    bench, slot = remembered(history, p)
    assert slot["segment_end"] - slot["segment_first"] == layout.SEGMENTS
    found = hazard_until(bench, n_steps)
    assert found == pytest.approx(expected_hazard(per_step(history, n_steps), p), rel=1e-9)


def test_a_burst_is_not_smeared_over_the_quiet_after_it() -> None:
    history = [(0, 50 * PACKET), *((10 + 5 * k, 0.1 * PACKET * 0.99**k) for k in range(300))]
    bench, slot = remembered(history, [0.05] * 2_000)
    assert slot["segment_end"] - slot["segment_first"] == layout.SEGMENTS
    assert hazard_until(bench, 10) == pytest.approx(-500 * math.log(0.95), rel=1e-3)


def test_part_of_a_step_is_marked_in_proportion() -> None:
    bench, slot = remembered([(0, 4 * PACKET)], [0.1] * 20)
    assert hazard_until(bench, 2.25) == pytest.approx(-9 * math.log(0.9), rel=1e-9)
    assert slot["read"] == 2.25
    assert hazard_until(bench, 5.0) == pytest.approx(-11 * math.log(0.9), rel=1e-9)
