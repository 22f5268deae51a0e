"""What an inventory says of the INT reports that its switches send; must not know how they are written.

Names go into reports with this: node id to switch, interface id to port, source address to node, and units.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, Field

from settings.errors import SettingsError
from settings.int_keys import IntUnitKeys
from settings.inventory_part import Part
from telemetry.decode.p4.devices import Devices, UnitProfile

_MOST_ID = 2**32 - 2  # all ones means "not available"


def _number(given: object) -> object:
    """Ids as documentation writes them: decimal, or 0x and hex digits."""
    if isinstance(given, bool):
        raise ValueError("an id is a whole number, decimal or 0x and hex digits")
    if isinstance(given, str):
        try:
            return int(given, 16 if given[:2].lower() == "0x" else 10)
        except ValueError:
            raise ValueError("an id is a whole number, decimal or 0x and hex digits") from None
    return given


def _addresses(given: object) -> object:
    """One address, or a list of them; as the receiver writes them."""
    every = [given] if isinstance(given, str) else given
    if not isinstance(every, list | tuple):
        return given
    if not every or not all(isinstance(one, str) for one in every):
        raise ValueError("a source is an IPv4 or IPv6 address, or a list of some, as text")
    try:
        found = [ipaddress.ip_address(one) for one in every]
        # An IPv4 address as a socket for both versions shows it is that IPv4 address.
        return tuple(str(getattr(one, "ipv4_mapped", None) or one) for one in found)
    except ValueError as error:
        raise ValueError(f"a source is an IPv4 or IPv6 address: {error}") from None


def _pattern(given: object) -> object:
    if isinstance(given, str) and given.count("{}") != 1:
        raise ValueError("a pattern has {} once, where the interface id stands, such as Ethernet{}")
    return given


WireId = Annotated[int, BeforeValidator(_number), Field(ge=0, le=_MOST_ID)]
PortName = Annotated[str, Field(min_length=1, max_length=256)]


class IntKeys(IntUnitKeys, Part):
    """What a switch says under ``int``: who it is in reports, and its units."""

    node_id: WireId | None = None
    source: Annotated[tuple[str, ...] | None, BeforeValidator(_addresses)] = None
    interfaces: dict[WireId, PortName | None] | None = None
    interface_pattern: Annotated[str | None, BeforeValidator(_pattern)] = None


@dataclass(frozen=True, slots=True)
class SaidOfInt:
    """What one switch says: where that stands, and the keys."""

    where: str
    keys: IntKeys


def reporting_devices(said: Mapping[str, SaidOfInt], default: UnitProfile | None = None) -> Devices:
    """The switches that report, as the decoder wants them; ``default`` are the units of all others.

    Raises ``SettingsError`` for a switch that has no node id, or that of another, or another's source.
    """
    switches: dict[int, str] = {}
    ports: dict[int, Mapping[int, str]] = {}
    patterns: dict[int, str] = {}
    profiles: dict[int, UnitProfile | None] = {}
    sources: dict[str, int] = {}
    for name, (where, keys) in ((name, (one.where, one.keys)) for name, one in said.items()):
        node = _own_node(where, keys, switches)
        if node is None:
            continue
        switches[node] = name
        ports[node] = {number: port for number, port in (keys.interfaces or {}).items() if port is not None}
        if keys.interface_pattern is not None:
            patterns[node] = keys.interface_pattern
        profiles[node] = _profile(where, keys)
        for address in keys.source or ():
            if sources.setdefault(address, node) != node:
                raise SettingsError(
                    f"{where}.source",
                    f"{address}, which is {switches[sources[address]]}'s",
                    "reports from an address are one switch's",
                    "correct it",
                )
    return Devices(switches, ports, profiles, default, patterns, sources)


def untuned_in(devices: Devices) -> tuple[str, ...]:
    """The switches that report, and whose units nobody told; sorted."""
    return tuple(sorted(name for node, name in devices.switches.items() if devices.profile(node) is None))


def _own_node(where: str, keys: IntKeys, taken: Mapping[int, str]) -> int | None:
    if keys.node_id is None:
        # Units alone are what defaults and profiles say of whichever switch reports.
        for key in ("source", "interfaces"):
            if getattr(keys, key) is not None:
                raise SettingsError(
                    f"{where}.node_id",
                    "nothing",
                    f"a switch with {key} has the node id that its reports carry",
                    "add it",
                )
        return None
    if keys.node_id in taken:
        raise SettingsError(
            f"{where}.node_id",
            f"{keys.node_id}, which is {taken[keys.node_id]}'s",
            "a node id is one switch's",
            "correct it",
        )
    return keys.node_id


def _profile(where: str, keys: IntKeys) -> UnitProfile | None:
    try:
        return keys.profile()
    except ValueError as error:
        raise SettingsError(
            where,
            f"occupancy {keys.occupancy or 'not said'}",
            str(error),
            "take it from the device's documentation",
        ) from error
