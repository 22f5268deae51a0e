"""OpenConfig's LLDP model to neighbours.

Sources, in openconfig/public: openconfig-lldp.yang (groupings lldp-neighbor-state and
lldp-system-info-config; 046af94), openconfig-if-ethernet.yang (``port-speed`` and ``negotiated-port-speed``
of ``ethernet/state``, such as SPEED_100GB; edbdb26).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from telemetry.decode.openconfig_leaves import Step, leaves
from telemetry.neighbours.model import Collected, SwitchNeighbours, rate_gbps

OWN = ("lldp", "state")
NEIGHBOURS = ("lldp", "interfaces", "interface", "neighbors", "neighbor", "state")
SPEEDS = ("interfaces", "interface", "ethernet", "state")

_SPEED = re.compile(r"(?:[\w-]+:)?SPEED_(?P<number>\d{1,6})(?P<unit>[MG])B", re.ASCII)


class OpenConfigNeighbours:
    """Collects values as a switch sends them (a tree, a container or single leaves). Never raises."""

    def __init__(self) -> None:
        self._own: dict[str, object] = {}
        self._neighbours: dict[tuple[str, str], dict[str, object]] = {}
        self._speeds: dict[str, dict[str, object]] = {}
        self._nameless = 0

    def add(self, path: Sequence[Step], value: object) -> None:
        for leaf in leaves(path, value, (OWN, NEIGHBOURS, SPEEDS)):
            port, number = leaf.keys.get("interface"), leaf.keys.get("neighbor")
            if leaf.place == OWN:
                self._own[leaf.name] = leaf.value
            elif port is None or (leaf.place == NEIGHBOURS and number is None):
                self._nameless += leaf.name == "chassis-id"  # one of each neighbour
            elif leaf.place == SPEEDS:
                self._speeds.setdefault(port, {})[leaf.name] = leaf.value
            else:
                self._neighbours.setdefault((port, str(number)), {})[leaf.name] = leaf.value

    def found(self) -> SwitchNeighbours:
        found = Collected()
        found.own(self._own.get("system-name"), chassis=self._own.get("chassis-id"))
        for port, speeds in self._speeds.items():
            said = (rate_gbps(speeds.get(name), _SPEED) for name in ("negotiated-port-speed", "port-speed"))
            found.port(port, rate_gbps=next(filter(None, said), None))
        for (port, _), row in self._neighbours.items():
            found.neighbour(
                port,
                system=row.get("system-name"),
                chassis=row.get("chassis-id"),
                port_id=row.get("port-id"),
                port_description=row.get("port-description"),
            )
        if self._nameless:
            found.problem(
                f"neighbours without the key of their interface or their own: {self._nameless}; entries of a "
                "list have keys; they were left out"
            )
        return found.found()
