"""Requests for a capability, and the row on which changes to them queue."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TEXTS = ("principal", "subject", "status", "wish")


def upgrade() -> None:
    op.create_table(
        "approvals",
        sa.Column("id", sa.Text, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in TEXTS),
        sa.Column("review", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_index("approvals_status", "approvals", ["status", "id"])
    op.create_index("approvals_principal", "approvals", ["principal", "subject"])
    op.create_table("turns", sa.Column("name", sa.Text, primary_key=True), sa.Column("taken", sa.BigInteger))
    op.execute("INSERT INTO turns (name, taken) VALUES ('approvals', 0)")
