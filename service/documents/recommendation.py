"""A round's recommendation as a document; the command and the service write the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import Field

from service.documents.base import Document, Figure
from service.documents.predictions import (
    PredictionDocument,
    TrajectoriesDocument,
    WatermarkDocument,
    prediction_fields,
)
from twin.prediction import Prediction
from twin.search.push_gate import residual_ratio
from twin.search.recommendation import (
    Compared,
    PartRecommendation,
    Recommendation,
    ScoredCandidate,
    SecondOpinion,
)

_NAMED = 5

Decision = Literal["pending", "kept", "approved", "rejected", "superseded", "rolled_back"]


class CandidateDocument(PredictionDocument):
    """One watermark that was tried.

    Figures are those of the longest window it ran (``window_s``); ``raw`` terms, the normalised ``terms`` and
    ``score`` are on the scale of the full window, and of the second engine where there is a second opinion,
    so that they compare across candidates.
    """

    origin: str
    source: str
    window_s: float
    seeds: int
    raw: dict[str, Figure]
    terms: dict[str, Figure]

    @classmethod
    def scored(cls, candidate: ScoredCandidate) -> Self:
        """The document of a candidate."""
        return cls(
            **prediction_fields(candidate.prediction),
            score=candidate.score,
            origin=candidate.origin.value,
            source=candidate.source,
            window_s=candidate.window_s,
            seeds=candidate.n_seeds,
            raw={name: float(value) for name, value in candidate.raw.items()},
            terms={name: float(value) for name, value in candidate.normalised.items()},
        )


class ImprovementDocument(Document):
    """The best candidate against the incumbent; ``relative`` figures are new ÷ old − 1."""

    best: WatermarkDocument
    score_gain: Figure
    margin: float
    relative: dict[str, Figure]


class PartDocument(Document):
    """One independent part of the fabric judged alone."""

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
        """The document of a part."""
        return cls(
            name=part.name,
            flows=part.n_flows,
            ports=[f"{switch}/{port}" for switch, port in part.switch_ports],
            traffic_share=part.traffic_share,
            recommendation=WatermarkDocument.of(part.watermark),
            score_gain=part.score_gain,
            verdict=part.verdict.kind.value,
            sentence=part.verdict.sentence,
        )


class ComparedDocument(Document):
    """One watermark as either engine predicts it on the same window; scores are the ones decided on."""

    first: PredictionDocument
    second: PredictionDocument

    @classmethod
    def of(cls, compared: Compared) -> Self:
        """The document of a comparison."""
        first, second = (
            PredictionDocument.predicted(one, compared.score) for one in (compared.first, compared.second)
        )
        return cls(first=first, second=second)


class SecondOpinionDocument(Document):
    """What another engine said of the incumbent (first) and the few best candidates.

    ``pick`` is the best after both engines, ``first_pick`` the best by the first alone. ``decided`` is false
    where the second could not run the incumbent. ``disagreement`` is per figure the median over the
    candidates of the engines' ratio, the larger over the smaller, less 1; ``disagreement_ratio`` its largest.
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
        """The document of an opinion."""
        return cls(
            engine=opinion.engine,
            seeds=opinion.n_seeds,
            window_s=opinion.window_s,
            cut=opinion.cut,
            decided=opinion.decided,
            first_pick=WatermarkDocument.of(opinion.first_pick),
            pick=WatermarkDocument.of(opinion.pick),
            changed_pick=opinion.changed_pick,
            disagreement_ratio=opinion.disagreement_ratio,
            disagreement=dict(opinion.disagreement),
            margin=opinion.margin,
            disagrees=opinion.disagrees,
            sentence=opinion.sentence,
            candidates=[ComparedDocument.of(one) for one in opinion.candidates],
        )


class MeasuredDocument(Document):
    """What telemetry measured in the same window, and how far the twin is from it (0: in step)."""

    queue_mean_bytes: Figure
    residual_ratio: Figure


