"""What holds of the score for any candidate set."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from twin.prediction import Prediction, Slowdown, SolveStatus
from twin.search.score import WEIGHT_PRESETS, rank, score
from twin.watermark import Watermark

FIGURE = st.floats(0, 1e9)


@st.composite
def candidate_sets(draw: st.DrawFn) -> list[Prediction]:
    classes = draw(st.sampled_from([(), ("mice",), ("mice", "elephant"), ("elephant",)]))
    rows = []
    for number in range(draw(st.integers(1, 12))):
        watermark = Watermark(number, 1_000 * (number + 1), 0.1)
        if draw(st.integers(0, 9)) == 0:
            rows.append(Prediction.failed(watermark, draw(st.sampled_from(list(SolveStatus)[1:]))))
            continue
        slowdown = {name: Slowdown(3, draw(st.floats(1, 1e3)), draw(st.floats(1, 1e4))) for name in classes}
        figures = [draw(FIGURE) for _ in range(7)]
        rows.append(Prediction(watermark, SolveStatus.OK, *figures, slowdown=slowdown))
    return rows


PRESETS = st.sampled_from(sorted(WEIGHT_PRESETS))


@given(rows=candidate_sets(), preset=PRESETS, pfc=st.booleans(), order=st.randoms(use_true_random=False))
def test_permuting_candidates_permutes_their_scores(
    rows: list[Prediction], preset: str, pfc: bool, order: object
) -> None:
    shuffled = list(range(len(rows)))
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    weights = WEIGHT_PRESETS[preset]
    straight = score(rows, weights, pfc).score
    mixed = score([rows[row] for row in shuffled], weights, pfc).score
    assert np.array_equal(mixed, straight[shuffled])


@given(rows=candidate_sets(), preset=PRESETS, pfc=st.booleans())
def test_scores_stay_within_their_weights(rows: list[Prediction], preset: str, pfc: bool) -> None:
    weights = WEIGHT_PRESETS[preset]
    scores = score(rows, weights, pfc)
    feasible = scores.score[scores.feasible]
    assert np.all(feasible <= weights.throughput + 1e-9)
    assert np.all(feasible >= -(weights.queue + weights.loss) - 1e-9)
    assert np.all(scores.score[~scores.feasible] == -np.inf)
    for column in scores.normalised.values():
        assert np.all((column[scores.feasible] >= 0) & (column[scores.feasible] <= 1 + 1e-9))


@given(rows=candidate_sets(), preset=PRESETS, pfc=st.booleans(), data=st.data())
def test_ranking_is_a_permutation_led_by_a_near_tie(
    rows: list[Prediction], preset: str, pfc: bool, data: st.DataObject
) -> None:
    scores = score(rows, WEIGHT_PRESETS[preset], pfc)
    incumbent = data.draw(st.integers(0, len(rows) - 1))
    order = rank(scores, incumbent=incumbent).tolist()
    assert sorted(order) == list(range(len(rows)))
    if scores.feasible.any():
        best = scores.score.max()
        assert scores.score[order[0]] >= best - 0.02
        if scores.score[incumbent] >= best - 0.02:
            assert order[0] == incumbent
        first_failed = int(scores.feasible.sum())
        assert not scores.feasible[order[first_failed:]].any()


@given(rows=candidate_sets(), factor=st.floats(0.01, 100))
def test_the_unit_of_goodput_does_not_matter(rows: list[Prediction], factor: float) -> None:
    scaled = [replace(row, goodput_bytes_per_s=row.goodput_bytes_per_s * factor) for row in rows]
    weights = WEIGHT_PRESETS["balanced"]
    assert np.allclose(score(rows, weights, True).score, score(scaled, weights, True).score, atol=1e-9)
