"""Chained events, one order for everything, text search, roll-ups, and several gateways on one database.

What 0001 held is moved aside under names that end in it. Its events were not chained, so `import_v1` writes them
once more, through the journal like any other, and then drops these tables.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

OLD_INDEXES = (
    "at", "type", "status", "tool", "client_name", "principal", "server", "intent_type", "session_id", "request_id",
)  # fmt: skip
REQUIRED = {"type", "source", "tool", "status", "metadata"}
TEXTS = (
    "type", "source", "surface", "server", "tool", "tool_variant", "intent_type", "status", "error_code", "error",
    "arguments", "response", "session_id", "request_id", "client_name", "client_version", "principal", "metadata",
)  # fmt: skip
BUCKETS = 32
KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    for name in OLD_INDEXES:
        op.drop_index(f"activity_{name}", "activity")
    op.rename_table("activity", "activity_0001")
    op.rename_table("events", "events_0001")
    if op.get_bind().dialect.name == "postgresql":  # where a renamed table keeps the name of its key
        for name in ("activity", "events"):
            op.execute(f"ALTER INDEX {name}_pkey RENAME TO {name}_0001_pkey")
    _activity()
    _words()
    _chains()
    _rollup()


def _activity() -> None:
    op.create_table(
        "activity",
        sa.Column("n", KEY, primary_key=True, autoincrement=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("gateway", sa.Integer, nullable=False),
        sa.Column("finished_at", sa.BigInteger),
        sa.Column("arguments_size", sa.BigInteger),
        sa.Column("response_size", sa.BigInteger),
        sa.Column("duration_ms", sa.Float),
        *(sa.Column(name, sa.Text, nullable=name not in REQUIRED) for name in TEXTS),
    )
    op.create_index("activity_id", "activity", ["id"], unique=True)
    for name in ("type", "status", "tool", "client_name", "principal"):
        op.create_index(f"activity_{name}", "activity", [name, "n"])
    for name in ("server", "intent_type", "session_id", "request_id"):
        where = sa.text(f"{name} IS NOT NULL")
        op.create_index(f"activity_{name}", "activity", [name, "n"], sqlite_where=where, postgresql_where=where)


def _words() -> None:
    """Words are cut and folded by us, so both engines take them as they are and find the same."""
    if op.get_bind().dialect.name == "sqlite":
        op.execute("CREATE VIRTUAL TABLE activity_words USING fts5(words, detail=none, columnsize=0, tokenize='ascii')")
    else:
        op.execute("CREATE TABLE activity_words (rowid BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)")
        # Every search reads the whole of what is pending, so that must not be much.
        bound = "WITH (gin_pending_list_limit = 512)"
        op.execute(f"CREATE INDEX activity_words_words ON activity_words USING gin (words) {bound}")


def _chains() -> None:
    op.create_table(
        "events",
        sa.Column("chain", sa.Integer, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("head", sa.Text, nullable=False),
        sa.Column("mac", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("chain", "seq"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "gateways",
        sa.Column("number", KEY, primary_key=True, autoincrement=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("key_id", sa.Text, nullable=False),
        sa.Column("life", sa.Text),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "checkpoints",
        sa.Column("chain", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("mac", sa.Text, nullable=False),
        sa.Column("before", sa.BigInteger, nullable=False),
        sa.Column("sealed_by", sa.Integer, nullable=False),
        sa.Column("seal", sa.Text, nullable=False),
    )


def _rollup() -> None:
    names = ("type", "server", "tool", "intent_type", "status")
    op.create_table(
        "rollup",
        sa.Column("span", sa.Integer, nullable=False),
        sa.Column("hour", sa.Integer, nullable=False),
        sa.Column("gateway", sa.Integer, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in names),
        sa.Column("many", sa.BigInteger, nullable=False),
        *(sa.Column(f"b{bucket:02}", sa.BigInteger, nullable=False) for bucket in range(BUCKETS)),
        sa.PrimaryKeyConstraint("span", "hour", "gateway", *names),
        sqlite_with_rowid=False,
    )
