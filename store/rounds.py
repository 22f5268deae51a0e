"""Rows of the recommendations table."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Connection, Select, and_, delete, func, insert, or_, select, update

from store.ages import Uptime, outdated_ns
from store.tables import last_kept, takeable
from store.tables import recommendations as table

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


def newest(connection: Connection, limit: int) -> list[RoundRow]:
    """The newest first."""
    return [RoundRow._make(row) for row in connection.execute(_rows().limit(limit))]


def ids(connection: Connection) -> list[str]:
    """Those of all rows, in no order."""
    return list(connection.scalars(select(table.c.id)))


def some(connection: Connection, row_ids: Collection[str]) -> list[RoundRow]:
    """The rows of these ids."""
    return [RoundRow._make(row) for row in connection.execute(_rows().where(table.c.id.in_(row_ids)))]


def one(connection: Connection, row_id: str) -> RoundRow | None:
    row = connection.execute(_rows().where(table.c.id == takeable(row_id))).first()
    return None if row is None else RoundRow._make(row)


def count(connection: Connection) -> int:
    return connection.scalar(select(func.count()).select_from(table)) or 0


def prune(connection: Connection, *, keep: int, keep_ns: int, uptime: Uptime, most: int) -> None:
    """Removes those without a decision beyond the newest ``keep``, and all older than ``keep_ns``: the
    ``most`` oldest of them. Their age is by ``outdated_ns``: a wrong wall clock must not remove them all.
    """
    undecided = table.c.status.not_in(DECIDED)
    oldest_kept = last_kept(connection, table.c.created_ns, keep, undecided)
    gone = table.c.created_ns < outdated_ns(connection, table.c.created_ns, keep_ns, uptime)
    if oldest_kept is not None:
        gone = or_(gone, and_(undecided, table.c.created_ns < oldest_kept))
    oldest = select(table.c.id).where(gone).order_by(table.c.created_ns).limit(most)
    connection.execute(delete(table).where(table.c.id.in_(oldest.scalar_subquery())))


def _rows() -> Select[tuple[str, int, str, str, bytes]]:
    columns = (table.c.id, table.c.created_ns, table.c.status, table.c.standing, table.c.document)
    return select(*columns).order_by(table.c.created_ns.desc(), table.c.id.desc())
