"""The first tables: activity, its events, where the journal was read to, listings and switches.

A migration is history. It spells its tables out, so that it stays what it was when `tables` moves on.
There is no way down: going back is restoring the backup made before the upgrade.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _activity()
    op.create_table(
        "events",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("ask_id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("body", sa.Text),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "journal_position",
        sa.Column("journal", sa.Text, primary_key=True),
        sa.Column("segment", sa.BigInteger, nullable=False),
        sa.Column("offset", sa.BigInteger, nullable=False),
    )
    for name, key, body in (("listings", "server", "tools"), ("switches", "name", "value")):
        op.create_table(
            name,
            sa.Column(key, sa.Text, primary_key=True),
            sa.Column(body, sa.Text, nullable=False),
            sa.Column("at", sa.BigInteger, nullable=False),
        )


def _activity() -> None:
    required = {"type", "source", "tool", "status", "metadata", "searchable"}
    texts = (
        "type", "source", "surface", "server", "tool", "tool_variant", "intent_type", "status", "error_code", "error",
        "arguments", "response", "session_id", "request_id", "client_name", "client_version", "principal", "metadata",
        "searchable",
    )  # fmt: skip
    op.create_table(
        "activity",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("finished_at", sa.BigInteger),
        sa.Column("arguments_size", sa.BigInteger),
        sa.Column("response_size", sa.BigInteger),
        sa.Column("duration_ms", sa.Float),
        *(sa.Column(name, sa.Text, nullable=name not in required) for name in texts),
    )
    op.create_index("activity_at", "activity", ["at", "id"])
    for name in ("type", "status", "tool", "client_name", "principal"):
        op.create_index(f"activity_{name}", "activity", [name, "at", "id"])
    for name in ("server", "intent_type", "session_id", "request_id"):
        where = sa.text(f"{name} IS NOT NULL")
        op.create_index(f"activity_{name}", "activity", [name, "at", "id"], sqlite_where=where, postgresql_where=where)
