"""A round's recommendation as a document, the same from the command and the service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field

from service.documents.base import Document, Figure
from service.documents.predictions import (
    PredictionDocument,
    TrajectoriesDocument,
    WatermarkDocument,
    prediction_fields,
    score_fields,
)
from service.documents.telemetry import by_label
from service.tuning.round import RoundResult
from twin.prediction import Prediction
from twin.search.gain import Policy, policy_text
from twin.search.recommendation import (
    Compared,
    PartRecommendation,
    ScoredCandidate,
    SecondOpinion,
)
from twin.search.score import ScoreName

_NAMED = 5

Decision = Literal["pending", "kept", "approved", "rejected", "superseded", "rolled_back"]


class CandidateDocument(PredictionDocument):
    """One watermark that was tried.

    Figures are those of the longest window it ran (``window_s``), its gain is over the incumbent in that
    window and, with a second opinion, the mean of both engines'. ``raw`` terms and the normalised ``terms``
    are on the scale of the full window.
    """

    origin: str
    source: str
    window_s: float
    seeds: int
    raw: dict[str, Figure]
    terms: dict[str, Figure]

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
    """The best candidate against the incumbent; ``relative`` figures are new ÷ old − 1.

    ``alike`` others could not be told apart from the best; of them all ``best`` is nearest to the incumbent.
    """

    best: WatermarkDocument
    score_gain: Figure
    score_error: Figure = None
    alike: int = 0
    margin: float
    relative: dict[str, Figure]


class PartDocument(Document):
    """One independent part of the fabric, judged alone."""

    name: str
    flows: int
    ports: list[str]
    traffic_share: Figure
    recommendation: WatermarkDocument
    score_gain: Figure
    verdict: str
    sentence: str

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
    second: PredictionDocument

    @classmethod
    def of(cls, compared: Compared) -> Self:
        first, second = (
            PredictionDocument(**prediction_fields(one), score=compared.score)
            for one in (compared.first, compared.second)
        )
        return cls(first=first, second=second)


class SecondOpinionDocument(Document):
    """Another engine's predictions for the incumbent (first) and the few best candidates.

    ``pick`` is the best after both engines, ``first_pick`` the best by the first alone. ``decided`` is false
    where the second could not run the incumbent. ``disagreement`` is, per figure, the median over the
    candidates of the larger ÷ the smaller engine's value − 1; ``disagreement_ratio`` is its largest.
    """

    engine: str
    seeds: int
    window_s: float
    cut: bool
    decided: bool
    first_pick: WatermarkDocument
    pick: WatermarkDocument
    changed_pick: bool
    disagreement_ratio: Figure
    disagreement: dict[str, Figure]
    margin: float
    disagrees: bool
    sentence: str
    candidates: list[ComparedDocument]

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
    """What the gain weighs: bulk speed and small-message delay, and the price of a share paused or lost."""

    name: str
    bulk: float
    delay: float
    harm_price: float

    @classmethod
    def of(cls, policy: Policy) -> Self:
        return cls.from_attributes(policy, name=policy_text(policy))


class MeasuredDocument(Document):
    """What telemetry measured in the newest moment, what the twin predicts for the incumbent there, and its
    error (0: none).
    """

    queue_mean_bytes: Figure
    predicted_queue_mean_bytes: Figure = None
    residual_ratio: Figure


class RoundDocument(Document):
    """One tuning round: ``ecntwin tune --json``, and the core of the service's recommendation."""

    recommendation: PredictionDocument
    incumbent: PredictionDocument
    changes: bool
    verdict: str
    why: str
    remarks: list[str]
    notes: list[str]
    # Switches that are not set because the depth of their queues is unknown.
    left_out: list[str]
    improvement: ImprovementDocument
    dominant_class: str
    lambda_: float = Field(serialization_alias="lambda")
    flows: dict[str, int]
    measured: MeasuredDocument
    throughput_is: str
    queue_is: str
    # Of the candidates' ``score``: a gain compares between rounds, a normalised score only within one.
    score_is: ScoreName = "normalised"
    policy: PolicyDocument | None = None
    # Of each of the ``terms``: the throughput adds to a normalised score, the others subtract.
    weights: dict[str, float] | None = None
    candidate_count: int
    candidates: list[CandidateDocument]
    parts: list[PartDocument]
    second_opinion: SecondOpinionDocument | None
    # Null where there are none (notes say why) or the candidates are left out.
    trajectories: TrajectoriesDocument | None = None
    engine: str
    seed: int
    version: str
    wall_s: float


class SupportDocument(Document):
    """What stands behind a recommendation.

    ``rounds`` that gave it, the last at ``last``; the newest judged ``moments`` of traffic, ``traffic_s``
    seconds together. Of ``hour_rounds`` rounds in the hour before ``last`` ``hour_agreeing`` gave this one.
    ``changed`` says how traffic had changed when it was first given; null: it had not.
    """

    rounds: int
    last: str
    moments: int
    traffic_s: float
    hour_rounds: int
    hour_agreeing: int
    changed: str | None


class PushedDocument(Document):
    """What a rollout has done, or a dry run would have done, on one switch."""

    switch: str
    writes: bool
    diff: str
    read_back: WatermarkDocument | None


class RecommendationDocument(RoundDocument):
    """A recommendation in the service's history."""

    id: str
    created: str
    status: Decision
    decided_by: str | None
    decided_at: str | None
    # What an approval sets (the recommendation, or one step towards it) and on which switches.
    staged: WatermarkDocument | None
    switches: list[str]
    holds: list[str]
    # What keeps policy (rollout.auto), but no person, from approving it.
    caution: str | None
    rollout: str | None
    pushed: list[PushedDocument]
    # Null for one from before this was kept.
    support: SupportDocument | None = None


class RecommendationsDocument(Document):
    """The newest first, out of ``total`` kept."""

    total: int
    recommendations: list[RecommendationDocument]


def round_document(result: RoundResult, *, wall_s: float) -> RoundDocument:
    """The document of a round that took ``wall_s`` seconds."""
    answer = result.recommendation
    candidates = {candidate.watermark: candidate for candidate in answer.candidates}

    def scored(prediction: Prediction) -> PredictionDocument:
        return PredictionDocument.predicted(prediction, candidates.get(prediction.watermark))

    opinion, trajectories = answer.second_opinion, answer.trajectories
    return RoundDocument.from_attributes(
        answer,
        recommendation=scored(answer.winner_prediction),
        incumbent=scored(answer.incumbent_prediction),
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
        wall_s=wall_s,
    )


def _left_out_note(switches: Sequence[str]) -> list[str]:
    if not switches:
        return []
    more = len(switches) - _NAMED
    named = ", ".join(switches[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return [
        f"Not set: {named}. How deep their queues are is not known; "
        "give them a unit profile in the inventory (docs/telemetry/int-binary.md)."
    ]
