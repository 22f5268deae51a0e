"""The arithmetic of a second opinion: which few candidates to run, on what scale, how far engines differ."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from twin.prediction import SIZE_CLASSES, Prediction, Slowdown, SolveStatus, stretched
from twin.search.score import LEAST_LOSS_BYTES, LEAST_PAUSE_S, QUEUE_OFFSET_BYTES, Scores, Weights, tie_width
from twin.units import percent_text

# For choosing the few: by how much two engines' scores of one candidate differ, about, and how far apart (in
# weighed terms) two candidates are before the engines differ on them independently.
SCORES_DIFFER_BY = 0.05
ALIKE_WITHIN = 0.2

# Per figure: the offset added before taking a ratio, and the share by which another seed of packets moves it.
_NOISE: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "queue_mean_bytes": (QUEUE_OFFSET_BYTES, 0.06),
        "queue_p99_bytes": (QUEUE_OFFSET_BYTES, 0.10),
        "queue_peak_bytes": (QUEUE_OFFSET_BYTES, 0.10),
        "goodput_bytes_per_s": (0.0, 0.004),
        "marked_fraction": (0.01, 0.06),
        "loss_bytes": (LEAST_LOSS_BYTES, 0.10),
        "pfc_pause_s": (LEAST_PAUSE_S, 0.10),
        **{f"{name} mean": (0.0, 0.06) for name in SIZE_CLASSES},
        **{f"{name} p99": (0.0, 0.11) for name in SIZE_CLASSES},
    }
)

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
    terms = np.stack(
        [getattr(weights, name) * column for name, column in sorted(scores.normalised.items())], axis=1
    )
    best = float(scores.score[scores.feasible].max())
    chosen = [] if pick == incumbent else [pick]
    left = [row for row in np.flatnonzero(scores.feasible).tolist() if row not in (pick, incumbent)]
    while left and len(chosen) < count:
        known = terms[chosen if incumbent is None else [incumbent, *chosen]]
        apart = np.linalg.norm(terms[left][:, None, :] - known[None, :, :], axis=2).min(axis=1)
        gain = [
            _expected_gain(float(scores.score[row]) - best, float(distance))
            for row, distance in zip(left, apart, strict=True)
        ]
        place = max(range(len(left)), key=lambda at: (gain[at], float(scores.score[left[at]]), -left[at]))
        chosen.append(left.pop(place))
    return chosen


def ahead(scores: Scores, asked: Collection[int], near_tie: float) -> int | None:
    """The candidate whose estimate leads all those ``asked`` about by more than a tie, if there is one.

    The second engine's runs may move another candidate to the front, which is then worth running too.
    """
    best = max(float(scores.score[row]) for row in asked) + tie_width(scores, near_tie)
    others = [
        row
        for row in range(len(scores.score))
        if row not in asked and scores.feasible[row] and scores.score[row] > best
    ]
    return max(others, key=lambda row: (float(scores.score[row]), -row), default=None)


def corrected(full: Prediction, short: Prediction, second: Prediction, share: float) -> Prediction:
    """Estimates the second engine's figures for the full window from its run of a ``share`` of it.

    ``full`` and ``short`` are the first engine's figures for both windows, ``second`` the second engine's for
    the short one. Queues (1000 bytes added, as in the score), goodput and slowdown carry over by ratio;
    losses, pauses and marks, which may be 0, by difference. Where the window is not cut: ``second`` itself.
    """
    if share >= 1.0 or second.status is not SolveStatus.OK:
        return second
    figures: dict[str, Any] = {
        name: max(0.0, _by_ratio(full, short, second, name, QUEUE_OFFSET_BYTES))
        for name in ("queue_mean_bytes", "queue_p99_bytes", "queue_peak_bytes")
    }
    figures["goodput_bytes_per_s"] = _by_ratio(full, short, second, "goodput_bytes_per_s", 0.0)
    for name in ("loss_bytes", "pfc_pause_s"):
        more = (getattr(second, name) - getattr(short, name)) / share
        figures[name] = max(0.0, getattr(full, name) + more)
    marked = full.marked_fraction + second.marked_fraction - short.marked_fraction
    slowdown = {name: _slowdown(entry, name, short, second) for name, entry in full.slowdown.items()}
    return replace(full, **figures, marked_fraction=min(max(marked, 0.0), 1.0), slowdown=slowdown)


def on_one_scale(
    first: Sequence[Prediction], asked: Mapping[int, Prediction], n_runs: float = 1.0
) -> list[Prediction]:
    """All candidates on the second engine's scale, those it ran (``asked``) averaged with its figures.

    The first engine's figures move by the median ratio of candidates that both ran. For the others
    that is all: it keeps the set broad enough to normalise scores, and never makes one the winner. For those
    both ran, the second's weight is 1 − σ² ÷ mean squared difference, at least ½: the mean of both while
    they differ by no more than another seed would move the second, the second alone as they differ more.
    ``n_runs`` are the second engine's runs of the full window, a share of one where the window was cut.
    """
    known = sorted(asked)
    stretch = stretched([first[row] for row in known], [asked[row] for row in known])
    rows = [stretch(one) for one in first]
    sound = [row for row in known if _ok(rows[row]) and _ok(asked[row])]
    weights = _trust([(rows[row], asked[row]) for row in sound], n_runs)
    for row in known:
        rows[row] = _weighed(rows[row], asked[row], weights) if row in sound else asked[row]
    return rows


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


def _trust(pairs: Sequence[tuple[Prediction, Prediction]], n_runs: float) -> dict[str, float]:
    """The second engine's weight per figure."""
    weights = {}
    for name, (offset, seed_moves) in _NOISE.items():
        both = [
            (_value(a, name) + offset, _value(b, name) + offset)
            for a, b in pairs
            if _has(a, name) and _has(b, name)
        ]
        apart = [math.log(b / a) ** 2 for a, b in both if a > 0 and b > 0]
        mean = float(np.mean(apart)) if apart else 0.0
        noise = seed_moves**2 / n_runs
        weights[name] = max(0.5, 1.0 - noise / mean) if mean > 0 else 0.5
    return weights


