"""The patent's score, a·T̂ − b·Q̂ − c·L̂ over a candidate set, with three rules beyond the formula.

``search.score: normalised`` decides by it; otherwise it is kept beside each candidate's gain (``gain``).

*Spread.* Terms are min-max normalised, but noise is not blown up to the full scale: the divisor is at least
the term's ``LEAST_SPREAD``. A constant term is 0 for all; a pause of 0.228 to 0.235 s at every setting weighs
a fifth of one that a watermark can switch off.

*Throughput of both kinds of flow.* T is 1 ÷ slowdown for completing elephants, bytes per second for
persistent flows. With both, T is their geometric mean weighted by the number of flows (``persistent_share``),
so that 10 % more of either counts alike per flow and units cancel.

*Loss.* L̂ is bytes lost normalised, plus pause time normalised where PFC is on, the sum normalised again: L
stays one term on the scale of the others.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from twin.errors import ParameterError, check_not_negative
from twin.prediction import Prediction, SolveStatus
from twin.search.gain import Gain, Policy
from twin.watermark import Watermark

ScoreName = Literal["gain", "normalised"]

QUEUE_OFFSET_BYTES = 1_000.0
NEAR_TIE = 0.02  # another seed moves a normalised score by about this much
MOST_ALIKE = 0.02  # gains further apart count as different however large their errors

# The smallest spread over a candidate set that counts in full: twice the effect of another seed (packet-level
# runs: goodput 0.4 %, elephant slowdown 6 %, queue 6 %, mice p99 11 %); logarithmic for the queue.
LEAST_SPREAD: Mapping[str, float] = MappingProxyType(
    {
        "goodput": 0.02,
        "slowdown": 0.10,
        "queue": math.log(1.1),
        "mice": 0.20,
        "loss": 0.20,
        "pause": 0.20,
    }
)
# Smaller differences are a few packets, whatever their ratio.
LEAST_LOSS_BYTES = 10_000.0
LEAST_PAUSE_S = 100e-6


@dataclass(frozen=True, slots=True)
class Weights:
    """An operator's policy: the weight of each term, all ≥ 0.

    With ``mice_for_queue`` Q is the p99 mice slowdown where there are mice.
    """

    throughput: float = 1.0
    queue: float = 1.0
    loss: float = 1.0
    mice_for_queue: bool = False

    def __post_init__(self) -> None:
        for name in ("throughput", "queue", "loss"):
            check_not_negative(f"weights {name}", getattr(self, name))
        if self.throughput + self.queue + self.loss == 0:
            raise ParameterError("weights", "all 0", "some term must count", "raise one of them")


WEIGHT_PRESETS: Mapping[str, Weights] = MappingProxyType(
    {
        "balanced": Weights(1.0, 1.0, 1.0),
        "throughput": Weights(1.0, 0.3, 1.0),
        "latency": Weights(0.3, 1.0, 1.0, mice_for_queue=True),
    }
)


def weights_for(text: str, policy: Policy) -> Weights:
    """The preset named ``text``, else the weights nearest to a policy's own."""
    largest = max(policy.bulk, policy.delay)
    return WEIGHT_PRESETS.get(text) or Weights(policy.bulk / largest, policy.delay / largest)


@dataclass(frozen=True)
class Scores:
    """Scores of a candidate set, arrays in its order.

    ``score`` is what decides, −inf where infeasible: the gain or, ``by`` choice, the ``normalised_score``.
    ``raw`` holds each term before normalising (``throughput``, ``queue``, ``loss_bytes``, ``pause_s``),
    ``normalised`` each after (``throughput``, ``queue``, ``loss``): 0 at the set's smallest, 1 at its
    largest; NaN where infeasible. ``throughput_is`` and ``queue_is`` name the figures used for T and Q.
    """

    score: NDArray[np.float64]
    feasible: NDArray[np.bool_]
    raw: Mapping[str, NDArray[np.float64]]
    normalised: Mapping[str, NDArray[np.float64]]
    queue_mean_bytes: NDArray[np.float64]
    throughput_is: str
    queue_is: str
    normalised_score: NDArray[np.float64]
    by: ScoreName = "normalised"
    gains: tuple[Gain, ...] = ()

    def with_gains(self, gains: Sequence[Gain], by: ScoreName) -> Scores:
        """These scores beside ``gains``, one or the other deciding."""
        values = np.array([one.value for one in gains])
        feasible = self.feasible & np.isfinite(values)
        decides = values if by == "gain" else self.normalised_score
        return replace(
            self, score=np.where(feasible, decides, -np.inf), feasible=feasible, gains=tuple(gains), by=by
        )

    def terms(self, weights: Weights) -> NDArray[np.float64]:
        """What each row's score is the sum of, [row, term]."""
        if self.by == "gain":
            return np.array([(one.bulk, one.delay, one.harm) for one in self.gains])
        columns = sorted(self.normalised.items())
        return np.stack([getattr(weights, name) * column for name, column in columns], axis=1)


