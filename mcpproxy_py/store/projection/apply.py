"""Writing events and their rows into the database, and how far the journal was read with them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from mcpproxy_py.core.json_values import same
from mcpproxy_py.store.codec import decode, encode
from mcpproxy_py.store.database.columns import AT_ONCE, at_of, numbers, part
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.tables import activity, checkpoints, events, journal_position, words
from mcpproxy_py.store.database.text_search import add_words
from mcpproxy_py.store.journal.chain import START, ChainHead, Sealer
from mcpproxy_py.store.journal.entries import JournalEntry
from mcpproxy_py.store.journal.segment_files import JournalPosition
from mcpproxy_py.store.projection.rollups import RollupDelta
from mcpproxy_py.store.projection.rows import (
    ERASED,
    EVENT_COLUMNS,
    ROW_COLUMNS,
    KnownRow,
    Row,
    RowDraft,
    drafts,
    event_left,
    event_rows,
    values_of,
)

REDACTED: Final = ',"redacted":'
CLOCK_STEP: Final = 3_600_000_000  # microseconds that a clock may have stepped back while a call went on
_KNOWN = [activity.c.id, *(activity.c[column] for column in KnownRow._fields)]


def project(database: Database, connection: Connection, chain: int, entries: list[JournalEntry], before: int,
            sealer: Sealer, *, careful: bool = True) -> None:  # fmt: skip
    """Writes these entries and the rows they make. The caller's transaction holds all of it or nothing. Events up to
    number `before` are there already. `sealer` is that of this chain, for what was erased.

    Who is not `careful` takes it that what is asked here was never asked before, as is nearly always so, and saves
    looking; an `IntegrityError` says when it was not so.
    """
    ids = dict.fromkeys(entry.key for entry in entries if entry.key is not None)
    asked = set() if careful else {entry.key for entry in entries if entry.kind == "asked"}
    changed = drafts(entries, _known(connection, [key for key in ids if key not in asked]))
    _take_home(changed, chain)
    tally = RollupDelta()
    fresh = {key: draft for key, draft in changed.items() if not draft.known}
    free = numbers(connection, {key: draft.at for key, draft in fresh.items()}, careful=careful)
    _insert(database, connection, chain, fresh, free, tally)
    _update(connection, {key: draft for key, draft in changed.items() if draft.known}, tally)
    database.insert_many(connection, events, EVENT_COLUMNS, event_rows(chain, entries, before))
    for key, draft in changed.items():
        if draft.erased:
            _redact(connection, sealer, chain, key, at_of(draft.known.n) if draft.known else draft.at)
    tally.write(database, connection)


def _known(connection: Connection, ids: list[str]) -> dict[str, KnownRow]:
    found: dict[str, KnownRow] = {}
    for start in range(0, len(ids), AT_ONCE):
        # Locked, where the database locks rows: another gateway may be closing what we left behind.
        query = select(*_KNOWN).where(activity.c.id.in_(ids[start : start + AT_ONCE])).with_for_update()
        found |= {row_id: KnownRow(*columns) for row_id, *columns in connection.execute(query)}
    return found


def _take_home(changed: dict[str, RowDraft], chain: int) -> None:
    """A row belongs to the gateway that was asked, also where another one's word of its end was here first."""
    for draft in changed.values():
        if draft.known is not None and draft.known.gateway != chain and "type" in draft.columns:
            draft.columns["gateway"] = chain


def _insert(database: Database, connection: Connection, chain: int, fresh: dict[str, RowDraft], free: dict[str, int],
            tally: RollupDelta) -> None:  # fmt: skip
    rows: list[tuple[Any, ...]] = []
    texts: list[tuple[int, str]] = []
    # In the order of their numbers: a text index that is handed an older one than before starts a new segment.
    for key, draft in sorted(fresh.items(), key=lambda item: free[item[0]]):
        row = draft.row()
        row.update(n=free[key], id=key, gateway=chain)
        rows.append(values_of(row))
        texts.append((free[key], " ".join(draft.words)))
        tally.count(row)
    database.insert_many(connection, activity, ROW_COLUMNS, rows)
    database.insert_many(connection, words, ("rowid", "words"), texts)


