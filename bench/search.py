"""A tuning round of 256 candidates on two cores, warm: seconds, runs per second, where the time goes.

``python -m bench.search [SCENARIO.json]`` prints one JSON document. Without a file the scenario is rebuilt
from the reports of the ``websearch-16`` recording. ``python -m bench.search large`` measures leaf-spine
fabrics of 16 and of 1 024 hosts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.__main__ import parser_of
from bench.figure import Figure
from bench.replay import GROWING, INCUMBENT, REFERENCE, fabric_under
from service.tuning.fabric import read_fabric
from service.tuning.recordings import read_recording
from service.tuning.round import rebuilt
from twin.scenario import Scenario
from twin.scenario_file import load_scenario
from twin.search.problem import SearchSettings, TuningProblem
from twin.search.round import Progress, tune
from twin.workers.pool import Workers, make_workers

N_WORKERS = 2
GOAL_S = 5.0
LARGE_GOAL_S = 60.0


def scenario_from_reports(name: str = "websearch-16") -> tuple[Scenario, str]:
    """The scenario and dominant class that a recording's reports give, as ``ecntwin tune`` builds them."""
    declared, fabric = read_fabric(REFERENCE / f"{name}.scenario.json", None)
    recording = read_recording(REFERENCE / f"{name}.int.ndjson.gz", declared)
    return rebuilt(recording.state, fabric, INCUMBENT).scenario, recording.state.dominant_class.label


def run(
    scenario: Scenario | None = None,
    dominant_class: str = "elephant",
    *,
    repeats: int = 3,
    settings: SearchSettings | None = None,
    workers: Workers | None = None,
) -> dict[str, Any]:
    """One cold round, then ``repeats`` warm ones: seconds of each, the fastest's by stage, its answer.

    By default without a second opinion, which is measured beside it, and in two processes. Ends the workers.
    """
    if scenario is None:
        scenario, dominant_class = scenario_from_reports()
    settings = settings or SearchSettings(second_engine=None)
    problem = TuningProblem(
        scenario=scenario, incumbent=INCUMBENT, base=INCUMBENT, dominant_class=dominant_class
    )
    workers = workers or make_workers(N_WORKERS)
    n_workers = workers.n_workers
    rounds = []
    try:
        for _ in range(repeats + 1):
            marks: list[tuple[float, Progress]] = []
            begin = time.perf_counter()
            answer = tune(
                problem,
                settings,
                seed=1,
                workers=workers,
                progress=lambda seen, into=marks: into.append((time.perf_counter(), seen)),  # type: ignore[misc]
            )
            rounds.append((time.perf_counter() - begin, _by_stage(begin, marks), answer))
    finally:
        workers.close()
    wall_s, by_stage, answer = min(rounds[1:], key=lambda one: one[0])
    n_runs = sum(stage["runs"] for stage in by_stage.values())
    return {
        "scenario": scenario.name,
        "flows": len(scenario.flows),
        "candidates": len(answer.candidates),
        "workers": n_workers,
        "cold_s": rounds[0][0],
        "warm_s": [one[0] for one in rounds[1:]],
        "best_warm_s": wall_s,
        "candidate_runs": n_runs,
        "runs_per_s": n_runs / wall_s,
        "stages": by_stage,
        "watermark": str(answer.watermark),
        "why": answer.why,
    }


def measure() -> Iterable[Figure]:
    reviewed = run(settings=SearchSettings())
    measured = run()
    yield Figure(
        "search, the same round with a second opinion of packets",
        reviewed["best_warm_s"],
        "s",
        note=f"{reviewed['stages']['second opinion']['seconds']:.1f} s of it the packets'; "
        f"cold {reviewed['cold_s']:.1f} s",
    )
    yield Figure(
        "search, a round of 256 candidates on the websearch-16 reports",
        measured["best_warm_s"],
        "s",
        goal=GOAL_S,
        note=f"{N_WORKERS} workers, warm, best of {len(measured['warm_s'])}; "
        f"{measured['candidates']} tried, {measured['candidate_runs']} runs; cold {measured['cold_s']:.1f} s",
    )
    yield Figure("search, candidate runs per second", measured["runs_per_s"], "1/s", better="higher")
    yield from leaf_spines()


def leaf_spines() -> Iterable[Figure]:
    """Rounds with a second opinion on leaf-spine fabrics of 16 and of 1 024 hosts under web search."""
    for row, goal_s, repeats in ((0, GOAL_S, 3), (3, LARGE_GOAL_S, 1)):
        leaves, spines, hosts, uplink_gbps, load, duration_ms, _ = GROWING[row]
        for clocks in ("paper", "vendor"):
            scenario = fabric_under(leaves, spines, hosts, uplink_gbps, load, duration_ms * 1e-3, clocks)
            found = run(scenario, settings=SearchSettings(), repeats=repeats)
            stages = ", ".join(f"{name} {stage['seconds']:.1f}" for name, stage in found["stages"].items())
            yield Figure(
                f"search, a round of {scenario.name}, {clocks} clocks, second opinion included",
                found["best_warm_s"],
                "s",
                goal=goal_s,
                note=f"{N_WORKERS} workers, warm, {found['candidates']} tried, {duration_ms:g} ms of "
                f"{load:.0%} web search, {found['flows']} flows; seconds: {stages}",
            )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures the scenario file given, or the reports' scenario."""
    parser = parser_of("bench.search", __doc__)
    parser.add_argument(
        "scenario", nargs="?", metavar="FILE", help="of a scenario; large: leaf-spine fabrics"
    )
    given = parser.parse_args(arguments).scenario
    if given == "large":
        for figure in leaf_spines():
            print(f"{figure.name}: {figure.value:.1f} {figure.unit}, goal {figure.goal:g}; {figure.note}")
        return
    scenario = load_scenario(Path(given)) if given else None
    print(json.dumps([run(scenario), run(scenario, settings=SearchSettings())], indent=2))


def _by_stage(begin: float, marks: list[tuple[float, Progress]]) -> dict[str, dict[str, float]]:
    stages: dict[str, dict[str, float]] = {}
    last = begin
    for at, seen in marks:
        stage = stages.setdefault(seen.stage, {"seconds": 0.0, "runs": 0})
        stage["seconds"] += at - last
        if seen.done == seen.total:
            stage["runs"] += seen.total
        last = at
    return stages


if __name__ == "__main__":
    main()
