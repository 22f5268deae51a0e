"""The gain over the incumbent, its error, and the choice among candidates that cannot be told apart."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.twin.fabrics import star
from twin.errors import ParameterError
from twin.prediction import BLOCKS, GainFigures, Prediction, Probe, Slowdown, SolveStatus
from twin.search.conclusion import Found
from twin.search.explain import relative_changes
from twin.search.gain import (
    MODEL_ERROR,
    POLICIES,
    SEEDS_COUNTED,
    Gain,
    Policy,
    gain_over,
    joined,
    joined_over_moments,
    persistent_bytes_share,
    policy_named,
    policy_text,
)
from twin.search.problem import SearchSettings
from twin.search.score import WEIGHT_PRESETS, Choice, Scores, choose, score
from twin.units import gain_text
from twin.watermark import Watermark

NOW = Watermark(400_000, 1_600_000, 0.2)
FIGURES = GainFigures(1e10, 4.0, 10.0, 20.0, 0.0, 0.0)


def run(watermark: Watermark = NOW, **changes: float) -> Prediction:
    """A run with the incumbent's figures but for ``changes``, as a bulk, mice and probe mix has them."""
    figures = FIGURES._replace(**changes)
    return Prediction(
        watermark,
        SolveStatus.OK,
        *(5e4, 4e5, 1e6, figures.goodput_bytes_per_s or 0.0, 0.1, 0.0, 0.0),
        slowdown={
            "elephant": Slowdown(9, figures.elephant_slowdown or math.nan, 9.0),
            "mice": Slowdown(99, 2.0, figures.mice_p99_slowdown or math.nan),
        },
        probe={"all": Probe(1000, 1.5, figures.probe_p99_slowdown or math.nan)},
        paused_share=figures.paused_share,
        loss_share=figures.loss_share,
        lasting_bytes_per_s=figures.lasting_bytes_per_s,
        without_block=(figures,) * BLOCKS,
    )


def value(policy: Policy = POLICIES["balanced"], share: float | None = 0.0, **changes: float) -> float:
    return gain_over(run(), run(Watermark(5_000, 200_000, 0.1), **changes), policy, share).value


