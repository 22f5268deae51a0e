"""What was decided about switches, on disk before it is done; must not know what the entries mean.

One table of entries in the order they were written. A subject is a rollout's id, or a fixed one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    Engine,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    bindparam,
    create_engine,
    delete,
    event,
    select,
)
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from api.addresses import without_password
from api.errors import SettingsError, UnavailableError

FREEZE = "freeze"
ADOPTED = "adopted"
KNOWN = "known"

_metadata = MetaData()
_entries = Table(
    "journal",
    _metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("at_s", Float, nullable=False),
    Column("subject", String(80), nullable=False, index=True),
    Column("document", Text, nullable=False),
)


class JournalEntry(NamedTuple):
    """One entry; ``document`` is JSON."""

    number: int
    at_s: float
    subject: str
    document: str


class Journal:
    """``url`` is SQLAlchemy's; None keeps it in memory. Raises ``SettingsError`` where it cannot be opened.

    A SQLite file belongs to one service at a time: two would both take its rollouts up.
    """

    def __init__(self, url: str | None = None) -> None:
        self.durable = url is not None
        self._shown = "in memory" if url is None else without_password(url)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ecntwin-journal")
        try:
            self._engine = _engine(url)
            _metadata.create_all(self._engine)
        except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
            raise SettingsError(
                "settings storage.url",
                self._shown,
                f"it is the URL of a database whose driver is installed ({_said(error)})",
                "give such as sqlite:///ecntwin.db",
            ) from error
        except SQLAlchemyError as error:
            raise SettingsError(
                "settings storage.url",
                f"{self._shown}: {_said(error)}",
                "the journal can be opened, by one service alone",
                "stop the other service, or correct the path or its rights",
            ) from error

    async def append(self, subject: str, at_s: float, document: bytes) -> None:
        """Writes an entry; it is on disk when this returns. Raises ``UnavailableError``."""
        await self._run(self._append, subject, at_s, document.decode())

    async def forget(self, subjects: Collection[str], at_s: float, known: bytes) -> None:
        """Removes these subjects' entries and writes ``known``, what is still to be known of all before,
        in the place of what was known and adopted: in one transaction. Raises ``UnavailableError``.
        """
        await self._run(self._forget, (*subjects, KNOWN, ADOPTED), at_s, known.decode())

    def read(self) -> Sequence[JournalEntry]:
        """Every entry in order; blocking. Raises ``SettingsError``."""
        try:
            with self._engine.connect() as connection:
                rows = connection.execute(select(_entries).order_by(_entries.c.number)).all()
        except SQLAlchemyError as error:
            raise SettingsError(
                "settings storage.url",
                f"{self._shown}: {_said(error)}",
                "the journal can be read",
                "restore it, or move it away to begin a new one",
            ) from error
        return [JournalEntry(*row) for row in rows]

    def close(self) -> None:
        """Ends what is being written, and lets go of the database."""
        self._thread.shutdown(wait=True)
        self._engine.dispose()

    def _append(self, subject: str, at_s: float, document: str) -> None:
        with self._engine.begin() as connection:
            connection.execute(_entries.insert().values(at_s=at_s, subject=subject, document=document))

    def _forget(self, subjects: Collection[str], at_s: float, known: str) -> None:
        of_one = delete(_entries).where(_entries.c.subject == bindparam("one"))
        with self._engine.begin() as connection:
            connection.execute(of_one, [{"one": subject} for subject in subjects])
            connection.execute(_entries.insert().values(at_s=at_s, subject=KNOWN, document=known))

    async def _run(self, function: Any, *arguments: Any) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)
        except SQLAlchemyError as error:
            raise UnavailableError(
                f"journal ({self._shown})",
                _said(error),
                "what is done to switches is written down first",
                "make room, or bring the database back; nothing is set until then",
            ) from error
        except RuntimeError as error:  # its thread has ended
            raise UnavailableError(
                f"journal ({self._shown})",
                "an entry while the service stops",
                "what is done to switches is written down first",
                "ask again once the service has started",
            ) from error


def _engine(url: str | None) -> Engine:
    if url is None:
        return create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    engine = create_engine(url)
    if engine.dialect.name == "sqlite":
        engine.dispose()
        engine = create_engine(
            url, poolclass=StaticPool, connect_args={"check_same_thread": False, "timeout": 1.0}
        )
        event.listen(engine, "connect", _durable_and_alone)
    return engine


def _durable_and_alone(connection: Any, record: object) -> None:
    cursor = connection.cursor()
    with suppress(Exception):
        cursor.execute("PRAGMA locking_mode=EXCLUSIVE")
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _said(error: Exception) -> str:
    """The driver's own words, without the statement that SQLAlchemy adds."""
    cause = getattr(error, "orig", None) or error
    return str(cause).partition("\n")[0] or type(cause).__name__
