"""Chains found in what sampling shows of them, linked, and continued beyond the window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from telemetry.state import FlowArrivals
from tests.unit.twin.arrivals.sampled import HOSTS, NIC, sampled
from twin.arrivals.chains import Chained, chained, chains_of

NICS = dict.fromkeys((*HOSTS, *(f"a{number}" for number in range(8))), NIC)
SIZE = 5e6
LASTING_S = SIZE / NIC
UNTIL_S = 0.05


def of_pair(start_s: NDArray[np.float64], src: str = "h7", dst: str = "h0", seed: int = 1) -> FlowArrivals:
    """Messages of ``SIZE`` at line rate, 1 packet in 64 sampled."""
    seen = sampled(np.full(len(start_s), SIZE), start_s, 64, seed=seed)
    last_s = np.minimum(seen.start_s + LASTING_S * (1.0 - 1.0 / seen.n_samples), UNTIL_S)
    return replace(seen, src_host=(src,) * len(seen), dst_host=(dst,) * len(seen), last_s=last_s)


def in_turn(count: int, begin_s: float = 1e-3, pause_s: float = 0.0) -> NDArray[np.float64]:
    return begin_s + (LASTING_S + pause_s) * np.arange(count)


def test_transfers_one_after_the_other_are_a_chain_each_waiting_for_the_one_before() -> None:
    seen = of_pair(in_turn(40))
    pairs = chains_of(seen, NICS)
    assert pairs == {("h7", "h0")}
    found = chained(seen, pairs, NICS, 0.0, UNTIL_S)
    assert found is not None
    assert found.after[: len(seen)].tolist() == [-1, *range(39)]
    assert found.gap_s == pytest.approx(0.0, abs=10e-6)


def test_none_waits_for_one_without_end() -> None:
    endless = replace(of_pair(np.zeros(1)), wire_bytes=np.array([np.inf]), last_s=np.array([UNTIL_S]))
    both = endless.and_then(of_pair(in_turn(40)))
    found = chained(both, {("h7", "h0")}, NICS, 0.0, UNTIL_S)
    assert found is not None
    assert found.after[: len(both)].tolist() == [-1, -1, *range(1, 40)]


def added(found: Chained, seen: FlowArrivals) -> FlowArrivals:
    return found.arrivals.take(np.arange(len(seen), len(found.arrivals)))


def test_a_chain_goes_on_after_the_window_with_the_messages_seen_last() -> None:
    seen = of_pair(in_turn(40))
    since_s = in_turn(40)[29] - 1e-5
    found = chained(seen, chains_of(seen, NICS), NICS, since_s, UNTIL_S)
    assert found is not None
    more = added(found, seen)
    assert more.start_s.tolist() == [UNTIL_S] * len(more)
    assert more.wire_bytes[:22].tolist() == seen.wire_bytes[29:].tolist() * 2
    assert found.after[len(seen) :].tolist() == [39, *range(40, 39 + len(more))]


def test_a_slow_chain_does_not_run_out_of_messages_once_it_is_fast() -> None:
    """As under a low watermark: six transfers in a window, each at a ninth of line rate."""
    begins_s = 2e-3 + 8e-3 * np.arange(6)
    slow = of_pair(begins_s)
    slow = replace(slow, last_s=slow.start_s + 8e-3 * (1.0 - 1.0 / slow.n_samples))
    window = NIC * UNTIL_S
    alone = chained(slow, {("h7", "h0")}, NICS, 0.0, UNTIL_S)
    assert alone is not None
    assert 4.0 * window < added(alone, slow).wire_bytes.sum() < 4.0 * window + 2 * SIZE
    others = replace(slow, src_host=("h6",) * 6)
    both = chained(slow.and_then(others), {("h7", "h0"), ("h6", "h0")}, NICS, 0.0, UNTIL_S)
    assert both is not None
    assert 4.0 * window < added(both, slow.and_then(others)).wire_bytes.sum() < 4.0 * window + 4 * SIZE


def test_a_chain_of_hosts_that_the_topology_lacks_goes_on_once() -> None:
    seen = of_pair(in_turn(20), src="10.0.0.7", dst="10.0.0.8")
    found = chained(seen, {("10.0.0.7", "10.0.0.8")}, NICS, 0.0, UNTIL_S)
    assert found is not None
    assert len(added(found, seen)) == 1


def test_what_goes_on_has_an_end() -> None:
    seen = of_pair(in_turn(20))
    sending = replace(seen, wire_bytes=np.where(np.arange(20) < 19, seen.wire_bytes, np.inf))
    found = chained(sending, {("h7", "h0")}, NICS, 0.0, UNTIL_S)
    assert found is not None
    assert np.isfinite(added(found, seen).wire_bytes).all()
    assert added(found, seen).wire_bytes.sum() > 4.0 * NIC * UNTIL_S


def test_small_messages_beside_a_transfer_are_no_part_of_its_chain() -> None:
    transfers = of_pair(in_turn(20, pause_s=60e-6))
    small = of_pair(in_turn(20, begin_s=1.1e-3, pause_s=60e-6), seed=2)
    small = replace(
        small,
        sent_bytes=np.full(20, 3.4e5),
        wire_bytes=np.full(20, 3.4e5),
        n_samples=np.full(20, 5),
        last_s=small.start_s + 2e-5,
    )
    found = chained(transfers.and_then(small), {("h7", "h0")}, NICS, 0.0, UNTIL_S)
    assert found is not None
    assert found.after[:40].tolist() == [-1, *range(19), *[-1] * 20]


def test_two_chains_of_a_pair_at_once_are_told_apart() -> None:
    first, second = of_pair(in_turn(20)), of_pair(in_turn(20, begin_s=1.2e-3), seed=2)
    both = first.and_then(second)
    found = chained(both, chains_of(both, NICS), NICS, 0.0, UNTIL_S)
    assert found is not None
    assert found.after[:20].tolist() == [-1, *range(19)]
    assert found.after[20:40].tolist() == [-1, *range(20, 39)]


def test_the_usual_pause_between_transfers_is_kept() -> None:
    seen = of_pair(in_turn(30, pause_s=60e-6))
    found = chained(seen, chains_of(seen, NICS), NICS, 0.0, UNTIL_S)
    assert found is not None
    assert found.gap_s == pytest.approx(60e-6, abs=10e-6)


def test_a_transfer_after_a_long_pause_waits_for_the_one_before_and_as_long_again() -> None:
    # As in a ring all-reduce, whose hosts wait for their neighbours: some steps begin late.
    late = np.where(np.arange(40) % 4 == 3, 2e-3, 0.0)
    seen = of_pair(in_turn(40) + np.cumsum(late))
    pairs = chains_of(seen, NICS)
    assert pairs == {("h7", "h0")}
    found = chained(seen, pairs, NICS, 0.0, UNTIL_S)
    assert found is not None
    assert found.after[: len(seen)].tolist() == [-1, *range(39)]
    assert found.gap_s[: len(seen)] == pytest.approx(late, abs=20e-6)


def of_pairs(count: int, start_s: NDArray[np.float64]) -> FlowArrivals:
    every = of_pair(start_s, src="a0")
    for number in range(1, count):
        every = every.and_then(of_pair(start_s + 1e-4 * number, src=f"a{number}", seed=number + 1))
    return every


def test_a_pair_with_few_messages_is_judged_by_all() -> None:
    """As in a short window: two transfers each of six pairs."""
    assert len(chains_of(of_pairs(6, in_turn(2)), NICS)) == 6
    lonely = of_pair(in_turn(2)).and_then(of_pairs(6, in_turn(2, pause_s=2e-3)))
    assert chains_of(lonely, NICS) == frozenset()


def test_small_messages_that_sampling_shows_as_large_hide_no_chain() -> None:
    small = of_pair(np.linspace(1e-3, UNTIL_S - 1e-3, 40), src="h6", dst="h1")
    small = replace(
        small, sent_bytes=np.full(40, 3.4e5), wire_bytes=np.full(40, 3.4e5), n_samples=np.full(40, 5)
    )
    assert len(chains_of(of_pairs(6, in_turn(2)).and_then(small), NICS)) == 6


@pytest.mark.parametrize(
    "seen",
    [
        of_pair(in_turn(30, pause_s=1.1e-3)),
        of_pair(in_turn(4)),
        of_pair(1e-3 + 1e-6 * np.arange(40)),
        of_pair(np.sort(np.random.default_rng(1).uniform(0.0, UNTIL_S, 20))),
        replace(of_pair(in_turn(40)), sent_bytes=np.full(40, 1e5)),
        of_pair(np.empty(0)),
    ],
    ids=["long pauses", "few", "all at once", "by chance", "small", "none"],
)
def test_other_messages_are_no_chain(seen: FlowArrivals) -> None:
    assert chains_of(seen, NICS) == frozenset()
    assert chained(seen, chains_of(seen, NICS), NICS, 0.0, UNTIL_S) is None


def test_steps_of_a_collective_are_no_chains() -> None:
    """A sender begins messages to twelve receivers at once, again and again."""
    alone = [of_pair(in_turn(30), dst=f"d{to}", seed=to + 1) for to in range(12)]
    assert all(len(chains_of(seen, NICS)) == 1 for seen in alone)
    seen = alone[0]
    for more in alone[1:]:
        seen = seen.and_then(more)
    assert chains_of(seen, NICS) == frozenset()


def test_only_the_pairs_named_are_linked() -> None:
    both = of_pair(in_turn(20)).and_then(of_pair(in_turn(20), src="h6", seed=2))
    found = chained(both, {("h6", "h0")}, NICS, 0.0, UNTIL_S)
    assert found is not None
    assert set(np.flatnonzero(found.after[:40] >= 0).tolist()) == set(range(21, 40))
