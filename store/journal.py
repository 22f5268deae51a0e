"""The journal of rollouts: every decision about switches, on disk before it is carried out.

One table of entries in the order of writing. A subject is a rollout's id, or a fixed one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, select

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
    """``known``: the journal was read and restored; until then no rollout may begin."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._closed = False
        self.known = False

    async def append(self, subject: str, at_s: float, document: bytes) -> None:
        """Appends an entry, which is on disk when this returns. Raises ``UnavailableError``."""
        entry = journal.insert().values(at_s=at_s, subject=subject, document=document.decode())
        await self._write(lambda connection: connection.execute(entry))

    async def forget(self, subjects: Collection[str], at_s: float, known: bytes) -> None:
        """Removes these subjects' entries and writes ``known``, a summary of all entries before, in place of
        the earlier summary: in one transaction. Raises ``UnavailableError``.
        """
        of_one = delete(journal).where(journal.c.subject == bindparam("one"))
        those = [{"one": subject} for subject in (*subjects, KNOWN, ADOPTED)]
        entry = journal.insert().values(at_s=at_s, subject=KNOWN, document=known.decode())

        def forgotten(connection: Connection) -> None:
            connection.execute(of_one, those)
            connection.execute(entry)

        await self._write(forgotten)

    def read(self) -> Sequence[JournalEntry]:
        """All entries in order; blocking. Raises ``UnavailableError``."""
        query = select(journal).order_by(journal.c.number)
        rows = self._database.read_now(lambda connection: connection.execute(query).all())
        return [JournalEntry(*row) for row in rows]

    def close(self) -> None:
        """Refuses all further entries."""
        self._closed = True

    async def _write(self, transaction: Callable[[Connection], object]) -> None:
        if self._closed:
            raise UnavailableError(
                f"journal ({self._database.shown})", None, "the service is stopping", "retry after its start"
            )
        await self._database.write(transaction)
