"""Rows of the residuals table, one a round."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, case, func, select

from store.tables import residuals, upsert
from telemetry.settings import NS_PER_DAY


class ResidualRow(NamedTuple):
    """Mean queue of a round's window, predicted for the incumbent and measured; None: unknown.

    ``gain`` is predicted for its answer, 0 where that is to keep the incumbent, None where it does not score
    by gain; ``gain_error`` its standard error.
    """

    at_ns: int
    recommendation: str
    predicted_bytes: float | None
    measured_bytes: float | None
    gain: float | None = None
    gain_error: float | None = None


class DayRow(NamedTuple):
    """The rounds of one day (whole days since 1970, UTC) that score by gain: how many, how many of them
    advised a change, the mean of their gains, and of the errors of those that did.
    """

    day: int
    rounds: int
    advised: int
    gain: float
    gain_error: float | None


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


def by_day(connection: Connection, *, since_ns: int, until_ns: int) -> list[DayRow]:
    """By day, rounds and their gains, the oldest day first; the first and last day may be incomplete."""
    gain = residuals.c.gain
    day = residuals.c.at_ns // NS_PER_DAY
    query = (
        select(
            day.label("day"),
            func.count(),
            func.sum(case((gain != 0.0, 1), else_=0)),
            func.avg(gain),
            func.avg(residuals.c.gain_error),
        )
        .where(residuals.c.at_ns >= since_ns, residuals.c.at_ns < until_ns, gain.is_not(None))
        .group_by("day")
        .order_by("day")
    )
    return [DayRow(int(row[0]), row[1], int(row[2]), *row[3:]) for row in connection.execute(query)]
