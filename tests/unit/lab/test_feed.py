"""Traffic in portions at times that do not depend on who takes them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lab.setup import Feed
from twin.traffic.base import Traffic


def flows(*starts: float) -> Traffic:
    return Traffic.independent(np.zeros(len(starts), int), np.ones(len(starts), int), 1_000, list(starts))


def test_portions_are_the_flows_of_their_time() -> None:
    feed = Feed(flows(0.0, 0.5, 1.0, 2.5), ahead_s=1.0)
    taken = []
    while feed.next_s < math.inf:
        at = feed.next_s
        taken.append((at, feed.take().start_s.tolist()))
    assert taken == [(0.0, [0.0, 0.5]), (1.0, [1.0]), (2.0, [2.5])]
    assert feed.offered == 4


def test_no_traffic_is_nothing_to_take() -> None:
    assert Feed(flows()).next_s == math.inf


@pytest.mark.parametrize("ahead_s", [0.1, 0.3, 1e9])
def test_no_flow_is_lost_or_late_between_portions(ahead_s: float) -> None:
    starts = np.arange(0, 1.7, 0.05)
    feed = Feed(flows(*starts), ahead_s=ahead_s)
    found: list[float] = []
    while feed.next_s < math.inf:
        at = feed.next_s
        portion = feed.take().start_s.tolist()
        assert all(at <= start < feed._portion * ahead_s for start in portion)
        found += portion
    assert found == starts.tolist()


def test_flows_that_wait_for_others_go_out_with_them() -> None:
    chain = Traffic(
        src=np.array([0, 1]),
        dst=np.array([1, 0]),
        payload_bytes=np.array([1e3, 1e3]),
        start_s=np.array([0.0, 5.0]),
        after_offset=np.array([0, 0, 1]),
        after=np.array([0]),
        gap_s=np.array([0.0, 1.0]),
    )
    feed = Feed(chain, ahead_s=1.0)
    assert len(feed.take()) == 2
    assert feed.next_s == math.inf
