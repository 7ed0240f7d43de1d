"""The tables, in SQLAlchemy Core, with nothing in them that only one database understands.

Times are whole microseconds since 1970. JSON is kept as JSON text: it survives NUL, which PostgreSQL's text
does not, and is handed on without a look inside. Names that come from outside are cut to what fits an index.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    column,
    table,
    text,
)

HEAD = "0010"
"""The newest migration. Written here because asking Alembic costs a quarter of a second at every start."""

BUCKETS = 32
"""How finely the roll-ups tell durations apart; see `rollups.bucket_column`."""

metadata = MetaData()
_number = BigInteger().with_variant(Integer, "sqlite")
"""SQLite has one kind of integer, and makes a column of exactly that type the key of its rows."""

activity = Table(
    "activity", metadata,
    # When it was asked, with some bits more so that no two are the same (`columns`). It is the order of everything:
    # pages, indexes and text search follow it, so no index has to repeat the time.
    Column("n", _number, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False),
    Column("gateway", Integer, nullable=False),
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
)  # fmt: skip
Index("activity_id", activity.c.id, unique=True)

# Every filter can be followed from the newest row back, page by page, without sorting. Columns that
# most rows lack are indexed only where they are set. Status and type are what is most often asked for beside another
# filter, so its index tells them too, and rows that they do not let through are not even looked at. No other column
# could be there: PostgreSQL's indexes have no room for two that somebody else has filled.
_told = (activity.c.n, activity.c.status, activity.c.type)
for _name in ("type", "status"):
    Index(f"activity_{_name}", activity.c[_name], activity.c.n)
for _name in ("tool", "client_name", "principal"):
    Index(f"activity_{_name}", activity.c[_name], *_told)
for _name, _more in (("server", _told), ("intent_type", _told), ("session_id", _told[:1]), ("request_id", _told[:1])):
    # Not for PostgreSQL too, which the migration says: naming it here would load its dialect at every start.
    Index(f"activity_{_name}", activity.c[_name], *_more, sqlite_where=text(f"{_name} IS NOT NULL"))

words: Any = table("activity_words", column("rowid", BigInteger), column("words", Text))
"""What a text search looks at, by `activity.n`. Made by hand in the migration: a full-text table in SQLite, one with
an inverted index in PostgreSQL."""

events = Table(
    "events", metadata,
    Column("chain", Integer, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("head", Text, nullable=False),
    Column("mac", Text, nullable=False),
    PrimaryKeyConstraint("chain", "seq"),
    sqlite_with_rowid=False,
)  # fmt: skip
"""Only ever added to, and taken from the beginning by retention. `head` is the event as it was written, byte for byte,
with a digest where its payload stood; the payload is in the row, from where it can be erased."""

gateways = Table(
    "gateways", metadata,
    Column("number", _number, primary_key=True, autoincrement=True),
    Column("name", Text, nullable=False, unique=True),
    Column("key_id", Text, nullable=False),
    Column("life", Text),
    Column("place", Text, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
)  # fmt: skip
"""Who writes here, each with a chain of events of its own. `life` is of the process that does so now and was there
at `seen_at`, by the clock of the database; there is none while that gateway is stopped."""

checkpoints = Table(
    "checkpoints", metadata,
    Column("chain", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    Column("mac", Text, nullable=False),
    Column("before", BigInteger, nullable=False),
    Column("sealed_by", Integer, nullable=False),
    Column("seal", Text, nullable=False),
)  # fmt: skip
"""Where a chain begins since retention took what was before, sealed with the key of the gateway that did it."""

rollup = Table(
    "rollup", metadata,
    Column("span", Integer, nullable=False),
    Column("hour", Integer, nullable=False),
    Column("gateway", Integer, nullable=False),
    *(Column(name, Text, nullable=False) for name in ("type", "server", "tool", "intent_type", "status")),
    Column("many", BigInteger, nullable=False),
    *(Column(f"b{bucket:02}", BigInteger, nullable=False) for bucket in range(BUCKETS)),
    PrimaryKeyConstraint("span", "hour", "gateway", "type", "server", "tool", "intent_type", "status"),
    sqlite_with_rowid=False,
)  # fmt: skip
"""The rows of `activity`, counted: how many there are of each sort, and how many of those took how long. Once by the
hour, once by the day, and once all of them: `span` says how many hours are counted, from `hour` on, which is counted
from 1970; 0 stands for all."""

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
    Column("version", BigInteger, nullable=False, server_default="0"),
    Column("event", Text),
    Column("seal", Text),
)  # fmt: skip
"""Believed with the seal of a gateway only, see `seals`. `event` is the one on record that says so."""

sealed_records = Table(
    "sealed_records", metadata,
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("event", Text, nullable=False),
    Column("seal", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    PrimaryKeyConstraint("kind", "name"),
)  # fmt: skip
"""Tokens, pins: what people decided. Believed with the seal of a gateway only, see the module of that name."""

last_uses = Table(
    "last_uses", metadata,
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    PrimaryKeyConstraint("kind", "name"),
)  # fmt: skip
"""When a token was last used, now and then. Nothing is decided by it, so it has no seal."""

pinned_texts = Table(
    "pinned_texts", metadata,
    Column("digest", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)  # fmt: skip
"""What was approved of servers, each text by its digest. Nothing says that it is right but that: the digests are in
records with a seal."""

tool_vectors = Table(
    "tool_vectors", metadata,
    Column("digest", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
    Column("at", BigInteger, nullable=False),
)  # fmt: skip
"""What tools mean, by the digest of the text that each vector was made of; whoever reads one looks at it."""
Index("tool_vectors_at", tool_vectors.c.at)

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
    Column("seal", Text),
)  # fmt: skip
Index("approvals_status", approvals.c.status, approvals.c.id)
Index("approvals_principal", approvals.c.principal, approvals.c.subject)

oauth_logins = Table(
    "oauth_logins", metadata,
    Column("upstream", Text, nullable=False),
    Column("issuer", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("claimed_until", BigInteger, nullable=False),
    PrimaryKeyConstraint("upstream", "issuer"),
)  # fmt: skip
"""Encrypted, see `cluster.oauth_logins`. Of a server's rows the one with the highest version is in use; `claimed_until`
is how long one gateway alone may renew it, by the clock of the database."""

spent_states = Table(
    "spent_states", metadata,
    Column("key", Text, primary_key=True),
    Column("expires_at", BigInteger, nullable=False),
)  # fmt: skip
"""The `requestState`s that were used and would still be good otherwise: each works once, at whichever gateway."""
Index("spent_states_expires", spent_states.c.expires_at)

turns = Table("turns", metadata, Column("name", Text, primary_key=True), Column("taken", BigInteger))
"""A row to hold while deciding on what was read, so that of two gateways one waits for the other."""
