"""Reads switches, one at a time each and several at once, and keeps what each answered last."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from service.switches.adapter_check import Answer
from switches.base import Reading, SwitchAdapter
from switches.errors import SwitchError

AT_ONCE = 8

_log = logging.getLogger("ecntwin.switches")

T = TypeVar("T")

UNREAD: Answer[Reading] = Answer()
OnReading = Callable[[str, Answer[Reading], Answer[Reading]], None]


@dataclass(eq=False, slots=True)
class _Reading:
    """One reading of a switch: first it waits until the switch is free, then, ``queued``, for a thread;
    ``begun_s`` is when that began to read, in the event loop's seconds.
    """

    adapter: SwitchAdapter
    queued: bool = False
    begun_s: float | None = None


class SwitchReadings:
    """The last reading of each switch. ``on_reading(switch, before, after)`` sees every reading and failure.

    Adapters block, so they run in threads: one call at a time for each switch, a few switches at once. A
    reading that takes too long is not waited for; it is stored when it comes. For one event loop.
    """

    def __init__(self, on_reading: OnReading) -> None:
        self._on_reading = on_reading
        self._known: dict[str, Answer[Reading]] = {}
        self.noted = 0
        self._locks: dict[str, asyncio.Lock] = {}
        self._under_way: dict[str, tuple[_Reading, asyncio.Task[None]]] = {}
        self._last_begun_s = 0.0  # of all readings
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ecntwin-switch")

    def known(self, switch: str) -> Answer[Reading]:
        """The last reading of a switch; may be called from any thread."""
        return self._known.get(switch, UNREAD)

    async def refresh(
        self, adapters: Iterable[SwitchAdapter], *, patience_s: float, from_now: bool = False
    ) -> list[str]:
        """Reads these switches, several at once; returns those not read in time.

        It waits ``patience_s`` in all, and a reading already running is enough. With ``from_now`` each switch
        is read anew (a running reading may tell what ran before the call), and has ``patience_s`` from when
        its own reading begins: many switches take as long as they need. Those still in the queue are given up
        once no reading has begun for ``patience_s``: every thread then waits for a switch that hangs.
        """
        loop = asyncio.get_running_loop()
        asked_s = loop.time()

        def until_s(one: _Reading) -> float:
            return max(asked_s, self._moved_s(one) if from_now else 0.0) + patience_s

        readings = [self._reading(adapter, from_now=from_now) for adapter in adapters]
        while waiting := {
            task: last_s
            for one, task in readings
            if not task.done() and (last_s := until_s(one)) > loop.time()
        }:
            await asyncio.wait(waiting, timeout=max(waiting.values()) - loop.time())
        return [one.adapter.switch for one, task in readings if not task.done()]

    async def exclusively(self, switch: str, read: Callable[[], T]) -> T:
        """What a blocking call that reads something else of a switch returns, or raises."""
        async with self.lock(switch):
            return await asyncio.get_running_loop().run_in_executor(self._threads, read)

    def lock(self, switch: str) -> asyncio.Lock:
        """Held by the one call that may use a switch's adapter."""
        return self._locks.setdefault(switch, asyncio.Lock())

    def note(self, reading: Reading) -> None:
        """Stores a reading made elsewhere."""
        self._note(reading.switch, Answer(reading))

    def close(self) -> None:
        """Releases the threads; running calls end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _reading(self, adapter: SwitchAdapter, *, from_now: bool) -> tuple[_Reading, asyncio.Task[None]]:
        known = self._under_way.get(adapter.switch)
        if known is None or known[1].done() or (from_now and known[0].begun_s is not None):
            one = _Reading(adapter)
            known = one, asyncio.create_task(self._read(one), name=f"read-{adapter.switch}")
            self._under_way[adapter.switch] = known
        return known

    def _moved_s(self, one: _Reading) -> float:
        """When it began, or while it is queued when the queue last moved; 0 where its switch is in use."""
        return one.begun_s or (self._last_begun_s if one.queued else 0.0)

    async def _read(self, one: _Reading) -> None:
        switch, loop = one.adapter.switch, asyncio.get_running_loop()

        def read() -> Reading:
            one.begun_s = self._last_begun_s = loop.time()
            return one.adapter.read()

        async with self.lock(switch):
            one.queued, before = True, self.known(switch)
            try:
                after = Answer(await loop.run_in_executor(self._threads, read))
            except SwitchError as error:
                after = replace(before, failure=error)
            except Exception as error:
                _log.exception("the adapter of switch %s failed unexpectedly", switch)
                after = replace(before, failure=_adapter_bug(switch, error))
            self._note(switch, after)

    def _note(self, switch: str, after: Answer[Reading]) -> None:
        before, self._known[switch] = self.known(switch), after
        self.noted += 1
        self._on_reading(switch, before, after)


def _adapter_bug(switch: str, error: Exception) -> SwitchError:
    return SwitchError(
        f"switch {switch!r}",
        type(error).__name__,
        "an adapter answers, or raises a SwitchError",
        "look in the service's log, and report it to the adapter's authors",
    )
