"""What every round's advice is worth on its traffic."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Adds the columns; of earlier rounds nothing is known."""
    op.add_column("residuals", sa.Column("gain", sa.Float))
    op.add_column("residuals", sa.Column("gain_error", sa.Float))


def downgrade() -> None:
    """Removes them, with what they say."""
    with op.batch_alter_table("residuals") as table:
        table.drop_column("gain_error")
        table.drop_column("gain")
