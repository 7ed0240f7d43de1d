"""Records that are sealed and counted: tokens of agents, pins of servers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

COLUMNS = {
    "kind": sa.Text, "name": sa.Text, "value": sa.Text, "version": sa.BigInteger, "event": sa.Text, "seal": sa.Text,
    "at": sa.BigInteger,
}  # fmt: skip


def upgrade() -> None:
    op.create_table(
        "sealed_records",
        *(sa.Column(name, kind, nullable=False) for name, kind in COLUMNS.items()),
        sa.PrimaryKeyConstraint("kind", "name"),
    )
