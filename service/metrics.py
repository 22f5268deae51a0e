"""Every metric the service exposes, declared once, on a registry that is passed in; no label names a flow."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.exposition import choose_encoder

from service.binary_metrics import BinaryMetrics
from service.metrics_access import AccessMetrics
from service.metrics_ingest import IngestMetrics, UdpMetrics
from service.metrics_network import NetworkMetrics
from service.metrics_storage import StorageMetrics
from telemetry.state import FlowClass, NetworkState
from twin.watermark import Watermark

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
