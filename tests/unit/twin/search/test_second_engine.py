"""Rounds that ask a second engine: what it is asked, what it decides, what is said where it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.unit.twin.analytic_engine import HERE, AnalyticEngine
from tests.unit.twin.fabrics import star
from tests.unit.twin.search.test_round import APART, COUPLED, INCUMBENT, problem, settings
from twin.errors import ParameterError
from twin.search.gain import Policy
from twin.search.problem import TuningProblem
from twin.search.recommendation import Recommendation, SecondOpinion, VerdictKind
from twin.search.round import Progress, engine_seeds, tune
from twin.watermark import Watermark
from twin.workers.pool import InProcessWorkers, ProcessWorkers

SAME = f"{HERE}:AnalyticEngine"


def reviewed(
    second: str | None = "AnalyticEngine", asked: TuningProblem | None = None, /, **more: Any
) -> Recommendation:
    run = {"seed": more.pop("seed", 1), "workers": more.pop("workers", InProcessWorkers())}
    if "progress" in more:
        run["progress"] = more.pop("progress")
    engine = None if second is None else f"{HERE}:{second}"
    return tune(asked or problem(), settings(second_engine=engine, **more), **run)


def endless(pairs: list[tuple[int, int]] = COUPLED) -> TuningProblem:
    """Flows that never end: 0.95 million packet-hops into each port that receives."""
    return problem(scenario=star(pairs, payload_bytes=np.inf))


def opinion_of(answer: Recommendation) -> SecondOpinion:
    assert answer.second_opinion is not None
    return answer.second_opinion


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessWorkers]:
    workers = ProcessWorkers(2)
    yield workers
    workers.close()


class TestWhatItIsAsked:
    def test_the_incumbent_and_the_few_best(self) -> None:
        opinion = opinion_of(reviewed())
        assert opinion.candidates[0].watermark == INCUMBENT
        assert len(opinion.candidates) == 5
        assert len({one.watermark for one in opinion.candidates}) == 5
        assert opinion.first_pick in {one.watermark for one in opinion.candidates}
        assert (opinion.engine, opinion.n_seeds, opinion.window_s, opinion.cut) == (SAME, 1, 0.02, False)

    def test_as_many_as_told(self) -> None:
        opinion = opinion_of(reviewed(second_candidates=2, second_seeds=3))
        assert len(opinion.candidates) == 3
        assert opinion.n_seeds == 3

    def test_those_asked_about_ran_the_first_engine_under_every_seed(self) -> None:
        answer = reviewed()
        asked = {one.watermark for one in opinion_of(answer).candidates}
        assert {one.n_seeds for one in answer.candidates if one.watermark in asked} == {3}

    def test_nobody_where_it_is_off(self) -> None:
        answer = reviewed(None)
        assert answer.second_opinion is None
        assert not answer.notes

    def test_every_run_is_told_as_progress(self) -> None:
        seen: list[Progress] = []
        reviewed(progress=seen.append, second_seeds=2)
        last = [one for one in seen if one.stage == "second opinion"][-1]
        assert last.done == last.total == 10

    def test_the_seeds_are_the_rounds_own(self) -> None:
        opinion = opinion_of(reviewed(second_seeds=1))
        one = opinion.candidates[1]
        (again,) = AnalyticEngine().predict(star(COUPLED), [one.watermark], seed=engine_seeds(1, 1)[0])
        assert one.second == again


class TestWhatItDecides:
    def test_an_engine_that_agrees_confirms(self) -> None:
        answer = reviewed(seeds=1)
        opinion = opinion_of(answer)
        assert opinion.disagreement_ratio == pytest.approx(0.0)
        assert not opinion.changed_pick
        assert not opinion.disagrees
        alone = reviewed(None, seeds=1)
        assert answer.watermark == alone.watermark == opinion.pick
        assert answer.improvement.score_gain == pytest.approx(alone.improvement.score_gain)
        assert f"; confirmed by the {SAME} engine, within 0 % in " in answer.why

    def test_the_decision_is_the_second_engines(self) -> None:
        # All but the elephants' speed counts little: the first engine keeps long thresholds, for their sake.
        bulk: dict[str, Any] = {"policy": Policy(0.97, 0.03), "margin": 0.0}
        answer, alone = reviewed("UnmovedElephantsEngine", **bulk), reviewed(None, **bulk)
        opinion = opinion_of(answer)
        assert opinion.changed_pick
        assert opinion.first_pick == alone.improvement.best
        assert answer.improvement.best == opinion.pick != alone.improvement.best
        assert answer.winner_prediction.queue_mean_bytes < alone.winner_prediction.queue_mean_bytes
        assert "; chosen by the " in answer.why
        assert " prefers Kmin " in opinion.sentence

    def test_only_what_it_ran_may_win_and_nothing_it_did_not_run_leads(self) -> None:
        answer = reviewed("UnmovedElephantsEngine", second_candidates=8)
        scores = {one.watermark: one.score for one in answer.candidates}
        ran = {one.watermark: one.score for one in opinion_of(answer).candidates}
        assert answer.watermark in ran
        assert all(scores[watermark] == score for watermark, score in ran.items())
        best = max(score for score in scores.values() if score is not None)
        assert max(score for score in ran.values() if score is not None) >= best - settings().near_tie
        assert scores[answer.watermark] is not None
        gain = (scores[answer.watermark] or 0.0) - (scores[INCUMBENT] or 0.0)
        assert gain == pytest.approx(answer.improvement.score_gain)

    def test_a_candidate_it_cannot_run_cannot_win(self) -> None:
        answer = reviewed("NeverSecondEngine")
        assert answer.watermark == INCUMBENT
        assert answer.verdict.kind is VerdictKind.STAND_STILL
        failed = {one.watermark for one in opinion_of(answer).candidates[1:]}
        assert all(one.score is None for one in answer.candidates if one.watermark in failed)

    def test_weights_decide_there_too(self) -> None:
        answer = reviewed("LongerQueuesEngine")
        assert opinion_of(answer).pick == answer.improvement.best
        assert answer.changes


class TestDisagreement:
    def test_is_told_beyond_the_margin(self) -> None:
        answer = reviewed("LongerQueuesEngine")
        opinion = opinion_of(answer)
        # The 1000 bytes added to either queue take the edge off a factor of 1.6.
        assert 0.5 < opinion.disagreement_ratio < 0.6
        assert opinion.disagrees
        assert opinion.disagreement["goodput"] == 0.0
        assert opinion.disagreement["elephant_slowdown"] < 0.05
        assert "the engines disagree by" in opinion.sentence
        assert f"; the {HERE}:LongerQueuesEngine engine disagrees, by " in answer.why

    def test_is_not_told_within_it(self) -> None:
        opinion = opinion_of(reviewed("LongerQueuesEngine", second_margin=0.7))
        assert not opinion.disagrees
        assert "the engines differ by at most" in opinion.sentence


class TestCutShort:
    def test_a_budget_shortens_the_window_for_both(self) -> None:
        opinion = opinion_of(reviewed("AnalyticEngine", endless(), second_packet_hops=300_000))
        whole = opinion_of(reviewed("AnalyticEngine", endless()))
        assert opinion.cut
        assert 0.002 <= opinion.window_s < 0.02
        assert opinion.disagreement_ratio < 0.05
        assert "it ran the first" in opinion.sentence
        assert opinion.candidates[0].first != whole.candidates[0].first

    def test_the_score_stays_on_the_full_window(self) -> None:
        cut = reviewed("AnalyticEngine", endless(), second_packet_hops=300_000)
        whole = reviewed("AnalyticEngine", endless())
        scores = {one.watermark: one.score for one in whole.candidates}
        for one in cut.candidates:
            assert one.score == pytest.approx(scores[one.watermark], abs=0.05)

    def test_too_short_to_be_worth_it_is_a_note(self) -> None:
        answer = reviewed(second_packet_hops=10)
        assert answer.second_opinion is None
        assert answer.notes[0].startswith("No second opinion: within 10 packet-hops a run")
        assert answer.watermark == reviewed(None).watermark


class TestWhereItCannot:
    def test_an_incumbent_it_cannot_run_leaves_the_first_decision(self) -> None:
        answer, alone = reviewed("DivergingEngine"), reviewed(None)
        opinion = opinion_of(answer)
        assert not opinion.decided
        assert opinion.sentence in answer.notes
        assert "status diverged for the incumbent" in opinion.sentence
        assert "no second opinion" in answer.why
        assert opinion.first_pick == opinion.pick == answer.watermark == alone.watermark

    def test_an_engine_that_raises_is_a_note(self) -> None:
        answer = reviewed("RaisingEngine")
        assert answer.second_opinion is None
        assert "a kernel went wrong" in answer.notes[0]
        assert answer.watermark == reviewed(None).watermark

    def test_workers_it_keeps_killing_are_a_note(self, pool: ProcessWorkers) -> None:
        answer = reviewed("FatalEngine", workers=pool)
        assert answer.second_opinion is None
        assert "batches lost" in answer.notes[0]
        assert answer.watermark == reviewed(None).watermark

    def test_an_engine_nobody_knows_is_refused(self) -> None:
        with pytest.raises(ParameterError, match="'magic'"):
            tune(problem(), settings(second_engine="magic"), seed=1, workers=InProcessWorkers())

    def test_what_progress_raises_ends_the_round(self) -> None:
        class StopNowError(Exception):
            pass

        def stop(seen: Progress) -> None:
            if seen.stage == "second opinion":
                raise StopNowError

        with pytest.raises(StopNowError):
            reviewed(progress=stop)


class TestParts:
    def test_each_part_is_asked_about_its_own_best(self) -> None:
        answer = reviewed("UnmovedElephantsEngine", problem(APART))
        opinion = opinion_of(answer)
        assert opinion.candidates[0].second.goodput_bytes_per_s == pytest.approx(4e8)
        for part in answer.parts:
            assert part.watermark in {one.watermark for one in answer.candidates}
            assert part.winner_prediction.queue_mean_bytes <= part.incumbent_prediction.queue_mean_bytes

    @pytest.mark.parametrize("budget", [300_000, 20e6])
    def test_any_number_of_workers(self, pool: ProcessWorkers, budget: float) -> None:
        more: dict[str, Any] = {"second_seeds": 2, "second_packet_hops": budget}
        here = reviewed("UnmovedElephantsEngine", endless(APART), **more)
        assert here == reviewed("UnmovedElephantsEngine", endless(APART), workers=pool, **more)
        assert opinion_of(here).cut == (budget == 300_000)


@pytest.mark.parametrize(
    "bad",
    [
        {"second_candidates": 0},
        {"second_seeds": 0},
        {"second_packet_hops": 0},
        {"second_packet_hops": float("nan")},
        {"second_margin": -0.1},
    ],
)
def test_settings_outside_their_meaning_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="search second_"):
        settings(**bad)


def test_the_winner_run_again_as_incumbent_stands() -> None:
    first = reviewed("UnmovedElephantsEngine", near_tie=0.1)
    again = reviewed("UnmovedElephantsEngine", problem(incumbent=first.watermark), near_tie=0.1, seed=2)
    assert again.verdict.kind is VerdictKind.STAND_STILL
    assert isinstance(again.watermark, Watermark)
    assert again.watermark == first.watermark
