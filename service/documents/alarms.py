"""What is in an alarm, and what people say of alarms, as documents."""

from __future__ import annotations

from collections.abc import Container
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from service.alarms.attention import MOST_SILENCE_DAYS, Ack
from service.alarms.groups import IncastSite, Together
from service.documents.base import (
    Document,
    Figure,
    GivenTime,
    RequestBody,
    SwitchName,
    Time,
    nanoseconds,
    timestamp,
)
from settings.alarms import KINDS
from settings.history import DAY_S
from store.silence_rows import SilenceRow
from store.tables import NAME_LENGTH
from telemetry.alarms import Alarm
from telemetry.links import KIND_BEGINS

LONGEST_NOTE = 500

Note = Annotated[
    str | None,
    Field(min_length=1, max_length=LONGEST_NOTE, description="For others to read.", examples=["ticket 4711"]),
]


class AlarmSubjectDocument(Document):
    """A port, queue or device in an alarm, of a kind of its own where an incast joins several kinds."""

    subject: str
    """Its name."""
    kind: str
    """Kind of alarm."""
    switch: SwitchName | None
    """Its switch; null where it is of none."""
    level: Literal["warning", "critical"]
    """How bad it is."""
    value: Figure
    """As last measured, in the unit of its kind."""

    @classmethod
    def of(cls, alarm: Alarm) -> Self:
        return cls(
            subject=alarm.subject.of,
            kind=alarm.subject.kind,
            switch=alarm.subject.switch,
            level="critical" if alarm.level.label == "critical" else "warning",
            value=alarm.value,
        )


class AlarmIncastDocument(Document):
    """The incast behind an alarm."""

    receiver: str
    """Host that receives."""
    senders: int
    """Most that send to it at once."""
    switch: SwitchName
    """Switch of the port they meet at."""
    port: str
    """That port."""

    @classmethod
    def of(cls, site: IncastSite) -> Self:
        return cls.from_attributes(site)


class AlarmGroupDocument(Document):
    """Alarms that began at once and so likely have one cause: all of switches that went away, or of one kind
    on several switches. Each stays an alarm of its own, to be acknowledged and silenced by itself.
    """

    id: str
    """Names it: the id of its alarm that was raised first."""
    kinds: list[str]
    """Kinds of its alarms, that of the worst first."""
    level: Literal["warning", "critical"]
    """How bad the worst of it is now."""
    switches: list[SwitchName]
    """Switches it concerns, as many as subjects were asked for."""
    switch_count: int
    """How many those are in all."""
    alarm_count: int
    """How many alarms are in it, listed or not."""
    open_count: int
    """How many of them are neither acknowledged nor silenced."""
    sentence: str
    """What is wrong where, in a sentence."""

    @classmethod
    def of(cls, group: Together, known: Container[str], *, subjects: int) -> Self:
        """``known`` are the ids of alarms that are acknowledged or silenced."""
        return cls.from_attributes(
            group,
            kinds=list(group.kinds),
            level="critical" if group.level.label == "critical" else "warning",
            switches=list(group.switches[:subjects]),
            switch_count=len(group.switches),
            alarm_count=len(group.alarms),
            open_count=group.open_count(known),
        )


class AcknowledgementDocument(Document):
    """Who knows of an alarm, since when, and what they noted. It is void once the alarm turns critical."""

    by: str
    """Who."""
    at: Time
    """When."""
    note: str | None
    """For others to read; null: none."""

    @classmethod
    def of(cls, ack: Ack) -> Self:
        return cls(by=ack.by, at=timestamp(ack.at_ns), note=ack.note)


class AcknowledgementInput(RequestBody):
    """An acknowledgement's note, if any."""

    model_config = ConfigDict(frozen=True, strict=True)

    note: Note = None


class SilenceInput(RequestBody):
    """A silence of a kind of alarm, of a switch's alarms, or of that kind on that switch.

    Give its end as ``until``, or how long it lasts as ``for_s``.
    """

    model_config = ConfigDict(frozen=True)

    kind: Annotated[str | None, Field(description="A kind of alarm.", examples=["pfc_frames"])] = None
    switch: Annotated[
        str | None,
        Field(min_length=1, max_length=NAME_LENGTH, description="Name of a switch.", examples=["leaf1"]),
    ] = None
    until: Annotated[GivenTime | None, Field(description="When it ends, with a time zone (RFC 3339).")] = None
    for_s: Annotated[
        float | None,
        Field(gt=0, le=MOST_SILENCE_DAYS * DAY_S, description="Seconds that it lasts.", examples=[3_600]),
    ] = None
    note: Note = None

    @model_validator(mode="after")
    def _says_what_and_until_when(self) -> Self:
        if self.kind is None and self.switch is None:
            raise ValueError("a silence names a kind, a switch, or both; all alarms cannot be silenced")
        if self.kind is not None and self.kind not in KINDS and not self.kind.startswith(KIND_BEGINS):
            raise ValueError(f"kind is one of {', '.join(KINDS)}, or {KIND_BEGINS} and a condition's name")
        if (self.until is None) == (self.for_s is None):
            raise ValueError("a silence has an end: give either until or for_s")
        return self

    @property
    def until_ns(self) -> int | None:
        """Nanoseconds since 1970; None where it says how long instead."""
        return None if self.until is None else nanoseconds(self.until)


class SilenceDocument(Document):
    """A silence: alarms it covers notify nobody until it ends."""

    id: str
    """Names it."""
    kind: str | None
    """Kind of alarm; null: any."""
    switch: SwitchName | None
    """Switch of the alarms; null: any."""
    made: Time
    """When it was made."""
    until: Time
    """When it ends."""
    by: str
    """Who made it."""
    note: str | None
    """For others to read; null: none."""

    @classmethod
    def of(cls, row: SilenceRow) -> Self:
        return cls.from_attributes(row, made=timestamp(row.made_ns), until=timestamp(row.until_ns))


class SilencesDocument(Document):
    """The silences that have not ended."""

    silences: list[SilenceDocument]
    """The first to end first."""
