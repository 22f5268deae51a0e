"""The result of a tuning round as a document, the same from the command and the service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import Field

from service.documents.base import Document, Figure, list_text
from service.documents.co_tuning import CoTuningDocument
from service.documents.paths import PathsDocument
from service.documents.predictions import (
    PredictionDocument,
    RoleWatermarkDocument,
    TrajectoriesDocument,
    WatermarkDocument,
    prediction_fields,
    role_watermarks,
    score_fields,
)
from service.documents.telemetry import by_label
from service.tuning.round import RoundResult
from twin.prediction import Prediction
from twin.search.gain import Policy, policy_text
from twin.search.recommendation import Compared, PartRecommendation, ScoredCandidate, SecondOpinion
from twin.search.score import ScoreName


class CandidateDocument(PredictionDocument):
    """One watermark that was tried; figures are those of the longest window it ran. With a second opinion its
    gain is the mean of both engines'.
    """

    origin: str
    """How it came to be tried: `incumbent`, `base`, `vendor`, `drawn`, `spread`, `narrowed`."""
    source: str
    """A vendor's default, or what a narrowed draw is near to; may be empty."""
    window_s: float
    """Longest window it ran, in seconds; its gain is over the incumbent in that window."""
    seeds: int
    """Seeds that its figures are means over."""
    raw: dict[str, Figure]
    """Terms of the normalised score as measured, on the scale of the full window."""
    terms: dict[str, Figure]
    """The same terms normalised over all candidates."""

    @classmethod
    def scored(cls, candidate: ScoredCandidate) -> Self:
        return cls.from_attributes(
            candidate,
            **prediction_fields(candidate.prediction),
            **score_fields(candidate),
            origin=candidate.origin.value,
            seeds=candidate.n_seeds,
            raw={name: float(value) for name, value in candidate.raw.items()},
            terms={name: float(value) for name, value in candidate.normalised.items()},
        )


class ImprovementDocument(Document):
    """The best candidate against the incumbent."""

    best: WatermarkDocument
    """The twin's choice: of those alike that surely gain, the one nearest to the incumbent."""
    score_gain: Figure
    """Its score less the incumbent's."""
    score_error: Figure = None
    """Standard error of that gain; null for normalised scores."""
    alike: int = 0
    """How many other candidates could not be told apart from the best."""
    margin: float
    """What the gain less two errors must exceed for a change to be recommended."""
    relative: dict[str, Figure]
    """Relative changes, new ÷ old − 1, of figures that the incumbent has above 0: `queue_mean`, `queue_p99`,
    `goodput`, `lasting_rate` (of never-ending flows), `elephant_slowdown`, `medium_slowdown`,
    `mice_p99_slowdown`, `probe_p99_slowdown`, `loss`, `pause`.
    """


class PartDocument(Document):
    """One independent part of the fabric, judged alone."""

    name: str
    """Name of the part."""
    flows: int
    """Flows in it."""
    ports: list[str]
    """Its egress ports, as switch/port."""
    traffic_share: Figure
    """Its share of the bytes delivered, from 0 to 1."""
    recommendation: WatermarkDocument
    """What would be best for this part alone."""
    score_gain: Figure
    """Gain of that over the incumbent."""
    verdict: str
    """`change`, `stand_still`, `no_effect`, `uncongested` or `uncalibrated`."""
    sentence: str
    """The verdict in a sentence."""

    @classmethod
    def of(cls, part: PartRecommendation) -> Self:
        return cls.from_attributes(
            part,
            flows=part.n_flows,
            ports=[f"{switch}/{port}" for switch, port in part.switch_ports],
            recommendation=WatermarkDocument.of(part.watermark),
            verdict=part.verdict.kind.value,
            sentence=part.verdict.sentence,
        )


class ComparedDocument(Document):
    """One watermark as both engines predict it on the same window; scores are those of the decision."""

    first: PredictionDocument
    """By the round's engine."""
    second: PredictionDocument
    """By the second engine."""

    @classmethod
    def of(cls, compared: Compared) -> Self:
        first, second = (
            PredictionDocument(**prediction_fields(one), score=compared.score)
            for one in (compared.first, compared.second)
        )
        return cls(first=first, second=second)


