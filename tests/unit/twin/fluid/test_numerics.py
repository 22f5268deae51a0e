"""The scheme: its order, the slow oracle, the published solutions, lanes that do not see each other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles.dde_dcqcn import Dcqcn, Port, solve
from tests.unit.twin.fluid.problems import STEADY, flow, same, star
from twin.fluid.model import FluidEngine
from twin.prediction import Prediction
from twin.scenario import Scenario
from twin.scenario_file import load_scenario
from twin.watermark import Watermark

FLOWS = [flow("h0", "h3", rate_gbps=14), flow("h1", "h3", rate_gbps=14), flow("h2", "h3", rate_gbps=13)]
# Wide and from zero: the queue never leaves the ramp, so the solution is as smooth as a delay allows.
SMOOTH = Watermark(0, 3_000_000, 0.03)


def smooth(duration_s: float) -> Scenario:
    return star(FLOWS, dcqcn=replace(STEADY, feedback_delay_s=80e-6), duration_s=duration_s)


def end_queue(scenario: Scenario, watermark: Watermark, steps_a_delay: int) -> float:
    delay = scenario.dcqcn.feedback_delay_s
    assert delay is not None
    engine = FluidEngine(step_s=delay / steps_a_delay)
    return float(engine.trajectory(scenario, watermark, seed=0, sample_s=delay).queue_bytes[0, -1])


def test_the_scheme_is_of_second_order() -> None:
    scenario = smooth(1.6e-3)  # 20 delays, a whole number of samples
    steps = np.array([8, 16, 32, 64, 128])
    finest = end_queue(scenario, SMOOTH, 2048)
    errors = [abs(end_queue(scenario, SMOOTH, count) - finest) for count in steps]
    order = np.polyfit(np.log(1.0 / steps), np.log(errors), 1)[0]
    assert 1.95 < order < 2.1


def oracle_port(watermark: Watermark) -> Port:
    return Port(5e6, watermark.kmin_bytes / 1000, watermark.kmax_bytes / 1000, watermark.pmax)


@pytest.mark.parametrize("byte_counter_bytes", [10_000_000.0, 150_000.0, None])
@pytest.mark.parametrize(
    "watermark", [SMOOTH, Watermark(5_000, 200_000, 0.1), Watermark(20_000, 60_000, 0.02)], ids=str
)
def test_it_follows_the_slow_oracle(watermark: Watermark, byte_counter_bytes: float | None) -> None:
    params = replace(STEADY, feedback_delay_s=80e-6, byte_counter_bytes=byte_counter_bytes, gain=1 / 16)
    scenario = star(FLOWS, dcqcn=params, duration_s=4e-3)
    sender = Dcqcn(
        gain=1 / 16, tau=50e-6, tau_prime=55e-6, timer=55e-6, stages=5, additive=5_000.0, delay=80e-6,
        line_rate=5e6, byte_counter=None if byte_counter_bytes is None else byte_counter_bytes / 1000,
    )  # fmt: skip
    start = np.array([14.0, 13.0]) * 125_000.0
    times, states = solve(
        sender, oracle_port(watermark), np.array([2.0, 1.0]), start, duration=4e-3, steps_a_delay=40
    )
    engine = FluidEngine(step_s=0.5e-6)
    ours = engine.trajectory(scenario, watermark, seed=0, sample_s=10e-6)
    theirs = np.interp(ours.time_s, times, states[:, 0]) * 1000
    assert np.abs(ours.queue_bytes[0] - theirs).max() < 2e-3 * theirs.max()


def test_an_alpha_timer_and_stages_of_its_own_are_followed_too() -> None:
    params = replace(
        STEADY,
        feedback_delay_s=80e-6,
        alpha_timer_s=20e-6,
        gain=1 / 16,
        initial_alpha=0.3,
        fast_recovery_steps=3,
    )
    scenario = star(FLOWS, dcqcn=params, duration_s=4e-3)
    sender = Dcqcn(1 / 16, 50e-6, 20e-6, 55e-6, 10_000.0, 3, 5_000.0, 80e-6, 5e6, initial_alpha=0.3)
    start = np.array([14.0, 13.0]) * 125_000.0
    times, states = solve(
        sender, oracle_port(SMOOTH), np.array([2.0, 1.0]), start, duration=4e-3, steps_a_delay=80
    )
    ours = FluidEngine(step_s=1e-6).trajectory(scenario, SMOOTH, seed=0)
    theirs = np.interp(ours.time_s, times, states[:, 0]) * 1000
    assert np.abs(ours.queue_bytes[0] - theirs).max() < 1e-3 * theirs.max()


@pytest.mark.parametrize("watermark", [SMOOTH, Watermark(5_000, 200_000, 0.1)], ids=str)
def test_short_cuts_for_a_lone_port_change_nothing(watermark: Watermark) -> None:
    # PFC that never pauses takes the long way: NICs, shares and packets followed to the receiver.
    lone = star(FLOWS, dcqcn=replace(STEADY, feedback_delay_s=80e-6), duration_s=4e-3, buffer_bytes=1e12)
    engine, followed = FluidEngine(step_s=5e-6), replace(lone, pfc=True)
    [short], [long] = (engine.predict(scenario, [watermark], seed=1) for scenario in (lone, followed))
    assert figures(short) == pytest.approx(figures(long), rel=1e-9)


@pytest.mark.accuracy
def test_peaks_of_the_published_solutions(reference: Path) -> None:
    scenario = load_scenario(reference / "published-2flow.scenario.json")
    truth = json.loads((reference / "published-2flow.truth.json").read_text())["results"]
    watermarks = [Watermark(row["kmin_bytes"], row["kmax_bytes"], row["pmax"]) for row in truth]
    for engine in (FluidEngine(), FluidEngine(step_s=1e-6)):
        for predicted, row in zip(engine.predict(scenario, watermarks, seed=1), truth, strict=True):
            assert predicted.queue_peak_bytes == pytest.approx(row["queue_peak_bytes"], rel=1e-3)


def figures(prediction: Prediction) -> list[float]:
    slowdowns = [value for kind in prediction.slowdown.values() for value in (kind.mean, kind.p99)]
    return [
        prediction.queue_mean_bytes,
        prediction.queue_p99_bytes,
        prediction.queue_peak_bytes,
        prediction.goodput_bytes_per_s,
        prediction.marked_fraction,
        prediction.loss_bytes,
        prediction.pfc_pause_s,
        *slowdowns,
    ]


watermarks = st.builds(
    lambda kmin, span, pmax: Watermark(kmin, kmin + span, pmax),
    st.integers(0, 400_000),
    st.integers(1_000, 800_000),
    st.floats(0.001, 1.0),
)


@settings(max_examples=10)
@given(st.lists(watermarks, min_size=2, max_size=40))
def test_a_candidate_does_not_see_its_neighbours(batch: list[Watermark]) -> None:
    churn = [flow("h0", "h3", 300_000), flow("h1", "h3", 50_000, 20e-6), flow("h1", "h3", 40_000, 60e-6)]
    for scenario in (
        star(FLOWS, duration_s=1e-3),
        star(churn, duration_s=0.4e-3, dcqcn=replace(STEADY, feedback_delay_s=None), pfc=True),
    ):
        together = FluidEngine().predict(scenario, batch, seed=1)
        alone = FluidEngine().predict(scenario, [batch[-1]], seed=2)
        backwards = FluidEngine().predict(scenario, batch[::-1], seed=1)[::-1]
        assert [p.watermark for p in together] == batch
        for a, b in zip(figures(together[-1]), figures(alone[0]), strict=True):
            assert same(a, b)
        for one, other in zip(together, backwards, strict=True):
            assert all(same(a, b) for a, b in zip(figures(one), figures(other), strict=True))
