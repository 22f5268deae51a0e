"""Metrics of what the network does and of its alarms; labels name switches and kinds, no port and no flow."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge

from settings.kinds import KINDS
from telemetry.alarms.board import LEVELS, Alarm, Change
from telemetry.counters.counter_rates import PortRates, Rates
from telemetry.state import NetworkState

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
