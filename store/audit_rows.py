"""Rows of the audit log: inserted before a change, completed after it."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Connection, insert, select, update

from store.ages import Uptime, outdated_ns
from store.tables import audit as table
from store.tables import prune_oldest, takeable

UNDER_WAY = "under way"
_LONGEST = {"who": 200, "address": 80, "what": 80, "subject": 200, "outcome": 200}


class AuditEntry(NamedTuple):
    """One change requested at ``at_ns``; ``before`` and ``after`` are JSON."""

    at_ns: int
    who: str
    address: str | None
    what: str
    subject: str
    before: str | None = None
    after: str | None = None
    outcome: str = UNDER_WAY


class AuditRow(NamedTuple):
    number: int
    entry: AuditEntry


def fitted(entry: AuditEntry) -> AuditEntry:
    """The entry with texts that databases accept, cut to the length of their columns."""
    kept: dict[str, Any] = {
        name: takeable(value)[:most] for name, most in _LONGEST.items() if (value := getattr(entry, name))
    }
    return entry._replace(**kept)


def add(connection: Connection, entry: AuditEntry) -> int:
    """Inserts the entry; returns its number."""
    row = insert(table).values(**fitted(entry)._asdict()).returning(table.c.number)
    number: int = connection.execute(row).scalar_one()
    return number


def number_of(connection: Connection, entry: AuditEntry) -> int | None:
    """The number of the entry, if it was written: an entry is unique by its nanosecond."""
    kept = fitted(entry)
    same = (getattr(table.c, name) == getattr(kept, name) for name in ("at_ns", "who", "what", "subject"))
    return connection.scalar(select(table.c.number).where(*same))


def end(connection: Connection, number: int, *, before: str | None, after: str | None, outcome: str) -> None:
    known = {"before": before, "after": after, "outcome": takeable(outcome)[: _LONGEST["outcome"]]}
    connection.execute(update(table).where(table.c.number == number).values(**known))


def listed(connection: Connection, *, limit: int, before: int | None = None) -> list[AuditRow]:
    """The newest first, of those with numbers below ``before``."""
    columns = (table.c.number, *(getattr(table.c, name) for name in AuditEntry._fields))
    query = select(*columns).order_by(table.c.number.desc()).limit(limit)
    if before is not None:
        query = query.where(table.c.number < before)
    return [AuditRow(row[0], AuditEntry._make(row[1:])) for row in connection.execute(query)]


def forget(connection: Connection, *, keep_ns: int, uptime: Uptime, most: int) -> None:
    """Removes the ``most`` oldest of the entries older than ``keep_ns``, by ``outdated_ns``: a wrong wall
    clock must not remove the log.
    """
    before_ns = outdated_ns(connection, table.c.at_ns, keep_ns, uptime)
    prune_oldest(connection, table.c.at_ns, before_ns=before_ns, most=most)
