"""What the bytes of a report leave to the device: units, and names; imports only ``telemetry.errors`` and
``telemetry.report``.

The YANG model ``p4-dtel-metadata-semantics`` is where a switch would publish the units.
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

    ``unit_bytes`` is the size of a cell, or what a packet is reckoned as (1 for bytes).
    ``utilisation_scale`` is what the device calls a fully used interface: 100 for percent, 10 000 for
    hundredths of one. ``timing`` says whether a packet reports the queue that it met or the one it left
    behind: over time both are as deep (docs/telemetry/int-binary.md).
    ``sampling_rate`` is the share of packets that it reports. Raises ``TelemetryError`` for a size, scale or
    share that cannot be.
    """

    occupancy: Occupancy = "bytes"
    unit_bytes: int = 1
    time: TimeUnit = "ns"
    utilisation_scale: float = 10_000.0
    timing: Timing = "dequeue"
    sampling_rate: float = 1.0

    def __post_init__(self) -> None:
        for name, value, rule in (
            ("unit_bytes", self.unit_bytes, self.unit_bytes > 0),
            ("utilisation_scale", self.utilisation_scale, self.utilisation_scale > 0),
            ("sampling_rate", self.sampling_rate, LEAST_SAMPLING_RATE <= self.sampling_rate <= 1),
        ):
            if not rule:
                raise TelemetryError(
                    f"unit profile {name}",
                    repr(value),
                    f"it is {LEAST_SAMPLING_RATE:g} to 1" if name == "sampling_rate" else "it is above 0",
                    "take it from the device's documentation",
                )
        if self.occupancy == "bytes" and self.unit_bytes != 1:
            raise TelemetryError(
                "unit profile unit_bytes",
                repr(self.unit_bytes),
                "a device that counts bytes has units of 1",
                "say cells or packets",
            )


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices that report, by node id.

    ``switches`` names them as the topology does, ``ports`` their interfaces by interface id; where it does
    not, ``patterns`` has the text in which ``{}`` stands for the id. What has no name is called by its
    number. A device that is not among ``profiles`` has the ``default`` one; where that is None, or its own
    is, its occupancies and times are not believed. ``sources`` are node ids by the address that a device
    sends from, for reports that do not say who sent them (v0.5).
    """

    switches: Mapping[int, str] = field(default_factory=dict)
    ports: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    profiles: Mapping[int, UnitProfile | None] = field(default_factory=dict)
    default: UnitProfile | None = None
    patterns: Mapping[int, str] = field(default_factory=dict)
    sources: Mapping[str, int] = field(default_factory=dict)

    def switch(self, node: int) -> str:
        """The name of a node."""
        return self.switches.get(node) or str(node)

    def port(self, node: int | None, interface: int) -> str:
        """The name of an interface of a node."""
        if node is None:
            return str(interface)
        named = self.ports.get(node, {}).get(interface)
        return named or self.patterns.get(node, "{}").replace("{}", str(interface))

    def profile(self, node: int | None) -> UnitProfile | None:
        """The units of a node; None where nobody told them."""
        return self.default if node is None else self.profiles.get(node, self.default)
