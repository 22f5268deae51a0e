"""A second opinion's arithmetic: which few candidates to run, both engines' gains, how far they differ."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from twin.prediction import Prediction, SolveStatus
from twin.search.gain import PARTS, Gain, of_two_engines
from twin.search.score import QUEUE_OFFSET_BYTES, Scores, Weights
from twin.units import percent_text
from twin.watermark import Watermark

# For choosing the few: by how much two engines' scores of one candidate differ, about, and how far apart (in
# weighed terms) two candidates are before the engines differ on them independently.
SCORES_DIFFER_BY, ALIKE_WITHIN = 0.05, 0.2
GAINS_DIFFER_BY, GAINS_ALIKE_WITHIN = 0.03, 0.05
LEAST_LEAD = 0.01  # a lead in gain worth another run of the second engine

FIGURE_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "queue_mean": "mean queue",
        "queue_p99": "p99 queue",
        "mice_p99_slowdown": "p99 mice slowdown",
        "elephant_slowdown": "elephant slowdown",
        "goodput": "goodput",
    }
)


def few(scores: Scores, weights: Weights, count: int, pick: int, incumbent: int | None) -> list[int]:
    """At most ``count`` candidates worth a second opinion besides the incumbent, the pick first.

    Not the ``count`` best: those are often near-copies, on which engines agree or err together. Each next one
    has the largest expected gain over the best, taking the second engine's score as normal around the first's
    and correlated between candidates with similar weighed terms.
    """
    terms = scores.terms(weights)
    differ_by, alike_within = (
        (GAINS_DIFFER_BY, GAINS_ALIKE_WITHIN) if scores.by == "gain" else (SCORES_DIFFER_BY, ALIKE_WITHIN)
    )
    best = float(scores.score[scores.feasible].max())
    chosen = [] if pick == incumbent else [pick]
    left = [row for row in np.flatnonzero(scores.feasible).tolist() if row not in (pick, incumbent)]
    while left and len(chosen) < count:
        known = terms[chosen if incumbent is None else [incumbent, *chosen]]
        apart = np.linalg.norm(terms[left][:, None, :] - known[None, :, :], axis=2).min(axis=1)
        gain = [
            _expected_gain(float(scores.score[row]) - best, float(distance) / alike_within, differ_by)
            for row, distance in zip(left, apart, strict=True)
        ]
        place = max(range(len(left)), key=lambda at: (gain[at], float(scores.score[left[at]]), -left[at]))
        chosen.append(left.pop(place))
    return chosen


def ahead(scores: Scores, asked: Collection[int]) -> list[int]:
    """The candidates whose gain leads all those ``asked`` about by more than ``LEAST_LEAD``, the best first.

    The second engine's runs may move others to the front, which are then worth running too.
    """
    best = max(float(scores.score[row]) for row in asked) + LEAST_LEAD
    others = [
        row
        for row in range(len(scores.score))
        if row not in asked and scores.feasible[row] and scores.score[row] > best
    ]
    return sorted(others, key=lambda row: (-float(scores.score[row]), row))


def of_both(first: Sequence[Gain], second: Mapping[int, Gain], watermarks: Sequence[Watermark]) -> list[Gain]:
    """All candidates' gains, those the second engine ran (``second``) joined with its own.

    It counts by what its error is beside the first's, at most half.
    """
    sound = [row for row in sorted(second) if math.isfinite(first[row].value + second[row].value)]
    noise = [sum(one.noise**2 for one in (side[row] for row in sound)) for side in (first, second)]
    share = min(0.5, noise[0] / sum(noise)) if math.isfinite(sum(noise)) and sum(noise) > 0 else 0.5
    return moved_with(
        first, {row: of_two_engines(first[row], gain, share) for row, gain in second.items()}, watermarks
    )


def moved_with(
    gains: Sequence[Gain], settled: Mapping[int, Gain], watermarks: Sequence[Watermark]
) -> list[Gain]:
    """Gains of which some are ``settled`` otherwise; the others move as these near them did.

    By inverse squared distance; that makes none the winner, and tells which may be.
    """
    sound = [row for row in sorted(settled) if math.isfinite(gains[row].value + settled[row].value)]
    others = [row for row in range(len(gains)) if row not in settled]
    found = [settled.get(row, one) for row, one in enumerate(gains)]
    if not sound or not others:
        return found
    moved = np.array(
        [[getattr(settled[row], part) - getattr(gains[row], part) for part in PARTS] for row in sound]
    )
    place = np.array([one.logarithms for one in watermarks])
    near = np.linalg.norm(place[others][:, None, :] - place[sound][None, :, :], axis=2)
    weights = 1.0 / np.maximum(near, 1e-3) ** 2
    # No matrix product: how BLAS adds up depends on the machine.
    by = ((weights[:, :, None] * moved).sum(axis=1) / weights.sum(axis=1, keepdims=True)).tolist()
    for row, (bulk, delay, harm) in zip(others, by, strict=True):
        one = gains[row]
        found[row] = Gain(one.bulk + bulk, one.delay + delay, one.harm + harm, one.deviations)
    return found


def disagreement(pairs: Sequence[tuple[Prediction, Prediction]]) -> dict[str, float]:
    """Per figure, the median over candidates of the engines' ratio, the larger over the smaller, less 1.

    0 is agreement, 0.5 a factor of 1.5 either way. Queues have 1000 bytes added, as ratios of near-empty
    queues mean nothing. Figures that no candidate has are left out.
    """
    both = [(_figures(a), _figures(b)) for a, b in pairs if _ok(a) and _ok(b)]
    found = {}
    for name in FIGURE_WORDS:
        ratios = [b[name] / a[name] for a, b in both if a[name] > 0 and b[name] > 0]
        if ratios:
            found[name] = float(np.median([max(ratio, 1 / ratio) - 1.0 for ratio in ratios]))
    return found


def differ_text(by_figure: Mapping[str, float]) -> str:
    """The largest disagreement, such as ``12 % in p99 queue``."""
    if not by_figure:
        return "nothing to compare"
    name = max(by_figure, key=lambda one: by_figure[one])
    return f"{percent_text(round(by_figure[name], 2))} in {FIGURE_WORDS[name]}"


def _ok(one: Prediction) -> bool:
    return one.status is SolveStatus.OK


def _expected_gain(behind: float, apart: float, differ_by: float) -> float:
    alike = math.exp(-0.5 * apart**2)
    spread = differ_by * math.sqrt(1.0 - alike * alike)
    if spread == 0.0:
        return 0.0
    z = behind / spread
    return spread * (math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) + z * 0.5 * math.erfc(-z / math.sqrt(2)))


def _figures(one: Prediction) -> dict[str, float]:
    return {
        "queue_mean": one.queue_mean_bytes + QUEUE_OFFSET_BYTES,
        "queue_p99": one.queue_p99_bytes + QUEUE_OFFSET_BYTES,
        "mice_p99_slowdown": one.slowdown_figure("mice", "p99"),
        "elephant_slowdown": one.slowdown_figure("elephant", "mean"),
        "goodput": one.goodput_bytes_per_s,
    }
