"""Every Prometheus metric of the service and of ``ecntwin ingest``, on the registry passed in.

What telemetry, alarms and recommendations say of the network is declared in ``service.network_metrics``: with
it this file would pass 600 lines. No other module declares a metric.

No label names a flow, a person or an address. A value that is not known is absent or NaN, never 0.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Mapping, Set
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.exposition import choose_encoder

from service.network_metrics import (
    MOST_STRANGERS,
    AdviceMetrics,
    ConditionMetrics,
    LosslessMetrics,
    NetworkMetrics,
    NicMetrics,
    RecommendationMetrics,
)
from twin.watermark import Watermark

OTHERS = "other"
"""The label that senders missing from the inventory share, beyond ``MOST_STRANGERS`` of them."""


class BinaryMetrics:
    """Binary INT reports, by sending switch. Call ``register_switches`` first; other labels are bounded."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self._labels: set[str] = set()
        self._most = MOST_STRANGERS
        self.datagrams = counter("ecntwin_int_datagrams", "Binary INT datagrams, by sender.", ["switch"])
        self.lost = gauge(
            "ecntwin_int_datagrams_lost",
            "Datagrams lost since the start, by gaps in their sender's sequence numbers; one that arrives "
            "late is no longer counted.",
            ["switch"],
        )
        self.restarts = counter(
            "ecntwin_int_sender_restarts", "Times a sender began its sequence numbers anew.", ["switch"]
        )
        self.drops = counter(
            "ecntwin_int_drop_reports",
            "INT reports of packets that were dropped, by the switch and egress queue that dropped them.",
            ["switch", "queue"],
        )
        self.flagged = counter(
            "ecntwin_int_flagged_reports",
            "Binary INT reports by the flag they carry (congested_queue, tracked_flow, intermediate).",
            ["switch", "flag"],
        )
        self.postcards = counter(
            "ecntwin_int_postcards",
            "Postcards (reports of one hop), by outcome: merged (into a path), surplus (a second one from "
            "the same node about the same packet), late (the packet's path was passed on before).",
            ["outcome"],
        )
        self.untuned = gauge(
            "ecntwin_int_untuned",
            "1 for a switch that reports INT in unknown units: it is shown but not tuned. Where several "
            "share a label, their number.",
            ["switch"],
        )

    def register_switches(self, switches: Iterable[str]) -> None:
        """Gives each switch of the inventory its own label."""
        self._labels.update(switches)
        self._most = len(self._labels) + MOST_STRANGERS

    def label(self, switch: str) -> str:
        if switch not in self._labels:
            if len(self._labels) >= self._most:
                return OTHERS
            self._labels.add(switch)
        return switch


FAILURES = ("unknown", "oidc", "too_many")
STATUS_CLASSES = ("2xx", "3xx", "4xx", "5xx")
_REQUEST_BUCKETS_S = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0)


class AccessMetrics:
    """Requests, authentication and rate limits. ``token`` is a token's name, or ``oidc`` for an issuer's."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.failures = Counter(
            "ecntwin_authentication_failures",
            "Calls with an invalid token, by reason: unknown (token), oidc (token of the issuer that failed "
            "verification), too_many (answered 429 after too many failures from its address).",
            ["reason"],
            registry=registry,
        )
        self.limited = Counter(
            "ecntwin_requests_limited",
            "Calls answered 429 by the limits of their token, by token and limit (requests, bytes).",
            ["token", "limit"],
            registry=registry,
        )
        self.request_seconds = Histogram(
            "ecntwin_http_request_duration_seconds",
            "Time from the end of the request headers to the response headers, by status class (2xx, 3xx, "
            "4xx, 5xx).",
            ["status"],
            buckets=_REQUEST_BUCKETS_S,
            registry=registry,
        )
        for reason in FAILURES:
            self.failures.labels(reason)
        for status in STATUS_CLASSES:
            self.request_seconds.labels(status)


UDP_DROPS = ("queue", "kernel", "refused", "truncated")


class IngestMetrics:
    """Posted bodies: bytes held, and bodies refused with 429."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self.refused = counter(
            "ecntwin_ingest_refused",
            "Posted bodies that were not taken because too many bytes were waiting already.",
        )
        self.pending_bytes = gauge(
            "ecntwin_ingest_pending_bytes", "Bytes of posted bodies being received or waiting."
        )


class UdpMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self.received = counter(
            "ecntwin_udp_datagrams_received",
            "Datagrams of telemetry reports received by UDP, dropped ones too.",
        )
        self.dropped = counter(
            "ecntwin_udp_datagrams_dropped",
            "Datagrams dropped, by where: queue (full), kernel (socket buffer full; not counted as "
            "received), refused (sender not allowed), truncated (too long).",
            ["where"],
        )
        for where in UDP_DROPS:
            self.dropped.labels(where)
        self.queue = gauge("ecntwin_udp_queue_datagrams", "Datagrams that wait to be decoded.")


class StorageMetrics:
    """Database writes: failing, queued and dropped."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self.failing = gauge(
            "ecntwin_storage_failing",
            "1 while the database cannot be written, or was not read yet: no switch is set meanwhile.",
        )
        self.waiting = gauge("ecntwin_storage_waiting", "Entries of the history that wait to be written.")
        self.dropped = counter(
            "ecntwin_storage_dropped",
            "History entries lost because they waited too long or the database refused them.",
        )


ROUND_OUTCOMES = ("recommended", "kept", "failed", "skipped")
REJECT_REASONS = ("malformed", "late", "skewed", "unknown_place", "no_room")
SAMPLE_REJECT_REASONS = ("malformed", "late", "no_room")
ROLLOUT_OUTCOMES = ("done", "rolled_back")
_STEP_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)
_ROUND_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 90.0, 120.0, 180.0, 300.0)


class _Exposed:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """The metrics as text, and the media type negotiated from the ``Accept`` header."""
        encode, media_type = choose_encoder(accept)
        return encode(self.registry), media_type


class Metrics(_Exposed):
    def __init__(self, registry: CollectorRegistry, *, version: str) -> None:
        super().__init__(registry)
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self.accepted = counter("ecntwin_reports_accepted", "INT reports taken into the window.")
        self.rejected = counter("ecntwin_reports_rejected", "INT reports left out, by reason.", ["reason"])
        self.bodies = counter(
            "ecntwin_report_bodies_refused", "Posted bodies that held no INT reports at all."
        )
        self.ingest = IngestMetrics(registry)
        self.samples_accepted = counter(
            "ecntwin_switch_samples_accepted", "Counter samples of switches taken."
        )
        self.samples_rejected = counter(
            "ecntwin_switch_samples_rejected", "Counter samples left out, by reason.", ["reason"]
        )
        self.udp = UdpMetrics(registry)
        self.counter_polls = counter(
            "ecntwin_counter_polls",
            "Polls of a switch's counters that returned some, by adapter.",
            ["adapter"],
        )
        self.counter_poll_failures = counter(
            "ecntwin_counter_poll_failures",
            "Polls of a switch's counters that failed, by adapter and reason.",
            ["adapter", "reason"],
        )
        self.counter_values_refused = counter(
            "ecntwin_counter_poll_values_refused",
            "Polled counter values that were not a count and were ignored, by adapter.",
            ["adapter"],
        )
        self.counter_poll_age = gauge(
            "ecntwin_counter_poll_age_seconds",
            "Time since a switch's counters were last polled successfully; NaN before the first time.",
            ["switch"],
        )
        self.last_report = gauge(
            "ecntwin_last_report_timestamp_seconds", "When the newest report arrived, Unix time."
        )
        self.stage_seconds = histogram(
            "ecntwin_round_stage_duration_seconds",
            "Time a tuning round spent in each of its stages.",
            ["stage"],
            buckets=_ROUND_BUCKETS_S,
        )
        self.round_seconds = histogram(
            "ecntwin_round_duration_seconds",
            "Time from the start of a tuning round to its recommendation.",
            buckets=_ROUND_BUCKETS_S,
        )
        self.rounds = counter("ecntwin_rounds", "Tuning rounds, by outcome.", ["outcome"])
        self.running = gauge("ecntwin_round_running", "1 while a tuning round runs.")
        self.candidates_per_second = gauge(
            "ecntwin_round_candidates_per_second", "Candidates the last round judged a second."
        )
        watermark_labels = ["switch", "role"]
        self.kmin = gauge(
            "ecntwin_watermark_kmin_bytes",
            "Kmin by switch; role current is what it runs, recommended what the newest recommendation says.",
            watermark_labels,
        )
        self.kmax = gauge("ecntwin_watermark_kmax_bytes", "Kmax by switch and role.", watermark_labels)
        self.pmax = gauge("ecntwin_watermark_pmax_ratio", "Pmax by switch and role.", watermark_labels)
        self.predicted_queue = gauge(
            "ecntwin_predicted_queue_bytes",
            "Mean bottleneck queue the twin predicted in the last round, by role.",
            ["role"],
        )
        self.measured_queue = gauge(
            "ecntwin_measured_queue_bytes",
            "Mean bottleneck queue telemetry measured in the window of the last round.",
        )
        self.residual = gauge(
            "ecntwin_twin_residual_ratio",
            "Mean queue predicted for the incumbent, divided by the measured one, minus 1; 0 is a perfect "
            "prediction.",
        )
        self.gain_predicted = gauge(
            "ecntwin_gain_predicted_ratio",
            "Gain that the twin predicted for the last rollout whose gain was measured; 0.1 is about ten "
            "percent better.",
        )
        self.gain_measured = gauge(
            "ecntwin_gain_measured_ratio", "Gain measured after the last rollout whose gain was measured."
        )
        self.gain_error = gauge(
            "ecntwin_gain_error_ratio",
            "Predicted minus measured gain of the last rollout whose gain was measured; 0 is a perfect "
            "prediction.",
        )
        for unknown in (self.candidates_per_second, self.measured_queue, self.residual):
            unknown.set(math.nan)
        self.saw_gain(math.nan, math.nan)
        self.reachable = gauge(
            "ecntwin_switch_reachable",
            "1 where the switch answered when it was last read, 0 where not.",
            ["switch"],
        )
        self.disagreement = gauge(
            "ecntwin_engine_disagreement_ratio",
            "Largest disagreement of the last round's two engines over all figures: the larger value divided "
            "by the smaller, minus 1; 0 is agreement, NaN without a second opinion.",
        )
        self.disagreement.set(math.nan)
        self.drifted = gauge(
            "ecntwin_switch_drifted",
            "1 if the switch, when last read, did not run the watermark that the service last set on it.",
            ["switch"],
        )
        self.step_seconds = histogram(
            "ecntwin_switch_step_duration_seconds",
            "Time a step on a switch took, by adapter and step (stage, apply, verify, confirm, check, undo).",
            ["adapter", "step"],
            buckets=_STEP_BUCKETS_S,
        )
        self.switch_failures = counter(
            "ecntwin_switch_failures",
            "Failed steps on switches, by adapter and reason; every failed retry counts.",
            ["adapter", "reason"],
        )
        self.switch_rollbacks = counter(
            "ecntwin_switch_rollbacks",
            "Switches returned to what they ran before a change, by adapter.",
            ["adapter"],
        )
        self.rollouts_begun = counter("ecntwin_rollouts_begun", "Rollouts that began.")
        self.rollouts = counter(
            "ecntwin_rollouts", "Rollouts that ended, by outcome (done, rolled_back).", ["outcome"]
        )
        self.rollouts_active = gauge("ecntwin_rollouts_active", "Rollouts under way.")
        self.frozen = gauge(
            "ecntwin_switches_frozen", "1 while switches are frozen by an operator, or the freeze is unknown."
        )
        self.tasks = gauge(
            "ecntwin_asyncio_tasks",
            "Tasks on the service's event loop; one that grows from day to day is a leak.",
        )
        self.condition = ConditionMetrics(registry)
        self.recommendation = RecommendationMetrics(registry)
        self.network = NetworkMetrics(registry)
        self.storage = StorageMetrics(registry)
        self.binary = BinaryMetrics(registry)
        self.access = AccessMetrics(registry)
        self.nics = NicMetrics(registry)
        self.lossless = LosslessMetrics(registry)
        self.advice = AdviceMetrics(registry)
        Info("ecntwin_build", "What is running.", registry=registry).info(
            {"version": version, "python": platform.python_version()}
        )
        for labelled, values in (
            (self.rejected, REJECT_REASONS),
            (self.samples_rejected, SAMPLE_REJECT_REASONS),
            (self.rounds, ROUND_OUTCOMES),
            (self.rollouts, ROLLOUT_OUTCOMES),
        ):
            for value in values:
                labelled.labels(value)

    def saw_gain(self, predicted: float, measured: float) -> None:
        """Sets the gains of a measured rollout; NaN: none yet."""
        self.gain_predicted.set(predicted)
        self.gain_measured.set(measured)
        self.gain_error.set(predicted - measured)

    def saw_watermarks(self, role: str, watermarks: Mapping[str, Watermark | None]) -> None:
        """Sets each switch's known watermark, by role (``current`` or ``recommended``: of no others then)."""
        series = self.network.series
        put = series.show if role == "recommended" else series.update
        known = {switch: mark for switch, mark in watermarks.items() if mark is not None}
        put(self.kmin, {switch: mark.kmin_bytes for switch, mark in known.items()}, role)
        put(self.kmax, {switch: mark.kmax_bytes for switch, mark in known.items()}, role)
        put(self.pmax, {switch: mark.pmax for switch, mark in known.items()}, role)

    def saw_switch(self, switch: str, runs: Watermark, *, reachable: bool, drifted: bool) -> None:
        """Sets what a switch was read to run, and whether it answered and has drifted."""
        self.network.series.update(self.reachable, {switch: reachable})
        self.network.series.update(self.drifted, {switch: drifted})
        self.saw_watermarks("current", {switch: runs})

    def keep_switches(self, switches: Set[str]) -> None:
        """Removes what is told of all other switches by their readings and recommendations."""
        told = self.reachable, self.drifted, self.kmin, self.kmax, self.pmax
        self.network.series.keep(switches, *told)


