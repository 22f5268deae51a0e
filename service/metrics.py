"""Metrics of binary INT reports, for each switch that sends them; must not know a report's layout.

Metrics of who was let in and who was not; no label names a person or an address.

Metrics of bodies and datagrams on their way to the window, for the service and for an ingest process
alike.

Metrics of what the network does and of its alarms; labels name switches and kinds, no port and no flow.

Metrics of what is written down; must not know where.

Every metric the service exposes, declared once, on a registry that is passed in; no label names a flow.
"""

from __future__ import annotations

import math
import platform
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.exposition import choose_encoder

from settings.sections import KINDS
from telemetry.alarms.board import LEVELS, Alarm, Change
from telemetry.counters.window import PortRates, Rates
from telemetry.state import FlowClass, NetworkState
from twin.watermark import Watermark

MOST_STRANGERS = 256
"""Senders that the inventory does not have and that get a label of their own; all others share one."""

OTHERS = "other"


class BinaryMetrics:
    """``named`` has to be called first: a label is one of its names, or of a bounded number of others."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._labels: set[str] = set()
        self._most = MOST_STRANGERS
        self.datagrams = Counter(
            "ecntwin_int_datagrams", "Binary INT datagrams, by sender.", ["switch"], registry=registry
        )
        self.lost = Gauge(
            "ecntwin_int_datagrams_lost",
            "Datagrams since the start that never came, by the sequence numbers of their sender; one that "
            "comes late is no longer lost.",
            ["switch"],
            registry=registry,
        )
        self.restarts = Counter(
            "ecntwin_int_sender_restarts",
            "Times a sender began its sequence numbers anew.",
            ["switch"],
            registry=registry,
        )
        self.drops = Counter(
            "ecntwin_int_drop_reports",
            "INT reports of packets that were dropped, by the switch and egress queue that dropped them.",
            ["switch", "queue"],
            registry=registry,
        )
        self.flagged = Counter(
            "ecntwin_int_flagged_reports",
            "Binary INT reports by the flag they carry (congested_queue, tracked_flow, intermediate).",
            ["switch", "flag"],
            registry=registry,
        )
        self.postcards = Counter(
            "ecntwin_int_postcards",
            "Reports of one hop, by what became of them: merged into a path, surplus (their node had told of "
            "the packet already), late (its path was told already).",
            ["outcome"],
            registry=registry,
        )
        self.untuned = Gauge(
            "ecntwin_int_untuned",
            "1 for a switch that reports INT in units nobody told: it is shown and not tuned. Under a label "
            "that several share, how many.",
            ["switch"],
            registry=registry,
        )

    def named(self, switches: Iterable[str]) -> None:
        """The switches of the inventory: each has a label, however many there are."""
        self._labels.update(switches)
        self._most = len(self._labels) + MOST_STRANGERS

    def label(self, switch: str) -> str:
        """The label of a sender."""
        if switch not in self._labels:
            if len(self._labels) >= self._most:
                return OTHERS
            self._labels.add(switch)
        return switch


REFUSALS = ("requests", "bytes")
FAILURES = ("unknown", "oidc", "too_many")


class AccessMetrics:
    """``token`` is a configured name, or ``oidc`` for all that an issuer signs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.failures = Counter(
            "ecntwin_authentication_failures",
            "Calls with a token that is no good, by reason (unknown, oidc, too_many: not told any more).",
            ["reason"],
            registry=registry,
        )
        self.limited = Counter(
            "ecntwin_requests_limited",
            "Calls answered 429 by the limits of their token, by token and limit (requests, bytes).",
            ["token", "limit"],
            registry=registry,
        )
        for reason in FAILURES:
            self.failures.labels(reason)


UDP_DROPS = ("queue", "kernel", "refused", "truncated")


class IngestMetrics:
    """What waits, and what was refused because too much did."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.refused = Counter(
            "ecntwin_ingest_refused",
            "Posted bodies that were not taken because too many bytes were waiting already.",
            registry=registry,
        )
        self.pending_bytes = Gauge(
            "ecntwin_ingest_pending_bytes",
            "Bytes of posted bodies being received or waiting.",
            registry=registry,
        )


class UdpMetrics:
    """Datagrams received, lost and waiting."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.received = Counter(
            "ecntwin_udp_datagrams_received",
            "Datagrams of telemetry reports received by UDP, dropped ones too.",
            registry=registry,
        )
        self.dropped = Counter(
            "ecntwin_udp_datagrams_dropped",
            "Datagrams lost, by where: queue (full), kernel (its buffer full, not received), refused (the "
            "sender may not send), truncated (too long).",
            ["where"],
            registry=registry,
        )
        for where in UDP_DROPS:
            self.dropped.labels(where)
        self.queue = Gauge(
            "ecntwin_udp_queue_datagrams", "Datagrams that wait to be decoded.", registry=registry
        )


