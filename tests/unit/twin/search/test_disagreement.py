"""Which candidates are worth a second opinion, on what scale its figures are, how far engines differ."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.twin.analytic_engine import AnalyticEngine
from tests.unit.twin.fabrics import star
from twin.prediction import Prediction, Slowdown, SolveStatus
from twin.search.disagreement import corrected, differ_text, disagreement, few, on_one_scale
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


class TestOneScale:
    def test_the_uncut_window_is_the_second_engines_own(self) -> None:
        (full,), (second,) = predicted(MARKS[:1]), predicted(MARKS[:1], seed=2)
        assert corrected(full, full, second, 1.0) is second

    def test_engines_that_agree_on_the_short_window_leave_the_full_one(self) -> None:
        (full,), (short,) = predicted(MARKS[:1]), predicted(MARKS[:1], duration_s=0.004)
        again = corrected(full, short, short, 0.2)
        assert again.queue_mean_bytes == pytest.approx(full.queue_mean_bytes)
        assert again.slowdown["mice"].p99 == pytest.approx(full.slowdown["mice"].p99)
        assert again.goodput_bytes_per_s == pytest.approx(full.goodput_bytes_per_s)
        assert again.pfc_pause_s == full.pfc_pause_s
        assert again.marked_fraction == pytest.approx(full.marked_fraction)

    def test_ratios_and_differences_carry_over(self) -> None:
        (full,) = predicted(MARKS[3:4])
        short = replace(full, pfc_pause_s=0.0, loss_bytes=3e6)
        second = replace(scaled(full, 1.5), pfc_pause_s=1e-3, loss_bytes=0.0, marked_fraction=1.0)
        found = corrected(replace(full, loss_bytes=4e6), short, second, 0.25)
        assert found.queue_mean_bytes == pytest.approx(1.5 * full.queue_mean_bytes)
        assert found.slowdown["elephant"].mean == pytest.approx(1.5 * full.slowdown["elephant"].mean)
        assert found.pfc_pause_s == pytest.approx(full.pfc_pause_s + 4e-3)
        assert found.loss_bytes == 0.0
        assert found.marked_fraction <= 1.0

    def test_a_class_the_short_window_did_not_see_stays(self) -> None:
        (full,) = predicted(MARKS[:1])
        short = replace(full, slowdown={"mice": full.slowdown["mice"]})
        found = corrected(full, short, scaled(short, 2.0), 0.5)
        assert found.slowdown["elephant"] == full.slowdown["elephant"]
        assert found.slowdown["mice"].mean == pytest.approx(2 * full.slowdown["mice"].mean)

    def test_a_failure_stays_a_failure(self) -> None:
        (full,) = predicted(MARKS[:1])
        failed = Prediction.failed(MARKS[0], SolveStatus.BUDGET)
        assert corrected(full, full, failed, 0.5) is failed

    def test_the_others_move_by_the_median_ratio(self) -> None:
        first = predicted(MARKS)
        asked = {row: scaled(first[row], factor) for row, factor in ((0, 1.2), (2, 1.3), (4, 2.0))}
        rows = on_one_scale(first, asked)
        assert rows[1].queue_mean_bytes == pytest.approx(1.3 * first[1].queue_mean_bytes)
        assert rows[5].slowdown["mice"].p99 == pytest.approx(1.3 * first[5].slowdown["mice"].p99)
        assert [row.watermark for row in rows] == MARKS

    def test_engines_that_differ_by_one_factor_agree(self) -> None:
        first = predicted(MARKS)
        asked = {row: scaled(first[row], 1.3) for row in (0, 2, 4)}
        for row, one in enumerate(on_one_scale(first, asked)):
            assert one.queue_mean_bytes == pytest.approx(1.3 * first[row].queue_mean_bytes)
            assert one.slowdown["mice"].p99 == pytest.approx(1.3 * first[row].slowdown["mice"].p99)
            assert one.goodput_bytes_per_s == pytest.approx(1.3 * first[row].goodput_bytes_per_s)

    def test_within_what_a_seed_moves_both_count_alike(self) -> None:
        first = predicted(MARKS)
        asked = {row: scaled(first[row], factor) for row, factor in ((1, 0.997), (2, 1.0), (3, 1.003))}
        rows = on_one_scale(first, asked)
        assert rows[3].goodput_bytes_per_s == pytest.approx(1.0015 * first[3].goodput_bytes_per_s)
        assert rows[1].slowdown["mice"].p99 == pytest.approx(0.9985 * first[1].slowdown["mice"].p99)

    def test_far_beyond_it_the_second_engine_counts_alone(self) -> None:
        first = predicted(MARKS)
        asked = {row: scaled(first[row], factor) for row, factor in ((1, 0.2), (2, 1.0), (3, 5.0))}
        rows = on_one_scale(first, asked)
        for row, second in asked.items():
            assert rows[row].goodput_bytes_per_s == pytest.approx(second.goodput_bytes_per_s, rel=1e-4)
            assert rows[row].slowdown["mice"].p99 == pytest.approx(second.slowdown["mice"].p99, rel=0.04)

    def test_more_runs_are_trusted_more(self) -> None:
        first = predicted(MARKS)
        asked = {row: scaled(first[row], factor) for row, factor in ((1, 0.85), (2, 1.0), (3, 1.15))}
        few_, many = (on_one_scale(first, asked, n)[3].slowdown["mice"].p99 for n in (1.0, 20.0))
        assert few_ < many < asked[3].slowdown["mice"].p99

    def test_pauses_and_losses_from_nothing(self) -> None:
        first = predicted(MARKS)
        paused = replace(first[2], pfc_pause_s=0.02, loss_bytes=1e7)
        rows = on_one_scale(first, {1: first[1], 2: paused})
        assert rows[2].pfc_pause_s == pytest.approx(0.02, rel=0.01)
        assert rows[2].loss_bytes == pytest.approx(1e7, rel=0.01)
        assert rows[1].loss_bytes == 0.0

    def test_a_failed_run_stays_failed_and_teaches_nothing(self) -> None:
        first = predicted(MARKS)
        failed = Prediction.failed(MARKS[1], SolveStatus.BUDGET)
        rows = on_one_scale(first, {1: failed, 2: first[2]})
        assert rows[1] is failed
        assert rows[3].queue_mean_bytes == pytest.approx(first[3].queue_mean_bytes)


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
        assert disagreement([(one, Prediction.failed(MARKS[0], SolveStatus.LOST))]) == {}

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
