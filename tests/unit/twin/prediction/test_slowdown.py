"""Slowdown by class: completion against the time alone, unfinished flows at their age."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.twin.fabrics import star
from twin.engine import engine as made
from twin.prediction import ELEPHANT_FROM_BYTES, MOUSE_BELOW_BYTES, slowdown_by_class
from twin.watermark import Watermark

PAIRS = [(0, 1), (2, 3), (4, 5), (6, 7)]


def test_classes_go_by_payload_at_their_very_edges() -> None:
    sizes = [MOUSE_BELOW_BYTES - 1, MOUSE_BELOW_BYTES, ELEPHANT_FROM_BYTES - 1, ELEPHANT_FROM_BYTES]
    scenario = star(PAIRS, payload_bytes=sizes)
    found = slowdown_by_class(scenario, 2 * scenario.alone_s)
    assert {name: one.n for name, one in found.items()} == {"all": 4, "mice": 1, "medium": 2, "elephant": 1}
    assert all(one.mean == one.p99 == pytest.approx(2.0) for one in found.values())


def test_a_flow_still_running_counts_at_its_age() -> None:
    scenario = star(PAIRS[:2], payload_bytes=[2e6, 2e6], duration_s=0.02)
    found = slowdown_by_class(scenario, np.array([scenario.alone_s[0], math.nan]))
    age_s = 0.02 - scenario.flows.start_s[1]
    assert found["elephant"].mean == pytest.approx((1 + age_s / scenario.alone_s[1]) / 2)


def test_where_traffic_goes_on_a_running_flow_counts_at_what_it_sent() -> None:
    scenario = replace(star(PAIRS[:2], payload_bytes=[2e6, 2e6], duration_s=0.02), goes_on=True)
    ended, age_s = scenario.alone_s[0], 0.02 - scenario.flows.start_s[1]
    found = slowdown_by_class(scenario, np.array([ended, math.nan]), np.array([2e6, 5e5]))
    alone_s = star(PAIRS[:2], payload_bytes=[2e6, 5e5], duration_s=0.02).alone_s[1]
    assert found["elephant"].mean == pytest.approx((1 + age_s / alone_s) / 2)
    stalled = slowdown_by_class(scenario, np.array([ended, math.nan]), np.zeros(2))
    assert stalled["elephant"].mean == pytest.approx((1 + age_s / scenario.packet_alone_s[1]) / 2)


@pytest.mark.parametrize("engine", ["replay", "packet"])
def test_a_watermark_that_slows_what_runs_on_is_seen_to(engine: str) -> None:
    """Four elephants share a port until after the end: their age is the same under any watermark."""
    shared = star([(0, 1), (2, 1), (3, 1), (4, 1)], payload_bytes=3e7, duration_s=0.01)
    fast, slow = Watermark(400_000, 1_600_000, 0.2), Watermark(1_000, 3_000, 1.0)
    by_age, by_pace = (
        [
            one.gain_figures.elephant_slowdown or 0.0
            for one in made(engine).predict(scenario, [fast, slow], seed=1)
        ]
        for scenario in (shared, replace(shared, goes_on=True))
    )
    assert by_age[0] == pytest.approx(by_age[1])
    assert by_pace[1] > 1.02 * by_pace[0]
    assert by_pace[0] > by_age[0]


def test_persistent_flows_have_none() -> None:
    scenario = star(PAIRS[:2], payload_bytes=[math.inf, 5e4])
    found = slowdown_by_class(scenario, np.array([math.nan, 3 * scenario.alone_s[1]]))
    assert set(found) == {"all", "mice"}
    assert found["all"].n == 1
    nothing = star(PAIRS[:2], payload_bytes=[math.inf, math.inf])
    assert slowdown_by_class(nothing, np.array([math.nan, math.nan])) == {}


def test_flows_that_would_start_after_the_end_have_none() -> None:
    scenario = star(PAIRS[:3], payload_bytes=5e4, duration_s=0.02)
    late = replace(scenario, flows=replace(scenario.flows, start_s=np.array([0.0, 0.02, 5.0])))
    found = slowdown_by_class(late, np.array([2 * late.alone_s[0], math.nan, math.nan]))
    assert (found["all"].n, found["all"].mean) == (1, pytest.approx(2.0))


def test_what_is_left_of_a_flow_is_no_small_message() -> None:
    scenario = star(PAIRS, payload_bytes=[5e4, 5e4, 2e6, 2e6])
    rest = replace(scenario, flows=replace(scenario.flows, rest=np.array([True, False, True, False])))
    found = slowdown_by_class(rest, np.array([9.0, 2.0, 5.0, 3.0]) * scenario.alone_s)
    assert (found["mice"].n, found["mice"].p99) == (1, pytest.approx(2.0))
    assert (found["elephant"].n, found["elephant"].mean) == (2, pytest.approx(4.0))
    assert rest.flows.only(np.array([True, True, False, False])).rest.tolist() == [True, False]  # type: ignore[union-attr]


@given(st.lists(st.floats(1, 1e4), min_size=1, max_size=30))
def test_figures_are_the_mean_and_the_interpolated_percentile(factors: list[float]) -> None:
    scenario = star([(0, 1)] * len(factors), payload_bytes=5e4)
    found = slowdown_by_class(scenario, np.array(factors) * scenario.alone_s)["mice"]
    assert found.n == len(factors)
    assert found.mean == pytest.approx(np.mean(factors))
    assert found.p99 == pytest.approx(np.percentile(factors, 99))
