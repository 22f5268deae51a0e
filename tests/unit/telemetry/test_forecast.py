"""Forecasts of ports: the method that erred least is taken, and its errors are those it had."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from telemetry.forecast import DAY_S, Forecast, forecasts, needed, predictable

STEP_S = 1_800
DAY = DAY_S // STEP_S
UNBOUNDED = np.inf


def one(history: NDArray[np.float64], *, ahead: int, most: float = UNBOUNDED) -> Forecast:
    (found,) = forecasts(history[None], ahead=ahead, step_s=STEP_S, most=np.array([most]))
    return found


def days(count: int, noise: float = 0.0, seed: int = 1) -> NDArray[np.float64]:
    """So many alike days, with a peak at noon."""
    steps = np.arange(count * DAY)
    wave = 100.0 - 80.0 * np.cos(2 * np.pi * steps / DAY)
    return np.asarray(wave + noise * np.random.default_rng(seed).normal(size=len(steps)))


def test_what_never_changes_is_forecast_without_an_error() -> None:
    found = one(np.full(60, 7.0), ahead=10)
    for values in (found.values, found.low, found.high):
        assert values == pytest.approx(np.full(10, 7.0))
    assert found.errors == pytest.approx(np.zeros(10))
    assert found.now == 7


def test_days_that_are_alike_are_forecast_by_the_time_of_day() -> None:
    full = days(6)
    found = one(full[: -DAY + 5], ahead=DAY - 5)
    assert "day" in found.method
    assert found.values == pytest.approx(full[-DAY + 5 :])


def test_of_noisy_days_several_are_smoothed_and_of_less_than_three_none() -> None:
    assert one(days(10, noise=20.0), ahead=DAY).method == "days before, smoothed"
    assert "day" not in one(days(3, noise=20.0)[1:], ahead=DAY // 2).method


def test_weekends_are_forecast_by_the_week() -> None:
    weeks = days(28) * np.repeat(np.where(np.arange(28) % 7 < 5, 1.0, 0.2), DAY)
    found = one(weeks[: -DAY * 2], ahead=DAY)  # a Friday's end
    assert found.method == "a week before"
    assert found.values == pytest.approx(weeks[-DAY * 2 : -DAY])


def test_noise_around_a_level_is_smoothed_and_a_walk_is_not() -> None:
    random = np.random.default_rng(2)
    assert one(100 + random.normal(size=300), ahead=10).method == "smoothed strongly"
    assert one(100 + np.cumsum(random.normal(size=300)), ahead=10).method == "last value"


def test_errors_are_those_of_the_past_at_that_distance() -> None:
    walk = 1_000 + np.cumsum(np.random.default_rng(3).normal(size=140))  # of less than three days
    found = one(walk, ahead=40)
    assert found.method == "last value"
    for distance in (1, 40):
        missed = walk[40:] - walk[40 - distance : len(walk) - distance]
        assert found.errors[distance - 1] == pytest.approx(np.abs(missed).mean())
        inside = (missed >= (found.low - found.values)[distance - 1]) & (
            missed <= (found.high - found.values)[distance - 1]
        )
        assert inside.mean() >= 0.95


def test_the_band_holds_about_what_it_says() -> None:
    random = np.random.default_rng(4)
    full = np.array([days(9, noise=15.0, seed=number) for number in range(60)])
    full += random.gamma(1.0, 10.0, size=full.shape)
    past, came = full[:, : -DAY // 2], full[:, -DAY // 2 :]
    found = forecasts(past, ahead=DAY // 2, step_s=STEP_S, most=np.full(60, UNBOUNDED))
    inside = [(one.low <= real) & (real <= one.high) for one, real in zip(found, came, strict=True)]
    assert 0.92 <= np.mean(inside) <= 0.999
    said = np.mean([one.errors for one in found])
    erred = np.mean([np.abs(one.values - real) for one, real in zip(found, came, strict=True)])
    assert said == pytest.approx(erred, rel=0.1)


def test_nothing_is_forecast_below_nought_or_over_the_rate() -> None:
    found = one(days(6, noise=60.0), ahead=DAY, most=150.0)
    every = np.concatenate([found.values, found.low, found.high])
    assert (every.min(), every.max()) == (0, 150)


def test_each_port_has_its_own_method_in_the_order_given() -> None:
    random = np.random.default_rng(5)
    rows = [days(6), 100 + random.normal(size=6 * DAY), np.full(6 * DAY, 3.0)] * 2
    found = forecasts(np.array(rows), ahead=6, step_s=STEP_S, most=np.full(6, UNBOUNDED))
    methods = [one.method for one in found]
    assert methods[:3] == methods[3:]
    assert "day" in methods[0]
    assert methods[1] == "smoothed strongly"
    assert found[2].values == pytest.approx(np.full(6, 3.0))


def test_steps_that_were_not_measured_are_left_out_of_the_errors() -> None:
    whole = days(6)
    gaps = whole.copy()
    gaps[np.random.default_rng(6).permutation(len(gaps))[: len(gaps) // 5]] = np.nan
    gaps[-1] = np.nan
    found = one(gaps, ahead=DAY // 2)
    assert not np.isnan(np.concatenate([found.values, found.low, found.high, found.errors])).any()
    assert "day" in found.method


def test_half_of_the_later_half_is_known_or_there_is_no_forecast() -> None:
    history = np.zeros((3, 100))
    history[1, 50:76] = np.nan
    history[2, :75] = np.nan
    assert predictable(history).tolist() == [True, False, True]
    (found,) = forecasts(history[2:], ahead=needed(1) // 3, step_s=STEP_S, most=np.array([1.0]))
    assert found.values.tolist() == [0.0] * len(found.values)


@pytest.mark.parametrize("weeks", [1, 3])
def test_of_no_port_there_is_no_forecast(weeks: int) -> None:
    history = np.zeros((0, weeks * 7 * DAY))
    assert forecasts(history, ahead=10, step_s=STEP_S, most=np.zeros(0)) == []
