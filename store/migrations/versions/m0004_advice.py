"""Columns for the predicted gain of each round's advice on its traffic."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Adds the columns; they are null for earlier rounds."""
    op.add_column("residuals", sa.Column("gain", sa.Float))
    op.add_column("residuals", sa.Column("gain_error", sa.Float))
