"""Follows the counters that a switch streams over gNMI, and asks for them where it will not stream.

Must not know any platform: what is subscribed to, and what it means, is a ``Subject``'s.

The counters of a switch that speaks OpenConfig over gNMI; must set nothing, and not know the window.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from service.polling.base import NoCountersError, PolledSource, PollSchedule, Reader
from switches.device import Device, options_of
from switches.errors import RefusedError, SwitchError
from switches.openconfig.gnmi import PORT, OpenConfigOptions
from switches.openconfig.queues import queue_numbers
from switches.transport.gnmi import GnmiDial, GnmiSession
from switches.transport.gnmi_messages import GnmiPath, PathValue
from switches.transport.gnmi_stream import GnmiStream
from telemetry.decode.body import Polled
from telemetry.decode.openconfig_counters import OpenConfigCounters

QUIET_S = 0.25
"""So long after a value the samples of one interval are taken to have come."""
LOOK_EVERY_S = 60.0
"""How often the switch is asked anew what there is to subscribe to."""

_log = logging.getLogger("ecntwin.counters")


class Subject(Reader, Protocol):
    """What is wanted of one switch. ``read`` asks for it by Get. ``take`` and ``taken`` do not block; no two
    calls run at a time.
    """

    def look(self) -> Sequence[GnmiPath]:
        """What to subscribe to now: asks the switch where that depends on it. Raises ``SwitchError``."""
        ...

    def take(self, value: PathValue) -> None:
        """A value of the stream."""
        ...

    def taken(self) -> Polled:
        """What the values since the last call come to."""
        ...


class StreamedSource:
    """A ``CounterSource``: one SAMPLE subscription, opened after ``first_after_s`` and anew after a failure.

    A switch that refuses to stream is asked by Get, at the same pace, until it fails; then streaming is tried
    again.
    """

    def __init__(
        self,
        device: Device,
        dial: GnmiDial,
        subject: Subject,
        schedule: PollSchedule,
        *,
        first_after_s: float = 0.0,
    ) -> None:
        self.switch = device.name
        self.adapter = device.platform
        self._device = device
        self._subject = subject
        self._schedule = schedule
        self._stream = GnmiStream(device, dial)
        self._asking: PolledSource | None = None
        self._first_after_s = first_after_s
        self._paths: Sequence[GnmiPath] = ()
        self._look_at_s = 0.0
        self._opened = self._streamed = False

    async def next_counters(self) -> Polled:
        wait_s, self._first_after_s = self._first_after_s, 0.0
        await asyncio.sleep(wait_s)
        if self._asking is None:
            try:
                return await self._burst()
            except RefusedError as error:
                if self._streamed or not self._opened:
                    raise
                _log.info(
                    "switch %s will not stream its counters, and is asked for them: %s", self.switch, error
                )
                self._asking = PolledSource(self._device, self._subject, self._schedule)
        try:
            return await self._asking.next_counters()
        except SwitchError:
            await self._asking.close()
            self._asking = None
            raise

    async def close(self) -> None:
        await self._stream.close()
        if self._asking is not None:
            await self._asking.close()
        self._subject.close()

    async def _burst(self) -> Polled:
        """The counters of one interval."""
        loop = asyncio.get_running_loop()
        try:
            if not self._stream.is_open:
                self._opened = self._streamed = False
            if not self._opened or loop.time() >= self._look_at_s:
                await self._look()
            patience_s = 2 * self._schedule.every_s + self._device.timeout_s
            until_s = loop.time() + patience_s
            while loop.time() < until_s:
                await self._take_all(await self._first(patience_s))
                polled = self._subject.taken()
                if polled.samples:
                    return polled
            raise NoCountersError(
                self._device.where,
                f"a stream without any counter for {patience_s:g} s",
                "it gives the counters of the ports and queues of the inventory",
                "correct ports, queues or queue_names in the inventory",
            )
        except SwitchError:
            await self._stream.close()
            raise

    async def _take_all(self, values: list[PathValue] | None) -> None:
        """Takes these values and all that come until it is quiet."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._schedule.every_s / 2  # one may send all the time
        while values is not None:
            for value in values:
                self._subject.take(value)
            self._streamed |= bool(values)
            values = await self._stream.next(QUIET_S) if loop.time() < until_s else None

    async def _first(self, patience_s: float) -> list[PathValue]:
        """What comes next; from a new stream where the old one is silent, its objects being there no more."""
        values = await self._stream.next(patience_s)
        if values is None and await self._look():
            values = await self._stream.next(patience_s)
        if values is None:
            raise self._stream.silent(patience_s)
        return values

    async def _look(self) -> bool:
        """Asks what there is; opens the stream where it is not, or not of that, and says whether it has."""
        loop = asyncio.get_running_loop()
        async with self._schedule.places:
            paths = await loop.run_in_executor(self._schedule.threads, self._subject.look)
        self._look_at_s = loop.time() + max(LOOK_EVERY_S, self._schedule.every_s)
        if self._opened and paths == self._paths:
            return False
        self._paths = paths
        await self._stream.open(paths, self._schedule.every_s)
        self._opened = True
        return True


def openconfig_source(device: Device, schedule: PollSchedule, *, first_after_s: float) -> StreamedSource:
    """Follows that switch. Raises ``InventoryError`` for what cannot be asked."""
    options = options_of(device, OpenConfigOptions)
    dial = GnmiDial(device, options, default_port=PORT)
    subject = OpenConfigSubject(device, GnmiSession(device, options, default_port=PORT), options)
    return StreamedSource(device, dial, subject, schedule, first_after_s=first_after_s)


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
