"""Fixed point and stability against what the engine does when left to itself."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.topology import GBPS
from tests.oracles.equilibrium import EquilibriumStatus, equilibrium
from tests.oracles.stability import rightmost_root, stability
from tests.unit.twin.fluid.problems import STEADY, flow, star
from twin.errors import ParameterError
from twin.fluid.model import FluidEngine
from twin.senders.dcqcn import PAPER, DcqcnParams
from twin.watermark import Watermark

PORT: dict[str, Any] = {
    "capacity_bytes_per_s": 5e9,
    "line_rate_bytes_per_s": 5e9,
    "packet_bytes": 1000.0,
}
GENTLE = Watermark(5_000, 200_000, 0.01)


def swings(
    params: DcqcnParams, watermark: Watermark, flows: int, duration_s: float
) -> tuple[float, float, float]:
    """Peak-to-peak queue in the second and the last quarter, and the last quarter's mean.

    Started near rest.
    """
    rows = [flow(f"h{i}", f"h{flows}", rate_gbps=40 / flows) for i in range(flows)]
    scenario = star(rows, hosts=flows + 1, dcqcn=params, duration_s=duration_s)
    queue = FluidEngine().trajectory(scenario, watermark, seed=1).queue_bytes[0]
    quarter = len(queue) // 4
    early, late = queue[quarter : 2 * quarter], queue[-quarter:]
    return float(np.ptp(early)), float(np.ptp(late)), float(late.mean())


@pytest.mark.parametrize("flows", [2, 10])
def test_a_stable_fixed_point_is_where_the_queue_comes_to_rest(flows: int) -> None:
    params = replace(STEADY, feedback_delay_s=50e-6)
    found = stability(params, GENTLE, n_flows=flows, **PORT)
    assert found.equilibrium.status is EquilibriumStatus.RAMP
    assert found.stable
    assert found.margin_per_s > 0
    early, late, mean = swings(params, GENTLE, flows, 0.2)
    assert late < 0.05 * early
    assert mean == pytest.approx(found.equilibrium.queue_bytes, rel=1e-3)


@pytest.mark.parametrize(
    ("flows", "delay_s", "watermark"),
    [(10, 85e-6, GENTLE), (2, 85e-6, Watermark(200_000, 400_000, 0.1)), (2, 120e-6, GENTLE)],
)
def test_an_unstable_one_keeps_swinging(flows: int, delay_s: float, watermark: Watermark) -> None:
    params = replace(STEADY, feedback_delay_s=delay_s)
    found = stability(params, watermark, n_flows=flows, **PORT)
    assert found.equilibrium.status is EquilibriumStatus.RAMP
    assert not found.stable
    early, late, _ = swings(params, watermark, flows, 0.2)
    assert late > 0.9 * early
    assert late > 10_000


def test_the_margin_is_the_rate_at_which_swings_die() -> None:
    # Close to the boundary the decay is slow enough to read off the queue's swing.
    found = stability(STEADY, GENTLE, n_flows=2, **PORT)
    assert 0 < found.margin_per_s < 20
    duration_s = 0.3
    scenario = star(
        [flow(f"h{i}", "h2", rate_gbps=20) for i in range(2)], hosts=3, dcqcn=STEADY, duration_s=duration_s
    )
    queue = FluidEngine(step_s=1e-6).trajectory(scenario, GENTLE, seed=1).queue_bytes[0]
    tenth = len(queue) // 10
    first, last = np.ptp(queue[5 * tenth : 6 * tenth]), np.ptp(queue[9 * tenth :])
    assert math.log(first / last) / (0.4 * duration_s) == pytest.approx(found.margin_per_s, rel=0.1)
    swing = queue[5 * tenth :] - queue[5 * tenth :].mean()
    crossings = np.count_nonzero(np.diff(np.sign(swing))) / 2 / (0.5 * duration_s)
    assert crossings == pytest.approx(found.frequency_hz, rel=0.05)


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_the_root_of_a_delay_equation_known_in_closed_form(scale: float) -> None:
    # x' = −a x(t − τ): purely imaginary roots ±iπ/(2τ) exactly at aτ = π/2.
    delay = 1e-4 * scale
    root = rightmost_root(np.zeros((1, 1)), np.array([[-math.pi / 2 / delay]]), delay)
    assert root.real * delay == pytest.approx(0.0, abs=1e-9)
    assert abs(root.imag) * delay == pytest.approx(math.pi / 2, abs=1e-9)


def test_a_fixed_point_beyond_the_ramp_is_told() -> None:
    found = equilibrium(PAPER, GENTLE, n_flows=64, **PORT)
    assert found.status is EquilibriumStatus.BEYOND_RAMP
    assert found.marking_probability > GENTLE.pmax
    assert found.queue_bytes == GENTLE.kmax_bytes
    assert not stability(STEADY, GENTLE, n_flows=64, **PORT).stable


def test_senders_that_cannot_fill_the_port() -> None:
    found = equilibrium(PAPER, GENTLE, n_flows=2, **(PORT | {"line_rate_bytes_per_s": 2e9}))
    assert found.status is EquilibriumStatus.NEVER_CONGESTED
    assert found.queue_bytes == 0
    assert found.current_rate_bytes_per_s == 2e9


def test_minimum_rates_beyond_the_port() -> None:
    params = replace(PAPER, min_rate_bytes_per_s=1 * GBPS)
    assert equilibrium(params, GENTLE, n_flows=64, **PORT).status is EquilibriumStatus.FLOORED


@given(st.integers(2, 100), st.booleans())
def test_nothing_moves_at_the_fixed_point(flows: int, counted: bool) -> None:
    params = PAPER if counted else replace(PAPER, byte_counter_bytes=None)
    rest = equilibrium(params, Watermark(5_000, 200_000, 1.0), n_flows=flows, **PORT)
    # Written out once more, from the equations.
    p = rest.marking_probability
    rate, target = rest.current_rate_bytes_per_s / 1000, rest.target_rate_bytes_per_s / 1000
    spans = [55e-6 * rate] + ([10_000.0] if counted else [])
    each = [rate * p / ((1 - p) ** -span - 1) if (1 - p) ** span > 1e-300 else 0.0 for span in spans]
    cut = 1 - (1 - p) ** (50e-6 * rate)
    assert rest.alpha == pytest.approx(1 - (1 - p) ** (55e-6 * rate), rel=1e-6)
    fall = (target - rate) / 50e-6 * cut
    rise = 5_000 * sum(e * (1 - p) ** (5 * span) for e, span in zip(each, spans, strict=True))
    assert rise == pytest.approx(fall, rel=1e-6)
    assert rate * rest.alpha / (2 * 50e-6) * cut == pytest.approx((target - rate) / 2 * sum(each), rel=1e-6)


@given(st.integers(2, 60))
def test_more_flows_need_more_marking(flows: int) -> None:
    fewer, more = (
        equilibrium(PAPER, Watermark(5_000, 200_000, 1.0), n_flows=n, **PORT) for n in (flows, flows + 1)
    )
    assert more.marking_probability > fewer.marking_probability
    assert more.queue_bytes > fewer.queue_bytes


def test_without_a_given_delay_the_way_is_needed() -> None:
    with pytest.raises(ParameterError, match="round_trip_s"):
        stability(PAPER, GENTLE, n_flows=2, **PORT)
    assert stability(PAPER, GENTLE, n_flows=2, round_trip_s=10e-6, **PORT).stable


@pytest.mark.parametrize("key", ["capacity_bytes_per_s", "line_rate_bytes_per_s", "packet_bytes", "n_flows"])
def test_nonsense_is_refused(key: str) -> None:
    with pytest.raises(ParameterError, match=key):
        equilibrium(PAPER, GENTLE, **({"n_flows": 2} | PORT | {key: 0}))