def score(
    rows: Sequence[Prediction], weights: Weights, pfc: bool, *, persistent_share: float | None = None
) -> Scores:
    """Scores the candidates against each other; a failed prediction is infeasible, not an exception.

    ``persistent_share`` is the share of never-ending flows among the elephants
    (``problem.persistent_share``); None: 0 where elephants complete, 1 where none do.
    """
    queue_mean = np.array([row.queue_mean_bytes for row in rows], dtype=np.float64)
    goodput = np.array([row.goodput_bytes_per_s for row in rows], dtype=np.float64)
    loss = np.array([row.loss_bytes for row in rows], dtype=np.float64)
    pause = np.array([row.pfc_pause_s for row in rows], dtype=np.float64)
    sound = np.array([row.status is SolveStatus.OK for row in rows], dtype=np.bool_)
    feasible = sound & np.isfinite(queue_mean) & np.isfinite(goodput) & np.isfinite(loss) & np.isfinite(pause)

    throughput, least, throughput_is = _throughput(rows, goodput, feasible, persistent_share)
    raw = {"throughput": throughput, "loss_bytes": loss, "pause_s": pause}
    normalised = {"throughput": _normalised(throughput, feasible, relative=least)}

    mice = _slowdowns(rows, "mice", "p99")
    queue_is = "mice_p99_slowdown" if weights.mice_for_queue and _seen(mice, feasible) else "log_queue"
    if queue_is == "log_queue":
        raw["queue"] = np.log(np.maximum(queue_mean, 0.0) + QUEUE_OFFSET_BYTES)
        normalised["queue"] = _normalised(raw["queue"], feasible, absolute=LEAST_SPREAD["queue"])
    else:
        raw["queue"] = mice
        normalised["queue"] = _normalised(mice, feasible, relative=LEAST_SPREAD["mice"])

    normalised["loss"] = _loss(loss, pause, feasible, pfc)
    total = weights.throughput * normalised["throughput"]
    total = total - weights.queue * normalised["queue"] - weights.loss * normalised["loss"]
    total = np.where(feasible, total, -np.inf)
    return Scores(
        score=total,
        normalised_score=total,
        feasible=feasible,
        raw=raw,
        normalised=normalised,
        queue_mean_bytes=queue_mean,
        throughput_is=throughput_is,
        queue_is=queue_is,
    )


def rank(scores: Scores, *, incumbent: int | None = None, near_tie: float = NEAR_TIE) -> NDArray[np.intp]:
    """Row indices, best first; infeasible rows last.

    Among rows within ``near_tie`` of the best score the incumbent comes first, then the lower queue.
    """
    feasible_score = scores.score[scores.feasible]
    best = float(feasible_score.max()) if feasible_score.size else -math.inf

    def place(row: int) -> tuple[int, int, float, float]:
        if not scores.feasible[row]:
            return 2, 0, 0.0, 0.0
        if scores.score[row] >= best - near_tie:
            return 0, int(row != incumbent), float(scores.queue_mean_bytes[row]), -float(scores.score[row])
        return 1, 0, -float(scores.score[row]), float(scores.queue_mean_bytes[row])

    return np.array(sorted(range(len(scores.score)), key=place), dtype=np.intp)


def tie_width(scores: Scores, near_tie: float = NEAR_TIE) -> float:
    """``near_tie`` × the range of the feasible scores, at most ``near_tie``.

    Where throughput and queue cancel, all scores may lie within 0.1: a fixed width would tie half the set.
    """
    feasible = scores.score[scores.feasible]
    return near_tie * min(1.0, float(np.ptp(feasible))) if feasible.size else near_tie


