"""Phases begin and end when they are told, and leave each other alone."""

from __future__ import annotations

import math

import pytest

from tests.unit.twin.traffic.making import flows_of
from twin.errors import ParameterError
from twin.traffic.base import Hosts
from twin.traffic.notation import Phase, Phases
from twin.traffic.patterns import Incast, Poisson
from twin.traffic.sizes import SizeDistribution

HOSTS = Hosts(count=8)
SMALL = Poisson(load=0.4, sizes=SizeDistribution.constant(1111))
SMALLER = Poisson(load=0.4, sizes=SizeDistribution.constant(777))
BURSTS = Incast(fan_in=3, each_bytes=64_000, period_s=1e-3)


def test_a_phase_lasts_until_its_end_or_the_next_that_begins_later() -> None:
    phases = Phases(
        (Phase(0.0, SMALL), Phase(0.0, BURSTS, 0.03), Phase(0.01, SMALL, 0.015), Phase(0.02, SMALLER))
    )
    assert phases.spans(0.05) == [(0.0, 0.01), (0.0, 0.03), (0.01, 0.015), (0.02, 0.05)]
    assert phases.spans(0.012) == [(0.0, 0.01), (0.0, 0.012), (0.01, 0.012), (0.012, 0.012)]


def test_flows_of_a_phase_start_within_it() -> None:
    phases = Phases((Phase(0.0, SMALL), Phase(0.01, SMALLER), Phase(0.01, BURSTS, 0.015)))
    flows = flows_of(phases.traffic(HOSTS, duration_s=0.02, seed=3))
    assert {size for _, _, size, _ in flows} == {1111, 777, 64_000}
    for size, begin, end in ((1111, 0.0, 0.01), (777, 0.01, 0.02), (64_000, 0.01, 0.015)):
        starts = [start for _, _, one, start in flows if one == size]
        assert begin <= min(starts) < begin + 1e-4
        assert end - 1.1e-3 < max(starts) <= end


def test_a_phase_that_begins_after_the_end_sends_nothing() -> None:
    phases = Phases((Phase(0.0, SMALL, 0.01), Phase(0.02, SMALLER)))
    assert {size for _, _, size, _ in flows_of(phases.traffic(HOSTS, duration_s=0.02, seed=3))} == {1111}


def test_a_phase_added_behind_leaves_the_others_as_they_were() -> None:
    first, second = Phase(0.0, SMALL, 0.01), Phase(0.0, BURSTS, 0.01)
    before = flows_of(Phases((first, second)).traffic(HOSTS, duration_s=0.03, seed=3))
    after = flows_of(Phases((first, second, Phase(0.02, SMALLER))).traffic(HOSTS, duration_s=0.03, seed=3))
    assert after[: len(before)] == before
    assert len(after) > len(before)


def test_phases_are_a_pattern_too() -> None:
    inner = Phases((Phase(0.0, SMALL), Phase(0.005, SMALLER)))
    outer = Phases((Phase(0.0, BURSTS), Phase(0.01, inner)))
    flows = flows_of(outer.traffic(HOSTS, duration_s=0.02, seed=3))
    assert min(start for _, _, size, start in flows if size == 1111) >= 0.01
    assert min(start for _, _, size, start in flows if size == 777) >= 0.015


@pytest.mark.parametrize(
    ("at_s", "until_s", "says"),
    [
        (-1.0, None, "at_s: received -1.0"),
        (math.nan, None, "at_s: received nan"),
        (1.0, 1.0, r"until_s: received 1.0; it is after at_s \(1.0\)"),
        (0.0, math.inf, "until_s: received inf"),
    ],
)
def test_times_that_make_no_phase_are_refused(at_s: float, until_s: float | None, says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        Phase(at_s, SMALL, until_s)


def test_no_phase_is_refused() -> None:
    with pytest.raises(ParameterError, match="no phase"):
        Phases(())


def test_a_phase_that_does_not_fit_the_hosts_is_named() -> None:
    phases = Phases((Phase(0.0, SMALL), Phase(0.0, Incast(fan_in=8))))
    with pytest.raises(ParameterError, match=r"traffic\[1\]: incast fan_in: received 8"):
        phases.traffic(HOSTS, duration_s=0.01, seed=1)
