"""Collectives move what the algorithm moves, and no rank sends what it cannot have yet."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.unit.twin.traffic.making import deliver, flows_of
from twin.errors import ParameterError
from twin.traffic.base import Hosts, Traffic
from twin.traffic.patterns import AllToAll, RingAllReduce

STEP_S = 1e-4


def reduced_everywhere(traffic: Traffic, ranks: int) -> bool:
    """Follows the chunks of one ring all-reduce by its dependencies: who has added up whose part of what.

    A rank sends in step s the chunk (rank − s); in the first n − 1 steps the receiver adds its own part, then
    it copies.
    """
    starts, ends = deliver(traffic, STEP_S)
    has = {(rank, chunk): {rank} for rank in range(ranks) for chunk in range(ranks)}
    sent: Counter[int] = Counter()
    arrivals: list[tuple[float, int, int, int, set[int]]] = []
    for row in np.argsort(starts, kind="stable").tolist():
        for _, rank, chunk, step, parts in sorted(
            (one for one in arrivals if one[0] <= starts[row] + STEP_S / 2), key=lambda one: one[0]
        ):
            has[rank, chunk] = parts | has[rank, chunk] if step < ranks - 1 else parts
        arrivals = [one for one in arrivals if one[0] > starts[row] + STEP_S / 2]
        src, dst = int(traffic.src[row]), int(traffic.dst[row])
        step, sent[src] = sent[src], sent[src] + 1
        chunk = (src - step) % ranks
        arrivals.append((ends[row], dst, chunk, step, set(has[src, chunk])))
    for _, rank, chunk, step, parts in sorted(arrivals, key=lambda one: one[0]):
        has[rank, chunk] = parts | has[rank, chunk] if step < ranks - 1 else parts
    return all(parts == set(range(ranks)) for parts in has.values())


@pytest.mark.parametrize("ranks", [2, 3, 4, 7])
def test_a_ring_leaves_every_rank_with_the_sum_of_all(ranks: int) -> None:
    pattern = RingAllReduce(size_bytes=1000.0 * ranks, iterations=1)
    traffic = pattern.traffic(Hosts(count=ranks), duration_s=0.0, seed=1)
    assert len(traffic) == 2 * (ranks - 1) * ranks
    assert reduced_everywhere(traffic, ranks)


def test_a_ring_without_its_waits_would_not() -> None:
    traffic = RingAllReduce(size_bytes=4000, iterations=1).traffic(Hosts(count=4), duration_s=0.0, seed=1)
    assert not reduced_everywhere(
        Traffic.independent(traffic.src, traffic.dst, traffic.payload_bytes, traffic.start_s), 4
    )


def test_every_rank_of_a_ring_sends_its_share_each_iteration() -> None:
    pattern = RingAllReduce(size_bytes=8_000_000, group_size=8, iterations=3)
    traffic = pattern.traffic(Hosts(count=16), duration_s=0.0, seed=1)
    sent, received = np.zeros(16), np.zeros(16)
    np.add.at(sent, traffic.src, traffic.payload_bytes)
    np.add.at(received, traffic.dst, traffic.payload_bytes)
    share = 2 * 7 / 8 * 8_000_000
    assert sent.tolist() == received.tolist() == [3 * share] * 16


def test_a_ring_takes_its_steps_one_after_the_other_and_computes_in_between() -> None:
    pattern = RingAllReduce(size_bytes=4000, compute_s=1e-3, iterations=3)
    traffic = pattern.traffic(Hosts(count=4), duration_s=0.0, seed=1)
    starts, ends = deliver(traffic, STEP_S)
    assert ends[-1] == pytest.approx(3 * 6 * STEP_S + 2 * 1e-3)
    assert Counter(np.round(starts, 9)) == {
        round(iteration * (6 * STEP_S + 1e-3) + step * STEP_S, 9): 4
        for iteration in range(3)
        for step in range(6)
    }


@pytest.mark.parametrize("schedule", ["together", "rounds"])
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_every_pair_meets_once_an_iteration(schedule: str, ranks: int) -> None:
    pattern = AllToAll(each_bytes=1000, schedule=schedule, group_size=ranks, iterations=3)
    traffic = pattern.traffic(Hosts(count=2 * ranks), duration_s=0.0, seed=1)
    pairs = Counter((src, dst) for src, dst, _, _ in flows_of(traffic))
    assert pairs == {
        (src, dst): 3
        for first in (0, ranks)
        for src in range(first, first + ranks)
        for dst in range(first, first + ranks)
        if src != dst
    }


@pytest.mark.parametrize("schedule", ["together", "rounds"])
def test_a_rank_begins_the_next_iteration_when_all_of_this_one_is_there(schedule: str) -> None:
    ranks = 4
    pattern = AllToAll(each_bytes=1000, schedule=schedule, compute_s=1e-3, iterations=2)
    traffic = pattern.traffic(Hosts(count=ranks), duration_s=0.0, seed=1)
    waits = traffic.awaited
    before: list[set[int]] = []
    for row in range(len(traffic)):
        before.append(set(waits[row]).union(*(before[one] for one in waits[row])))
    half = len(traffic) // 2
    for row in range(half, len(traffic)):
        rank = traffic.src[row]
        mine = {one for one in range(half) if rank in (traffic.src[one], traffic.dst[one])}
        assert mine <= before[row]
        assert (traffic.gap_s[row] == 1e-3) == any(one < half for one in waits[row])
    assert not traffic.gap_s[:half].any()


def test_rounds_give_no_rank_two_messages_at_once_and_together_gives_all() -> None:
    hosts = Hosts(count=5)
    for schedule, at_once in (("rounds", 1), ("together", 4)):
        traffic = AllToAll(schedule=schedule, iterations=2).traffic(hosts, duration_s=0.0, seed=1)
        starts, _ = deliver(traffic, STEP_S)
        crowd = Counter((round(start, 9), int(dst)) for start, dst in zip(starts, traffic.dst, strict=True))
        assert set(crowd.values()) == {at_once}


def test_groups_are_packed_or_spread_and_a_small_rest_stays_out() -> None:
    def groups(**options: Any) -> list[list[int]]:
        return [group.tolist() for group in RingAllReduce(**options).groups(Hosts(count=7))]

    assert groups() == [[0, 1, 2, 3, 4, 5, 6]]
    assert groups(group_size=3) == [[0, 1, 2], [3, 4, 5]]
    assert groups(group_size=3, placement="spread") == [[0, 2, 4], [1, 3, 5]]


@pytest.mark.parametrize(
    ("pattern", "busy_s"),
    [
        (RingAllReduce(size_bytes=4_000_000, compute_s=1e-3), 6 * 1_048_000 / 12.5e9),
        (AllToAll(each_bytes=1_000_000, compute_s=1e-3), 3 * 1_048_000 / 12.5e9),
    ],
)
def test_iterations_fill_the_duration_of_an_empty_network(
    pattern: RingAllReduce | AllToAll, busy_s: float
) -> None:
    hosts = Hosts(count=4)

    def iterations(duration_s: float) -> float:
        once = 6 * 4 if isinstance(pattern, RingAllReduce) else 3 * 4
        return len(pattern.traffic(hosts, duration_s=duration_s, seed=1)) / once

    assert iterations(10.01 * (1e-3 + busy_s)) == 10
    assert iterations(9.99 * (1e-3 + busy_s)) == 9
    assert iterations(0.0) == 1  # what is begun is finished


def test_ranks_compute_unevenly_where_asked() -> None:
    pattern = RingAllReduce(size_bytes=4000, compute_s=1e-3, compute_jitter=0.2, iterations=50)
    gaps = pattern.traffic(Hosts(count=4), duration_s=0.0, seed=1).gap_s
    computing = gaps[gaps > 0]
    assert len(computing) == len(set(computing.tolist())) == 49 * 4
    assert 0.8e-3 <= computing.min() < 0.82e-3
    assert 1.18e-3 < computing.max() <= 1.2e-3


@pytest.mark.parametrize(
    ("pattern", "options", "says"),
    [
        (RingAllReduce, {"size_bytes": 0}, "size_bytes: received 0"),
        (RingAllReduce, {"group_size": 1}, "group_size: received 1; it must be at least 2"),
        (RingAllReduce, {"group_size": 9}, "group_size: received 9; there are 8 hosts"),
        (RingAllReduce, {"placement": "anywhere"}, "known: packed, spread"),
        (RingAllReduce, {"compute_s": -1}, "compute_s: received -1"),
        (RingAllReduce, {"compute_jitter": 1.5}, "compute_jitter: received 1.5"),
        (RingAllReduce, {"compute_jitter": float("nan")}, "compute_jitter: received nan"),
        (RingAllReduce, {"iterations": 0}, "iterations: received 0"),
        (RingAllReduce, {"iterations": 10_000_000}, "at most 20000000"),
        (AllToAll, {"each_bytes": float("inf")}, "each_bytes: received inf"),
        (AllToAll, {"schedule": "never"}, "known: together, rounds"),
        (AllToAll, {"iterations": 200_000}, "schedule rounds"),
    ],
)
def test_options_that_make_no_collective_are_refused(
    pattern: Any, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ParameterError, match=says):
        pattern(**options).traffic(Hosts(count=8), duration_s=1e-3, seed=1)
