"""A tuning round on analytic engines: what it tries, keeps, recommends, and says."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.twin.analytic_engine import HERE
from tests.unit.twin.fabrics import star
from twin.engine import engine
from twin.errors import ParameterError, ScenarioError, SearchError
from twin.prediction import SolveStatus
from twin.scenario import Scenario
from twin.search.candidates import Origin, propose
from twin.search.conclusion import Found, judge
from twin.search.gain import POLICIES
from twin.search.problem import SearchSettings, TuningProblem, persistent_share
from twin.search.recommendation import Recommendation, VerdictKind
from twin.search.round import Progress, engine_seeds, tune
from twin.senders.artefact import RULE, SWIFT
from twin.watermark import Watermark, WatermarkBounds
from twin.workers.pool import InProcessWorkers, ProcessWorkers

INCUMBENT = Watermark(400_000, 1_600_000, 0.2)
COUPLED, APART = [(0, 1), (2, 1), (3, 1)], [(0, 1), (2, 1), (4, 5), (6, 7)]


def problem(pairs: list[tuple[int, int]] = COUPLED, **changes: Any) -> TuningProblem:
    given: dict[str, Any] = {"scenario": star(pairs), "incumbent": INCUMBENT, "base": INCUMBENT}
    return TuningProblem(**(given | {"dominant_class": "mouse"} | changes))


def settings(engine: str = "AnalyticEngine", **changes: Any) -> SearchSettings:
    small: dict[str, Any] = {
        "candidates": 48,
        "narrowed": 16,
        "leaders": 4,
        "seeds": 3,
        "most_seeds": 3,
        "batch": 8,
    }
    small["second_engine"] = None  # see test_second_engine
    return SearchSettings(engine=f"{HERE}:{engine}", **(small | changes))


def one_round(
    asked: TuningProblem | None = None, how: SearchSettings | None = None, **more: Any
) -> Recommendation:
    more = {"seed": 1, "workers": InProcessWorkers()} | more
    return tune(asked or problem(), how or settings(), **more)


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessWorkers]:
    workers = ProcessWorkers(2)
    yield workers
    workers.close()


class TestWhatIsTried:
    def test_incumbent_base_and_vendors_lead_the_set(self) -> None:
        base = Watermark(100_000, 400_000, 0.1)
        proposals = propose(problem(base=base), settings(), 1)
        assert [(one.watermark, one.origin) for one in proposals[:2]] == [
            (INCUMBENT, Origin.INCUMBENT),
            (base, Origin.BASE),
        ]
        vendors = {one.watermark: one.source for one in proposals if one.origin is Origin.VENDOR}
        assert vendors[Watermark(5_000, 200_000, 0.01)] == "DCQCN paper"
        assert len(proposals) == len({one.watermark for one in proposals}) == 48

    def test_only_the_incumbent_may_lie_outside_the_bounds(self) -> None:
        bounds = WatermarkBounds(10_000, 200_000, 20_000, 500_000, 0.01, 0.5)
        proposals = propose(problem(), settings(bounds=bounds), 1)
        assert proposals[0].watermark == INCUMBENT
        assert len(proposals) == 48
        assert all(bounds.contains(one.watermark) for one in proposals[1:])

    def test_a_round_never_recommends_outside_the_bounds(self) -> None:
        bounds = WatermarkBounds(10_000, 200_000, 20_000, 500_000, 0.01, 0.5)
        answer = one_round(how=settings(bounds=bounds))
        assert answer.changes
        assert bounds.contains(answer.watermark)
        assert all(bounds.contains(one.watermark) for one in answer.candidates if one.watermark != INCUMBENT)

    def test_the_draw_is_biased_by_the_class(self) -> None:
        medians = []
        for label in ("mouse", "potential_elephant", "elephant"):
            drawn = propose(problem(dominant_class=label), settings(candidates=400), 1)
            medians.append(
                np.median([one.watermark.kmin_bytes for one in drawn if one.origin is Origin.DRAWN])
            )
        assert medians == sorted(medians)
        assert medians[0] < medians[2]

    def test_engine_seeds_start_with_the_seed(self) -> None:
        assert engine_seeds(7, 1) == (7,)
        assert engine_seeds(7, 4)[0] == 7
        assert len(set(engine_seeds(7, 4))) == 4
        assert engine_seeds(7, 4)[:3] == engine_seeds(7, 3)


class TestWhatIsRecommended:
    def test_it_beats_the_incumbent_by_the_margin(self) -> None:
        answer = one_round()
        scores = {one.watermark: one.score for one in answer.candidates}
        assert answer.verdict.kind is VerdictKind.CHANGE
        assert answer.improvement.best == answer.watermark
        gain = scores[answer.watermark] - scores[INCUMBENT]  # type: ignore[operator]
        assert gain == pytest.approx(answer.improvement.score_gain)
        assert gain > answer.improvement.margin
        assert scores[answer.watermark] >= max(filter(None, scores.values())) - settings().near_tie

    def test_it_is_close_to_what_an_exhaustive_search_finds(self) -> None:
        exhaustive = one_round(how=settings(fractions=(1.0,), keep=1.0, candidates=400, narrowed=100))
        halved = one_round(how=settings(candidates=100))
        scores = {one.watermark: one.score for one in exhaustive.candidates}
        best, worst = max(filter(None, scores.values())), min(filter(None, scores.values()))
        again = one_round(
            problem(base=halved.watermark), settings(fractions=(1.0,), keep=1.0, candidates=400)
        )
        found = next(one.score for one in again.candidates if one.watermark == halved.watermark)
        assert found is not None
        assert best - found < 0.1 * (best - worst)

    def test_everything_it_weighed_is_kept(self) -> None:
        answer = one_round(version="1.2.3", asked=problem(notes=("one queue unmapped",)))
        assert len(answer.candidates) == 48 + 16
        assert answer.candidates[0].watermark == answer.watermark
        by_origin = {one.origin for one in answer.candidates}
        assert by_origin == set(Origin) - {Origin.BASE, Origin.STANDING}
        for one in answer.candidates:
            assert one.prediction.watermark == one.watermark
            assert set(one.normalised) == {"throughput", "queue", "loss"}
            assert {"throughput", "queue", "loss_bytes", "pause_s"} <= set(one.raw)
        incumbent = next(one for one in answer.candidates if one.watermark == INCUMBENT)
        assert incumbent.n_seeds == 3
        assert incumbent.rung == 1
        assert incumbent.prediction == answer.incumbent_prediction
        assert (answer.seed, answer.version, answer.lambda_) == (1, "1.2.3", 0.8)
        assert answer.dominant_class == "mouse"
        assert answer.notes == ("one queue unmapped",)

    def test_the_winner_ran_in_full_under_every_seed(self) -> None:
        answer = one_round()
        winner = answer.candidates[0]
        assert (winner.rung, winner.n_seeds, winner.window_s) == (1, 3, 0.02)
        assert winner.prediction == answer.winner_prediction

    def test_dropped_candidates_keep_their_short_run_and_a_comparable_score(self) -> None:
        dropped = [one for one in one_round().candidates if one.rung == 0]
        assert dropped
        for one in dropped:
            assert one.window_s == pytest.approx(0.4 * 0.02)
            assert one.score is not None

    def test_why_is_one_sentence_with_units(self) -> None:
        why = one_round().why
        assert why.count("\n") == 0
        assert why.startswith("Kmin ")
        assert why.endswith("mice carry the most bytes.")
        for part in ("Kmax", "Pmax", "mean queue falls from 114 KB to", "elephants", "no pause"):
            assert part in why

    def test_weights_are_the_operators(self) -> None:
        queues = {
            name: one_round(how=settings(policy=policy)).winner_prediction.queue_mean_bytes
            for name, policy in POLICIES.items()
        }
        assert queues["latency"] < queues["throughput"]

    def test_the_patents_score_may_decide_and_is_kept_beside_the_gain(self) -> None:
        by_gain, by_score = one_round(), one_round(how=settings(score="normalised", narrowed=0))
        for answer in (by_gain, by_score):
            for one in answer.candidates:
                assert one.gain is not None
                kept = sum(one.gain.values()) if answer.score_is == "gain" else one.score_normalised
                assert one.score == pytest.approx(kept)
        assert by_score.candidates[1].score_error is not None


class TestStandingStill:
    def test_a_gain_below_the_margin_keeps_the_incumbent(self) -> None:
        answer = one_round(how=settings(margin=5.0))
        assert answer.verdict.kind is VerdictKind.STAND_STILL
        assert answer.watermark == INCUMBENT
        assert answer.winner_prediction == answer.incumbent_prediction
        assert answer.improvement.best != INCUMBENT
        assert "does not exceed the margin of 500 %" in answer.why
        assert answer.why.startswith("Keep Kmin 400 KB, Kmax 1.6 MB, Pmax 20 %")

    def test_a_gain_that_is_no_number_or_just_the_margin_keeps_the_incumbent(self) -> None:
        tried = [one.prediction for one in one_round().candidates]
        for gain, kind in (
            (0.05, VerdictKind.STAND_STILL),
            (math.nan, VerdictKind.STAND_STILL),
            (0.06, VerdictKind.CHANGE),
        ):
            best = Found(1, gain, None, 0, stands=False, sure=gain > 0.05, by="gain")
            verdict = judge(tried, problem().scenario, n_tried=len(tried), found=best, margin=0.05)
            assert verdict.kind is kind

    def test_the_winner_run_again_as_incumbent_stands(self) -> None:
        first = one_round(how=settings(near_tie=0.1))
        again = one_round(problem(incumbent=first.watermark), settings(near_tie=0.1), seed=2)
        assert again.verdict.kind is VerdictKind.STAND_STILL
        assert again.watermark == first.watermark

    def test_a_regime_no_watermark_helps_is_named(self) -> None:
        asked = problem(scenario=star([(0, 1), (2, 1), (3, 1)], payload_bytes=np.inf))
        answer = one_round(asked, settings("PinnedEngine"))
        assert answer.verdict.kind is VerdictKind.NO_EFFECT
        assert answer.watermark == INCUMBENT
        sentence = answer.verdict.sentence
        assert sentence.startswith(
            "No watermark helps here: over the 35 candidates that ran in full the mean queue stays 7.8"
        )
        for cure in (
            "fewer senders per receiver (3 long flows share the busiest port)",
            "DCQCN",
            "32 MB of buffer",
        ):
            assert cure in sentence
        assert "PFC pause stays" in answer.verdict.remarks[0]

    @pytest.mark.parametrize(("gain", "kind"), [(0.0, VerdictKind.NO_EFFECT), (0.8, VerdictKind.CHANGE)])
    def test_candidates_that_do_alike_may_all_be_better_than_what_runs(
        self, gain: float, kind: VerdictKind
    ) -> None:
        now, other = (
            replace(one_round().incumbent_prediction, queue_mean_bytes=queue, pfc_pause_s=0.0, loss_bytes=0.0)
            for queue in (5e5, 5e4)
        )
        best = Found(1, gain, gain / 5, 0, stands=gain == 0.0, sure=gain > 0.05, by="gain")
        tried = [now, *[other] * 90]
        verdict = judge(tried, problem().scenario, n_tried=320, found=best, margin=0.05)
        assert verdict.kind is kind

    @pytest.mark.parametrize(
        ("others", "kind"), [(1.0, VerdictKind.NO_EFFECT), (3.0, VerdictKind.STAND_STILL)]
    )
    def test_candidates_that_go_on_are_alike_where_they_are_the_best(
        self, others: float, kind: VerdictKind
    ) -> None:
        one = replace(one_round().incumbent_prediction, pfc_pause_s=0.0, loss_bytes=0.0)
        dropped = replace(one, queue_mean_bytes=others * one.queue_mean_bytes)
        best = Found(0, 0.0, None, 0, stands=True, sure=False, by="gain")
        drawn = [*[one] * 90, *[dropped] * 150]
        verdict = judge([one] * 90, problem().scenario, n_tried=320, found=best, margin=0.05, drawn=drawn)
        assert verdict.kind is kind

    def test_empty_queues_need_no_tuning(self) -> None:
        answer = one_round(how=settings("IdleEngine", margin=5.0))
        assert answer.verdict.kind is VerdictKind.UNCONGESTED
        assert answer.watermark == INCUMBENT

    @pytest.mark.parametrize(("gain", "kind"), [(0.0, VerdictKind.UNCONGESTED), (0.4, VerdictKind.CHANGE)])
    def test_queues_that_are_empty_as_senders_are_held_back_do(self, gain: float, kind: VerdictKind) -> None:
        tried = [one.prediction for one in one_round(how=settings("IdleEngine")).candidates]
        best = Found(1, gain, None, 0, stands=gain == 0.0, sure=gain > 0.05, by="gain")
        verdict = judge(tried, problem().scenario, n_tried=len(tried), found=best, margin=0.05)
        assert verdict.kind is kind


class TestFailures:
    def test_failed_candidates_are_infeasible_and_shown(self) -> None:
        incumbent = Watermark(90_000, 900_000, 0.1)
        answer = one_round(problem(incumbent=incumbent, base=incumbent), settings("DivergingAboveEngine"))
        failed = [one for one in answer.candidates if one.prediction.status is SolveStatus.DIVERGED]
        assert failed
        assert all(one.score is None and one.watermark.kmin_bytes > 100_000 for one in failed)
        assert answer.watermark.kmin_bytes <= 100_000

    @pytest.mark.parametrize("engine", ["DivergingEngine", "DivergingAboveEngine"])
    def test_an_incumbent_that_cannot_be_predicted_is_an_error(self, engine: str) -> None:
        with pytest.raises(SearchError, match="status diverged for the incumbent") as caught:
            one_round(how=settings(engine))
        assert caught.value.remedy == "use a shorter step"

    def test_a_raising_engine_is_a_sentence(self) -> None:
        with pytest.raises(SearchError, match="a kernel went wrong"):
            one_round(how=settings("RaisingEngine"))

    def test_a_negative_seed_is_refused(self) -> None:
        with pytest.raises(ParameterError, match="seed: received -1"):
            one_round(seed=-1)

    def test_an_unknown_class_is_refused(self) -> None:
        with pytest.raises(ParameterError, match="dominant class: received 'whale'"):
            problem(dominant_class="whale")

    def test_a_worker_killed_in_mid_round_changes_nothing(self, pool: ProcessWorkers, tmp_path: Path) -> None:
        asked = problem(scenario=replace(star(COUPLED), name=str(tmp_path / "died")))
        answer = one_round(asked, settings("DyingOnceEngine"), workers=pool)
        assert (tmp_path / "died").exists()
        calm = one_round(asked, settings("AnalyticEngine"))
        assert replace(answer, engine=calm.engine) == calm

    def test_workers_that_keep_dying_end_the_round_and_not_the_next(self, pool: ProcessWorkers) -> None:
        with pytest.raises(SearchError, match="batches lost in 3 attempts"):
            one_round(how=settings("AlwaysDyingEngine"), workers=pool)
        assert one_round(workers=pool) == one_round()


class TestReproducible:
    @pytest.mark.parametrize("pairs", [COUPLED, APART])
    def test_any_number_of_workers(self, pool: ProcessWorkers, pairs: list[tuple[int, int]]) -> None:
        assert one_round(problem(pairs), workers=pool) == one_round(problem(pairs))

    def test_any_batch_size(self) -> None:
        assert one_round(how=settings(batch=3)) == one_round(how=settings(batch=48))

    def test_another_seed_draws_others(self) -> None:
        first, other = one_round(), one_round(seed=2)
        assert {one.watermark for one in first.candidates} != {one.watermark for one in other.candidates}

    def test_other_processes_with_other_hash_seeds(self) -> None:
        program = (
            "from tests.unit.twin.search.test_round import one_round, problem, APART; import json; "
            "answer = one_round(problem(APART)); "
            "print(json.dumps([answer.why, [[repr(one.watermark), one.score] for one in answer.candidates]]))"
        )
        answers = [
            subprocess.run(
                [sys.executable, "-c", program],
                cwd=Path(__file__).parents[4],
                env=os.environ | {"PYTHONHASHSEED": hash_seed},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for hash_seed in ("1", "2")
        ]
        assert answers[0] == answers[1]
        here = one_round(problem(APART))
        assert json.loads(answers[0]) == [
            here.why,
            [[repr(one.watermark), one.score] for one in here.candidates],
        ]


class TestParts:
    def test_a_coupled_fabric_is_one_part(self) -> None:
        (part,) = one_round().parts
        assert part.traffic_share == 1.0
        assert part.n_flows == 3

    def test_independent_parts_have_their_own_answers(self) -> None:
        answer = one_round(problem(APART))
        assert [part.n_flows for part in answer.parts] == [2, 1, 1]
        assert [part.traffic_share for part in answer.parts] == pytest.approx([0.5, 0.25, 0.25])
        assert answer.parts[0].switch_ports == (("s", "p0"), ("s", "p1"), ("s", "p2"))
        for part in answer.parts:
            assert part.verdict.kind is VerdictKind.CHANGE
            assert part.watermark in {one.watermark for one in answer.candidates}

    def test_the_fleets_score_is_the_traffic_weighted_sum(self) -> None:
        answer = one_round(problem(APART))
        for one in answer.candidates:
            assert one.score_normalised == pytest.approx(
                one.normalised["throughput"] - one.normalised["queue"] - one.normalised["loss"]
            )
        assert answer.improvement.score_gain > answer.improvement.margin

    def test_the_whole_is_predicted_once_more(self) -> None:
        stages: list[str] = []
        answer = one_round(problem(APART), progress=lambda seen: stages.append(seen.stage))
        assert list(dict.fromkeys(stages))[-2:] == ["whole", "trajectories"]
        assert answer.incumbent_prediction.slowdown["elephant"].n == len(APART)
        assert len(answer.incumbent_prediction.port_queue_mean_bytes) == 8


class TestProgress:
    def test_stages_count_up_to_their_total(self) -> None:
        seen: list[Progress] = []
        one_round(progress=seen.append)
        stages = list(dict.fromkeys(one.stage for one in seen))
        assert stages == ["window 0.4", "window 1", "narrowed", "leaders", "trajectories"]
        for stage in stages[:3]:
            counts = [(one.done, one.total) for one in seen if one.stage == stage]
            assert counts[0][0] == 0
            assert counts[-1][0] == counts[-1][1]
            assert counts == sorted(counts)
        assert next(one.total for one in seen if one.stage == "narrowed") == 16

    def test_what_progress_raises_ends_the_round(self) -> None:
        class StopNowError(Exception):
            pass

        def stop(seen: Progress) -> None:
            raise StopNowError

        with pytest.raises(StopNowError):
            one_round(progress=stop)

    def test_without_a_narrowed_draw(self) -> None:
        assert len(one_round(how=settings(narrowed=0)).candidates) == 48


@pytest.mark.parametrize(
    "bad",
    [
        {"candidates": 1},
        {"seeds": 0},
        {"keep": 0.0},
        {"margin": -0.1},
        {"near_tie": float("nan")},
        {"fractions": ()},
        {"fractions": (0.5, 0.25, 1.0)},
        {"fractions": (0.5,)},
        {"fractions": (0.0, 1.0)},
    ],
)
def test_settings_outside_their_meaning_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="search "):
        SearchSettings(**bad)


@pytest.mark.parametrize(
    ("payloads", "share"),
    [
        ([2e6, 2e6], 0.0),
        ([np.inf, np.inf], 1.0),
        ([np.inf, 2e6], 0.5),
        ([1e4, 1e4], None),
        ([np.inf, 1e4], 1.0),
    ],
)
def test_how_many_flows_persist(payloads: list[float], share: float | None) -> None:
    scenario: Scenario = star([(0, 1), (2, 1)], payload_bytes=payloads)
    assert persistent_share(scenario) == share


class TestSendersThatReadNoEcn:
    """Hosts whose NICs act on round-trip times."""

    def test_where_all_do_no_watermark_has_an_effect(self) -> None:
        deaf = replace(star(COUPLED), senders={"h0": SWIFT, "h2": SWIFT, "h3": RULE})
        answer = one_round(problem(scenario=deaf), settings())
        assert answer.verdict.kind is VerdictKind.NO_EFFECT
        assert answer.verdict.sentence == (
            "No watermark has an effect here: senders act on round-trip times, not on ECN "
            "(rtt-rule, swift on 3 of 3 hosts that send)."
        )
        assert answer.engine == "packet"
        assert len(answer.candidates) < 12

    def test_a_mixed_fleet_is_predicted_by_the_packet_engine(self) -> None:
        mixed = replace(star(COUPLED), senders={"h0": SWIFT})
        few = settings(candidates=8, narrowed=0, leaders=1, seeds=1)
        answer = one_round(problem(scenario=mixed), few)
        assert answer.engine == "packet"
        assert answer.verdict.kind is not VerdictKind.NO_EFFECT
        assert any("swift on 1 of 3 hosts that send act on round-trip times" in note for note in answer.notes)

    def test_hosts_that_send_nothing_change_nothing(self) -> None:
        plain = one_round(problem(), settings())
        idle = one_round(problem(scenario=replace(star(COUPLED), senders={"h1": SWIFT})), settings())
        assert idle.engine == plain.engine
        assert idle.watermark == plain.watermark

    @pytest.mark.parametrize("name", ["replay", "fluid"])
    def test_other_engines_refuse_them_in_a_sentence(self, name: str) -> None:
        mixed = replace(star(COUPLED), senders={"h0": SWIFT})
        with pytest.raises(ScenarioError) as caught:
            engine(name).predict(mixed, [INCUMBENT], seed=1)
        assert f"swift on 1 of 3 hosts that send; the {name} engine models DCQCN alone" in str(caught.value)
