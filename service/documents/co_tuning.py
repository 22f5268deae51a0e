"""What a round found where NICs and port roles may be set together with the watermark, as a document."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from nics.parameters import values_changed
from service.documents.base import Document, Figure
from service.documents.predictions import RoleWatermarkDocument, WatermarkDocument, role_watermarks
from twin.search.recommendation import CoTuning


def values_by_class(found: CoTuning) -> dict[str, dict[str, int]]:
    """What NICs of a class get, where that is something else than others do."""
    usual = values_changed(found.senders_now, found.senders)
    own = ((one.nic_class, dict(values_changed(one.now, one.then))) for one in found.by_class)
    return {name: values for name, values in own if values != usual}


class SettingChangeDocument(Document):
    """One part of a joint change."""

    name: str
    """Such as `watermark`, `cut interval`, `cut interval of storage`, or `Kmin leaf-up-400G`."""
    kind: str
    """What allows it in `tuning.what`: `watermark`, `roles` or `nic`."""
    unit: str
    """Unit of the values; empty for a switch (0 or 1) and for the watermark."""
    before: Figure
    """What runs now; null for off, and for the watermark."""
    after: Figure
    """What it is to be; null for off, and for the watermark."""
    share: Figure
    """Its part of the predicted gain over what runs now (its Shapley value)."""


class SensitivityDocument(Document):
    """One value alone, tried over the range that hardware takes, beside the best watermark."""

    name: str
    """Such as `cut interval`."""
    unit: str
    """Unit of the values; empty for a switch (0 or 1)."""
    before: Figure
    """What runs now; null for off."""
    best: Figure
    """The best of the values tried; null for off."""
    gain: Figure
    """What that gains over the watermark alone; of one class, over the best found for all hosts alike."""
    worst: Figure
    """What the worst of the values tried gains."""


class CoTuningDocument(Document):
    """The best found where more than the watermark may be set; gains are over what runs now."""

    recommended: bool
    """Whether it surely gains more than the watermark alone by more than the margin."""
    sentence: str
    """The result in a sentence."""
    watermark: WatermarkDocument
    """The watermark that goes with it; it may differ from the one recommended alone."""
    changes: list[SettingChangeDocument]
    """All that it changes, the part with the largest share first."""
    by_role: list[RoleWatermarkDocument] = Field(default_factory=list)
    """Roles whose ports get another watermark; empty where all get the same."""
    connectx: dict[str, int] = Field(default_factory=dict)
    """The DCQCN values to set on NVIDIA ConnectX for it, by the driver's names, on all hosts but those of
    `connectx_by_class`; empty where NICs stay.
    """
    connectx_by_class: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Classes of hosts whose NICs get other values than `connectx`; an empty object: they stay."""
    gain: Figure
    """Predicted gain of all of it."""
    gain_error: Figure
    """Standard error of that gain."""
    alone: Figure
    """Predicted gain of the best watermark alone, by the same runs."""
    more: Figure
    """By how much all of it gains more."""
    more_error: Figure
    """Standard error of that difference."""
    watermark_first: Figure
    """Predicted gain of its watermark before the rest is set, where it changes NICs of all that switches get;
    null where it changes only one of them.
    """
    others_first: Figure
    """Predicted gain of the rest, or of the NICs, before that is set; what gains more is set first."""
    second_more: Figure
    """That difference by the second engine alone; null where it did not run."""
    sensitivities: list[SensitivityDocument]
    """Every value alone, the one that gains most first."""
    runs: int
    """Candidate runs it took."""
    traffic_s: float
    """Seconds of traffic that each candidate ran on."""

    @classmethod
    def of(cls, found: CoTuning) -> Self:
        return cls.from_attributes(
            found,
            watermark=WatermarkDocument.of(found.watermark),
            by_role=role_watermarks(found.by_role),
            connectx=dict(values_changed(found.senders_now, found.senders)),
            connectx_by_class=values_by_class(found),
            changes=[SettingChangeDocument.from_attributes(one) for one in found.changes],
            sensitivities=[SensitivityDocument.from_attributes(one) for one in found.sensitivities],
            watermark_first=None if found.watermark_first is None else found.watermark_first.gain,
            others_first=None if found.others_first is None else found.others_first.gain,
            runs=found.n_runs,
        )
