"""Rows of the recommendations table."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, Select, and_, delete, func, insert, or_, select, update

from store.tables import recommendations as table
from store.tables import takeable

DECIDED = ("approved", "rejected", "rolled_back")


class RoundRow(NamedTuple):
    """``document`` never changes, ``standing`` is the decision about it."""

    id: str
    created_ns: int
    status: str
    standing: str
    document: bytes


def save(connection: Connection, row: RoundRow) -> None:
    """Inserts it, or replaces that of the same id."""
    connection.execute(delete(table).where(table.c.id == row.id))
    connection.execute(insert(table).values(**row._asdict()))


def stand(connection: Connection, row_id: str, status: str, standing: str) -> None:
    """Writes the decision, if the row still exists."""
    connection.execute(update(table).where(table.c.id == row_id).values(status=status, standing=standing))


def newest(connection: Connection, limit: int, *, before_ns: int | None = None) -> list[RoundRow]:
    """The newest first; with ``before_ns`` only those made before."""
    query = _rows()
    if before_ns is not None:
        query = query.where(table.c.created_ns < before_ns)
    return [RoundRow._make(row) for row in connection.execute(query.limit(limit))]


def one(connection: Connection, row_id: str) -> RoundRow | None:
    row = connection.execute(_rows().where(table.c.id == takeable(row_id))).first()
    return None if row is None else RoundRow._make(row)


def count(connection: Connection) -> int:
    return connection.scalar(select(func.count()).select_from(table)) or 0


def prune(connection: Connection, *, keep: int, decided_since_ns: int) -> None:
    """Removes those without a decision beyond the newest ``keep``, and all before ``decided_since_ns``."""
    undecided = table.c.status.not_in(DECIDED)
    oldest_kept = connection.scalar(
        select(table.c.created_ns)
        .where(undecided)
        .order_by(table.c.created_ns.desc())
        .offset(keep - 1)
        .limit(1)
    )
    gone = table.c.created_ns < decided_since_ns
    if oldest_kept is not None:
        gone = or_(gone, and_(undecided, table.c.created_ns < oldest_kept))
    connection.execute(delete(table).where(gone))


def _rows() -> Select[tuple[str, int, str, str, bytes]]:
    columns = (table.c.id, table.c.created_ns, table.c.status, table.c.standing, table.c.document)
    return select(*columns).order_by(table.c.created_ns.desc(), table.c.id.desc())
