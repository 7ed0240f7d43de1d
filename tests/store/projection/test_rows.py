"""Events make rows: each once, whatever is in them, and nothing is forgotten on the way (ACT-1, ACT-2, ACT-5)."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from hashlib import sha256
from itertools import permutations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select

from mcpproxy_py.store.activity.reader import Filters, Reader
from mcpproxy_py.store.codec import encode
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.tables import activity, events, rollup, words

pytestmark = pytest.mark.proves("ACT-1", "ACT-5")
Make = Callable[..., dict[str, Any]]


Apply = Callable[..., list[dict[str, Any]]]


@pytest.mark.proves("ACT-2")
@pytest.mark.parametrize("batches", [1, 2])
def test_an_ask_and_its_end_make_one_row(apply: Apply, asked: Make, finished: Make, batches: int) -> None:
    both = [asked(), finished()]
    rows = apply(both) if batches == 1 else apply(both[:1], both[1:])
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


def test_an_ask_alone_is_pending(database: Database, apply: Apply, asked: Make) -> None:
    (row,) = apply([asked()])
    assert (row["status"], row["response"], row["duration_ms"]) == ("pending", None, None)


def test_an_end_without_its_ask_is_kept_and_completed_when_the_ask_turns_up(
    database: Database, apply: Apply, asked: Make, finished: Make
) -> None:
    (row,) = apply([finished()])
    assert (row["status"], row["tool"], row["timestamp"]) == ("success", "", "2023-11-14T22:13:21.500000Z")
    (row,) = apply([asked()])
    assert (row["status"], row["tool"], row["metadata"]["attempts"]) == ("success", "create_issue", 1)
    assert row["timestamp"] == "2023-11-14T22:13:21.500000Z", "its place among the others stays"
    assert Reader(database).list(Filters(q="the user asked", intent_type="write")).activities == [row]


@pytest.mark.parametrize("split", [0, 1, 2, 3])
def test_events_read_twice_change_nothing(
    database: Database, apply: Apply, asked: Make, finished: Make, split: int
) -> None:
    story = [asked(), asked("b2"), finished(status="error", error={"code": "E", "message": "No room"})]
    once = apply(story)
    summary = Reader(database).summary(Filters())
    assert apply(story[:split], story[split:], story) == once
    assert Reader(database).summary(Filters()) == summary
    assert len(Reader(database).list(Filters(q="no room")).activities) == 1


def test_every_event_is_kept_as_it_was_with_a_digest_for_its_payload(
    database: Database, apply: Apply, asked: Make, finished: Make
) -> None:
    apply([asked(), finished(), asked("b2", arguments=None)])
    with database.reading() as connection:
        heads = [
            json.loads(head) for head in connection.execute(select(events.c.head).order_by(events.c.seq)).scalars()
        ]
    expected = []
    for seq, event, key in ((1, asked(), "arguments"), (2, finished(), "response"), (3, asked("b2"), "arguments")):
        payload = event.pop(key)
        expected.append({**event, "seq": seq, "payload": sha256(encode(payload)).hexdigest()})
    del expected[2]["payload"]
    expected[2]["arguments"] = None
    assert heads == expected


@pytest.mark.parametrize(
    "event",
    [{"kind": "rekeyed", "id": "a1", "at": 5, "key": "\0 and more"}, {"kind": 7}, {"kind": "asked"},
     {"kind": "finished", "id": 9}],
)  # fmt: skip
def test_an_event_of_a_kind_not_known_here_is_kept_whole_and_changes_no_row(
    database: Database, apply: Apply, asked: Make, event: dict[str, Any]
) -> None:
    before = apply([asked()])
    assert apply([event]) == before
    with database.reading() as connection:
        kept = connection.execute(select(events).order_by(events.c.seq.desc())).first()
    assert kept is not None
    assert json.loads(kept.head) == {**event, "seq": 2}


@pytest.mark.parametrize(
    "line", [b"not json", b"[1]\t\t", b"", b"\xff\xfe", b'{"kind":"asked","id":"x"}\t\t', b"a\tb\tc\td",
             b'{"kind":"asked","id":"x","seq":2}\t{"lost":"digest"}\tabc', b'{"seq":2,"payload":"abc"}\t\tabc'],
)  # fmt: skip
def test_a_line_that_makes_no_sense_is_kept_in_its_place_and_vouched_for_by_nobody(
    database: Database, apply: Apply, asked: Make, line: bytes
) -> None:
    before = apply([asked()])
    assert apply([line]) == before
    assert len(apply([asked("next")])) == 2
    with database.reading() as connection:
        kept = connection.execute(select(events).order_by(events.c.seq)).all()
    assert [(row.seq, bool(row.mac)) for row in kept] == [(1, True), (2, False), (3, True)]
    assert kept[1].head == line.decode("utf-8", "replace")


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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=30)
@given(st.lists(broken_events, min_size=1, max_size=6))
def test_no_event_can_hold_up_those_after_it(database: Database, apply: Apply, story: list[dict[str, Any]]) -> None:
    with database.writing() as connection:
        for table in (activity, events, rollup, words):
            connection.execute(delete(table))
    rows = apply(story)
    assert len(rows) == len({event["id"].replace("\0", "␀") for event in story})
    assert all(json.loads(json.dumps(row)) == row or row for row in rows)
    assert Reader(database).summary(Filters())["total"] == len(rows)


@pytest.mark.parametrize("at", [1e300, 1.7e308, 10**400], ids=["1e300", "1.7e308", "10**400"])
def test_numbers_too_big_for_a_column_and_names_too_long_for_an_index_are_cut(
    database: Database, apply: Apply, asked: Make, at: float
) -> None:
    (row,) = apply([asked(arguments={"n": 10**30}, arguments_size=10**30, tool="t" * 10_000, at=at)])
    assert row["arguments"] == {"n": 10**30}
    assert row["arguments_size"] == 2**63 - 1
    assert len(row["tool"]) == 500
    assert Reader(database).list(Filters(tool="t" * 10_000)).activities == [row]


def test_names_and_terms_that_fill_an_index_to_its_limit_are_taken(
    database: Database, apply: Apply, asked: Make, finished: Make
) -> None:
    choose = random.Random(1)  # four bytes each, and nothing that could be made smaller
    longest = ["".join(chr(choose.randrange(0x20000, 0x2A000)) for _ in range(1000)) for _ in range(4)]
    (row,) = apply([asked(tool=longest[0], server=longest[1], type=longest[2]), finished(status=longest[3])])
    assert (len(row["tool"]), len(row["server"]), len(row["type"]), len(row["status"])) == (500, 500, 40, 40)
    assert Reader(database).list(Filters(server=longest[1], tool=longest[0])).activities == [row]
    assert Reader(database).summary(Filters(server=longest[1], tool=longest[0]))["total"] == 1


@pytest.mark.parametrize("around", ["", " and" * 1000, " und für" * 1000], ids=["short", "long", "not-ascii"])
def test_a_word_that_is_very_long_is_found_by_itself_and_by_how_it_begins(
    database: Database, apply: Apply, asked: Make, around: str
) -> None:
    word = "Ab1" * 300
    (row,) = apply([asked(arguments={"hash": word, "text": around})])
    for question, found in ((word, [row]), (word[:64], [row]), (word[:70] + "no", [row]), (word[:63], []),
                            (word[:63] + "*", [row]), (word[1:80], [])):  # fmt: skip
        for walk in (0, 10):
            assert Reader(database, walk).list(Filters(q=question)).activities == found


def test_NUL_survives_in_payloads_and_is_shown_in_names(database: Database, apply: Apply, asked: Make) -> None:
    (row,) = apply([asked(tool="a\0b", arguments={"k\0": "v\0w"})])
    assert row["arguments"] == {"k\0": "v\0w"}
    assert row["tool"] == "a␀b"
    assert Reader(database).list(Filters(tool="a\0b", q="V w")).activities == [row]


@pytest.mark.proves("ACT-6", "ACT-8")
@pytest.mark.parametrize("order", [*permutations(range(4))])
def test_of_several_words_on_how_an_ask_ended_the_better_one_counts_in_whatever_order_they_come(
    apply: Apply, asked: Make, finished: Make, order: tuple[int, ...]
) -> None:
    """Each gateway brings its own when it can, so the order is anybody's: who saw the end counts for more than who
    gave up waiting, or took another for dead, and of two who saw one the later."""
    nobody_knows = {"duration_ms": None, "response": None, "response_size": 0, "metadata": {}}
    words = [
        finished(at=1_700_000_002.0, metadata={"refused_by": "frozen"}, status="blocked"),
        finished(at=1_700_000_003.0, metadata={}),
        finished(at=1_700_000_009.0, status="timeout", **nobody_knows),
        finished(at=1_700_000_008.0, status="interrupted", **nobody_knows),
    ]
    (row,) = apply([asked()], *([words[number]] for number in order))
    assert (row["status"], row["duration_ms"], row["response"]) == ("success", 1250.5, {"content": []})
    assert row["metadata"]["refused_by"] == "frozen"


def test_of_two_who_gave_an_ask_up_the_later_counts(apply: Apply, asked: Make, finished: Make) -> None:
    early, late = (finished(at=1_700_000_002.0 + n, duration_ms=None, status=f"s{n}") for n in range(2))
    for row_id, order in (("a", [early, late]), ("b", [late, early])):
        rows = apply([asked(row_id)], *([{**word, "id": row_id}] for word in order))
        assert {row["status"] for row in rows if row["id"] == row_id} == {"s1"}
