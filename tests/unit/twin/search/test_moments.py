"""Rounds over several moments of traffic: what is judged, how surely, and when an answer stays."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.twin.analytic_engine import HERE
from tests.unit.twin.fabrics import star
from tests.unit.twin.search.test_round import APART, COUPLED, INCUMBENT, one_round, settings
from twin.errors import ParameterError
from twin.scenario import Scenario
from twin.search.gain import MODEL_ERROR
from twin.search.problem import SearchSettings, TuningProblem
from twin.search.recommendation import Recommendation, VerdictKind
from twin.watermark import Watermark
from twin.workers.pool import ProcessWorkers


def moments(count: int, pairs: list[tuple[int, int]] = COUPLED) -> list[Scenario]:
    """Moments that differ by some microseconds, and so in what suits them."""
    return [star(pairs, duration_s=0.02 + 1e-5 * place) for place in range(count)]


def problem(scenarios: list[Scenario], **changes: Any) -> TuningProblem:
    given: dict[str, Any] = {"incumbent": INCUMBENT, "base": INCUMBENT, "dominant_class": "mouse"}
    return TuningProblem(scenario=scenarios[0], earlier=tuple(scenarios[1:]), **(given | changes))


def shaky(**changes: Any) -> SearchSettings:
    return settings("ShakyEngine", **{"seeds": 1, "most_seeds": 1, "fractions": (1.0,)} | changes)


def scores(answer: Recommendation) -> dict[Watermark, float]:
    return {one.watermark: one.score for one in answer.candidates if one.score is not None}


def test_candidates_are_judged_by_their_mean_gain_over_all_moments() -> None:
    parts = moments(5)
    jointly = scores(one_round(problem(parts), shaky()))
    alone = [scores(one_round(problem([one]), shaky())) for one in parts]
    common = set(jointly).intersection(*alone)
    assert len(common) > 40
    weights = [one.duration_s for one in parts]  # each delivers as many bytes a second
    for watermark in common:
        mean = np.average([one[watermark] for one in alone], weights=weights)
        assert jointly[watermark] == pytest.approx(mean, rel=1e-9, abs=1e-12)


def test_from_four_moments_on_the_error_is_the_spread_between_them() -> None:
    parts = moments(4)
    jointly = one_round(problem(parts), shaky())
    alone = [scores(one_round(problem([one]), shaky())) for one in parts]
    found = next(one for one in jointly.candidates if all(one.watermark in each for each in alone))
    gains = [one[found.watermark] for one in alone]
    # Student's t of three degrees of freedom, for 95 %: 3.182 standard errors, where a normal one has 1.960.
    noise = 3.182 / 1.960 * np.std(gains, ddof=1) / 2.0
    assert found.score_error == pytest.approx(np.hypot(noise, MODEL_ERROR * np.mean(gains)), rel=1e-2)


class TestLongMoments:
    """Engines whose answer depends on how long they run: short moments mislead."""

    LONG = tuple(star(COUPLED, duration_s=0.2 + 1e-4 * place) for place in range(2))

    def ask(self, **changes: Any) -> Recommendation:
        return one_round(problem(moments(4), long=self.LONG), shaky(**changes))

    def test_the_leaders_run_on_them_and_they_decide(self) -> None:
        answer = self.ask(margin=0.0)
        alone = [scores(one_round(problem([one]), shaky())) for one in self.LONG]
        won = answer.watermark
        if any(won not in each for each in alone):
            alone = [scores(one_round(problem([one], standing=won), shaky())) for one in self.LONG]
        weights = [one.duration_s for one in self.LONG]
        mean = np.average([each[won] for each in alone], weights=weights)
        assert scores(answer)[won] == pytest.approx(mean, rel=1e-9, abs=1e-12)
        assert answer.changes
        assert "The best candidates were compared over 400 ms of traffic." in answer.notes

    def test_what_is_shown_of_the_winner_is_of_them(self) -> None:
        answer = self.ask(margin=0.0)
        alone = one_round(problem([self.LONG[0]], standing=answer.watermark), shaky())
        now = next(one for one in alone.candidates if one.watermark == INCUMBENT).prediction
        assert answer.incumbent_prediction.queue_mean_bytes == pytest.approx(now.queue_mean_bytes, rel=0.02)

    def test_the_same_answer_from_any_number_of_workers(self) -> None:
        with closing(ProcessWorkers(2)) as pool:
            assert one_round(problem(moments(4), long=self.LONG), shaky(), workers=pool) == self.ask()

    def test_of_another_fabric_they_are_refused(self) -> None:
        with pytest.raises(ParameterError, match="moments are of one fabric"):
            problem(moments(2), long=(star(APART, n_hosts=9),))


def test_a_gain_over_more_moments_moves_less() -> None:
    many = moments(12)
    vendor = Watermark(5_000, 200_000, 0.01)
    apart = [scores(one_round(problem([one]), shaky()))[vendor] for one in many[:6]]
    joined = [scores(one_round(problem(many[first : first + 6]), shaky()))[vendor] for first in range(6)]
    assert np.std(joined) < 0.5 * np.std(apart)


def test_what_is_dropped_early_ran_some_moments_only() -> None:
    answer = one_round(problem(moments(5)), shaky(fractions=(0.4, 1.0)))
    assert {round(one.window_s, 3) for one in answer.candidates} == {0.02, 0.04, 0.1}
    assert answer.candidates[0].window_s == pytest.approx(0.1, rel=0.01)


def test_what_is_dropped_early_is_not_favoured_by_the_newest_moment() -> None:
    parts = [star(COUPLED, duration_s=0.01), *(star(COUPLED, duration_s=0.02 + 1e-5 * at) for at in range(4))]
    how = {"engine": "NewestFavouringEngine", "fractions": (0.2, 1.0)}
    answer = one_round(problem(parts), settings(**how))
    in_full = scores(one_round(problem(parts), settings(**how | {"fractions": (1.0,)})))
    dropped = [one for one in answer.candidates if one.window_s < 0.02]
    assert len(dropped) > 15
    for one in dropped:
        assert one.score == pytest.approx(in_full[one.watermark], abs=0.12)  # 0.3 unmoved
    assert len(answer.candidates) - len(dropped) < 48  # few had to run in full to be told from the best


def test_seeds_are_shared_by_moments() -> None:
    for count, each in ((1, 4), (2, 2), (5, 1)):
        answer = one_round(problem(moments(count)), settings(seeds=4, most_seeds=1, fractions=(1.0,)))
        assert answer.candidates[0].n_seeds == each


def test_the_same_answer_from_any_number_of_workers() -> None:
    asked = problem(moments(3, APART))
    with closing(ProcessWorkers(2)) as workers:
        assert one_round(asked, workers=workers) == one_round(asked)


def test_parts_are_the_same_ports_in_every_moment() -> None:
    # h4 → h5 and h6 → h7 are apart in the newest moment, joined by what was sent before.
    scenarios = [star(APART), star([*APART, (4, 7)])]
    answer = one_round(problem(scenarios))
    assert [part.n_flows for part in answer.parts] == [2, 2]
    assert {port for _, port in answer.parts[0].switch_ports} >= {"p5", "p7"}


def test_a_component_without_flows_in_some_moment_stays_with_others() -> None:
    scenarios = [star(APART), star([(0, 1), (2, 1), (4, 5)])]
    answer = one_round(problem(scenarios))
    assert [part.n_flows for part in answer.parts] == [2, 2]


@pytest.mark.parametrize("changed", ["ports", "monitored"])
def test_moments_of_another_fabric_are_refused(changed: str) -> None:
    there = {"ports": star(COUPLED, n_hosts=9), "monitored": replace(star(COUPLED), monitored=(8,))}[changed]
    with pytest.raises(ParameterError, match="moments are of one fabric"):
        problem([star(COUPLED), there])


class TestASecondOpinion:
    def test_of_candidates_that_ran_under_more_seeds_than_others(self) -> None:
        answer = one_round(
            problem(moments(2)),
            settings("ShakyEngine", second_engine=f"{HERE}:AnalyticEngine", seeds=4, most_seeds=8),
        )
        assert len({one.n_seeds for one in answer.candidates}) > 1
        assert answer.second_opinion is not None

    def ran(self, hops: int) -> Any:
        answer = one_round(
            problem(moments(4)), shaky(second_engine=f"{HERE}:AnalyticEngine", second_packet_hops=hops)
        )
        assert answer.second_opinion is not None
        return answer.second_opinion

    def test_of_all_moments_where_the_budget_pays_for_them(self) -> None:
        opinion = self.ran(10**9)
        assert (round(opinion.window_s, 3), opinion.cut) == (0.08, False)

    def test_of_the_newest_where_it_does_not(self) -> None:
        # A moment has some 23 000 packet-hops.
        opinion = self.ran(50_000)
        assert (round(opinion.window_s, 3), opinion.cut) == (0.04, True)
        assert "the newest 2 moments" in opinion.sentence


class TestWhatWasRecommendedBefore:
    def test_it_stays_while_nothing_is_surely_better(self) -> None:
        asked = problem(moments(4))
        before = one_round(asked, shaky())
        near = Watermark(
            round(before.watermark.kmin_bytes * 1.05), before.watermark.kmax_bytes, before.watermark.pmax
        )
        answer = one_round(replace(asked, standing=near), shaky())
        assert answer.watermark == near
        assert answer.verdict.sentence.startswith("Change, as recommended before")
        assert answer.improvement.best == near

    def test_it_goes_where_another_is_surely_better(self) -> None:
        asked = problem(moments(4))
        far = Watermark(2_000_000, 8_000_000, 0.05)
        answer = one_round(replace(asked, standing=far), shaky())
        assert answer.watermark != far
        assert answer.verdict.kind is VerdictKind.CHANGE

    def test_it_goes_where_it_gains_nothing(self) -> None:
        asked = problem(moments(4), incumbent=one_round(problem(moments(4)), shaky()).watermark)
        answer = one_round(replace(asked, standing=Watermark(2_000_000, 8_000_000, 0.05)), shaky())
        assert answer.watermark == asked.incumbent
        assert answer.verdict.kind is VerdictKind.STAND_STILL
