"""The kinds of alarms: what their values are, and where to look first; ``docs/alarms.md`` says the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Unit = Literal["share", "per_second", "seconds", "times", "yes"]


@dataclass(frozen=True, slots=True)
class Kind:
    """``unit`` of the value: a share (0 to 1), events a second, seconds, how many times a limit, or 1 for
    yes. ``look`` says where to look first. ``holds`` policy from approving a change while it is critical.
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
    "clock_skew": Kind(
        "share", "Check NTP or PTP of the sinks; the window believes the time most of them tell."
    ),
    "clock_backwards": Kind(
        "share",
        "Check the device's timestamp unit (int: in the inventory) and whether its clock is being stepped.",
    ),
    "clock_offset": Kind("seconds", "Check NTP on this machine and on the sinks of INT."),
    "telemetry_silent": Kind(
        "seconds", "Check that the exporters run and reach this service; /readyz says what it waits for."
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
    "untuned": Kind(
        "yes", "Give its units under int: in the inventory; until then it is shown and not tuned."
    ),
    "drifted": Kind(
        "yes", "Compare what it runs with what was set (GET /v1/switches), then set it back, or adopt it."
    ),
    "unreachable": Kind("seconds", "Check the switch's management address, its service and its credentials."),
    "rollout_stalled": Kind(
        "yes", "Look at why it stands still (GET /v1/rollouts): mostly the journal's disk is full or away."
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