class SecondOpinionDocument(Document):
    """Another engine's predictions for the incumbent and the few best candidates."""

    engine: str
    """The other engine."""
    seeds: int
    """Seeds that its figures are means over."""
    window_s: float
    """Time that both engines ran, in seconds."""
    cut: bool
    """Whether that is less than the round's window."""
    decided: bool
    """False where the second engine could not run the incumbent, and the first decided alone."""
    first_pick: WatermarkDocument
    """The best by the first engine alone."""
    pick: WatermarkDocument
    """The best after both."""
    changed_pick: bool
    """Whether these two differ."""
    disagreement_ratio: Figure
    """The largest of `disagreement`; 0 is agreement, null nothing to compare."""
    disagreement: dict[str, Figure]
    """By figure, the median over the candidates of the larger ÷ the smaller engine's value − 1."""
    margin: float
    """Ratio beyond which the engines disagree."""
    disagrees: bool
    """Whether `disagreement_ratio` is beyond `margin`."""
    sentence: str
    """What the second opinion says, in a sentence."""
    candidates: list[ComparedDocument]
    """The incumbent first."""

    @classmethod
    def of(cls, opinion: SecondOpinion) -> Self:
        return cls.from_attributes(
            opinion,
            seeds=opinion.n_seeds,
            first_pick=WatermarkDocument.of(opinion.first_pick),
            pick=WatermarkDocument.of(opinion.pick),
            disagreement=dict(opinion.disagreement),
            candidates=[ComparedDocument.of(one) for one in opinion.candidates],
        )


class PolicyDocument(Document):
    """What the gain weighs."""

    name: str
    """Name of the policy, or its weights."""
    bulk: float
    """Weight of the speed of large transfers."""
    delay: float
    """Weight of the delay of small messages."""
    harm_price: float
    """Price of a share paused or lost."""
    probe: float = 0.5
    """The probe's share of the delay, beside that of mice."""

    @classmethod
    def of(cls, policy: Policy) -> Self:
        return cls.from_attributes(policy, name=policy_text(policy))


class MeasuredDocument(Document):
    """What telemetry measured in the newest moment of traffic, beside the prediction for it."""

    queue_mean_bytes: Figure
    """Mean depth of the bottleneck queues, in bytes."""
    predicted_queue_mean_bytes: Figure = None
    """What the twin predicts of it under what runs, in bytes."""
    residual_ratio: Figure
    """The twin's error: predicted ÷ measured − 1; 0 is none."""


