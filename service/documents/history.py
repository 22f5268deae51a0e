"""Alarms, and the history of queues, residuals, alarms and recommendations as documents."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field

from service.alarms.attention import Ack
from service.alarms.groups import JoinedAlarm, ToWallNs
from service.documents.alarms import (
    AcknowledgementDocument,
    AlarmGroupDocument,
    AlarmIncastDocument,
    AlarmSubjectDocument,
    SilenceDocument,
)
from service.documents.base import Document, Figure, PortName, SwitchName, Time, timestamp
from service.history.alarms import RowMembers
from settings.alarms import Kind, Unit
from store.alarm_rows import AlarmRow
from store.gain_rows import GainRow
from store.queue_rows import Seen
from store.residual_rows import DayRow, ResidualRow
from store.silence_rows import SilenceRow
from telemetry.settings import NS_PER_DAY
from twin.search.push_gate import residual_ratio

SUBJECTS_TOLD = 8


class AlarmDocument(Document):
    """One alarm: of one kind on one switch where it concerns one, or of one incast."""

    id: str
    """Names it, also over restarts."""
    kind: str
    """Which check raised it, such as `pfc_storm` or `unreachable`, or `link:` and the name of a condition of
    `alarms.links`.
    """
    subject: str
    """What it is about: a switch, a port, a receiver, or the service itself."""
    switch: SwitchName | None
    """The switch it concerns; null where it concerns none."""
    level: Literal["warning", "critical"]
    """How bad it is now."""
    value: Figure
    """The figure that was last over the threshold, in `unit`."""
    threshold: Figure
    """The threshold of its level, in `unit`."""
    unit: Unit
    """Unit of `value` and `threshold`: a share from 0 to 1, bytes, per second, seconds, times, or yes (1) and
    no (0).
    """
    since: Time
    """When it was raised."""
    seen: Time
    """When it was last over its threshold."""
    sentence: str
    """What is wrong, in a sentence."""
    look: str
    """Where to look, in a sentence."""
    ended: Time | None
    """When it ended; null while it is active."""
    why: str | None
    """Why it ended, where its value did not simply fall; else null."""
    subjects: list[AlarmSubjectDocument]
    """Ports, queues or devices in it, the worst first, as many as were asked for."""
    subject_count: int
    """How many are in it."""
    incast: AlarmIncastDocument | None
    """The incast behind it, if one is."""
    carried: bool
    """Whether it was active when the previous service ended, and nothing in it has been measured since."""
    acknowledged: AcknowledgementDocument | None
    """Who acknowledged it; null: nobody."""
    silenced: SilenceDocument | None
    """The silence that covers all of it, if one does."""
    group: str | None
    """Id of the group it is in, with others that began at once; null where it stands alone, or has ended."""

    @classmethod
    def of(
        cls,
        alarm: JoinedAlarm,
        wall_ns: ToWallNs,
        *,
        kind: Kind,
        ack: Ack | None,
        silence: SilenceRow | None,
        group: str | None,
        subjects: int,
    ) -> Self:
        lead = alarm.lead
        since_ns = wall_ns(alarm.since_s) if alarm.raised_ns is None else alarm.raised_ns
        return cls.from_attributes(
            alarm,
            subject=lead.subject.of,
            level="critical" if alarm.level.label == "critical" else "warning",
            value=lead.value,
            threshold=lead.threshold,
            unit=kind.unit,
            since=timestamp(since_ns),
            seen=timestamp(wall_ns(alarm.seen_s)),
            look=kind.look,
            ended=None if alarm.ended_s is None else timestamp(wall_ns(alarm.ended_s)),
            subjects=[AlarmSubjectDocument.of(one) for one in alarm.members[:subjects]],
            subject_count=len(alarm.members),
            incast=None if alarm.incast is None else AlarmIncastDocument.of(alarm.incast),
            acknowledged=None if ack is None else AcknowledgementDocument.of(ack),
            silenced=None if silence is None else SilenceDocument.of(silence),
            group=group,
        )


class AlarmsDocument(Document):
    """The current alarms."""

    warning: int
    """How many warnings there are, listed or not."""
    critical: int
    """How many critical alarms there are, listed or not."""
    left_off: int
    """Values over a threshold beyond the most alarms that are kept."""
    looked: Time | None
    """When the checks last ran; null before the first time."""
    alarms: list[AlarmDocument]
    """The worst first, as many as were asked for."""
    ended: list[AlarmDocument] | None
    """Past alarms, the newest first; null unless asked for."""
    acknowledged: int
    """How many of the current ones are acknowledged."""
    silenced: int
    """How many of the current ones a silence covers."""
    open_warning: int
    """How many of the warnings are neither acknowledged nor silenced."""
    open_critical: int
    """How many of the critical ones are neither acknowledged nor silenced."""
    groups: list[AlarmGroupDocument]
    """Those of the listed alarms that began at once, the worst first."""
    open_causes: int
    """How many alarms are neither acknowledged nor silenced, where a group of which any is counts once."""
    next: str | None
    """What to pass as `after` for more of the current alarms; null where there are none."""
    notes: list[str]
    """Sentences on conditions of `alarms.links` that no link fits so far, or whose figure is not known."""


class PortHistoryDocument(Document):
    """A port's series; all lists have the length of `at`. Null: not reported. Steps without any data are left
    out.
    """

    switch: SwitchName
    """The switch."""
    port: PortName
    """The port."""
    at: list[Time]
    """Start of each step."""
    depth_bytes: list[Figure]
    """Sum of its queues' mean depths, in bytes."""
    depth_max_bytes: list[Figure]
    """Sum of its queues' largest depths, in bytes."""
    throughput_bytes_per_s: list[Figure]
    """Bytes sent a second."""
    marked_packets_per_s: list[Figure]
    """Packets marked a second."""
    pause_share: list[Figure]
    """Share of time that its peer paused it, from 0 to 1."""


