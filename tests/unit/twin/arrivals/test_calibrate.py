"""Calibration: what is measured, how the search closes in, and when it is given up."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import twin.arrivals.calibrate as calibration
from bench.from_reports import state_of
from service.tuning.fabric import Fabric, read_fabric
from service.tuning.round import rebuilt, scenario_of
from telemetry.state import NetworkState, QueueSamples
from tests.unit.service.tuning.rounds import state as small_state
from twin.arrivals.calibrate import measured
from twin.replay.model import ReplayEngine
from twin.senders.dcqcn import PAPER
from twin.watermark import Watermark

LOW, HIGH = Watermark(5_000, 200_000, 0.1), Watermark(400_000, 1_600_000, 0.2)
FABRIC = Fabric(dcqcn=PAPER)


def with_depths(state: NetworkState, depth_bytes: list[float], at_s: list[float]) -> NetworkState:
    """Each sample stands for 10 µs."""
    n = len(depth_bytes)
    recent = QueueSamples(
        queue=np.zeros(n, np.int32),
        at_s=np.array(at_s),
        depth_bytes=np.array(depth_bytes),
        held_s=np.full(n, 1e-5),
    )
    return replace(state, recent=recent)


def test_depth_is_measured_over_the_time_and_the_ports_that_are_predicted() -> None:
    state = small_state()
    scenario = scenario_of(state, FABRIC)
    begin_s, end_s = scenario.window_s
    early = [begin_s / 2, begin_s + 1e-4, end_s - 1e-5]
    seen = measured(with_depths(state, [9e9, 1e5, 3e5], early), scenario, 0.0)
    assert seen is not None
    assert seen.ports == (0,)
    assert seen.mean_bytes == pytest.approx(4e5 * 1e-5 / (end_s - begin_s))
    assert seen.error_bytes == pytest.approx(math.hypot(1e5, 3e5) * 1e-5 / (end_s - begin_s))
    assert measured(with_depths(state, [1e5], [0.0]), scenario, 0.0) is None
    assert measured(replace(state, recent=None), scenario, 0.0) is None
    unknown = tuple(replace(queue, capacity_bytes_per_s=None) for queue in state.queues)
    assert measured(replace(with_depths(state, [1e5], early[1:2]), queues=unknown), scenario, 0.0) is None


@pytest.mark.parametrize(
    ("begin", "zero"), [(0.0, 0.0), (0.0, 0.5), (0.0, -0.6), (1.0, 0.2), (0.3, 1.8), (0.0, 3.0), (1.0, -2.0)]
)
def test_the_search_comes_as_close_as_the_bounds_let_it(begin: float, zero: float) -> None:
    asked: list[float] = []

    def off(burstiness: float) -> float:
        asked.append(burstiness)
        return 2.0 * (burstiness - zero)

    calibration._search(off, begin, close=0.06, open_=True)
    nearest = min(max(zero, -1.0), 2.0)
    assert abs(min(asked, key=lambda at: abs(at - nearest)) - nearest) <= 0.031
    assert len(asked) == len(set(asked)) <= 7
    assert min(asked) >= -1.0
    assert max(asked) <= 2.0


@pytest.mark.parametrize(
    ("predicted", "chosen"),
    [
        ({0.0: 100e3, 1.05: 103e3, 2.0: 104e3}, 0.0),  # bursts that explain nothing are not made
        ({0.0: 60e3, 1.05: 103e3, 2.0: 104e3}, 1.05),
        ({0.0: math.nan, 1.05: 20e3}, 1.05),
        ({0.0: math.nan}, 0.0),
    ],
    ids=["no better", "better", "failed", "all failed"],
)
def test_arrivals_are_forced_no_further_than_they_have_to_be(
    predicted: dict[float, float], chosen: float
) -> None:
    assert calibration._least_forced(predicted, 107e3, usual=0.0) == chosen


def test_where_nothing_is_unseen_nothing_is_searched() -> None:
    asked: list[float] = []

    def off(burstiness: float) -> float:
        asked.append(burstiness)
        return 1.0

    calibration._search(off, 0.0, close=0.1, open_=False)
    assert asked == [0.0]


def test_a_queue_that_no_arrivals_explain_is_a_failure() -> None:
    """Three senders at half of a port's rate: the replay sees no queue, telemetry a deep one."""
    state = small_state()
    until_s = scenario_of(state, FABRIC).window_s[1]
    deep = with_depths(state, [5e6] * 500, np.linspace(0.1 * until_s, 0.9 * until_s, 500).tolist())
    found = rebuilt(deep, FABRIC, HIGH)
    assert found.failure is not None
    assert "check the DCQCN parameters" in found.failure
    assert (found.predicted_bytes, found.measured_bytes) == (0.0, pytest.approx(2.78e6, rel=0.01))
    shallow = replace(deep, recent=replace(deep.recent, depth_bytes=np.full(500, 15e3)))  # type: ignore[type-var]
    assert rebuilt(shallow, FABRIC, HIGH).failure is None  # far below Kmin
    assert rebuilt(shallow, FABRIC, LOW).failure is not None


def test_without_an_incumbent_nothing_is_run() -> None:
    found = rebuilt(small_state(), FABRIC, None)
    assert (found.runs, found.predicted_bytes, found.measured_bytes, found.failure) == (0, None, None, None)


@pytest.fixture(scope="module")
def thinned() -> NetworkState:
    return state_of("incast-burst-leafspine", 64, 1)


@pytest.mark.accuracy
def test_the_replayed_incumbent_shows_the_measured_queue(thinned: NetworkState, reference: Path) -> None:
    """One packet in 4 096: sampled flows alone would put the mean queue at half."""
    _, fabric = read_fabric(reference / "incast-burst-leafspine.scenario.json", None)
    found = rebuilt(thinned, fabric, HIGH)
    assert found.failure is None
    assert found.predicted_bytes == pytest.approx(found.measured_bytes, rel=0.2)
    assert found.burstiness > 0.3
    assert found.runs <= 7
    (note,) = found.notes
    assert note.startswith("At this sampling rate most messages below 2.98 MB are not seen: ")
    [alone] = ReplayEngine().predict(scenario_of(thinned, fabric), [HIGH], seed=1)
    assert alone.queue_mean_bytes < 0.65 * (found.measured_bytes or 0.0)


@pytest.mark.accuracy
def test_the_same_reports_give_the_same_scenario(thinned: NetworkState, reference: Path) -> None:
    _, fabric = read_fabric(reference / "incast-burst-leafspine.scenario.json", None)
    one, other = (rebuilt(thinned, fabric, HIGH).scenario.flows for _ in range(2))
    assert one.src == other.src
    assert one.start_s.tolist() == other.start_s.tolist()
    assert one.payload_bytes.tolist() == other.payload_bytes.tolist()
