"""Counters over gNMI: streamed, or polled by Get where the switch will not stream; OpenConfig's paths.

What is subscribed to and how it is decoded is a ``GnmiCounters``'s, one for each platform.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from service.polling.poller import CounterReader, NoCountersError, PolledSource, PollSchedule
from switches.device import Device, options_of
from switches.errors import RefusedError, SwitchError
from switches.openconfig.gnmi import PORT, OpenConfigOptions
from switches.openconfig.queues import queue_numbers
from switches.transport.gnmi import GnmiDial, GnmiSession, GnmiStream
from switches.transport.gnmi_messages import GnmiPath, PathValue
from telemetry.decode.body import Polled
from telemetry.decode.openconfig_counters import OpenConfigCounters

QUIET_S = 0.25
"""Silence after which the samples of an interval are complete."""
RESUBSCRIBE_CHECK_S = 60.0
"""Interval at which the subscribed paths are computed again."""

_log = logging.getLogger("ecntwin.counters")


class GnmiCounters(CounterReader, Protocol):
    """The counters of one switch; ``read`` polls them by Get. ``add`` and ``collected`` do not block. No two
    calls run at a time.
    """

    def paths(self) -> Sequence[GnmiPath]:
        """The paths to subscribe to now; may ask the switch. Raises ``SwitchError``."""

    def add(self, value: PathValue) -> None: ...

    def collected(self) -> Polled:
        """The samples of the values added since the last call."""


class StreamedSource:
    """A ``CounterSource``: one SAMPLE subscription, opened after ``first_after_s`` and again after a failure.

    A switch that refuses to stream is polled by Get at the same pace, until a failure.
    """

    def __init__(
        self,
        device: Device,
        dial: GnmiDial,
        counters: GnmiCounters,
        schedule: PollSchedule,
        *,
        first_after_s: float = 0.0,
    ) -> None:
        self.switch = device.name
        self.adapter = device.platform
        self._device = device
        self._counters = counters
        self._schedule = schedule
        self._stream = GnmiStream(device, dial)
        self._polling: PolledSource | None = None
        self._first_after_s = first_after_s
        self._paths: Sequence[GnmiPath] = ()
        self._check_at_s = 0.0
        self._opened = self._streamed = False

    async def next_counters(self) -> Polled:
        wait_s, self._first_after_s = self._first_after_s, 0.0
        await asyncio.sleep(wait_s)
        if self._polling is None:
            try:
                return await self._burst()
            except RefusedError as error:
                if self._streamed or not self._opened:
                    raise
                _log.info("switch %s will not stream its counters, and is polled: %s", self.switch, error)
                self._polling = PolledSource(self._device, self._counters, self._schedule)
        try:
            return await self._polling.next_counters()
        except SwitchError:
            await self._polling.close()
            self._polling = None
            raise

    async def close(self) -> None:
        await self._stream.close()
        if self._polling is not None:
            await self._polling.close()
        self._counters.close()

    async def _burst(self) -> Polled:
        loop = asyncio.get_running_loop()
        try:
            if not self._stream.is_open:
                self._opened = self._streamed = False
            if not self._opened or loop.time() >= self._check_at_s:
                await self._subscribed()
            patience_s = 2 * self._schedule.every_s + self._device.timeout_s
            until_s = loop.time() + patience_s
            while loop.time() < until_s:
                await self._take_all(await self._first(patience_s))
                polled = self._counters.collected()
                if polled.samples:
                    return polled
            raise NoCountersError(
                self._device.where,
                f"a stream without any counter for {patience_s:g} s",
                "it streams the counters of the ports and queues of the inventory",
                "correct ports, queues or queue_names in the inventory",
            )
        except SwitchError:
            await self._stream.close()
            raise

    async def _take_all(self, values: list[PathValue] | None) -> None:
        """Adds ``values`` and all that follow until the stream is quiet."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._schedule.every_s / 2  # a stream may never be quiet
        while values is not None:
            for value in values:
                self._counters.add(value)
            self._streamed |= bool(values)
            values = await self._stream.next(QUIET_S) if loop.time() < until_s else None

    async def _first(self, patience_s: float) -> list[PathValue]:
        """The next values; reopens a stream that is silent because its objects are gone."""
        values = await self._stream.next(patience_s)
        if values is None and await self._subscribed():
            values = await self._stream.next(patience_s)
        if values is None:
            raise self._stream.silent(patience_s)
        return values

    async def _subscribed(self) -> bool:
        """Opens the stream where it is closed or its paths have changed; returns whether it did."""
        loop = asyncio.get_running_loop()
        async with self._schedule.slots:
            paths = await loop.run_in_executor(self._schedule.threads, self._counters.paths)
        self._check_at_s = loop.time() + max(RESUBSCRIBE_CHECK_S, self._schedule.every_s)
        if self._opened and paths == self._paths:
            return False
        self._paths = paths
        await self._stream.open(paths, self._schedule.every_s)
        self._opened = True
        return True


def openconfig_source(device: Device, schedule: PollSchedule, *, first_after_s: float) -> StreamedSource:
    """The source of that switch; raises ``InventoryError`` for one that cannot be used."""
    options = options_of(device, OpenConfigOptions)
    dial = GnmiDial(device, options, default_port=PORT)
    counters = OpenConfigGnmiCounters(device, GnmiSession(device, options, default_port=PORT), options)
    return StreamedSource(device, dial, counters, schedule, first_after_s=first_after_s)


class OpenConfigGnmiCounters:
    """The counters of the device's ports and queues. ``clock_ns`` dates values without a timestamp."""

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
        self._clock_ns = clock_ns
        self._names = queue_numbers(device, options.queue_names)
        self._decoder = OpenConfigCounters(device.name, self._names, device.wants)

    def paths(self) -> Sequence[GnmiPath]:
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

    def add(self, value: PathValue) -> None:
        steps = [(elem.name, elem.keys) for elem in value.path.elems]
        self._decoder.add(steps, value.value, value.ts_ns or self._clock_ns())

    def collected(self) -> Polled:
        return self._decoder.samples()

    def read(self) -> Polled:
        for names in (("qos", "interfaces"), ("interfaces",)):
            path = GnmiPath.of(*names, origin=self._origin)
            for value in self._session.get([path], data="STATE"):
                self.add(value)
        polled = self.collected()
        if not polled.samples:
            raise NoCountersError(
                self._device.where,
                "none under /qos/interfaces and /interfaces of the ports and queues of the inventory",
                "a switch has counters of its interfaces",
                "correct ports, queues or queue_names in the inventory",
            )
        return polled

    def abort(self) -> None:
        """A Get ends within the device's ``timeout_s`` by itself."""

    def close(self) -> None:
        self._session.close()
