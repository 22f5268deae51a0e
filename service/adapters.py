"""Makes the adapter of any switch: as the inventory describes it, else as the settings say of all others.

Where pushing is off a device's adapter reads and stages, and only records what it would set; a lab's sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from settings.model import PushSettings
from switches.base import SwitchAdapter
from switches.device import Device
from switches.dryrun import DryRunAdapter
from switches.registry import LAB, AdapterRegistry
from twin.watermark import Watermark

LAB_TIMEOUT_S = 2.0  # a lab answers between two slices of its time


class Adapters:
    """``devices`` is the inventory by name; ``clock_ns`` wall-clock nanoseconds since 1970."""

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
        registry.factory(push.adapter)  # an unknown kind is said before anything is made

    @property
    def names(self) -> tuple[str, ...]:
        """The switches of the inventory."""
        return tuple(self._devices)

    def make(self, switch: str, running: Watermark) -> SwitchAdapter:
        """The adapter of that switch; ``running`` is what the settings say it runs.

        Raises ``InventoryError`` where its description cannot be used.
        """
        device = self._devices.get(switch)
        if device is None:
            return self._registry.make(self._other(switch, running), clock_ns=self._clock_ns)
        adapter = self._registry.make(device, clock_ns=self._clock_ns)
        if self._push.enabled or device.platform == LAB or not adapter.capabilities().writes:
            return adapter
        return DryRunAdapter(device, clock_ns=self._clock_ns, over=adapter)

    def _other(self, switch: str, running: Watermark) -> Device:
        kind = self._push.adapter
        address = (self._push.lab_url or "") if kind == LAB else ""
        return Device(name=switch, platform=kind, address=address, timeout_s=LAB_TIMEOUT_S, running=running)
