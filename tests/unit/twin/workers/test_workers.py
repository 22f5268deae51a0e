"""Batches on a real Dask cluster: the same answers, and workers and schedulers that go in the middle."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bench.replay import fabric_under
from tests.counterparts.dask_cluster import DaskCluster
from tests.unit.twin.analytic_engine import HERE, AnalyticEngine
from tests.unit.twin.fabrics import star
from tests.unit.twin.search.test_round import APART, COUPLED, problem
from tests.unit.twin.search.test_round import settings as search_settings
from twin.errors import SearchError
from twin.prediction import Prediction
from twin.scenario import Scenario
from twin.search.problem import SearchSettings, TuningProblem
from twin.search.round import tune
from twin.watermark import Watermark
from twin.workers.dask import DaskWorkers
from twin.workers.pool import InProcessWorkers, ProcessWorkers, Task, Workers, shipped

pytestmark = pytest.mark.slow

WATERMARKS = [Watermark(1_000 * number, 150_000, 0.1) for number in range(1, 13)]
NVIDIA = Watermark(150_000, 1_500_000, 1.0)
PATIENCE_S = 600.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    with DaskCluster(tmp_path_factory.mktemp("dask")) as started:
        yield started


@pytest.fixture
def workers(cluster: DaskCluster) -> Iterator[DaskWorkers]:
    with closing(DaskWorkers(cluster.address, timeout_s=PATIENCE_S)) as connected:
        yield connected


@pytest.fixture
def fleeting(tmp_path: Path) -> Iterator[DaskCluster]:
    """A cluster that a test may break."""
    with DaskCluster(tmp_path / "dask") as started:
        yield started


def run(
    workers: Workers, scenario: Scenario, engine: str, batches: list[list[Watermark]]
) -> dict[int, list[Prediction]]:
    results: dict[int, list[Prediction]] = {}
    with shipped([scenario]) as (file,):
        tasks = [Task(file, f"{HERE}:{engine}", scenario.duration_s, tuple(batch), 1) for batch in batches]
        workers.run(tasks, results.__setitem__)
    return results


def test_a_cluster_predicts_what_this_process_predicts(workers: DaskWorkers) -> None:
    batches = [WATERMARKS[first : first + 3] for first in range(0, 12, 3)]
    assert run(workers, star(COUPLED), "AnalyticEngine", batches) == run(
        InProcessWorkers(), star(COUPLED), "AnalyticEngine", batches
    )
    assert workers.n_workers == 2


@pytest.mark.parametrize("pairs", [COUPLED, APART])
def test_a_round_has_the_same_answer_as_with_processes(
    workers: DaskWorkers, pairs: list[tuple[int, int]]
) -> None:
    with closing(ProcessWorkers(2)) as pool:
        apart = tune(problem(pairs), search_settings(), seed=7, workers=workers, version="1")
        here = tune(problem(pairs), search_settings(), seed=7, workers=pool, version="1")
    assert apart == here


def test_slices_of_a_fabric_are_cut_and_run_there_too(workers: DaskWorkers) -> None:
    scenario = fabric_under(8, 4, 16, 400.0, 0.6, 3e-3, "paper")
    incumbent = Watermark(400_000, 1_600_000, 0.2)
    asked = TuningProblem(scenario=scenario, incumbent=incumbent, base=incumbent, dominant_class="elephant")
    how = SearchSettings(candidates=16, narrowed=4, leaders=2, second_engine=None, budget_s=0.5)
    apart = tune(asked, how, seed=7, workers=workers)
    assert "slices" in apart.notes[0]
    assert apart == tune(asked, how, seed=7, workers=InProcessWorkers())


def test_a_scenario_is_sent_and_no_file_is_read(workers: DaskWorkers, tmp_path: Path) -> None:
    scenario, results = star(COUPLED), {}
    with shipped([scenario]) as (file,):
        content = file.read_bytes()
    elsewhere = tmp_path / file.name
    elsewhere.write_bytes(content)
    task = Task(elsewhere, f"{HERE}:AnalyticEngine", 0.005, tuple(WATERMARKS), 3)
    workers.run([task], results.__setitem__)
    assert results[0] == AnalyticEngine().predict(scenario.until(0.005), WATERMARKS, seed=3)


def test_an_engine_that_raises_is_a_sentence_and_the_rest_goes_on(workers: DaskWorkers) -> None:
    with pytest.raises(SearchError, match="a kernel went wrong; an engine answers with a status"):
        run(workers, star(COUPLED), "RaisingEngine", [WATERMARKS[:1]])
    assert len(run(workers, star(COUPLED), "AnalyticEngine", [WATERMARKS])[0]) == 12


def test_what_done_raises_ends_the_run(workers: DaskWorkers) -> None:
    class StopNowError(Exception):
        pass

    def stop(number: int, predictions: list[Prediction]) -> None:
        raise StopNowError

    with shipped([star(COUPLED)]) as (file,):
        tasks = [Task(file, f"{HERE}:AnalyticEngine", 0.02, (watermark,), 1) for watermark in WATERMARKS]
        with pytest.raises(StopNowError):
            workers.run(tasks, stop)
    assert len(run(workers, star(COUPLED), "AnalyticEngine", [WATERMARKS])[0]) == 12


def test_two_threads_may_ask_at_once(workers: DaskWorkers) -> None:
    found: list[dict[int, list[Prediction]]] = []
    batches = [[watermark] for watermark in WATERMARKS]
    threads = [
        threading.Thread(target=lambda: found.append(run(workers, star(COUPLED), "AnalyticEngine", batches)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1]
    assert sorted(found[0]) == list(range(12))


def test_a_worker_killed_in_the_middle_loses_nothing(fleeting: DaskCluster, tmp_path: Path) -> None:
    signed = tmp_path / "signed"
    signed.mkdir()
    scenario, results = star(COUPLED, name=str(signed)), {}
    killed: list[int] = []

    def kill_first(number: int, predictions: list[Prediction]) -> None:
        assert number not in results
        results[number] = predictions
        if not killed:
            killed.append(int(next(signed.iterdir()).name))
            fleeting.kill(killed[0])

    with (
        closing(DaskWorkers(fleeting.address, timeout_s=PATIENCE_S)) as workers,
        shipped([scenario]) as (file,),
    ):
        engine = f"{HERE}:SigningEngine"
        tasks = [Task(file, engine, 0.02, (watermark,), 1) for watermark in WATERMARKS * 4]
        workers.run(tasks, kill_first)
    assert sorted(results) == list(range(len(tasks)))
    assert len(fleeting.processes) == 1


def test_a_round_with_a_worker_killed_has_the_same_answer(fleeting: DaskCluster) -> None:
    expected = tune(problem(), search_settings(), seed=3, workers=InProcessWorkers())
    workers, stages = DaskWorkers(fleeting.address, timeout_s=PATIENCE_S), []

    def kill_one(step: object) -> None:
        stages.append(step)
        if len(stages) == 5:
            fleeting.kill(fleeting.processes[0])

    try:
        assert tune(problem(), search_settings(), seed=3, workers=workers, progress=kill_one) == expected
        deadline = time.monotonic() + PATIENCE_S
        while workers.n_workers > 1 and time.monotonic() < deadline:
            time.sleep(0.02)  # nothing tells that the scheduler has heard of it
        assert workers.n_workers == 1
    finally:
        workers.close()
    assert len(fleeting.processes) == 1


def test_all_workers_gone_and_others_come_is_the_same_answer(fleeting: DaskCluster) -> None:
    expected = tune(problem(), search_settings(), seed=3, workers=InProcessWorkers())
    workers, stages = DaskWorkers(fleeting.address, timeout_s=PATIENCE_S), []

    def replace_all(step: object) -> None:
        stages.append(step)
        if len(stages) == 5:
            for process in fleeting.processes:
                fleeting.kill(process)
            fleeting.add_worker()

    try:
        assert tune(problem(), search_settings(), seed=3, workers=workers, progress=replace_all) == expected
    finally:
        workers.close()


def test_a_batch_that_kills_every_worker_is_reported(tmp_path: Path) -> None:
    fewer = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    with (
        DaskCluster(tmp_path / "dask", environment=fewer) as cluster,
        closing(DaskWorkers(cluster.address, timeout_s=PATIENCE_S)) as workers,
    ):
        with pytest.raises(SearchError, match="a batch lost with each of 1 workers"):
            run(workers, star(COUPLED), "AlwaysDyingEngine", [WATERMARKS[:2], [NVIDIA]])
        assert len(run(workers, star(COUPLED), "AnalyticEngine", [WATERMARKS])[0]) == 12
