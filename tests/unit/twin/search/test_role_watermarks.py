"""Watermarks by port role: each port runs its own, in both engines that know of roles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from telemetry.topology import leaf_spine
from twin.engine import engine
from twin.errors import ParameterError
from twin.prediction import Prediction
from twin.scenario import Flows, Scenario
from twin.senders.dcqcn import PAPER
from twin.watermark import RoleWatermarks, Watermark, curves_of

HIGH, LOW = Watermark(400_000, 1_600_000, 0.2), Watermark(5_000, 20_000, 1.0)


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    """Four hosts of one leaf send to one host of the other, over a single uplink of their own rate."""
    topology = leaf_spine(2, 1, 4, rate_gbps=100, uplink_gbps=100)
    src = ("h0", "h1", "h2", "h3")
    paths = [topology.path(one, "h4", 1) for one in src]
    return Scenario(
        name="uplink",
        ports=topology.ports,
        flows=Flows(
            src=src,
            dst=("h4",) * 4,
            payload_bytes=np.full(4, 2e6),
            start_s=np.arange(4, dtype=np.float64) * 1e-6,
            start_rate_bytes_per_s=np.full(4, 12.5e9),
            path_offset=np.arange(0, 4 * len(paths[0]) + 1, len(paths[0]), dtype=np.int32),
            path_ports=np.array([port for path in paths for port in path], dtype=np.int32),
        ),
        monitored=tuple(at for at, port in enumerate(topology.ports) if port.port is not None),
        dcqcn=PAPER,
        duration_s=2e-3,
        window_s=(0.0, 2e-3),
    )


def one(name: str, scenario: Scenario, setting: Watermark | RoleWatermarks) -> Prediction:
    [found] = engine(name).predict(scenario, [setting], seed=1)
    return replace(found, watermark=HIGH)  # figures are compared


def roles(scenario: Scenario) -> set[str]:
    return {role for role in scenario.port_roles if role is not None}


@pytest.mark.parametrize("name", ["replay", "packet"])
def test_the_same_watermark_in_every_role_is_that_watermark(name: str, scenario: Scenario) -> None:
    everywhere = RoleWatermarks.of(HIGH, dict.fromkeys(roles(scenario), LOW))
    assert one(name, scenario, everywhere) == one(name, scenario, LOW)


@pytest.mark.parametrize("name", ["replay", "packet"])
def test_only_the_role_where_bytes_wait_makes_a_difference(name: str, scenario: Scenario) -> None:
    plain = one(name, scenario, HIGH)
    beside = RoleWatermarks.of(HIGH, {"leaf-host-100G": LOW, "spine-down-100G": LOW})
    assert one(name, scenario, beside) == plain
    there = one(name, scenario, RoleWatermarks.of(HIGH, {"leaf-up-100G": LOW}))
    assert there == one(name, scenario, LOW)
    assert there.queue_mean_bytes < 0.8 * plain.queue_mean_bytes


def test_the_fluid_engine_refuses_them_in_a_sentence(scenario: Scenario) -> None:
    with pytest.raises(ParameterError, match="one watermark for all ports; take replay or packet"):
        engine("fluid").predict(scenario, [RoleWatermarks.of(HIGH, {"leaf-up-100G": LOW})], seed=1)


def test_roles_that_run_the_usual_watermark_are_no_exceptions() -> None:
    assert RoleWatermarks.of(HIGH, {"leaf-up-100G": HIGH}) is HIGH
    both = RoleWatermarks.of(HIGH, {"spine-down-100G": LOW, "leaf-up-100G": LOW})
    assert both.exceptions == (("leaf-up-100G", LOW), ("spine-down-100G", LOW))
    assert str(both) == f"{HIGH}; leaf-up-100G: {LOW}; spine-down-100G: {LOW}"


def test_curves_are_in_the_order_of_the_ports_nics_as_usual() -> None:
    setting = RoleWatermarks.of(HIGH, {"leaf-up-100G": LOW})
    curves = curves_of(setting, [None, "leaf-up-100G", "leaf-host-100G"])
    assert curves.tolist() == [[400e3, 1.6e6, 0.2], [5e3, 20e3, 1.0], [400e3, 1.6e6, 0.2]]
