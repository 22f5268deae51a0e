"""How much may be had: never more than the rate and the burst allow, and the wait that is told is enough."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from service.auth.rate_limit import RateLimit, RateLimits


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_burst_and_then_the_rate() -> None:
    clock = Clock()
    allowance = RateLimit(2.0, 3, clock_s=clock)
    assert [allowance.take() for _ in range(3)] == [0, 0, 0]
    assert allowance.take() == 0.5
    clock.now_s += 0.5
    assert allowance.take() == 0
    assert allowance.take() == 0.5
    clock.now_s += 60
    assert [allowance.take() for _ in range(4)] == [0, 0, 0, 0.5]


def test_more_than_there_was_is_owed() -> None:
    clock = Clock()
    allowance = RateLimit(100.0, 100.0, clock_s=clock)
    assert allowance.wait_s() == 0
    allowance.spend(1_000)
    assert allowance.wait_s() == 9
    clock.now_s += 9
    assert allowance.wait_s() == 0


@given(
    rate=st.floats(0.1, 1e4),
    burst=st.integers(1, 50),
    pauses_s=st.lists(st.floats(0, 5), min_size=1, max_size=60),
)
def test_never_more_than_the_rate_and_the_burst(rate: float, burst: int, pauses_s: list[float]) -> None:
    clock = Clock()
    allowance = RateLimit(rate, burst, clock_s=clock)
    begun_s, taken = clock.now_s, 0
    for pause_s in pauses_s:
        clock.now_s += pause_s
        wait_s = allowance.take()
        assert wait_s == 0 or wait_s <= 1 / rate + 1e-9
        taken += wait_s == 0
        assert taken <= burst + rate * (clock.now_s - begun_s) + 1e-6


@given(rate=st.floats(0.1, 1e4), burst=st.integers(1, 20), more=st.integers(1, 40))
def test_who_waits_as_told_is_served(rate: float, burst: int, more: int) -> None:
    clock = Clock()
    allowance = RateLimit(rate, burst, clock_s=clock)
    for _ in range(burst + more):
        wait_s = allowance.take()
        if wait_s:
            clock.now_s = math.nextafter(clock.now_s + wait_s + 1e-9, math.inf)
            assert allowance.take() == 0


def test_only_so_many_are_remembered_and_the_oldest_are_forgotten() -> None:
    clock = Clock()
    many = RateLimits(1.0, 1, most=3, clock_s=clock)
    for key in "abc":
        assert many.of(key).take() == 0
    assert many.of("a").take() > 0
    many.of("d")
    assert many.of("a").take() > 0, "it came lately"
    assert many.of("b").take() == 0, "it was forgotten"
