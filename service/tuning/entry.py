"""A round as it is kept, what was decided about it, and both as one document; must not keep any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from service.documents.base import timestamp
from service.documents.predictions import PredictionDocument, WatermarkDocument
from service.documents.recommendation import (
    Decision,
    PushedDocument,
    RecommendationDocument,
    RoundDocument,
    round_fields,
)
from service.documents.telemetry import by_label
from service.tuning.round import RoundResult
from switches.rollout.state import Progress, RolloutState
from twin.watermark import Watermark


@dataclass(frozen=True, slots=True)
class KeptRound:
    """What a round said, and what a rollout of it needs to know: the switches it is about, which of them all
    have hosts on them, and how much time its window spans. None of it ever changes.
    """

    said: RoundDocument
    switches: tuple[str, ...]
    leaves: tuple[str, ...]
    window_s: float

    @classmethod
    def of(cls, result: RoundResult, wall_s: float) -> Self:
        """A round that has just ended, after ``wall_s`` seconds."""
        fields = round_fields(
            result.recommendation,
            flows=by_label(result.state.flows_by_class),
            measured_queue_bytes=result.measured_queue_bytes,
            left_out=result.left_out,
            wall_s=wall_s,
        )
        return cls(RoundDocument(**fields), result.switches, result.leaves, result.window_s)

    @property
    def watermark(self) -> Watermark:
        """The one it recommends."""
        return watermark_of(self.said.recommendation)

    @property
    def queue_ratio(self) -> float | None:
        """The mean queue predicted for it over the one predicted for the incumbent; None: not known."""
        new, old = self.said.recommendation.queue_mean_bytes, self.said.incumbent.queue_mean_bytes
        return new / old if new is not None and old else None


@dataclass(frozen=True, slots=True)
class Pushed:
    """A rollout by its id, and what it has done so far."""

    rollout: str
    switches: tuple[PushedDocument, ...] = ()

    @classmethod
    def of(cls, rollout: RolloutState) -> Self:
        """The switches that were read to run the change."""
        return cls(
            rollout.plan.id,
            tuple(
                PushedDocument(
                    switch=name,
                    writes=name in rollout.plan.written,
                    diff=one.change.diff,
                    read_back=None if one.runs is None else WatermarkDocument.of(one.runs),
                )
                for name, one in rollout.switches.items()
                if one.change is not None and one.progress in (Progress.VERIFIED, Progress.SET)
            ),
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """A round and its decision.

    ``staged`` is what an approval sets, ``holds`` why nothing may be written to a device yet, in sentences;
    ``pushed`` is how far the rollout of an approval is. ``caution`` is what keeps policy, and no person, from
    approving it.
    """

    id: str
    created_ns: int
    kept: KeptRound
    status: Decision
    staged: Watermark | None = None
    holds: tuple[str, ...] = ()
    decided_by: str | None = None
    decided_ns: int | None = None
    pushed: Pushed | None = None
    caution: str | None = None

    def document(self, *, candidates: bool = True, trajectories: bool = True) -> RecommendationDocument:
        """The entry as the service answers it; without ``candidates`` also without trajectories."""
        said = _fields(self.kept.said)
        if not candidates:
            said["candidates"] = []
        if not (candidates and trajectories):
            said["trajectories"] = None
        return RecommendationDocument(
            **said,
            id=self.id,
            created=timestamp(self.created_ns),
            status=self.status,
            decided_by=self.decided_by,
            decided_at=None if self.decided_ns is None else timestamp(self.decided_ns),
            staged=None if self.staged is None else WatermarkDocument.of(self.staged),
            switches=list(self.kept.switches),
            holds=list(self.holds),
            caution=self.caution,
            rollout=None if self.pushed is None else self.pushed.rollout,
            pushed=[] if self.pushed is None else list(self.pushed.switches),
        )


def watermark_of(document: WatermarkDocument | PredictionDocument) -> Watermark:
    """The watermark of a document."""
    return Watermark(document.kmin_bytes, document.kmax_bytes, document.pmax)


def _fields(said: RoundDocument) -> dict[str, Any]:
    return {name: getattr(said, name) for name in RoundDocument.model_fields}
