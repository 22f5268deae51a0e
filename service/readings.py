"""The last reading of each switch, and whether it answers.

Adapters block, so they run in threads: one call at a time for each switch, a few switches at once. A reading
that takes too long is not waited for; it is stored when it comes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from switches.base import Reading, SwitchAdapter
from switches.errors import SwitchError

AT_ONCE = 8

_log = logging.getLogger("ecntwin.switches")


@dataclass(frozen=True, slots=True)
class LastReading:
    """The last successful reading of one switch, and why the last try failed (None: it did not)."""

    reading: Reading | None = None
    failure: SwitchError | None = None

    @property
    def reachable(self) -> bool:
        """True also before the first try."""
        return self.failure is None


UNREAD = LastReading()
OnReading = Callable[[str, LastReading, LastReading], None]


class SwitchReadings:
    """``on_reading(switch, before, after)`` sees every reading and failure. For one event loop."""

    def __init__(self, on_reading: OnReading, *, at_once: int = AT_ONCE) -> None:
        self._on_reading = on_reading
        self._known: dict[str, LastReading] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._begun: set[str] = set()
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="ecntwin-switch")

    def known(self, switch: str) -> LastReading:
        """May be called from any thread."""
        return self._known.get(switch, UNREAD)

    async def refresh(
        self, adapters: Iterable[SwitchAdapter], *, patience_s: float, from_now: bool = False
    ) -> bool:
        """Reads these switches, several at once; returns whether all ended within ``patience_s``.

        A reading already running is enough, unless ``from_now``: its result may be from before the call.
        """
        tasks = {self._reading(adapter, from_now=from_now) for adapter in adapters}
        return not tasks or not (await asyncio.wait(tasks, timeout=patience_s))[1]

    def lock(self, switch: str) -> asyncio.Lock:
        """Held by the one call that may use a switch's adapter."""
        return self._locks.setdefault(switch, asyncio.Lock())

    def note(self, reading: Reading) -> None:
        """Stores a reading made elsewhere."""
        self._note(reading.switch, LastReading(reading))

    def close(self) -> None:
        """Releases the threads; running calls end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _reading(self, adapter: SwitchAdapter, *, from_now: bool) -> asyncio.Task[None]:
        task = self._under_way.get(adapter.switch)
        if task is None or task.done() or (from_now and adapter.switch in self._begun):
            self._begun.discard(adapter.switch)
            task = asyncio.create_task(self._read(adapter), name=f"read-{adapter.switch}")
            self._under_way[adapter.switch] = task
        return task

    async def _read(self, adapter: SwitchAdapter) -> None:
        async with self.lock(adapter.switch):
            self._begun.add(adapter.switch)
            before, loop = self.known(adapter.switch), asyncio.get_running_loop()
            try:
                after = LastReading(await loop.run_in_executor(self._threads, adapter.read))
            except SwitchError as error:
                after = replace(before, failure=error)
            except Exception as error:
                _log.exception("the adapter of switch %s failed unexpectedly", adapter.switch)
                after = replace(before, failure=_adapter_bug(adapter.switch, error))
            self._note(adapter.switch, after)

    def _note(self, switch: str, after: LastReading) -> None:
        before, self._known[switch] = self.known(switch), after
        self._on_reading(switch, before, after)


def _adapter_bug(switch: str, error: Exception) -> SwitchError:
    return SwitchError(
        f"switch {switch!r}",
        type(error).__name__,
        "an adapter answers, or raises a SwitchError",
        "look in the service's log, and report it to the adapter's authors",
    )
