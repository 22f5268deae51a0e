"""The gain measured between windows, and its error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rollout.plan import Figures
from service.history.measured import Measured, measured_gain
from telemetry.network.figures import TrafficFigures, WindowFigures
from twin.prediction import BLOCKS, GainFigures
from twin.search.gain import POLICIES, Policy

USUAL = GainFigures(5e9, 4.0, 20.0, 10.0, 0.01, 0.002)


def window(share: float | None = 0.0, noise: float = 0.0, seed: int = 1, **changes: Any) -> Measured:
    figures = USUAL._replace(**changes)
    spread = np.random.default_rng(seed).normal(0, noise, BLOCKS)

    def shaken(by: float) -> GainFigures:
        slowdown = figures.elephant_slowdown
        return figures._replace(elephant_slowdown=None if slowdown is None else slowdown * math.exp(by))

    return Measured(figures, tuple(shaken(by) for by in spread.tolist()), share)


def gain(before: Measured, *after: Measured, policy: Policy | None = None) -> tuple[float, float]:
    found = measured_gain(before, after, policy or POLICIES["balanced"])
    assert found is not None
    return found


def jackknife(noise: float, seed: int, weight: float) -> float:
    spread = np.random.default_rng(seed).normal(0, noise, BLOCKS) * weight
    return math.sqrt((BLOCKS - 1) / (2 * BLOCKS) * float(np.sum(np.diff(spread) ** 2)))


def test_the_same_figures_before_and_after_are_no_gain_and_quiet_blocks_no_error() -> None:
    assert gain(window(), window()) == (0.0, 0.0)


def test_a_probe_that_slows_down_more_than_mice_is_measured_and_no_error() -> None:
    assert gain(window(), window(probe_p99_slowdown=20.0)) == (pytest.approx(-0.25 * math.log(2)), 0.0)


def test_a_gain_is_of_the_policy_and_of_each_figure_as_in_a_prediction() -> None:
    better = window(elephant_slowdown=2.0, mice_p99_slowdown=10.0, probe_p99_slowdown=5.0)
    assert gain(window(), better)[0] == pytest.approx(math.log(2))
    faster = window(elephant_slowdown=2.0)
    for name, share in (("balanced", 0.5), ("throughput", 0.8), ("latency", 0.2)):
        assert gain(window(), faster, policy=POLICIES[name])[0] == pytest.approx(share * math.log(2))
    assert gain(window(1.0), window(goodput_bytes_per_s=1e10))[0] == pytest.approx(0.5 * math.log(2))
    assert gain(window(0.5), faster)[0] == pytest.approx(0.25 * math.log(2))
    assert gain(window(), window(paused_share=0.03, loss_share=0.003))[0] == pytest.approx(-0.21)


def test_the_errors_of_before_and_after_are_independent() -> None:
    before, after = window(noise=0.1, seed=1), window(noise=0.2, seed=2)
    alone = jackknife(0.1, 1, 0.5), jackknife(0.2, 2, 0.5)
    assert gain(before, window())[1] == pytest.approx(alone[0])
    assert gain(window(), after)[1] == pytest.approx(alone[1])
    assert gain(before, after)[1] == pytest.approx(math.hypot(*alone))


def test_more_windows_after_reduce_their_error_alone() -> None:
    before = window(noise=0.1, seed=1)
    after = [
        window(noise=0.1, seed=seed, elephant_slowdown=4.0 * ratio) for seed, ratio in ((2, 2), (3, 0.5))
    ]
    value, error = gain(before, *after)
    assert value == pytest.approx(0.0)
    own = math.hypot(jackknife(0.1, 2, 0.5), jackknife(0.1, 3, 0.5)) / 2
    assert error == pytest.approx(math.hypot(jackknife(0.1, 1, 0.5), own))


def test_what_only_one_window_shows_counts_nothing_and_without_any_in_common_there_is_no_gain() -> None:
    assert gain(window(), window(elephant_slowdown=None))[0] == 0.0
    nothing = dict.fromkeys(GainFigures._fields[:4])
    assert measured_gain(window(), [window(**nothing)], Policy()) is None
    assert gain(window(), window(**nothing), window(probe_p99_slowdown=5.0))[0] == pytest.approx(
        0.25 * math.log(2)
    )


def test_counters_give_the_shares_paused_and_lost_of_every_block() -> None:
    traffic = TrafficFigures(1e9, 2.0, None, 3.0)
    found = WindowFigures(traffic, (traffic,) * BLOCKS, 0.25, 900.0)
    made = Measured.of(found, Figures(pause_share=0.02, drops_per_s=100.0))
    assert made.figures == GainFigures(1e9, 2.0, None, 3.0, 0.02, 0.1)
    assert made.without_block == (made.figures,) * BLOCKS
    assert made.persistent_share == 0.25
    blind = Measured.of(found, Figures()).figures
    assert (blind.paused_share, blind.loss_share) == (None, None)
