"""Queues against an oracle that keeps every byte apart: depth, departures, and marks by arrival step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.fifo_packets import Port, one_queue, red
from tests.oracles.marking import marking_probability
from tests.unit.twin.replay.records import table
from twin.replay import layout
from twin.replay._queues import append_ending, last_bytes, marking, resolve_suffix, serve
from twin.watermark import Watermark

pytestmark = pytest.mark.kernels

KMIN, KMAX, PMAX = 20.0, 120.0, 0.4


class Queues:
    """Queues in a line: all of queue 0's traffic goes on to queue 1, and so forth."""

    def __init__(self, count: int, n_steps: int, delay: int = 3) -> None:
        self.count = count
        self.queues = table(layout.QUEUE, count)
        self.queues.delay = delay
        self.suffixes = table(layout.SUFFIX, count)
        self.feeders = table(layout.FEEDER, max(count, 1))
        for q in range(count):
            suffix = self.suffixes[q]
            suffix.queue = q
            self.queues[q].suffix_first, self.queues[q].suffix_end = q, q + 1
            self.queues[q].ending_first = self.queues[q].ending_last = -1
            is_last = q == count - 1
            suffix.onward = -1 if is_last else q + 1
            suffix.row = q if is_last else count + q
            suffix.feeder = q
            self.queues[q].forwards = not is_last
        span = n_steps + delay + 1
        self.arrived = np.zeros((span, count))
        self.onward = np.zeros((span, count))
        self.marks = np.zeros((span + 1, 2 * count))
        self.departed = np.zeros((span, count), dtype=np.int32)
        self.resolved = np.zeros((span, 2 * count), dtype=np.int32)

    def step(self, q: int, now: int, capacity: float) -> float:
        """Serve queue ``q`` what has arrived."""
        if self.queues[q].forwards:
            self.onward[now, q] = self.arrived[now, q]
        return float(
            serve(
                self.queues[q], q, now, self.arrived[now, q], capacity, KMIN, KMAX, PMAX, self.suffixes,
                self.arrived, self.onward, self.marks, self.departed, self.feeders, self.count,
            )
        )  # fmt: skip


@given(st.floats(0, 1e6), st.integers(0, 10**5), st.integers(1, 10**5), st.floats(0.001, 1.0))
def test_the_curve_is_the_watermarks(depth: float, kmin: int, width: int, pmax: float) -> None:
    watermark = Watermark(kmin, kmin + width, pmax)
    expected = float(marking_probability(depth, watermark))
    assert marking(depth, kmin, kmin + width, pmax) == pytest.approx(expected, rel=1e-12, abs=1e-15)


steps = st.lists(st.tuples(st.integers(0, 90), st.integers(0, 60)), min_size=1, max_size=40)


@given(steps)
def test_every_step_is_as_if_each_byte_queued(moves: Sequence[tuple[int, int]]) -> None:
    # Empty at the end, so that every arrival step is settled.
    moves = [*moves, *[(0, 100)] * 40]
    arrivals, capacity = zip(*moves, strict=True)
    port, expected = one_queue(arrivals, capacity, red(KMIN, KMAX, PMAX))
    ours = Queues(2, len(moves))
    sent = []
    for now, (count, room) in enumerate(moves):
        ours.arrived[now, 0] = count
        ours.step(0, now, float(room))
        assert ours.queues[0].backlog == pytest.approx(port.depth[now], abs=1e-6)
        sent.append(ours.queues[0].sent)
    np.testing.assert_allclose(ours.marks[: len(moves) + 1, 0], expected, rtol=1e-9, atol=1e-12)
    for step, times in port.left_at.items():
        assert ours.departed[step, 0] == max(times)
    # What leaves arrives at the next queue a cable later, byte for byte.
    leaving = np.bincount([now for times in port.left_at.values() for now in times], minlength=len(moves))
    np.testing.assert_allclose(sent, leaving, atol=1e-6)
    np.testing.assert_allclose(ours.arrived[3 : 3 + len(moves), 1], leaving, atol=1e-6)
    assert ours.feeders[0].total == pytest.approx(sum(arrivals))


