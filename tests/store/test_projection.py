"""Events make rows: each once, whatever is in them, and nothing is forgotten on the way (ACT-1, ACT-2, ACT-5)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from mcpproxy_py.store.activity import Filters, Reader
from mcpproxy_py.store.codec import encode
from mcpproxy_py.store.database import Database
from mcpproxy_py.store.ledger import project
from mcpproxy_py.store.migrate import migrate
from mcpproxy_py.store.projection import parse
from mcpproxy_py.store.tables import activity, events

pytestmark = pytest.mark.proves("ACT-1", "ACT-5")
Make = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    made = Database(tmp_path_factory.mktemp("projection") / "activity.db")
    migrate(made)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def empty(database: Database) -> None:
    clear(database)


def clear(database: Database) -> None:
    with database.writing() as connection:
        connection.execute(activity.delete())
        connection.execute(events.delete())


def apply(database: Database, *batches: Iterable[Mapping[str, Any] | bytes]) -> list[dict[str, Any]]:
    for batch in filter(None, batches):
        lines = [event if isinstance(event, bytes) else encode(event) for event in batch]
        with database.writing() as connection:
            project(connection, lines, [parse(line) for line in lines])
    return Reader(database).list(Filters()).activities


@pytest.mark.proves("ACT-2")
@pytest.mark.parametrize("batches", [1, 2])
def test_an_ask_and_its_end_make_one_row(database: Database, asked: Make, finished: Make, batches: int) -> None:
    both = [asked(), finished()]
    rows = apply(database, both) if batches == 1 else apply(database, both[:1], both[1:])
    assert rows == [
        {
            "id": "a1", "type": "tool_call", "source": "mcp", "surface": "gate", "server": "github",
            "tool": "create_issue", "arguments": {"title": "Broken"}, "response": {"content": []},
            "arguments_size": 18, "response_size": 14, "status": "success", "error": None, "duration_ms": 1250.5,
            "timestamp": "2023-11-14T22:13:20.250000Z", "session_id": "s1", "request_id": "r1",
            "client": {"name": "cursor", "version": "1.2"}, "principal": "local",
            "metadata": {"intent": {"operation_type": "write", "reason": "The user asked"},
                         "tool_variant": "call_tool_write", "decision": {"rule": "matrix"}, "attempts": 1},
        }
    ]  # fmt: skip


def test_an_ask_alone_is_pending(database: Database, asked: Make) -> None:
    (row,) = apply(database, [asked()])
    assert (row["status"], row["response"], row["duration_ms"]) == ("pending", None, None)


def test_an_end_without_its_ask_is_kept_and_completed_when_the_ask_turns_up(
    database: Database, asked: Make, finished: Make
) -> None:
    (row,) = apply(database, [finished()])
    assert (row["status"], row["tool"], row["timestamp"]) == ("success", "", "2023-11-14T22:13:21.500000Z")
    (row,) = apply(database, [asked()])
    assert (row["status"], row["tool"], row["metadata"]["attempts"]) == ("success", "create_issue", 1)
    assert Reader(database).list(Filters(q="the user asked", intent_type="write")).activities == [row]


@pytest.mark.parametrize("split", [0, 1, 2, 3])
def test_events_read_twice_change_nothing(database: Database, asked: Make, finished: Make, split: int) -> None:
    story = [asked(), asked("b2"), finished(status="error", error={"code": "E", "message": "No room"})]
    once = apply(database, story)
    searchable = _searchable(database)
    assert apply(database, story[:split], story[split:], story) == once
    assert _searchable(database) == searchable


def _searchable(database: Database) -> list[str]:
    with database.reading() as connection:
        return list(connection.execute(select(activity.c.searchable).order_by(activity.c.id)).scalars())


def test_every_event_is_kept_with_its_digest(database: Database, asked: Make, finished: Make) -> None:
    apply(database, [asked(), finished()])
    with database.reading() as connection:
        rows = connection.execute(select(events).order_by(events.c.seq)).all()
    digests = [sha256(encode(event)).hexdigest() for event in (asked(), finished())]
    assert [(row.ask_id, row.kind, row.digest, row.body) for row in rows] == [
        ("a1", "asked", digests[0], None),
        ("a1", "finished", digests[1], None),
    ]


@pytest.mark.parametrize(
    "line",
    [b'{"kind":"rekeyed","id":"a1","at":5,"key":"\\u0000 and more"}', b"not json", b"[1]", b'{"kind":7}',
     b'{"kind":"asked"}', b"", b"\xff\xfe", b'{"kind":"finished","id":9}'],
)  # fmt: skip
def test_an_event_of_a_kind_not_known_here_is_kept_whole_and_changes_no_row(
    database: Database, asked: Make, line: bytes
) -> None:
    before = apply(database, [asked()])
    assert apply(database, [line]) == before
    with database.reading() as connection:
        kept = connection.execute(select(events).order_by(events.c.seq.desc())).first()
    assert kept is not None
    assert kept.body == line.decode("utf-8", "replace")
    assert kept.digest == sha256(line).hexdigest()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("x" * 5000) | st.just("\0"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = [
    "at", "type", "source", "surface", "server", "tool", "arguments", "arguments_size", "session_id", "request_id",
    "client", "principal", "metadata", "status", "error", "response", "response_size", "duration_ms",
]  # fmt: skip
broken_events = st.fixed_dictionaries(
    {"kind": st.sampled_from(["asked", "finished"]), "id": st.text(max_size=3)},
    optional=dict.fromkeys(FIELDS, anything),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.lists(broken_events, min_size=1, max_size=6))
def test_no_event_can_hold_up_those_after_it(database: Database, story: list[dict[str, Any]]) -> None:
    clear(database)
    rows = apply(database, story)
    assert len(rows) == len({event["id"].replace("\0", "␀") for event in story})
    assert all(json.loads(json.dumps(row)) == row or row for row in rows)
    assert Reader(database).summary(Filters())["total"] == len(rows)


def test_numbers_too_big_for_a_column_and_names_too_long_for_an_index_are_cut(database: Database, asked: Make) -> None:
    (row,) = apply(database, [asked(arguments={"n": 10**30}, arguments_size=10**30, tool="t" * 10_000, at=1e300)])
    assert row["arguments"] == {"n": 10**30}
    assert row["arguments_size"] == 2**63 - 1
    assert len(row["tool"]) == 500
    assert Reader(database).list(Filters(tool="t" * 10_000)).activities == [row]


def test_NUL_survives_in_payloads_and_is_shown_in_names(database: Database, asked: Make) -> None:
    (row,) = apply(database, [asked(tool="a\0b", arguments={"k\0": "v\0w"})])
    assert row["arguments"] == {"k\0": "v\0w"}
    assert row["tool"] == "a␀b"
    assert Reader(database).list(Filters(tool="a\0b", q="v\0W")).activities == [row]
