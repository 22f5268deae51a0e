"""The replay engine's predictions of every reference problem, worked out once a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from bench import accuracy
from twin.prediction import Prediction
from twin.replay.model import ReplayEngine

Predicted = Callable[[str], list[Prediction]]


@pytest.fixture(scope="session")
def predicted() -> Predicted:
    """Predictions of a problem's 47 watermarks, seed 1; asked for by name."""
    return cache(lambda name: accuracy.predicted(name, ReplayEngine()))
