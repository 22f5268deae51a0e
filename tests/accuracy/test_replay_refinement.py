"""Half the step, the same answer: what a finer replay would change is below what a seed does."""

from __future__ import annotations

import numpy as np
import pytest

from bench import accuracy
from twin.prediction import Prediction
from twin.replay.model import STEP_S, ReplayEngine

pytestmark = pytest.mark.accuracy

EVERY = 4  # one watermark in four
SEEDS = (1, 2)  # one alone moves a median by as much as half the step does


@pytest.fixture(scope="module")
def runs() -> list[list[list[Prediction]]]:
    """Predictions [step, seed, watermark]: at the usual step, and at half of it."""
    watermarks = [row.watermark for row in accuracy.truth("websearch-16")][::EVERY]
    return [
        [ReplayEngine(step_s).predict(accuracy.scenario("websearch-16"), watermarks, seed=s) for s in SEEDS]
        for step_s in (STEP_S, STEP_S / 2)
    ]


@pytest.mark.parametrize(
    ("figure", "within"),
    [
        ("mean queue", 0.04),
        ("p99 queue", 0.05),
        ("mice p99", 0.06),
        ("elephant mean", 0.03),
        ("goodput", 0.003),
    ],
)
def test_halving_the_step_moves_medians_little(
    runs: list[list[list[Prediction]]], figure: str, within: float
) -> None:
    value = accuracy.FIGURES[figure]
    coarse, fine = np.array([[[value(row) for row in run] for run in step] for step in runs]).mean(axis=1)
    assert np.median(coarse / fine) == pytest.approx(1.0, abs=within)
    assert accuracy.order_agreement(coarse, fine) > 0.9