class QueueHistoryDocument(Document):
    """What ports did, step by step."""

    since: Time
    """Begin of the span."""
    until: Time
    """End of the span."""
    step_s: int
    """Length of a step, in seconds."""
    queues: list[PortHistoryDocument]
    """The deepest ports first."""


class ResidualDocument(Document):
    """Mean queue of a round's window as the twin predicts it for the incumbent, and as measured."""

    at: Time
    """When the round ended."""
    recommendation: str
    """Id of the round's recommendation."""
    predicted_bytes: Figure
    """Mean queue that the twin predicted, in bytes."""
    measured_bytes: Figure
    """Mean queue that telemetry measured, in bytes."""
    residual_ratio: Figure
    """Predicted ÷ measured − 1, with the push gate's offset: 0 is a perfect twin."""

    @classmethod
    def of(cls, row: ResidualRow) -> Self:
        predicted = row.predicted_bytes
        return cls.from_attributes(
            row,
            at=timestamp(row.at_ns),
            residual_ratio=None if predicted is None else residual_ratio(predicted, row.measured_bytes),
        )


class ResidualsDocument(Document):
    """How far the twin was from what was measured."""

    limit: float
    """Nothing is pushed where predicted and measured differ by more than this factor: where the ratio leaves
    1 / `limit` − 1 to `limit` − 1.
    """
    residuals: list[ResidualDocument]
    """The newest first."""


class RolloutGainDocument(Document):
    """The gain over what ran before that was predicted for a rollout, and the gain measured after it."""

    at: Time
    """When the rollout began."""
    recommendation: str
    """Id of its recommendation."""
    policy: str
    """What the gain weighs, by the policy of the round."""
    predicted: Figure
    """Gain that the twin predicted, in logarithms of completion times: 0.1 is about ten percent better."""
    predicted_error: Figure
    """Its standard error."""
    measured: Figure
    """Gain measured, in the same unit; null before the first whole window, or where none could be compared.
    """
    measured_error: Figure
    """Its standard error."""
    why: str | None
    """Reason of a rollback, up to which it was measured; null without one."""

    @classmethod
    def of(cls, row: GainRow) -> Self:
        return cls.from_attributes(row, at=timestamp(row.at_ns))


class GainsDocument(Document):
    """Rollouts whose rounds scored by gain."""

    gains: list[RolloutGainDocument]
    """The newest first."""


class AdviceDayDocument(Document):
    """What the advice was worth on the traffic of one day, by the twin and without a write."""

    day: str
    """Date in UTC, such as `2026-01-31`."""
    rounds: int
    """Rounds that scored by gain."""
    advised: int
    """How many of those advised a change."""
    gain: float
    """Mean over the rounds of the gain predicted for their answers over what ran; 0 for no change."""
    gain_error: Figure
    """Mean of the standard errors of those that advised a change; null where none is known."""

    @classmethod
    def of(cls, row: DayRow) -> Self:
        return cls.from_attributes(row, day=timestamp(row.day * NS_PER_DAY)[:10])


