"""The score on hand-made candidate sets and on the measured truths."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.accuracy import as_predictions
from twin.errors import ParameterError
from twin.prediction import Prediction, Slowdown, SolveStatus
from twin.search.gain import POLICIES, Policy
from twin.search.score import WEIGHT_PRESETS, Weights, rank, score, weights_for
from twin.watermark import Watermark

BALANCED = WEIGHT_PRESETS["balanced"]
TRUTHS = ["websearch-16", "websearch-16-shallow", "incast-64", "steady-64", "parking-lot"]


def row(number: int = 0, **figures: Any) -> Prediction:
    """A prediction with quiet defaults."""
    slowdown = {
        name: Slowdown(10, *figures.pop(name)) for name in ("all", "mice", "elephant") if name in figures
    }
    defaults: dict[str, Any] = {
        "watermark": Watermark(1_000 * (number + 1), 100_000 * (number + 1), 0.1),
        "status": SolveStatus.OK,
        "queue_mean_bytes": 50_000.0,
        "queue_p99_bytes": 0.0,
        "queue_peak_bytes": 0.0,
        "goodput_bytes_per_s": 1e10,
        "marked_fraction": 0.0,
        "loss_bytes": 0.0,
        "pfc_pause_s": 0.0,
    }
    return Prediction(**(defaults | figures), slowdown=slowdown)


def test_the_three_terms_are_normalised_over_the_set() -> None:
    scores = score(
        [
            row(0, elephant=(4.0, 9.0), queue_mean_bytes=9_000.0, loss_bytes=0.0),
            row(1, elephant=(2.0, 9.0), queue_mean_bytes=99_000.0, loss_bytes=1e6),
            row(2, elephant=(8.0, 9.0), queue_mean_bytes=999_000.0, loss_bytes=5e5),
        ],
        BALANCED,
        pfc=False,
    )
    assert scores.throughput_is == "inverse_elephant_slowdown"
    assert scores.queue_is == "log_queue"
    assert scores.normalised["throughput"] == pytest.approx([1 / 3, 1, 0])
    assert scores.normalised["queue"] == pytest.approx([0, 0.5, 1])
    assert scores.normalised["loss"] == pytest.approx([0, 1, 0.5])
    assert scores.score == pytest.approx([1 / 3, -0.5, -1.5])
    assert scores.raw["throughput"] == pytest.approx([0.25, 0.5, 0.125])
    assert scores.raw["queue"] == pytest.approx(np.log([1e4, 1e5, 1e6]))


def test_persistent_flows_are_judged_by_bytes() -> None:
    scores = score([row(0, goodput_bytes_per_s=1e10), row(1, goodput_bytes_per_s=1.2e10)], BALANCED, pfc=True)
    assert scores.throughput_is == "goodput_bytes_per_s"
    assert scores.normalised["throughput"] == pytest.approx([0, 1])


def test_both_kinds_of_flow_count_by_their_number() -> None:
    rows = [
        row(0, elephant=(4.0, 9.0), goodput_bytes_per_s=1.0e10),
        row(1, elephant=(4.4, 9.0), goodput_bytes_per_s=1.1e10),
        row(2, elephant=(4.0, 9.0), goodput_bytes_per_s=1.1e10),
    ]
    even = score(rows, BALANCED, pfc=True, persistent_share=0.5).raw["throughput"]
    assert even[0] == pytest.approx(even[1])
    assert even[2] == pytest.approx(even[0] * 1.1**0.5)
    assert score(rows, BALANCED, pfc=True, persistent_share=1.0).throughput_is == "goodput_bytes_per_s"
    with pytest.raises(ParameterError):
        score(rows, BALANCED, pfc=True, persistent_share=1.5)


def test_latency_puts_mice_in_the_place_of_the_queue_where_they_are_seen() -> None:
    rows = [row(0, mice=(2.0, 30.0), queue_mean_bytes=1e4), row(1, mice=(2.0, 10.0), queue_mean_bytes=1e6)]
    seen = score(rows, WEIGHT_PRESETS["latency"], pfc=True)
    assert seen.queue_is == "mice_p99_slowdown"
    assert seen.score[1] > seen.score[0]
    unseen = score(
        [row(0, queue_mean_bytes=1e4), row(1, queue_mean_bytes=1e6)], WEIGHT_PRESETS["latency"], pfc=True
    )
    assert unseen.queue_is == "log_queue"
    assert unseen.score[0] > unseen.score[1]


def test_pause_counts_only_where_pfc_is_on() -> None:
    rows = [row(0), row(1, pfc_pause_s=0.05)]
    assert score(rows, BALANCED, pfc=False).score == pytest.approx([0, 0])
    assert score(rows, BALANCED, pfc=True).score == pytest.approx([0, -1])


def test_loss_and_pause_together_stay_one_term() -> None:
    rows = [row(0), row(1, pfc_pause_s=0.05), row(2, loss_bytes=1e6, pfc_pause_s=0.05)]
    assert score(rows, BALANCED, pfc=True).normalised["loss"] == pytest.approx([0, 0.5, 1])


@pytest.mark.parametrize("pfc", [True, False])
def test_a_constant_set_scores_zero(pfc: bool) -> None:
    scores = score([row(number) for number in range(4)], BALANCED, pfc)
    assert scores.score == pytest.approx(np.zeros(4))


def test_noise_is_not_blown_up_to_the_full_scale() -> None:
    pauses = score([row(0, pfc_pause_s=0.228), row(1, pfc_pause_s=0.235)], BALANCED, pfc=True)
    assert pauses.normalised["loss"][1] == pytest.approx(0.007 / (0.2 * 0.235))
    rare = score([row(0), row(1, pfc_pause_s=1e-6)], BALANCED, pfc=True)
    assert rare.normalised["loss"][1] == pytest.approx(0.01)
    bytes_alike = score(
        [row(0, goodput_bytes_per_s=1e10), row(1, goodput_bytes_per_s=1.001e10)], BALANCED, pfc=True
    )
    assert bytes_alike.normalised["throughput"][1] < 0.06


def test_a_failed_row_is_infeasible_and_moves_no_other_score() -> None:
    good = [row(0, queue_mean_bytes=1e4), row(1, queue_mean_bytes=1e5)]
    failed = Prediction.failed(Watermark(9_000, 10_000, 0.5), SolveStatus.DIVERGED)
    scores = score([good[0], failed, good[1]], BALANCED, pfc=True)
    assert scores.feasible.tolist() == [True, False, True]
    assert scores.score[1] == -math.inf
    assert np.delete(scores.score, 1) == pytest.approx(score(good, BALANCED, pfc=True).score)
    assert rank(scores).tolist() == [0, 2, 1]


def test_a_row_of_nan_is_infeasible_whatever_its_status() -> None:
    assert not score([row(0), row(1, queue_mean_bytes=math.nan)], BALANCED, pfc=True).feasible[1]


@pytest.mark.parametrize("count", [0, 3])
def test_nothing_feasible_is_an_answer_too(count: int) -> None:
    failed = [Prediction.failed(Watermark(1, 2 + n, 0.5), SolveStatus.BUDGET) for n in range(count)]
    scores = score(failed, WEIGHT_PRESETS["latency"], pfc=True)
    assert np.all(scores.score == -math.inf)
    assert sorted(rank(scores).tolist()) == list(range(count))


def test_a_class_seen_in_some_rows_only_is_not_compared() -> None:
    scores = score([row(0, elephant=(2.0, 3.0)), row(1)], BALANCED, pfc=True)
    assert scores.throughput_is == "goodput_bytes_per_s"
    assert np.all(np.isfinite(scores.score))


def test_near_ties_go_to_the_incumbent_then_to_the_lower_queue() -> None:
    rows = [
        row(0, goodput_bytes_per_s=1.00e10, queue_mean_bytes=90_000.0),
        row(1, goodput_bytes_per_s=1.00e10, queue_mean_bytes=89_900.0),
        row(2, goodput_bytes_per_s=1.001e10, queue_mean_bytes=90_000.0),
        row(3, goodput_bytes_per_s=0.5e10, queue_mean_bytes=10_000.0),
    ]
    scores = score(rows, WEIGHT_PRESETS["throughput"], pfc=True)
    assert rank(scores, incumbent=0).tolist()[0] == 0
    assert rank(scores).tolist()[0] == 1
    assert rank(scores, near_tie=0.0).tolist()[0] == 2
    assert rank(scores).tolist()[-1] == 3


@pytest.mark.parametrize(
    "bad", [{"throughput": -1.0}, {"loss": math.nan}, {"throughput": 0, "queue": 0, "loss": 0}]
)
def test_weights_outside_their_meaning_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ParameterError):
        Weights(**bad)


def test_presets_by_name() -> None:
    assert weights_for("throughput", POLICIES["throughput"]).queue == 0.3
    assert weights_for("0.4,0.2", Policy(0.4, 0.2)) == Weights(1.0, 0.5, 1.0)


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("preset", WEIGHT_PRESETS)
def test_scores_the_measured_truths(reference: Path, name: str, preset: str) -> None:
    results = json.loads((reference / f"{name}.truth.json").read_text())["results"]
    scores = score(as_predictions(results), WEIGHT_PRESETS[preset], pfc=True)
    assert scores.feasible.all()
    assert np.all(np.isfinite(scores.score))
    for column in scores.normalised.values():
        assert column.min() == pytest.approx(0.0, abs=1e-12)
        assert column.max() <= 1 + 1e-12
    expected = "inverse_elephant_slowdown" if name.startswith("websearch") else "goodput_bytes_per_s"
    assert scores.throughput_is == expected


def test_where_every_spread_is_telling_the_score_is_plain_min_max(reference: Path) -> None:
    results = json.loads((reference / "websearch-16-shallow.truth.json").read_text())["results"]

    def normalised(values: list[float]) -> Any:
        array = np.array(values)
        return (array - array.min()) / (array.max() - array.min())

    speed = normalised([1 / one["slowdown_with_unfinished"]["elephant"]["mean"] for one in results])
    queue = normalised([math.log(one["queue_mean_bytes"] + 1000) for one in results])
    pause = normalised([one["pfc_pause_s"] for one in results])
    assert score(as_predictions(results), BALANCED, pfc=True).score == pytest.approx(speed - queue - pause)
