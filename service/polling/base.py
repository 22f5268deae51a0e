"""What a source of counters is, and how it fails; must not know any platform.

Asks a switch for its counters at a steady pace; must not know how, nor what becomes of them.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol

from switches.device import Device
from switches.errors import SwitchError, UnreachableError
from telemetry.decode.body import Polled


class NoCountersError(SwitchError):
    """The switch answers, and has no counters of the ports and queues that are wanted."""

    reason = "no_counters"


class Reader(Protocol):
    """Polls a switch's counters, once a call. Blocks: it runs in a thread, one call at a time."""

    def read(self) -> Polled:
        """The counters now. Raises ``SwitchError`` only."""
        ...

    def abort(self) -> None:
        """Called from another thread: a ``read`` under way fails soon."""
        ...

    def close(self) -> None:
        """Lets go of connections; the next ``read`` opens them anew."""
        ...


class CounterSource(Protocol):
    """The counters of one switch as they come. Use from one event loop only."""

    switch: str
    adapter: str

    async def next_counters(self) -> Polled:
        """The next counters, when they are due. Raises ``SwitchError``; the next call begins anew."""
        ...

    async def close(self) -> None:
        """Lets go of connections."""
        ...


@dataclass(frozen=True, slots=True)
class PollSchedule:
    """What all switches that are asked share: the pace, and threads and places for as many at a time."""

    every_s: float
    threads: Executor
    places: asyncio.Semaphore


class PolledSource:
    """A ``CounterSource``: one look every ``every_s`` seconds, the first after ``first_after_s``.

    A look that takes longer than the device's ``timeout_s`` as a whole, however its bytes drip, is ended.
    """

    def __init__(
        self, device: Device, reader: Reader, schedule: PollSchedule, *, first_after_s: float = 0.0
    ) -> None:
        self.switch = device.name
        self.adapter = device.platform
        self._device = device
        self._reader = reader
        self._schedule = schedule
        self._due_after_s = first_after_s
        self._due_s: float | None = None
        self._reading: asyncio.Future[Polled] | None = None

    async def next_counters(self) -> Polled:
        loop = asyncio.get_running_loop()
        due_s = loop.time() + self._due_after_s if self._due_s is None else self._due_s
        await asyncio.sleep(max(0.0, due_s - loop.time()))
        # From when it was due, so that the pace holds; a turn that was missed is not made up for.
        self._due_s = max(due_s + self._schedule.every_s, loop.time())
        async with self._schedule.places:
            return await self._look()

    async def close(self) -> None:
        if self._reading is not None and not self._reading.done():
            self._reader.abort()
            await asyncio.wait({self._reading}, timeout=self._device.timeout_s)
        if self._reading is not None and self._reading.done() and not self._reading.cancelled():
            self._reading.exception()  # nobody else asks for it any more
        self._reader.close()

    async def _look(self) -> Polled:
        if self._reading is not None and not self._reading.done():
            raise self._late()  # its thread is still in the last one
        loop, timeout_s = asyncio.get_running_loop(), self._device.timeout_s
        self._reading = loop.run_in_executor(self._schedule.threads, self._reader.read)
        if not (await asyncio.wait({self._reading}, timeout=timeout_s))[0]:
            self._reader.abort()
            if not (await asyncio.wait({self._reading}, timeout=timeout_s))[0]:
                raise self._late()
        return self._reading.result()

    def _late(self) -> UnreachableError:
        return UnreachableError(
            self._device.where,
            f"no counters within {self._device.timeout_s:g} s",
            "a switch answers in time",
            "look whether it is up, and whether its management network is",
        )