class TestTheGain:
    def test_the_incumbent_gains_exactly_nothing(self) -> None:
        found = gain_over(run(), run(), POLICIES["balanced"], 0.5)
        assert (found.value, found.error) == (0.0, 0.0)

    def test_each_part_by_its_weight(self) -> None:
        assert value(elephant_slowdown=2.0) == pytest.approx(0.5 * math.log(2))
        assert value(mice_p99_slowdown=5.0) == pytest.approx(0.5 * 0.5 * math.log(2))
        assert value(probe_p99_slowdown=40.0) == pytest.approx(-0.5 * 0.5 * math.log(2))
        assert value(paused_share=0.01) == pytest.approx(-0.1)
        assert value(loss_share=0.002) == pytest.approx(-0.02)
        assert value(POLICIES["latency"], elephant_slowdown=2.0) == pytest.approx(0.2 * math.log(2))
        assert value(Policy(1, 0, harm_price=100), paused_share=0.01) == pytest.approx(-1.0)

    def test_bulk_traffic_that_persists_counts_by_bytes_delivered(self) -> None:
        assert value(share=1.0, goodput_bytes_per_s=2e10, elephant_slowdown=99.0) == pytest.approx(
            0.5 * math.log(2)
        )
        mixed = value(share=0.25, goodput_bytes_per_s=2e10, elephant_slowdown=8.0)
        assert mixed == pytest.approx(0.5 * (0.25 - 0.75) * math.log(2))
        assert value(share=None, goodput_bytes_per_s=2e10, elephant_slowdown=8.0) == 0.0

    @given(
        changed=st.fixed_dictionaries(
            {
                "elephant_slowdown": st.floats(1.0, 50.0),
                "mice_p99_slowdown": st.floats(1.0, 50.0),
                "probe_p99_slowdown": st.floats(1.0, 50.0),
                "lasting_bytes_per_s": st.floats(1e8, 1e11),
                "paused_share": st.floats(0.0, 0.1),
                "loss_share": st.floats(0.0, 0.1),
            }
        ),
        share=st.none() | st.floats(0.0, 1.0),
        policy=st.sampled_from(list(POLICIES.values())),
    )
    def test_what_gains_makes_some_figure_that_is_told_better(
        self, changed: dict[str, float], share: float | None, policy: Policy
    ) -> None:
        now = run(paused_share=0.02, loss_share=0.01, lasting_bytes_per_s=1e10)
        new = run(NOW, **changed)
        told = relative_changes(now, new)
        better = [told[name] < 0 for name in told if name.endswith("slowdown")]
        better += [told["lasting_rate"] > 0, changed["paused_share"] < 0.02, changed["loss_share"] < 0.01]
        assert gain_over(now, new, policy, share).value <= 0 or any(better)

    def test_what_one_of_the_two_lacks_counts_nothing(self) -> None:
        now, new = run(), run(mice_p99_slowdown=1.0, probe_p99_slowdown=10.0)
        bare = replace(now, slowdown={}, paused_share=None)
        assert gain_over(bare, new, Policy(), 0.0).value == pytest.approx(0.5 * math.log(2))

    def test_a_failed_run_has_none(self) -> None:
        failed = Prediction.failed(NOW, SolveStatus.DIVERGED)
        assert math.isnan(gain_over(run(), failed, Policy(), 0.0).value)

    def test_absurd_company_moves_nothing(self) -> None:
        rows = [run(), run(Watermark(5_000, 200_000, 0.1), elephant_slowdown=3.9)]
        absurd = [
            run(Watermark(1, 2 + n, 1.0), elephant_slowdown=10.0**n, probe_p99_slowdown=1e6 / (n + 1))
            for n in range(50)
        ]
        alone, crowded = (scored(one) for one in (rows, rows + absurd))
        assert crowded.score[:2] == pytest.approx(alone.score, abs=1e-12)
        assert crowded.normalised_score[1] != pytest.approx(alone.normalised_score[1], abs=1e-3)