class ForwardMetrics(_Exposed):
    """The metrics of one ``ecntwin ingest`` process: reports decoded here and forwarded to the service."""

    def __init__(self, registry: CollectorRegistry, *, version: str) -> None:
        counter = partial(Counter, registry=registry)
        super().__init__(registry)
        self.ingest = IngestMetrics(registry)
        self.udp = UdpMetrics(registry)
        self.binary = BinaryMetrics(registry)
        self.access = AccessMetrics(registry)
        self.decoded = counter("ecntwin_ingest_reports_decoded", "INT reports decoded here.")
        self.malformed = counter(
            "ecntwin_ingest_reports_malformed", "INT reports left out here because they cannot be used."
        )
        self.bodies = counter("ecntwin_ingest_bodies_malformed", "Posted bodies that held no reports at all.")
        self.forwarded = counter(
            "ecntwin_ingest_reports_forwarded",
            "INT reports forwarded to the service, including those it rejected.",
        )
        self.left_out = counter(
            "ecntwin_ingest_reports_left_out", "INT reports forwarded to the service that it rejected."
        )
        self.retries = counter(
            "ecntwin_ingest_forward_retries", "Posts to the service that failed and were retried."
        )
        Info("ecntwin_build", "What is running.", registry=registry).info({"version": version})
