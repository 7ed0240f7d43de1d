"""Activity over REST: every filter, pages, bad filters, summary and export (ACT-3)."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcpproxy_py.serve.rest.activity_csv import COLUMNS, csv_header, csv_lines, neutral
from mcpproxy_py.store.store import DATABASE
from tests.serve.parts import PATIENCE
from tests.serve.rest.test_rest import call, error_of

pytestmark = [pytest.mark.anyio, pytest.mark.proves("ACT-3")]


@pytest.fixture
async def history(http: httpx.AsyncClient) -> list[dict[str, Any]]:
    """Five asks, oldest first: read, write, a refused delete, an allowed delete, a search."""
    await call(http, "notes:read_note", args={"text": "=HYPERLINK(1)"})
    intent = {"operation_type": "write", "reason": "=1+1", "data_sensitivity": "private"}
    await call(http, "notes:create_note", "write", args={"text": "two"}, intent=intent)
    await call(http, "notes:delete_note", "write")
    await http.post(
        "/api/v1/call",
        json={"variant": "destructive", "name": "notes:delete_note", "intent": {"operation_type": "destructive"}},
        headers={"X-MCPProxy-Client": "other/1", "X-Request-Id": "the-fourth"},
    )
    await http.get("/api/v1/tools/search", params={"query": "note"})
    rows = (await http.get("/api/v1/activity")).json()["activities"]
    assert len(rows) == 5
    return rows[::-1]


async def ids(http: httpx.AsyncClient, **filters: Any) -> list[str]:
    response = await http.get("/api/v1/activity", params=filters)
    assert response.status_code == 200, response.text
    return [row["id"] for row in response.json()["activities"]]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [4, 3, 2, 1, 0]),
        ({"intent_type": "read"}, [0]),
        ({"intent_type": "write"}, [2, 1]),
        ({"intent_type": "destructive"}, [3]),
        ({"type": "tool_search"}, [4]),
        ({"status": "blocked"}, [2]),
        ({"status": "pending"}, []),
        ({"server": "notes", "status": "success"}, [3, 1, 0]),
        ({"tool": "delete_note"}, [3, 2]),
        ({"request_id": "the-fourth"}, [3]),
        ({"client": "other"}, [3]),
        ({"principal": "admin", "intent_type": "read"}, [0]),
        ({"principal": "agent"}, []),
        ({"session_id": "none"}, []),
        ({"q": "HYPERLINK"}, [0]),
        ({"limit": 2}, [4, 3]),
    ],
)
async def test_each_filter_finds_its_own(
    http: httpx.AsyncClient, history: list[dict[str, Any]], filters: dict[str, Any], expected: list[int]
) -> None:
    assert await ids(http, **filters) == [history[place]["id"] for place in expected]


async def test_times_bound_the_answer(http: httpx.AsyncClient, history: list[dict[str, Any]]) -> None:
    third = history[2]["timestamp"]
    later = await ids(http, start_time=third)
    assert set(later) == {row["id"] for row in history[2:]}
    long_ago = datetime.fromisoformat(third.replace("Z", "+00:00")) - timedelta(days=1)
    assert await ids(http, end_time=long_ago.isoformat()) == []
    assert await ids(http, end_time=long_ago.isoformat(), start_time=long_ago.isoformat()) == []


async def test_pages_follow_each_other_to_the_end(http: httpx.AsyncClient, history: list[dict[str, Any]]) -> None:
    found: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(6):
        page = (await http.get("/api/v1/activity", params={"limit": 2, **cursor})).json()
        found += [row["id"] for row in page["activities"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert found == [row["id"] for row in reversed(history)]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("statsu=error", "Unknown parameter 'statsu'; did you mean 'status'?"),
        ("xyzzy=1", "Unknown parameter 'xyzzy'; known: "),
        ("Status=error", "Unknown parameter 'Status'"),
        ("status=failed", "status must be 'pending', 'success'"),
        ("status=", "status must be"),
        ("server=", "server"),
        ("intent_type=delete", "not 'delete'"),
        ("limit=0", "limit must be greater than or equal to 1, not '0'"),
        ("limit=501", "limit must be less than or equal to 500, not '501'"),
        ("limit=ten", "limit must be a valid integer"),
        ("limit=5.5", "limit must be a valid integer"),
        ("limit=1e2", "limit"),
        ("limit", "limit"),
        ("status=error&status=success", "'status' was given more than once"),
        ("start_time=2026-01-01T00:00:00", "a time with a zone"),
        ("start_time=2026-01-01", "a time with a zone"),
        ("start_time=1767225600", "a time with a zone"),
        ("start_time=yesterday", "a time with a zone"),
        ("start_time=2026-13-01T00:00:00Z", "start_time"),
        ("start_time=2026-01-01T00:00:00+01:00", "%2B"),
        ("start_time=2026-01-02T00:00:00Z&end_time=2026-01-01T00:00:00Z", "end_time is before start_time"),
        ("q=%FF", "UTF-8"),
        ("&".join(f"a{number}=1" for number in range(100)), "at most 64"),
        (f"q={'x' * 1001}", "q"),
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/activity", "/api/v1/activity/summary", "/api/v1/activity/export"])
async def test_a_bad_filter_is_a_400_that_says_which(http: httpx.AsyncClient, path: str, query: str, said: str) -> None:
    if "limit" in query and path != "/api/v1/activity":
        said = "Unknown parameter 'limit'"
    error = error_of(await http.get(f"{path}?{query}"), "BAD_REQUEST")
    assert said in error["message"]


async def test_a_written_plus_in_a_time_is_understood(http: httpx.AsyncClient) -> None:
    assert (await http.get("/api/v1/activity?start_time=2026-01-01T00:00:00%2B01:00")).status_code == 200


async def test_an_unknown_id_is_a_404(http: httpx.AsyncClient) -> None:
    for wrong in ("nothing", "0" * 36, "x" * 5000):
        error_of(await http.get(f"/api/v1/activity/{wrong}"), "NOT_FOUND")


async def test_the_summary_counts_what_the_list_shows(http: httpx.AsyncClient, history: list[dict[str, Any]]) -> None:
    summary = (await http.get("/api/v1/activity/summary")).json()
    text = json.dumps(summary)
    for word in ("success", "blocked", "notes", "delete_note", "destructive", "tool_search"):
        assert word in text
    narrowed = (await http.get("/api/v1/activity/summary", params={"status": "blocked"})).json()
    assert "tool_search" not in json.dumps(narrowed)


async def test_the_export_as_json_lines_is_what_the_list_holds(
    http: httpx.AsyncClient, history: list[dict[str, Any]]
) -> None:
    response = await http.get("/api/v1/activity/export")
    assert response.headers["content-type"] == "application/jsonl"
    exported = [json.loads(line) for line in response.text.splitlines()]
    assert sorted(exported, key=lambda row: row["id"]) == sorted(history, key=lambda row: row["id"])


async def test_the_export_as_csv_has_intent_columns_and_no_formulas(
    http: httpx.AsyncClient, history: list[dict[str, Any]]
) -> None:
    response = await http.get("/api/v1/activity/export", params={"format": "csv", "intent_type": "write"})
    assert response.headers["content-type"].startswith("text/csv")
    assert "attachment" in response.headers["content-disposition"]
    rows = {row["id"]: row for row in csv.DictReader(io.StringIO(response.text, newline=""))}
    assert len(rows) == 2
    row = rows[history[1]["id"]]
    assert (row["intent_type"], row["intent_data_sensitivity"], row["intent_reason"]) == ("write", "private", "'=1+1")
    assert row["tool_variant"] == "call_tool_write"


async def test_an_export_of_nothing_is_a_header_or_nothing(http: httpx.AsyncClient) -> None:
    assert (await http.get("/api/v1/activity/export")).text == ""
    assert (await http.get("/api/v1/activity/export?format=csv")).text == csv_header()
    error_of(await http.get("/api/v1/activity/export?format=xlsx"), "BAD_REQUEST")


BEHIND = ("\u200b", "\ufeff", "\u200b\ufeff \t", "\U000e0041", "\xad", "\u3164")
RUN = ["=1", "+1", "-1", "@x", "\tx", "\rx", "\nx", " =1", "\x00=1", "＝1", "＠x", "﹦1", "﹢1"]


@pytest.mark.parametrize("text", [*RUN, *(f"{hidden}=1" for hidden in BEHIND)])
async def test_what_a_spreadsheet_would_run_is_neutralised(text: str) -> None:
    assert neutral(text) == f"'{text}"


@pytest.mark.parametrize(
    "text", ["", "plain", "a=b", '{"a": 1}', "1-1", "  spaced", "\u200b", "\ufeffplain", "\u200b1=1"]
)
async def test_what_is_harmless_stays_as_it_is(text: str) -> None:
    assert neutral(text) == text


async def test_csv_takes_rows_of_any_shape() -> None:
    hostile = {"id": "1", "metadata": {"intent": "nonsense"}, "error": None, "duration_ms": -1.5, "client": [1],
               "tool": "\ud800=", "arguments": {"a": "=1\r\n2"}}  # fmt: skip
    [row] = csv.DictReader(io.StringIO(csv_header() + csv_lines([hostile]), newline=""))
    assert list(row) == list(COLUMNS)
    assert (row["duration_ms"], row["intent_type"], row["arguments"]) == ("-1.5", "", '{"a":"=1\\r\\n2"}')


async def test_a_failure_before_the_first_row_is_an_error_and_not_a_torn_file(
    http: httpx.AsyncClient, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "data" / DATABASE, PATIENCE)) as behind_our_back:
        behind_our_back.execute("DROP TABLE activity")
    response = await http.get("/api/v1/activity/export")
    error_of(response, "STORE_UNAVAILABLE")