class TestItsError:
    def test_of_blocks_is_the_jackknifes_over_paired_successive_figures(self) -> None:
        rng = np.random.default_rng(1)
        moves, common = rng.normal(0.0, 0.01, BLOCKS), rng.normal(0.0, 0.5, BLOCKS)
        now = replace(
            run(),
            without_block=tuple(FIGURES._replace(elephant_slowdown=4 * math.exp(c)) for c in common),
        )
        new = replace(
            run(elephant_slowdown=3.0),
            without_block=tuple(
                FIGURES._replace(elephant_slowdown=3 * math.exp(c + m))
                for c, m in zip(common, moves, strict=True)
            ),
        )
        expected = 0.5 * math.sqrt((BLOCKS - 1) / (2 * BLOCKS) * np.sum(np.diff(moves) ** 2))
        assert gain_over(now, new, Policy(), 0.0).noise == pytest.approx(expected)

    def test_of_seeds_is_that_of_their_mean(self) -> None:
        now = replace(run(), by_seed=(FIGURES,) * 3)
        slowdowns = (3.0, 3.2, 3.1)
        new = replace(
            run(Watermark(5_000, 200_000, 0.1), elephant_slowdown=3.1),
            by_seed=tuple(FIGURES._replace(elephant_slowdown=one) for one in slowdowns),
        )
        expected = 0.5 * np.std(np.log(slowdowns), ddof=1) / math.sqrt(3)
        assert gain_over(now, new, Policy(), 0.0).noise == pytest.approx(expected)

    def test_is_unknown_after_one_run_of_an_engine_without_blocks(self) -> None:
        now, new = (replace(one, without_block=()) for one in (run(), run(Watermark(1, 2, 0.5))))
        assert math.isnan(gain_over(now, new, Policy(), 0.0).error)
        assert gain_over(now, now, Policy(), 0.0).error == 0.0

    @pytest.mark.parametrize(("n_mice", "beyond"), [(9_900, 99), (400, 4), (30, 1)])
    def test_holds_waits_that_few_mice_do_not_show(self, n_mice: int, beyond: int) -> None:
        high = Watermark(800_000, 3_200_000, 0.1)
        policy = Policy(0.5, 0.5, probe=0.2)

        def noise(**changes: float) -> float:
            new = run(high, **changes)
            mice = replace(new.slowdown["mice"], n=n_mice)
            return gain_over(run(), replace(new, slowdown=new.slowdown | {"mice": mice}), policy, 0.0).noise

        expected = 0.5 * 0.8 * math.log(2) / math.sqrt(beyond)
        assert noise(probe_p99_slowdown=40.0) == pytest.approx(expected)
        assert noise(probe_p99_slowdown=40.0, mice_p99_slowdown=5.0) == pytest.approx(expected)
        assert noise(probe_p99_slowdown=40.0, mice_p99_slowdown=20.0) == 0.0  # they show it
        assert noise(probe_p99_slowdown=10.0) == 0.0  # nothing waits longer
        assert noise(probe_p99_slowdown=math.nan) == 0.0

    def test_of_many_moments_holds_what_few_mice_hide_in_each(self) -> None:
        high = run(Watermark(800_000, 3_200_000, 0.1), probe_p99_slowdown=40.0)
        one = gain_over(run(), high, Policy(), 0.0)
        several = joined_over_moments([one] * 4, [1.0] * 4, 4)
        assert several.noise == pytest.approx(one.noise / 2) == pytest.approx(0.25 * math.log(2) / 2)

    @pytest.mark.parametrize("weights", [[1.0] * 4, [2.0, 1.0, 1.0, 1.0], [5.0, *[1.0] * 7]])
    def test_of_many_moments_is_their_spread_whatever_their_weights(self, weights: list[float]) -> None:
        rng = np.random.default_rng(1)
        misses = 0
        for values in rng.normal(0.0, 0.1, (4_000, len(weights))).tolist():
            gains = [Gain(one, 0.0, 0.0, np.zeros(BLOCKS + SEEDS_COUNTED + 3)) for one in values]
            found = joined_over_moments(gains, weights, len(weights))
            misses += abs(found.value) > 2.0 * found.noise
        assert 0.02 < misses / 4_000 < 0.07

    @pytest.mark.parametrize("rest", [0.0, 1e-3, 0.2])
    def test_is_its_own_where_one_moment_outweighs_the_others(self, rest: float) -> None:
        """Its distance from a mean that it decides is near 0, and says nothing."""
        own = np.zeros(BLOCKS + SEEDS_COUNTED + 3)
        own[0] = 0.1
        gains = [Gain(one, 0.0, 0.0, own) for one in (0.2, 0.0, -0.3, 0.1)]
        weights = [1.0, rest, rest, rest]
        found = joined_over_moments(gains, weights, 4)
        assert found.noise == pytest.approx(0.1 * math.hypot(*weights) / sum(weights))

    def test_of_traffic_that_came_again_is_that_of_one_time(self) -> None:
        one = Gain(0.1, 0.0, 0.0, np.array([0.03, 0.04]))
        assert one.repeated(4.0).noise == pytest.approx(0.1)
        assert one.repeated(4.0).value == one.value

    def test_moved_with_another_holds_the_error_of_where_that_went(self) -> None:
        shared, own = np.array([0.05, 0.0, 0.0]), np.array([0.0, 0.01, 0.0])
        before, after = Gain(0.1, 0.0, 0.0, shared), Gain(0.3, 0.0, 0.0, np.array([0.0, 0.0, 0.04]))
        found = Gain(0.2, 0.0, 0.0, shared + own).moved(before, after)
        assert found.value == pytest.approx(0.4)
        assert found.noise == pytest.approx(math.hypot(0.01, 0.04))

    def test_of_parts_that_share_nothing_adds_in_squares(self) -> None:
        one = Gain(0.1, 0.0, 0.0, np.array([0.03, 0.0]))
        fleet = joined([one, one], [0.5, 0.5])
        assert fleet.value == pytest.approx(0.1)
        assert fleet.noise == pytest.approx(0.03 / math.sqrt(2))

    def test_of_a_single_elephant_is_as_large_as_what_it_gains(self) -> None:
        def of(elephants: int) -> float:
            now, new = (
                replace(one, slowdown=one.slowdown | {"elephant": Slowdown(elephants, mean, mean)})
                for one, mean in ((run(), 4.0), (run(Watermark(5_000, 200_000, 0.1)), 2.0))
            )
            return gain_over(now, new, POLICIES["throughput"], 0.25).noise

        assert of(1) == pytest.approx(0.8 * 0.75 * math.log(2))
        assert of(2) == 0.0

    def test_holds_what_no_run_shows_in_proportion_to_the_gain(self) -> None:
        one = Gain(0.3, -0.1, 0.0, np.array([0.03, 0.0]))
        assert one.error == pytest.approx(math.hypot(0.03, 0.2 * MODEL_ERROR))
        assert one.less(one).error == 0.0


