"""Places of databases (SQLite, PostgreSQL), locks, and sessions that reconnect.

A session is for one thread at a time.
"""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    InternalError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.pool import NullPool, StaticPool

from settings.errors import SettingsError
from settings.validation import without_password

CONNECT_WITHIN_S = 5
ANSWER_WITHIN_S = 20
STEPS_BETWEEN_LOOKS = 100_000  # instructions of SQLite's virtual machine: some milliseconds
WAIT_FOR_OTHERS_S = 5.0
ONLY_READS = "ecntwin_only_reads"
_LOCK_KEY = int.from_bytes(b"ecntwin")
_TRIES, _BETWEEN_TRIES_S = 20, 0.1  # the server may not have noticed yet that the last holder is gone
_URL = "settings storage.url"
_OWNER_ONLY = 0o600
_BESIDE = ("", "-wal", "-shm", "-journal", ".lock")

_log = logging.getLogger("ecntwin.storage")

# SQLite errors that may pass: the file was sound when the service last ran, a disk fails for a while, or
# another program writes for longer than ``WAIT_FOR_OTHERS_S`` (VACUUM, a backup).
_MAY_PASS = ("malformed", "disk is full", "disk I/O error", "database or disk is full", "database is locked")
# PostgreSQL's error classes that no wait resolves: authorisation, no such database, no such schema.
_STAYS = ("28", "3D", "3F")


class TakenError(Exception):
    pass


class GoneError(Exception):
    """The database's file is not where it was opened."""


class NewerSchemaError(Exception):
    """The database was written by a later version; the text is its revision."""


class Lock:
    """Makes sure that one service alone resumes rollouts and sets switches by a database.

    This base class locks nothing: for a database in memory, and for commands, which decide nothing.
    """

    def hold(self, connection: Connection) -> None:
        """Takes the lock unless this service holds it; raises ``TakenError``."""

    def release(self) -> None:
        """Releases the lock if it is held."""


class FileLocked(Lock):
    """A lock on a file beside SQLite's own, so that commands may write while the service runs."""

    def __init__(self, path: Path) -> None:
        beside = os.path.realpath(path)  # not a link to it, of which there may be several
        self._lock = FileLock(f"{beside}.lock", timeout=0, mode=_OWNER_ONLY, thread_local=False)

    def hold(self, connection: Connection) -> None:
        if self._lock.is_locked:
            return
        try:
            self._lock.acquire()
        except Timeout:
            raise TakenError from None

    def release(self) -> None:
        self._lock.release(force=True)


class SessionLocked(Lock):
    """PostgreSQL's advisory lock, which ends with its connection."""

    def hold(self, connection: Connection) -> None:
        for _ in range(_TRIES):
            if connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": _LOCK_KEY}):
                return
            time.sleep(_BETWEEN_TRIES_S)
        raise TakenError


@dataclass(frozen=True, slots=True)
class Place:
    """A database: its URL without password, its engine, and its file if it is one."""

    shown: str
    engine: Engine
    path: Path | None

    @property
    def durable(self) -> bool:
        """Whether data outlive this process."""
        return self.engine.pool.__class__ is not StaticPool

    @property
    def is_server(self) -> bool:
        """Whether the database is a server, whose connection may be lost."""
        return self.durable and self.path is None

    def lock(self) -> Lock:
        if self.is_server:
            return SessionLocked()
        return Lock() if self.path is None else FileLocked(self.path)


def place_of(url: str | None) -> Place:
    """The database at ``url``; None: in memory. Opens nothing; raises ``SettingsError``."""
    if url is None:
        return Place("in memory", _sqlite("sqlite://", poolclass=StaticPool), None)
    shown = without_password(url)
    try:
        parsed = _parsed(url)
        if parsed.get_backend_name() != "sqlite":
            return Place(shown, _postgresql(parsed), None)
        if parsed.database in (None, "", ":memory:"):
            raise ArgumentError("it names no file")
        if "uri" in parsed.query:
            raise ArgumentError("its path is a path, not a URI")
        path = Path(str(parsed.database))
        engine = _sqlite(url, poolclass=NullPool)
        event.listen(engine, "do_connect", lambda *_: _make_private(path))
        event.listen(engine, "connect", lambda *_: _keep_private(path))
        return Place(shown, engine, path)
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise SettingsError(
            _URL,
            shown,
            f"it is the URL of a SQLite file or a PostgreSQL database ({said(error)})",
            "give such as sqlite:///ecntwin.db or postgresql+psycopg://user@host/ecntwin",
        ) from error


def _parsed(url: str) -> URL:
    try:
        return make_url(url)
    except ValueError:  # the error's words may repeat part of the password
        raise ArgumentError("its port is no number") from None


def _sqlite(url: str, *, poolclass: Any) -> Engine:
    engine = create_engine(
        url, poolclass=poolclass, connect_args={"check_same_thread": False, "timeout": WAIT_FOR_OTHERS_S}
    )
    event.listen(engine, "connect", _durable)
    event.listen(engine, "begin", _begin)
    return engine


def _make_private(path: Path) -> None:
    """Makes a missing file with mode 0600: SQLite would follow the umask. Those beside it get its mode."""
    with suppress(OSError):  # SQLite reports what is wrong with the file
        # Never opened where it exists: closing it would end the locks of this process's other connections.
        os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY))


