"""Milliseconds a watermark in the replay engine: one core, warm, every reference problem.

``python -m bench.replay`` prints a table and writes ``bench/out/replay.json``. A figure is the time of one
call of ``predict`` ÷ its watermarks; the smallest of many is what the work costs when nothing else runs.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.figure import Figure
from twin.replay.model import STEP_S, ReplayEngine
from twin.scenario import Scenario
from twin.scenario_file import load_scenario
from twin.watermark import Watermark

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "tests" / "data" / "reference"
OUT = ROOT / "bench" / "out" / "replay.json"
MAIN = "websearch-16"
OTHERS = ("websearch-16-shallow", "steady-64", "parking-lot", "incast-64")
BATCH = 32
REPEATS = 15
REPEATS_OTHERS = 5
GOAL_MS = 10.0


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds a watermark over several repeats of one batch size, in process time of one thread."""

    problem: str
    batch: int
    repeats: int
    least_ms: float
    median_ms: float


def watermarks(name: str, count: int) -> list[Watermark]:
    """The first ``count`` watermarks of the problem's truth."""
    document = json.loads((REFERENCE / f"{name}.truth.json").read_text("utf-8"))
    rows = document["results"][:count]
    return [Watermark(row["kmin_bytes"], row["kmax_bytes"], row["pmax"]) for row in rows]


def timed(name: str, scenario: Scenario, batch: int, repeats: int) -> Timing:
    """One batch size of one problem, after a warm-up call."""
    replay = ReplayEngine()
    asked = watermarks(name, batch)
    replay.predict(scenario, asked[:1], seed=1)
    times = []
    for _ in range(repeats):
        # Time of this thread: others on the machine slow the caches, but are not counted.
        begun = time.thread_time()
        replay.predict(scenario, asked, seed=1)
        times.append((time.thread_time() - begun) / batch * 1e3)
    return Timing(name, batch, repeats, min(times), statistics.median(times))


def run() -> dict[str, Any]:
    """Everything measured, as one document."""
    main_problem = load_scenario(REFERENCE / f"{MAIN}.scenario.json")
    timings = [
        timed(MAIN, main_problem, BATCH, REPEATS),
        timed(MAIN, main_problem, 1, 4 * REPEATS),
    ]
    for name in OTHERS:
        scenario = load_scenario(REFERENCE / f"{name}.scenario.json")
        timings.append(timed(name, scenario, BATCH, REPEATS_OTHERS))
    return {"step_s": STEP_S, "flows": len(main_problem.flows), "timings": [asdict(one) for one in timings]}


def measure() -> Iterable[Figure]:
    """The figures of ``make bench``; writes the whole document beside them."""
    found = run()
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    for number, one in enumerate(Timing(**row) for row in found["timings"]):
        yield Figure(
            f"replay, a watermark of {one.problem}, batch of {one.batch}",
            one.least_ms,
            "ms",
            goal=GOAL_MS if number == 0 else None,
            note=f"one core, its time alone, warm, best of {one.repeats}; median {one.median_ms:.1f} ms",
        )


def main() -> None:
    """Prints the figures."""
    for figure in measure():
        goal = "" if figure.goal is None else f"  goal {figure.goal:g}"
        print(f"{figure.name:58s} {figure.value:8.2f} {figure.unit}{goal}  {figure.note}")


if __name__ == "__main__":
    main()
