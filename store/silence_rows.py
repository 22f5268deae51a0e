"""Rows of the silences table."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, delete, select

from store.tables import silences, upsert


class SilenceRow(NamedTuple):
    """Alarms of ``kind`` on ``switch`` (None: of any) notify nobody until ``until_ns``, since 1970."""

    id: str
    kind: str | None
    switch: str | None
    made_ns: int
    until_ns: int
    by: str
    note: str | None = None


_COLUMNS = tuple(silences.c[name] for name in SilenceRow._fields)


def put(connection: Connection, row: SilenceRow) -> None:
    """Inserts it, and removes those that were over when it was made."""
    connection.execute(delete(silences).where(silences.c.until_ns <= row.made_ns))
    connection.execute(upsert(connection, silences), [row._asdict()])


def remove(connection: Connection, silence_id: str) -> None:
    connection.execute(delete(silences).where(silences.c.id == silence_id))


def listed(connection: Connection) -> list[SilenceRow]:
    """All of them, the first to end first."""
    query = select(*_COLUMNS).order_by(silences.c.until_ns, silences.c.id)
    return [SilenceRow._make(row) for row in connection.execute(query)]
