"""Settings of alarms, of conditions on links, and of the verdict on the fabric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from settings.links import LinkConditionSettings
from settings.validation import Section
from telemetry.alarms import Rule
from telemetry.links import FIGURES, LinkCondition

Unit = Literal["share", "bytes", "per_second", "seconds", "times", "yes"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of alarm ([docs/operate/alarms.md]). ``unit`` of its value: a share (0 to 1), bytes, events a
    second, seconds, times a limit, or 1 for yes. ``look`` says where to look first. ``holds``: while it is
    critical, the policy approves nothing.
    """

    unit: Unit
    look: str
    holds: bool = False


KINDS: Mapping[str, Kind] = {
    "pfc_storm": Kind(
        "share",
        "Find who sends the pauses: the device behind this port, or beyond it; a host whose NIC cannot keep "
        "up, a PFC watchdog that is off, a Kmax above the point where PFC begins.",
        holds=True,
    ),
    "pfc_frames": Kind(
        "per_second",
        "Look at what leaves this switch towards the congested receiver: an incast, or ECN that marks too "
        "late; compare Kmax with the buffer's PFC threshold.",
        holds=True,
    ),
    "lossless_loss": Kind(
        "per_second",
        "Check that PFC is on for this queue at both ends of the cable, the headroom for its length, and "
        "that WRED does not drop on it; alarms.lossless_queues says which queues are meant.",
        holds=True,
    ),
    "ecn_off": Kind(
        "times",
        "Read what the hardware runs (GET /v1/switches): the profile bound to the queue, ECN enabled for its "
        "colour, and that senders set ECT.",
    ),
    "declared_rate": Kind(
        "yes",
        "Compare the link's rate in the topology (rate_gbps, in Gbit/s) with the switch's port, and the "
        "sampling of its INT: predictions of this port are wrong until one is corrected.",
    ),
    "clock_skew": Kind(
        "share", "Check NTP or PTP of the sinks; the window believes the time most of them tell."
    ),
    "clock_backwards": Kind(
        "share",
        "Check the device's timestamp unit (int: in the inventory) and whether its clock is being stepped.",
    ),
    "clock_offset": Kind("seconds", "Check NTP on this machine and on the sinks of INT."),
    "telemetry_silent": Kind(
        "seconds",
        "Check that the exporters run and reach this service; ecntwin status says why nothing is tuned.",
    ),
    "switch_silent": Kind(
        "seconds", "Check this switch's exporter or counter source, and whether any traffic crosses it."
    ),
    "sequence_gaps": Kind(
        "share",
        "Look for drops between that device and here: its export rate, the path, this machine's sockets.",
    ),
    "ingest_drops": Kind(
        "per_second",
        "The service takes in less than it is sent: sample less, add ingest processes, or allow the sender.",
    ),
    "reports_rejected": Kind(
        "share",
        "Look at the errors in the answers to POST /v1/telemetry/int, and at "
        "ecntwin_reports_rejected_total by reason.",
    ),
    "counter_source": Kind(
        "yes", "Look at the log; check address and credentials of that switch's counters."
    ),
    "nic_source": Kind(
        "yes", "Run ecntwin nics; check address, account and host key of the host, and its driver."
    ),
    "senders": Kind(
        "yes",
        "Compare the NICs (ecntwin nics): set those that differ as the others are, or correct dcqcn in the "
        "settings, or drop it where the NICs are right.",
    ),
    "untuned": Kind(
        "yes", "Give its units under int: in the inventory; until then it is shown and not tuned."
    ),
    "drifted": Kind(
        "yes", "Compare what it runs with what was set (GET /v1/switches), then set it back, or adopt it."
    ),
    "cabling": Kind(
        "yes",
        "Look at the neighbours of GET /v1/topology, then move the cable, or declare what is there: "
        "ecntwin topology writes the file.",
    ),
    "lossless": Kind(
        "yes", "Look at GET /v1/lossless: each finding says what to change; ecntwin check-fabric reads anew."
    ),
    "unreachable": Kind("seconds", "Check the switch's management address, its service and its credentials."),
    "rollout_stalled": Kind(
        "yes",
        "Look at why it stands still (GET /v1/rollouts): the journal's disk is full or away, or a switch or "
        "host cannot be undone.",
    ),
    "storage": Kind(
        "yes",
        "Make room on the database's disk, or bring its server back; the service goes on by itself then.",
        holds=True,
    ),
    "history_lost": Kind(
        "yes", "Look at the alarm storage and at the log; a database that is too slow wants a longer step."
    ),
}


