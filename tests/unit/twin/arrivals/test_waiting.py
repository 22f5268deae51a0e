"""Which traffic waits: told from when its large messages begin and end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from telemetry.state import FlowArrivals
from tests.unit.twin.arrivals.sampled import HOSTS, NIC, PACKET, arrivals, sampled
from twin.arrivals.links import links_of, waiting_share

NICS = dict.fromkeys(HOSTS, NIC)
MEGABYTE = 1e6


def share_of(seen: FlowArrivals) -> float | None:
    return waiting_share(seen, links_of(seen, NICS), NICS)


def transfers(start_s: np.ndarray, one_in: int = 64) -> FlowArrivals:
    return sampled(np.full(len(start_s), MEGABYTE), start_s, one_in)


def test_transfers_that_start_by_chance_do_not_wait() -> None:
    rng = np.random.default_rng(1)
    share = share_of(transfers(np.sort(rng.uniform(0.0, 0.05, 400))))
    assert share is not None
    assert share < 0.3


def follow_each_other(count: int) -> FlowArrivals:
    """Transfers of one pair."""
    lasting_s = MEGABYTE / NIC
    start_s = np.arange(count) * lasting_s
    found = arrivals(start_s, np.full(count, MEGABYTE), np.full(count, 15), [0] * count)
    return replace(found, src_host=("h7",) * count, last_s=start_s + 0.95 * lasting_s)


def test_transfers_of_a_chain_wait_in_a_replay_too() -> None:
    assert share_of(follow_each_other(200)) == 0.0


def test_transfers_too_few_for_a_chain_wait() -> None:
    """Two of each of three pairs, and one each of 18."""
    every = follow_each_other(2)
    for number in range(20):
        more = follow_each_other(2 if number < 2 else 1)
        every = every.and_then(replace(more, src_host=(f"other {number}",) * len(more)))
    assert share_of(every) == pytest.approx(3 / 24)


def test_messages_that_a_sender_begins_together_wait() -> None:
    """From each of four senders sixteen at a time: twice is too seldom to be taken for an all-to-all."""
    start_s = np.repeat([0.0, 5e-3], 64) + 1e-6 * np.tile(np.arange(64), 2)
    share = share_of(transfers(start_s))
    assert share is not None
    assert share > 0.8


def slow_ones(last_s: np.ndarray) -> FlowArrivals:
    """Of each of four senders forty that ran before the window, each sample half a millisecond after another:
    all first samples follow soon after its start.
    """
    n = np.full(160, 20)
    found = arrivals(np.zeros(160), np.full(160, MEGABYTE), n, [number % 3 for number in range(160)])
    return replace(found, last_s=last_s)


def test_slow_messages_that_ran_before_the_window_do_not_wait() -> None:
    share = share_of(slow_ones(np.random.default_rng(2).uniform(0.01, 0.05, 160)))
    assert share is not None
    assert share < 0.3


def test_they_wait_where_a_sender_ends_them_together() -> None:
    share = share_of(slow_ones(np.full(160, 0.01)))
    assert share is not None
    assert share > 0.8


@pytest.mark.parametrize(
    "seen",
    [
        transfers(np.linspace(0.0, 0.05, 5)),
        transfers(np.linspace(0.0, 0.05, 400), one_in=1024),
        sampled(np.full(400, 2 * PACKET), np.linspace(0.0, 0.05, 400), 1),
        arrivals(np.empty(0), np.empty(0), np.empty(0, np.int64), []),
    ],
    ids=["few", "seen too coarsely", "small", "none"],
)
def test_it_is_not_known_of_few_or_small_or_coarsely_seen_messages(seen: FlowArrivals) -> None:
    assert share_of(seen) is None
