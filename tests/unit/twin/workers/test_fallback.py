"""A cluster that is away: its jobs run here, and it is asked again later."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from tests.unit.twin.analytic_engine import AnalyticEngine
from tests.unit.twin.fabrics import star
from tests.unit.twin.workers.test_workers import WATERMARKS, run
from twin.errors import SearchError
from twin.workers.dask import DaskWorkers
from twin.workers.fallback import AGAIN_AFTER_S, FallbackWorkers
from twin.workers.pool import InProcessWorkers

SCENARIO = star([(0, 1)])
BATCHES = [WATERMARKS[:4], WATERMARKS[4:]]


def test_a_cluster_that_is_away_is_asked_again_a_minute_later_and_said_once_each_time() -> None:
    told: list[str] = []
    now_s = [0.0]
    expected = AnalyticEngine().predict(SCENARIO, WATERMARKS, seed=1)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        away = DaskWorkers(f"tcp://127.0.0.1:{unused.getsockname()[1]}", timeout_s=0.2)
        here = InProcessWorkers()
        with closing(FallbackWorkers(away, here, warn=told.append, clock_s=lambda: now_s[0])) as workers:
            for at_s in (0.0, AGAIN_AFTER_S - 1.0, AGAIN_AFTER_S + 1.0):
                now_s[0] = at_s
                assert workers.n_workers == 1
                found = run(workers, SCENARIO, "AnalyticEngine", BATCHES)
                assert [*found[0], *found[1]] == expected
    assert len(told) == 2
    assert all("a scheduler that answers within 0.2 s" in one for one in told)
    assert all("rounds run in 1 processes here until it answers again" in one for one in told)


def test_an_engine_that_fails_is_not_asked_again_here() -> None:
    class Failing(InProcessWorkers):
        def run(self, tasks: object, done: object) -> None:
            raise SearchError("engine X", "ValueError: no", "an engine answers", "report it")

    workers = FallbackWorkers(Failing(), InProcessWorkers(), warn=pytest.fail)
    with pytest.raises(SearchError, match="engine X"):
        run(workers, SCENARIO, "AnalyticEngine", BATCHES)
