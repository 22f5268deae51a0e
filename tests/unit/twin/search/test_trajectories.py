"""Queues over time: their grid, their bounds, which of them are shown, and what a failed run becomes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.documents.predictions import TrajectoriesDocument
from tests.unit.twin.analytic_engine import HERE
from tests.unit.twin.fabrics import star
from tests.unit.twin.search.test_round import APART, COUPLED, INCUMBENT, one_round, problem, settings
from twin.errors import SearchError
from twin.prediction import SolveStatus, Trajectory
from twin.replay.model import ReplayEngine
from twin.scenario import Scenario
from twin.search.recommendation import VerdictKind
from twin.search.trajectories import (
    MOST_QUEUES,
    MOST_STEPS,
    Trajectories,
    averaged_over_steps,
    predict_trajectories,
    side_by_side,
)
from twin.watermark import Watermark
from twin.workers.pool import InProcessWorkers, ProcessWorkers, Workers, shipped

LOW = Watermark(5_000, 20_000, 0.5)


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessWorkers]:
    workers = ProcessWorkers(2)
    yield workers
    workers.close()


def curve(depths: list[list[float]] | NDArray[np.float64], watermark: Watermark = INCUMBENT) -> Trajectory:
    """Depths by port and sample, a sample a microsecond."""
    queue_bytes = np.asarray(depths, dtype=np.float64)
    return Trajectory(watermark, np.arange(queue_bytes.shape[1]) * 1e-6, queue_bytes)


def predicted(
    scenario: Scenario, watermarks: list[Watermark], *, workers: Workers | None = None, seed: int = 1
) -> Trajectories:
    with shipped([scenario]) as (file,):
        return predict_trajectories(
            scenario,
            file,
            watermarks,
            engine="replay",
            seed=seed,
            workers=workers or InProcessWorkers(),
            progress=lambda done, total: None,
        )


class TestSteps:
    def test_a_step_is_the_mean_of_its_samples(self) -> None:
        found = averaged_over_steps(curve([[1, 3, 5, 7, 100], [0, 0, 2, 2, 4]]), 3)
        assert found.queue_bytes.tolist() == [[2, 6, 100], [0, 2, 4]]
        assert found.time_s.tolist() == [0, 2e-6, 4e-6]

    @given(st.integers(1, 2_000), st.integers(1, 300))
    def test_there_are_never_too_many_and_none_leaves_the_samples(self, n_samples: int, most: int) -> None:
        depths = np.random.default_rng(n_samples).uniform(0, 1e6, (2, n_samples))
        found = averaged_over_steps(curve(depths), most)
        assert 1 <= len(found.time_s) == found.queue_bytes.shape[1] <= most
        assert np.all(found.queue_bytes >= depths.min(axis=1, keepdims=True) - 1e-6)
        assert np.all(found.queue_bytes <= depths.max(axis=1, keepdims=True) + 1e-6)
        assert np.ptp(np.diff(found.time_s)) < 1e-12 if len(found.time_s) > 2 else True

    def test_few_samples_stay_as_they_are(self) -> None:
        given = curve([[1, 2, 3]])
        assert averaged_over_steps(given, 240).queue_bytes.tolist() == given.queue_bytes.tolist()


class TestQueues:
    def test_the_deepest_under_either_watermark_come_first_and_empty_ones_not_at_all(self) -> None:
        scenario = star([(0, 1)], n_hosts=4)
        found = side_by_side(
            [curve([[0, 0], [1, 1], [8, 8], [3, 3]]), curve([[0, 0], [9, 9], [0, 0], [3, 3]], LOW)], scenario
        )
        assert found.queues == (("s", "p1"), ("s", "p2"), ("s", "p3"))
        assert found.watermarks == (INCUMBENT, LOW)
        assert found.depth_bytes == (((1, 1), (8, 8), (3, 3)), ((9, 9), (0, 0), (3, 3)))
        assert (found.window_s, found.step_s) == (scenario.duration_s, 1e-6)

    def test_of_many_the_most_are_kept_and_equal_ones_go_by_name(self) -> None:
        found = side_by_side([curve(np.ones((12, 3)))], star([(0, 1)], n_hosts=12))
        assert len(found.queues) == MOST_QUEUES
        assert [port for _, port in found.queues] == sorted(f"p{n}" for n in range(12))[:MOST_QUEUES]

    def test_depths_are_whole_bytes(self) -> None:
        found = side_by_side([curve([[1.4, 2.6]])], star([(0, 1)], n_hosts=1))
        assert found.depth_bytes == (((1, 3),),)

    def test_one_step_is_as_long_as_the_run(self) -> None:
        scenario = star([(0, 1)], n_hosts=1)
        assert side_by_side([curve([[5]])], scenario).step_s == scenario.duration_s

    @pytest.mark.parametrize(
        ("bad", "code"),
        [
            (replace(curve([[5.0]]), status=SolveStatus.BUDGET), "budget"),
            (curve([[float("nan")]]), "diverged"),
            (curve([[float("inf")]]), "diverged"),
        ],
    )
    def test_a_run_that_failed_is_no_curve(self, bad: Trajectory, code: str) -> None:
        with pytest.raises(SearchError, match=f"status {code}"):
            side_by_side([curve([[5.0]]), bad], star([(0, 1)], n_hosts=1))


class TestReplayed:
    def test_steps_keep_the_mean_that_the_engine_predicts(self) -> None:
        scenario = replace(star([(0, 1), (2, 1), (3, 1)], payload_bytes=np.inf), window_s=(0.0, 0.02))
        found = predicted(scenario, [LOW])
        assert found.queues[0] == ("s", "p1")
        (prediction,) = ReplayEngine().predict(scenario, [LOW], seed=1)
        mean = np.mean(found.depth_bytes[0][0])
        assert mean == pytest.approx(prediction.port_queue_mean_bytes[1], rel=0.02)
        assert MOST_STEPS / 2 < len(found.depth_bytes[0][0]) <= MOST_STEPS

    def test_any_place_gives_the_same_and_a_watermark_does_not_depend_on_the_others(
        self, pool: ProcessWorkers
    ) -> None:
        scenario = star(COUPLED)
        here = predicted(scenario, [INCUMBENT, LOW])
        assert predicted(scenario, [INCUMBENT, LOW], workers=pool) == here
        assert predicted(scenario, [LOW]).depth_bytes[0] == here.depth_bytes[1]

    def test_a_watermark_named_twice_runs_once(self) -> None:
        told: list[tuple[int, int]] = []
        scenario = star(COUPLED)
        with shipped([scenario]) as (file,):
            found = predict_trajectories(
                scenario,
                file,
                [LOW, LOW],
                engine="replay",
                seed=1,
                workers=InProcessWorkers(),
                progress=lambda done, total: told.append((done, total)),
            )
        assert told == [(0, 1), (1, 1)]
        assert found.depth_bytes[0] == found.depth_bytes[1]


class TestInARound:
    @pytest.mark.parametrize("pairs", [COUPLED, APART])
    def test_the_incumbent_and_the_winner_are_shown(self, pairs: list[tuple[int, int]]) -> None:
        answer = one_round(problem(pairs))
        assert answer.trajectories is not None
        assert answer.trajectories.watermarks == (INCUMBENT, answer.watermark)
        assert answer.trajectories.queues[0] == ("s", "p0")
        old, new = answer.trajectories.depth_bytes
        mean = answer.incumbent_prediction.queue_mean_bytes
        assert np.mean(old[0]) == pytest.approx(mean, rel=0.05)  # one seed against a mean over some
        assert max(new[0]) < max(old[0])

    def test_where_nothing_changes_both_are_the_incumbent_s(self) -> None:
        answer = one_round(how=settings("PinnedEngine"))
        assert answer.verdict.kind is not VerdictKind.CHANGE
        assert answer.trajectories is not None
        assert answer.trajectories.depth_bytes[0] == answer.trajectories.depth_bytes[1]

    @pytest.mark.parametrize(
        ("engine", "says"),
        [("NoTrajectoryEngine", "only figures, no curves"), ("DivergingTrajectoryEngine", "status diverged")],
    )
    def test_a_failure_is_a_note_and_changes_nothing_else(self, engine: str, says: str) -> None:
        answer, usual = one_round(how=settings(engine)), one_round()
        assert answer.trajectories is None
        (note,) = answer.notes
        assert note.startswith("No trajectories of the queues: ")
        assert says in note
        assert replace(answer, engine=usual.engine, notes=(), trajectories=usual.trajectories) == usual

    def test_the_document_is_small_and_says_what_a_depth_is(self) -> None:
        answer = one_round()
        assert answer.trajectories is not None
        document = TrajectoriesDocument.of(answer.trajectories)
        assert document.depth_is == "mean of each step"
        assert len(document.queues) == len(answer.trajectories.queues) <= MOST_QUEUES
        first = document.queues[0]
        assert (first.switch, first.port) == ("s", "p0")
        assert len(first.incumbent_bytes) == len(first.recommended_bytes) <= MOST_STEPS
        assert document.step_s * len(first.incumbent_bytes) >= document.window_s
        assert len(json.dumps(document.model_dump())) < 60_000


def test_engines_are_named_as_elsewhere() -> None:
    scenario = star(COUPLED)
    with shipped([scenario]) as (file,), pytest.raises(SearchError, match="only figures"):
        predict_trajectories(
            scenario,
            file,
            [LOW],
            engine=f"{HERE}:NoTrajectoryEngine",
            seed=1,
            workers=InProcessWorkers(),
            progress=lambda done, total: None,
        )