def _levels(section: Section, mild: str, grave: str) -> list[tuple[str, float | None, float | None]]:
    """What is measured, and its two thresholds; raises ``ValueError`` where the milder one is above."""
    found = []
    for name in type(section).model_fields:
        kind, _, level = name.rpartition("_")
        if level != mild:
            continue
        low, high = getattr(section, name), getattr(section, f"{kind}_{grave}")
        if low is not None and high is not None and low > high:
            raise ValueError(
                f"{name} {low:g} is above {kind}_{grave} {high:g}: the milder level comes first; "
                "lower the first or raise the second"
            )
        found.append((kind, low, high))
    return found


_SILENCE = frozenset({"telemetry_silent", "switch_silent"})
_SECONDS = _SILENCE | {"unreachable"}

_IT_IS = Rule(warning=1.0, critical=None, hold_s=0.0, clear_s=0.0)
_YES_OR_NO = {
    "cabling": _IT_IS,
    "drifted": _IT_IS,
    "lossless": _IT_IS,
    "senders": _IT_IS,
    "untuned": _IT_IS,
    "rollout_stalled": Rule(warning=None, critical=1.0, hold_s=0.0, clear_s=0.0),
    "storage": Rule(warning=None, critical=1.0, hold_s=0.0, clear_s=0.0),
}
"""Kinds that are either present or not, and need no thresholds."""
MOST_CONDITIONS = 64


