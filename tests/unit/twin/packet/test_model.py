"""The packet engine as one of the twin's engines."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.twin.fabrics import star
from twin.engine import engine
from twin.packet.layout import PacketSettings
from twin.packet.model import PacketEngine
from twin.prediction import SolveStatus
from twin.scenario import Scenario
from twin.watermark import Watermark

LOW, HIGH = Watermark(2_000, 20_000, 0.5), Watermark(400_000, 800_000, 0.1)


def crowded(**changed: object) -> Scenario:
    """Three into one, and one the other way, in half a millisecond."""
    sizes = [2e6, 90e3, 4e6, 20e3]
    scenario = star([(1, 0), (2, 0), (3, 0), (0, 3)], n_hosts=4, payload_bytes=sizes, duration_s=5e-4)
    return replace(scenario, **changed)  # type: ignore[arg-type]


def test_the_registry_knows_it() -> None:
    made = engine("packet")
    assert isinstance(made, PacketEngine)
    assert made.name == "packet"


def test_its_figures_are_of_the_window_and_of_the_ports_asked_for() -> None:
    scenario = crowded(window_s=(2e-5, 4e-4))
    low, high = engine("packet").predict(scenario, [LOW, HIGH], seed=1)
    assert low.status is high.status is SolveStatus.OK
    assert (low.watermark, high.watermark) == (LOW, HIGH)
    assert 0 < low.queue_mean_bytes < high.queue_mean_bytes
    assert low.queue_p99_bytes < high.queue_p99_bytes <= high.queue_peak_bytes + 2_048
    assert high.marked_fraction < low.marked_fraction < 1
    assert low.loss_bytes == low.pfc_pause_s == 0
    for one in (low, high):
        assert len(one.port_queue_mean_bytes) == len(scenario.monitored)
        assert one.queue_mean_bytes == pytest.approx(np.mean(one.port_queue_mean_bytes))
        assert 0 < one.goodput_bytes_per_s <= 2 * 12.5e9
        assert {name: found.n for name, found in one.slowdown.items()} == {
            "all": 4, "mice": 2, "elephant": 2
        }  # fmt: skip
        assert one.slowdown["all"].mean > 1


def test_a_trajectory_is_the_depth_at_each_moment() -> None:
    scenario = crowded()
    path = engine("packet").trajectory(scenario, HIGH, seed=1, sample_s=1e-6)
    assert path.time_s.shape == (500,)
    assert path.queue_bytes.shape == (len(scenario.monitored), 500)
    assert path.queue_bytes.min() == 0
    [prediction] = engine("packet").predict(
        replace(scenario, window_s=(0.0, scenario.duration_s)), [HIGH], seed=1
    )
    assert path.queue_bytes.max() == prediction.queue_peak_bytes
    assert path.queue_bytes.mean() == pytest.approx(prediction.queue_mean_bytes, rel=0.01)


def test_an_answer_does_not_depend_on_its_company() -> None:
    scenario = crowded()
    together = PacketEngine().predict(scenario, [LOW, HIGH, LOW], seed=1)
    assert together[0] == together[2] == PacketEngine().predict(scenario, [LOW], seed=1)[0]
    assert together[0] != PacketEngine().predict(scenario, [LOW], seed=2)[0]


def test_a_small_buffer_pauses_or_drops() -> None:
    scenario = crowded(buffer_bytes=100_000.0)
    [paused] = PacketEngine().predict(scenario, [HIGH], seed=1)
    [dropped] = PacketEngine().predict(replace(scenario, pfc=False), [HIGH], seed=1)
    assert paused.pfc_pause_s > 0
    assert paused.loss_bytes == 0
    assert dropped.loss_bytes > 0
    assert dropped.pfc_pause_s == 0
    assert dropped.loss_bytes % 1_048 == 0


def test_settings_change_what_a_fabric_does() -> None:
    scenario = crowded()
    often, seldom = (
        PacketEngine(PacketSettings(queue_sample_s=every_s)).predict(scenario, [LOW], seed=1)[0]
        for every_s in (1e-6, 7e-6)
    )
    assert often.queue_mean_bytes != seldom.queue_mean_bytes
    assert often.goodput_bytes_per_s == seldom.goodput_bytes_per_s


def test_persistent_flows_have_no_slowdown() -> None:
    scenario = star([(1, 0), (2, 0)], n_hosts=3, payload_bytes=math.inf, duration_s=1e-4)
    [one] = PacketEngine().predict(scenario, [Watermark(10_000_000, 20_000_000, 1.0)], seed=1)
    assert one.slowdown == {}
    # Never marked, the port to host 0 is busy all the time.
    assert one.goodput_bytes_per_s == pytest.approx(12.5e9 * 1_000 / 1_048, rel=0.002)


def test_a_window_that_ends_a_rounding_error_late_is_taken() -> None:
    end_s = 5e-4 * (1 + 4e-16)
    assert end_s > 5e-4
    [one] = PacketEngine().predict(crowded(window_s=(1e-5, end_s)), [LOW], seed=1)
    assert one.status is SolveStatus.OK
