"""The result of a round: the watermark, why, and all candidates it was weighed against."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from twin.prediction import Prediction
from twin.search.candidates import Origin
from twin.search.gain import Policy
from twin.search.score import ScoreName, Weights
from twin.search.trajectories import Trajectories
from twin.senders.dcqcn import DcqcnParams
from twin.watermark import Watermark


class VerdictKind(Enum):
    CHANGE = "change"
    STAND_STILL = "stand_still"
    NO_EFFECT = "no_effect"
    UNCONGESTED = "uncongested"
    UNCALIBRATED = "uncalibrated"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The conclusion in one sentence, and remarks on problems that no watermark solves."""

    kind: VerdictKind
    sentence: str
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoredCandidate:
    """One watermark of the round.

    ``rung`` is the last window length it ran (0 the shortest), ``window_s`` that length, and ``prediction``
    the mean over ``n_seeds`` seeds there. ``score`` is what decided, None where a run failed: the ``gain``
    over the incumbent in the same window, joined with the second engine's where it ran, or
    ``score_normalised``, whose terms (``raw``, ``normalised``) are scaled to the full window for candidates
    dropped early.
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
    score_error: float | None = None
    score_normalised: float | None = None
    gain: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Improvement:
    """The best candidate against the incumbent: score gained with its error, the margin to exceed, relative
    changes.

    ``best``, the twin's choice, is recommended where the gain less two errors exceeds the margin;
    ``n_alike`` others could not be told apart from the best; of those that surely gain it is the nearest to
    the incumbent.
    ``relative[figure]`` is new ÷ old − 1 for figures the incumbent has above 0: ``queue_mean``,
    ``queue_p99``, ``goodput``, ``lasting_rate`` (of never-ending flows), ``elephant_slowdown``,
    ``medium_slowdown``, ``mice_p99_slowdown``, ``probe_p99_slowdown``, ``loss``, ``pause``.
    """

    best: Watermark
    score_gain: float
    margin: float
    relative: Mapping[str, float]
    score_error: float | None = None
    n_alike: int = 0


@dataclass(frozen=True, slots=True)
class PartRecommendation:
    """The verdict on one independent part of the fabric.

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
class Compared:
    """One watermark under both engines, on the same window; ``score`` is the one decided on."""

    watermark: Watermark
    first: Prediction
    second: Prediction
    score: float | None


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """Another engine's predictions of the incumbent and the few best candidates.

    Both engines ran ``window_s`` seconds from the scenario's start, all of it unless ``cut``. ``candidates``
    begin with the incumbent. ``first_pick`` is the best by the first engine, ``pick`` the best after both,
    before the margin is applied. ``decided`` is False where the second engine could not run the incumbent and
    the first decided alone. ``disagreement`` is per figure the median over the
    candidates of the engines' ratio, the larger over the smaller, less 1.
    """

    engine: str
    n_seeds: int
    window_s: float
    cut: bool
    candidates: tuple[Compared, ...]
    disagreement: Mapping[str, float]
    margin: float
    first_pick: Watermark
    pick: Watermark
    decided: bool
    sentence: str

    @property
    def disagreement_ratio(self) -> float:
        """The largest disagreement over the figures; 0 is agreement, NaN nothing to compare."""
        return max(self.disagreement.values(), default=math.nan)

    @property
    def disagrees(self) -> bool:
        return self.disagreement_ratio > self.margin

    @property
    def changed_pick(self) -> bool:
        return self.pick != self.first_pick


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """One value alone, tried over its range beside the round's watermark: what the best and the worst gain.

    ``before``, ``best`` are in ``unit``, None for off. ``gain`` and ``worst`` are over the watermark alone;
    of one class of NICs, over the best found for all hosts alike.
    """

    name: str
    unit: str
    before: float | None
    best: float | None
    gain: float
    worst: float


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One part of a joint change. ``share`` is its part of the gain over what runs now: its Shapley value, by
    the first engine. ``kind`` is what allows it: ``watermark``, ``roles``, ``nic``.
    """

    name: str
    kind: str
    unit: str
    before: float | None
    after: float | None
    share: float


@dataclass(frozen=True, slots=True)
class Between:
    """What is predicted while only a part of a joint change is set, by the first engine.

    ``gain`` is over what runs now, ``queue_ratio`` the mean queue ÷ that of now (None: unknown).
    """

    gain: float
    queue_ratio: float | None


@dataclass(frozen=True, slots=True)
class ClassSenders:
    """What NICs of a class run ``now``, and are to run ``then``."""

    nic_class: str
    now: DcqcnParams
    then: DcqcnParams


@dataclass(frozen=True, slots=True)
class CoTuning:
    """The best found where NICs' DCQCN, or thresholds by port role, are set together with the watermark.

    Gains are over what runs now, with their errors: of all of it, of the watermark alone (``alone``), and of
    all of it over the watermark alone (``more``). It is ``recommended`` where that less two errors exceeds
    the round's margin. ``second_more`` is ``more`` by the second engine alone, None where it did not run.

    ``watermark_first`` and ``others_first`` are what its watermark does before the rest is set, and the rest
    before its watermark (None: it changes only one of them); ``queue_ratio`` is as of ``Between``, of all.
    ``by_class`` are the classes of NICs that run, or are to run, something else than ``senders_now`` and
    ``senders``.
    """

    watermark: Watermark
    by_role: tuple[tuple[str, Watermark], ...]
    senders: DcqcnParams
    senders_now: DcqcnParams
    changes: tuple[SettingChange, ...]
    gain: float
    gain_error: float
    alone: float
    more: float
    more_error: float
    second_more: float | None
    recommended: bool
    sensitivities: tuple[Sensitivity, ...]
    n_runs: int
    traffic_s: float
    sentence: str
    watermark_first: Between | None = None
    others_first: Between | None = None
    queue_ratio: float | None = None
    by_class: tuple[ClassSenders, ...] = ()


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The result of one round; ``watermark`` is the incumbent unless the verdict is to change.

    ``winner_prediction`` is that of ``watermark``. ``candidates`` are all that were tried, best first. With a
    ``second_opinion`` gains are those of both engines; predictions are always the first's, which ran every
    candidate. ``trajectories`` are those of the incumbent and of ``watermark``, by the first engine
    under ``seed``; None where they failed, see ``notes``. ``incumbent_by_role`` are roles whose ports run
    another watermark than the incumbent; what is recommended is for all ports. ``co_tuning`` is there where
    more than the watermark may be set. The same problem, settings, seed and version give the same
    recommendation anywhere.
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
    score_is: ScoreName
    policy: Policy
    weights: Weights
    notes: tuple[str, ...] = ()
    second_opinion: SecondOpinion | None = None
    trajectories: Trajectories | None = None
    co_tuning: CoTuning | None = None
    incumbent_by_role: tuple[tuple[str, Watermark], ...] = ()

    @property
    def changes(self) -> bool:
        return self.verdict.kind is VerdictKind.CHANGE
