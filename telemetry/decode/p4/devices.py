"""Devices that send reports: their names and units, which the reports themselves lack.

The YANG model ``p4-dtel-metadata-semantics`` is where a switch would publish its units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from telemetry.errors import TelemetryError
from telemetry.report import LEAST_SAMPLING_RATE

Occupancy = Literal["bytes", "cells", "packets"]
TimeUnit = Literal["ns", "us", "2^-32 s"]
Timing = Literal["enqueue", "dequeue"]


@dataclass(frozen=True, slots=True)
class UnitProfile:
    """The units of one device.

    ``unit_bytes`` is the size of a cell, or the size assumed for a packet (1 for bytes).
    ``utilisation_scale`` is the value of a fully used interface: 100 for percent. ``timing``: whether a
    packet reports the queue it met or the one it left behind; over time both are as deep
    (docs/telemetry/int-binary.md). ``sampling_rate`` is the share of packets reported. Raises
    ``TelemetryError`` for a value out of range.
    """

    occupancy: Occupancy = "bytes"
    unit_bytes: int = 1
    time: TimeUnit = "ns"
    utilisation_scale: float = 10_000.0
    timing: Timing = "dequeue"
    sampling_rate: float = 1.0

    def __post_init__(self) -> None:
        for name, value, valid in (
            ("unit_bytes", self.unit_bytes, self.unit_bytes > 0),
            ("utilisation_scale", self.utilisation_scale, self.utilisation_scale > 0),
            ("sampling_rate", self.sampling_rate, LEAST_SAMPLING_RATE <= self.sampling_rate <= 1),
        ):
            if not valid:
                rule = f"it is {LEAST_SAMPLING_RATE:g} to 1" if name == "sampling_rate" else "it is above 0"
                remedy = "take it from the device's documentation"
                raise TelemetryError(f"unit profile {name}", repr(value), rule, remedy)
        if self.occupancy == "bytes" and self.unit_bytes != 1:
            where, rule = "unit profile unit_bytes", "a device that counts bytes has units of 1"
            raise TelemetryError(where, repr(self.unit_bytes), rule, "use cells or packets")


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices by node id.

    ``switches`` has their names in the topology, ``ports`` their interface names by interface id,
    ``patterns`` a text with ``{}`` for the id of other interfaces; without a name the number is used. Devices
    not in ``profiles`` have the ``default`` units; where the profile is None, occupancies and times are
    ignored. ``sources`` are node ids by sending address, for reports without a node id (v0.5).
    """

    switches: Mapping[int, str] = field(default_factory=dict)
    ports: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    profiles: Mapping[int, UnitProfile | None] = field(default_factory=dict)
    default: UnitProfile | None = None
    patterns: Mapping[int, str] = field(default_factory=dict)
    sources: Mapping[str, int] = field(default_factory=dict)

    def switch(self, node: int) -> str:
        return self.switches.get(node) or str(node)

    def port(self, node: int | None, interface: int) -> str:
        if node is None:
            return str(interface)
        named = self.ports.get(node, {}).get(interface)
        return named or self.patterns.get(node, "{}").replace("{}", str(interface))

    def profile(self, node: int | None) -> UnitProfile | None:
        """The units of a node; None if unknown."""
        return self.default if node is None else self.profiles.get(node, self.default)
