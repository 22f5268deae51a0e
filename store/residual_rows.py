"""Rows of the residuals table, one a round."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, delete, func, select

from store.tables import residuals, upsert


class ResidualRow(NamedTuple):
    """Mean queue of a round's window, predicted for the incumbent and measured; None: unknown."""

    at_ns: int
    recommendation: str
    predicted_bytes: float | None
    measured_bytes: float | None


def put(connection: Connection, row: ResidualRow) -> None:
    """Inserts it, or replaces that of the same time."""
    connection.execute(upsert(connection, residuals), [row._asdict()])


def listed(connection: Connection, *, since_ns: int, until_ns: int, limit: int) -> list[ResidualRow]:
    """From ``since_ns`` to before ``until_ns``, the newest first."""
    query = (
        select(*(residuals.c[name] for name in ResidualRow._fields))
        .where(residuals.c.at_ns >= since_ns, residuals.c.at_ns < until_ns)
        .order_by(residuals.c.at_ns.desc())
        .limit(limit)
    )
    return [ResidualRow(*row) for row in connection.execute(query)]


def prune(connection: Connection, *, before_ns: int, most: int) -> None:
    """Removes the ``most`` oldest from before a time."""
    last = (
        select(residuals.c.at_ns)
        .where(residuals.c.at_ns < before_ns)
        .order_by(residuals.c.at_ns)
        .limit(most)
        .subquery()
    )
    until_ns = connection.scalar(select(func.max(last.c.at_ns)))
    if until_ns is not None:
        connection.execute(delete(residuals).where(residuals.c.at_ns <= until_ns))
