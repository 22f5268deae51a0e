"""Predictions for watermarks somebody names, on a scenario: what ``ecntwin whatif`` and ``/v1/whatif`` share.

Blocking; must not know HTTP.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from api.schemas.predictions import PredictionDocument
from api.schemas.whatif import WhatIfDocument
from twin.engine import ENGINE_NAMES
from twin.errors import ParameterError
from twin.result import Prediction
from twin.scenario import Scenario
from twin.score import Weights, score
from twin.search_problem import persistent_share
from twin.watermark import Watermark
from twin.workers import InProcessWorkers, Task, Workers, shipped

# An engine runs this many side by side; fewer than two such batches are not worth starting processes for.
SIDE_BY_SIDE = 8


def what_if(
    scenario: Scenario,
    watermarks: Sequence[Watermark],
    *,
    engine: str,
    seed: int,
    weights: Weights,
    workers: Workers,
    version: str,
) -> WhatIfDocument:
    """Predictions in the order given, scored against each other. Raises ``TwinError``."""
    if engine not in ENGINE_NAMES:
        raise ParameterError(
            "engine", repr(engine), f"known engines are {', '.join(ENGINE_NAMES)}", "name one"
        )
    if not watermarks:
        raise ParameterError(
            "watermarks", "none", "at least one watermark is predicted", "give (Kmin, Kmax, Pmax)"
        )
    began_s = time.perf_counter()
    predictions = _predict(scenario, watermarks, engine, seed, workers)
    wall_s = time.perf_counter() - began_s
    scores = score(predictions, weights, scenario.pfc, persistent_share=persistent_share(scenario)).score
    return WhatIfDocument(
        scenario=scenario.name,
        engine=engine,
        seed=seed,
        version=version,
        wall_s=wall_s,
        results=[
            PredictionDocument.predicted(prediction, value)
            for prediction, value in zip(predictions, scores.tolist(), strict=True)
        ],
    )


def _predict(
    scenario: Scenario, watermarks: Sequence[Watermark], engine: str, seed: int, workers: Workers
) -> list[Prediction]:
    batches = math.ceil(len(watermarks) / SIDE_BY_SIDE)
    size = SIDE_BY_SIDE * math.ceil(batches / max(workers.n_workers, 1))
    chunks = [tuple(watermarks[first : first + size]) for first in range(0, len(watermarks), size)]
    found: dict[int, list[Prediction]] = {}
    with shipped([scenario]) as (file,):
        tasks = [Task(file, engine, scenario.duration_s, chunk, seed) for chunk in chunks]
        workers.run(tasks, found.__setitem__)
    return [prediction for number in range(len(chunks)) for prediction in found[number]]


def workers_for(n_watermarks: int, workers: Workers) -> Workers:
    """``workers``, or none where there is too little to share out."""
    return workers if n_watermarks > SIDE_BY_SIDE else InProcessWorkers()
