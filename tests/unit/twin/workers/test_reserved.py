"""A process of its own for those who wait: what it answers, and what becomes of it when it dies."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.unit.twin.analytic_engine import HERE, AnalyticEngine
from tests.unit.twin.fabrics import star
from twin.errors import SearchError
from twin.prediction import Prediction
from twin.scenario import Scenario
from twin.watermark import Watermark
from twin.workers.pool import ReservedWorker, Task, shipped

WATERMARKS = [Watermark(1_000 * number, 150_000, 0.1) for number in range(1, 5)]
NVIDIA = Watermark(150_000, 1_500_000, 1.0)


@pytest.fixture(scope="module")
def worker() -> Iterator[ReservedWorker]:
    made = ReservedWorker()
    yield made
    made.close()


def run(
    worker: ReservedWorker, engine: str, *watermarks: Watermark, scenario: Scenario | None = None
) -> list[Prediction]:
    scenario, results = scenario or star([(0, 1)]), dict[int, list[Prediction]]()
    with shipped([scenario]) as (file,):
        tasks = [Task(file, f"{HERE}:{engine}", scenario.duration_s, (one,), 1) for one in watermarks]
        worker.run(tasks, results.__setitem__)
    assert list(results) == list(range(len(tasks)))
    return [prediction for predictions in results.values() for prediction in predictions]


def test_it_predicts_what_this_process_predicts(worker: ReservedWorker) -> None:
    assert run(worker, "AnalyticEngine", *WATERMARKS) == AnalyticEngine().predict(
        star([(0, 1)]), WATERMARKS, seed=1
    )


def test_it_is_one_process_that_stays_and_gives_way_to_nobody(worker: ReservedWorker, tmp_path: Path) -> None:
    for _ in range(2):
        run(worker, "SigningEngine", *WATERMARKS, scenario=star([(0, 1)], name=str(tmp_path)))
    (process,) = tmp_path.iterdir()
    assert int(process.name) != os.getpid()
    (found,) = run(worker, "PriorityEngine", NVIDIA)
    assert found.queue_mean_bytes == os.getpriority(os.PRIO_PROCESS, 0)


def test_another_takes_the_job_of_one_that_dies(worker: ReservedWorker, tmp_path: Path) -> None:
    marker = tmp_path / "died"
    found = run(worker, "DyingOnceEngine", WATERMARKS[0], NVIDIA, scenario=star([(0, 1)], name=str(marker)))
    assert marker.exists()
    assert [one.watermark for one in found] == [WATERMARKS[0], NVIDIA]


def test_a_job_that_kills_every_one_is_an_error_and_the_next_job_is_none(worker: ReservedWorker) -> None:
    with pytest.raises(SearchError, match="died 2 times"):
        run(worker, "AlwaysDyingEngine", NVIDIA)
    assert len(run(worker, "AnalyticEngine", NVIDIA)) == 1


def test_an_engine_that_raises_is_a_sentence(worker: ReservedWorker) -> None:
    with pytest.raises(SearchError, match="RuntimeError: a kernel went wrong"):
        run(worker, "RaisingEngine", NVIDIA)


def test_closed_in_the_middle_of_a_job_it_ends_both(worker: ReservedWorker, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with ThreadPoolExecutor(1) as thread:
        endless = star([(0, 1)], name=str(begun))
        job = thread.submit(run, worker, "EndlessEngine", NVIDIA, scenario=endless)
        while not begun.exists() and not job.done():
            time.sleep(0.01)
        worker.close()
        with pytest.raises(SearchError, match="its worker process was closed"):
            job.result()


def test_closed_it_begins_anew(worker: ReservedWorker) -> None:
    worker.close()
    worker.close()
    assert len(run(worker, "AnalyticEngine", NVIDIA)) == 1
