"""Rows of the lessons table: what each round teaches the advice."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select

from store.tables import last_kept, lessons, upsert


def put(connection: Connection, at_ns: int, document: bytes) -> None:
    """Inserts it, or replaces that of the same time."""
    connection.execute(upsert(connection, lessons), [{"at_ns": at_ns, "document": document}])


def newest(connection: Connection, limit: int) -> list[bytes]:
    """Documents of the newest ``limit``, the oldest of them first."""
    query = select(lessons.c.document).order_by(lessons.c.at_ns.desc()).limit(limit)
    return list(connection.scalars(query))[::-1]


def prune(connection: Connection, *, keep: int) -> None:
    """Removes all but the newest ``keep``."""
    oldest_kept = last_kept(connection, lessons.c.at_ns, keep)
    if oldest_kept is not None:
        connection.execute(delete(lessons).where(lessons.c.at_ns < oldest_kept))
