"""Rows of the revisions table: topologies and inventories, one row a change."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, Select, delete, func, insert, literal, select

from store.tables import last_kept
from store.tables import revisions as table

KEPT = 1_000


class Revision(NamedTuple):
    """``document`` is the text as declared or loaded (empty in lists), ``sha256`` its digest."""

    number: int
    kind: str
    at_ns: int
    by: str
    sha256: str
    document: str


def add(connection: Connection, *, kind: str, at_ns: int, by: str, sha256: str, document: str) -> None:
    """Inserts it, and removes all of its kind but the newest ``KEPT`` and the newest of each author: by those
    of the settings a start tells whether the settings have changed.
    """
    row = {"kind": kind, "at_ns": at_ns, "by": by, "sha256": sha256, "document": document}
    connection.execute(insert(table).values(**row))
    oldest_kept = last_kept(connection, table.c.number, KEPT, table.c.kind == kind)
    if oldest_kept is not None:
        of_each = select(func.max(table.c.number)).where(table.c.kind == kind).group_by(table.c.by)
        old = (table.c.kind == kind, table.c.number < oldest_kept, table.c.number.not_in(of_each))
        connection.execute(delete(table).where(*old))


def newest(connection: Connection, kind: str, by: str | None = None) -> Revision | None:
    """The newest of a kind; with ``by`` the newest by that author."""
    query = _rows().where(table.c.kind == kind)
    if by is not None:
        query = query.where(table.c.by == by)
    row = connection.execute(query.limit(1)).first()
    return None if row is None else Revision._make(row)


def listed(connection: Connection, kind: str | None, limit: int, before: int | None = None) -> list[Revision]:
    """The newest first, without their documents (up to 8 MiB each); with ``before`` only those with a lower
    number.
    """
    query = _rows(documents=False)
    if kind is not None:
        query = query.where(table.c.kind == kind)
    if before is not None:
        query = query.where(table.c.number < before)
    return [Revision._make(row) for row in connection.execute(query.limit(limit))]


def one(connection: Connection, number: int) -> Revision | None:
    row = connection.execute(_rows().where(table.c.number == number)).first()
    return None if row is None else Revision._make(row)


def _rows(*, documents: bool = True) -> Select[tuple[int, str, int, str, str, str]]:
    document = table.c.document if documents else literal("")
    columns = (table.c.number, table.c.kind, table.c.at_ns, table.c.by, table.c.sha256, document)
    return select(*columns).order_by(table.c.number.desc())
