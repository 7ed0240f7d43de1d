"""Filters, pages, summary and export say what a plain loop over all rows would say (ACT-3)."""

from __future__ import annotations

import base64
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, text

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store.activity.filters import EQUALS, PageCursor
from mcpproxy_py.store.activity.reader import WALK, Filters, Reader, look_up_query, page_query
from mcpproxy_py.store.chain_key import Identity
from mcpproxy_py.store.cluster.membership import join
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.migrate import migrate
from mcpproxy_py.store.database.tables import activity
from mcpproxy_py.store.journal.chain import Chain, Sealer
from mcpproxy_py.store.journal.entries import entries, read
from mcpproxy_py.store.options import Options
from mcpproxy_py.store.projection.apply import project

pytestmark = pytest.mark.proves("ACT-3")

START = datetime(2026, 1, 1, tzinfo=UTC)
POOL: dict[str, list[Any]] = {
    "type": ["tool_call", "tool_search"], "server": [None, "github", "files"],
    "tool": ["read_100%", "drop_table", "Ångström"], "session_id": [None, "s1", "s2"], "request_id": [None, "r1"],
    "client": ["cursor", "codex"], "principal": ["local", "agent"],
    "intent_type": [None, "read", "destructive"], "status": ["pending", "success", "error", "blocked"],
    "q": ["ÅNG*", "ÅNG", "ångström", "100%", "a/b", "because", 'quo"ted', "no such thing", "E_CODE", "github", "4711",
          "drop tru*", "br"],
}  # fmt: skip


def story(many: int) -> list[dict[str, Any]]:
    choose = random.Random(7)
    found: list[dict[str, Any]] = []
    for number in range(many):
        picked = {key: choose.choice(values) for key, values in POOL.items()}
        row_id = f"{number:05d}"
        at = START.timestamp() + number // 3  # several at the very same moment
        intent = {"operation_type": picked["intent_type"], "reason": choose.choice(["Because", "why not"])}
        found.append(
            {"kind": "asked", "id": row_id, "at": at, "source": "mcp", "surface": "gate", "arguments_size": 9,
             "arguments": {"path": choose.choice(["a\\b/c", 'quo"ted', {"deep": [4711, True]}])},
             **{key: picked[key] for key in ("type", "server", "tool", "session_id", "request_id", "principal")},
             "client": {"name": picked["client"]},
             "metadata": {"intent": intent} if picked["intent_type"] else {}}
        )  # fmt: skip
        if picked["status"] != "pending":
            error = {"code": "E_CODE", "message": "It broke"} if picked["status"] == "error" else None
            refused = {"refused_by": choose.choice(["class", "freeze"])} if picked["status"] == "blocked" else {}
            found.append({"kind": "finished", "id": row_id, "at": at, "status": picked["status"], "error": error,
                          "response": None, "duration_ms": choose.random() * 100, "metadata": refused})  # fmt: skip
    return found


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres").database()
    database = Options(database_url=url).database(tmp_path_factory.mktemp("activity"))
    migrate(database)
    join(database, Identity("test", b"k"))
    text, _ = Chain(Sealer(b"k", "test")).link(story(700))
    lines = text.split(b"\n")[:-1]
    with database.writing() as connection:
        project(database, connection, 1, entries(lines, map(read, lines), 0), 0, Sealer(b"", ""))
    yield database
    database.close()


@pytest.fixture(scope="module", params=[WALK, 25], ids=["walks", "looks-up"])
def reader(request: pytest.FixtureRequest, filled: Database) -> Reader:
    """Whether a text is found among the newest rows or by the index, nobody can tell from what is found."""
    return Reader(filled, request.param)


@pytest.fixture(scope="module")
def everything(reader: Reader) -> list[dict[str, Any]]:
    rows = list(reader.export(Filters()))
    assert len(rows) == 700
    return rows


def words_of(value: Any) -> list[str]:
    return re.sub(r"[\W_]+", " ", json.dumps(value, ensure_ascii=False).replace("\\", " ").casefold()).split()


def naive(row: dict[str, Any], filters: Filters) -> bool:
    intent = row["metadata"].get("intent", {})
    at = datetime.fromisoformat(row["timestamp"])
    same = {"client": row["client"]["name"], "intent_type": intent.get("operation_type")}
    if any(getattr(filters, key) not in (None, same.get(key, row.get(key))) for key in EQUALS):
        return False
    if (filters.start_time and at < filters.start_time) or (filters.end_time and at >= filters.end_time):
        return False
    words = words_of(
        [row["tool"], row["server"] or "", row["arguments"], intent.get("reason") or "", row["error"] or ""]
    )
    question = (filters.q or "").replace("*", "000star")
    return all(
        any(word.startswith(asked[:-7]) if asked.endswith("000star") else word == asked for word in words)
        for asked in words_of(question)
    )


times = st.integers(0, 240).map(lambda seconds: START + timedelta(seconds=seconds))
combined = st.fixed_dictionaries(
    {},
    optional={
        **{key: st.sampled_from([value for value in values if value is not None]) for key, values in POOL.items()},
        "start_time": times,
    },
)


