"""An adapter for each switch, as the inventory or the settings describe it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from settings.model import PushSettings
from switches.base import SwitchAdapter
from switches.by_role import ByRoleAdapter
from switches.device import Device
from switches.dryrun import DryRunAdapter
from switches.errors import CapabilityError
from switches.hashing.base import HashAdapter
from switches.hashing.registry import hash_adapter, set_by_hand
from switches.registry import LAB, AdapterRegistry
from twin.watermark import Watermark


class Adapters:
    """Makes adapters, as the inventory (``devices`` by name) describes a switch, else as the settings do.

    Where pushing is off a device's adapter reads and stages, but only records what it would set; a lab's
    sets. ``clock_ns`` is wall-clock nanoseconds since 1970.
    """

    def __init__(
        self,
        push: PushSettings,
        registry: AdapterRegistry,
        *,
        devices: Mapping[str, Device] | None = None,
        clock_ns: Callable[[], int],
    ) -> None:
        self._push = push
        self._registry = registry
        self._devices = dict(devices or {})
        self._clock_ns = clock_ns
        registry.check_usual(push.adapter)

    @property
    def names(self) -> tuple[str, ...]:
        """The switches of the inventory."""
        return tuple(self._devices)

    def make(self, switch: str, running: Watermark) -> SwitchAdapter:
        """The adapter of a switch that runs ``running`` by the settings.

        Raises ``InventoryError`` where its description cannot be used.
        """
        return self._made(self._device(switch, running))

    def make_by_role(
        self, switch: str, running: Watermark, ports: Mapping[str, tuple[str, ...]], *, undo: bool = False
    ) -> ByRoleAdapter:
        """The adapter of a switch by its ports' roles, of those ports that are set at all; for an ``undo`` of
        all of them, also those that have left the inventory.

        Raises ``InventoryError``, and ``CapabilityError`` where its platform gives all ports one watermark.
        """
        device = self._device(switch, running)
        if undo:
            device = replace(device, ports=())
        wanted = {role: names for role, names in ports.items() if any(map(device.wants, names))}
        every = [name for names in (wanted or ports).values() for name in names]
        return ByRoleAdapter(
            self._made(device.at_role("by-role", every)),
            {role: self._made(device.at_role(role, names)) for role, names in wanted.items()},
            {role: device.at_role(role, names).ports for role, names in wanted.items()},
        )

    def _made(self, device: Device) -> SwitchAdapter:
        adapter = self._registry.make(device, clock_ns=self._clock_ns)
        if device.name not in self._devices or self._push.enabled or device.platform == LAB:
            return adapter
        if not adapter.capabilities().writes:
            return adapter
        return DryRunAdapter(device, clock_ns=self._clock_ns, over=adapter)

    def platform(self, switch: str) -> str:
        """The platform of the inventory, else that of the settings."""
        device = self._devices.get(switch)
        return self._push.adapter if device is None else device.platform

    def make_hash(self, switch: str, running: Watermark) -> HashAdapter:
        """What reads and sets a switch's hash; raises ``InventoryError``, and ``CapabilityError`` where there
        is none for its platform.
        """
        device = self._device(switch, running)
        adapter = hash_adapter(device)
        if adapter is None:
            by_hand = set_by_hand(device.platform)
            remedy = "look at its documentation" if by_hand is None else f"set it by hand: {by_hand}"
            rule = "no adapter reads or sets what switches of its platform hash by"
            raise CapabilityError(f"{device.where} hash", None, rule, remedy)
        return adapter

    def _device(self, switch: str, running: Watermark) -> Device:
        if (known := self._devices.get(switch)) is not None:
            return known
        kind = self._push.adapter
        address = (self._push.lab_url or "") if kind == LAB else ""
        return Device(name=switch, platform=kind, address=address, running=running)
