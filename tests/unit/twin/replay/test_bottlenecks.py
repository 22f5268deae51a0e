"""Coupled bottlenecks in the replay: whoever crosses both is marked by both."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.twin.fluid.problems import flow, line
from twin.replay.model import STEP_S, _Run
from twin.watermark import Watermark


@pytest.mark.parametrize("watermark", [Watermark(5_000, 2_000_000, 0.05), Watermark(20_000, 1_000_000, 0.02)])
def test_the_flow_over_both_bottlenecks_ends_last(watermark: Watermark) -> None:
    rows = [flow("a0", "a2", 8e6), flow("b0", "b1", 8e6), flow("b1", "b2", 8e6)]
    run = _Run(line(rows, duration_s=0.02), STEP_S)
    taken = []
    for seed in range(8):
        assert run.go(watermark, seed, np.zeros((1, 1)), 0)
        taken.append(run.tables.flows["completed"].copy())
    both, first, second = np.mean(taken, axis=0)
    assert both > 1.1 * max(first, second)
