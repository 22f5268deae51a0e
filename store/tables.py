"""The tables as the newest migration leaves them, and upserts for SQLite and PostgreSQL.

Times are nanoseconds since 1970, except in ``journal``, which had seconds before there were migrations.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Executable,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    String,
    Table,
    Text,
    delete,
    func,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import Insert as PostgresInsert
from sqlalchemy.dialects.sqlite import Insert as SqliteInsert

NAME_LENGTH = 256
"""Longest name of a switch or a port: reports with longer names are rejected."""

metadata = MetaData()

# A bigint that PostgreSQL increments by itself; SQLite's own row number.
_Number = BigInteger().with_variant(Integer, "sqlite")

journal = Table(
    "journal",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("at_s", Float, nullable=False),
    Column("subject", String(80), nullable=False, index=True),
    Column("document", Text, nullable=False),
)
"""What was decided about switches, in order; a subject is a rollout's id, or a fixed one."""

recommendations = Table(
    "recommendations",
    metadata,
    Column("id", String(80), primary_key=True),
    Column("created_ns", BigInteger, nullable=False, index=True),
    Column("status", String(20), nullable=False, index=True),
    Column("standing", Text, nullable=False),
    Column("document", LargeBinary, nullable=False),
)
"""Rounds: ``document`` is the round's result (JSON, zlib), ``standing`` what was decided since (JSON)."""

residuals = Table(
    "residuals",
    metadata,
    Column("at_ns", BigInteger, primary_key=True, autoincrement=False),
    Column("recommendation", String(80), nullable=False),
    Column("predicted_bytes", Float, nullable=True),
    Column("measured_bytes", Float, nullable=True),
    Column("gain", Float, nullable=True),
    Column("gain_error", Float, nullable=True),
)
"""Of every round the mean queue that the twin predicted for the incumbent and the one measured, and the gain
that it predicted for its answer.
"""

lessons = Table(
    "lessons",
    metadata,
    Column("at_ns", BigInteger, primary_key=True, autoincrement=False),
    Column("document", LargeBinary, nullable=False),
)
"""What each round teaches the advice: features of its traffic, and gains of what it tried (JSON, zlib)."""

gains = Table(
    "gains",
    metadata,
    Column("recommendation", String(80), primary_key=True),
    Column("at_ns", BigInteger, nullable=False, index=True),
    Column("policy", String(80), nullable=False),
    Column("predicted", Float, nullable=True),
    Column("predicted_error", Float, nullable=True),
    Column("measured", Float, nullable=True),
    Column("measured_error", Float, nullable=True),
    Column("why", Text, nullable=True),
)
"""Of every rollout the gain predicted, and the one measured; ``why`` it was rolled back."""

