"""Predictions for watermarks somebody names, on a scenario: what ``ecntwin whatif`` and ``/v1/whatif`` share.

Blocking; must not know HTTP.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from api.schemas.predictions import PredictionDocument
from api.schemas.whatif import WhatIfDocument
from twin.engine import ENGINE_NAMES
from twin.errors import ParameterError
from twin.result import Prediction
from twin.scenario import Scenario
from twin.score import Weights, score
from twin.search import Progress
from twin.search_problem import persistent_share
from twin.watermark import Watermark
from twin.workers import InProcessWorkers, Task, Workers, shipped

# Engines that run this many side by side: fewer than two such batches are not worth starting processes for.
SIDE_BY_SIDE = 8
ONE_BY_ONE = frozenset({"packet"})  # engines whose every run is long
STAGE = "watermarks"


def what_if(
    scenario: Scenario,
    watermarks: Sequence[Watermark],
    *,
    engine: str,
    seed: int,
    weights: Weights,
    workers: Workers,
    version: str,
    progress: Callable[[Progress], None] | None = None,
) -> WhatIfDocument:
    """Predictions in the order given, scored against each other. Raises ``TwinError``.

    ``progress`` is called in this thread after every batch of watermarks; what it raises ends the work.
    """
    if engine not in ENGINE_NAMES:
        raise ParameterError(
            "engine", repr(engine), f"known engines are {', '.join(ENGINE_NAMES)}", "name one"
        )
    if not watermarks:
        raise ParameterError(
            "watermarks", "none", "at least one watermark is predicted", "give (Kmin, Kmax, Pmax)"
        )
    began_s = time.perf_counter()
    predictions = _predict(scenario, watermarks, engine, seed, workers, progress)
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
    scenario: Scenario,
    watermarks: Sequence[Watermark],
    engine: str,
    seed: int,
    workers: Workers,
    progress: Callable[[Progress], None] | None,
) -> list[Prediction]:
    batches = math.ceil(len(watermarks) / SIDE_BY_SIDE)
    size = 1 if engine in ONE_BY_ONE else SIDE_BY_SIDE * math.ceil(batches / max(workers.n_workers, 1))
    chunks = [tuple(watermarks[first : first + size]) for first in range(0, len(watermarks), size)]
    found: dict[int, list[Prediction]] = {}

    def told() -> None:
        if progress is not None:
            progress(Progress(STAGE, sum(map(len, found.values())), len(watermarks)))

    def done(number: int, predictions: list[Prediction]) -> None:
        found[number] = predictions
        told()

    told()
    with shipped([scenario]) as (file,):
        tasks = [Task(file, engine, scenario.duration_s, chunk, seed) for chunk in chunks]
        workers.run(tasks, done)
    return [prediction for number in range(len(chunks)) for prediction in found[number]]


def workers_for(engine: str, n_watermarks: int, workers: Workers) -> Workers:
    """``workers``, or none where there is too little to share out."""
    enough = 1 if engine in ONE_BY_ONE else SIDE_BY_SIDE
    return workers if n_watermarks > enough else InProcessWorkers()
