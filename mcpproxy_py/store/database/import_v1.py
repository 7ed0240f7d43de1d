"""Records of a version that did not chain its events: they are written once more, through the journal, like new ones.

From then on they are part of the chain. Only when the database has all of them are the old tables and files removed,
so being killed in between costs nothing but doing it again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, inspect, text

from mcpproxy_py.store.codec import decode
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.journal import segment_files
from mcpproxy_py.store.journal.journal import Journal

log = logging.getLogger(__name__)

OLD_SUFFIX: Final = ".jsonl"
OLD_JOURNAL: Final = "local"
AT_ONCE: Final = 200
_JSON: Final = ("error", "arguments", "response", "metadata")


def adopt(database: Database, journal: Journal, drain: Callable[[], None]) -> None:
    with database.reading() as connection:
        if not inspect(connection).has_table("activity_0001"):
            return
    for number, events in enumerate(_old_events(database, journal.folder)):
        if number == 0:
            log.info("importing the records of an earlier version")
        journal.append(*events)
        drain()
    _remove(database, journal.folder)


def _old_events(database: Database, folder: Path) -> Iterator[list[dict[str, Any]]]:
    """What has to be written again, some at a time."""
    after = (-1, "")
    while rows := _rows(database, after):
        yield [event for row in rows for event in _events_of(row)]
        after = (rows[-1]["at"], rows[-1]["id"])
    with database.reading() as connection:
        kept = connection.execute(text("SELECT body FROM events_0001 WHERE body IS NOT NULL ORDER BY seq"))
        bodies = [event for body in kept.scalars() if isinstance(event := _value(body), dict)]
        place = _old_place(connection)
    yield from _some(bodies)
    yield from _some(_waiting(folder, place))


def _rows(database: Database, after: tuple[int, str]) -> list[dict[str, Any]]:
    query = text("SELECT * FROM activity_0001 WHERE at > :at OR (at = :at AND id > :id) ORDER BY at, id LIMIT :many")
    with database.reading() as connection:
        found = connection.execute(query, {"at": after[0], "id": after[1], "many": AT_ONCE})
        return [dict(row) for row in found.mappings()]


def _events_of(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    row |= {name: _value(row[name]) for name in _JSON}
    same = ("id", "type", "source", "surface", "server", "tool", "arguments", "arguments_size", "session_id",
            "request_id", "principal", "metadata")  # fmt: skip
    client = {"name": row["client_name"], "version": row["client_version"]}
    yield {"kind": "asked", "at": row["at"] / 1e6, "client": client, **{name: row[name] for name in same}}
    if row["finished_at"] is not None:
        ended = ("id", "status", "error", "response", "response_size", "duration_ms")
        end = {"kind": "finished", "at": row["finished_at"] / 1e6, "metadata": {}}
        yield {**end, **{name: row[name] for name in ended}}


def _waiting(folder: Path, place: segment_files.JournalPosition) -> list[dict[str, Any]]:
    """Events that never got from the old journal into the database."""
    found: list[dict[str, Any]] = []
    for number in segment_files.numbers(folder, OLD_SUFFIX):
        if number >= place.segment:
            path = segment_files.path_of(folder, number, OLD_SUFFIX)
            whole = path.read_bytes()[place.offset if number == place.segment else 0 :].split(b"\n")[:-1]
            found += [event for line in whole if isinstance(event := _value(line), dict)]
    return found


def _old_place(connection: Connection) -> segment_files.JournalPosition:
    query = text('SELECT segment, "offset" FROM journal_position WHERE journal = :journal')
    row = connection.execute(query, {"journal": OLD_JOURNAL}).first()
    return segment_files.JournalPosition(*row) if row else segment_files.JournalPosition(0, 0)


def _some(events: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(events), AT_ONCE):
        yield events[start : start + AT_ONCE]


def _remove(database: Database, folder: Path) -> None:
    with database.writing_for_good() as connection:
        connection.execute(text("DELETE FROM journal_position WHERE journal = :journal"), {"journal": OLD_JOURNAL})
        for table in ("activity_0001", "events_0001"):
            connection.execute(text(f"DROP TABLE {table}"))
    for number in segment_files.numbers(folder, OLD_SUFFIX):
        segment_files.path_of(folder, number, OLD_SUFFIX).unlink(missing_ok=True)
    database.make_shrinkable()


def _value(written: Any) -> Any:
    if written is None:
        return None
    try:
        return decode(written)
    except (ValueError, RecursionError):
        return None
