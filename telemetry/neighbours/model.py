"""What LLDP shows one switch: the devices at the other ends of its ports, and its own names.

LLDP (IEEE 802.1AB) carries a chassis id and a port id, and mostly a system name and a port description.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LONGEST_TEXT = 256
_GBPS = {"": 1e-3, "M": 1e-3, "G": 1.0, "T": 1e3}
_MANAGEMENT = re.compile(r"(?:eth0|mgmt\d*|management\S*|ma\d\S*|fxp\d|em\d|me\d|bmc\S*)", re.IGNORECASE)
_MAC = re.compile(r"(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}|(?:[0-9a-f]{4}[.-]){2}[0-9a-f]{4}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """What came in at ``port``: the sender's system name, chassis, port and the description of that port.
    None: not said. MAC addresses as chassis are in one form.
    """

    port: str
    system: str | None = None
    chassis: str | None = None
    port_id: str | None = None
    port_description: str | None = None


@dataclass(frozen=True, slots=True)
class Port:
    """``rate_gbps`` None: unknown. ``aliases`` are further names under which the switch may announce it."""

    rate_gbps: float | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SwitchNeighbours:
    """``names`` and ``chassis`` are what the switch announces of itself, as far as it says. ``problems`` are
    sentences about what was left out.
    """

    neighbours: tuple[Neighbour, ...] = ()
    ports: Mapping[str, Port] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    chassis: str | None = None
    problems: tuple[str, ...] = ()


class Collected:
    """Puts a switch's answer together, in the order in which it comes; never raises.

    An entry that cannot be used is a problem, and the others are kept. Management ports are left out.
    """

    def __init__(self) -> None:
        self._neighbours: dict[Neighbour, None] = {}
        self._ports: dict[str, Port] = {}
        self._names: dict[str, None] = {}
        self._chassis: str | None = None
        self._problems: list[str] = []

    def neighbour(
        self,
        port: object,
        *,
        system: object = None,
        chassis: object = None,
        port_id: object = None,
        port_description: object = None,
    ) -> None:
        name = text(port)
        if name is None:
            self.problem(f"a neighbour at port {shown(port)}; a port has a name; it was left out")
            return
        if is_management(name):
            return
        sender = text(chassis)
        named = text(system)
        if named is None and sender is not None and not is_mac(sender):
            named = sender  # a chassis id may be the name (subtype "locally assigned")
        found = Neighbour(
            name,
            named,
            None if sender is None else plain_chassis(sender),
            text(port_id),
            text(port_description),
        )
        if found.system is None and found.chassis is None:
            self.problem(
                f"{name}: a neighbour without system name and chassis id; one of them names it; "
                "it was left out"
            )
            return
        self._neighbours[found] = None
        self._ports.setdefault(name, Port())

    def port(self, name: object, *, rate_gbps: float | None = None, aliases: tuple[object, ...] = ()) -> None:
        known = text(name)
        if known is None or is_management(known):
            return
        others = tuple(alias for one in aliases if (alias := text(one)) is not None and alias != known)
        self._ports[known] = Port(rate_gbps, others)

    def own(self, *names: object, chassis: object = None) -> None:
        for name in names:
            if (known := text(name)) is not None:
                self._names[known] = None
        own = text(chassis)
        if own is not None:
            self._chassis = plain_chassis(own)

    def problem(self, sentence: str) -> None:
        self._problems.append(sentence)

    def found(self) -> SwitchNeighbours:
        return SwitchNeighbours(
            tuple(self._neighbours),
            dict(self._ports),
            tuple(self._names),
            self._chassis,
            tuple(dict.fromkeys(self._problems)),
        )


def mapping(value: object) -> Mapping[str, Any]:
    """Without any fields if it is none."""
    return value if isinstance(value, Mapping) else {}


def rate_gbps(speed: object, form: re.Pattern[str]) -> float | None:
    """Of a speed with the ``number`` and ``unit`` of ``form``; without a unit it is in Mbit/s."""
    match = form.fullmatch(speed) if isinstance(speed, str) else None
    rate = float(match["number"]) * _GBPS[match["unit"]] if match is not None else 0.0
    return rate or None


def text(value: object) -> str | None:
    """A name that can be shown and written to a file, or None."""
    if not isinstance(value, str):
        return None
    plain = value.strip().strip('"').strip()
    return plain if 0 < len(plain) <= LONGEST_TEXT and plain.isprintable() else None


def shown(value: object) -> str:
    """The value in a sentence, shortened."""
    written = ascii(value)
    return written if len(written) <= 40 else written[:40] + "…"


def is_management(port: str) -> bool:
    return _MANAGEMENT.fullmatch(port) is not None


def is_mac(name: str) -> bool:
    return _MAC.fullmatch(name) is not None


def plain_chassis(chassis: str) -> str:
    """The id in one form: platforms write MAC addresses in several ways."""
    if not is_mac(chassis):
        return chassis
    digits = re.sub(r"[:.-]", "", chassis).lower()
    return ":".join(digits[place : place + 2] for place in range(0, len(digits), 2))
