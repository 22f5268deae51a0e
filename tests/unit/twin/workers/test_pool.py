"""Batches in worker processes: order, errors, and processes that are killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joblib._parallel_backends import LokyBackend

from tests.unit.twin.analytic_engine import HERE, AnalyticEngine
from tests.unit.twin.fabrics import star
from twin.errors import ParameterError, SearchError
from twin.prediction import Prediction
from twin.scenario import Scenario
from twin.watermark import Watermark
from twin.workers.pool import (
    InProcessWorkers,
    ProcessWorkers,
    Task,
    Workers,
    make_workers,
    resolve_engine,
    shipped,
)

WATERMARKS = [Watermark(1_000 * number, 150_000, 0.1) for number in range(1, 13)]
NVIDIA = Watermark(150_000, 1_500_000, 1.0)


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessWorkers]:
    workers = ProcessWorkers(2)
    yield workers
    workers.close()


def run(
    workers: Workers, scenario: Scenario, engine: str, batches: list[list[Watermark]]
) -> dict[int, list[Prediction]]:
    results: dict[int, list[Prediction]] = {}
    with shipped([scenario]) as (file,):
        tasks = [Task(file, f"{HERE}:{engine}", scenario.duration_s, tuple(batch), 1) for batch in batches]
        workers.run(tasks, results.__setitem__)
    return results


def test_processes_predict_what_this_one_predicts(pool: ProcessWorkers) -> None:
    batches = [WATERMARKS[first : first + 3] for first in range(0, 12, 3)]
    apart = run(pool, star([(0, 1)]), "AnalyticEngine", batches)
    here = run(InProcessWorkers(), star([(0, 1)]), "AnalyticEngine", batches)
    assert apart == here
    direct = AnalyticEngine().predict(star([(0, 1)]), WATERMARKS, seed=1)
    assert [one for number in sorted(apart) for one in apart[number]] == direct


@pytest.mark.parametrize("make", [InProcessWorkers, lambda: ProcessWorkers(2)])
def test_tasks_run_on_the_scenario_cut_short(make: type[InProcessWorkers]) -> None:
    scenario, results = star([(0, 1)]), {}
    with shipped([scenario]) as (file,):
        task = Task(file, f"{HERE}:AnalyticEngine", 0.005, tuple(WATERMARKS), 3)
        make().run([task], results.__setitem__)
    assert results[0] == AnalyticEngine().predict(scenario.until(0.005), WATERMARKS, seed=3)


def test_a_worker_that_kills_itself_loses_nothing(pool: ProcessWorkers, tmp_path: Path) -> None:
    marker = tmp_path / "died"
    scenario = star([(0, 1)], name=str(marker))
    batches = [WATERMARKS[:4], [NVIDIA, *WATERMARKS[4:6]], WATERMARKS[6:]]
    results = run(pool, scenario, "DyingOnceEngine", batches)
    assert marker.exists()
    assert {number: [one.watermark for one in rows] for number, rows in results.items()} == dict(
        enumerate(batches)
    )


def test_a_worker_killed_from_outside_loses_nothing(pool: ProcessWorkers, tmp_path: Path) -> None:
    scenario = star([(0, 1)], name=str(tmp_path))
    killed: list[int] = []
    results: dict[int, list[Prediction]] = {}

    def kill_first(number: int, predictions: list[Prediction]) -> None:
        assert number not in results
        results[number] = predictions
        if not killed:
            killed.append(int(next(tmp_path.iterdir()).name))
            os.kill(killed[0], signal.SIGKILL)

    with shipped([scenario]) as (file,):
        engine = f"{HERE}:SigningEngine"
        tasks = [Task(file, engine, scenario.duration_s, (watermark,), 1) for watermark in WATERMARKS * 4]
        pool.run(tasks, kill_first)
    assert killed
    assert killed[0] != os.getpid()
    assert sorted(results) == list(range(len(tasks)))


def test_workers_killed_while_batches_are_handed_out_lose_nothing(
    pool: ProcessWorkers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario, batches = star([(0, 1)], name=str(tmp_path)), [WATERMARKS[:4], WATERMARKS[4:]]
    expected = run(pool, scenario, "SigningEngine", batches)
    submit = LokyBackend.submit
    killed: list[int] = []

    def handed_out(backend: LokyBackend, *given: Any, **named: Any) -> Any:
        if not killed:
            killed.extend(int(one.name) for one in tmp_path.iterdir())
            for process in killed:
                os.kill(process, signal.SIGKILL)
            while backend._workers._flags.broken is None:
                time.sleep(0.005)
        return submit(backend, *given, **named)

    monkeypatch.setattr(LokyBackend, "submit", handed_out)
    assert run(pool, scenario, "SigningEngine", batches) == expected
    assert killed


def test_a_batch_that_kills_every_worker_is_reported(pool: ProcessWorkers) -> None:
    with pytest.raises(SearchError, match="batches lost in 3 attempts; worker processes must live") as caught:
        run(pool, star([(0, 1)]), "AlwaysDyingEngine", [WATERMARKS[:2], [NVIDIA]])
    assert caught.value.where == "tuning round"
    assert len(run(pool, star([(0, 1)]), "AnalyticEngine", [WATERMARKS])[0]) == 12


@pytest.mark.parametrize("n_workers", [0, 2])
def test_an_engine_that_raises_is_a_sentence(n_workers: int) -> None:
    with pytest.raises(
        SearchError, match="RuntimeError: a kernel went wrong; an engine answers with a status"
    ):
        run(make_workers(n_workers), star([(0, 1)]), "RaisingEngine", [WATERMARKS[:1]])


@pytest.mark.parametrize("n_workers", [0, 2])
def test_a_fabric_too_large_for_the_machine_is_a_sentence(n_workers: int) -> None:
    with pytest.raises(
        SearchError, match=r"no memory left: another .*iB does not fit; .* use fewer workers, shorter moments"
    ):
        run(make_workers(n_workers), star([(0, 1)]), "TooLargeEngine", [WATERMARKS[:1]])


def test_what_done_raises_ends_the_run(pool: ProcessWorkers) -> None:
    class StopNowError(Exception):
        pass

    def stop(number: int, predictions: list[Prediction]) -> None:
        raise StopNowError

    with shipped([star([(0, 1)])]) as (file,):
        tasks = [Task(file, f"{HERE}:AnalyticEngine", 0.02, (watermark,), 1) for watermark in WATERMARKS]
        with pytest.raises(StopNowError):
            pool.run(tasks, stop)
    assert len(run(pool, star([(0, 1)]), "AnalyticEngine", [WATERMARKS])[0]) == 12


def test_shipped_files_go_with_the_round() -> None:
    with shipped([star([(0, 1)]), star([(1, 0)])]) as files:
        assert len({file.name for file in files}) == 2
        assert all(file.exists() for file in files)
    assert not any(file.exists() for file in files)


def test_engines_by_name_and_by_path() -> None:
    assert isinstance(resolve_engine(f"{HERE}:AnalyticEngine"), AnalyticEngine)
    for bad in ("nowhere.at_all:Engine", f"{HERE}:NoSuchEngine"):
        with pytest.raises(ParameterError, match="cannot be imported"):
            resolve_engine(bad)
    with pytest.raises(ParameterError, match="known engines"):
        resolve_engine("guess")


def test_how_many_workers() -> None:
    assert make_workers(0).n_workers == make_workers(1).n_workers == 1
    assert make_workers(3).n_workers == 3
    with pytest.raises(ParameterError, match="a count is 0 or more"):
        make_workers(-1)
    with pytest.raises(ParameterError, match="two processes or more"):
        ProcessWorkers(1)


def test_the_pool_stays_warm_between_runs(pool: ProcessWorkers, tmp_path: Path) -> None:
    scenario = star([(0, 1)], name=str(tmp_path))
    for _ in range(3):
        run(pool, scenario, "SigningEngine", [[watermark] for watermark in WATERMARKS])
    assert len(list(tmp_path.iterdir())) <= 2


def test_workers_give_way_and_this_process_does_not() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    workers = ProcessWorkers(2, niceness=19)
    workers.close()  # a pool that is still warm from before keeps what it was set to
    try:
        ((answer,),) = run(workers, star([(0, 1)]), "PriorityEngine", [WATERMARKS[:1]]).values()
    finally:
        workers.close()
    assert answer.queue_mean_bytes == 19.0
    assert os.getpriority(os.PRIO_PROCESS, 0) == own


def test_workers_that_need_not_give_way_stay_as_they_are() -> None:
    workers = make_workers(2)
    workers.close()
    try:
        ((answer,),) = run(workers, star([(0, 1)]), "PriorityEngine", [WATERMARKS[:1]]).values()
    finally:
        workers.close()
    assert answer.queue_mean_bytes == os.getpriority(os.PRIO_PROCESS, 0)
