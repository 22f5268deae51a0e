"""The counters of a switch that speaks OpenConfig over gNMI; must set nothing, and not know the window."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from service.polling.api_counter_sources_base import NoCountersError
from service.polling.base import Turns
from service.polling.gnmi import GnmiFollowing
from switches.device import Device, options_of
from switches.openconfig.gnmi import PORT, OpenConfigOptions
from switches.openconfig.queues import queue_numbers
from switches.transport.gnmi import GnmiDial
from switches.transport.gnmi_messages import PathValue
from switches.transport.gnmi_path import GnmiPath
from switches.transport.gnmi_session import GnmiSession
from telemetry.decode.openconfig_counters import OpenConfigCounters
from telemetry.decode.polled import Polled


def openconfig_source(device: Device, turns: Turns, *, first_after_s: float) -> GnmiFollowing:
    """Follows that switch. Raises ``InventoryError`` for what cannot be asked."""
    options = options_of(device, OpenConfigOptions)
    dial = GnmiDial(device, options, default_port=PORT)
    subject = OpenConfigSubject(device, GnmiSession(device, options, default_port=PORT), options)
    return GnmiFollowing(device, dial, subject, turns, first_after_s=first_after_s)


class OpenConfigSubject:
    """The counters of the device's ports and queues. ``clock_ns`` stands in where a switch tells no time."""

    def __init__(
        self,
        device: Device,
        session: GnmiSession,
        options: OpenConfigOptions,
        *,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._device = device
        self._session = session
        self._origin = options.origin
        self._names = queue_numbers(device, options.queue_names)
        self._clock_ns = clock_ns
        self._counters = OpenConfigCounters(device.name, self._names, device.wants)

    def look(self) -> Sequence[GnmiPath]:
        queues = [
            GnmiPath.of(
                "qos",
                "interfaces",
                ("interface", {"interface-id": "*"}),
                "output",
                "queues",
                ("queue", {"name": name}),
                "state",
                origin=self._origin,
            )
            for name in self._names
        ]
        ports = GnmiPath.of(
            "interfaces", ("interface", {"name": "*"}), "state", "counters", origin=self._origin
        )
        return (*queues, ports)

    def take(self, value: PathValue) -> None:
        steps = [(elem.name, elem.keys) for elem in value.path.elems]
        self._counters.add(steps, value.value, value.ts_ns or self._clock_ns())

    def taken(self) -> Polled:
        return self._counters.samples()

    def read(self) -> Polled:
        for top in ("qos", "interfaces"):
            path = GnmiPath.of(*((top, "interfaces") if top == "qos" else (top,)), origin=self._origin)
            for value in self._session.get([path], data="STATE"):
                self.take(value)
        polled = self.taken()
        if not polled.samples:
            raise NoCountersError(
                self._device.where,
                "none under /qos/interfaces and /interfaces of the ports and queues of the inventory",
                "a switch gives the counters of its interfaces",
                "correct ports, queues or queue_names in the inventory",
            )
        return polled

    def abort(self) -> None:
        """A Get ends within the device's ``timeout_s`` by itself."""

    def close(self) -> None:
        self._session.close()