def _update(connection: Connection, changed: dict[str, RowDraft], tally: RollupDelta) -> None:
    rows = [(draft.known.n, draft.row()) for draft in changed.values() if draft.known]
    for group in _alike(rows):
        connection.execute(_update_of(group[0]), group)
    for draft in changed.values():
        if draft.known:
            before = draft.known._asdict()
            tally.count(before, -1)
            tally.count({**before, **draft.row()})
    erased = [draft.known.n for draft in changed.values() if draft.known and draft.erased]
    if erased:
        connection.execute(delete(words).where(words.c.rowid.in_(erased)))
    more = [{"row": draft.known.n, "more": " ".join(draft.words)} for draft in changed.values()
            if draft.known and draft.words]  # fmt: skip
    if more:
        add_words(connection, more)


def _alike(changed: Iterable[tuple[int, Row]]) -> list[list[Row]]:
    """Changes by the columns they touch, so that one statement serves each group and no index moves for nothing."""
    groups: dict[frozenset[str], list[Row]] = {}
    for n, row in changed:
        if row:
            new = {"row": n, **{f"new_{column}": value for column, value in row.items()}}
            groups.setdefault(frozenset(row), []).append(new)
    return list(groups.values())


def _update_of(example: Row) -> Any:
    columns = [key.removeprefix("new_") for key in example if key != "row"]
    changes = {column: bindparam(f"new_{column}") for column in columns}
    return update(activity).where(activity.c.n == bindparam("row")).values(changes)


def _redact(connection: Connection, sealer: Sealer, by: int, record_id: str, at: int) -> None:
    """Writes the heads of an erased record's events anew, in every chain, without anybody's words (ACT-8). The hash of
    each stays, so the chain goes on; for the head that it no longer covers stands a seal of the gateway that erased."""
    named = events.c.at >= at - CLOCK_STEP, events.c.head.contains(record_id, autoescape=True)
    for row in connection.execute(select(events).where(*named)).all():
        with suppress(ValueError, RecursionError):  # one that somebody damaged, which `verify` names
            event = decode(row.head)
            if (
                part(event, "id") == record_id
                and "redacted" not in event
                and not same(left := event_left(event), event)
            ):
                head = encode(left).decode()
                seal = {"by": by, "seal": sealer.seal(ERASED, row.chain, row.seq, row.mac, head)}
                anew = f"{head[:-1]}{REDACTED}{encode(seal).decode()}}}"
                here = events.c.chain == row.chain, events.c.seq == row.seq
                connection.execute(update(events).where(*here).values(head=anew))


def last_head(connection: Connection, chain: int) -> ChainHead:
    """How long this chain is in the database. Where retention took all of it, the checkpoint knows."""
    last = select(events.c.seq, events.c.mac).where(events.c.chain == chain).order_by(events.c.seq.desc()).limit(1)
    row = connection.execute(last).first()
    if row is None:
        row = connection.execute(
            select(checkpoints.c.seq, checkpoints.c.mac).where(checkpoints.c.chain == chain)
        ).first()
    return ChainHead(*row) if row else START


def read_place(database: Database, journal: str) -> JournalPosition | None:
    """How far the database has read this journal."""
    with database.reading() as connection:
        return place_in(connection, journal)


def place_in(connection: Connection, journal: str) -> JournalPosition | None:
    row = connection.execute(select(journal_position).where(journal_position.c.journal == journal)).first()
    return None if row is None else JournalPosition(row.segment, row.offset)


def remember_place(connection: Connection, journal: str, place: JournalPosition) -> None:
    values = {"segment": place.segment, "offset": place.offset}
    moved = connection.execute(update(journal_position).where(journal_position.c.journal == journal).values(values))
    if moved.rowcount == 0:
        connection.execute(insert(journal_position), [{"journal": journal, **values}])