_SUMMED = tuple(name for name in Rates._fields if name != "pause_share")


class NetworkMetrics:
    """A figure that nobody tells is not there, or NaN: never 0."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.alarms = Gauge(
            "ecntwin_alarms", "Alarms now, by kind and level.", ["kind", "level"], registry=registry
        )
        self.raised = Counter(
            "ecntwin_alarms_raised", "Alarms that were raised, by kind.", ["kind"], registry=registry
        )
        self.incast = Gauge(
            "ecntwin_incast_degree",
            "Most senders with a message under way to one receiver at once in the window, of the worst.",
            registry=registry,
        )
        self.mice = Gauge(
            "ecntwin_mice_to_elephants_ratio",
            "Mice for each elephant in the window, by flows and by bytes; NaN without elephants.",
            ["by"],
            registry=registry,
        )
        self.paused = Gauge(
            "ecntwin_switch_pause_ratio",
            "Share of time PFC kept the switch's most paused port from sending.",
            ["switch"],
            registry=registry,
        )
        rates = {
            "pfc_rx_frames_per_s": ("pfc_frames_received", "PFC frames a switch received"),
            "pfc_tx_frames_per_s": ("pfc_frames_sent", "PFC frames a switch sent"),
            "ecn_marked_per_s": ("ecn_marked_packets", "Packets a switch marked"),
            "cnp_per_s": ("cnp_packets", "Congestion notifications a switch passed"),
            "drops_per_s": ("dropped_packets", "Packets a switch dropped"),
            "wred_drops_per_s": ("wred_dropped_packets", "Packets WRED dropped at a switch"),
        }
        self.rates = {
            field: Gauge(
                f"ecntwin_switch_{name}_per_second",
                f"{what} a second, all its ports, lately.",
                ["switch"],
                registry=registry,
            )
            for field, (name, what) in rates.items()
        }
        self._shown: dict[Gauge, dict[str, Gauge]] = {one: {} for one in (self.paused, *self.rates.values())}
        for kind in KINDS:
            self.raised.labels(kind)
        self.incast.set(float("nan"))
        self.saw_alarms((), ())

    def saw_alarms(self, active: Iterable[Alarm], changes: Iterable[Change]) -> None:
        """The alarms of now, and what has just changed."""
        counted = Tally((alarm.subject.kind, alarm.level) for alarm in active)
        for kind in KINDS:
            for level in LEVELS:
                self.alarms.labels(kind, level.label).set(counted[kind, level])
        for change in changes:
            if change.what == "raised":
                self.raised.labels(change.alarm.subject.kind).inc()

    def saw_state(self, state: NetworkState | None) -> None:
        """Incast and mice of the window; None: it tells nothing of now."""
        worst = state.incast[0].degree if state is not None and state.incast else float("nan")
        self.incast.set(worst)
        flows = None if state is None else state.mice_to_elephants
        by_bytes = None if state is None else state.mice_to_elephants_bytes
        for by, ratio in (("flows", flows), ("bytes", by_bytes)):
            self.mice.labels(by).set(float("nan") if ratio is None else ratio)

    def saw_ports(self, ports: Iterable[PortRates]) -> None:
        """What every switch's ports did lately; switches that tell nothing of now are taken away."""
        paused: dict[str, float] = {}
        summed: dict[str, dict[str, float]] = {field: {} for field in _SUMMED}
        for port in ports:
            if port.rates.pause_share is not None:
                paused[port.switch] = max(port.rates.pause_share, paused.get(port.switch, 0.0))
            for field in _SUMMED:
                value = getattr(port.rates, field)
                if value is not None:
                    summed[field][port.switch] = summed[field].get(port.switch, 0.0) + value
        for gauge, values in ((self.paused, paused), *((self.rates[one], summed[one]) for one in _SUMMED)):
            shown = self._shown[gauge]
            for switch in shown.keys() - values.keys():
                gauge.remove(switch)
                del shown[switch]
            for switch, value in values.items():
                if switch not in shown:
                    shown[switch] = gauge.labels(switch)  # looking it up costs far more than setting it
                shown[switch].set(value)


