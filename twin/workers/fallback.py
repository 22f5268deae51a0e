"""Runs a round's jobs on a cluster, and in processes here for as long as the cluster is away."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from twin.errors import ClusterError
from twin.workers.pool import Job, Workers

AGAIN_AFTER_S = 60.0  # asking a cluster that is away takes a timeout each time

T = TypeVar("T")


class FallbackWorkers:
    """The workers of ``cluster``; those ``here`` do what it has not done where it raises ``ClusterError``.

    The cluster is asked again once ``AGAIN_AFTER_S`` are over by ``clock_s``. ``warn`` gets a sentence each
    time it is lost. Results are the same in either place. Thread-safe where both are.
    """

    def __init__(
        self,
        cluster: Workers,
        here: Workers,
        *,
        warn: Callable[[str], None],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._here = here
        self._warn = warn
        self._clock_s = clock_s
        self._away_until_s = -float("inf")

    @property
    def n_workers(self) -> int:
        """Those of the cluster, or of here while it is away."""
        if not self._away:
            try:
                return self._cluster.n_workers
            except ClusterError as error:
                self._lose(error)
        return self._here.n_workers

    def run(self, tasks: Sequence[Job[T]], done: Callable[[int, T], None]) -> None:
        left = dict(enumerate(tasks))

        def finish(number: int, result: T) -> None:
            del left[number]
            done(number, result)

        if not self._away:
            try:
                self._cluster.run(tasks, finish)
            except ClusterError as error:
                self._lose(error)
        if numbers := list(left):
            self._here.run([tasks[at] for at in numbers], lambda at, result: finish(numbers[at], result))

    def close(self) -> None:
        self._cluster.close()
        self._here.close()

    @property
    def _away(self) -> bool:
        return self._clock_s() < self._away_until_s

    def _lose(self, error: ClusterError) -> None:
        self._away_until_s = self._clock_s() + AGAIN_AFTER_S
        self._warn(f"{error}; rounds run in {self._here.n_workers} processes here until it answers again")
