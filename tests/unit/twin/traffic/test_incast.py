"""Incast bursts: as many senders as asked, one receiver, in time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from twin.errors import ParameterError
from twin.traffic.base import Hosts
from twin.traffic.patterns import Incast

HOSTS = Hosts(count=12)


def bursts(pattern: Incast, seed: int = 1) -> list[tuple[set[int], set[int], float, float]]:
    """Senders, receivers, first and last start of each burst of 10 ms."""
    traffic = pattern.traffic(HOSTS, duration_s=0.01, seed=seed)
    number = np.floor(traffic.start_s / pattern.period_s + 1e-9)
    return [
        (
            set(traffic.src[number == one].tolist()),
            set(traffic.dst[number == one].tolist()),
            float(traffic.start_s[number == one].min()),
            float(traffic.start_s[number == one].max()),
        )
        for one in np.unique(number)
    ]


def test_every_burst_is_many_different_senders_to_one_receiver() -> None:
    found = bursts(Incast(fan_in=8, each_bytes=64_000, period_s=500e-6, jitter_s=20e-6))
    assert len(found) == 20
    for number, (senders, receivers, first, last) in enumerate(found):
        assert len(senders) == 8
        assert len(receivers) == 1
        assert not senders & receivers
        assert number * 500e-6 <= first <= last <= number * 500e-6 + 20e-6
    assert any(last > first for _, _, first, last in found)


def test_receivers_take_turns_unless_one_is_named() -> None:
    turning = [receiver for _, (receiver,), _, _ in bursts(Incast())]
    assert set(turning) == set(range(12))
    assert [(b - a) % 12 for a, b in pairwise(turning)] == [1] * 19
    assert {receiver for _, (receiver,), _, _ in bursts(Incast(receiver=3))} == {3}


def test_senders_are_drawn_anew_each_burst() -> None:
    assert len({frozenset(senders) for senders, _, _, _ in bursts(Incast(receiver=0, fan_in=4))}) > 10


def test_without_jitter_all_start_at_once() -> None:
    traffic = Incast(jitter_s=0.0, period_s=1e-3).traffic(HOSTS, duration_s=2e-3, seed=1)
    assert set(traffic.start_s.tolist()) == {0.0, 1e-3}
    assert set(traffic.payload_bytes.tolist()) == {64_000.0}


def test_a_burst_that_would_end_late_is_left_out() -> None:
    pattern = Incast(period_s=1e-3, jitter_s=0.5e-3, fan_in=1)
    assert len(pattern.traffic(HOSTS, duration_s=1.4e-3, seed=1)) == 1
    assert len(pattern.traffic(HOSTS, duration_s=1.6e-3, seed=1)) == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"fan_in": 0}, "fan_in: received 0"),
        ({"fan_in": 12}, "fan_in: received 12; 12 hosts have 11 senders for a receiver"),
        ({"each_bytes": -1}, "each_bytes: received -1"),
        ({"period_s": 0}, "period_s: received 0"),
        ({"jitter_s": 1.0}, "jitter_s: received 1.0; a burst is over before the next"),
        ({"jitter_s": -1.0}, "jitter_s: received -1.0"),
        ({"receiver": 12}, "receiver: received 12"),
        ({"receiver": 1.5}, "receiver: received 1.5; it is a whole number"),
        ({"period_s": 1e-12, "jitter_s": 0}, "at most 20000000"),
    ],
)
def test_options_that_make_no_burst_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        Incast(**options).traffic(HOSTS, duration_s=0.01, seed=1)