def scored(rows: list[Prediction]) -> Scores:
    gains = [gain_over(rows[0], one, Policy(), 0.0) for one in rows]
    return score(rows, WEIGHT_PRESETS["balanced"], pfc=True).with_gains(gains, "gain")


def candidates(*gains: tuple[float, float, Watermark]) -> tuple[Scores, list[Watermark]]:
    """Scores and watermarks of candidates of (gain, error, watermark); the incumbent is row 0."""
    rows = [run(), *(run(mark) for _, _, mark in gains)]
    found = [Gain(0.0, 0.0, 0.0, np.zeros(len(gains)))]
    for place, (mean, error, _) in enumerate(gains):
        found.append(Gain(mean, 0.0, 0.0, error * (np.arange(len(gains)) == place)))
    scores = score(rows, WEIGHT_PRESETS["balanced"], pfc=True).with_gains(found, "gain")
    return scores, [one.watermark for one in rows]


def chosen(*gains: tuple[float, float, Watermark], margin: float = 0.03) -> Choice:
    scores, watermarks = candidates(*gains)
    return choose(scores, among=range(len(watermarks)), incumbent=0, margin=margin, watermarks=watermarks)


FAR, NEAR = Watermark(4_000, 100_000, 0.9), Watermark(300_000, 1_200_000, 0.2)


class TestTheChoice:
    @pytest.mark.parametrize(("error", "sure"), [(0.001, True), (0.04, False), (math.nan, True)])
    def test_is_sure_where_it_exceeds_the_margin_less_two_errors(self, error: float, sure: bool) -> None:
        scores, watermarks = candidates((0.10, error, FAR))
        found = Found.among(scores, (0, 1), 0, SearchSettings(margin=0.03), watermarks, None)
        assert (found.row, found.stands, found.sure) == (1, False, sure)
        assert found.score_gain == pytest.approx(0.10)

    def test_is_the_best_where_it_can_be_told_apart(self) -> None:
        assert chosen((0.10, 0.001, FAR), (0.08, 0.001, NEAR)) == Choice(1, 0)

    def test_is_nearest_to_what_runs_among_those_alike(self) -> None:
        assert chosen((0.10, 0.01, FAR), (0.09, 0.01, NEAR)) == Choice(2, 1)

    def test_gains_far_apart_are_never_alike(self) -> None:
        assert chosen((0.20, 0.05, FAR), (0.15, 0.001, NEAR)).row == 1

    def test_prefers_one_that_surely_exceeds_the_margin(self) -> None:
        assert chosen((0.06, 0.01, FAR), (0.05, 0.02, NEAR)).row == 1

    def test_is_the_incumbent_where_nothing_can_be_told_apart_from_it(self) -> None:
        assert chosen((0.010, 0.01, FAR), (0.005, 0.01, NEAR)) == Choice(0, 2)


