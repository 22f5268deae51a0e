"""Predictions for given watermarks on a scenario, for ``ecntwin whatif`` and ``/v1/whatif``. Blocking."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.documents.predictions import (
    AskedTrajectoriesDocument,
    GainDocument,
    PredictionDocument,
    WhatIfDocument,
    prediction_fields,
)
from twin.engine import ONE_BY_ONE, check_engine
from twin.errors import ParameterError, TwinError
from twin.prediction import Prediction, SolveStatus
from twin.scenario import Scenario
from twin.search.explain import absent_notes
from twin.search.gain import gains_over_first
from twin.search.problem import SearchSettings, persistent_share
from twin.search.round import Progress
from twin.search.score import score
from twin.search.trajectories import Trajectories, predict_trajectories
from twin.watermark import Watermark
from twin.workers.pool import InProcessWorkers, Task, Workers, shipped

# Watermarks per batch: fewer than two batches are not worth starting processes for.
SIDE_BY_SIDE = 8
STAGE, CURVES_STAGE = "watermarks", "trajectories"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Watermarks to predict, with an ``incumbent`` to compare with, and with trajectories."""

    watermarks: tuple[Watermark, ...]
    engine: str
    seed: int
    incumbent: Watermark | None = None
    trajectories: bool = False

    @property
    def tried(self) -> tuple[Watermark, ...]:
        """All watermarks to predict, the incumbent first."""
        return self.watermarks if self.incumbent is None else (self.incumbent, *self.watermarks)

    @property
    def n_runs(self) -> int:
        """Upper bound of engine runs."""
        return len(self.tried) * (2 if self.trajectories else 1)


def what_if(
    scenario: Scenario,
    wanted: Wanted,
    *,
    search: SearchSettings,
    workers: Workers,
    version: str,
    progress: Callable[[Progress], None] | None = None,
) -> WhatIfDocument:
    """Predictions in the order given, with their gains over the incumbent (None: over the first of them).

    ``search`` says which score, policy and weights. Raises ``TwinError``.

    ``progress`` is called in this thread after every batch; what it raises ends the work.
    """
    check_engine(wanted.engine)
    if not wanted.watermarks:
        raise ParameterError(
            "watermarks", "none", "at least one watermark is predicted", "give (Kmin, Kmax, Pmax)"
        )
    progress = progress or (lambda step: None)
    began_s = time.perf_counter()
    with shipped([scenario]) as (file,):
        predictions = _predict(scenario, file, wanted, workers, progress)
        curves = _curves(scenario, file, wanted, workers, progress) if wanted.trajectories else None
    wall_s = time.perf_counter() - began_s
    documents = [
        PredictionDocument(**prediction_fields(prediction), **scores)
        for prediction, scores in zip(predictions, _scores(scenario, predictions, search), strict=True)
    ]
    notes = [curves] if isinstance(curves, str) else []
    if predictions[0].status is not SolveStatus.OK:
        notes.append(
            f"No gains: the run of {predictions[0].watermark}, which they would compare with, ended with "
            f"status {predictions[0].status.code} ({predictions[0].status.value}); give another incumbent."
        )
    return WhatIfDocument(
        scenario=scenario.name,
        engine=wanted.engine,
        seed=wanted.seed,
        version=version,
        wall_s=wall_s,
        window_s=scenario.duration_s,
        score_is=search.score,
        incumbent=None if wanted.incumbent is None else documents[0],
        results=documents[-len(wanted.watermarks) :],
        trajectories=AskedTrajectoriesDocument.of(curves, incumbent=wanted.incumbent is not None)
        if isinstance(curves, Trajectories)
        else None,
        notes=[*absent_notes(predictions[0], scenario), *notes],
    )


def _scores(
    scenario: Scenario, predictions: Sequence[Prediction], search: SearchSettings
) -> list[dict[str, Any]]:
    """The scores of each prediction, with gains over the first; null for failed runs."""
    gains = gains_over_first(scenario, predictions, search.policy)
    scores = score(
        predictions, search.weights, scenario.pfc, persistent_share=persistent_share(scenario)
    ).with_gains(gains, search.score)
    return [
        {
            "score": float(decides),
            "score_error": gain.error,
            "score_normalised": float(normalised),
            "gain": GainDocument(bulk=gain.bulk, delay=gain.delay, harm=gain.harm) if sound else None,
        }
        for decides, normalised, gain, sound in zip(
            scores.score, scores.normalised_score, gains, scores.feasible, strict=True
        )
    ]


def _predict(
    scenario: Scenario, file: Path, wanted: Wanted, workers: Workers, progress: Callable[[Progress], None]
) -> list[Prediction]:
    watermarks = wanted.tried
    batches = math.ceil(len(watermarks) / SIDE_BY_SIDE)
    one_by_one = wanted.engine in ONE_BY_ONE
    size = 1 if one_by_one else SIDE_BY_SIDE * math.ceil(batches / max(workers.n_workers, 1))
    chunks = [watermarks[first : first + size] for first in range(0, len(watermarks), size)]
    found: dict[int, list[Prediction]] = {}

    def done(number: int, predictions: list[Prediction]) -> None:
        found[number] = predictions
        progress(Progress(STAGE, sum(map(len, found.values())), len(watermarks)))

    progress(Progress(STAGE, 0, len(watermarks)))
    tasks = [Task(file, wanted.engine, scenario.duration_s, chunk, wanted.seed) for chunk in chunks]
    workers.run(tasks, done)
    return [prediction for number in range(len(chunks)) for prediction in found[number]]


def _curves(
    scenario: Scenario, file: Path, wanted: Wanted, workers: Workers, progress: Callable[[Progress], None]
) -> Trajectories | str:
    """The trajectories, or a sentence on why there are none."""
    try:
        return predict_trajectories(
            scenario,
            file,
            wanted.tried,
            engine=wanted.engine,
            seed=wanted.seed,
            workers=workers,
            progress=lambda done, total: progress(Progress(CURVES_STAGE, done, total)),
        )
    except TwinError as error:
        return f"No trajectories of the queues: {error}."


def workers_for(engine: str, n_watermarks: int, workers: Workers) -> Workers:
    """``workers``, or this process for a single batch."""
    enough = 1 if engine in ONE_BY_ONE else SIDE_BY_SIDE
    return workers if n_watermarks > enough else InProcessWorkers()
