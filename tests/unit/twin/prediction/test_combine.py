"""Predictions combined over seeds, parts and window lengths."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.unit.twin.analytic_engine import AnalyticEngine
from tests.unit.twin.fabrics import star
from twin.prediction import Prediction, Slowdown, SolveStatus, averaged, pooled, stretched
from twin.watermark import Watermark

A, B, C = (Watermark(kmin, 10 * kmin, 0.1) for kmin in (10_000, 50_000, 200_000))
SCENARIO = star([(0, 1), (2, 1)])


def predicted(watermark: Watermark, *, seed: int = 1, duration_s: float = 0.02) -> Prediction:
    return AnalyticEngine().predict(SCENARIO.until(duration_s), [watermark], seed=seed)[0]


def test_seeds_average_every_figure() -> None:
    one, two = predicted(A, seed=1), predicted(A, seed=2)
    mean = averaged([one, two])
    assert mean.watermark == A
    assert mean.queue_mean_bytes == pytest.approx((one.queue_mean_bytes + two.queue_mean_bytes) / 2)
    assert mean.slowdown["mice"].p99 == pytest.approx(
        (one.slowdown["mice"].p99 + two.slowdown["mice"].p99) / 2
    )
    assert mean.slowdown["mice"].n == one.slowdown["mice"].n
    assert len(mean.port_queue_mean_bytes) == len(SCENARIO.monitored)
    assert averaged([one]) is one


def test_one_failed_seed_fails_the_candidate() -> None:
    failed = Prediction.failed(A, SolveStatus.DIVERGED)
    assert averaged([predicted(A), failed]) is failed
    assert pooled([predicted(A), failed]) is failed


def test_parts_pool_to_the_whole() -> None:
    small = replace(predicted(A), queue_mean_bytes=1e4, port_queue_mean_bytes=(1e4,), goodput_bytes_per_s=1e9)
    large = replace(
        predicted(A),
        queue_mean_bytes=4e4,
        port_queue_mean_bytes=(3e4, 5e4),
        goodput_bytes_per_s=3e9,
        loss_bytes=5.0,
        pfc_pause_s=0.1,
        slowdown={"mice": Slowdown(30, 2.0, 9.0), "elephant": Slowdown(0, math.nan, math.nan)},
    )
    small = replace(small, slowdown={"mice": Slowdown(10, 4.0, 7.0)})
    whole = pooled([small, large])
    assert whole.queue_mean_bytes == pytest.approx(3e4)
    assert whole.port_queue_mean_bytes == (1e4, 3e4, 5e4)
    assert whole.goodput_bytes_per_s == 4e9
    assert whole.loss_bytes == 5.0
    assert whole.pfc_pause_s == 0.1
    assert whole.slowdown["mice"] == Slowdown(40, 2.5, 9.0)
    assert whole.slowdown["elephant"].n == 0
    assert pooled([small]) is small
    assert pooled([replace(small, lasting_bytes_per_s=1e9), large]).lasting_bytes_per_s is None


def test_a_short_window_stretches_by_what_those_run_at_both_show() -> None:
    short = [predicted(one, duration_s=0.004) for one in (A, B, C)]
    full = [predicted(one) for one in (A, B, C)]
    stretch = stretched(short[:2], full[:2])
    estimate = stretch(short[2])
    assert estimate.watermark == C
    assert estimate.queue_mean_bytes == pytest.approx(full[2].queue_mean_bytes, rel=0.03)
    assert estimate.queue_mean_bytes != short[2].queue_mean_bytes
    assert estimate.slowdown["elephant"].n == full[2].slowdown["elephant"].n


def test_stretching_with_nothing_run_at_both_changes_no_figure() -> None:
    assert stretched([], [])(predicted(A)).queue_mean_bytes == predicted(A).queue_mean_bytes


def test_stretching_leaves_failures_and_fills_classes_the_short_window_lacked() -> None:
    full = predicted(B)
    stretch = stretched([replace(full, slowdown={})], [full])
    failed = Prediction.failed(A, SolveStatus.BUDGET)
    assert stretch(failed) is failed
    assert stretch(replace(predicted(A), slowdown={})).slowdown == full.slowdown
