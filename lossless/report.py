"""What a check of the fabric finds: the rules by name, faults, and what could not be checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from telemetry.topology import natural

Severity = Literal["error", "warning"]

RULES: Mapping[str, str] = MappingProxyType(
    {
        "pfc_without_ecn": "the queue of a PFC priority marks, so that senders slow down before PFC pauses",
        "pfc_one_side": "PFC of a priority is on at both ends of a cable, or at neither",
        "ecn_one_side": "a queue marks at both ends of a cable, or at neither",
        "unequal_ecn": "ports of one role mark alike",
        "kmax_above_xoff": "Kmax is below the fill at which PFC pauses, so that ECN acts first",
        "headroom": "headroom holds what arrives after a pause was decided",
        "nic_priority": "a NIC sends CNPs, and reacts to them, on the lossless priorities of the switches",
        "cnp_queue": "CNPs have a queue of strict priority, apart from lossless traffic",
        "unequal_nics": "NICs of a class run the same DCQCN",
        "drift": "what runs is what the template says",
    }
)
"""What each rule demands, in the order of reports."""

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Fault:
    """A broken rule. ``node`` is the switch or host it is of, ``where`` names also its ports or NICs."""

    rule: str
    severity: Severity
    node: str
    where: str
    found: str
    remedy: str

    @property
    def sentence(self) -> str:
        return f"{self.where}: {self.found}; {RULES[self.rule]}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Report:
    """``faults`` by rule, then switch or host; ``unchecked`` are sentences on what is not known."""

    faults: tuple[Fault, ...] = ()
    unchecked: tuple[str, ...] = ()


class Notes:
    """Collects findings; ports of a switch with the same one share it."""

    def __init__(self) -> None:
        self._faults: dict[tuple[str, Severity, str, str, str], list[str]] = {}
        self._unknown: dict[tuple[str, str, str], list[str]] = {}

    def fault(
        self, rule: str, node: str, place: str, found: str, remedy: str, severity: Severity = "error"
    ) -> None:
        """``place`` is the port or NIC."""
        self._faults.setdefault((rule, severity, node, found, remedy), []).append(place)

    def unknown(self, rule: str, node: str, place: str, what: str) -> None:
        """``what`` the rule needs is not known at ``place``; empty: of the node, which may be the fabric."""
        self._unknown.setdefault((rule, node, what), []).append(place)

    def report(self) -> Report:
        order = list(RULES)
        faults = [
            Fault(rule, severity, node, _where(node, places), found, remedy)
            for (rule, severity, node, found, remedy), places in self._faults.items()
        ]
        faults.sort(key=lambda one: (order.index(one.rule), natural(one.node), natural(one.where)))
        # Rules that miss the same thing at the same places share a sentence.
        missing: dict[tuple[str, str], list[str]] = {}
        for (rule, node, what), places in self._unknown.items():
            missing.setdefault((_where(node, places), what), []).append(rule)
        return Report(
            tuple(faults),
            tuple(
                f"{where}: {what} not known; not checked: {', '.join(rules)}"
                for (where, what), rules in sorted(missing.items(), key=lambda one: natural(one[0][0]))
            ),
        )


def _where(node: str, places: Sequence[str]) -> str:
    named = sorted({place for place in places if place}, key=natural)
    if not named:
        return node
    more = len(named) - _NAMED
    return f"{node} {', '.join(named[:_NAMED])}" + (f" and {more} more" if more > 0 else "")
