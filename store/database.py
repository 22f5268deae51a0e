"""The service's database: migrated with Alembic, written in one thread, read in another, reopened after a
failure; and the queue of writes that may wait for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, SQLAlchemyError

from settings.errors import SettingsError, UnavailableError
from store.connection import (
    ANSWER_WITHIN_S,
    GoneError,
    Lock,
    NewerSchemaError,
    Session,
    TakenError,
    may_pass,
    out_of_time,
    place_of,
    said,
)
from store.tables import metadata, pulse

MOST_WAITING = 20_000
AT_ONCE = 256
PAUSE_S = 2.0
PROBE_EVERY_S = 30.0

Write = Callable[[Connection], Any]

_log = logging.getLogger("ecntwin.storage")


_TROUBLE = (SQLAlchemyError, OSError, TakenError, GoneError)


T = TypeVar("T")


class Database:
    """``url`` is SQLAlchemy's, None is in memory; raises ``SettingsError`` for an invalid one. ``open``
    connects.

    A service has it ``alone``: two would both resume its rollouts. Commands open it beside the service.
    What only looks into one that a service may have open does not ``migrate`` it.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        alone: bool = True,
        migrate: bool = True,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._place = place_of(url)
        self._alone = alone
        self._migrate = migrate
        self._clock_ns = clock_ns
        self._writing = Session(self._place, self._place.lock() if alone else Lock())
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="ecntwin-storage")
        self._reading, self._reader = self._writing, self._writer  # in memory it is its one connection
        if self._place.durable:
            self._reading = Session(self._place, reads=True)
            self._reader = ThreadPoolExecutor(1, thread_name_prefix="ecntwin-storage-read")
        self._open = False
        self._closed = False
        self.failing: str | None = None
        """Why the last write failed, in the driver's words; None if it succeeded."""

    @property
    def durable(self) -> bool:
        return self._place.durable

    @property
    def shown(self) -> str:
        """The URL without its password."""
        return self._place.shown

    def open(self) -> None:
        """Connects and migrates (unless told not to); blocking. Does nothing if it is open.

        Raises ``UnavailableError`` where a later try may work (the next use tries again), and
        ``SettingsError`` where it will not: the database is taken by another service, written by a later
        version, or no database.
        """
        try:
            self._writer.submit(self._opened).result()
        except RuntimeError as error:
            raise self._stopping() from error

    async def write(self, transaction: Callable[[Connection], T]) -> T:
        """Runs and commits ``transaction``; it is on disk when this returns.

        Raises ``UnavailableError``: then nothing is written.
        """
        return await self._within(self._writer, lambda: self._written(transaction))

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Runs a transaction that only reads; raises ``UnavailableError``."""
        return await self._within(self._reader, lambda: self._read(query))

    def write_now(self, transaction: Callable[[Connection], T]) -> T:
        """Like ``write``, but blocking."""
        return self._writer.submit(self._written, transaction).result()

    def read_now(self, query: Callable[[Connection], T]) -> T:
        """Like ``read``, but blocking."""
        return self._reader.submit(self._read, query).result()

    async def probe(self) -> bool:
        """Writes a row to update ``failing``; returns whether that worked."""
        try:
            await self.write(self._beat)
        except UnavailableError:
            return False
        return True

    def close(self) -> None:
        """Waits for the write under way and closes; may be called twice."""
        if self._closed:
            return
        self._closed = True
        # One after the other: of two SQLite connections closed at once, neither may find itself the last, and
        # then the newest writes stay in the file beside the database.
        if self._reader is not self._writer:
            self._reader.submit(self._reading.close)
            self._reader.shutdown(wait=True)
        self._writer.submit(self._writing.close)
        self._writer.shutdown(wait=True)
        self._place.engine.dispose()

    def _make_tables(self, connection: Connection) -> None:
        """Raises ``NewerSchemaError``."""
        if not self._migrate:
            return
        if not self._place.durable:
            metadata.create_all(connection)
            return
        from store.migrations import migrate  # imported here: Alembic takes 0.1 s

        migrate(connection)

    def _opened(self) -> None:
        if self._open:
            return
        try:
            self._writing.run(self._make_tables)
        except NewerSchemaError as error:
            raise SettingsError(
                "settings storage.url",
                f"{self.shown}, whose tables are of revision {error}",
                "a database is read by the version that wrote it, or a later one",
                "run that version, or restore the copy that was made before it",
            ) from error
        except TakenError as error:
            raise SettingsError(
                "settings storage.url",
                f"{self.shown}: {said(error)}",
                "the database is opened by one service alone",
                "stop the other service, or give this one a database of its own",
            ) from error
        except _TROUBLE as error:
            if may_pass(error, self._place):
                raise self._failed(error) from error
            raise SettingsError(
                "settings storage.url",
                f"{self.shown}: {said(error)}",
                "the database can be opened",
                "correct the path, its rights or the credentials",
            ) from error
        self._open = True
        self.failing = None

    def _written(self, transaction: Callable[[Connection], T]) -> T:
        try:
            self._opened()
            done = self._writing.run(transaction)
        except SettingsError as error:  # found only now, as the database could not be reached before
            self.failing = "; ".join(part for part in (error.received, error.rule) if part)
            raise UnavailableError(
                f"database ({self.shown})", error.received, error.rule, error.remedy
            ) from error
        except DataError as error:  # the content was refused: the database is as it was
            raise self._unavailable(said(error)) from error
        except _TROUBLE as error:
            raise self._failed(error) from error
        if self.failing is not None:
            _log.warning("the database (%s) can be written again", self.shown)
            self.failing = None
        return done

    def _read(self, query: Callable[[Connection], T]) -> T:
        if not self._open:
            raise self._unavailable(self.failing or "a query before it was opened")
        try:
            return self._reading.run(query)
        except _TROUBLE as error:
            if out_of_time(error):
                raise UnavailableError(
                    f"database ({self.shown})",
                    f"a query that took more than {ANSWER_WITHIN_S} s",
                    "a query is ended by then, as others wait for it",
                    "ask for a shorter span, or for less at once",
                ) from error
            raise self._unavailable(said(error)) from error

    def _failed(self, error: Exception) -> UnavailableError:
        """Records the failure; a service logs it once. Commands print it themselves."""
        reason = said(error)
        if self._alone and self.failing != reason:
            _log.error("the database (%s) cannot be written: %s", self.shown, reason)
        self.failing = reason
        return self._unavailable(reason)

    def _unavailable(self, received: str) -> UnavailableError:
        return UnavailableError(
            f"database ({self.shown})",
            received,
            "what is decided is written down first",
            "make room, or bring the database back; no switch is set until then",
        )

    def _stopping(self) -> UnavailableError:
        return UnavailableError(
            f"database ({self.shown})", None, "the service is stopping", "retry after its start"
        )

    async def _within(self, thread: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        try:
            waiting = asyncio.get_running_loop().run_in_executor(thread, work)
        except RuntimeError as error:  # the thread has ended
            raise self._stopping() from error
        return await waiting

    def _beat(self, connection: Connection) -> None:
        connection.execute(pulse.delete())
        connection.execute(pulse.insert().values(id=1, at_ns=self._clock_ns()))


class Recorder:
    """A queue of writes that may wait for the database: in order, and retried until they are written.

    It holds at most ``most_waiting``; then the oldest are dropped, and counted. Decisions do not wait here:
    see ``Database.write``. For one event loop.
    """

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

    def put(self, write: Write, *, key: Hashable | None = None, last: bool = False) -> None:
        """Queues a write. It replaces one of the same ``key`` that is still waiting, in its place, or with
        ``last`` behind all others: where those of another key write the same row.

        A write may run twice where the result of the first try is unknown: it must be idempotent.
        """
        self._count += 1
        if last:
            self._waiting.pop(key, None)
        self._waiting[self._count if key is None else key] = write
        while len(self._waiting) > self._most_waiting:
            self._waiting.popitem(last=False)
            self.dropped += 1
        self._some.set()

    def holds(self, key: Hashable) -> bool:
        """Whether the write of that key still waits."""
        return key in self._waiting

    def drop(self, key: Hashable) -> None:
        """Removes the write that waits under that key, if any, and counts it as dropped."""
        if self._waiting.pop(key, None) is not None:
            self.dropped += 1

    def start(self) -> None:
        self._task = asyncio.create_task(self._run_forever(), name="recorder")

    async def flush(self) -> None:
        """Writes the queue; raises ``UnavailableError`` where that fails: then the queue stays."""
        async with self._writing:
            while self._waiting:
                await self._write_some()

    async def stop(self, within_s: float) -> None:
        """Writes the queue for at most ``within_s``, then stops. What is left is lost."""
        self._stopping = True
        self._some.set()
        if self._task is not None:  # it ends by itself; cancelling might leave the outcome of a write unknown
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
        """Runs many writes in one transaction; one by one where a write is refused for its content."""
        batch = list(self._waiting.items())[:AT_ONCE]
        try:
            await self._database.write(lambda connection: [write(connection) for _, write in batch])
        except Exception:  # even a bug in one write must not block all others
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
            if self._waiting.get(key) is write:  # otherwise a newer write took its place meanwhile
                del self._waiting[key]