class RoundDocument(Document):
    """One tuning round: ``ecntwin tune --json``, and the core of the service's recommendation."""

    recommendation: PredictionDocument
    """Prediction for what is recommended: the incumbent unless `changes`."""
    incumbent: PredictionDocument
    """Prediction for what runs."""
    incumbent_by_role: list[RoleWatermarkDocument] = Field(default_factory=list)
    """Roles whose ports run another watermark than `incumbent`; empty where all run that. What is recommended
    is for all ports.
    """
    changes: bool
    """Whether a change is recommended."""
    verdict: str
    """`change`, `stand_still`, `no_effect`, `uncongested` or `uncalibrated`."""
    why: str
    """The reason, in a few sentences."""
    remarks: list[str]
    """Sentences on problems that no watermark solves."""
    notes: list[str]
    """Sentences on what was left out or could not be seen."""
    left_out: list[str]
    """Switches that are not set because the depth of their queues is unknown."""
    improvement: ImprovementDocument
    """How the best candidate compares with the incumbent."""
    dominant_class: str
    """Class of flows with the most bytes: `mouse`, `potential_elephant` or `elephant`."""
    lambda_: float = Field(serialization_alias="lambda")
    """Factor on what runs that half of the first candidates are drawn around, from the dominant class."""
    flows: dict[str, int]
    """Flows by class."""
    measured: MeasuredDocument
    """What telemetry measured in the round's window."""
    throughput_is: str
    """Which figure the throughput term of a normalised score is."""
    queue_is: str
    """Which figure its queue term is."""
    score_is: ScoreName = "normalised"
    """Which score decided: a gain compares between rounds, a normalised score only within one."""
    policy: PolicyDocument | None = None
    """What the gain weighs; null in rounds of older versions."""
    weights: dict[str, float] | None = None
    """Weight of each of the `terms`: the throughput adds to a normalised score, the others subtract; null in
    rounds of older versions.
    """
    candidate_count: int
    """How many candidates were tried."""
    candidates: list[CandidateDocument]
    """All that were tried, the best first; empty where they are left out."""
    parts: list[PartDocument]
    """Independent parts of the fabric, each judged alone."""
    second_opinion: SecondOpinionDocument | None
    """Another engine's predictions of the best; null where `notes` says why."""
    trajectories: TrajectoriesDocument | None = None
    """The deepest queues over time; null where candidates are left out, or `notes` says why."""
    co_tuning: CoTuningDocument | None = None
    """The best found where NICs or port roles may be set too (`tuning.what`); null where they may not. An
    approval sets the watermark recommended alone, unless it asks for NICs too.
    """
    paths: PathsDocument | None = None
    """Elephants that share a port while an equal-cost one has room, and what other paths would do, where
    `tuning.what` has `path`; else null. It is advice: ecntwin sets no paths.
    """
    engine: str
    """Engine that ran every candidate."""
    seed: int
    """Seed of the round: with the same problem, settings and version it gives the same recommendation."""
    version: str
    """Version of ecntwin."""
    wall_s: float
    """Time the round took, in seconds."""


def round_document(result: RoundResult, *, wall_s: float) -> RoundDocument:
    """The document of a round that took ``wall_s`` seconds."""
    answer = result.recommendation
    candidates = {candidate.watermark: candidate for candidate in answer.candidates}

    def scored(prediction: Prediction) -> PredictionDocument:
        return PredictionDocument.predicted(prediction, candidates.get(prediction.watermark.usual))

    opinion, trajectories, together = answer.second_opinion, answer.trajectories, answer.co_tuning
    return RoundDocument.from_attributes(
        answer,
        recommendation=scored(answer.winner_prediction),
        incumbent=scored(answer.incumbent_prediction),
        incumbent_by_role=role_watermarks(answer.incumbent_by_role),
        verdict=answer.verdict.kind.value,
        remarks=list(answer.verdict.remarks),
        notes=[*answer.notes, *_left_out_note(result.left_out)],
        left_out=list(result.left_out),
        improvement=ImprovementDocument.from_attributes(
            answer.improvement,
            alike=answer.improvement.n_alike,
            best=WatermarkDocument.of(answer.improvement.best),
            relative={name: float(value) for name, value in answer.improvement.relative.items()},
        ),
        flows=by_label(result.state.flows_by_class),
        measured=MeasuredDocument(
            queue_mean_bytes=result.measured_queue_bytes,
            predicted_queue_mean_bytes=result.predicted_queue_bytes,
            residual_ratio=result.residual_ratio,
        ),
        policy=PolicyDocument.of(answer.policy),
        weights={
            name: float(getattr(answer.weights, name))
            for name in dict.fromkeys(name for one in answer.candidates for name in one.normalised)
        },
        candidate_count=len(answer.candidates),
        candidates=[CandidateDocument.scored(candidate) for candidate in answer.candidates],
        parts=[PartDocument.of(part) for part in answer.parts],
        second_opinion=None if opinion is None else SecondOpinionDocument.of(opinion),
        trajectories=None if trajectories is None else TrajectoriesDocument.of(trajectories),
        co_tuning=None if together is None else CoTuningDocument.of(together),
        paths=None if result.paths is None else PathsDocument.of(result.paths),
        wall_s=wall_s,
    )


def _left_out_note(switches: Sequence[str]) -> list[str]:
    if not switches:
        return []
    return [
        f"Not set: {list_text(switches)}. How deep their queues are is not known; "
        "give them a unit profile in the inventory (docs/telemetry/int-binary.md)."
    ]
