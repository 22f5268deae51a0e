"""Tables of rounds, revisions, audit log, alarms, history and tokens."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "recommendations",
        sa.Column("id", sa.String(80), primary_key=True),
        sa.Column("created_ns", sa.BigInteger, nullable=False, index=True),
        sa.Column("status", sa.String(20), nullable=False, index=True),
        sa.Column("standing", sa.Text, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "residuals",
        sa.Column("at_ns", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("recommendation", sa.String(80), nullable=False),
        sa.Column("predicted_bytes", sa.Float),
        sa.Column("measured_bytes", sa.Float),
    )
    op.create_table(
        "revisions",
        sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("kind", sa.String(20), nullable=False, index=True),
        sa.Column("at_ns", sa.BigInteger, nullable=False),
        sa.Column("by", sa.String(200), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("at_ns", sa.BigInteger, nullable=False, index=True),
        sa.Column("who", sa.String(200), nullable=False),
        sa.Column("address", sa.String(80)),
        sa.Column("what", sa.String(80), nullable=False),
        sa.Column("subject", sa.String(200), nullable=False),
        sa.Column("before", sa.Text),
        sa.Column("after", sa.Text),
        sa.Column("outcome", sa.String(200), nullable=False),
    )
    op.create_table(
        "alarms",
        sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("key", sa.String(64), nullable=False, unique=True),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("switch", sa.String(256)),
        sa.Column("level", sa.String(20), nullable=False),
        sa.Column("sentence", sa.Text, nullable=False),
        sa.Column("raised_ns", sa.BigInteger, nullable=False, index=True),
        sa.Column("ended_ns", sa.BigInteger, index=True),
        sa.Column("why", sa.Text),
    )
    op.create_table(
        "queue_history",
        sa.Column("step_s", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at_ns", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("switch", sa.String(256), primary_key=True),
        sa.Column("port", sa.String(256), primary_key=True),
        sa.Column("depth_bytes", sa.Float),
        sa.Column("depth_max_bytes", sa.Float),
        sa.Column("throughput_bytes_per_s", sa.Float),
        sa.Column("marked_packets_per_s", sa.Float),
        sa.Column("pause_share", sa.Float),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tokens",
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("sha256", sa.String(64), nullable=False, unique=True),
        sa.Column("scopes", sa.String(200), nullable=False),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.String(200), nullable=False),
        sa.Column("expires_ns", sa.BigInteger),
        sa.Column("revoked_ns", sa.BigInteger),
        sa.Column("used_ns", sa.BigInteger),
    )
    op.create_table(
        "pulse",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at_ns", sa.BigInteger, nullable=False),
    )
