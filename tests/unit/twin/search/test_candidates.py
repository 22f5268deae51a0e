"""Conformance of every sampler, and what each promises of its draws."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from telemetry.topology import GBPS
from twin.errors import ParameterError
from twin.search.candidates import (
    BiasedSampler,
    CandidateSampler,
    NarrowedSampler,
    Origin,
    Proposal,
    SpaceFillingSampler,
    fill,
    generator,
    lambda_for,
    truncated_log_normal,
    without_repeats,
)
from twin.search.vendor_table import VENDOR_TABLE, vendor_table
from twin.watermark import Watermark, WatermarkBounds

BASE = Watermark(400_000, 1_600_000, 0.2)
SAMPLERS: dict[str, CandidateSampler] = {
    "biased": BiasedSampler(BASE, 0.8),
    "space-filling": SpaceFillingSampler(),
    "narrowed": NarrowedSampler([BASE, Watermark(5_000, 200_000, 0.01)]),
}


def watermarks(max_kmax_bytes: int = 50_000_000) -> st.SearchStrategy[Watermark]:
    return st.tuples(
        st.integers(0, max_kmax_bytes - 1), st.integers(1, max_kmax_bytes), st.floats(1e-6, 1.0)
    ).map(lambda drawn: Watermark(min(drawn[0], drawn[1] - 1), drawn[1], drawn[2]))


@st.composite
def all_bounds(draw: st.DrawFn) -> WatermarkBounds:
    kmin_low, kmax_low = draw(st.integers(1, 3_000_000)), draw(st.integers(1, 9_000_000))
    kmax_high = draw(st.integers(max(kmax_low, kmin_low) + 1, 20_000_000))
    pmax_low = draw(st.floats(1e-4, 0.9))
    return WatermarkBounds(
        kmin_low,
        draw(st.integers(kmin_low + 1, 20_000_000)),
        kmax_low,
        kmax_high,
        pmax_low,
        draw(st.floats(pmax_low * 1.01, 1.0)),
    )


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
class TestEverySampler:
    def test_draws_as_many_as_asked_inside_the_bounds(self, sampler: CandidateSampler) -> None:
        drawn = sampler.draw(200, generator(1, 0))
        assert len(drawn) == 200
        assert all(WatermarkBounds().contains(watermark) for watermark in drawn)

    def test_draws_nothing_when_asked_for_nothing(self, sampler: CandidateSampler) -> None:
        assert sampler.draw(0, generator(1, 0)) == []

    def test_same_seed_same_draws_other_seed_others(self, sampler: CandidateSampler) -> None:
        first, again = sampler.draw(50, generator(1, 0)), sampler.draw(50, generator(1, 0))
        assert first == again
        assert sampler.draw(50, generator(2, 0)) != first

    def test_stages_of_one_round_draw_apart(self, sampler: CandidateSampler) -> None:
        assert sampler.draw(50, generator(1, 0)) != sampler.draw(50, generator(1, 1))

    def test_thresholds_are_readable(self, sampler: CandidateSampler) -> None:
        assert all(
            one.kmin_bytes % 1000 == one.kmax_bytes % 1000 == 0 for one in sampler.draw(100, generator(3, 0))
        )


@given(
    base=watermarks(),
    bounds=all_bounds(),
    seed=st.integers(0, 2**32),
    lambda_=st.sampled_from([0.8, 1.25, 1.5]),
)
def test_no_draw_leaves_the_bounds_wherever_the_base_is(
    base: Watermark, bounds: WatermarkBounds, seed: int, lambda_: float
) -> None:
    drawn = BiasedSampler(base, lambda_, bounds).draw(8, generator(seed, 0))
    near = NarrowedSampler([base], bounds).draw(8, generator(seed, 1))
    spread = SpaceFillingSampler(bounds).draw(8, generator(seed, 2))
    assert len(drawn) == len(near) == len(spread) == 8
    for watermark in (*drawn, *near, *spread):
        assert bounds.contains(watermark)
        assert watermark.kmin_bytes < watermark.kmax_bytes


def test_kmin_follows_the_truncated_law_and_does_not_heap_at_a_bound() -> None:
    bounds = WatermarkBounds(kmin_low_bytes=200_000, kmin_high_bytes=800_000)
    drawn = BiasedSampler(BASE, 1.0, bounds).draw(4_000, generator(5, 0))
    kmin = np.array([one.kmin_bytes for one in drawn], dtype=np.float64)
    low, high = np.log(200e3 / 400e3) / 1.2, np.log(800e3 / 400e3) / 1.2
    law = stats.truncnorm(low, high, loc=np.log(400e3), scale=1.2)
    assert (
        stats.kstest(np.log(kmin + np.random.default_rng(0).uniform(-500, 500, len(kmin))), law.cdf).pvalue
        > 0.01
    )
    assert np.count_nonzero(kmin == 200_000) < 20


@given(
    uniform=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20),
    median=st.floats(1, 1e9),
    low=st.floats(1, 1e6),
    width=st.floats(1.001, 1e4),
)
def test_truncation_is_inside_and_rises_with_the_uniform(
    uniform: list[float], median: float, low: float, width: float
) -> None:
    values = truncated_log_normal(np.sort(uniform), median, 1.2, low, low * width)
    assert np.all((values >= low) & (values <= low * width))
    assert np.all(np.diff(values) >= -1e-12 * values[1:])


@pytest.mark.parametrize("label", ["elephant", "potential_elephant", "mouse"])
def test_the_median_draw_is_lambda_times_the_base(label: str) -> None:
    lambda_ = lambda_for(label)
    wide = WatermarkBounds(1, 10**9, 2, 10**10)
    drawn = BiasedSampler(Watermark(50_000, 5_000_000, 0.1), lambda_, wide, sigma=0.5).draw(
        4_000, generator(6, 0)
    )
    assert np.median([one.kmin_bytes for one in drawn]) == pytest.approx(lambda_ * 50_000, rel=0.04)
    assert np.median([one.kmax_bytes for one in drawn]) == pytest.approx(lambda_ * 5_000_000, rel=0.04)


@pytest.mark.parametrize(
    ("base", "bounds"),
    [
        (Watermark(0, 200_000, 0.1), WatermarkBounds()),
        (Watermark(5_000, 400_000, 0.1), WatermarkBounds(kmin_low_bytes=100_000)),
    ],
    ids=["a Kmin of 0", "a Kmin below the bounds"],
)
def test_kmax_is_drawn_around_the_base_s_where_its_kmin_cannot_be(
    base: Watermark, bounds: WatermarkBounds
) -> None:
    for sampler in (BiasedSampler(base, 1.0, bounds), NarrowedSampler([base], bounds)):
        drawn = np.array([one.kmax_bytes for one in sampler.draw(2_000, generator(6, 0))])
        assert 0.5 < np.median(drawn) / base.kmax_bytes < 4.0


def test_lambda_of_each_class_and_of_none() -> None:
    assert [lambda_for(label) for label in ("elephant", "potential_elephant", "mouse")] == [1.5, 1.25, 0.8]
    with pytest.raises(ParameterError, match="known classes are elephant, mouse, potential_elephant"):
        lambda_for("cat")


def test_pmax_is_log_uniform_around_its_base() -> None:
    drawn = BiasedSampler(Watermark(100_000, 400_000, 0.05), 1.0, pmax_factor=10).draw(4_000, generator(7, 0))
    pmax = np.array([one.pmax for one in drawn])
    assert pmax.min() >= 0.005 - 1e-4
    assert pmax.max() <= 0.5 + 1e-4
    assert stats.kstest(np.log(pmax), stats.uniform(np.log(0.005), np.log(100)).cdf).pvalue > 0.01


def test_space_filling_draws_reach_every_corner() -> None:
    drawn = SpaceFillingSampler().draw(128, generator(1, 0))
    logs = np.log([[one.kmin_bytes, one.kmax_bytes / one.kmin_bytes, one.pmax] for one in drawn])
    # Eight boxes by the medians of the three axes: even draws leave none of them to chance.
    corner = (logs > np.median(logs, axis=0)) @ (1, 2, 4)
    assert np.bincount(corner, minlength=8).min() >= 8
    assert min(one.kmin_bytes for one in drawn) < 3_000
    assert max(one.kmin_bytes for one in drawn) > 3_000_000


def test_narrowed_draws_stay_near_their_leaders() -> None:
    leaders = [Watermark(20_000, 100_000, 0.1), Watermark(1_000_000, 8_000_000, 0.1)]
    drawn = NarrowedSampler(leaders).draw(200, generator(8, 0))
    for index, watermark in enumerate(drawn):
        leader = leaders[index % 2]
        assert abs(np.log(watermark.kmin_bytes / leader.kmin_bytes)) < 0.4 * 4.5
        assert leader.pmax / 2.51 <= watermark.pmax <= leader.pmax * 2.51


@pytest.mark.parametrize(
    "make",
    [
        lambda: BiasedSampler(BASE, 0.0),
        lambda: BiasedSampler(BASE, 1.0, sigma=0.0),
        lambda: BiasedSampler(BASE, 1.0, pmax_factor=0.5),
        lambda: NarrowedSampler([]),
        lambda: NarrowedSampler([BASE], sigma=float("nan")),
    ],
)
def test_settings_outside_their_meaning_are_refused(make: object) -> None:
    with pytest.raises(ParameterError):
        make()  # type: ignore[operator]


def test_repeats_keep_their_first_origin() -> None:
    known = [
        Proposal(BASE, Origin.INCUMBENT),
        Proposal(BASE, Origin.BASE),
        Proposal(BASE, Origin.VENDOR, "x"),
    ]
    assert without_repeats(known) == [Proposal(BASE, Origin.INCUMBENT)]


def test_filling_reaches_the_total_without_repeats() -> None:
    filled = fill([Proposal(BASE, Origin.INCUMBENT)], SAMPLERS["biased"], Origin.DRAWN, 100, generator(1, 0))
    assert len({one.watermark for one in filled}) == len(filled) == 100
    assert filled[0].origin is Origin.INCUMBENT
    assert {one.origin for one in filled[1:]} == {Origin.DRAWN}


def test_filling_bounds_too_tight_for_the_total_stops_short() -> None:
    bounds = WatermarkBounds(10_000, 10_001, 20_000, 20_001, 0.5, 0.5001)
    sampler = BiasedSampler(Watermark(10_000, 20_000, 0.5), 1.0, bounds)
    filled = fill([], sampler, Origin.DRAWN, 1_000, generator(1, 0))
    assert 0 < len(filled) < 1_000


def test_draws_are_the_same_in_another_process_with_another_hash_seed() -> None:
    program = (
        "import json; from twin.search.candidates import generator; "
        "from twin.search.candidates import BiasedSampler; from twin.watermark import Watermark; "
        "drawn = BiasedSampler(Watermark(400_000, 1_600_000, 0.2), 0.8).draw(20, generator(9, 0)); "
        "print(json.dumps([[w.kmin_bytes, w.kmax_bytes, w.pmax] for w in drawn]))"
    )
    here = [[w.kmin_bytes, w.kmax_bytes, w.pmax] for w in SAMPLERS["biased"].draw(20, generator(9, 0))]
    for hash_seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", program],
            cwd=Path(__file__).parents[4],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(ran.stdout) == here


@pytest.mark.parametrize("gbps", [10, 25, 40, 100, 200, 400, 800])
def test_the_vendor_table_speaks_to_every_rate(gbps: int) -> None:
    rows = vendor_table(gbps * GBPS)
    assert {"DCQCN paper", "NVIDIA Cumulus, Onyx"} <= {row.name for row in rows}
    assert all(row.source for row in rows)
    assert len({row.watermark for row in rows}) == len(rows)


def test_the_vendor_table_by_rate() -> None:
    hundred = {row.watermark for row in vendor_table(100 * GBPS)}
    assert Watermark(400_000, 1_600_000, 0.2) in hundred
    assert Watermark(131_072, 262_144, 0.05) not in hundred
    assert Watermark(131_072, 262_144, 0.05) in {row.watermark for row in vendor_table(400 * GBPS)}
    assert Watermark(100_000, 400_000, 0.2) in {row.watermark for row in vendor_table(25 * GBPS)}
    assert all(row.from_gbps <= row.to_gbps for row in VENDOR_TABLE)
