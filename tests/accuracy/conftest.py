"""The replay engine's predictions of every reference problem, worked out once a run; the picks to judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest

from bench import accuracy
from twin.prediction import Prediction
from twin.replay.model import ReplayEngine
from twin.search.score import WEIGHT_PRESETS

Predicted = Callable[[str], list[Prediction]]


@pytest.fixture(scope="session")
def predicted() -> Predicted:
    """Predictions of a problem's 47 watermarks, seed 1; asked for by name."""
    return cache(lambda name: accuracy.predicted(name, ReplayEngine()))


def picks(not_reached: Mapping[tuple[str, str], str]) -> list[Any]:
    """Every problem under every policy; what is not reached fails strictly, for the reason given."""
    return [
        pytest.param(
            problem,
            preset,
            marks=[pytest.mark.xfail(strict=True, reason=not_reached[problem, preset])]
            if (problem, preset) in not_reached
            else [],
        )
        for problem in accuracy.PROBLEMS
        for preset in WEIGHT_PRESETS
    ]
