"""Steps of collectives, found in what sampling shows of them and linked, also from one moment to the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from telemetry.state import FlowArrivals
from tests.unit.twin.arrivals.sampled import NIC, sampled
from tests.unit.twin.fabrics import star
from twin.arrivals.chains import chains_of, waiting_share
from twin.arrivals.in_a_row import in_a_row
from twin.arrivals.steps import in_turn, stepped, stepping
from twin.scenario import Scenario, Waits

RANKS = tuple(f"r{number}" for number in range(12))
NICS = dict.fromkeys(RANKS, NIC)
SIZE, UNTIL_S = 2e6, 0.05
ALONE_S = SIZE / NIC


def sent(src: str, dst: str, start_s: NDArray[np.float64], lasting_s: float, seed: int) -> FlowArrivals:
    """Messages of ``SIZE`` sent evenly over ``lasting_s``, 1 packet in 64 sampled."""
    rng = np.random.default_rng(seed)
    seen = sampled(np.full(len(start_s), SIZE), start_s, 64, seed=seed)
    at_s = [np.sort(rng.uniform(0.0, lasting_s, count)) for count in seen.n_samples]
    began_s = start_s + np.array([one[0] for one in at_s]) - seen.sent_bytes / (seen.n_samples + 1) / NIC
    return replace(
        seen,
        src_host=(src,) * len(seen),
        dst_host=(dst,) * len(seen),
        start_s=np.maximum(began_s, 1e-8),
        last_s=start_s + np.array([one[-1] for one in at_s]),
    )


def in_order(parts: Iterator[FlowArrivals]) -> FlowArrivals:
    every = next(parts)
    for more in parts:
        every = every.and_then(more)
    return every.take(np.argsort(every.start_s, kind="stable"))


def all_to_all(steps: int = 9, pause_s: float = 0.0, lasting_s: float = 5e-3) -> FlowArrivals:
    """Every rank sends to all others at once, again and again."""
    start_s = 1e-3 + (5e-3 + pause_s) * np.arange(steps)
    return in_order(
        sent(src, dst, start_s, lasting_s, 100 * at + to)
        for at, src in enumerate(RANKS)
        for to, dst in enumerate(RANKS)
        if src != dst
    )


def ring(steps: int = 40) -> FlowArrivals:
    """Every rank sends to the next once it sent and received the message before."""
    rng = np.random.default_rng(5)
    start_s, found = np.full(len(RANKS), 1e-3), []
    for _ in range(steps):
        lasting_s = ALONE_S * rng.uniform(1.0, 3.0, len(RANKS))
        found.append((start_s, lasting_s))
        start_s = np.maximum(start_s + lasting_s, np.roll(start_s + lasting_s, 1))
    return in_order(
        sent(src, RANKS[(at + 1) % len(RANKS)], begins_s[at : at + 1], float(lasting_s[at]), 1000 * step + at)
        for step, (begins_s, lasting_s) in enumerate(found)
        for at, src in enumerate(RANKS)
    )


def by_chance(count: int = 500, seed: int = 3) -> FlowArrivals:
    rng = np.random.default_rng(seed)
    pairs = rng.choice(len(RANKS), (count, 2))
    starts_s = rng.uniform(0.0, UNTIL_S, count)
    return in_order(
        sent(RANKS[a], RANKS[b], starts_s[at : at + 1], float(rng.uniform(1, 10)) * ALONE_S, at)
        for at, (a, b) in enumerate(pairs.tolist())
        if a != b
    )


def with_one_start(seen: FlowArrivals, starts_s: NDArray[np.float64]) -> FlowArrivals:
    """As the model gives it, which undoes sampling: messages of a step begin together."""
    nearest = np.abs(seen.start_s[:, None] - starts_s).argmin(axis=1)
    return replace(seen, start_s=starts_s[nearest])


@pytest.mark.parametrize("seen", [all_to_all(), ring()], ids=["all-to-all", "ring"])
def test_steps_are_told_from_other_messages_of_the_same_hosts(seen: FlowArrivals) -> None:
    others = by_chance(100)
    every = seen.and_then(others)
    order = np.argsort(every.start_s, kind="stable")
    member = stepping(every.take(order), NICS)
    collective = order < len(seen)
    assert np.mean(member[collective]) > 0.9
    assert np.mean(member[~collective]) < 0.25
    assert waiting_share(every.take(order), NICS) == pytest.approx(0.0, abs=0.1)
    assert not chains_of(every.take(order), NICS)


def test_messages_that_begin_by_chance_are_no_steps() -> None:
    seen = by_chance()
    assert not stepping(seen, NICS).any()
    assert stepped(seen, 0.0, UNTIL_S) is None


@pytest.mark.parametrize(
    "seen",
    [all_to_all(pause_s=8e-3, steps=4), all_to_all(lasting_s=12e-3)],
    ids=["long pauses", "before the last is over"],
)
def test_steps_that_something_else_begins_do_not_wait(seen: FlowArrivals) -> None:
    assert not stepping(seen, NICS).any()


def test_a_step_waits_for_all_that_its_host_sent_and_received_in_the_one_before() -> None:
    starts_s = 1e-3 + 5.2e-3 * np.arange(9)
    seen = with_one_start(all_to_all(pause_s=0.2e-3), starts_s)
    found = stepped(seen, 0.0, UNTIL_S)
    assert found is not None
    assert found.gap_s == pytest.approx(0.2e-3, abs=0.05e-3)
    row = int(np.flatnonzero((seen.start_s == starts_s[3]) & (np.array(seen.src_host) == "r4"))[0])
    waited_for = found.after[row][found.after[row] >= 0]
    assert set(seen.start_s[waited_for]) == {starts_s[2]}
    assert {(seen.src_host[at], seen.dst_host[at]) for at in waited_for.tolist()} == {
        pair for other in RANKS if other != "r4" for pair in (("r4", other), (other, "r4"))
    }


def test_a_ring_waits_for_its_own_message_and_the_one_received() -> None:
    seen = ring()
    assert len(in_turn(seen)) == pytest.approx(len(seen), rel=0.05)
    found = stepped(seen, 0.0, UNTIL_S)
    assert found is not None
    waited_for = [row[row >= 0].tolist() for row in found.after[: len(seen)]]
    pairs = {(seen.src_host[at], seen.dst_host[at]) for at in waited_for[len(seen) // 2]}
    at = RANKS.index(seen.src_host[len(seen) // 2])
    assert pairs <= {(RANKS[at], RANKS[(at + 1) % 12]), (RANKS[at - 1], RANKS[at])}
    assert np.mean([len(rows) == 2 for rows in waited_for]) > 0.6


def test_steps_come_once_more_after_the_window_for_as_long_as_they_were_seen() -> None:
    starts_s = 1e-3 + 5e-3 * np.arange(9)
    seen = with_one_start(all_to_all(), starts_s)
    found = stepped(seen, starts_s[4] - 1e-4, UNTIL_S)
    assert found is not None
    added = np.arange(len(seen), len(found.arrivals))
    assert len(added) == pytest.approx(5 * 12 * 11, rel=0.02)  # three sigmas leave out three messages of 990
    waited_for = found.after[added]
    assert np.all((waited_for >= 0).any(axis=1))
    seen_before = waited_for[(waited_for >= 0) & (waited_for < len(seen))]
    assert set(seen.start_s[seen_before]) == {starts_s[8]}


def test_from_moment_to_moment_a_first_step_waits_for_the_last_of_its_host() -> None:
    """Two hosts that send to each other, twice; a third sends by itself."""
    pairs = [(0, 1), (1, 0), (2, 3), (0, 1), (1, 0)]
    waits = Waits.of(np.array([[-1, -1], [-1, -1], [-1, -1], [0, 1], [0, 1]]), np.full(5, 1e-5))
    moment = star(pairs)
    flows = replace(moment.flows, start_s=moment.flows.start_s + 1e-4, waits=waits)
    moment = replace(moment, flows=flows)
    found = in_a_row([moment, replace(moment, name="older")]).flows
    assert found.waits is not None
    assert [sorted(row[row >= 0].tolist()) for row in found.waits.every] == [
        *([], [], [], [0, 1], [0, 1]),
        *([3, 4], [3, 4], [], [5, 6], [5, 6]),
    ]


def test_rows_left_out_are_waited_for_no_more() -> None:
    scenario: Scenario = star([(0, 1), (2, 3), (4, 5)])
    waits = Waits.of(np.array([[-1, -1], [-1, -1], [0, 1]]), np.zeros(3))
    flows = replace(scenario.flows, waits=waits)
    left = flows.only(np.array([False, True, True])).waits
    assert left is not None
    assert left.every.tolist() == [[-1], [0]]
    assert flows.only(np.array([False, False, True])).waits is None
