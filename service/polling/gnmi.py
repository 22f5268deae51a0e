"""Follows the counters that a switch streams over gNMI, and asks for them where it will not stream.

Must not know any platform: what is subscribed to, and what it means, is a ``Subject``'s.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from service.polling.api_counter_sources_base import NoCountersError, Reader
from service.polling.base import Polling, Turns
from switches.device import Device
from switches.errors import RefusedError, SwitchError
from switches.transport.gnmi import GnmiDial
from switches.transport.gnmi_messages import PathValue
from switches.transport.gnmi_path import GnmiPath
from switches.transport.gnmi_stream import GnmiStream
from telemetry.decode.polled import Polled

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


class GnmiFollowing:
    """A ``CounterSource``: one SAMPLE subscription, opened after ``first_after_s`` and anew after a failure.

    A switch that refuses to stream is asked by Get, at the same pace, until it fails; then streaming is tried
    again.
    """

    def __init__(
        self, device: Device, dial: GnmiDial, subject: Subject, turns: Turns, *, first_after_s: float = 0.0
    ) -> None:
        self.switch = device.name
        self.adapter = device.platform
        self._device = device
        self._subject = subject
        self._turns = turns
        self._stream = GnmiStream(device, dial)
        self._asking: Polling | None = None
        self._first_after_s = first_after_s
        self._paths: Sequence[GnmiPath] = ()
        self._look_at_s = 0.0
        self._opened = self._streamed = False

    async def following(self) -> Polled:
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
                self._asking = Polling(self._device, self._subject, self._turns)
        try:
            return await self._asking.following()
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
            patience_s = 2 * self._turns.every_s + self._device.timeout_s
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
        until_s = loop.time() + self._turns.every_s / 2  # one may send all the time
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
        async with self._turns.places:
            paths = await loop.run_in_executor(self._turns.threads, self._subject.look)
        self._look_at_s = loop.time() + max(LOOK_EVERY_S, self._turns.every_s)
        if self._opened and paths == self._paths:
            return False
        self._paths = paths
        await self._stream.open(paths, self._turns.every_s)
        self._opened = True
        return True