class AlarmSettings(Section):
    """Thresholds of alarms; [alarms](../operate/alarms.md) explains them.

    Alarms are evaluated every ``every_s`` seconds. One is raised when a value is at or over ``..._warning``
    or ``..._critical`` for ``hold_s`` seconds (none: never), and ends when it has been below ``clear_ratio``
    (above 0, to 1) of that for ``clear_s`` seconds; a silence ends with the first report. Without
    measurements it stays for ``forget_s`` seconds. The last ``keep`` that ended are kept.
    ``lossless_queues`` are the numbers of the queues that PFC protects; none: all.

    Shares are from 0 to 1: of the time a port is paused, of reports rejected, of datagrams lost. Rates are a
    second: PFC frames a port sent, packets a lossless queue dropped, datagrams dropped on the way in. Silence
    and switches out of reach count seconds. ``ecn_off`` is the depth of a queue that marks nothing, in
    multiples of Kmax, ``clock_offset`` seconds between a sink's clock and this one.

    ``links`` are [conditions of your own](../operate/alarms.md#conditions-of-your-own) on links.
    """

    every_s: float = Field(default=5.0, gt=0)
    hold_s: float = Field(default=10.0, ge=0)
    clear_s: float = Field(default=30.0, ge=0)
    clear_ratio: float = Field(default=0.5, gt=0, le=1)
    forget_s: float = Field(default=600.0, ge=0)
    keep: int = Field(default=200, ge=0)
    lossless_queues: tuple[Annotated[int, Field(ge=0)], ...] = (3, 4)
    pfc_storm_warning: float | None = Field(default=0.05, gt=0)
    pfc_storm_critical: float | None = Field(default=0.25, gt=0)
    pfc_frames_warning: float | None = Field(default=1_000.0, gt=0)
    pfc_frames_critical: float | None = Field(default=10_000.0, gt=0)
    lossless_loss_warning: float | None = Field(default=0.01, gt=0)
    lossless_loss_critical: float | None = Field(default=100.0, gt=0)
    ecn_off_warning: float | None = Field(default=1.0, gt=0)
    ecn_off_critical: float | None = Field(default=2.0, gt=0)
    clock_skew_warning: float | None = Field(default=0.01, gt=0)
    clock_skew_critical: float | None = Field(default=0.5, gt=0)
    clock_backwards_warning: float | None = Field(default=0.001, gt=0)
    clock_backwards_critical: float | None = Field(default=None, gt=0)
    clock_offset_warning: float | None = Field(default=5.0, gt=0)
    clock_offset_critical: float | None = Field(default=None, gt=0)
    telemetry_silent_warning: float | None = Field(default=30.0, gt=0)
    telemetry_silent_critical: float | None = Field(default=120.0, gt=0)
    switch_silent_warning: float | None = Field(default=60.0, gt=0)
    switch_silent_critical: float | None = Field(default=None, gt=0)
    sequence_gaps_warning: float | None = Field(default=0.001, gt=0)
    sequence_gaps_critical: float | None = Field(default=0.05, gt=0)
    ingest_drops_warning: float | None = Field(default=1.0, gt=0)
    ingest_drops_critical: float | None = Field(default=10_000.0, gt=0)
    reports_rejected_warning: float | None = Field(default=0.01, gt=0)
    reports_rejected_critical: float | None = Field(default=0.5, gt=0)
    unreachable_warning: float | None = Field(default=30.0, gt=0)
    unreachable_critical: float | None = Field(default=300.0, gt=0)
    links: tuple[LinkConditionSettings, ...] = Field(default=(), max_length=MOST_CONDITIONS)

    @field_validator("links")
    @classmethod
    def _names_differ(cls, given: tuple[LinkConditionSettings, ...]) -> tuple[LinkConditionSettings, ...]:
        names = [one.name for one in given]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two conditions are called {name!r}: alarms and silences go by the name")
        return given

    @model_validator(mode="after")
    def _are_rules(self) -> Self:
        self.rules()
        return self

    def conditions(self) -> tuple[LinkCondition, ...]:
        """Those of ``links``."""
        return tuple(one.condition(clear_s=self.clear_s) for one in self.links)

    def kinds(self) -> Mapping[str, Kind]:
        """Every kind of alarm: the built-in ones, and one for each condition."""
        own = {
            condition.kind: Kind(
                FIGURES[condition.figure].unit,
                given.remedy or f"This is a condition of your own: {given.name!r} of alarms.links.",
            )
            for given, condition in zip(self.links, self.conditions(), strict=True)
        }
        return {**KINDS, **own}

    def rules(self) -> dict[str, Rule]:
        """The rule of each kind; those without thresholds of their own are yes or no."""
        found = {}
        for kind, warning, critical in _levels(self, "warning", "critical"):
            # Kinds that count seconds have lasted long enough by themselves.
            hold_s = 0.0 if kind in _SECONDS else self.hold_s
            found[kind] = Rule(
                warning=warning,
                critical=critical,
                hold_s=hold_s,
                # A silence is over with the first report, also of an exporter that posts now and then.
                clear_s=0.0 if kind in _SILENCE else self.clear_s,
                clear_ratio=1.0 if kind in _SILENCE else self.clear_ratio,
            )
        held = replace(_IT_IS, hold_s=self.hold_s)  # a single poll may fail
        grew = replace(_IT_IS, clear_s=self.clear_s)  # what is lost comes in bursts
        return (
            found
            | _YES_OR_NO
            | {
                "counter_source": held,
                "nic_source": held,
                "history_lost": grew,
                "declared_rate": replace(held, clear_s=self.clear_s),  # windows of one load differ
            }
            | {condition.kind: condition.rule for condition in self.conditions()}
        )


class ConditionSettings(Section):
    """Thresholds of the verdict on the fabric: from ``..._watch`` on it is to be watched, from ``..._bad`` on
    it is not well (none: never).

    It is measured every ``every_s`` seconds. Slowdowns are durations ÷ durations alone: of one packet, to its
    acknowledgement (p99), and of messages of 1 MB and more (mean). Shares are from 0 to 1: of port time
    paused, of packets lost and marked.
    """

    every_s: float = Field(default=10.0, gt=0)
    packet_p99_slowdown_watch: float | None = Field(default=10.0, gt=1)
    packet_p99_slowdown_bad: float | None = Field(default=50.0, gt=1)
    elephant_slowdown_watch: float | None = Field(default=5.0, gt=1)
    elephant_slowdown_bad: float | None = Field(default=20.0, gt=1)
    paused_share_watch: float | None = Field(default=0.001, gt=0)
    paused_share_bad: float | None = Field(default=0.01, gt=0)
    loss_share_watch: float | None = Field(default=1e-6, gt=0)
    loss_share_bad: float | None = Field(default=1e-4, gt=0)
    marked_share_watch: float | None = Field(default=0.5, gt=0)
    marked_share_bad: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _watch_comes_first(self) -> Self:
        _levels(self, "watch", "bad")
        return self
