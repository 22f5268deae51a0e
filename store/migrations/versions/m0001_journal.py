"""The journal of rollouts. The table may exist: the service had it before it had migrations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Creates the table if it is missing."""
    if sa.inspect(op.get_bind()).has_table("journal"):
        return
    op.create_table(
        "journal",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("at_s", sa.Float, nullable=False),
        sa.Column("subject", sa.String(80), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("ix_journal_subject", "journal", ["subject"])
