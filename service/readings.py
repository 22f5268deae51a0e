"""What the switches were last read to run, and whether they answer; must not know what that is wanted for.

Adapters block, so they run in threads, one call at a time for each switch and a few switches at once. A
reading that takes too long is not waited for: it is noted when it comes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar

from switches.base import Reading, SwitchAdapter
from switches.errors import SwitchError

AT_ONCE = 8

_log = logging.getLogger("ecntwin.switches")

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one switch: the last reading, and why the last try failed (None: it did not)."""

    reading: Reading | None = None
    failure: SwitchError | None = None

    @property
    def reachable(self) -> bool:
        """Whether it answered when it was last asked; a switch not asked yet is given the benefit."""
        return self.failure is None


NOTHING = Known()


class Readings:
    """``told(switch, before, after)`` hears of every reading and failure. Use from one event loop only."""

    def __init__(self, told: Callable[[str, Known, Known], None], *, at_once: int = AT_ONCE) -> None:
        self._told = told
        self._known: dict[str, Known] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._begun: set[str] = set()
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="ecntwin-switch")

    def known(self, switch: str) -> Known:
        """What is known of it; may be asked from any thread."""
        return self._known.get(switch, NOTHING)

    async def refresh(
        self, adapters: Iterable[SwitchAdapter], *, patience_s: float, from_now: bool = False
    ) -> bool:
        """Reads these switches anew, several at once; whether all had answered, or failed to, when patience
        ended. A reading under way will do, unless ``from_now``: what it tells may be from before the call.
        """
        tasks = {self._reading(adapter, from_now=from_now) for adapter in adapters}
        return not tasks or not (await asyncio.wait(tasks, timeout=patience_s))[1]

    @asynccontextmanager
    async def undisturbed(self, switches: Collection[str]) -> AsyncIterator[None]:
        """While inside, nobody else's call reaches these switches."""
        async with AsyncExitStack() as held:
            for name in sorted(switches):  # one order for all, so that two never wait for each other
                await held.enter_async_context(self._lock(name))
            yield

    async def call(self, function: Callable[P, T], *arguments: P.args, **_named: P.kwargs) -> T:
        """A blocking call in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    def note(self, reading: Reading) -> None:
        """Takes a reading that came some other way."""
        self._note(reading.switch, Known(reading))

    def close(self) -> None:
        """Lets go of the threads; calls that have begun end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _reading(self, adapter: SwitchAdapter, *, from_now: bool) -> asyncio.Task[None]:
        task = self._under_way.get(adapter.switch)
        if task is None or task.done() or (from_now and adapter.switch in self._begun):
            self._begun.discard(adapter.switch)
            task = asyncio.create_task(self._read(adapter), name=f"read-{adapter.switch}")
            self._under_way[adapter.switch] = task
        return task

    async def _read(self, adapter: SwitchAdapter) -> None:
        async with self._lock(adapter.switch):
            self._begun.add(adapter.switch)
            before = self.known(adapter.switch)
            try:
                after = Known(await self.call(adapter.read))
            except SwitchError as error:
                after = replace(before, failure=error)
            except Exception as error:
                _log.exception("the adapter of switch %s failed in a way it should not", adapter.switch)
                after = replace(before, failure=_mistake(adapter.switch, error))
            self._note(adapter.switch, after)

    def _note(self, switch: str, after: Known) -> None:
        before, self._known[switch] = self.known(switch), after
        self._told(switch, before, after)

    def _lock(self, switch: str) -> asyncio.Lock:
        return self._locks.setdefault(switch, asyncio.Lock())


def _mistake(switch: str, error: Exception) -> SwitchError:
    return SwitchError(
        f"switch {switch!r}",
        type(error).__name__,
        "its adapter answers, or says in a sentence why not",
        "look in the service's log, and report it to the adapter's authors",
    )
