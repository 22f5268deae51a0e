"""Gains predicted for rollouts, and measured after them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "gains",
        sa.Column("recommendation", sa.String(80), primary_key=True),
        sa.Column("at_ns", sa.BigInteger, nullable=False, index=True),
        sa.Column("policy", sa.String(80), nullable=False),
        sa.Column("predicted", sa.Float),
        sa.Column("predicted_error", sa.Float),
        sa.Column("measured", sa.Float),
        sa.Column("measured_error", sa.Float),
        sa.Column("why", sa.Text),
    )