def expect_same(reader: Reader, everything: list[dict[str, Any]], filters: Filters) -> None:
    wanted = [row for row in everything if naive(row, filters)]
    assert list(reader.export(filters)) == wanted
    assert reader.list(filters).activities == wanted[: filters.limit]


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in POOL.items() for value in values if value is not None]
)
def test_each_filter_alone_finds_what_a_loop_finds(
    reader: Reader, everything: list[dict[str, Any]], key: str, value: str
) -> None:
    expect_same(reader, everything, Filters(**{key: value}))


@settings(max_examples=60)
@given(combined, st.integers(0, 100), st.sampled_from([1, 7, 50, 500]))
def test_filters_together_find_what_a_loop_finds(
    reader: Reader, everything: list[dict[str, Any]], chosen: dict[str, Any], seconds: int, limit: int
) -> None:
    end = chosen.get("start_time", START) + timedelta(seconds=seconds)
    expect_same(reader, everything, Filters(**chosen, end_time=end, limit=limit))


def test_rows_come_newest_first(everything: list[dict[str, Any]]) -> None:
    times = [row["timestamp"] for row in everything]
    assert times == sorted(times, reverse=True)


def test_the_start_is_included_and_the_end_is_not(reader: Reader) -> None:
    second = timedelta(seconds=1)
    found = reader.list(Filters(start_time=START + second, end_time=START + 2 * second)).activities
    assert {row["id"] for row in found} == {"00005", "00004", "00003"}


@pytest.mark.parametrize("limit", [1, 33, 500])
def test_pages_follow_each_other_without_gap_or_repetition(
    reader: Reader, everything: list[dict[str, Any]], limit: int
) -> None:
    filters = Filters(limit=limit, status="success")
    found: list[dict[str, Any]] = []
    page = reader.list(filters)
    while True:
        found += page.activities
        if page.next_cursor is None:
            break
        page = reader.list(replace(filters, cursor=page.next_cursor))
    assert found == [row for row in everything if row["status"] == "success"]


def test_a_full_last_page_has_no_cursor(reader: Reader, everything: list[dict[str, Any]]) -> None:
    many = sum(row["server"] == "github" for row in everything)
    assert reader.list(Filters(server="github", limit=many)).next_cursor is None
    assert reader.list(Filters(server="github", limit=many - 1)).next_cursor is not None


