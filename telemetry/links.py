"""Conditions that an operator puts on links: the ports they cover, and the figure of a port they watch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from telemetry.alarms import Rule, figure_text
from telemetry.counters.window import PortRates
from telemetry.roles import port_roles
from telemetry.state import QueueState
from telemetry.topology import Topology

KIND_BEGINS = "link:"
"""Of the kind of alarm that a condition raises; its name follows. No built-in kind begins so."""

FigureName = Literal[
    "utilisation",
    "forecast_utilisation",
    "depth_mean_bytes",
    "depth_p99_bytes",
    "depth_max_bytes",
    "marked_ratio",
    "pause_share",
    "pfc_rx_frames_per_s",
    "pfc_tx_frames_per_s",
    "ecn_marked_per_s",
    "cnp_per_s",
    "drops_per_s",
    "wred_drops_per_s",
]
"""Named as in ``GET /v1/state`` and ``GET /v1/history/forecast``."""


class Figure(NamedTuple):
    """``says``: what a link does whose figure this is. ``source``: where it comes from."""

    unit: Literal["share", "bytes", "per_second"]
    says: str
    source: str


_REPORTS, _COUNTERS = "INT reports", "counters"
FORECAST: Literal["forecast_utilisation"] = "forecast_utilisation"
FIGURES: Mapping[FigureName, Figure] = {
    "utilisation": Figure("share", "carries {} of its rate", "INT reports or counters"),
    FORECAST: Figure("share", "is forecast to carry {} of its rate", "a history of INT reports"),
    "depth_mean_bytes": Figure("bytes", "holds {} on average in its deepest queue", _REPORTS),
    "depth_p99_bytes": Figure("bytes", "holds {} (99th percentile) in its deepest queue", _REPORTS),
    "depth_max_bytes": Figure("bytes", "held up to {} in its deepest queue", _REPORTS),
    "marked_ratio": Figure("share", "marks {} of the packets of a queue", _REPORTS),
    "pause_share": Figure("share", "is kept from sending by PFC for {} of the time", _COUNTERS),
    "pfc_rx_frames_per_s": Figure("per_second", "receives {} PFC frames a second", _COUNTERS),
    "pfc_tx_frames_per_s": Figure("per_second", "sends {} PFC frames a second", _COUNTERS),
    "ecn_marked_per_s": Figure("per_second", "marks {} packets a second", _COUNTERS),
    "cnp_per_s": Figure("per_second", "forwards {} CNPs a second", _COUNTERS),
    "drops_per_s": Figure("per_second", "drops {} packets a second", _COUNTERS),
    "wred_drops_per_s": Figure("per_second", "drops {} packets a second by WRED", _COUNTERS),
}


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """An egress port of a switch; of the rest None is unknown. ``peer``: the far end of its link, such as
    ``spine1 Ethernet4`` or a host; ``role``: that of ``port_roles``.
    """

    switch: str
    port: str
    peer: str | None = None
    role: str | None = None
    rate_bytes_per_s: float | None = None

    @property
    def name(self) -> str:
        """Both ends, where the far one is known."""
        return f"{self.switch} {self.port}" + ("" if self.peer is None else f" to {self.peer}")


def link_ends(topology: Topology, *, declared: bool) -> dict[tuple[str, str], LinkEnd]:
    """Every switch port by (switch, port). The rates of a topology that was discovered are partly assumed,
    and left out.
    """
    ports, found = topology.ports, {}
    for index, (port, role) in enumerate(zip(ports, port_roles(ports), strict=True)):
        if port.port is not None:
            far = ports[index ^ 1].port  # both directions of a link lie side by side
            peer = port.peer if far is None else f"{port.peer} {far}"
            rate = port.rate_bytes_per_s if declared else None
            found[port.node, port.port] = LinkEnd(port.node, port.port, peer, role, rate)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCondition:
    """``ports`` are patterns of ``switch:port``, ``roles`` patterns of roles; a link is covered if it fits
    one of each (none: all). ``queues``: only these of the port (none: all). ``ahead_s``: how far a forecast
    looks, None for other figures.
    """

    name: str
    figure: FigureName
    rule: Rule
    ports: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    queues: frozenset[int] = frozenset()
    ahead_s: float | None = None

    @property
    def kind(self) -> str:
        return KIND_BEGINS + self.name

    def covers(self, end: LinkEnd) -> bool:
        return _fits(f"{end.switch}:{end.port}", self.ports) and _fits(end.role or "", self.roles)

    def value(
        self,
        end: LinkEnd,
        queues: Sequence[QueueState] | None,
        counted: PortRates | None,
        forecast: float | None = None,
    ) -> float | None:
        """The figure now; None where it is unknown.

        ``queues``: those of the port that packets crossed, by INT reports (none: it is idle; None: its switch
        does not report); ``counted``: its counters' rates; ``forecast``: its utilisation ``ahead_s``.
        """
        if self.figure == FORECAST:
            return forecast
        mine = [one for one in queues or () if not self.queues or one.ref.queue in self.queues]
        if self.figure == "utilisation":
            return self._utilisation(end, None if queues is None else mine, counted)
        if FIGURES[self.figure].source == _REPORTS:
            depths = [getattr(one, self.figure) for one in mine]
            known = [float(one) for one in depths if one is not None and one == one]
            return max(known, default=None if queues is None or mine else 0.0)
        return self._of_counters(self.figure, counted)

    def _utilisation(
        self, end: LinkEnd, queues: Sequence[QueueState] | None, counted: PortRates | None
    ) -> float | None:
        rate = end.rate_bytes_per_s or next(
            (one.capacity_bytes_per_s for one in queues or () if one.capacity_bytes_per_s), None
        )
        if queues is None:
            sent = self._of_counters("tx_bytes_per_s", counted)
        else:
            sent = sum(one.throughput_bytes_per_s for one in queues)
        return sent / rate if rate and sent is not None else None

    def _of_counters(self, field: str, counted: PortRates | None) -> float | None:
        """Of several queues the most paused, and the sum of all else."""
        if counted is None:
            return None
        rates = [one for number, one in counted.queues.items() if number in self.queues]
        values = [getattr(one, field) for one in (rates if self.queues else [counted.rates])]
        known = [float(one) for one in values if one is not None]
        if not known:
            return None
        return max(known) if field == "pause_share" else sum(known)

    def sentence(self, end: LinkEnd, value: float) -> str:
        """What the link does, and the bound it is held against."""
        bound = next(one for one in (self.rule.warning, self.rule.critical) if one is not None)
        does = FIGURES[self.figure].says.format(self._text(value))
        if self.ahead_s is not None:
            long = f"{self.ahead_s / 3_600:g} h" if self.ahead_s >= 3_600 else f"{self.ahead_s / 60:g} min"
            does += f" within {long}"
        return (
            f"{end.name} {does} ({self.name}: {'under' if self.rule.below else 'over'} {self._text(bound)})"
        )

    def _text(self, value: float) -> str:
        unit = FIGURES[self.figure].unit
        if unit == "share":
            return f"{100 * value:.3g}%"
        return figure_text(value) + (" bytes" if unit == "bytes" else "")


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
