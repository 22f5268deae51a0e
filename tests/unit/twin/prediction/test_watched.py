"""What engines tell of the flows that a scenario watches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.twin.fabrics import star
from twin.engine import EngineName, engine
from twin.prediction import Prediction, averaged
from twin.scenario import Scenario
from twin.watermark import Watermark

RUNNING = Watermark(400_000, 1_600_000, 0.2)
ENGINES: tuple[EngineName, ...] = ("replay", "packet")


def predicted(name: EngineName, scenario: Scenario, seed: int = 1) -> Prediction:
    [found] = engine(name).predict(scenario, [RUNNING], seed=seed)
    return found


@pytest.mark.parametrize("name", ENGINES)
def test_a_flow_that_ends_took_its_completion_time(name: EngineName) -> None:
    scenario = replace(star([(0, 1), (2, 3)]), watched=(1,))
    [(carried, taken_s)] = predicted(name, scenario).watched
    assert carried == 2e6
    assert taken_s == pytest.approx(float(scenario.alone_s[1]), rel=0.05)


@pytest.mark.parametrize("name", ENGINES)
def test_a_flow_that_lasts_counts_until_the_run_ends(name: EngineName) -> None:
    scenario = replace(star([(0, 1), (2, 1)], payload_bytes=np.inf), watched=(0, 1))
    found = predicted(name, scenario)
    assert [taken_s for _, taken_s in found.watched] == pytest.approx([0.02, 0.02 - 1e-6])
    rates = [carried / taken_s for carried, taken_s in found.watched]
    assert sum(rates) / 2 == pytest.approx(found.lasting_bytes_per_s)


@pytest.mark.parametrize("name", ENGINES)
def test_a_flow_that_a_shorter_run_leaves_out_has_nothing(name: EngineName) -> None:
    late = star([(0, 1), (2, 3)])
    flows = replace(late.flows, start_s=np.array([0.0, 0.015]))
    cut = replace(late, flows=flows, watched=(1, 0)).until(0.01)
    assert cut.watched == (-1, 0)
    assert cut.until(0.005).watched == (-1, 0)
    first, second = predicted(name, cut).watched
    assert first == (0.0, 0.0)
    assert second[0] == 2e6


def test_nothing_is_told_of_flows_that_nobody_watches_or_of_a_mean() -> None:
    scenario = star([(0, 1)])
    assert predicted("replay", scenario).watched == ()
    runs = [predicted("replay", replace(scenario, watched=(0,)), seed) for seed in (1, 2)]
    assert averaged(runs).watched == ()
