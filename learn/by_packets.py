"""Judges the advice by the packet engine: ``python -m learn.by_packets``.

On states that no tree was learnt from, a tree that never saw their family advises, and a round of the twin
picks. What runs and both watermarks are then run packet by packet, on the moment that both looked at and on
the next.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learn.states import FAMILIES, state
from twin.advice.artefact import Learnt, read
from twin.advice.features import Queue, Scales, features
from twin.advice.growing import Rows, drawn_to_calibrate, made
from twin.advice.guard import advise
from twin.advice.labelled import kept
from twin.engine import engine
from twin.prediction import SolveStatus
from twin.scenario import Scenario
from twin.search.gain import POLICIES, gains_over_first
from twin.search.problem import SearchSettings, TuningProblem
from twin.search.push_gate import GateSettings
from twin.search.round import tune
from twin.watermark import Watermark
from twin.workers.pool import make_workers

FIRST_SEED = 3_000_000  # beyond those of the states and of the pool
POLICY = POLICIES["balanced"]
ENGINES = ("packet", "replay")


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A state whose advice was given: gains over what runs, [engine, moment, (advice, round)]."""

    family: str
    advised: Watermark
    picked: Watermark
    gains: NDArray[np.float64]


def trees() -> Mapping[str, Learnt]:
    """By family a tree of the shipped states of all others."""
    codes = read().codes
    rows = Rows.of(*kept(codes))
    others = {family: rows.where(rows.family != family) for family in FAMILIES}
    return {family: made(one, drawn_to_calibrate(one)).learnt(codes, {}) for family, one in others.items()}


def judged(seed: int, learnt: Mapping[str, Learnt], settings: SearchSettings) -> Judged | str:
    """The state of that seed, or where there is no advice its family."""
    now, later = state(seed), state(seed, draw=1)
    scales = Scales.of(now.scenario)
    [running] = engine("replay").predict(now.scenario, [now.incumbent], seed=1)
    if running.status is not SolveStatus.OK:
        return now.family
    queue = Queue.over(np.array(running.port_queue_mean_bytes))
    row = features(now.scenario, scales, queue, now.incumbent, POLICY)
    gate = GateSettings(max_step=math.inf)
    said = advise(learnt[now.family], row, scales, now.incumbent, gate, margin=settings.margin)
    if said.watermark is None:
        return now.family
    asked = TuningProblem(
        scenario=now.scenario, incumbent=now.incumbent, base=now.incumbent, dominant_class="elephant"
    )
    picked = tune(asked, settings, seed=1, workers=make_workers(1)).watermark
    marks = [now.incumbent, said.watermark, picked]
    gains = [[_gains(name, moment.scenario, marks) for moment in (now, later)] for name in ENGINES]
    return Judged(now.family, said.watermark, picked, np.array(gains))


def _gains(name: str, scenario: Scenario, marks: Sequence[Watermark]) -> list[float]:
    """Of all but the first, over the first."""
    found = engine(name).predict(scenario, marks, seed=1)
    return [one.value for one in gains_over_first(scenario, found, POLICY)[1:]]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m learn.by_packets", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--states", type=int, default=168, help="families take turns; 5 s each")
    given = parser.parse_args(arguments)
    learnt, settings = trees(), SearchSettings(policy=POLICY, second_engine=None)
    found: list[Judged] = []
    for seed in range(FIRST_SEED, FIRST_SEED + given.states):
        one = judged(seed, learnt, settings)
        if isinstance(one, str):
            print(f"{seed} {one}: no advice", flush=True)
            continue
        found.append(one)
        marks = f"{one.advised}; round {one.picked}"
        print(f"{seed} {one.family}: {marks}; {one.gains.round(3).tolist()}", flush=True)
    print(f"advised on {len(found)} of {given.states} states")
    print("| judged by | on | advice gains | the round gains | more | 95th percentile | advice loses |")
    print("|---" * 7 + "|")
    gains = np.array([one.gains for one in found])
    for place, name in enumerate(ENGINES):
        for at, moment in enumerate(("the moment looked at", "the next")):
            advice, picked = gains[:, place, at].T
            lacks = picked - advice
            error = lacks.std(ddof=1) / math.sqrt(len(lacks))
            cells = (
                f"{advice.mean():.3f}",
                f"{picked.mean():.3f}",
                f"{lacks.mean():.3f} ± {error:.3f}",
                f"{np.quantile(lacks, 0.95):.3f}",
                f"{np.mean(advice < 0.0):.0%}",
            )
            print(f"| {name} | {moment} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