def best_among(scores: Scores, *, among: Collection[int], incumbent: int, near_tie: float = NEAR_TIE) -> int:
    """The best feasible row of ``among`` (near-ties as in ``rank``), the incumbent where there is none."""
    may_win = np.zeros(len(scores.score), dtype=np.bool_)
    may_win[list(among)] = True
    eligible = replace(scores, feasible=scores.feasible & may_win)
    first = int(rank(eligible, incumbent=incumbent, near_tie=tie_width(scores, near_tie))[0])
    return first if eligible.feasible[first] else incumbent


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidate to recommend, and how many others cannot be told apart from the best; 0: none.

    ``stays``: it was recommended before, and nothing surely better was found.
    """

    row: int
    n_alike: int = 0
    stays: bool = False


def choose(
    scores: Scores,
    *,
    among: Collection[int],
    incumbent: int,
    margin: float,
    watermarks: Sequence[Watermark],
    near_tie: float = NEAR_TIE,
    standing: Watermark | None = None,
) -> Choice:
    """The candidate of ``among`` to recommend.

    ``standing``, recommended before, stays while it gains more than ``margin`` and the best is not surely
    better than it by ``margin``, so that noise does not move the answer.

    By gain: of those that cannot be told apart from the best (within two errors of the difference, at most
    ``MOST_ALIKE``) and that surely gain more than ``margin``, the one nearest to what runs; the best where
    none is sure. By the normalised score: ``best_among``.
    """
    if scores.by != "gain":
        return Choice(best_among(scores, among=among, incumbent=incumbent, near_tie=near_tie))
    feasible = [row for row in sorted(among) if scores.feasible[row]]
    best = max(
        feasible, key=lambda row: (float(scores.score[row]), row == incumbent, -row), default=incumbent
    )
    alike = [row for row in feasible if lead(scores.gains[best], scores.gains[row]) <= 0.0]
    here = watermarks.index(standing) if standing in watermarks else incumbent
    if here in feasible and here != incumbent and scores.gains[here].value > margin:
        ahead = scores.gains[best].less(scores.gains[here])
        if not surely_above(ahead, margin):
            return Choice(here, len({*alike, here}) - 1, stays=True)
    if incumbent in alike:
        return Choice(incumbent, len(alike) - 1)
    sure = [row for row in alike if surely_above(scores.gains[row], margin)]
    runs = watermarks[incumbent]
    row = min(sure, key=lambda at: (runs.distance_to(watermarks[at]), at), default=best)
    return Choice(row, len(alike) - 1)


def lead(better: Gain, other: Gain) -> float:
    """By how much a gain leads another beyond what noise explains; at most 0: they cannot be told apart."""
    ahead = better.less(other)
    return ahead.value - (min(2.0 * ahead.error, MOST_ALIKE) if math.isfinite(ahead.error) else 0.0)


def surely_above(gain: Gain, margin: float) -> bool:
    """Whether a gain less two errors exceeds ``margin``; an unknown error counts as 0."""
    error = gain.error if math.isfinite(gain.error) else 0.0
    return gain.value - 2.0 * error > margin


def _throughput(
    rows: Sequence[Prediction],
    goodput: NDArray[np.float64],
    feasible: NDArray[np.bool_],
    persistent_share: float | None,
) -> tuple[NDArray[np.float64], float, str]:
    """T per row, its least spread, and the name of the figure."""
    slowdown = _slowdowns(rows, "elephant", "mean")
    completing = _seen(slowdown, feasible)
    share = persistent_share if persistent_share is not None else (0.0 if completing else 1.0)
    if not 0.0 <= share <= 1.0:
        rule = "a share lies in [0, 1]"
        raise ParameterError("persistent_share", str(share), rule, "give a share of flows")
    if not completing or share == 1.0:
        return goodput, LEAST_SPREAD["goodput"], "goodput_bytes_per_s"
    if share == 0.0:
        return 1.0 / slowdown, LEAST_SPREAD["slowdown"], "inverse_elephant_slowdown"
    least = (1 - share) * LEAST_SPREAD["slowdown"] + share * LEAST_SPREAD["goodput"]
    return slowdown ** (share - 1.0) * np.maximum(goodput, 0.0) ** share, least, "slowdown_and_goodput"


def _loss(
    loss: NDArray[np.float64], pause: NDArray[np.float64], feasible: NDArray[np.bool_], pfc: bool
) -> NDArray[np.float64]:
    lost = _normalised(loss, feasible, relative=LEAST_SPREAD["loss"], absolute=LEAST_LOSS_BYTES)
    if not pfc:
        return lost
    paused = _normalised(pause, feasible, relative=LEAST_SPREAD["pause"], absolute=LEAST_PAUSE_S)
    # A divisor of at least 1 shrinks a sum beyond 1 and never magnifies a small one.
    return _normalised(lost + paused, feasible, absolute=1.0)


def _slowdowns(rows: Sequence[Prediction], size_class: str, figure: str) -> NDArray[np.float64]:
    return np.array([row.slowdown_figure(size_class, figure) for row in rows], dtype=np.float64)


def _seen(values: NDArray[np.float64], feasible: NDArray[np.bool_]) -> bool:
    """Whether every feasible row has the figure: a term is used for all rows or for none."""
    return bool(feasible.any() and np.all(np.isfinite(values[feasible]) & (values[feasible] > 0)))


def _normalised(
    values: NDArray[np.float64], feasible: NDArray[np.bool_], *, relative: float = 0.0, absolute: float = 0.0
) -> NDArray[np.float64]:
    """(x − min) ÷ max(spread, least spread) over the feasible rows; NaN elsewhere."""
    result = np.full(len(values), np.nan)
    inside = values[feasible]
    if inside.size == 0:
        return result
    if not np.all(np.isfinite(inside)):
        # A slowdown term without flows of its class in every row decides nothing.
        result[feasible] = 0.0
        return result
    low, high = float(inside.min()), float(inside.max())
    divisor = max(high - low, relative * abs(high), absolute)
    result[feasible] = (inside - low) / divisor if divisor > 0 else 0.0
    return result
