"""Runs batches on the workers of a Dask cluster, through joblib.

Workers share no files with this process: a scenario is sent to all of them once a round. Batches of a killed
worker run again elsewhere: the scheduler sees to it, or ``DaskWorkers`` where the scenario was lost too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from multiprocessing import TimeoutError as JoblibTimeoutError
from typing import Any, TypeVar

from distributed.client import FutureCancelledError
from distributed.comm.core import CommClosedError
from distributed.scheduler import KilledWorker
from joblib import Parallel, delayed
from joblib._dask import DaskDistributedBackend

from twin.errors import ClusterError, SearchError, TwinError
from twin.workers.dask_connection import Connection, LostError, Stamp, TlsFiles, own_stamp
from twin.workers.pool import Job, answered, enter_answers, having, run_in_attempts


@dataclass(frozen=True, slots=True)
class _FailedBatch:
    """The result of a batch that Dask gave up."""

    error: BaseException


class FailingDaskBackend(DaskDistributedBackend):  # type: ignore[misc] # joblib has no types
    """joblib's backend, but a batch that Dask gives up fails the run, and a single worker thread is used.

    joblib (1.5, 1.6) calls back only for results: after a batch that kills its workers ``Parallel`` waits for
    ever. And for one thread joblib runs batches in this process.
    """

    def __init__(self, *, n_threads: int, **given: Any) -> None:
        super().__init__(**given)
        self._n_threads = n_threads

    def effective_n_jobs(self, n_jobs: int) -> int:
        return max(self._n_threads, 2)

    def submit(self, func: Any, callback: Callable[[Any], None] | None = None) -> Future[Any]:
        submitted: Future[Any] = super().submit(func, callback)
        if callback is not None:

            def report_failure(ended: Future[Any]) -> None:
                if (error := ended.exception()) is not None:
                    callback(_FailedBatch(error))

            submitted.add_done_callback(report_failure)
        return submitted

    def retrieve_result_callback(self, out: Any) -> Any:
        if isinstance(out, _FailedBatch):
            raise out.error
        if isinstance(out, BaseException):  # of a cancelled batch
            raise out
        return super().retrieve_result_callback(out)


T = TypeVar("T")


class OtherVersion:
    """The result of a worker that joined during a run and has another version."""


class DaskWorkers:
    """The workers of the cluster at ``scheduler``, such as ``tcp://scheduler:8786``.

    Connects on the first run, and again after an error. ``timeout_s`` bounds each request to the cluster,
    ``silence_s`` the time without a finished batch. ``warn`` gets a sentence for each unused worker.
    Thread-safe.
    """

    def __init__(
        self,
        scheduler: str,
        *,
        tls: TlsFiles | None = None,
        timeout_s: float = 10.0,
        silence_s: float = 300.0,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._scheduler = scheduler
        self._tls = tls
        self._timeout_s = timeout_s
        self._silence_s = silence_s
        self._warn = warn
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._closings = 0

    @property
    def n_workers(self) -> int:
        """Threads of the usable workers; raises ``ClusterError`` where there is none."""
        connection = self._connected()
        try:
            return connection.crew().n_threads
        except LostError:
            self._leave(connection)
            return self._connected().crew().n_threads

    def run(self, tasks: Sequence[Job[T]], done: Callable[[int, T], None]) -> None:
        closings = self._closings

        def attempt(left: dict[int, Job[T]]) -> None:
            if self._closings != closings:
                rule = "its workers were closed before it ended"
                raise SearchError("tuning round", None, rule, "ask again")
            self._attempt(left, done)

        run_in_attempts(tasks, attempt)

    def close(self) -> None:
        """Disconnects; runs in progress end with ``SearchError``."""
        with self._lock:
            self._closings += 1
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connected(self) -> Connection:
        with self._lock:
            if self._connection is not None and not self._connection.usable:
                self._connection.close()
                self._connection = None
            if self._connection is None:
                self._connection = Connection(
                    self._scheduler, tls=self._tls, timeout_s=self._timeout_s, warn=self._warn
                )
            return self._connection

    def _leave(self, connection: Connection) -> None:
        """Drops a connection after an error, so that the next one starts clean."""
        with self._lock:
            if self._connection is connection:
                self._connection = None
        connection.close()

    def _attempt(self, left: dict[int, Job[T]], done: Callable[[int, T], None]) -> None:
        """Runs the tasks ``left`` and removes those that finish."""
        connection = self._connected()
        files = {task.scenario_file for task in left.values()}
        try:
            crew = connection.crew()
            content = {file: connection.send(file, crew) for file in files}
        except LostError:  # such as a worker that left during the transfer
            self._leave(connection)
            return
        stopped = threading.Event()
        chosen = {"workers": list(crew.threads)} if crew.refused else {}

        def results() -> Iterator[tuple[int, T | TwinError | OtherVersion]]:
            parallel = Parallel(
                n_jobs=-1,
                backend=FailingDaskBackend(
                    n_threads=crew.n_threads, client=connection.client, pure=False, **chosen
                ),
                batch_size=1,
                pre_dispatch="2 * n_jobs",
                return_as="generator_unordered",
                timeout=self._silence_s,
            )
            # In the generator: the call itself submits tasks, and raises where the scheduler has just gone.
            yield from parallel(
                delayed(run_there)(number, task, content[task.scenario_file], own_stamp())
                for number, task in list(left.items())
                if not stopped.is_set()
            )

        enter_answers(self._until_lost(results(), connection), left, done, stopped)

    def _until_lost(
        self, results: Iterator[tuple[int, T | TwinError | OtherVersion]], connection: Connection
    ) -> Iterator[tuple[int, T | TwinError]]:
        """The results; ends early where the rest is to run again."""
        try:
            for number, answer in results:
                if not isinstance(answer, OtherVersion):
                    yield number, answer
        except KilledWorker as error:
            self._leave(connection)
            received = f"a batch lost with each of {error.allowed_failures + 1} workers"
            rule = "worker processes must live to the end of their batch"
            remedy = "look in the workers' logs for an out-of-memory kill, and give them more memory"
            raise SearchError("tuning round", received, rule, remedy) from error
        except (FutureCancelledError, CancelledError, CommClosedError):
            self._leave(connection)
        except (JoblibTimeoutError, TimeoutError) as error:
            self._leave(connection)
            received = f"no batch for {self._silence_s:g} s"
            rule = "workers answer every now and then (search.dask_silence_s)"
            remedy = "check that workers run, and look in their logs"
            raise ClusterError(f"dask scheduler {self._scheduler}", received, rule, remedy) from error
        except Exception as error:
            self._leave(connection)
            received = f"{type(error).__name__}: {error}"
            rule = "scheduler and workers run batches"
            remedy = "start them from the service's own image, and look in their logs"
            raise ClusterError(f"dask scheduler {self._scheduler}", received, rule, remedy) from error


def run_there(
    number: int, task: Job[T], content: bytes, expected: Stamp
) -> tuple[int, T | TwinError | OtherVersion]:
    """In a worker: the task's number and its result or error, on the scenario in ``content``."""
    if own_stamp() != expected:
        return number, OtherVersion()
    with having(task.scenario_file, content):
        return number, answered(task)
