"""The metrics of the network, its condition, its alarms, and the recommendation in force.

``service.metrics`` declares all others, and creates these.
"""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge

from lossless.report import RULES
from service.documents.fabric import ConditionDocument
from settings.alarms import KINDS
from telemetry.alarms import LEVELS, Level
from telemetry.counters.window import PortRates, Rates
from telemetry.state import FlowClass, NetworkState
from twin.advice.guard import ABSTAINED
from twin.watermark import Watermark

MOST_STRANGERS = 256
"""Switches that get labels of their own without being in settings, inventory or the declared topology."""

_Series = tuple[Gauge, tuple[str, ...]]
_SUMMED = tuple(name for name in Rates._fields if name not in ("pause_share", "tx_bytes_per_s"))


class SwitchSeries:
    """The series of gauges by switch (or its role), their first label; ``others`` are further ones.

    Senders name switches: of those that nobody declared a gauge shows at most ``MOST_STRANGERS`` at a time
    with the same other labels, each until it is removed.
    """

    def __init__(self) -> None:
        self._declared: frozenset[str] = frozenset()
        self._shown: defaultdict[_Series, dict[str, Gauge]] = defaultdict(dict)
        self._strangers: defaultdict[_Series, set[str]] = defaultdict(set)

    def knows(self, names: Iterable[str]) -> None:
        """Those that are declared from now on."""
        self._declared = frozenset(names)
        for series, shown in self._shown.items():
            self._strangers[series] = shown.keys() - self._declared

    def show(self, gauge: Gauge, values: Mapping[str, float], *others: str) -> None:
        """Sets the values by switch; the series of all others are removed."""
        self._keep((gauge, others), values.keys())
        self.update(gauge, values, *others)

    def update(self, gauge: Gauge, values: Mapping[str, float], *others: str) -> None:
        """Sets the values by switch; all others stay."""
        shown, strangers = self._shown[gauge, others], self._strangers[gauge, others]
        for switch, value in values.items():
            if switch not in shown:
                if switch not in self._declared:
                    if len(strangers) >= MOST_STRANGERS:
                        continue
                    strangers.add(switch)
                shown[switch] = gauge.labels(switch, *others)  # the lookup costs far more than set()
            shown[switch].set(value)

    def keep(self, switches: Set[str], *gauges: Gauge) -> None:
        """Removes the series of all but these switches, whatever their other labels."""
        for series in [one for one in self._shown if one[0] in gauges]:
            self._keep(series, switches)

    def _keep(self, series: _Series, switches: Set[str]) -> None:
        gauge, others = series
        for switch in self._shown[series].keys() - switches:
            gauge.remove(switch, *others)
            del self._shown[series][switch]
            self._strangers[series].discard(switch)


class NetworkMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self.alarms = gauge(
            "ecntwin_alarms", "Alarms now that no silence covers, by kind and level.", ["kind", "level"]
        )
        self.silenced = gauge("ecntwin_alarms_silenced", "Alarms now that a silence covers.")
        self.raised = counter("ecntwin_alarms_raised", "Alarms that were raised, by kind.", ["kind"])
        self.incast = gauge(
            "ecntwin_incast_degree",
            "Largest number of senders with unfinished messages to one receiver at any moment of the window.",
        )
        self.flows = gauge(
            "ecntwin_flows", "Flows in the window, by class; NaN without fresh reports.", ["class"]
        )
        self.mice = gauge(
            "ecntwin_mice_to_elephants_ratio",
            "Mice for each elephant in the window, by flows and by bytes; NaN without elephants.",
            ["by"],
        )
        self.paused = gauge(
            "ecntwin_switch_pause_ratio",
            "Share of time PFC kept the switch's most paused port from sending.",
            ["switch"],
        )
        self.queue_p99 = gauge(
            "ecntwin_queue_p99_bytes",
            "99th percentile of the depth of the worst queue in the window, by role of its switch: leaf "
            "(with hosts), spine (next to a leaf), core (further away), other.",
            ["switch_role"],
        )
        self.switch_queue_p99 = gauge(
            "ecntwin_switch_queue_p99_bytes",
            "99th percentile of the depth of the switch's worst queue in the window.",
            ["switch"],
        )
        self.paused_by_role = gauge(
            "ecntwin_pause_ratio",
            "Share of time PFC kept the most paused port from sending, by role of its switch.",
            ["switch_role"],
        )
        self.goodput = gauge(
            "ecntwin_goodput_bytes_per_second",
            "Bytes a second that reached their receivers in the window, headers included; NaN without fresh "
            "reports.",
        )
        rates = {
            "pfc_rx_frames_per_s": ("pfc_frames_received", "PFC frames a switch received"),
            "pfc_tx_frames_per_s": ("pfc_frames_sent", "PFC frames a switch sent"),
            "ecn_marked_per_s": ("ecn_marked_packets", "Packets a switch marked"),
            "cnp_per_s": ("cnp_packets", "Congestion notification packets a switch forwarded"),
            "drops_per_s": ("dropped_packets", "Packets a switch dropped"),
            "wred_drops_per_s": ("wred_dropped_packets", "Packets WRED dropped at a switch"),
        }
        self.rates = {
            field: gauge(
                f"ecntwin_switch_{name}_per_second",
                f"{what} per second recently, over all its ports.",
                ["switch"],
            )
            for field, (name, what) in rates.items()
        }
        self._roles: Mapping[str, str] = {}
        self.series = SwitchSeries()
        self.saw_state(None)
        self.knows_kinds(KINDS)

    def knows_switches(self, names: Iterable[str]) -> None:
        """Those of settings, inventory and declared topology always have labels of their own."""
        self.series.knows(names)

    def knows_kinds(self, kinds: Iterable[str]) -> None:
        """Shows these kinds of alarms, of which there are none now."""
        self._kinds = tuple(kinds)
        for kind in self._kinds:
            self.raised.labels(kind)
        self.saw_alarms((), silenced=0)

    def saw_alarms(self, active: Iterable[tuple[str, Level]], *, silenced: int) -> None:
        """Sets the alarms, each a kind and a level, that are not silenced, and how many are."""
        counted = Tally(active)
        self.silenced.set(silenced)
        for kind in self._kinds:
            for level in LEVELS:
                self.alarms.labels(kind, level.label).set(counted[kind, level])

    def raised_alarms(self, kinds: Iterable[str]) -> None:
        for kind in kinds:
            self.raised.labels(kind).inc()

    def saw_state(self, state: NetworkState | None) -> None:
        """Incast degree, flows, mice ratio, goodput and deepest queues of the window; NaN or absent where
        ``state`` is None (stale or empty).
        """
        worst = state.incast[0].degree if state is not None and state.incast else float("nan")
        self.incast.set(worst)
        flows = None if state is None else state.mice_to_elephants
        by_bytes = None if state is None else state.mice_to_elephants_bytes
        for by, ratio in (("flows", flows), ("bytes", by_bytes)):
            self.mice.labels(by).set(float("nan") if ratio is None else ratio)
        for flow_class in FlowClass:
            known = math.nan if state is None else state.flows_by_class.get(flow_class, 0)
            self.flows.labels(flow_class.label).set(known)
        carried = math.nan if state is None else float(state.flows.throughput_bytes_per_s.sum())
        self.goodput.set(carried)
        deepest: dict[str, float] = {}
        by_switch: dict[str, float] = {}
        if state is not None:
            self._roles = state.topology.roles
            for queue in state.queues:
                if queue.has_depth:
                    switch, role = queue.ref.switch, self._role(queue.ref.switch)
                    deepest[role] = max(queue.depth_p99_bytes, deepest.get(role, 0.0))
                    by_switch[switch] = max(queue.depth_p99_bytes, by_switch.get(switch, 0.0))
        self.series.show(self.queue_p99, deepest)
        self.series.show(self.switch_queue_p99, by_switch)

    def _role(self, switch: str) -> str:
        return self._roles.get(switch, "other")

    def saw_ports(self, ports: Iterable[PortRates]) -> None:
        """Recent port rates by switch; removes the series of switches without current counters."""
        paused: dict[str, float] = {}
        by_role: dict[str, float] = {}
        summed: dict[str, dict[str, float]] = {field: {} for field in _SUMMED}
        for port in ports:
            if port.rates.pause_share is not None:
                paused[port.switch] = max(port.rates.pause_share, paused.get(port.switch, 0.0))
                role = self._role(port.switch)
                by_role[role] = max(port.rates.pause_share, by_role.get(role, 0.0))
            for field in _SUMMED:
                value = getattr(port.rates, field)
                if value is not None:
                    summed[field][port.switch] = summed[field].get(port.switch, 0.0) + value
        self.series.show(self.paused, paused)
        self.series.show(self.paused_by_role, by_role)
        for one in _SUMMED:
            self.series.show(self.rates[one], summed[one])


LEVEL_VALUES: Mapping[str, float] = {"well": 0, "watch": 1, "bad": 2, "unknown": math.nan}