class StorageMetrics:
    """Whether the database takes what is written, what waits for it, and what did for too long."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.failing = Gauge(
            "ecntwin_storage_failing",
            "1 while the database cannot be written, or was not read yet: no switch is set meanwhile.",
            registry=registry,
        )
        self.waiting = Gauge(
            "ecntwin_storage_waiting",
            "Entries of the history that wait to be written.",
            registry=registry,
        )
        self.dropped = Counter(
            "ecntwin_storage_dropped",
            "Entries of the history that waited for too long, or were refused, and are lost.",
            registry=registry,
        )

    def follow(self, *, failing: Callable[[], bool], waiting: Callable[[], int]) -> None:
        """Asks these whenever it is read."""
        self.failing.set_function(lambda: float(failing()))
        self.waiting.set_function(waiting)

    def lost(self, number: int) -> None:
        """So many more entries are lost."""
        self.dropped.inc(number)


ROUND_OUTCOMES = ("recommended", "kept", "failed", "skipped")
REJECT_REASONS = ("malformed", "late", "skewed", "unknown_place", "no_room")
SAMPLE_REJECT_REASONS = ("malformed", "late", "no_room")
ROLLOUT_OUTCOMES = ("done", "rolled_back")
_STEP_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)
_ROUND_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class Metrics:
    """All metrics of one service instance; each instance has a registry of its own."""

    def __init__(self, registry: CollectorRegistry, *, version: str) -> None:
        self.registry = registry
        self.accepted = Counter(
            "ecntwin_reports_accepted", "INT reports taken into the window.", registry=registry
        )
        self.rejected = Counter(
            "ecntwin_reports_rejected", "INT reports left out, by reason.", ["reason"], registry=registry
        )
        self.bodies = Counter(
            "ecntwin_report_bodies_refused",
            "Posted bodies that held no INT reports at all.",
            registry=registry,
        )
        self.ingest = IngestMetrics(registry)
        self.samples_accepted = Counter(
            "ecntwin_switch_samples_accepted", "Counter samples of switches taken.", registry=registry
        )
        self.samples_rejected = Counter(
            "ecntwin_switch_samples_rejected",
            "Counter samples left out, by reason.",
            ["reason"],
            registry=registry,
        )
        self.udp = UdpMetrics(registry)
        self.counter_polls = Counter(
            "ecntwin_counter_polls",
            "Looks at a switch's own counters that brought some, by adapter.",
            ["adapter"],
            registry=registry,
        )
        self.counter_poll_failures = Counter(
            "ecntwin_counter_poll_failures",
            "Looks at a switch's own counters that failed, by adapter and reason.",
            ["adapter", "reason"],
            registry=registry,
        )
        self.counter_values_refused = Counter(
            "ecntwin_counter_poll_values_refused",
            "Values of switches' counters that were no count and left out, by adapter.",
            ["adapter"],
            registry=registry,
        )
        self.counter_poll_age = Gauge(
            "ecntwin_counter_poll_age_seconds",
            "How long ago a switch's own counters last came; NaN before the first.",
            ["switch"],
            registry=registry,
        )
        self.flows = Gauge("ecntwin_flows", "Flows in the window, by class.", ["class"], registry=registry)
        self.last_report = Gauge(
            "ecntwin_last_report_timestamp_seconds",
            "When the newest report arrived, Unix time.",
            registry=registry,
        )
        self.stage_seconds = Histogram(
            "ecntwin_round_stage_duration_seconds",
            "Time a tuning round spent in each of its stages.",
            ["stage"],
            buckets=_ROUND_BUCKETS_S,
            registry=registry,
        )
        self.round_seconds = Histogram(
            "ecntwin_round_duration_seconds",
            "Time from the start of a tuning round to its recommendation.",
            buckets=_ROUND_BUCKETS_S,
            registry=registry,
        )
        self.rounds = Counter("ecntwin_rounds", "Tuning rounds, by outcome.", ["outcome"], registry=registry)
        self.running = Gauge("ecntwin_round_running", "1 while a tuning round runs.", registry=registry)
        self.candidates_per_second = Gauge(
            "ecntwin_round_candidates_per_second",
            "Candidates the last round judged a second.",
            registry=registry,
        )
        watermark_labels = ["switch", "role"]
        self.kmin = Gauge(
            "ecntwin_watermark_kmin_bytes",
            "Kmin by switch; role current is what it runs, recommended what the newest recommendation says.",
            watermark_labels,
            registry=registry,
        )
        self.kmax = Gauge(
            "ecntwin_watermark_kmax_bytes", "Kmax by switch and role.", watermark_labels, registry=registry
        )
        self.pmax = Gauge(
            "ecntwin_watermark_pmax_ratio", "Pmax by switch and role.", watermark_labels, registry=registry
        )
        self.predicted_queue = Gauge(
            "ecntwin_predicted_queue_bytes",
            "Mean bottleneck queue the twin predicted in the last round, by role.",
            ["role"],
            registry=registry,
        )
        self.measured_queue = Gauge(
            "ecntwin_measured_queue_bytes",
            "Mean bottleneck queue telemetry measured in the window of the last round.",
            registry=registry,
        )
        self.residual = Gauge(
            "ecntwin_twin_residual_ratio",
            "Predicted over measured mean queue of the incumbent, less 1; 0 is a twin in step.",
            registry=registry,
        )
        self.reachable = Gauge(
            "ecntwin_switch_reachable",
            "1 where the switch answered when it was last read, 0 where not.",
            ["switch"],
            registry=registry,
        )
        self.disagreement = Gauge(
            "ecntwin_engine_disagreement_ratio",
            "How far the engines of the last round differ in the figure they differ in most, the larger over "
            "the smaller, less 1; 0 is agreement, NaN a round without a second opinion.",
            registry=registry,
        )
        self.disagreement.set(math.nan)
        self.drifted = Gauge(
            "ecntwin_switch_drifted",
            "1 where the switch was last read to run something else than was last set on it from here.",
            ["switch"],
            registry=registry,
        )
        self.step_seconds = Histogram(
            "ecntwin_switch_step_duration_seconds",
            "Time a step on a switch took, by adapter and step (stage, apply, verify, confirm, check, undo).",
            ["adapter", "step"],
            buckets=_STEP_BUCKETS_S,
            registry=registry,
        )
        self.switch_failures = Counter(
            "ecntwin_switch_failures",
            "Steps on switches that failed, by adapter and reason; what was tried again counts each time.",
            ["adapter", "reason"],
            registry=registry,
        )
        self.switch_rollbacks = Counter(
            "ecntwin_switch_rollbacks",
            "Switches returned to what they ran before a change, by adapter.",
            ["adapter"],
            registry=registry,
        )
        self.rollouts = Counter(
            "ecntwin_rollouts",
            "Rollouts that ended, by outcome (done, rolled_back).",
            ["outcome"],
            registry=registry,
        )
        self.rollouts_active = Gauge("ecntwin_rollouts_active", "Rollouts under way.", registry=registry)
        self.frozen = Gauge(
            "ecntwin_switches_frozen",
            "1 while operators let no switch be set, or that is not known.",
            registry=registry,
        )
        self.tasks = Gauge(
            "ecntwin_asyncio_tasks",
            "Tasks on the service's event loop; one that grows from day to day is a leak.",
            registry=registry,
        )
        self.network = NetworkMetrics(registry)
        self.storage = StorageMetrics(registry)
        self.binary = BinaryMetrics(registry)
        self.access = AccessMetrics(registry)
        Info("ecntwin_build", "What is running.", registry=registry).info(
            {"version": version, "python": platform.python_version()}
        )
        for reason in REJECT_REASONS:
            self.rejected.labels(reason)
        for reason in SAMPLE_REJECT_REASONS:
            self.samples_rejected.labels(reason)
        for outcome in ROUND_OUTCOMES:
            self.rounds.labels(outcome)
        for ended in ROLLOUT_OUTCOMES:
            self.rollouts.labels(ended)
        for flow_class in FlowClass:
            self.flows.labels(flow_class.label).set(0)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """The metrics as text, and its media type, as the ``Accept`` header asks."""
        encode, media_type = choose_encoder(accept)
        return encode(self.registry), media_type

    def saw_state(self, state: NetworkState) -> None:
        """Flows by class of the window just read."""
        for flow_class in FlowClass:
            self.flows.labels(flow_class.label).set(state.flows_by_class.get(flow_class, 0))

    def saw_watermarks(self, role: str, watermarks: Mapping[str, Watermark | None]) -> None:
        """What each switch runs (role ``current``) or should (``recommended``); unknown ones are left out."""
        for switch, watermark in watermarks.items():
            if watermark is None:
                continue
            self.kmin.labels(switch, role).set(watermark.kmin_bytes)
            self.kmax.labels(switch, role).set(watermark.kmax_bytes)
            self.pmax.labels(switch, role).set(watermark.pmax)
