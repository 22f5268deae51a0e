"""Gains of watermarks on drawn states, by the replay engine; a file keeps what was run, a line a state."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from learn.states import State, state
from twin.advice.features import Queue, Scales, fixed_features
from twin.advice.labelled import EVEN, Labelled
from twin.prediction import SolveStatus
from twin.replay.model import ReplayEngine
from twin.search.gain import gains_over_first
from twin.watermark import Watermark

MarksOf = Callable[[State, Scales], Sequence[Watermark]]
_ENGINE_SEED = 1


def _of_line(line: str) -> Labelled:
    found = json.loads(line)
    return Labelled(
        found["seed"],
        found["family"],
        Scales(*found["scales"]),
        np.array(found["fixed"]),
        tuple(Watermark(*one) for one in found["marks"]),
        tuple(Queue(*one) for one in found["queues"]),
        np.array(found["parts"], dtype=np.float64),
    )


def labelled(
    file: Path, seeds: Iterable[int], marks_of: MarksOf, *, processes: int, draw: int = 0
) -> list[Labelled]:
    """The states of these seeds in one ``draw``, those of the file as they stand; others are added to it."""
    known = {one.seed: one for one in _read(file)}
    missing = [seed for seed in seeds if seed not in known]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(_lines(file)), "utf-8")  # a run that was killed leaves a line without an end
    with (
        file.open("a") as out,
        get_context("fork").Pool(processes, initializer=_prepare, initargs=(marks_of, draw)) as pool,
    ):
        for number, line in enumerate(pool.imap_unordered(_label, missing), 1):
            print(line, file=out, flush=True)
            if number % 50 == 0 or number == len(missing):
                print(f"{file.name}: {number} of {len(missing)} states", flush=True)
    by_seed = {one.seed: one for one in _read(file)}
    return [by_seed[seed] for seed in seeds]


def _read(file: Path) -> list[Labelled]:
    return [_of_line(line) for line in _lines(file)]


def _lines(file: Path) -> list[str]:
    if not file.exists():
        return []
    return [line for line in file.read_text("utf-8").splitlines(keepends=True) if line.endswith("\n")]


_marks_of: MarksOf
_draw: int


def _prepare(marks_of: MarksOf, draw: int) -> None:
    global _marks_of, _draw
    _marks_of, _draw = marks_of, draw


def _label(seed: int) -> str:
    drawn = state(seed, _draw)
    scales = Scales.of(drawn.scenario)
    marks = [drawn.incumbent, *_marks_of(drawn, scales)]
    found = ReplayEngine().predict(drawn.scenario, marks, seed=_ENGINE_SEED)
    gains = gains_over_first(drawn.scenario, found, EVEN)
    queues = [
        Queue.over(np.array(one.port_queue_mean_bytes)) if one.status is SolveStatus.OK else Queue(0.0, 0.0)
        for one in found
    ]
    document: dict[str, Any] = {
        "seed": seed,
        "family": drawn.family,
        "scales": [scales.rtt_s, scales.bdp_bytes],
        "fixed": fixed_features(drawn.scenario, scales).tolist(),
        "marks": [[one.kmin_bytes, one.kmax_bytes, one.pmax] for one in marks],
        "queues": [[one.mean_bytes, one.deepest_bytes] for one in queues],
        "parts": [[one.bulk / EVEN.bulk, one.delay / EVEN.delay, one.harm] for one in gains],
    }
    return json.dumps(document)
