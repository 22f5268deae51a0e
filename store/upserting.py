"""Rows that may be there already, in SQLite and PostgreSQL alike; must not know any table."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Executable, Select, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import Insert as PostgresInsert
from sqlalchemy.dialects.sqlite import Insert as SqliteInsert


def upsert(connection: Connection, table: Table) -> Executable:
    """An insert of given rows; one whose primary key is there already is replaced."""
    return _replacing(_insert(connection, table), table)


def upsert_from(
    connection: Connection, table: Table, columns: Sequence[str], rows: Select[tuple[object, ...]]
) -> Executable:
    """The same of what ``rows`` selects, which has a condition: without one SQLite reads another thing."""
    insert = _insert(connection, table)
    insert = insert.from_select(list(columns), rows)
    return _replacing(insert, table)


def insert_once(connection: Connection, table: Table, key: str) -> PostgresInsert | SqliteInsert:
    """An insert that does nothing where there is a row of the same ``key``, a unique column."""
    return _insert(connection, table).on_conflict_do_nothing(index_elements=[key])


def _insert(connection: Connection, table: Table) -> PostgresInsert | SqliteInsert:
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)


def _replacing(insert: PostgresInsert | SqliteInsert, table: Table) -> Executable:
    columns = [column.name for column in table.columns if not column.primary_key]
    return insert.on_conflict_do_update(
        index_elements=[column.name for column in table.primary_key],
        set_={name: insert.excluded[name] for name in columns},
    )
