"""Counter sources, and the one that polls a switch at a steady pace."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol

from switches.device import Device
from switches.errors import SwitchError, UnreachableError
from telemetry.decode.body import Polled


class NoCountersError(SwitchError):
    """The switch answers, but has no counters of the wanted ports and queues."""

    reason = "no_counters"


class CounterReader(Protocol):
    """Polls a switch's counters. Blocks: it runs in a thread, one call at a time."""

    def read(self) -> Polled:
        """The counters now. Raises ``SwitchError`` only."""
        ...

    def abort(self) -> None:
        """Called from another thread: makes a ``read`` under way fail soon."""
        ...

    def close(self) -> None:
        """Closes connections; the next ``read`` reopens them."""
        ...


class CounterSource(Protocol):
    """The counters of one switch as they come; for one event loop."""

    switch: str
    adapter: str

    async def next_counters(self) -> Polled:
        """The next counters, when they are due. Raises ``SwitchError``; the next call starts over."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class PollSchedule:
    """Shared by all polled switches: the interval, and the threads and slots for polls at a time."""

    every_s: float
    threads: Executor
    slots: asyncio.Semaphore


class PolledSource:
    """A ``CounterSource``: one poll every ``every_s`` seconds, the first after ``first_after_s``.

    A poll that takes longer than the device's ``timeout_s`` in all is aborted, even while bytes trickle in.
    """

    def __init__(
        self, device: Device, reader: CounterReader, schedule: PollSchedule, *, first_after_s: float = 0.0
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
        # From when it was due, so that the pace holds; missed polls are not made up for.
        self._due_s = max(due_s + self._schedule.every_s, loop.time())
        async with self._schedule.slots:
            return await self._poll()

    async def close(self) -> None:
        if self._reading is not None and not self._reading.done():
            self._reader.abort()
            await asyncio.wait({self._reading}, timeout=self._device.timeout_s)
        if self._reading is not None and self._reading.done() and not self._reading.cancelled():
            self._reading.exception()  # retrieved, so that asyncio does not log it
        self._reader.close()

    async def _poll(self) -> Polled:
        if self._reading is not None and not self._reading.done():
            raise self._late()  # the last poll's thread still runs
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
            "check the switch and its management network",
        )
