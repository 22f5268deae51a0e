"""Advice between rounds as documents."""

from __future__ import annotations

from typing import Self

from service.documents.base import Document, Figure, Time, timestamp
from service.documents.predictions import WatermarkDocument, watermark_document
from service.tuning.advice import Adviser, Given
from twin.advice.guard import Abstained


class AdviceDocument(Document):
    """What a round would most likely choose for the traffic of a look; nothing sets it."""

    at: Time
    """When it looked."""
    version: int | None
    """The version in use then, as `version` of `/v1/advice`."""
    incumbent: WatermarkDocument | None
    """What ran; null where that was not looked at."""
    watermark: WatermarkDocument | None
    """What to set, or one step towards it; the incumbent where that is to stay, null without advice."""
    target: WatermarkDocument | None
    """Where the steps lead; null without advice."""
    gain: Figure
    """Gain over the incumbent in such states, in the mean; null without advice."""
    regret: Figure
    """How much more the best watermark gains at most, in nine of ten such states; null without advice."""
    abstained: Abstained | None
    """Why there is no advice: a feature out of the trained `range`, too large a `regret`, `senders` that do
    not run DCQCN, the push gate `held`, or `unknown` traffic; null where there is some.
    """
    why: str
    """The same as a sentence."""

    @classmethod
    def of(cls, given: Given) -> Self:
        names = ("incumbent", "watermark", "target")
        marks = {name: watermark_document(getattr(given.advice, name)) for name in names}
        return cls.from_attributes(given.advice, **marks, at=timestamp(given.at_ns), version=given.version)


class AdviserDocument(Document):
    """The newest advice, and how rounds answered; counts since the service started."""

    problem: str | None
    """Why there is no advice at all, as a sentence; null where there is."""
    version: int | None
    """The version in use, as `ecntwin advice list` numbers them; 0 is what comes with ecntwin, null where
    there is no advice at all or the file is none of the versions beside it.
    """
    newest: AdviceDocument | None
    """That of the newest look; null before the first."""
    looks: dict[str, int]
    """Looks by outcome: `given`, or why not (as `abstained`)."""
    confirmed: int
    """Rounds that gained no more than the margin beyond what was advised before them."""
    contradicted: int
    """Rounds that gained more than that."""
    untold: int
    """Rounds that could not tell."""

    @classmethod
    def of(cls, adviser: Adviser) -> Self:
        return cls(
            problem=adviser.problem,
            version=adviser.version,
            newest=None if adviser.newest is None else AdviceDocument.of(adviser.newest),
            looks=dict(adviser.looks),
            confirmed=adviser.rounds["confirmed"],
            contradicted=adviser.rounds["contradicted"],
            untold=adviser.rounds["untold"],
        )