class RoundDocument(Document):
    """What one tuning round says: ``ecntwin tune --json``, and the core of the service's answer."""

    recommendation: PredictionDocument
    incumbent: PredictionDocument
    changes: bool
    verdict: str
    why: str
    remarks: list[str]
    notes: list[str]
    # Switches that are not set, as no depth of their queues is known.
    left_out: list[str]
    improvement: ImprovementDocument
    dominant_class: str
    lambda_: float = Field(serialization_alias="lambda")
    flows: dict[str, int]
    measured: MeasuredDocument
    throughput_is: str
    queue_is: str
    # Of each of the ``terms``; the throughput's adds to a score, all others take from it. Null in rounds of
    # before they were told.
    weights: dict[str, float] | None = None
    candidate_count: int
    candidates: list[CandidateDocument]
    parts: list[PartDocument]
    second_opinion: SecondOpinionDocument | None
    # Null where there could be none (notes say why) and where the list of candidates is left out.
    trajectories: TrajectoriesDocument | None = None
    engine: str
    seed: int
    version: str
    wall_s: float


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
    # What an approval sets: the recommendation, or one step towards it; and on which switches.
    staged: WatermarkDocument | None
    switches: list[str]
    holds: list[str]
    # What keeps policy (rollout.auto) from approving it, and no person.
    caution: str | None
    rollout: str | None
    pushed: list[PushedDocument]


class RecommendationsDocument(Document):
    """The newest rounds first, out of ``total`` kept."""

    total: int
    recommendations: list[RecommendationDocument]


def round_fields(
    answer: Recommendation,
    *,
    flows: dict[str, int],
    measured_queue_bytes: float | None,
    wall_s: float,
    left_out: Sequence[str] = (),
    candidates: bool = True,
) -> dict[str, Any]:
    """The fields of a ``RoundDocument``; ``candidates`` False leaves the list of them empty, and out the
    trajectories.
    """
    scores = {candidate.watermark: candidate.score for candidate in answer.candidates}

    def scored(prediction: Prediction) -> PredictionDocument:
        return PredictionDocument.predicted(prediction, scores.get(prediction.watermark))

    return {
        "recommendation": scored(answer.winner_prediction),
        "incumbent": scored(answer.incumbent_prediction),
        "changes": answer.changes,
        "verdict": answer.verdict.kind.value,
        "why": answer.why,
        "remarks": list(answer.verdict.remarks),
        "notes": [*answer.notes, *_left_out_note(left_out)],
        "left_out": list(left_out),
        "improvement": ImprovementDocument(
            best=WatermarkDocument.of(answer.improvement.best),
            score_gain=answer.improvement.score_gain,
            margin=answer.improvement.margin,
            relative={name: float(value) for name, value in answer.improvement.relative.items()},
        ),
        "dominant_class": answer.dominant_class,
        "lambda_": answer.lambda_,
        "flows": flows,
        "measured": MeasuredDocument(
            queue_mean_bytes=measured_queue_bytes,
            residual_ratio=residual_ratio(answer.incumbent_prediction.queue_mean_bytes, measured_queue_bytes),
        ),
        "throughput_is": answer.throughput_is,
        "queue_is": answer.queue_is,
        "weights": {
            name: float(getattr(answer.weights, name))
            for name in dict.fromkeys(name for one in answer.candidates for name in one.normalised)
        },
        "candidate_count": len(answer.candidates),
        "candidates": [CandidateDocument.scored(candidate) for candidate in answer.candidates]
        if candidates
        else [],
        "parts": [PartDocument.of(part) for part in answer.parts],
        "second_opinion": None
        if answer.second_opinion is None
        else SecondOpinionDocument.of(answer.second_opinion),
        "trajectories": TrajectoriesDocument.of(answer.trajectories)
        if candidates and answer.trajectories is not None
        else None,
        "engine": answer.engine,
        "seed": answer.seed,
        "version": answer.version,
        "wall_s": wall_s,
    }


def _left_out_note(switches: Sequence[str]) -> list[str]:
    if not switches:
        return []
    more = len(switches) - _NAMED
    named = ", ".join(switches[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return [
        f"Not set: {named}. How deep their queues are is not known; "
        "give them a unit profile in the inventory (docs/telemetry/int-binary.md)."
    ]
