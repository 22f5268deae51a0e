"""What LLDP shows the running service: read now and then, compared with the declared topology, and told."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass

from service.alarms.per_node import OnePerNode
from service.neighbours.reader import Seen, read_neighbours
from service.switches.adapter_check import Repeated
from settings.telemetry import NeighbourSettings
from switches.device import Device
from telemetry.alarms import Finding
from telemetry.neighbours.merge import Assumed, Merged, merge
from telemetry.topology import Topology

_NO_FAULT = frozenset({"name", "quiet"})
"""Kinds of difference that raise no alarm: of names only, and hosts that do not speak LLDP."""
_EVERYWHERE = "the topology"

_log = logging.getLogger("ecntwin.neighbours")


@dataclass(frozen=True, slots=True)
class Cabled:
    """The last reading at ``read_ns``, and its comparison with ``declared``."""

    read_ns: int
    seen: Mapping[str, Seen]
    declared: Topology | None
    merged: Merged


class Cabling:
    """For one event loop; reads nothing unless the settings say so. ``declared`` is the topology of now."""

    def __init__(
        self,
        devices: Mapping[str, Device],
        settings: NeighbourSettings,
        assumed: Assumed,
        *,
        declared: Callable[[], Topology | None],
        wall_ns: Callable[[], int],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._devices = devices
        self._settings = settings
        self._assumed = assumed
        self._declared = declared
        self._wall_ns = wall_ns
        self._cabled: Cabled | None = None
        self._said: tuple[Topology | None, Mapping[str, list[str]]] = None, {}
        self._alarms = OnePerNode("cabling", devices, "is cabled as it is declared")
        self._repeated = Repeated("LLDP neighbours", settings.every_s, sleep)

    async def run_forever(self) -> None:
        """Reads every ``every_s`` seconds, at once first; ends where there is nothing to read."""
        if self._settings.read and self._devices:
            await self._repeated.run(self.read)

    async def read(self) -> None:
        """One reading of all switches, and its comparison."""
        seen = await asyncio.to_thread(
            read_neighbours, self._devices, at_once=self._settings.at_once, progress=self._repeated.go_on
        )
        self._cabled = await self._compared(self._wall_ns(), seen)
        for one in seen.values():
            if one.failure is not None:
                _log.info("LLDP neighbours were not read: %s", one.failure)

    async def current(self) -> Cabled | None:
        """The last reading beside the topology that is declared now; None where none was made."""
        while (found := self._cabled) is not None and found.declared is not self._declared():
            compared = await self._compared(found.read_ns, found.seen)
            if self._cabled is found:  # else a newer reading came meanwhile
                self._cabled = compared
        return found

    async def findings(self) -> list[Finding]:
        """One for each switch with differences, and for those whose differences are gone: not for one that
        was not read, unless another topology was declared.
        """
        found = await self.current()
        return [] if found is None else list(self._findings(found))

    async def _compared(self, read_ns: int, seen: Mapping[str, Seen]) -> Cabled:
        declared = self._declared()
        read = {name: one.neighbours for name, one in seen.items() if one.neighbours is not None}
        merged = await asyncio.to_thread(
            merge, tuple(self._devices), read, declared=declared, assumed=self._assumed
        )
        return Cabled(read_ns, seen, declared, merged)

    def _findings(self, found: Cabled) -> Iterator[Finding]:
        of: defaultdict[str, list[str]] = defaultdict(list)
        for one in found.merged.differences:
            if one.kind not in _NO_FAULT:
                switch = next((node for node in one.nodes if node in self._devices), _EVERYWHERE)
                of[switch].append(one.sentence)
        unread = {name for name, one in found.seen.items() if one.neighbours is None}
        declared, before = self._said
        kept = {node: said for node, said in before.items() if node in unread and declared is found.declared}
        # Not what others say of a switch that was not read: their next reading tells.
        self._said = found.declared, kept | {node: said for node, said in of.items() if node not in unread}
        yield from self._alarms.findings(kept | of)
