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

    def factory(self, kind: str, *, where: str = "switch adapter") -> AdapterFactory:
        """The factory of the platform that ``where`` names; ``UnknownAdapterError`` names the known ones."""
        try:
            return self._factories[kind]
        except KeyError:
            rule = f"known kinds are {', '.join(self.kinds)}"
            raise UnknownAdapterError(where, repr(kind), rule, "name one of them") from None

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