def test_a_cursor_that_was_changed_anywhere_is_refused(reader: Reader) -> None:
    good = reader.list(Filters(limit=1)).next_cursor
    assert good is not None
    bad = ["", "x", good[:-1], good + "A", good.upper(), "é" + good[1:], good + "=", "\n" + good, good * 2]
    bad += [good[:i] + ("A" if good[i] != "A" else "B") + good[i + 1 :] for i in range(len(good))]
    bad.append(base64.urlsafe_b64encode(b"\x00" * 20).decode())
    for cursor in bad:
        with pytest.raises(ValueError, match="cursor"):
            Filters(cursor=cursor)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 501}, "limit"),
        ({"q": "x" * 1001}, "q must"),
        ({"q": "%_\\"}, "q must hold a word"),
        ({"q": " ".join(map(str, range(51)))}, "at most 50"),
        ({"start_time": datetime(2026, 1, 1)}, "start_time needs a time zone"),
        ({"start_time": START, "end_time": START - timedelta(1)}, "end_time is before start_time"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Filters(**wrong)


@pytest.mark.parametrize(
    "filters",
    [Filters(), Filters(status="error"), Filters(q="because", limit=1), Filters(tool="?"), Filters(client="codex"),
     Filters(start_time=START + timedelta(seconds=5)), Filters(end_time=START + timedelta(seconds=99), server="files"),
     Filters(start_time=START - timedelta(days=1), end_time=START + timedelta(days=1), type="tool_call"),
     Filters(start_time=START - timedelta(days=2), end_time=START - timedelta(days=1)),
     Filters(start_time=START - timedelta(hours=30, minutes=5), end_time=START + timedelta(hours=30, seconds=1)),
     Filters(start_time=START + timedelta(seconds=1), end_time=START + timedelta(hours=2, seconds=1)),
     Filters(start_time=START, end_time=START + timedelta(hours=5), status="success")],
)  # fmt: skip
def test_the_summary_counts_what_a_loop_counts(
    reader: Reader, everything: list[dict[str, Any]], filters: Filters
) -> None:
    rows = [row for row in everything if naive(row, filters)]
    found = reader.summary(filters)
    assert found["total"] == len(rows)
    for key in ("status", "type", "server", "tool"):
        assert found[f"by_{key}"] == dict(Counter(row[key] for row in rows if row[key] is not None))
    types = [row["metadata"]["intent"]["operation_type"] for row in rows if "intent" in row["metadata"]]
    assert found["by_intent_type"] == dict(Counter(types))
    assert found["by_day"] == dict(Counter(row["timestamp"][:10] for row in rows))
    hours = Counter(f"{row['timestamp'][:13]}:00:00Z" for row in rows)
    assert found["by_hour"] == dict(hours)
    declared = Counter((f"{row['timestamp'][:13]}:00:00Z",
                        row["metadata"].get("intent", {}).get("operation_type") or "none") for row in rows)  # fmt: skip
    assert {(hour, intent): many for hour, often in found["by_hour_and_intent_type"].items()
            for intent, many in often.items()} == dict(declared)  # fmt: skip
    assert found["by_client"] == dict(Counter(row["client"]["name"] for row in rows))
    assert found["by_rule"] == dict(Counter(row["metadata"].get("refused_by", "other") for row in rows
                                            if row["status"] == "blocked"))  # fmt: skip
    assert (found["exact"], found["sampled"]) == (True, len(rows))
    expect_durations(found["duration_ms"], rows)
    for key in ("server", "tool"):
        for value, durations in found[f"duration_ms_by_{key}"].items():
            expect_durations(durations, [row for row in rows if row[key] == value])


@pytest.mark.parametrize(
    "filters", [Filters(), Filters(server="github"), Filters(q="because"), Filters(status="error")]
)
def test_where_more_match_than_are_read_durations_come_from_buckets_and_that_is_told(
    reader: Reader, everything: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, filters: Filters
) -> None:
    monkeypatch.setattr("mcpproxy_py.store.activity.reader.MOST_SAMPLED", 30)
    monkeypatch.setattr("mcpproxy_py.store.activity.summary.MOST_SAMPLED", 30)
    monkeypatch.setattr("mcpproxy_py.store.activity.reader.MOST_REFUSED", 20)
    rows = [row for row in everything if naive(row, filters)]
    found = reader.summary(filters)
    assert (found["total"], found["exact"], found["sampled"]) == (len(rows), False, 30)
    assert found["by_client"] == dict(Counter(row["client"]["name"] for row in rows[:30]))
    assert sum(found["by_rule"].values()) == (0 if filters.status else 21)
    expect_durations(found["duration_ms"], rows, rel=0.6, abs=0.1)


def test_a_type_can_be_left_out_of_lists_and_of_every_count(reader: Reader, everything: list[dict[str, Any]]) -> None:
    kept = [row for row in everything if row["type"] != "tool_search"]
    for more in ({}, {"q": "because"}, {"server": "files"}, {"principal": "agent"}):
        filters = Filters(exclude_type="tool_search", **more)
        rows = [row for row in kept if naive(row, filters)]
        assert list(reader.export(filters)) == rows
        assert reader.summary(filters)["by_type"] == {"tool_call": len(rows)}


def expect_durations(found: dict[str, float | None], rows: list[dict[str, Any]], **about: float) -> None:
    """Exact ones, unless they come from buckets, whose bounds lie a factor of 1.6 apart."""
    durations = sorted(row["duration_ms"] for row in rows if row["duration_ms"] is not None)
    for share in (50, 95):
        if not durations:
            assert found[f"p{share}"] is None
            continue
        exact = durations[-(-len(durations) * share // 100) - 1]
        assert found[f"p{share}"] == (pytest.approx(exact, **about) if about else exact)


def test_one_row_is_found_by_its_id_and_no_row_is_none(reader: Reader, everything: list[dict[str, Any]]) -> None:
    listed = next(row for row in everything if row["id"] == "00042")
    assert reader.get("00042") == {**listed, "rounds": []}
    assert reader.get("' OR 1=1 --") is None


@pytest.mark.proves("PERF-5")
@pytest.mark.parametrize("filled", ["sqlite"], indirect=True)
@pytest.mark.parametrize("key", list(POOL))
def test_every_filter_is_followed_along_an_index_without_sorting(filled: Database, key: str) -> None:
    asked = Filters(**{key: "x"}, end_time=START, cursor=str(PageCursor(5)))
    query = look_up_query(asked, "sqlite") if asked.q else page_query(asked, "sqlite")
    with filled.reading() as connection:
        compiled = query.compile(connection, compile_kwargs={"literal_binds": True})
        plan = " ".join(row[3] for row in connection.execute(text(f"EXPLAIN QUERY PLAN {compiled}")))
    assert ("USING INDEX activity_" if key != "q" else "SCAN activity_words VIRTUAL TABLE") in plan
    assert "B-TREE" not in plan


def test_a_database_that_cannot_be_read_says_so_and_tells_no_parameters(tmp_path: Path) -> None:
    database = Options().database(tmp_path)
    with pytest.raises(StoreUnavailable, match="no such table") as caught:
        Reader(database).list(Filters(q="my secret"))
    assert "secret" not in str(caught.value)
    database.close()


def test_readers_cannot_write(reader: Reader) -> None:
    with pytest.raises(StoreUnavailable, match=r"read-?only"), reader._database.reading() as connection:
        connection.execute(delete(activity))