def _keep_private(path: Path) -> None:
    """Takes others' access from a file that SQLite has opened, and from those beside it."""
    at = Path(os.path.realpath(path))
    narrowed = []
    for suffix in _BESIDE:
        one = Path(f"{at}{suffix}")
        with suppress(OSError):
            found = one.stat()
            if found.st_uid == os.geteuid() and (mode := stat.S_IMODE(found.st_mode)) & 0o077:
                one.chmod(_OWNER_ONLY)
                narrowed.append(f"{one.name} ({mode:04o})")
    if narrowed:
        _log.warning(
            "the database %s was open to other users: only its owner may use it now (0600); before: %s",
            at,
            ", ".join(narrowed),
        )


def _durable(connection: Any, record: object) -> None:
    connection.isolation_level = None  # the driver would begin transactions late, and none for DDL
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _begin(connection: Connection) -> None:
    only_reads = connection.get_execution_options().get(ONLY_READS, False)
    if only_reads:
        # Limits the time of a query, as PostgreSQL does by itself: one over years must not block all others,
        # such as those for tokens.
        until_s = time.monotonic() + ANSWER_WITHIN_S
        driver: Any = connection.connection.dbapi_connection
        driver.set_progress_handler(lambda: time.monotonic() > until_s, STEPS_BETWEEN_LOOKS)
    connection.exec_driver_sql("BEGIN" if only_reads else "BEGIN IMMEDIATE")


def _postgresql(parsed: URL) -> Engine:
    if parsed.get_backend_name() != "postgresql":
        raise ArgumentError(f"{parsed.get_backend_name()} is neither")
    if "+" not in parsed.drivername:
        parsed = parsed.set(drivername="postgresql+psycopg")
    return create_engine(
        parsed,
        poolclass=NullPool,
        connect_args={
            "connect_timeout": CONNECT_WITHIN_S,
            "options": f"-c statement_timeout={ANSWER_WITHIN_S}s -c lock_timeout={ANSWER_WITHIN_S}s",
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 1000 * ANSWER_WITHIN_S,
            "application_name": "ecntwin",
        },
    )


def may_pass(error: Exception, place: Place) -> bool:
    """Whether opening it again later may work without a change of settings."""
    if isinstance(error, GoneError):
        return True
    cause = getattr(error, "orig", None)
    if place.path is not None:
        return any(part in str(cause or error) for part in _MAY_PASS)
    code = getattr(cause, "sqlstate", None) or ""
    words = str(cause)  # psycopg gives no code where the server refused the connection itself
    refused = any(
        part in words for part in ("authentication failed", "does not exist", "no password supplied")
    )
    return isinstance(error, DBAPIError) and not code.startswith(_STAYS) and not refused


def out_of_time(error: Exception) -> bool:
    """Whether a query was ended as it took longer than ``ANSWER_WITHIN_S``."""
    cause = getattr(error, "orig", None)
    return (
        getattr(cause, "sqlite_errorname", None) == "SQLITE_INTERRUPT"
        or getattr(cause, "sqlstate", None) == "57014"  # PostgreSQL's query_canceled
    )


def said(error: Exception) -> str:
    """The driver's own words, without the statement that SQLAlchemy adds."""
    if isinstance(error, TakenError):
        return "another service has it"
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().partition("\n")[0] or type(cause).__name__


T = TypeVar("T")


class Session:
    """Runs transactions on ``place``, holding ``lock`` while it is connected; one that only ``reads`` does
    not wait for writers.
    """

    def __init__(self, place: Place, lock: Lock | None = None, *, reads: bool = False) -> None:
        self._place = place
        self._engine = place.engine.execution_options(**{ONLY_READS: reads})
        self._lock = lock or Lock()
        self._connection: Connection | None = None
        self._file: tuple[int, int] | None = None

    def run(self, transaction: Callable[[Connection], T]) -> T:
        """Returns the result of ``transaction`` once it is committed.

        Raises SQLAlchemy's errors, ``TakenError`` and ``GoneError``; then nothing is written.
        """
        connection = self._connected()
        try:
            with connection.begin():
                return transaction(connection)
        except (OperationalError, InterfaceError, InternalError):
            if self._place.is_server:
                self._drop()  # a server's connection error says only that something is wrong
            raise

    def close(self) -> None:
        self._drop()
        self._lock.release()

    def _connected(self) -> Connection:
        self._is_where_it_was()
        self._answers()
        if self._connection is None:
            connection = self._engine.connect()
            try:
                self._lock.hold(connection)
                connection.rollback()
            except BaseException:
                connection.close()
                raise
            self._connection = connection
            if self._place.path is not None:
                at = self._place.path.stat()
                self._file = (at.st_dev, at.st_ino)
        return self._connection

    def _answers(self) -> None:
        """Drops a connection that its server has ended."""
        if self._connection is None or not self._place.is_server:
            return
        try:
            self._connection.execute(text("SELECT 1"))
            self._connection.rollback()
        except DBAPIError:
            self._drop()

    def _is_where_it_was(self) -> None:
        """SQLite would keep writing to a removed file, which nobody could read."""
        if self._file is None or self._place.path is None:
            return
        try:
            at = self._place.path.stat()
        except OSError as error:
            raise GoneError(f"the file {self._place.path.name} is gone ({error.strerror})") from error
        if (at.st_dev, at.st_ino) != self._file:
            raise GoneError(
                f"another file is in the place of {self._place.path.name}: start the service anew to use it"
            )

    def _drop(self) -> None:
        if self._connection is not None:
            with suppress(SQLAlchemyError):
                self._connection.close()
        self._connection = None