class TestThePolicy:
    def test_weights_are_scaled_to_sum_to_one(self) -> None:
        assert Policy(2, 6) == Policy(0.25, 0.75)
        assert policy_named("2,6", 3.0) == Policy(0.25, 0.75, 3.0)
        assert policy_named("latency", 3.0) == Policy(0.2, 0.8, 3.0)

    def test_mice_and_probe_may_be_weighed_apart(self) -> None:
        assert policy_named("4,3,1", 3.0) == Policy(0.5, 0.5, 3.0, probe=0.25)
        assert policy_named("1,1,0").probe == 0.0
        assert policy_named("1,0,0") == Policy(1.0, 0.0)
        assert policy_text(policy_named("1,1,0")) == "0.5/0.5/0"
        now, new = run(), run(mice_p99_slowdown=4.0, probe_p99_slowdown=1.0)
        mice, probe = (gain_over(now, new, policy_named(one), 0.0).delay for one in ("1,1,0", "1,0,1"))
        assert mice == pytest.approx(0.5 * math.log(now.gain_figures.mice_p99_slowdown / 4.0))
        assert probe == pytest.approx(0.5 * math.log(now.gain_figures.probe_p99_slowdown / 1.0))
        assert gain_over(now, new, policy_named("4,3,1"), 0.0).delay == pytest.approx((3 * mice + probe) / 4)

    def test_a_share_is_at_most_one(self) -> None:
        with pytest.raises(ParameterError, match="at most 1"):
            Policy(probe=1.5)

    @pytest.mark.parametrize("text", ["fast", "1", "1,2,3,4", "a,b", ""])
    def test_an_unknown_one_is_refused_by_name(self, text: str) -> None:
        with pytest.raises(ParameterError, match="known policies are balanced, latency, throughput"):
            policy_named(text)

    @pytest.mark.parametrize("text", ["0,0", "-1,2", "nan,1", "inf,1", "1,2,-1", "0,0,0"])
    def test_weights_outside_their_meaning_are_refused(self, text: str) -> None:
        with pytest.raises(ParameterError, match="weights"):
            policy_named(text)

    def test_is_named_where_it_has_a_name(self) -> None:
        assert policy_text(policy_named("throughput", 2.0)) == "throughput"
        assert policy_text(Policy(7, 3)) == "0.7/0.3"

    def test_a_gain_is_said_in_percent_with_its_error(self) -> None:
        assert gain_text(0.0812, 0.0194) == "8.1 ± 1.9 %"
        assert gain_text(0.52, math.nan) == "52 %"


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (np.inf, 1.0),
        (5e6, 0.0),
        (5e4, None),
        ([1e6, *[5e5] * 30], 0.0),
        ([1e6, *[5e5] * 50], None),
        ([np.inf, *[5e5] * 50], 1.0),
    ],
    ids=["endless", "elephants", "mice", "some elephants", "hardly any", "an endless one"],
)
def test_elephants_count_where_they_carry_a_twentieth_of_the_bytes(payload: Any, expected: Any) -> None:
    pairs = [(0, 1)] * np.size(payload)
    now = GainFigures(1e9, *[None] * 5)
    assert persistent_bytes_share(star(pairs, payload_bytes=payload, duration_s=1.0), now) == expected


def test_flows_that_never_end_count_by_what_they_send_though_others_have_not_ended() -> None:
    problem = star([(0, 1), (2, 1), (3, 1)], payload_bytes=[np.inf, 1e9, 1e9], duration_s=1.0)
    third_bytes_per_s = problem.port_rate_bytes_per_s[0] / 3
    now = GainFigures(3 * third_bytes_per_s, *[None] * 5, lasting_bytes_per_s=third_bytes_per_s)
    share = persistent_bytes_share(problem, now)
    assert share == pytest.approx(third_bytes_per_s / (third_bytes_per_s + 2e9))
