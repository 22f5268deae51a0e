"""A worker process reserved for requests that wait, never busy with a round."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.process_executor import ShutdownExecutorError

from twin.errors import SearchError, TwinError
from twin.workers.pool import Job, end_with

T = TypeVar("T")


class ReservedWorker:
    """One process at normal priority, beside the pool of the rounds.

    It starts with the first job and ends ``idle_timeout_s`` after the last. Where it dies (killed, out of
    memory) another one repeats the job, at most ``retries`` times.
    """

    n_workers = 1

    def __init__(self, *, idle_timeout_s: float = 1800.0, retries: int = 1) -> None:
        self._idle_timeout_s = idle_timeout_s
        self._retries = retries
        self._lock = threading.Lock()
        self._process: ProcessPoolExecutor | None = None

    def run(self, tasks: Sequence[Job[T]], done: Callable[[int, T], None]) -> None:
        """See ``Workers``: one after another, in their order."""
        for number, task in enumerate(tasks):
            done(number, self._answer(task))

    def close(self) -> None:
        """Ends the process; a job in progress raises ``SearchError``. The next run starts cold."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.shutdown(wait=True, kill_workers=True)

    def _answer(self, task: Job[T]) -> T:
        for _ in range(self._retries + 1):
            process = self._started()
            try:
                answer: T | TwinError = process.submit(_answered, task).result()
            except BrokenProcessPool:
                self._forget(process)
                continue
            except ShutdownExecutorError as error:
                raise SearchError(
                    "prediction",
                    None,
                    "its worker process was closed before it ended",
                    "ask again",
                ) from error
            if isinstance(answer, TwinError):
                raise answer
            return answer
        raise SearchError(
            "prediction",
            f"a worker process that died {self._retries + 1} times",
            "worker processes must live to the end of their job",
            "look for an out-of-memory kill, ask for less, and ask again",
        )

    def _started(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._process is None:
                self._process = ProcessPoolExecutor(
                    max_workers=1, timeout=self._idle_timeout_s, initializer=end_with, initargs=(os.getpid(),)
                )
            return self._process

    def _forget(self, process: ProcessPoolExecutor) -> None:
        with self._lock:
            if self._process is process:
                self._process = None
        process.shutdown(wait=False, kill_workers=True)


def _answered(task: Job[T]) -> T | TwinError:
    """The job's result, or its error as a value, which pickles whole."""
    try:
        return task.run()
    except TwinError as error:
        return error
