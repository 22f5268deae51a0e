"""Alarms, and the history of queues, residuals, alarms and recommendations as documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Self

from service.documents.base import Document, Figure, timestamp
from settings.sections import KINDS, Unit
from store.alarm_rows import AlarmRow
from store.gain_rows import GainRow
from store.queue_rows import Seen
from store.residual_rows import DAY_NS, DayRow, ResidualRow
from telemetry.alarms import Alarm
from twin.search.push_gate import residual_ratio


class AlarmDocument(Document):
    """One alarm on ``subject``, on ``switch`` where it concerns one.

    ``value`` and the ``threshold`` of its level are in ``unit``; ``since`` when it is raised, ``seen`` when
    it was last over the threshold; ``sentence`` explains it, ``look`` says where to look. ``ended`` is when
    it ended, ``why`` the reason if that was not a falling value.
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
        """``wall_ns`` converts its seconds to nanoseconds since 1970."""
        kind = KINDS[alarm.subject.kind]
        return cls.from_attributes(
            alarm,
            kind=alarm.subject.kind,
            subject=alarm.subject.of,
            switch=alarm.subject.switch,
            level="critical" if alarm.level.label == "critical" else "warning",
            unit=kind.unit,
            since=timestamp(wall_ns(alarm.since_s)),
            seen=timestamp(wall_ns(alarm.seen_s)),
            look=kind.look,
            ended=None if alarm.ended_s is None else timestamp(wall_ns(alarm.ended_s)),
        )


class AlarmsDocument(Document):
    """The current alarms, the worst first, as many as were asked for.

    ``warning`` and ``critical`` count all of them; ``left_off`` counts values over a threshold beyond the
    most alarms kept; ``looked`` is the last evaluation, null before the first. ``ended`` are past alarms, the
    newest first; null unless asked for.
    """

    warning: int
    critical: int
    left_off: int
    looked: str | None
    alarms: list[AlarmDocument]
    ended: list[AlarmDocument] | None


class PortHistoryDocument(Document):
    """A port's series: ``at`` is the start of each step; all lists have its length.

    ``depth_bytes`` is the sum of its queues' mean depths, ``depth_max_bytes`` of their largest;
    ``pause_share`` is the share of time its peer paused it. Null: not reported. Steps without any data are
    left out.
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

    ``residual_ratio`` is predicted ÷ measured − 1, with the push gate's offset: 0 is a perfect twin.
    """

    at: str
    recommendation: str
    predicted_bytes: Figure
    measured_bytes: Figure
    residual_ratio: Figure

    @classmethod
    def of(cls, row: ResidualRow) -> Self:
        predicted = row.predicted_bytes
        return cls.from_attributes(
            row,
            at=timestamp(row.at_ns),
            residual_ratio=None if predicted is None else residual_ratio(predicted, row.measured_bytes),
        )


class ResidualsDocument(Document):
    """The newest first. Nothing is pushed where predicted and measured differ by more than a factor of
    ``limit``: where the ratio leaves 1 / ``limit`` − 1 to ``limit`` − 1.
    """

    limit: float
    residuals: list[ResidualDocument]


class RolloutGainDocument(Document):
    """The gain over what ran before that the twin predicted for a recommendation, by the policy of its round,
    and the gain measured after its rollout, which began ``at``; both with their standard errors.

    ``measured`` is null before the first whole window, or where none could be compared; ``why`` is the reason
    of a rollback, up to which it was measured.
    """

    at: str
    recommendation: str
    policy: str
    predicted: Figure
    predicted_error: Figure
    measured: Figure
    measured_error: Figure
    why: str | None

    @classmethod
    def of(cls, row: GainRow) -> Self:
        return cls.from_attributes(row, at=timestamp(row.at_ns))


class GainsDocument(Document):
    """The newest first; rollouts whose rounds scored by gain."""

    gains: list[RolloutGainDocument]


class AdviceDayDocument(Document):
    """What the advice was worth on the traffic of one ``day`` (UTC), by the twin and without a write.

    ``gain`` is the mean over the day's ``rounds`` of the gain predicted for their answers over what ran then,
    0 for those that advised no change; ``advised`` advised one. ``gain_error`` is the mean of their standard
    errors, null where none is known.
    """

    day: str
    rounds: int
    advised: int
    gain: float
    gain_error: Figure

    @classmethod
    def of(cls, row: DayRow) -> Self:
        return cls.from_attributes(row, day=timestamp(row.day * DAY_NS)[:10])


class AdviceDocument(Document):
    """The oldest day first; days without rounds are left out, as are rounds that did not score by gain."""

    days: list[AdviceDayDocument]


class PastAlarmDocument(Document):
    """An alarm at its worst ``level``, from ``raised`` to ``ended`` (null: still active).

    ``why`` is null where it ended because its value fell.
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
        return cls.from_attributes(
            row,
            level="critical" if row.level == "critical" else "warning",
            raised=timestamp(row.raised_ns),
            ended=None if row.ended_ns is None else timestamp(row.ended_ns),
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


class PredictedDocument(Document):
    """The twin's predictions. ``queue_change`` is recommended ÷ incumbent mean queue − 1."""

    incumbent: PredictedFiguresDocument
    recommended: PredictedFiguresDocument
    queue_change: Figure


class MeasuredFiguresDocument(Document):
    """Measured on a rollout's switches from ``since`` to ``until``.

    Means over the ``ports`` seen and over ``steps`` of ``step_s`` seconds; ``queue_max_bytes`` is the largest
    of any port, throughput and marks are sums over ports.
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
        return cls.from_attributes(
            seen,
            since=timestamp(since_ns),
            until=timestamp(until_ns),
            step_s=step_s,
            queue_mean_bytes=seen.depth_bytes,
            queue_max_bytes=seen.depth_max_bytes,
        )


class OutcomeDocument(Document):
    """What was predicted for a recommendation, and what was measured before and after its rollout.

    ``since`` is when its last switch was set, ``until`` the end of the measurement: some time later, or when
    rollback began. Null: no rollout, or not that far yet. ``before`` and ``after`` are null where nothing was
    measured. ``queue_change`` is the queue after ÷ before − 1; ``residual_ratio`` is the twin's error when it
    recommended; ``gain`` is null where the round did not score by gain, or nothing was set.

    The twin predicts bottleneck ports, ``before`` and ``after`` cover all ports of the rollout's
    ``switches``: compare the changes, not the figures.
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
    gain: RolloutGainDocument | None
