"""Seals beside what the gateway believes: switches, and requests for a capability with their decisions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("switches", sa.Column("version", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("switches", sa.Column("event", sa.Text))
    op.add_column("switches", sa.Column("seal", sa.Text))
    op.add_column("approvals", sa.Column("seal", sa.Text))
