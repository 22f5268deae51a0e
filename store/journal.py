"""The journal of rollouts: every decision about switches, on disk before it is carried out.

One table of entries in the order of writing. A subject is a rollout's id, or a fixed one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, select
from sqlalchemy.sql.dml import ReturningInsert

from settings.errors import UnavailableError
from store.database import Database
from store.tables import journal

FREEZE = "freeze"
ADOPTED = "adopted"
KNOWN = "known"


class JournalEntry(NamedTuple):
    """One entry; ``document`` is JSON."""

    number: int
    at_s: float
    subject: str
    document: str


class Journal:
    """``known``: the journal was read and restored; until then no rollout may begin.

    A database server may have committed an entry whose writer was told that it failed: its answer was lost.
    Such an entry does not count, and the next write removes it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._closed = False
        self._writing = asyncio.Lock()
        self._last: int | None = None  # the entry written or read last; None: not known
        self._doubtful = False  # whether entries behind that one may be there
        self.known = False

    async def append(self, subject: str, at_s: float, document: bytes) -> None:
        """Appends an entry, which is on disk when this returns. Raises ``UnavailableError``."""
        await self._write(_entry(at_s, subject, document))

    async def forget(self, subjects: Collection[str], at_s: float, known: bytes) -> None:
        """Removes these subjects' entries and writes ``known``, a summary of all entries before, in place of
        the earlier summary: in one transaction. Raises ``UnavailableError``.
        """
        of_one = delete(journal).where(journal.c.subject == bindparam("one"))
        those = [{"one": subject} for subject in (*subjects, KNOWN, ADOPTED)]
        await self._write(_entry(at_s, KNOWN, known), lambda connection: connection.execute(of_one, those))

    def read(self) -> Sequence[JournalEntry]:
        """All entries in order; blocking. Raises ``UnavailableError``."""
        query = select(journal).order_by(journal.c.number)
        rows = self._database.read_now(lambda connection: connection.execute(query).all())
        if self._last is None:
            self._last = rows[-1].number if rows else 0
        return [JournalEntry(*row) for row in rows]

    def close(self) -> None:
        """Refuses all further entries."""
        self._closed = True

    async def _write(
        self, entry: ReturningInsert[int], before: Callable[[Connection], object] | None = None
    ) -> None:
        """Writes ``entry`` in one transaction with what is done ``before``."""
        if self._closed:
            raise UnavailableError(
                f"journal ({self._database.shown})", None, "the service is stopping", "retry after its start"
            )
        async with self._writing:
            doubtful = None
            if self._doubtful and self._last is not None:
                doubtful = delete(journal).where(journal.c.number > self._last)

            def written(connection: Connection) -> int:
                if doubtful is not None:
                    connection.execute(doubtful)
                if before is not None:
                    before(connection)
                return connection.scalars(entry).one()

            self._doubtful = True
            self._last = await self._database.write(written)
            self._doubtful = False


def _entry(at_s: float, subject: str, document: bytes) -> ReturningInsert[int]:
    entry = journal.insert().values(at_s=at_s, subject=subject, document=document.decode())
    return entry.returning(journal.c.number)
