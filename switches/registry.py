"""Adapters by platform: built-in ones, and entry points ``ecntwin.switches`` of installed packages.

A built-in adapter is imported when its first switch is made: a fabric of one platform does not load the
client libraries of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from switches.base import SwitchAdapter
from switches.device import Device
from switches.errors import CapabilityError, UnknownAdapterError
from switches.transport.quoted import read_all_fields

ENTRY_POINT_GROUP = "ecntwin.switches"
DRY_RUN = "dry-run"
LAB = "lab"

_BUILT_IN = {
    DRY_RUN: "switches.dryrun:DryRunAdapter",
    LAB: "switches.lab:LabAdapter",
    "sonic": "switches.sonic.redis_adapter:SonicAdapter",
    "sonic-gnmi": "switches.sonic.gnmi_adapter:SonicGnmiAdapter",
    "openconfig": "switches.openconfig.gnmi:OpenConfigAdapter",
    "nvue": "switches.nvue:NvueAdapter",
    "eos": "switches.cli.eos:EosAdapter",
    "nxos": "switches.cli.nxos:NxosAdapter",
    "netconf": "switches.openconfig.netconf:NetconfAdapter",
    "junos": "switches.junos.adapter:JunosAdapter",
    "webhook": "switches.webhook:WebhookAdapter",
}


class AdapterFactory(Protocol):
    """Makes the adapter of one switch, without asking it; raises ``InventoryError``."""

    def __call__(self, device: Device, *, clock_ns: Callable[[], int]) -> SwitchAdapter: ...


class AdapterRegistry:
    """Factories by platform, a table of its own for each instance."""

    def __init__(self) -> None:
        self._factories: dict[str, AdapterFactory] = {
            kind: partial(_made, EntryPoint(kind, target, ENTRY_POINT_GROUP))
            for kind, target in _BUILT_IN.items()
        }

    @classmethod
    def with_installed(cls) -> AdapterRegistry:
        """The built-in platforms and those of installed packages."""
        registry = cls()
        for entry in entry_points(group=ENTRY_POINT_GROUP):
            registry.register(entry.name, partial(_made, entry))
        return registry

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(sorted(self._factories))

    def register(self, kind: str, factory: AdapterFactory) -> None:
        self._factories[kind] = factory

    def factory(self, kind: str) -> AdapterFactory:
        """The factory of that platform; ``UnknownAdapterError`` names the known ones."""
        try:
            return self._factories[kind]
        except KeyError:
            rule = f"known kinds are {', '.join(self.kinds)}"
            raise UnknownAdapterError("switch adapter", repr(kind), rule, "name one of them") from None

    def check_usual(self, kind: str) -> None:
        """Checks the platform of switches that the inventory does not name (``push.adapter``); raises
        ``UnknownAdapterError`` for one that asks a switch at an address.
        """
        usable = [one for one in self.kinds if one in (DRY_RUN, LAB) or one not in _BUILT_IN]
        if kind not in usable:
            rule = f"switches that push.inventory does not name are of {' or '.join(usable)}"
            remedy = "name the others in push.inventory" if kind in self._factories else "name one of them"
            raise UnknownAdapterError("settings push.adapter", repr(kind), rule, remedy)

    def make(self, device: Device, *, clock_ns: Callable[[], int]) -> SwitchAdapter:
        """Raises ``InventoryError``, and ``CapabilityError`` for ports of a role on a platform that gives all
        ports one watermark.
        """
        adapter = self.factory(device.platform)(device, clock_ns=clock_ns)
        rule = adapter.capabilities().one_for_all
        if device.role is not None and rule:
            remedy = "approve the one watermark for all ports"
            raise CapabilityError(device.where, "a watermark for ports of one role", rule, remedy)
        return adapter


def _made(entry: EntryPoint, device: Device, *, clock_ns: Callable[[], int]) -> SwitchAdapter:
    factory = entry.load()
    read_all_fields()  # msgspec types that came with the imported module
    adapter: SwitchAdapter = factory(device, clock_ns=clock_ns)
    return adapter