class AdviceHistoryDocument(Document):
    """What the advice was worth, day by day."""

    days: list[AdviceDayDocument]
    """The oldest first; days without rounds are left out."""


class PastAlarmDocument(Document):
    """An alarm from its raise to its end."""

    id: str
    """Names it, also over restarts."""
    kind: str
    """Which check raised it."""
    subject: str
    """What it is about."""
    switch: SwitchName | None
    """The switch it concerns; null where it concerns none."""
    level: Literal["warning", "critical"]
    """Its worst level."""
    sentence: str
    """What was wrong, in a sentence."""
    raised: Time
    """When it was raised."""
    ended: Time | None
    """When it ended; null while it is active."""
    why: str | None
    """Why it ended; null where its value fell."""
    subjects: list[str]
    """The first of the ports, queues or devices in it."""
    subject_count: int
    """How many were in it."""
    receiver: Annotated[str | None, Field(description="Of the incast behind it, if one was.")]
    acknowledged: AcknowledgementDocument | None
    """Who acknowledged it; null: nobody."""

    @classmethod
    def of(cls, row: AlarmRow) -> Self:
        said, acked = RowMembers.of(row), row.acked_by is not None and row.acked_ns is not None
        return cls.from_attributes(
            row,
            id=row.key,
            level="critical" if row.level == "critical" else "warning",
            raised=timestamp(row.raised_ns),
            ended=None if row.ended_ns is None else timestamp(row.ended_ns),
            subjects=[subject.of for subject, _, _ in said.subjects[:SUBJECTS_TOLD]],
            subject_count=said.count,
            receiver=None if said.incast is None else said.incast.receiver,
            acknowledged=AcknowledgementDocument.of(Ack(row.acked_by or "", row.acked_ns or 0, row.ack_note))
            if acked
            else None,
        )


class PastAlarmsDocument(Document):
    """Alarms from their raise to their end."""

    alarms: list[PastAlarmDocument]
    """The last raised first."""


class PredictedFiguresDocument(Document):
    """What the twin predicted of one watermark."""

    queue_mean_bytes: Figure
    """Mean depth of the bottleneck queues, in bytes."""
    queue_p99_bytes: Figure
    """99th percentile of their depth, in bytes."""
    queue_peak_bytes: Figure
    """Largest depth, in bytes."""
    goodput_gbps: Figure
    """Payload delivered, in Gbit/s."""
    marked_fraction: Figure
    """Share of packets marked, from 0 to 1."""


class PredictedDocument(Document):
    """The twin's predictions."""

    incumbent: PredictedFiguresDocument
    """For what ran."""
    recommended: PredictedFiguresDocument
    """For what was recommended."""
    queue_change: Figure
    """Recommended ÷ incumbent mean queue − 1."""


class MeasuredFiguresDocument(Document):
    """Measured on a rollout's switches."""

    since: Time
    """Begin of the measurement."""
    until: Time
    """End of the measurement."""
    step_s: int
    """Length of a step, in seconds."""
    steps: int
    """Steps that were seen."""
    ports: int
    """Ports that were seen."""
    queue_mean_bytes: Figure
    """Mean depth over ports and steps, in bytes."""
    queue_max_bytes: Figure
    """Largest depth of any port, in bytes."""
    throughput_bytes_per_s: Figure
    """Bytes sent a second, all ports together."""
    marked_packets_per_s: Figure
    """Packets marked a second, all ports together."""
    pause_share: Figure
    """Mean share of time that ports were paused, from 0 to 1."""

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

    The twin predicts bottleneck ports, ``before`` and ``after`` cover all ports of the rollout's
    ``switches``: compare the changes, not the figures.
    """

    id: str
    """Id of the recommendation."""
    rollout: str | None
    """Id of its rollout; null without one."""
    phase: str | None
    """Phase of the rollout; null without one."""
    switches: list[str]
    """Switches of the rollout."""
    since: Time | None
    """When its last switch was set; null before that."""
    until: Time | None
    """End of the measurement: some time later, or when a rollback began; null before that."""
    predicted: PredictedDocument
    """What the twin predicted."""
    before: MeasuredFiguresDocument | None
    """What was measured before the rollout; null where nothing was."""
    after: MeasuredFiguresDocument | None
    """What was measured after it; null where nothing was."""
    queue_change: Figure
    """Measured mean queue after ÷ before − 1."""
    residual_ratio: Figure
    """The twin's error when it recommended: predicted ÷ measured − 1."""
    gain: RolloutGainDocument | None
    """Gain predicted and measured; null where the round did not score by gain, or nothing was set."""
