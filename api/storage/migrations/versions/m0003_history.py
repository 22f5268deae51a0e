"""History of queues in half the space, and why an alarm ended; nothing had been written to either before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Makes both tables anew."""
    op.drop_table("queue_history")
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
    op.drop_table("alarms")
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


def downgrade() -> None:
    """Makes both as they were, and empty."""
    op.drop_table("queue_history")
    op.create_table(
        "queue_history",
        sa.Column("step_s", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at_ns", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("switch", sa.String(200), primary_key=True),
        sa.Column("port", sa.String(200), primary_key=True),
        sa.Column("depth_bytes", sa.Float),
        sa.Column("depth_max_bytes", sa.Float),
        sa.Column("throughput_bytes_per_s", sa.Float),
        sa.Column("marked_packets_per_s", sa.Float),
        sa.Column("pause_share", sa.Float),
    )
    op.create_index("ix_queue_history_of_port", "queue_history", ["switch", "port", "at_ns"])
    op.drop_table("alarms")
    op.create_table(
        "alarms",
        sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("key", sa.String(64), nullable=False, unique=True),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("subject", sa.String(200), nullable=False),
        sa.Column("switch", sa.String(200)),
        sa.Column("level", sa.String(20), nullable=False),
        sa.Column("sentence", sa.Text, nullable=False),
        sa.Column("raised_ns", sa.BigInteger, nullable=False, index=True),
        sa.Column("ended_ns", sa.BigInteger),
    )
