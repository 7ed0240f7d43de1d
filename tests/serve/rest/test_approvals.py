"""Requests over REST: decided once, by a person, on record before it shows (CAT-7)."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from mcpproxy_py.errors import Code, GatewayError
from tests.serve.parts import House
from tests.serve.rest.test_rest import error_of

pytestmark = [pytest.mark.anyio, pytest.mark.proves("CAT-7")]

DAYS = 86_400


async def filed(http: httpx.AsyncClient, name: str = "notion", **more: Any) -> str:
    body = {"agent_id": "a", "mcp_name": name, "rationale": "for the report", **more}
    answer = await http.post("/mcp/request-capability", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["approval"]["approval_id"]


async def listed(http: httpx.AsyncClient, **query: Any) -> list[tuple[str, str]]:
    rows = (await http.get("/api/v1/approvals", params=query)).json()["approvals"]
    return [(row["context"]["mcp_name"], row["status"]) for row in rows]


async def test_a_decision_says_who_made_it_from_where_and_whether_a_terminal_was_there(
    house: House, http: httpx.AsyncClient
) -> None:
    request = await filed(http)
    body = {"notes": "for a week", "name": "ada", "terminal": True}
    headers = {"X-MCPProxy-Client": "cli/1.0"}
    decided = (await http.post(f"/api/v1/approvals/{request}/approve", json=body, headers=headers)).json()
    assert {key: decided[key] for key in decided if key.startswith("review")} | {"reviewed_at_ms": 0} == {
        "reviewed_by": "admin (ada)", "reviewed_at_ms": 0, "review_notes": "for a week", "reviewed_from": "cli",
        "reviewed_on_terminal": True,
    }  # fmt: skip
    action, details, by = house.desk.changes[-1]
    assert (action, details["approval_id"], by.principal, by.source) == ("approve_request", request, "admin", "cli")


async def test_nobody_who_only_says_so_is_taken_for_the_page(http: httpx.AsyncClient) -> None:
    for client, source in (("ui/1", "api"), ("mine/1", "api")):
        request = await filed(http, f"for-{client[:2]}")
        path = f"/api/v1/approvals/{request}/deny"
        decided = (await http.post(path, json={}, headers={"X-MCPProxy-Client": client})).json()
        assert (decided["reviewed_from"], decided["reviewed_by"]) == (source, "admin")


async def test_a_decision_is_final(http: httpx.AsyncClient) -> None:
    request = await filed(http)
    assert (await http.post(f"/api/v1/approvals/{request}/deny", json={})).status_code == 200
    error = error_of(await http.post(f"/api/v1/approvals/{request}/approve", json={}), "CONFLICT")
    assert "is denied and stays so" in error["message"]
    assert await listed(http) == [("notion", "denied")]


async def test_what_nobody_decided_lapses_on_record_and_stays_so(house: House, http: httpx.AsyncClient) -> None:
    request = await filed(http)
    house.now = lambda: time.time() + 4 * DAYS
    error = error_of(await http.post(f"/api/v1/approvals/{request}/approve", json={}), "CONFLICT")
    assert "is expired and stays so" in error["message"]
    assert [change[0] for change in house.desk.changes] == ["expire_request", "approve_request"]
    assert house.desk.changes[0][2].source == "internal"
    house.now = time.time
    assert await listed(http, status="expired") == [("notion", "expired")]
    assert await filed(http) != request


async def test_nothing_is_decided_or_lapses_that_cannot_be_recorded(house: House, http: httpx.AsyncClient) -> None:
    request = await filed(http)
    house.recording = GatewayError(Code.STORE_UNAVAILABLE, "the disk is full")
    error_of(await http.post(f"/api/v1/approvals/{request}/approve", json={}), "STORE_UNAVAILABLE")
    assert await listed(http) == [("notion", "pending")]
    house.now = lambda: time.time() + 4 * DAYS
    error_of(await http.get("/api/v1/approvals"), "STORE_UNAVAILABLE")
    house.recording = None
    assert await listed(http) == [("notion", "expired")]


async def test_the_list_comes_newest_first_in_pages_and_by_state(http: httpx.AsyncClient) -> None:
    requests = [await filed(http, name) for name in ("one", "two", "three")]
    await http.post(f"/api/v1/approvals/{requests[1]}/approve", json={})
    assert await listed(http) == [("three", "pending"), ("two", "approved"), ("one", "pending")]
    assert await listed(http, status="pending") == [("three", "pending"), ("one", "pending")]
    page = (await http.get("/api/v1/approvals", params={"limit": 2})).json()
    rest = (await http.get("/api/v1/approvals", params={"limit": 2, "cursor": page["next_cursor"]})).json()
    assert [row["approval_id"] for row in page["approvals"] + rest["approvals"]] == requests[::-1]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize("query", [{"status": "done"}, {"limit": 0}, {"cursor": "nonsense"}, {"state": "pending"}])
async def test_a_wrong_filter_is_an_error_that_says_which(http: httpx.AsyncClient, query: dict[str, Any]) -> None:
    error = error_of(await http.get("/api/v1/approvals", params=query), "BAD_REQUEST")
    assert next(iter(query)) in error["message"]


async def test_a_request_that_is_not_there_cannot_be_shown_or_decided(http: httpx.AsyncClient) -> None:
    error_of(await http.get("/api/v1/approvals/apr_none"), "NOT_FOUND")
    for step in ("approve", "deny"):
        error_of(await http.post(f"/api/v1/approvals/apr_none/{step}", json={}), "NOT_FOUND")


@pytest.mark.parametrize("body", [{"notes": "x" * 2_001}, {"name": ""}, {"terminal": "yes"}, {"reviewed_by": "me"}])
async def test_a_wrong_decision_is_turned_away(http: httpx.AsyncClient, body: dict[str, Any]) -> None:
    request = await filed(http)
    error_of(await http.post(f"/api/v1/approvals/{request}/approve", json=body), "BAD_REQUEST")
    assert await listed(http) == [("notion", "pending")]


@pytest.mark.proves("ACT-9")
async def test_a_secret_in_a_request_is_not_kept(http: httpx.AsyncClient) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 4
    request = await filed(http, rationale=f"use {secret}", context={"password": "hunter2hunter2"})
    shown = (await http.get(f"/api/v1/approvals/{request}")).text
    assert secret not in shown
    assert "hunter2" not in shown
