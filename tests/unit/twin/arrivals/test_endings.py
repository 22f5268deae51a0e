"""Ends of messages that outlast the window: told from those of others that ran as long."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from telemetry.state import FlowArrivals
from tests.unit.twin.arrivals.sampled import HOSTS, NIC, PACKET, arrivals
from twin.arrivals.endings import bytes_per_ending, endless_share
from twin.arrivals.model import Shape, modelled

UNTIL_S = 0.05
LEFT_BYTES = 4e6  # when the window opens, in the mean
SENDS_BYTES = 5e6  # in the window


def slow(count: int = 400, seed: int = 1) -> FlowArrivals:
    """Messages that ran before the window, of which two in three end in it."""
    left = np.random.default_rng(seed).exponential(LEFT_BYTES, count)
    sent = np.minimum(left, SENDS_BYTES)
    seen = arrivals(
        np.zeros(count),
        np.where(left <= SENDS_BYTES, sent, math.inf),
        np.maximum(np.round(sent / (64 * PACKET)), 1).astype(np.int64),
        [number % 4 for number in range(count)],
    )
    return replace(seen, sent_bytes=sent, last_s=UNTIL_S * sent / SENDS_BYTES)


def endless(count: int, sent_bytes: float = SENDS_BYTES) -> FlowArrivals:
    n = np.full(count, round(sent_bytes / (64 * PACKET)))
    seen = arrivals(np.zeros(count), np.full(count, math.inf), n, [0] * count)
    return replace(seen, sent_bytes=np.full(count, sent_bytes), last_s=np.full(count, UNTIL_S))


def small(count: int = 200) -> FlowArrivals:
    n = np.full(count, 8)
    seen = arrivals(np.zeros(count), n * 64 * PACKET, n, [number % 4 for number in range(count)])
    return replace(seen, last_s=np.full(count, 1e-3))


def test_messages_send_as_much_for_each_that_ends_as_one_has_left() -> None:
    assert bytes_per_ending(slow(), UNTIL_S) == pytest.approx(LEFT_BYTES, rel=0.1)
    assert endless_share(slow(), UNTIL_S) == 0.0


def test_those_that_never_end_have_no_end_because_small_ones_do() -> None:
    both = endless(4).and_then(small())
    assert bytes_per_ending(both, UNTIL_S) == math.inf
    assert endless_share(both, UNTIL_S) == pytest.approx(4 * SENDS_BYTES / both.sent_bytes.sum())


def test_a_few_endings_do_not_tell_that_others_end() -> None:
    assert bytes_per_ending(endless(16).and_then(slow(6)), UNTIL_S) == math.inf


def test_where_all_end_none_is_asked_for() -> None:
    assert endless_share(small(), UNTIL_S) == 0.0


def test_a_message_that_outlasts_the_window_sends_as_much_more_as_others_had_left() -> None:
    seen = slow(4000)
    found = modelled(
        seen,
        Shape.of(0.0),
        None,
        nic_bytes_per_s=dict.fromkeys(HOSTS, NIC),
        since_s=0.0,
        until_s=UNTIL_S,
        packet_bytes=PACKET,
    ).arrivals.wire_bytes[: len(seen)]
    outlast = np.isinf(seen.wire_bytes)
    more = found[outlast] - seen.sent_bytes[outlast]
    assert np.isfinite(found).all()
    assert more.min() > 0.0
    assert more.mean() == pytest.approx(LEFT_BYTES, rel=0.2)