revisions = Table(
    "revisions",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("kind", String(20), nullable=False, index=True),
    Column("at_ns", BigInteger, nullable=False),
    Column("by", String(200), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("document", Text, nullable=False),
)
"""Topologies that were declared, and inventories that were loaded: as often as they changed."""

audit = Table(
    "audit",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("at_ns", BigInteger, nullable=False, index=True),
    Column("who", String(200), nullable=False),
    Column("address", String(80), nullable=True),
    Column("what", String(80), nullable=False),
    Column("subject", String(200), nullable=False),
    Column("before", Text, nullable=True),
    Column("after", Text, nullable=True),
    Column("outcome", String(200), nullable=False),
)
"""Every change anybody asked for."""

alarms = Table(
    "alarms",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("key", String(64), nullable=False, unique=True),
    Column("kind", String(40), nullable=False),
    Column("subject", Text, nullable=False),
    Column("switch", String(NAME_LENGTH), nullable=True),
    Column("level", String(20), nullable=False),
    Column("sentence", Text, nullable=False),
    Column("raised_ns", BigInteger, nullable=False, index=True),
    Column("ended_ns", BigInteger, nullable=True, index=True),
    Column("why", Text, nullable=True),
    Column("members", Text, nullable=True),
    Column("acked_by", String(200), nullable=True),
    Column("acked_ns", BigInteger, nullable=True),
    Column("ack_note", Text, nullable=True),
)
"""Alarms that were raised, each at its worst level. ``key`` identifies one; ``why`` it ended, unless its
value fell; ``members``: the ports and queues in it (JSON).
"""

silences = Table(
    "silences",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("kind", String(40), nullable=True),
    Column("switch", String(NAME_LENGTH), nullable=True),
    Column("made_ns", BigInteger, nullable=False),
    Column("until_ns", BigInteger, nullable=False, index=True),
    Column("by", String(200), nullable=False),
    Column("note", Text, nullable=True),
)
"""Silences: alarms of a kind, on a switch, or both, that notify nobody until a time."""

queue_history = Table(
    "queue_history",
    metadata,
    Column("step_s", Integer, primary_key=True, autoincrement=False),
    Column("at_ns", BigInteger, primary_key=True, autoincrement=False),
    Column("switch", String(NAME_LENGTH), primary_key=True),
    Column("port", String(NAME_LENGTH), primary_key=True),
    Column("depth_bytes", Float, nullable=True),
    Column("depth_max_bytes", Float, nullable=True),
    Column("throughput_bytes_per_s", Float, nullable=True),
    Column("marked_packets_per_s", Float, nullable=True),
    Column("pause_share", Float, nullable=True),
    sqlite_with_rowid=False,  # half the size of a table with row ids, and written three times as fast
)
"""What queues did, in steps of ``step_s`` seconds; coarser steps are kept for longer."""

tokens = Table(
    "tokens",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("sha256", String(64), nullable=False, unique=True),
    Column("scopes", String(200), nullable=False),
    Column("created_ns", BigInteger, nullable=False),
    Column("created_by", String(200), nullable=False),
    Column("expires_ns", BigInteger, nullable=True),
    Column("revoked_ns", BigInteger, nullable=True),
    Column("used_ns", BigInteger, nullable=True),
)
"""Bearer tokens by their SHA-256; ``scopes`` are names with a space between."""

pulse = Table(
    "pulse",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("at_ns", BigInteger, nullable=False),
)
"""One row, written to find out whether the database can be written."""


def takeable(text: str) -> str:
    """The text without NULs, which PostgreSQL refuses, and without lone surrogates, which both refuse."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")


def upsert(connection: Connection, table: Table) -> Executable:
    """An insert that replaces a row of the same primary key."""
    return _replacing(_insert(connection, table), table)


def upsert_from(
    connection: Connection, table: Table, columns: Sequence[str], rows: Select[tuple[object, ...]]
) -> Executable:
    """Like ``upsert``, with rows from a select; that needs a WHERE, or SQLite cannot parse ON CONFLICT."""
    return _replacing(_insert(connection, table).from_select(list(columns), rows), table)


def prune_oldest(connection: Connection, at_ns: Column[int], *, before_ns: int, most: int) -> None:
    """Removes the ``most`` oldest rows of a table from before a time, by its column ``at_ns``."""
    last = select(at_ns).where(at_ns < before_ns).order_by(at_ns).limit(most).subquery()
    until_ns = connection.scalar(select(func.max(last.c[0])))
    if until_ns is not None:
        connection.execute(delete(at_ns.table).where(at_ns <= until_ns))


def last_kept(
    connection: Connection, column: Column[int], keep: int, *where: ColumnElement[bool]
) -> int | None:
    """The ``keep``th largest value of a column, in rows where that holds; None where there are fewer."""
    values = select(column).where(*where).order_by(column.desc())
    return connection.scalar(values.offset(keep - 1).limit(1))


def insert_once(connection: Connection, table: Table, key: str) -> PostgresInsert | SqliteInsert:
    """An insert that does nothing where a row has the same ``key``, a unique column."""
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
