"""Rows of the alarms table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, and_, delete, func, or_, select, update

from store.tables import alarms, insert_once, pulse, queue_history


@dataclass(frozen=True, slots=True)
class AlarmRow:
    """One alarm; ``members`` is JSON that service/history/alarms.py writes and reads."""

    key: str
    kind: str
    subject: str
    switch: str | None
    level: str
    sentence: str
    raised_ns: int
    ended_ns: int | None = None
    why: str | None = None
    members: str | None = None
    acked_by: str | None = None
    acked_ns: int | None = None
    ack_note: str | None = None


_NAMES = tuple(AlarmRow.__dataclass_fields__)
_COLUMNS = tuple(alarms.c[name] for name in _NAMES)


def put(connection: Connection, row: AlarmRow) -> None:
    """Inserts or updates an alarm; the time when it was raised stays."""
    values = {name: getattr(row, name) for name in _NAMES}
    connection.execute(insert_once(connection, alarms, "key").values(values))
    del values["key"], values["raised_ns"]
    connection.execute(update(alarms).where(alarms.c.key == row.key).values(values))


def open_rows(connection: Connection) -> list[AlarmRow]:
    """Alarms that have not ended, in the order they were raised."""
    query = select(*_COLUMNS).where(alarms.c.ended_ns.is_(None)).order_by(alarms.c.raised_ns, alarms.c.number)
    return [AlarmRow(*row) for row in connection.execute(query)]


def listed(connection: Connection, *, since_ns: int, until_ns: int, limit: int) -> list[AlarmRow]:
    """Alarms raised or open from ``since_ns`` to before ``until_ns``, the last raised first."""
    there = and_(
        alarms.c.raised_ns < until_ns, or_(alarms.c.ended_ns.is_(None), alarms.c.ended_ns >= since_ns)
    )
    query = select(*_COLUMNS).where(there).order_by(alarms.c.raised_ns.desc(), alarms.c.number.desc())
    return [AlarmRow(*row) for row in connection.execute(query.limit(limit))]


def prune(connection: Connection, *, ended_before_ns: int, keep: int, most: int) -> None:
    """Removes alarms that ended before a time, and all but the newest ``keep``; ``most`` of each at once."""
    newest = connection.scalar(select(func.max(alarms.c.number))) or 0
    for old in (alarms.c.ended_ns < ended_before_ns, alarms.c.number <= newest - keep):
        those = select(alarms.c.number).where(old).order_by(alarms.c.number).limit(most)
        connection.execute(delete(alarms).where(alarms.c.number.in_(those.scalar_subquery())))


def last_alive_ns(connection: Connection, before_ns: int) -> int | None:
    """The newest time written before ``before_ns``: a service was running until then."""
    lengths = select(func.min(queue_history.c.step_s)).scalar_subquery()
    found: Sequence[int | None] = [
        connection.scalar(select(func.max(column)).where(column < before_ns))
        for column in (pulse.c.at_ns, alarms.c.raised_ns, alarms.c.ended_ns)
    ]
    step_ns = connection.scalar(
        select(func.max(queue_history.c.at_ns)).where(
            queue_history.c.step_s == lengths, queue_history.c.at_ns < before_ns
        )
    )
    return max((at_ns for at_ns in (*found, step_ns) if at_ns is not None), default=None)
