"""The same round in this process, in two local processes and on two Dask workers, side by side in one run.

``python -m bench.cluster [CANDIDATES]`` prints one JSON document. The Dask workers are processes of this
machine, so that what differs is the way to them and nothing else; all have as many cores as it has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

from bench.__main__ import parser_of
from bench.figure import Figure
from bench.search import run, scenario_from_reports
from twin.search.problem import SearchSettings
from twin.workers.pool import make_workers

N_WORKERS = 2
CANDIDATES = 256
PLACES = ("in process", "processes", "dask")


def measured(candidates: int = CANDIDATES, repeats: int = 3) -> dict[str, dict[str, Any]]:
    """The results of ``bench.search.run`` by place; raises ``ImportError`` without ``ecntwin[dask]``."""
    from distributed import LocalCluster

    from twin.workers.dask import DaskWorkers

    scenario, dominant_class = scenario_from_reports()
    settings = SearchSettings(second_engine=None, candidates=candidates, narrowed=candidates // 4)
    found = {}
    with LocalCluster(
        n_workers=N_WORKERS,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        worker_dashboard_address=None,
    ) as cluster:
        # The last first: the others' threads and memory are not there yet while it starts its processes.
        for place, workers in (
            ("dask", DaskWorkers(cluster.scheduler_address)),
            ("processes", make_workers(N_WORKERS)),
            ("in process", make_workers(1)),
        ):
            found[place] = run(scenario, dominant_class, repeats=repeats, settings=settings, workers=workers)
    return {place: found[place] for place in PLACES}


def measure() -> Iterable[Figure]:
    """The round's times for the table, and how much quicker each way is than this process alone."""
    try:
        found = measured()
    except ImportError as error:
        yield Figure("round on a Dask cluster", float("nan"), "", note=f"not measured: {error}")
        return
    alone = found["in process"]
    for place, round_ in found.items():
        yield Figure(
            f"round of {CANDIDATES} candidates, {place}",
            round_["best_warm_s"],
            "s",
            note=f"{round_['workers']} at once on {os.cpu_count()} cores, warm, best of "
            f"{len(round_['warm_s'])}; cold {round_['cold_s']:.1f} s",
        )
    for place in PLACES[1:]:
        yield Figure(
            f"speed-up, {place}",
            alone["best_warm_s"] / found[place]["best_warm_s"],
            "×",
            better="higher",
            note=f"{N_WORKERS} workers against this process alone",
        )
    yield Figure(
        "Dask beside processes, the same round",
        found["dask"]["best_warm_s"] / found["processes"]["best_warm_s"],
        "×",
        note="what the way through scheduler and network costs, on one machine",
    )
    yield Figure(
        "places whose recommendation differs",
        sum(round_["why"] != alone["why"] for round_ in found.values()),
        "",
        goal=0,
        note=f"all: {alone['watermark']}",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of("bench.cluster", __doc__)
    parser.add_argument("candidates", nargs="?", type=int, default=CANDIDATES, help="default: %(default)s")
    print(json.dumps(measured(parser.parse_args(arguments).candidates), indent=2))


if __name__ == "__main__":
    main()