class ConditionMetrics:
    """The verdict on the fabric and its figures; NaN while unknown."""

    def __init__(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        self._level = gauge(
            "ecntwin_condition_level",
            "Verdict on the fabric, from the thresholds under condition and from critical alarms: 0 well, "
            "1 watch, 2 bad; NaN without fresh reports.",
        )
        self._figures_level = gauge(
            "ecntwin_condition_figures_level",
            "Worst level of the condition's figures, whatever the alarms: 0 well, 1 watch, 2 bad; NaN "
            "without fresh reports.",
        )
        figures = {
            "packet_p99_slowdown": (
                "packet_p99_slowdown",
                "99th percentile of a full packet's time to its acknowledgement ÷ its time on an idle path.",
            ),
            "elephant_slowdown": (
                "elephant_slowdown",
                "Mean completion time of messages of 1 MB or more ÷ their time on an idle path.",
            ),
            "paused_share": ("paused", "Share of port time that PFC paused."),
            "loss_share": ("lost", "Packets dropped over packets sent."),
            "marked_share": ("marked", "Packets marked over packets that arrived."),
        }
        self._figures = {
            figure: gauge(f"ecntwin_condition_{name}_ratio", text) for figure, (name, text) in figures.items()
        }
        for one in (self._level, self._figures_level, *self._figures.values()):
            one.set(math.nan)

    def saw(self, condition: ConditionDocument) -> None:
        """Sets all gauges; an unknown condition's figures are outdated, and become NaN."""
        level = LEVEL_VALUES[condition.level]
        worst = max(LEVEL_VALUES[figure.level] for figure in condition.figures)
        self._level.set(level)
        self._figures_level.set(math.nan if math.isnan(level) else worst)
        for figure in condition.figures:
            value = None if condition.level == "unknown" else figure.value
            self._figures[figure.name].set(math.nan if value is None else value)


class RecommendationMetrics:
    """The recommendation in force; NaN before the first."""

    def __init__(self, registry: CollectorRegistry) -> None:
        helps = {
            "kmin_bytes": "Kmin of the recommendation in force.",
            "kmax_bytes": "Kmax of the recommendation in force.",
            "pmax_ratio": "Pmax of the recommendation in force.",
            "gain_ratio": "Gain predicted for the recommendation in force over the incumbent; 0.1 is about "
            "ten percent better, NaN for normalised scores.",
            "gain_error_ratio": "Standard error of that predicted gain.",
            "age_seconds": "Time since the recommendation in force was made.",
            "pending": "1 while it waits for a decision.",
        }
        self._gauges = {
            name: Gauge(f"ecntwin_recommendation_{name}", text, registry=registry)
            for name, text in helps.items()
        }
        for gauge in self._gauges.values():
            gauge.set(math.nan)

    def saw(
        self,
        watermark: Watermark,
        *,
        gain: float | None,
        gain_error: float | None,
        age_s: float,
        pending: bool,
    ) -> None:
        """Sets all gauges; None becomes NaN (unknown)."""
        marks = (watermark.kmin_bytes, watermark.kmax_bytes, watermark.pmax)
        values = (*marks, gain, gain_error, age_s, pending)
        for gauge, value in zip(self._gauges.values(), values, strict=True):
            gauge.set(math.nan if value is None else value)


class LosslessMetrics:
    """NaN until the fabric was checked."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._findings = Gauge(
            "ecntwin_lossless_findings",
            "Findings on PFC, ECN, buffers and NICs of the fabric, by the rule that is broken, as last read.",
            ["rule"],
            registry=registry,
        )
        for rule in RULES:
            self._findings.labels(rule).set(math.nan)

    def saw(self, findings: Mapping[str, int]) -> None:
        for rule in RULES:
            self._findings.labels(rule).set(findings.get(rule, 0))


ADVICE_LOOKS = ("given", *ABSTAINED)
ADVICE_ROUNDS = ("confirmed", "contradicted", "untold")


class AdviceMetrics:
    """Advice between rounds, and how the next round answers."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        self.looks = counter(
            "ecntwin_advice_looks",
            "Looks between rounds, by outcome: given (some advice), or why there was none: range (a feature "
            "outside what was learnt), regret (it may be too far from the best), senders (not DCQCN alone), "
            "held (by the push gate), unknown (the traffic).",
            ["outcome"],
        )
        self.rounds = counter(
            "ecntwin_advice_rounds",
            "Rounds that followed advice, by whether they gained more than the margin beyond it: confirmed, "
            "contradicted, untold.",
            ["outcome"],
        )
        for labelled, outcomes in ((self.looks, ADVICE_LOOKS), (self.rounds, ADVICE_ROUNDS)):
            for outcome in outcomes:
                labelled.labels(outcome)


class NicMetrics:
    """Of hosts' NICs. No label names one: a cluster has thousands."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self.reads = counter(
            "ecntwin_nic_reads", "Looks at a host's NICs that brought some, by adapter.", ["adapter"]
        )
        self.failures = counter(
            "ecntwin_nic_read_failures",
            "Looks at a host's NICs that failed, by adapter and reason.",
            ["adapter", "reason"],
        )
        self.age = gauge(
            "ecntwin_nic_read_age_seconds",
            "How long ago the NICs of the host that is longest unread were read; NaN where one never was.",
        )
        self.age.set(math.nan)
        self.unread = gauge("ecntwin_nic_hosts_unread", "Hosts whose NICs could not be read when last tried.")
        self.differing = gauge(
            "ecntwin_nics_differing",
            "NICs that run other DCQCN parameters than most of their class, as last read.",
        )
        self.contradicts = gauge(
            "ecntwin_sender_contradicts",
            "1 while NICs run other DCQCN parameters than the settings say; the twin takes the NICs'.",
        )
        self.events = counter(
            "ecntwin_nic_events",
            "What NICs counted since the service started, by class of their host and counter: CNPs sent and "
            "handled, packets marked, out of sequence, pause frames (rx_pause, tx_pause, of all priorities).",
            ["class", "counter"],
        )
