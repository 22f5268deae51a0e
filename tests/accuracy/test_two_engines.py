"""The watermark picked after packets have reviewed the few best, judged on the truth of another simulator.

What is not reached is expected to fail, strictly, with the number measured and why.
"""

from __future__ import annotations

import numpy as np
import pytest

from bench import accuracy
from bench.accuracy import PROBLEMS, TWO_ENGINE_PICK_GOAL
from tests.accuracy.conftest import Predicted, picks
from twin.engine import engine
from twin.replay.model import ReplayEngine
from twin.search.score import WEIGHT_PRESETS

pytestmark = pytest.mark.accuracy

NOT_REACHED = {
    ("websearch-16", "latency"): (
        "measured 0.069: the truth's p99 mice slowdown of the best is 7.0 where six seeds of the packet "
        "engine say 8.1 to 8.8 and the replay 8.5; another seed of the truth moves it 11 %"
    ),
    ("incast-64", "balanced"): (
        "measured 0.078: throughput and queue cancel and the truth's scores span only 0.11; 0.03 of that is "
        "less than a thousandth of the goodput, and the best of the four asked about loses 0.039"
    ),
}


@pytest.mark.parametrize(("problem", "preset"), picks(NOT_REACHED))
def test_the_watermark_picked_by_two_engines_is_close_to_the_best(
    predicted: Predicted, problem: str, preset: str
) -> None:
    weights = WEIGHT_PRESETS[preset]
    row, asked = accuracy.picked_twice(problem, ReplayEngine(), engine("packet"), predicted(problem), weights)
    assert row in asked
    assert accuracy.regret(problem, row, weights) <= TWO_ENGINE_PICK_GOAL


def test_a_second_opinion_loses_less_than_the_replay_alone(predicted: Predicted) -> None:
    alone, reviewed = [], []
    for problem in PROBLEMS:
        for weights in WEIGHT_PRESETS.values():
            first = predicted(problem)
            one = accuracy.picked(problem, ReplayEngine(), first, weights)
            both, _ = accuracy.picked_twice(problem, ReplayEngine(), engine("packet"), first, weights)
            alone.append(accuracy.regret(problem, one, weights))
            reviewed.append(accuracy.regret(problem, both, weights))
    assert np.sum(reviewed) < np.sum(alone)
    assert max(reviewed) <= max(alone)
