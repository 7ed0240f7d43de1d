"""The states of later rounds that were used, so that each works once, at whichever gateway."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "spent_states",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_index("spent_states_expires", "spent_states", ["expires_at"])
