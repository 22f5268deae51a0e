"""What rounds teach the advice."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "lessons",
        sa.Column("at_ns", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
