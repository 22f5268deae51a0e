"""Which candidates are worth a second opinion, on what scale its figures are, how far engines differ."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.twin.analytic_engine import AnalyticEngine
from tests.unit.twin.fabrics import star
from twin.prediction import BLOCKS, Prediction, Slowdown, SolveStatus
from twin.search.disagreement import ahead, differ_text, disagreement, few, of_both
from twin.search.gain import SEEDS_COUNTED, Gain
from twin.search.score import WEIGHT_PRESETS, Scores, best_among, score, tie_width
from twin.watermark import Watermark

BALANCED = WEIGHT_PRESETS["balanced"]
SCENARIO = star([(0, 1), (2, 1)])
MARKS = [Watermark(kmin, 10 * kmin, 0.1) for kmin in (5_000, 20_000, 50_000, 100_000, 400_000, 2_000_000)]


def predicted(marks: list[Watermark], *, seed: int = 1, duration_s: float = 0.02) -> list[Prediction]:
    return AnalyticEngine().predict(SCENARIO.until(duration_s), marks, seed=seed)


def scored(rows: list[Prediction]) -> Scores:
    return score(rows, BALANCED, pfc=True)


def scaled(one: Prediction, factor: float) -> Prediction:
    return replace(
        one,
        queue_mean_bytes=factor * one.queue_mean_bytes,
        queue_p99_bytes=factor * one.queue_p99_bytes,
        goodput_bytes_per_s=factor * one.goodput_bytes_per_s,
        slowdown={
            name: Slowdown(entry.n, factor * entry.mean, factor * entry.p99)
            for name, entry in one.slowdown.items()
        },
    )


class TestTheFew:
    def test_the_pick_comes_first_and_the_incumbent_is_not_counted(self) -> None:
        scores = scored(predicted(MARKS))
        pick = int(np.argmax(scores.score))
        chosen = few(scores, BALANCED, 3, pick, 0)
        assert chosen[0] == pick
        assert len(chosen) == len(set(chosen)) == 3
        assert 0 not in chosen

    def test_an_incumbent_that_is_picked_leaves_all_places_to_others(self) -> None:
        scores = scored(predicted(MARKS))
        chosen = few(scores, BALANCED, 3, 2, 2)
        assert len(chosen) == 3
        assert 2 not in chosen

    def test_near_copies_of_the_pick_do_not_take_every_place(self) -> None:
        copies = [Watermark(50_000 + step, 500_000, 0.1) for step in range(6)]
        rows = [replace(predicted([MARKS[2]])[0], watermark=copy) for copy in copies]
        scores = scored([*rows, *predicted(MARKS)])
        chosen = few(scores, BALANCED, 4, 0, len(rows) + 5)
        assert sum(row < len(copies) for row in chosen) == 1

    def test_what_failed_is_not_asked_about(self) -> None:
        rows = predicted(MARKS)
        rows[3] = Prediction.failed(MARKS[3], SolveStatus.DIVERGED)
        assert 3 not in few(scored(rows), BALANCED, 6, 2, 0)

    def test_no_more_than_there_are(self) -> None:
        assert sorted(few(scored(predicted(MARKS)), BALANCED, 50, 2, 0)) == [1, 2, 3, 4, 5]

    def test_the_hopeless_come_last(self) -> None:
        scores = scored(predicted(MARKS))
        chosen = few(scores, BALANCED, 4, int(np.argmax(scores.score)), 0)
        assert int(np.argmin(scores.score)) not in chosen


def gain(value: float, error: float = 0.01) -> Gain:
    deviations = np.zeros(BLOCKS + SEEDS_COUNTED + 1)
    deviations[0] = error
    return Gain(value, 0.0, 0.0, deviations)


class TestBothEngines:
    FIRST = tuple(gain(value) for value in (0.0, 0.02, 0.1, 0.2, 0.05, -0.3))

    def test_alike_in_error_they_count_alike(self) -> None:
        found = of_both(self.FIRST, {0: gain(0.0), 2: gain(0.2), 3: gain(0.1)}, MARKS)
        assert [found[row].value for row in (0, 2, 3)] == pytest.approx([0.0, 0.15, 0.15])

    def test_their_difference_is_part_of_the_error(self) -> None:
        found = of_both(self.FIRST, {2: gain(0.2)}, MARKS)[2]
        assert found.noise == pytest.approx(math.hypot(0.01, 0.05))

    def test_the_noisier_second_counts_less_and_the_sharper_no_more_than_half(self) -> None:
        noisy = of_both(self.FIRST, {2: gain(0.2, 0.02)}, MARKS)[2]
        assert noisy.value == pytest.approx(0.1 + 0.1 * 0.2)
        assert of_both(self.FIRST, {2: gain(0.2, 0.001)}, MARKS)[2].value == pytest.approx(0.15)

    def test_the_others_move_as_those_near_them(self) -> None:
        found = of_both(self.FIRST, {0: gain(0.0), 3: gain(0.4)}, MARKS)
        moved = [one.value - first.value for one, first in zip(found, self.FIRST, strict=True)]
        assert moved[0] == 0.0
        assert moved[3] == pytest.approx(0.1)
        assert 0.0 < moved[1] < moved[2] < 0.1

    def test_a_failed_run_stays_failed_and_moves_nothing(self) -> None:
        found = of_both(self.FIRST, {1: gain(math.nan), 2: gain(0.2)}, MARKS)
        assert math.isnan(found[1].value)
        assert found[3].value == pytest.approx(0.25)

    def test_a_lead_of_what_it_did_not_run_is_worth_another_run(self) -> None:
        scores = scored(predicted(MARKS)).with_gains(self.FIRST, "gain")
        assert ahead(scores, [0, 1, 2])[0] == 3
        assert ahead(scores, [0, 3]) == []
        assert ahead(scores.with_gains([gain(0.0)] * 6, "gain"), [0]) == []


class TestDisagreement:
    def test_is_the_median_factor_of_the_worst_figure(self) -> None:
        first = predicted(MARKS[:3])
        pairs = [(one, scaled(one, factor)) for one, factor in zip(first, (0.5, 1.25, 1.0), strict=True)]
        found = disagreement(pairs)
        assert found["elephant_slowdown"] == pytest.approx(0.25)
        assert found["goodput"] == pytest.approx(0.25)
        assert set(found) == {"queue_mean", "queue_p99", "mice_p99_slowdown", "elephant_slowdown", "goodput"}

    def test_counts_half_as_much_as_double(self) -> None:
        (one,) = predicted(MARKS[3:4])
        assert disagreement([(one, scaled(one, 2.0))])["goodput"] == pytest.approx(1.0)
        assert disagreement([(one, scaled(one, 0.5))])["goodput"] == pytest.approx(1.0)

    def test_means_nothing_for_a_queue_below_a_packet(self) -> None:
        (one,) = predicted(MARKS[:1])
        idle, busier = replace(one, queue_mean_bytes=3.0), replace(one, queue_mean_bytes=30.0)
        assert disagreement([(idle, busier)])["queue_mean"] < 0.03

    def test_leaves_out_what_nobody_has_and_what_failed(self) -> None:
        (one,) = predicted(MARKS[:1])
        bare = replace(one, slowdown={})
        assert "elephant_slowdown" not in disagreement([(bare, bare)])
        assert disagreement([(one, Prediction.failed(MARKS[0], SolveStatus.BUDGET))]) == {}

    def test_is_said_with_its_figure(self) -> None:
        assert differ_text({"goodput": 0.01, "queue_p99": 0.4567}) == "46 % in p99 queue"
        assert differ_text({}) == "nothing to compare"


class TestTheBestAmong:
    def test_only_those_named_may_win(self) -> None:
        scores = scored(predicted(MARKS))
        best = int(np.argmax(scores.score))
        others = [row for row in range(len(MARKS)) if row != best]
        assert best_among(scores, among=others, incumbent=0, near_tie=0.0) != best
        assert best_among(scores, among=[*others, best], incumbent=0, near_tie=0.0) == best

    def test_the_incumbent_where_nobody_else_can(self) -> None:
        rows = predicted(MARKS)
        rows[3] = Prediction.failed(MARKS[3], SolveStatus.DIVERGED)
        assert best_among(scored(rows), among=[3], incumbent=1) == 1
        assert best_among(scored(rows), among=[], incumbent=1) == 1

    def test_a_tie_is_narrower_where_scores_span_little(self) -> None:
        scores = scored(predicted(MARKS))
        flat = replace(scores, score=0.05 * scores.score)
        assert tie_width(flat, 0.02) == pytest.approx(0.02 * 0.05 * float(np.ptp(scores.score)))
        wide = replace(scores, score=5.0 * scores.score)
        assert tie_width(wide, 0.02) == 0.02
        nobody = replace(scores, feasible=np.zeros(len(MARKS), dtype=np.bool_))
        assert tie_width(nobody, 0.02) == 0.02
        assert math.isfinite(tie_width(scores))
