"""What a round answers: the watermark, why, and all it was weighed against; must import no engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from twin.candidates.base import Origin
from twin.result import Prediction
from twin.watermark import Watermark


class VerdictKind(Enum):
    """What the round concluded."""

    CHANGE = "change"
    STAND_STILL = "stand_still"
    NO_EFFECT = "no_effect"
    UNCONGESTED = "uncongested"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The conclusion in one sentence, and remarks on what no watermark will cure."""

    kind: VerdictKind
    sentence: str
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoredCandidate:
    """One watermark of the round.

    ``rung`` is the last window length it ran (0 the shortest) and ``window_s`` that length; ``prediction`` is
    what the engine said there, over ``n_seeds`` seeds. Terms and score are on the scale of the full window,
    for candidates dropped early by the median ratio of those that ran both lengths. ``score`` is None where a
    run failed.
    """

    watermark: Watermark
    origin: Origin
    source: str
    rung: int
    window_s: float
    n_seeds: int
    prediction: Prediction
    raw: Mapping[str, float]
    normalised: Mapping[str, float]
    score: float | None


@dataclass(frozen=True, slots=True)
class Improvement:
    """The best candidate against the incumbent: score gained, the margin to exceed, relative changes.

    ``best`` is the twin's best watermark; it is what is recommended where the gain exceeds the margin.
    ``relative[figure]`` is new ÷ old − 1 for figures the incumbent has above 0: ``queue_mean``,
    ``queue_p99``, ``goodput``, ``elephant_slowdown``, ``mice_p99_slowdown``, ``loss``, ``pause``.
    """

    best: Watermark
    score_gain: float
    margin: float
    relative: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PartRecommendation:
    """One independent part of the fabric judged alone.

    ``traffic_share`` is its share of the delivered bytes, ``switch_ports`` its egress ports as (switch,
    port).
    """

    name: str
    n_flows: int
    switch_ports: tuple[tuple[str, str], ...]
    traffic_share: float
    watermark: Watermark
    score_gain: float
    incumbent_prediction: Prediction
    winner_prediction: Prediction
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer of one round; ``watermark`` is the incumbent where the verdict is not to change.

    ``winner_prediction`` is that of ``watermark``. ``candidates`` are all that were tried, best first. The
    same problem, settings, seed and version give the same recommendation anywhere.
    """

    watermark: Watermark
    incumbent: Watermark
    incumbent_prediction: Prediction
    winner_prediction: Prediction
    candidates: tuple[ScoredCandidate, ...]
    improvement: Improvement
    verdict: Verdict
    why: str
    parts: tuple[PartRecommendation, ...]
    dominant_class: str
    lambda_: float
    engine: str
    seed: int
    version: str
    throughput_is: str
    queue_is: str
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether it recommends another watermark than the incumbent."""
        return self.verdict.kind is VerdictKind.CHANGE
