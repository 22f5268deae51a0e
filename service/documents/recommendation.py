"""Recommendations and decisions on them as documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from service.documents.advice import AdviceDocument
from service.documents.base import Document, RequestBody, SwitchName, Time, timestamp
from service.documents.predictions import WatermarkDocument, WatermarkInput, watermark_document
from service.documents.round import RoundDocument
from service.tuning.entry import Decision, Entry


class SupportDocument(Document):
    """The rounds that gave a recommendation, and the traffic they judged."""

    rounds: int
    """Rounds that gave it."""
    last: Time
    """When the last of them ended."""
    moments: int
    """Moments of traffic that the last judged candidates over."""
    traffic_s: float
    """How long these are together, in seconds."""
    hour_rounds: int
    """Rounds in the hour before `last` that judged the same incumbent."""
    hour_agreeing: int
    """How many of those gave this answer."""
    changed: str | None
    """How traffic had changed when it was first given; null: it had not."""


class PushedDocument(Document):
    """What a rollout has done, or a dry run would have done, on one switch."""

    switch: SwitchName
    """The switch."""
    writes: bool
    """Whether the device is written; false for a dry run."""
    diff: str
    """The change as the platform shows it."""
    read_back: WatermarkDocument | None
    """What was read afterwards; null before that."""


class ExpiredDocument(Document):
    """When and why an undecided recommendation became outdated."""

    at: Time
    """When that was noticed."""
    reason: str
    """Why, as a sentence."""


class BlockDocument(Document):
    """What an approval has to wait for."""

    reason: str
    """What it is, as a sentence."""
    remedy: str
    """What to do about it."""
    until: Time | None
    """Until when; null: until somebody or something changes it."""


class TogetherInput(RequestBody):
    """NIC values and thresholds by port role, with their watermark, as `co_tuning` has them."""

    watermark: WatermarkInput
    """The watermark."""
    connectx: dict[str, int] = Field(default_factory=dict)
    """The values, by the driver's names."""
    connectx_by_class: dict[str, dict[str, int]] = Field(default_factory=dict)
    """The values of classes of hosts that get others."""
    by_role: dict[str, WatermarkInput] | None = None
    """The watermarks of roles that have another; null: not told."""


class ApproveInput(RequestBody):
    """What the caller expects to approve."""

    incumbent: WatermarkInput | None = None
    """What it is to replace: approving is refused where that is another; null: not told."""
    parts: list[Literal["watermark", "nic", "roles"]] = Field(default=["watermark"], min_length=1)
    """What to set: `watermark` alone, or the watermark of `co_tuning` with all else that it changes: `nic`,
    the values of `co_tuning.connectx` and `connectx_by_class` on every host, and `roles`, the watermarks of
    `co_tuning.by_role` on ports of these roles.
    """
    together: TogetherInput | None = None
    """What is to be set with `nic` and `roles`: approving is refused where the newest round found other
    values; null: not told.
    """

    @property
    def beside(self) -> frozenset[Literal["nic", "roles"]]:
        """What is set beside one watermark for all ports."""
        return frozenset(part for part in self.parts if part != "watermark")

    @model_validator(mode="after")
    def _sets_what_is_told(self) -> Self:
        if self.together is not None and not self.beside:
            raise ValueError("together is set with nic or roles: name them in parts, or leave it out")
        return self

    @field_validator("parts")
    @classmethod
    def _hold_the_watermark(cls, parts: list[str]) -> list[str]:
        if "watermark" not in parts:
            raise ValueError("the watermark goes with its NIC values; give both parts")
        return parts


class RecommendationDocument(RoundDocument):
    """A recommendation in the service's history."""

    id: str
    """Begins with the time of the round in UTC."""
    created: Time
    """When the round ended."""
    status: Decision
    """`pending`: waits for a decision; `kept`: no change was recommended; `approved`, `rejected`;
    `superseded`: a newer one replaced it; `expired`: no longer good; `rolled_back`: its rollout was taken
    back.
    """
    decided_by: str | None
    """Who decided: a token's name, a person, or `policy`; null before that."""
    decided_at: Time | None
    """When it was decided; null before that."""
    staged: WatermarkDocument | None
    """What an approval sets: the recommendation, or one step towards it; null where there is nothing to set.
    """
    switches: list[str]
    """Switches that an approval sets."""
    holds: list[str]
    """Sentences on why no device may be written yet."""
    expired: ExpiredDocument | None = None
    """Why it can no longer be approved; null where it has not expired."""
    blocked: list[BlockDocument] = Field(default_factory=list)
    """Why it cannot be approved now; empty unless it is pending."""
    caution: str | None
    """What keeps policy (`rollout.auto`), but no person, from approving it; else null."""
    rollout: str | None
    """Id of its rollout; null without one."""
    sets: list[str] = Field(default_factory=lambda: ["watermark"])
    """What its rollout sets: `watermark`, and `nic` and `roles` if these were approved too."""
    nics_refused: str | None = None
    """Why an approval cannot set the NICs of `co_tuning` too now; null where it can, or is not pending."""
    roles_refused: str | None = None
    """Why an approval cannot set `co_tuning.by_role` now; null where it can, or there is none."""
    pushed: list[PushedDocument]
    """What the rollout has done so far, switch by switch."""
    support: SupportDocument | None = None
    """The rounds that gave it; null for a recommendation made before these were stored."""
    advice: AdviceDocument | None = None
    """In `/v1/recommendations/current` the advice of the newest look, on the traffic since; else null."""


class RecommendationsDocument(Document):
    """The newest first, out of ``total`` kept."""

    total: int
    """How many are kept."""
    recommendations: list[RecommendationDocument]
    """The newest first."""
    next: str | None
    """Id to pass as `before` for older ones; null where there are none."""


def recommendation_document(
    entry: Entry,
    *,
    candidates: bool = True,
    trajectories: bool = True,
    holds: Sequence[str] | None = None,
    blocked: Sequence[BlockDocument] = (),
    nics_refused: str | None = None,
    roles_refused: str | None = None,
) -> RecommendationDocument:
    """An entry as HTTP returns it; without ``candidates`` also without trajectories.

    ``holds`` (None: those of the round) and ``blocked`` are those of the moment.
    """
    said = {name: getattr(entry.said, name) for name in RoundDocument.model_fields}
    if not candidates:
        said["candidates"] = []
    if not (candidates and trajectories):
        said["trajectories"] = None
    return RecommendationDocument.from_attributes(
        entry,
        **said,
        created=timestamp(entry.created_ns),
        decided_at=None if entry.decided_ns is None else timestamp(entry.decided_ns),
        support=None
        if entry.support is None
        else SupportDocument.from_attributes(entry.support, last=timestamp(entry.support.last_ns)),
        staged=watermark_document(entry.staged),
        switches=list(entry.switches),
        holds=list(entry.holds if holds is None else holds),
        expired=None
        if entry.expired is None or entry.expired_ns is None
        else ExpiredDocument(at=timestamp(entry.expired_ns), reason=entry.expired),
        blocked=list(blocked),
        sets=list(entry.sets),
        nics_refused=nics_refused,
        roles_refused=roles_refused,
        pushed=[
            PushedDocument.from_attributes(one, read_back=watermark_document(one.read_back))
            for one in entry.pushed
        ],
        advice=None,
    )
