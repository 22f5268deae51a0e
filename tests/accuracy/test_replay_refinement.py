"""Half the step, the same answer: what a finer replay would change is below what a seed does."""

from __future__ import annotations

import numpy as np
import pytest

from bench import accuracy
from tests.accuracy.conftest import Predicted
from twin.replay.model import STEP_S, ReplayEngine

pytestmark = pytest.mark.accuracy

EVERY = 4  # one watermark in four


@pytest.fixture(scope="module")
def finer() -> list[object]:
    watermarks = [row.watermark for row in accuracy.truth("websearch-16")][::EVERY]
    return list(ReplayEngine(STEP_S / 2).predict(accuracy.scenario("websearch-16"), watermarks, seed=1))


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
    predicted: Predicted, finer: list[object], figure: str, within: float
) -> None:
    value = accuracy.FIGURES[figure]
    coarse = np.array([value(row) for row in predicted("websearch-16")[::EVERY]])
    fine = np.array([value(row) for row in finer])  # type: ignore[arg-type]
    assert np.median(coarse / fine) == pytest.approx(1.0, abs=within)
    assert accuracy.order_agreement(coarse, fine) > 0.9
