"""The tables, in SQLAlchemy Core, with nothing in them that only one database understands.

Times are whole microseconds since 1970. JSON is kept as JSON text: it survives NUL, which PostgreSQL's text
does not, and is handed on without a look inside. Names that come from outside are cut to what fits an index.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, MetaData, Table, Text, text

HEAD = "0003"
"""The newest migration. Written here because asking Alembic costs a quarter of a second at every start."""

metadata = MetaData()

activity = Table(
    "activity", metadata,
    Column("id", Text, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Column("type", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("surface", Text),
    Column("server", Text),
    Column("tool", Text, nullable=False),
    Column("tool_variant", Text),
    Column("intent_type", Text),
    Column("status", Text, nullable=False),
    Column("error_code", Text),
    Column("error", Text),
    Column("arguments", Text),
    Column("arguments_size", BigInteger),
    Column("response", Text),
    Column("response_size", BigInteger),
    Column("duration_ms", Float),
    Column("session_id", Text),
    Column("request_id", Text),
    Column("client_name", Text),
    Column("client_version", Text),
    Column("principal", Text),
    Column("metadata", Text, nullable=False),
    # What a text search looks at, case-folded, because databases disagree on what a lower-case letter is.
    Column("searchable", Text, nullable=False),
)  # fmt: skip

# Every filter can be followed from the newest row back, page by page, without sorting. Columns that
# most rows lack are indexed only where they are set.
for _name in ("type", "status", "tool", "client_name", "principal"):
    Index(f"activity_{_name}", activity.c[_name], activity.c.at, activity.c.id)
for _name in ("server", "intent_type", "session_id", "request_id"):
    _set = text(f"{_name} IS NOT NULL")
    _columns = (activity.c[_name], activity.c.at, activity.c.id)
    Index(f"activity_{_name}", *_columns, sqlite_where=_set, postgresql_where=_set)
Index("activity_at", activity.c.at, activity.c.id)

events = Table(
    "events", metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("ask_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    # The event itself, where no activity row holds what it said: kinds that this version does not know.
    Column("body", Text),
    sqlite_autoincrement=True,
)  # fmt: skip

journal_position = Table(
    "journal_position", metadata,
    Column("journal", Text, primary_key=True),
    Column("segment", BigInteger, nullable=False),
    Column("offset", BigInteger, nullable=False),
)  # fmt: skip

listings = Table(
    "listings", metadata,
    Column("server", Text, primary_key=True),
    Column("tools", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)  # fmt: skip

switches = Table(
    "switches", metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)  # fmt: skip

approvals = Table(
    "approvals", metadata,
    # Time-ordered, so that pages need nothing else.
    Column("id", Text, primary_key=True),
    Column("principal", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("wish", Text, nullable=False),
    Column("review", Text),
    # Milliseconds: the agents that name them do so.
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)  # fmt: skip
Index("approvals_status", approvals.c.status, approvals.c.id)
Index("approvals_principal", approvals.c.principal, approvals.c.subject)

turns = Table("turns", metadata, Column("name", Text, primary_key=True), Column("taken", BigInteger))
"""A row to hold while deciding on what was read, so that of two gateways one waits for the other."""
