"""Rows of the gains table, one a rollout."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, select, update

from store.tables import gains, upsert


class GainRow(NamedTuple):
    """The gain predicted for a recommendation, and the one measured after its rollout, begun ``at_ns``.

    Errors are standard errors; None: unknown, or not measured (yet). ``why`` it was rolled back.
    """

    recommendation: str
    at_ns: int
    policy: str
    predicted: float | None
    predicted_error: float | None
    measured: float | None = None
    measured_error: float | None = None
    why: str | None = None


_COLUMNS = tuple(gains.c[name] for name in GainRow._fields)


def put(connection: Connection, row: GainRow) -> None:
    """Inserts it, or replaces that of the same recommendation."""
    connection.execute(upsert(connection, gains), [row._asdict()])


def change(connection: Connection, recommendation: str, values: dict[str, float | str]) -> None:
    """Sets columns of a recommendation's row, if there is one."""
    connection.execute(update(gains).where(gains.c.recommendation == recommendation).values(**values))


def one(connection: Connection, recommendation: str) -> GainRow | None:
    row = connection.execute(select(*_COLUMNS).where(gains.c.recommendation == recommendation)).first()
    return None if row is None else GainRow(*row)


def listed(connection: Connection, *, since_ns: int, until_ns: int, limit: int) -> list[GainRow]:
    """From ``since_ns`` to before ``until_ns``, the newest first."""
    query = (
        select(*_COLUMNS)
        .where(gains.c.at_ns >= since_ns, gains.c.at_ns < until_ns)
        .order_by(gains.c.at_ns.desc(), gains.c.recommendation.desc())
        .limit(limit)
    )
    return [GainRow(*row) for row in connection.execute(query)]
