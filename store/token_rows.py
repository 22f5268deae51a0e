"""Rows of the tokens table; never a token's text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Connection, insert, select, update

from store.tables import takeable
from store.tables import tokens as table


class TokenRow(NamedTuple):
    """Times are nanoseconds since 1970, ``scopes`` names separated by spaces."""

    name: str
    sha256: str
    scopes: str
    created_ns: int
    created_by: str
    expires_ns: int | None
    revoked_ns: int | None
    used_ns: int | None


_COLUMNS = tuple(getattr(table.c, name) for name in TokenRow._fields)


def add(connection: Connection, row: TokenRow) -> None:
    """Inserts a token; its name must be unused."""
    connection.execute(insert(table).values(**row._asdict()))


def named(connection: Connection, name: str) -> TokenRow | None:
    """The token of that name, revoked or not."""
    found = connection.execute(select(*_COLUMNS).where(table.c.name == takeable(name))).first()
    return None if found is None else TokenRow._make(found)


def listed(connection: Connection) -> list[TokenRow]:
    """All tokens, the oldest first."""
    order = (table.c.created_ns, table.c.name)
    return [TokenRow._make(row) for row in connection.execute(select(*_COLUMNS).order_by(*order))]


def revoke(connection: Connection, name: str, at_ns: int) -> None:
    """Marks a token as revoked; the row stays, so that the audit log can name it."""
    connection.execute(update(table).where(table.c.name == name).values(revoked_ns=at_ns))


def used(connection: Connection, when_ns: Mapping[str, int]) -> None:
    """Stores when these tokens were last used."""
    for name, at_ns in when_ns.items():
        connection.execute(update(table).where(table.c.name == name).values(used_ns=at_ns))
