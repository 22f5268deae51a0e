"""Hosts of a class run DCQCN values of their own, alike in the replay and in packets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.twin.fluid.problems import CHURNING, flow, star
from tests.unit.twin.kernels.uncompiled import long_uncompiled
from twin.engine import engine
from twin.errors import ScenarioError
from twin.packet.fabric import Fabric
from twin.packet.plan import FabricPlan
from twin.prediction import Prediction
from twin.replay.model import step_of
from twin.replay.plan import compile_tables
from twin.scenario import Scenario
from twin.senders.dcqcn import VENDOR, DcqcnParams
from twin.watermark import Watermark

pytestmark = pytest.mark.kernels

MARK = Watermark(20_000, 80_000, 0.1)
BOLD = replace(CHURNING, ai_rate_bytes_per_s=40 * CHURNING.ai_rate_bytes_per_s, gain=1 / 1024)
CLASSES = {"h0": "training", "h1": "training", "h2": "storage", "h3": "storage"}


def mixed(**by_class: DcqcnParams) -> Scenario:
    """Two hosts of each class send as much as each other to one receiver at once."""
    rows = [flow(f"h{host}", "h4", 4_000_000) for host in range(4)]
    scenario = star(rows, hosts=5, dcqcn=CHURNING, duration_s=8e-3)
    return replace(scenario, nic_class=CLASSES, dcqcn_by_class=by_class, watched=(0, 1, 2, 3))


def predicted(name: str, scenario: Scenario) -> Prediction:
    [found] = engine(name).predict(scenario, [MARK], seed=1)
    return found


def rates(found: Prediction) -> NDArray[np.float64]:
    """Bytes a second of each flow while it was there."""
    return np.array([carried / taken_s for carried, taken_s in found.watched])


def advantage(name: str, scenario: Scenario) -> float:
    """Bytes a second of flows of storage, in times of those of training."""
    of_training, of_storage = rates(predicted(name, scenario)).reshape(2, 2).mean(axis=1)
    return float(of_storage / of_training)


def same(one: Prediction, other: Prediction) -> bool:
    return repr(one) == repr(other)  # what is not a number equals itself


@long_uncompiled
@pytest.mark.parametrize("name", ["replay", "packet"])
def test_a_class_that_cuts_less_and_rises_faster_is_done_sooner(name: str) -> None:
    assert advantage(name, mixed()) == pytest.approx(1.0, abs=0.1)
    assert advantage(name, mixed(storage=BOLD)) > 1.3
    assert advantage(name, mixed(training=BOLD)) < 1 / 1.3


@long_uncompiled
def test_replay_and_packets_agree_on_classes() -> None:
    by_replay, by_packets = (predicted(name, mixed(storage=BOLD)) for name in ("replay", "packet"))
    for field in ("goodput_bytes_per_s", "queue_mean_bytes"):
        assert getattr(by_replay, field) == pytest.approx(getattr(by_packets, field), rel=0.15)
    assert rates(by_replay) == pytest.approx(rates(by_packets), rel=0.15)


@long_uncompiled
@pytest.mark.parametrize("name", ["replay", "packet", "fluid"])
def test_classes_that_run_the_same_change_no_bit(name: str) -> None:
    plain = replace(mixed(), nic_class={})
    assert same(predicted(name, mixed(storage=CHURNING)), predicted(name, plain))
    assert same(predicted(name, mixed()), predicted(name, plain))


@long_uncompiled
@pytest.mark.parametrize("name", ["replay", "packet"])
def test_it_does_not_matter_which_class_is_the_usual_one(name: str) -> None:
    other = replace(mixed(training=CHURNING), dcqcn=VENDOR)
    assert same(predicted(name, mixed(storage=VENDOR)), predicted(name, other))


def test_steps_are_those_of_the_fastest_class_and_delays_of_each() -> None:
    quick = replace(CHURNING, cnp_interval_s=1e-6, feedback_delay_s=50e-6)
    scenario = mixed(storage=quick)
    assert step_of(scenario.dcqcn_run) == step_of([quick]) < step_of([CHURNING])
    of_training, of_storage = compile_tables(scenario, 1e-6).entries["return_delay"].reshape(2, 2).tolist()
    assert max(of_training) < 10
    assert of_storage == pytest.approx([50, 50], abs=2)


@long_uncompiled
def test_the_fluid_engine_refuses_different_classes_in_a_sentence() -> None:
    with pytest.raises(ScenarioError) as caught:
        predicted("fluid", mixed(storage=BOLD))
    assert "received storage; the fluid engine models one set of DCQCN values" in str(caught.value)
    # Where hosts of that class send nothing there is one set.
    quiet = replace(mixed(storage=BOLD), nic_class={"h4": "storage"})
    assert same(predicted("fluid", quiet), predicted("fluid", mixed()))


def test_a_running_fabric_knows_what_each_host_runs() -> None:
    fabric = Fabric(FabricPlan.of(mixed(storage=BOLD)), watermark=MARK, seed=1)
    assert [fabric.dcqcn(host) for host in range(5)] == [CHURNING, CHURNING, BOLD, BOLD, CHURNING]
