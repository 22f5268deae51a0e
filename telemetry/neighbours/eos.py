"""EOS's answers to neighbours.

Sources: the outputs that Arista's own tests have (aristanetworks/anta, ``tests/units/anta_tests``:
``show lldp neighbors detail`` with ``lldpNeighbors``, ``interfaceId_v2`` and the quoted ``interfaceId``;
``show interfaces status`` with ``interfaceStatuses`` and ``bandwidth`` in bit/s) and napalm's EOS driver
(``show hostname``: ``hostname`` and ``fqdn``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from telemetry.neighbours.model import Collected, SwitchNeighbours, mapping, shown

COMMANDS = ("show lldp neighbors detail", "show interfaces status", "show hostname")
_BITS_PER_GBIT = 1e9


def eos_neighbours(
    lldp: Mapping[str, Any], status: Mapping[str, Any], hostname: Mapping[str, Any]
) -> SwitchNeighbours:
    """From the answers to ``COMMANDS``; never raises."""
    found = Collected()
    found.own(hostname.get("fqdn"), hostname.get("hostname"))
    for port, row in mapping(status.get("interfaceStatuses")).items():
        found.port(port, rate_gbps=_rate_gbps(mapping(row).get("bandwidth")))
    for port, row in mapping(lldp.get("lldpNeighbors")).items():
        entries = mapping(row).get("lldpNeighborInfo", [])
        for entry in entries if isinstance(entries, list) else [entries]:
            if not isinstance(entry, Mapping):
                found.problem(f"{port}: received {shown(entry)}; a neighbour has fields; it was left out")
                continue
            end = mapping(entry.get("neighborInterfaceInfo"))
            found.neighbour(
                port,
                system=entry.get("systemName"),
                chassis=entry.get("chassisId"),
                port_id=end.get("interfaceId_v2", end.get("interfaceId")),
                port_description=end.get("interfaceDescription"),
            )
    return found.found()


def _rate_gbps(bandwidth: object) -> float | None:
    if isinstance(bandwidth, bool) or not isinstance(bandwidth, int | float):
        return None
    return bandwidth / _BITS_PER_GBIT if 0 < bandwidth < math.inf else None
