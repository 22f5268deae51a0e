"""A queue of writes that may wait for the database: in order, and retried until they are written.

Decisions do not wait here: see ``Database.write``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from sqlalchemy import Connection

from settings.errors import UnavailableError
from store.database import Database

Write = Callable[[Connection], Any]

MOST_WAITING = 20_000
AT_ONCE = 256
PAUSE_S = 2.0
PROBE_EVERY_S = 30.0

_log = logging.getLogger("ecntwin.storage")


class Recorder:
    """Holds at most ``most_waiting`` writes; then the oldest are dropped, and counted. For one event loop."""

    def __init__(
        self, database: Database, *, most_waiting: int = MOST_WAITING, pause_s: float = PAUSE_S
    ) -> None:
        self._database = database
        self._most_waiting = most_waiting
        self._pause_s = pause_s
        self._waiting: OrderedDict[Hashable, Write] = OrderedDict()
        self._some = asyncio.Event()
        self._writing = asyncio.Lock()
        self._stopping = False
        self._count = 0
        self._task: asyncio.Task[None] | None = None
        self.dropped = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def put(self, write: Write, *, key: Hashable | None = None) -> None:
        """Queues a write. It replaces one of the same ``key`` that is still waiting, in its place.

        A write may run twice where the result of the first try is unknown: it must be idempotent.
        """
        self._count += 1
        self._waiting[self._count if key is None else key] = write
        while len(self._waiting) > self._most_waiting:
            self._waiting.popitem(last=False)
            self.dropped += 1
        self._some.set()

    def drop(self, key: Hashable) -> None:
        """Removes and counts the write waiting under that key, if any."""
        if self._waiting.pop(key, None) is not None:
            self.dropped += 1

    def start(self) -> None:
        self._task = asyncio.create_task(self._run_forever(), name="recorder")

    async def flush(self) -> None:
        """Writes the queue; raises ``UnavailableError`` where that fails, and the queue stays."""
        async with self._writing:
            while self._waiting:
                await self._write_some()

    async def stop(self, within_s: float) -> None:
        """Writes the queue, for at most ``within_s``, and ends. The rest is lost."""
        self._stopping = True
        self._some.set()
        if self._task is not None:  # it ends by itself, lest it be left open whether something was written
            await asyncio.wait({self._task}, timeout=within_s)
        try:
            async with asyncio.timeout(within_s):
                await self.flush()
        except Exception:
            _log.error("%d entries of the history are lost: the database could not be written", self.waiting)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run_forever(self) -> None:
        while not self._stopping:
            try:
                async with asyncio.timeout(PROBE_EVERY_S):
                    await self._some.wait()
            except TimeoutError:
                await self._database.probe()
                continue
            try:
                await self.flush()
                self._some.clear()
            except Exception as error:
                if not isinstance(error, UnavailableError):
                    _log.exception("the history could not be written; it is tried again")
                if not self._stopping:
                    await asyncio.sleep(self._pause_s)

    async def _write_some(self) -> None:
        """Many writes in one transaction; each by itself where it is refused for its content."""
        batch = list(self._waiting.items())[:AT_ONCE]
        try:
            await self._database.write(lambda connection: [write(connection) for _, write in batch])
        except Exception:  # also a mistake in what is written: it must not keep all else from it
            if not await self._database.probe():
                raise
            for key, write in batch:
                await self._alone(key, write)
            return
        self._done(batch)

    async def _alone(self, key: Hashable, write: Write) -> None:
        try:
            await self._database.write(write)
        except Exception as error:
            if not await self._database.probe():
                raise
            said = error.received or error.rule if isinstance(error, UnavailableError) else repr(error)
            _log.error("an entry of the history cannot be written and is left out: %s", said)
            self.dropped += 1
        self._done([(key, write)])

    def _done(self, batch: list[tuple[Hashable, Write]]) -> None:
        for key, write in batch:
            if self._waiting.get(key) is write:  # else a newer one took its place meanwhile
                del self._waiting[key]
