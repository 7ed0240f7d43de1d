"""Writing events and their rows into the database, and how far the journal was read with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from mcpproxy_py.store.database import Database
from mcpproxy_py.store.projection import Draft, Known, Row, drafts, event_row, is_projected, name
from mcpproxy_py.store.segments import Place
from mcpproxy_py.store.tables import activity, events, journal_position

IDS_AT_ONCE = 500
JOURNAL = "local"


def project(connection: Connection, lines: list[bytes], parsed: list[Mapping[str, Any]]) -> None:
    """Writes these events and the rows they make. The caller's transaction holds all of it or nothing."""
    ids = dict.fromkeys(name(event["id"]) or "" for event in parsed if is_projected(event))
    changed = drafts(parsed, _known(connection, list(ids)))
    rows = [draft.row(row_id) for row_id, draft in changed.items() if draft.new]
    if rows:
        connection.execute(insert(activity), rows)
    for group in _alike((row_id, draft) for row_id, draft in changed.items() if not draft.new):
        connection.execute(_update_of(group[0]), group)
    connection.execute(insert(events), [event_row(line, event) for line, event in zip(lines, parsed, strict=True)])


def _known(connection: Connection, ids: list[str]) -> dict[str, Known]:
    found: dict[str, Known] = {}
    for start in range(0, len(ids), IDS_AT_ONCE):
        some = ids[start : start + IDS_AT_ONCE]
        query = select(activity.c.id, activity.c.metadata, activity.c.searchable).where(activity.c.id.in_(some))
        found |= {row.id: Known(row.metadata, row.searchable) for row in connection.execute(query)}
    return found


def _alike(changed: Iterable[tuple[str, Draft]]) -> list[list[Row]]:
    """Changes by the columns they touch, so that one statement serves each group and no index moves for nothing."""
    groups: dict[frozenset[str], list[Row]] = {}
    for row_id, draft in changed:
        row = draft.row(row_id)
        groups.setdefault(frozenset(row), []).append({f"new_{column}": value for column, value in row.items()})
    return list(groups.values())


def _update_of(example: Row) -> Any:
    columns = [key.removeprefix("new_") for key in example if key != "new_id"]
    changes = {column: bindparam(f"new_{column}") for column in columns}
    return update(activity).where(activity.c.id == bindparam("new_id")).values(changes)


def read_place(database: Database) -> Place | None:
    """How far the database has read the journal."""
    with database.reading() as connection:
        row = connection.execute(select(journal_position).where(journal_position.c.journal == JOURNAL)).first()
    return None if row is None else Place(row.segment, row.offset)


def remember_place(connection: Connection, place: Place) -> None:
    values = {"segment": place.segment, "offset": place.offset}
    moved = connection.execute(update(journal_position).where(journal_position.c.journal == JOURNAL).values(values))
    if moved.rowcount == 0:
        connection.execute(insert(journal_position), [{"journal": JOURNAL, **values}])
