"""Columns for an alarm's members and acknowledgement, and a table of silences."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Adds the columns and creates the table."""
    for column in (
        sa.Column("members", sa.Text),
        sa.Column("acked_by", sa.String(200)),
        sa.Column("acked_ns", sa.BigInteger),
        sa.Column("ack_note", sa.Text),
    ):
        op.add_column("alarms", column)
    op.create_table(
        "silences",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(40)),
        sa.Column("switch", sa.String(256)),
        sa.Column("made_ns", sa.BigInteger, nullable=False),
        sa.Column("until_ns", sa.BigInteger, nullable=False, index=True),
        sa.Column("by", sa.String(200), nullable=False),
        sa.Column("note", sa.Text),
    )