def through_two(moves: Sequence[tuple[int, int, int, int]], delay: int) -> tuple[Queues, Port, Port]:
    """Stream 0 crosses both queues, stream 1 only the second: (0's bytes, 1's, capacities) a step."""
    first, second = Port(red(KMIN, KMAX, PMAX)), Port(red(KMIN, KMAX, PMAX))
    ours = Queues(2, len(moves), delay)
    on_the_cable: dict[int, int] = {}
    for now, (long, short, first_room, second_room) in enumerate(moves):
        out = first.step(now, [(0, long)], first_room)
        on_the_cable[now + delay] = len(out)
        second.step(now, [(0, on_the_cable.get(now, 0)), (1, short)], second_room)
        ours.arrived[now, 0] += long
        ours.arrived[now, 1] += short
        for q, room in enumerate((first_room, second_room)):
            ours.step(q, now, float(room))
            ours.resolved[now, q] = ours.queues[q].head
        resolve_suffix(ours.suffixes, 0, ours.queues, now, ours.marks, 0, ours.departed, ours.resolved)
    return ours, first, second


def test_marks_of_both_queues_combine_as_independent_ones() -> None:
    # Constant depths: 70 bytes stand in both queues, so p = 0.2 at each.
    moves = [(120, 170, 50, 100)] + [(50, 50, 50, 100)] * 60
    ours, _, _ = through_two(moves, delay=1)
    p_first = np.diff(ours.marks[10:40, 0])
    p_second = np.diff(ours.marks[10:40, 1])
    both = np.diff(ours.marks[10:40, 2])
    assert p_first == pytest.approx(0.2)
    assert p_second == pytest.approx(0.2)
    assert both == pytest.approx(1 - (1 - p_first) * (1 - p_second), rel=1e-9)


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 40), st.integers(20, 60), st.integers(30, 90)),
        min_size=5,
        max_size=40,
    ),
    st.integers(1, 4),
)
def test_a_path_is_resolved_when_its_bytes_have_left_the_last_queue(
    moves: list[tuple[int, int, int, int]], delay: int
) -> None:
    moves = [*moves, *[(0, 0, 60, 90)] * 60]
    ours, first, second = through_two(moves, delay)
    # By arrival step at the first queue: when its last byte left the first, hence when it reached the second.
    for step, times in first.left_at.items():
        reached = max(times) + delay
        if reached >= len(moves):
            continue
        left_second = max(second.left_at[reached]) if reached in second.left_at else reached
        known = int(np.argmax(ours.resolved[:, 2] > step))
        assert ours.resolved[known, 2] > step
        assert known >= max(times)
        assert abs(known - left_second) <= 1
    row = np.diff(ours.marks[: len(moves) - 10, 2])
    assert np.all((row >= -1e-12) & (row <= 1 + 1e-12))
    # At least what the first queue marked.
    assert np.all(row >= np.diff(ours.marks[: len(moves) - 10, 0]) - 1e-12)


def completed(fraction: float, capacity: float, behind: float) -> float:
    """When a flow ends whose last byte comes ``fraction`` into step 0, 100 bytes in all in that step."""
    ours = Queues(1, 20)
    flows = table(layout.FLOW, 1)
    flows.completed = np.nan
    append_ending(ours.queues, flows, 0, 0, 0, 0, fraction)
    for now in range(20):
        ours.arrived[now, 0] = 100.0 if now == 0 else behind
        ours.step(0, now, capacity)
        last_bytes(ours.queues, 0, now, flows, ours.suffixes, ours.arrived)
    return float(flows[0].completed)


def test_a_last_byte_leaves_when_its_turn_comes() -> None:
    assert completed(0.25, 200.0, 0.0) == pytest.approx(0.25)
    # At 10 bytes a step the byte at place 55 of 100 leaves in step 5, half a step in on average.
    assert completed(0.55, 10.0, 0.0) == pytest.approx(5.5)
    assert completed(0.95, 10.0, 0.0) == pytest.approx(9.5)
    # What comes behind does not hold it up.
    assert completed(0.55, 10.0, 40.0) == completed(0.55, 10.0, 0.0)