def _weighed(first: Prediction, second: Prediction, weights: Mapping[str, float]) -> Prediction:
    def mean(name: str) -> float:
        if not _has(first, name):
            return _value(second, name)
        return weights[name] * _value(second, name) + (1 - weights[name]) * _value(first, name)

    slowdown = {
        name: Slowdown(entry.n, mean(f"{name} mean"), mean(f"{name} p99"))
        for name, entry in second.slowdown.items()
    }
    figures: dict[str, Any] = {name: mean(name) for name in _NOISE if " " not in name}
    return replace(second, **figures, slowdown=slowdown)


def _has(one: Prediction, name: str) -> bool:
    return " " not in name or name.partition(" ")[0] in one.slowdown


def _value(one: Prediction, name: str) -> float:
    size_class, _, figure = name.partition(" ")
    return float(getattr(one.slowdown[size_class], figure) if figure else getattr(one, name))


def _expected_gain(behind: float, apart: float) -> float:
    alike = math.exp(-0.5 * (apart / ALIKE_WITHIN) ** 2)
    spread = SCORES_DIFFER_BY * math.sqrt(1.0 - alike * alike)
    if spread == 0.0:
        return 0.0
    z = behind / spread
    return spread * (math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) + z * 0.5 * math.erfc(-z / math.sqrt(2)))


def _by_ratio(full: Prediction, short: Prediction, second: Prediction, name: str, offset: float) -> float:
    before = getattr(short, name) + offset
    if before <= 0:
        return float(getattr(second, name))
    return float((getattr(full, name) + offset) * (getattr(second, name) + offset) / before - offset)


def _slowdown(entry: Slowdown, size_class: str, short: Prediction, second: Prediction) -> Slowdown:
    a, b = short.slowdown.get(size_class), second.slowdown.get(size_class)
    # A class without flows in the short window stays as by the first engine.
    if a is None or b is None or not (a.n and b.n):
        return entry
    return Slowdown(entry.n, entry.mean * b.mean / a.mean, entry.p99 * b.p99 / a.p99)


def _figures(one: Prediction) -> dict[str, float]:
    return {
        "queue_mean": one.queue_mean_bytes + QUEUE_OFFSET_BYTES,
        "queue_p99": one.queue_p99_bytes + QUEUE_OFFSET_BYTES,
        "mice_p99_slowdown": one.slowdown_figure("mice", "p99"),
        "elephant_slowdown": one.slowdown_figure("elephant", "mean"),
        "goodput": one.goodput_bytes_per_s,
    }
