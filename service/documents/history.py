"""Alarms as documents.

What was, as documents: queues, residuals, alarms, and what became of a recommendation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Self

from service.documents.base import Document, Figure, timestamp
from service.documents.predictions import PredictionDocument
from settings.sections import KINDS, Unit
from store.alarm_rows import AlarmRow
from store.queue_rows import Seen
from store.residual_rows import ResidualRow
from telemetry.alarms.board import Alarm
from twin.search.push_gate import residual_ratio


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


class PortHistoryDocument(Document):
    """A port's series: ``at`` is when each step began, and each list as long.

    ``depth_bytes`` is the mean depth of its queues, added, ``depth_max_bytes`` the largest, added;
    ``pause_share`` the share of time its peer kept it from sending. Null: not told. No entry: nothing was
    seen of the port.
    """

    switch: str
    port: str
    at: list[str]
    depth_bytes: list[Figure]
    depth_max_bytes: list[Figure]
    throughput_bytes_per_s: list[Figure]
    marked_packets_per_s: list[Figure]
    pause_share: list[Figure]


class QueueHistoryDocument(Document):
    """The deepest ports first, in steps of ``step_s`` seconds."""

    since: str
    until: str
    step_s: int
    queues: list[PortHistoryDocument]


class ResidualDocument(Document):
    """Mean queue of a round's window as the twin predicts it for the incumbent, and as measured.

    ``residual_ratio`` is the first over the second, less 1, as the guard counts it: 0 is a twin in step.
    """

    at: str
    recommendation: str
    predicted_bytes: Figure
    measured_bytes: Figure
    residual_ratio: Figure

    @classmethod
    def of(cls, row: ResidualRow) -> Self:
        """The document of a row."""
        predicted = row.predicted_bytes
        return cls(
            at=timestamp(row.at_ns),
            recommendation=row.recommendation,
            predicted_bytes=predicted,
            measured_bytes=row.measured_bytes,
            residual_ratio=None if predicted is None else residual_ratio(predicted, row.measured_bytes),
        )


class ResidualsDocument(Document):
    """The newest first. Nothing is pushed where predicted and measured differ by more than ``limit`` times:
    where the ratio leaves 1 / ``limit`` − 1 to ``limit`` − 1.
    """

    limit: float
    residuals: list[ResidualDocument]


class PastAlarmDocument(Document):
    """An alarm at its worst ``level``, from ``raised`` to ``ended`` (null: it is still there).

    ``why`` it ended is null where its value fell.
    """

    kind: str
    subject: str
    switch: str | None
    level: Literal["warning", "critical"]
    sentence: str
    raised: str
    ended: str | None
    why: str | None

    @classmethod
    def of(cls, row: AlarmRow) -> Self:
        """The document of a row."""
        return cls(
            kind=row.kind,
            subject=row.subject,
            switch=row.switch,
            level="critical" if row.level == "critical" else "warning",
            sentence=row.sentence,
            raised=timestamp(row.raised_ns),
            ended=None if row.ended_ns is None else timestamp(row.ended_ns),
            why=row.why,
        )


class PastAlarmsDocument(Document):
    """The last raised first."""

    alarms: list[PastAlarmDocument]


class PredictedFiguresDocument(Document):
    """What the twin predicted of one watermark."""

    queue_mean_bytes: Figure
    queue_p99_bytes: Figure
    queue_peak_bytes: Figure
    goodput_gbps: Figure
    marked_fraction: Figure

    @classmethod
    def of(cls, prediction: PredictionDocument) -> Self:
        """The same of a prediction."""
        return cls(**{name: getattr(prediction, name) for name in cls.model_fields})


class PredictedDocument(Document):
    """What the twin predicted before. ``queue_change`` is the mean queue recommended over the incumbent's,
    less 1.
    """

    incumbent: PredictedFiguresDocument
    recommended: PredictedFiguresDocument
    queue_change: Figure


class MeasuredFiguresDocument(Document):
    """What was measured on a rollout's switches, from ``since`` to ``until``.

    Means over the ``ports`` that were seen and over ``steps`` of ``step_s`` seconds; ``queue_max_bytes`` is
    the largest of any port, throughput and marks are added over ports.
    """

    since: str
    until: str
    step_s: int
    steps: int
    ports: int
    queue_mean_bytes: Figure
    queue_max_bytes: Figure
    throughput_bytes_per_s: Figure
    marked_packets_per_s: Figure
    pause_share: Figure

    @classmethod
    def of(cls, seen: Seen, *, since_ns: int, until_ns: int, step_s: int) -> Self:
        """The document of such figures."""
        return cls(
            since=timestamp(since_ns),
            until=timestamp(until_ns),
            step_s=step_s,
            steps=seen.steps,
            ports=seen.ports,
            queue_mean_bytes=seen.depth_bytes,
            queue_max_bytes=seen.depth_max_bytes,
            throughput_bytes_per_s=seen.throughput_bytes_per_s,
            marked_packets_per_s=seen.marked_packets_per_s,
            pause_share=seen.pause_share,
        )


class OutcomeDocument(Document):
    """What was predicted of a recommendation beside what was measured before and after its rollout.

    ``since`` is when its last switch was set, and ``until`` up to when what followed is looked at: some time
    later, or when it began to be taken back. Null: no rollout, or not so far yet. ``before`` and ``after``
    are null where nothing was measured. ``queue_change`` is the queue measured after over the one before,
    less 1; ``residual_ratio`` how far the twin was from what was measured when it recommended.

    The twin predicts bottleneck ports, ``before`` and ``after`` are of all ports of the rollout's
    ``switches``: the changes compare, the figures themselves need not.
    """

    id: str
    rollout: str | None
    phase: str | None
    switches: list[str]
    since: str | None
    until: str | None
    predicted: PredictedDocument
    before: MeasuredFiguresDocument | None
    after: MeasuredFiguresDocument | None
    queue_change: Figure
    residual_ratio: Figure
