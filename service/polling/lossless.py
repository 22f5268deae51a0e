"""The lossless configuration of all switches, read and checked, for a command and in the service."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from lossless.fabric import Fabric
from lossless.report import Report
from lossless.rules import check
from nics.base import Reading as NicsReading
from service.alarms.per_node import OnePerNode
from service.network_metrics import LosslessMetrics
from service.nics.polling import NicPolling
from service.switches.adapter_check import AT_ONCE, Answer, Repeated, make_adapters, read_all
from settings.inventory import Inventory
from settings.telemetry import LosslessSettings
from switches.base import SwitchAdapter
from switches.device import Device
from switches.errors import SwitchError
from switches.lossless import LosslessReading, ReadsLossless
from switches.registry import AdapterRegistry
from telemetry.alarms import Finding
from telemetry.topology import Topology


class NoLosslessError(SwitchError, reason="no_lossless"):
    """Its adapter does not read it."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A check of ``switches``, so many, that were read at ``read_ns``; ``unread`` says of others and of hosts
    why they were not. Switches of a platform that offers nothing are among what is not checked.
    """

    read_ns: int
    switches: int
    report: Report
    unread: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Lossless:
    device: Device
    adapter: SwitchAdapter

    def read(self) -> LosslessReading:
        if isinstance(self.adapter, ReadsLossless):
            return self.adapter.read_lossless()
        raise NoLosslessError(
            self.device.where,
            f"platform {self.device.platform}",
            "its adapter does not read PFC and buffers",
            "check this switch by hand; docs/operate/lossless.md lists the platforms that are read",
        )


def read_lossless(
    devices: Mapping[str, Device],
    registry: AdapterRegistry,
    *,
    clock_ns: Callable[[], int],
    at_once: int = AT_ONCE,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Mapping[str, Answer[LosslessReading]]:
    """Asks every switch that its inventory entry lets an adapter be made for; writes nothing."""
    with closing(make_adapters(devices, registry, clock_ns=clock_ns)) as made:
        asked = {name: _Lossless(devices[name], adapter) for name, adapter in made.adapters.items()}
        return read_all(asked, at_once=at_once, progress=progress)


def checked(
    inventory: Inventory,
    switches: Mapping[str, Answer[LosslessReading]],
    hosts: Mapping[str, Answer[NicsReading]],
    topology: Topology | None,
    read_ns: int,
) -> Checked:
    """The check of what was read."""
    readings = {name: one.reading for name, one in switches.items() if one.reading is not None}
    fabric = Fabric(
        switches=readings,
        topology=topology,
        hosts={name: one.reading for name, one in hosts.items() if one.reading is not None},
        classes={name: host.nic_class for name, host in inventory.hosts().items()},
        templates=inventory.templates,
        host_templates=inventory.host_templates,
    )
    failures = {name: one.failure for name, one in switches.items()}
    failures |= {name: one.failure for name, one in hosts.items()}
    report = check(fabric)
    unread = {name: str(why) for name, why in failures.items() if why is not None}
    offers_none = [name for name, why in failures.items() if isinstance(why, NoLosslessError)]
    unchecked = (*report.unchecked, *(unread.pop(name) for name in offers_none))
    return Checked(read_ns, len(readings), replace(report, unchecked=unchecked), unread)


class LosslessCheck:
    """For one event loop; reads nothing unless the settings say so, nor while ``busy``: during a rollout
    switches differ. ``topology`` is that of now.
    """

    def __init__(
        self,
        inventory: Inventory | None,
        registry: AdapterRegistry,
        settings: LosslessSettings,
        *,
        nics: NicPolling,
        topology: Callable[[], Awaitable[Topology | None]],
        busy: Callable[[], bool],
        metrics: LosslessMetrics,
        wall_ns: Callable[[], int],
    ) -> None:
        self._inventory = inventory
        self._devices = {} if inventory is None else inventory.devices()
        self._registry = registry
        self._settings = settings
        self._nics = nics
        self._topology = topology
        self._busy = busy
        self._metrics = metrics
        self._wall_ns = wall_ns
        self._alarms = OnePerNode("lossless", self._devices, "breaks no rule of a lossless fabric any more")
        self._repeated = Repeated("lossless configuration", settings.every_s, asyncio.sleep)
        self._said: Mapping[str, list[str]] = {}
        self.last: Checked | None = None

    async def run_forever(self) -> None:
        """Reads every ``every_s`` seconds, at once first; ends where there is nothing to read."""
        if self._settings.read and self._devices:
            await self._repeated.run(self.read)

    @property
    def unread(self) -> str:
        """A sentence on why nothing was checked, as long as nothing was."""
        if not self._settings.read:
            return "nothing is read, and no rule is checked, while telemetry.lossless.read is false"
        if not self._devices:
            return "nothing is read, and no rule is checked, without switches in push.inventory"
        return "switches were not read yet, and no rule is checked; they are not read during a rollout"

    async def read(self) -> None:
        """One reading of all switches, checked with what NICs were last read to run."""
        if self._busy():
            return
        topology = await self._topology()
        found = await asyncio.to_thread(self._checked, topology)
        if self._busy():
            return  # a rollout began meanwhile: some switches may have been read before it, others after
        self.last = found
        self._metrics.saw(Counter(one.rule for one in self.last.report.faults))

    def findings(self) -> Iterator[Finding]:
        """One for each switch or host with faults, and for those whose faults are gone: not for one that was
        not read.
        """
        of: defaultdict[str, list[str]] = defaultdict(list)
        if self.last is not None:
            for one in self.last.report.faults:
                of[one.node].append(one.sentence)
            of |= {node: said for node, said in self._said.items() if node in self.last.unread}
        self._said = of
        return self._alarms.findings(of)

    def _checked(self, topology: Topology | None) -> Checked:
        assert self._inventory is not None
        switches = read_lossless(
            self._devices,
            self._registry,
            clock_ns=self._wall_ns,
            at_once=self._settings.at_once,
            progress=self._repeated.go_on,
        )
        hosts = {name: self._nics.known(name) for name in self._nics.hosts}
        return checked(self._inventory, switches, hosts, topology, self._wall_ns())
