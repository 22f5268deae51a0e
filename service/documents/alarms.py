"""Alarms as documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Self

from service.documents.base import Document, Figure, timestamp
from settings.kinds import KINDS, Unit
from telemetry.alarms.board import Alarm


class AlarmDocument(Document):
    """One alarm: ``subject`` is what it is about, on ``switch`` where that is one.

    ``value`` and the ``threshold`` of its level are in ``unit``; ``since`` it is one, ``seen`` when it was
    last over the threshold; ``sentence`` says what it means and ``look`` where to look. Where it ended,
    ``ended`` says when, and ``why`` if that was not for a value that fell.
    """

    kind: str
    subject: str
    switch: str | None
    level: Literal["warning", "critical"]
    value: Figure
    threshold: Figure
    unit: Unit
    since: str
    seen: str
    sentence: str
    look: str
    ended: str | None
    why: str | None

    @classmethod
    def of(cls, alarm: Alarm, wall_ns: Callable[[float], int]) -> Self:
        """The document of an alarm; ``wall_ns`` makes its seconds nanoseconds since 1970."""
        kind = KINDS[alarm.subject.kind]
        return cls(
            kind=alarm.subject.kind,
            subject=alarm.subject.of,
            switch=alarm.subject.switch,
            level="critical" if alarm.level.label == "critical" else "warning",
            value=alarm.value,
            threshold=alarm.threshold,
            unit=kind.unit,
            since=timestamp(wall_ns(alarm.since_s)),
            seen=timestamp(wall_ns(alarm.seen_s)),
            sentence=alarm.sentence,
            look=kind.look,
            ended=None if alarm.ended_s is None else timestamp(wall_ns(alarm.ended_s)),
            why=alarm.why,
        )


class AlarmsDocument(Document):
    """The alarms of now, the worst first, as many as were asked for.

    ``warning`` and ``critical`` count all of them; ``left_off`` what else is over a threshold and finds no
    room; ``looked`` is when that was looked at, null before the first time. ``ended`` are those that ended,
    the last one first; null unless asked for.
    """

    warning: int
    critical: int
    left_off: int
    looked: str | None
    alarms: list[AlarmDocument]
    ended: list[AlarmDocument] | None
