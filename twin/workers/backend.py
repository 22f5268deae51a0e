"""joblib's Dask backend, made to tell of every batch that Dask gives up; imports Dask and joblib only."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from joblib._dask import DaskDistributedBackend


@dataclass(frozen=True, slots=True)
class _GivenUp:
    """Stands for the answer of a batch that has none."""

    error: BaseException


class TellingDaskBackend(DaskDistributedBackend):  # type: ignore[misc] # joblib has no types
    """As joblib's, and a batch without an answer is an error of the run; one worker is a worker too.

    joblib (1.5, 1.6) tells ``Parallel`` of answers only: of a batch that killed the workers it was given
    to it hears nothing, and waits for ever. And where there is one thread to run on, joblib takes this one.
    """

    def __init__(self, *, n_threads: int, **given: Any) -> None:
        super().__init__(**given)
        self._n_threads = n_threads

    def effective_n_jobs(self, n_jobs: int) -> int:
        """See joblib's ``ParallelBackendBase``."""
        return max(self._n_threads, 2)

    def submit(self, func: Any, callback: Callable[[Any], None] | None = None) -> Future[Any]:
        """See joblib's ``ParallelBackendBase``."""
        submitted: Future[Any] = super().submit(func, callback)
        if callback is not None:
            tell = callback
            submitted.add_done_callback(lambda ended: _tell_of_failure(ended, tell))
        return submitted

    def retrieve_result_callback(self, out: Any) -> Any:
        """See joblib's ``ParallelBackendBase``."""
        if isinstance(out, _GivenUp):
            raise out.error
        if isinstance(out, BaseException):  # the answer of a batch that was cancelled
            raise out
        return super().retrieve_result_callback(out)


def _tell_of_failure(ended: Future[Any], callback: Callable[[Any], None]) -> None:
    error = ended.exception()
    if error is not None:
        callback(_GivenUp(error))
