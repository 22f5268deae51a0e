"""Whom a round is given to: schedulers that are away, workers of another version, certificates."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.counterparts.certificates import Authority
from tests.counterparts.dask_cluster import REPOSITORY, DaskCluster
from tests.unit.twin.analytic_engine import HERE, AnalyticEngine
from tests.unit.twin.fabrics import star
from tests.unit.twin.workers.test_workers import WATERMARKS, run
from twin.errors import SearchError
from twin.workers.dask import DaskWorkers
from twin.workers.dask_connection import Connection, LostError, TlsFiles
from twin.workers.pool import Task, shipped

pytestmark = pytest.mark.slow
SCENARIO = star([(0, 1)])
PATIENCE_S = 600.0
EXPECTED = AnalyticEngine().predict(SCENARIO, WATERMARKS, seed=1)


@pytest.fixture
def unused() -> Iterator[int]:
    """A port of loopback at which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


def hurry(workers: DaskWorkers, timeout_s: float) -> None:
    """From now on they wait no longer; until then a slow machine has its time."""
    workers._timeout_s = timeout_s
    workers._connected()._timeout_s = timeout_s


def once(workers: DaskWorkers) -> None:
    """A run, and the end of the connection."""
    try:
        assert run(workers, SCENARIO, "AnalyticEngine", [WATERMARKS]) == {0: EXPECTED}
    finally:
        workers.close()


def test_a_scheduler_that_is_away_is_a_sentence(unused: int) -> None:
    workers = DaskWorkers(f"tcp://127.0.0.1:{unused}", timeout_s=0.5)
    for _ in range(2):
        with pytest.raises(SearchError, match=r"a scheduler that answers within 0\.5 s") as caught:
            once(workers)
    assert caught.value.where == f"dask scheduler tcp://127.0.0.1:{unused}"
    assert "next round tries again" in caught.value.remedy


def test_a_scheduler_that_goes_and_one_that_does_not_answer_are_sentences(tmp_path: Path) -> None:
    with DaskCluster(tmp_path / "dask", 1) as cluster:
        workers = DaskWorkers(cluster.address, timeout_s=PATIENCE_S)
        try:
            assert run(workers, SCENARIO, "AnalyticEngine", [WATERMARKS]) == {0: EXPECTED}
            hurry(workers, 3.0)
            cluster.freeze_scheduler()
            with pytest.raises(SearchError, match="within 3 s"):
                run(workers, SCENARIO, "AnalyticEngine", [WATERMARKS])
            cluster.kill_scheduler()
            with pytest.raises(SearchError, match="dask scheduler"):
                run(workers, SCENARIO, "AnalyticEngine", [WATERMARKS])
        finally:
            workers.close()


def test_a_scheduler_that_goes_in_the_middle_of_a_run_is_a_sentence(tmp_path: Path) -> None:
    with DaskCluster(tmp_path / "dask", 1) as cluster:
        workers = DaskWorkers(cluster.address, timeout_s=PATIENCE_S)
        gone: list[int] = []

        def leave(number: int, answer: object) -> None:
            if not gone:
                gone.append(number)
                hurry(workers, 3.0)
                cluster.kill_scheduler()

        try:
            with shipped([SCENARIO]) as (file,):
                tasks = [Task(file, f"{HERE}:AnalyticEngine", 0.02, (one,), 1) for one in WATERMARKS]
                with pytest.raises(SearchError, match="dask scheduler tcp"):
                    workers.run(tasks, leave)
        finally:
            workers.close()


def test_a_worker_that_goes_before_it_is_sent_a_scenario_is_lost_and_no_defect(tmp_path: Path) -> None:
    with DaskCluster(tmp_path / "dask") as cluster:
        connection = Connection(cluster.address, tls=None, timeout_s=PATIENCE_S, warn=lambda _: None)
        try:
            crew = connection.crew()
            cluster.kill(cluster.processes[0])
            while len(connection.crew().threads) == len(crew.threads):
                time.sleep(0.02)
            with shipped([SCENARIO]) as (file,):
                with pytest.raises(LostError, match="a scheduler that knows its workers"):
                    connection.send(file, crew)
                connection.send(file, connection.crew())
        finally:
            connection.close()


def test_without_workers_is_a_sentence_and_with_one_the_next_run_goes(tmp_path: Path) -> None:
    with DaskCluster(tmp_path / "dask", 0) as cluster:
        workers = DaskWorkers(cluster.address, timeout_s=PATIENCE_S)
        hurry(workers, 0.5)
        with pytest.raises(SearchError, match=r"no worker within 0\.5 s; a round needs workers"):
            once(workers)
        cluster.add_worker()
        cluster.wait_for_workers(1)
        once(DaskWorkers(cluster.address, timeout_s=PATIENCE_S))


def test_workers_of_other_code_or_without_any_are_refused(tmp_path: Path) -> None:
    other, none = tmp_path / "other", tmp_path / "none"
    shutil.copytree(REPOSITORY / "twin", other / "twin", ignore=shutil.ignore_patterns("__pycache__"))
    (other / "twin" / "another.py").touch()
    (none / "twin").mkdir(parents=True)
    (none / "twin" / "__init__.py").write_text('raise ImportError("a broken copy")', "utf-8")
    told: list[str] = []
    with DaskCluster(tmp_path / "dask", 1, paths=(other, REPOSITORY)) as cluster:
        workers = DaskWorkers(cluster.address, timeout_s=PATIENCE_S, warn=told.append)
        with pytest.raises(SearchError, match=r"worker tcp://\S+ runs ecntwin .* only where workers"):
            once(workers)
        assert len(told) == 1
        cluster.add_worker(paths=(none, REPOSITORY))
        cluster.add_worker()
        cluster.wait_for_workers(3)
        workers = DaskWorkers(cluster.address, timeout_s=PATIENCE_S, warn=told.append)
        assert workers.n_workers == 1
        once(workers)
        assert len(told) == 3
        assert sum("a broken copy" in sentence for sentence in told) == 1
        assert all("it is given nothing to do" in sentence for sentence in told)


def test_a_cluster_with_certificates_lets_in_who_has_one(tmp_path: Path) -> None:
    authority = Authority("fabric")
    signed = authority.signed("127.0.0.1")
    files = TlsFiles(tmp_path / "ca.pem", tmp_path / "cert.pem", tmp_path / "key.pem")
    files.ca.write_bytes(authority.certificate)
    files.certificate.write_bytes(signed.certificate)
    files.key.write_bytes(signed.key)
    named = {"--tls-ca-file": files.ca, "--tls-cert": files.certificate, "--tls-key": files.key}
    options = [word for option, file in named.items() for word in (option, str(file))]
    with DaskCluster(tmp_path / "dask", 1, tls=options) as cluster:
        assert cluster.address.startswith("tls://")
        once(DaskWorkers(cluster.address, tls=files, timeout_s=PATIENCE_S))
        stranger = Authority("elsewhere").signed("127.0.0.1")
        unknown = TlsFiles(files.ca, tmp_path / "other.pem", tmp_path / "other.key")
        unknown.certificate.write_bytes(stranger.certificate)
        unknown.key.write_bytes(stranger.key)
        for given in (unknown, TlsFiles(tmp_path / "nowhere", files.certificate, files.key)):
            with pytest.raises(SearchError, match="dask scheduler tls://"):
                once(DaskWorkers(cluster.address, tls=given, timeout_s=2.0))
