"""REST by hand: asks, servers, tools, switches, probes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx
import pytest

from mcpproxy_py.core.values import ClientInfo
from mcpproxy_py.errors import FACTS, Code
from tests.serve.parts import KEY, House

pytestmark = [pytest.mark.anyio, pytest.mark.proves("API-1")]

READ = {"operation_type": "read"}


def error_of(response: httpx.Response, code: str) -> dict[str, Any]:
    """The error, having checked its shape, and that its status is the one its code stands for."""
    error = response.json()["error"]
    assert (error["code"], response.status_code) == (code, FACTS[Code(code)].http)
    assert set(error) == {"code", "message", "hint", "details"}
    assert response.headers["x-request-id"]
    assert response.headers["cache-control"] == "no-store"
    return error


async def call(http: httpx.AsyncClient, name: str, variant: str = "read", **more: Any) -> httpx.Response:
    body = {"variant": variant, "name": name, "intent": {"operation_type": variant}, **more}
    return await http.post("/api/v1/call", json=body)


# --- calls ---------------------------------------------------------------------------------------------


@pytest.mark.proves("ACT-1", "ACT-2")
async def test_a_call_is_answered_whole_and_on_record(house: House, http: httpx.AsyncClient) -> None:
    response = await call(http, "notes:read_note", args={"text": "hello"})
    assert response.status_code == 200
    answer = response.json()
    assert set(answer) == {"id", "status", "result", "warning"}
    assert answer["status"] == "success"
    assert answer["result"]["content"][0]["text"] == "hello"
    assert answer["result"]["kept"] == 2**70
    row = (await http.get(f"/api/v1/activity/{answer['id']}")).json()
    assert (row["tool"], row["server"], row["status"], row["source"]) == ("read_note", "notes", "success", "api")
    assert row["metadata"]["intent"]["operation_type"] == "read"
    assert row["metadata"]["tool_variant"] == "call_tool_read"


@pytest.mark.proves("GATE-10")
async def test_a_refused_call_never_reaches_the_upstream_and_is_on_record(
    house: House, http: httpx.AsyncClient
) -> None:
    error = error_of(await call(http, "notes:delete_note"), "SERVER_MISMATCH")
    assert error["message"] == "Tool 'notes:delete_note' is marked destructive by server, use call_tool_destructive"
    details = error["details"]
    assert (details["tool"], details["variant"], details["rule"]) == ("notes:delete_note", "call_tool_read", "class")
    assert "call_tool_destructive" in details["remedy"]
    assert house.upstreams.calls == []
    row = (await http.get(f"/api/v1/activity/{details['id']}")).json()
    assert (row["status"], row["error"]["code"]) == ("blocked", "SERVER_MISMATCH")
    climbed = {rung["rule"]: rung["outcome"] for rung in row["rungs"]}
    assert (climbed["two_keys"], climbed["class"], climbed["freeze"]) == ("passed", "failed", "not reached")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"variant": "read", "name": "notes:read_note"}, "MISSING_INTENT"),
        ({"variant": "read", "name": "notes:read_note", "intent": None}, "MISSING_INTENT"),
        ({"variant": "read", "name": "notes:read_note", "intent": 7}, "INVALID_INTENT"),
        ({"variant": "read", "name": "notes:read_note", "intent": {}}, "MISSING_OPERATION_TYPE"),
        ({"variant": "read", "name": "notes:read_note", "intent": {"operation_type": "write"}}, "INTENT_MISMATCH"),
        ({"variant": "read", "name": 5, "intent": READ}, "INVALID_NAME"),
        ({"variant": "read", "intent": READ}, "INVALID_NAME"),
        ({"variant": "read", "name": "notes:read_note", "args": [1], "intent": READ}, "INVALID_ARGUMENTS"),
        ({"variant": "read", "name": "notes:read_note", "args": {}, "args_json": '{"a":1}', "intent": READ},
         "ARGS_CONFLICT"),
        ({"variant": "read", "name": "notes:nothing", "intent": READ}, "TOOL_NOT_FOUND"),
        ({"variant": "write", "name": "away:send_note", "intent_operation_type": "write"}, "SERVER_UNAVAILABLE"),
        ({"variant": "read", "name": "notes:broken", "intent": READ}, "UPSTREAM_ERROR"),
    ],
)  # fmt: skip
async def test_what_the_gate_refuses_comes_as_its_code_and_on_record(
    http: httpx.AsyncClient, body: dict[str, Any], code: str
) -> None:
    error = error_of(await http.post("/api/v1/call", json=body), code)
    row = (await http.get(f"/api/v1/activity/{error['details']['id']}")).json()
    assert row["error"]["code"] == code


async def test_a_tools_own_failure_is_an_answer(http: httpx.AsyncClient) -> None:
    answer = (await call(http, "notes:unhappy")).json()
    assert answer["status"] == "error"
    assert answer["result"]["isError"] is True


async def test_a_warning_stands_beside_the_result(http: httpx.AsyncClient) -> None:
    answer = (await call(http, "notes:read_note", "write")).json()
    assert answer["warning"]
    assert answer["result"]["_meta"]["mcpproxy/warning"] == answer["warning"]


@pytest.mark.parametrize("variant", ["call_tool_read", "delete", "", None, 1])
async def test_only_the_three_variants_can_be_called(http: httpx.AsyncClient, variant: Any) -> None:
    error = error_of(await http.post("/api/v1/call", json={"variant": variant, "name": "a:b"}), "BAD_REQUEST")
    assert error["details"]["key"] == "variant"


@pytest.mark.parametrize(
    ("header", "source", "client"),
    [
        ({"X-MCPProxy-Client": "cli/1.2"}, "cli", {"name": "cli", "version": "1.2"}),
        ({"X-MCPProxy-Client": "my-script/7"}, "api", {"name": "my-script", "version": "7"}),
        ({"X-MCPProxy-Client": "climber"}, "api", {"name": "climber", "version": ""}),
        ({"User-Agent": "cli/1.2"}, "api", {"name": "", "version": ""}),
        ({}, "api", {"name": "curl", "version": "8.5.0"}),
    ],
)
async def test_the_record_says_who_asked_and_under_which_request(
    http: httpx.AsyncClient, header: dict[str, str], source: str, client: dict[str, str]
) -> None:
    body = {"variant": "read", "name": "notes:read_note", "intent": READ}
    answer = await http.post("/api/v1/call", json=body, headers={"X-Request-Id": "req-7", **header})
    row = (await http.get(f"/api/v1/activity/{answer.json()['id']}")).json()
    assert (row["source"], row["client"]) == (source, client)
    assert (row["principal"], row["request_id"]) == ("admin", "req-7")


# --- bodies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not JSON"),
        (b'{"variant": "read",\n "name": }', "line 2 column 10"),
        (b'{"variant": "read"} trailing', "line 1 column 21"),
        (b'{"variant": "read", "name": NaN}', "line 1 column 29"),
        (b"[]", "must be an object, not array"),
        (b'"read"', "must be an object, not string"),
        (b"null", "must be an object, not null"),
        (b"[" * 40_000, "recursion limit"),
        (b"[" * 100_000, "more than 50000 keys and values"),
        (b'{"variant": "\xff"}', "not JSON"),
        (b'{"variant": "\\ud800"}', "not JSON"),
        (b'{"variant": "read", "nmae": "a:b"}', "Unknown key 'nmae'; did you mean 'name'?"),
        (b'{"name": "a:b"}', "variant is required"),
    ],
)
async def test_a_bad_body_is_a_400_that_says_what_is_wrong(http: httpx.AsyncClient, content: bytes, said: str) -> None:
    headers = {"content-type": "application/json"}
    error = error_of(await http.post("/api/v1/call", content=content, headers=headers), "BAD_REQUEST")
    assert said in error["message"]


@pytest.mark.parametrize(
    "media", [None, "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"]
)
async def test_only_json_is_taken_for_json(http: httpx.AsyncClient, media: str | None) -> None:
    headers = {"content-type": media} if media else {}
    response = await http.post("/api/v1/call", content=b'{"variant": "read"}', headers=headers)
    assert "Content-Type" in error_of(response, "BAD_REQUEST")["message"]


async def test_a_body_where_none_is_taken_is_refused(house: House, http: httpx.AsyncClient) -> None:
    error_of(await http.post("/api/v1/freeze", json={"frozen": False}), "BAD_REQUEST")
    assert house.desk.changes == []
    assert (await http.post("/api/v1/freeze", json={})).is_success


async def test_a_body_beyond_the_limit_is_refused(http: httpx.AsyncClient) -> None:
    error_of(await http.post("/api/v1/call", json={"variant": "read", "name": "x" * 200_001}), "TOO_LARGE")


# --- search and explain ------------------------------------------------------------------------------------


@pytest.mark.proves("FIND-1")
async def test_a_search_is_an_ask_on_record(http: httpx.AsyncClient) -> None:
    found = (await http.get("/api/v1/tools/search", params={"query": "read a note", "limit": 2})).json()
    assert found["tools"][0]["name"] == "notes:read_note"
    assert len(found["tools"]) == 2
    row = (await http.get(f"/api/v1/activity/{found['id']}")).json()
    assert (row["type"], row["arguments"]["query"]) == ("tool_search", "read a note")


async def test_a_search_takes_the_filters_of_retrieve_tools(http: httpx.AsyncClient) -> None:
    params = {"query": "note", "limit": 50, "read_only_only": "true", "detail": "compact", "server": "notes"}
    found = (await http.get("/api/v1/tools/search", params=params)).json()
    assert {row["call_with"] for row in found["tools"]} == {"call_tool_read"}
    assert all("signature" in row for row in found["tools"])


@pytest.mark.proves("GATE-9")
async def test_explain_shows_every_rung_and_does_nothing(house: House, http: httpx.AsyncClient) -> None:
    body = {"name": "notes:delete_note", "variant": "read"}
    answer = (await http.post("/api/v1/explain", json=body)).json()
    outcomes = {rung["rule"]: rung["outcome"] for rung in answer["rungs"]}
    assert outcomes["two_keys"] == "passed"
    assert outcomes["class"] == "failed"
    assert outcomes["schema"] == "not reached"
    assert house.upstreams.calls == []
    assert (await http.get("/api/v1/activity")).json()["activities"] == []


@pytest.mark.proves("GATE-9")
@pytest.mark.parametrize(
    ("name", "variant"),
    [("notes:delete_note", "call_tool_destructive"), ("notes:odd/name", "call_tool_write"),
     ("no:where", "call_tool_read"), (None, "call_tool_read")],
)  # fmt: skip
async def test_explain_without_a_variant_takes_the_advised_one(
    http: httpx.AsyncClient, name: str | None, variant: str
) -> None:
    answer = (await http.post("/api/v1/explain", json={"name": name})).json()
    assert answer["variant"] == variant


@pytest.mark.proves("GATE-9")
async def test_explain_tries_the_intent_it_was_given(http: httpx.AsyncClient) -> None:
    body = {"name": "notes:read_note", "variant": "read", "intent": {"operation_type": "write"}}
    answer = (await http.post("/api/v1/explain", json=body)).json()
    assert {rung["rule"]: rung["outcome"] for rung in answer["rungs"]}["two_keys"] == "failed"


# --- tools -----------------------------------------------------------------------------------------------


async def test_every_tool_is_listed_with_what_the_gate_makes_of_it(http: httpx.AsyncClient) -> None:
    tools = {row["name"]: row for row in (await http.get("/api/v1/tools")).json()["tools"]}
    assert len([name for name in tools if not name.startswith("catalog:")]) == 8
    assert tools["notes:delete_note"] | {"inputSchema": ...} == {
        "name": "notes:delete_note", "server": "notes", "description": "Delete a note for ever",
        "annotations": {"destructiveHint": True}, "class": "destructive", "class_origin": "server",
        "call_with": "call_tool_destructive", "inputSchema": ..., "callable": True, "unavailable_reason": None,
    }  # fmt: skip
    away = tools["away:send_note"]
    assert (away["callable"], away["unavailable_reason"]) == (False, "server_down")


async def test_pages_of_tools_add_up_to_the_list(http: httpx.AsyncClient) -> None:
    whole = [row["name"] for row in (await http.get("/api/v1/tools")).json()["tools"]]
    paged: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(10):
        page = (await http.get("/api/v1/tools", params={"limit": 3, **cursor})).json()
        paged += [row["name"] for row in page["tools"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert paged == whole == sorted(whole)


@pytest.mark.parametrize("cursor", ["nonsense", "AAAA", "é", "a" * 999, "====", "-_-_"])
async def test_a_cursor_nobody_gave_is_a_400(http: httpx.AsyncClient, cursor: str) -> None:
    for path in ("/api/v1/tools", "/api/v1/activity"):
        error = error_of(await http.get(path, params={"cursor": cursor}), "BAD_REQUEST")
        assert error["details"]["parameter"] == "cursor"


async def test_a_cursor_that_was_changed_is_a_400(http: httpx.AsyncClient) -> None:
    cursor = (await http.get("/api/v1/tools", params={"limit": 1})).json()["next_cursor"]
    for place in range(0, len(cursor), 3):
        other = "A" if cursor[place] != "A" else "B"
        changed = cursor[:place] + other + cursor[place + 1 :]
        error_of(await http.get("/api/v1/tools", params={"cursor": changed}), "BAD_REQUEST")


@pytest.mark.parametrize("name", ["notes:read_note", "notes:odd/name", "notes:odd%2Fname", "notes%3Aread_note"])
async def test_one_tool_is_shown_by_its_name(http: httpx.AsyncClient, name: str) -> None:
    response = await http.get(f"/api/v1/tools/{name}")
    assert response.json()["server"] == "notes"


@pytest.mark.parametrize(
    ("path", "near"), [("/api/v1/tools/notes:raed_note", "notes:read_note"), ("/api/v1/tools?server=note", "notes")]
)
async def test_what_is_not_there_is_a_404_with_the_nearest(http: httpx.AsyncClient, path: str, near: str) -> None:
    error = error_of(await http.get(path), "NOT_FOUND")
    assert near in error["details"]["nearest"]
    assert near in error["message"]


# --- servers and switches ------------------------------------------------------------------------------------


async def test_a_server_comes_and_goes(house: House, http: httpx.AsyncClient) -> None:
    added = await http.post("/api/v1/servers", json={"name": "new", "config": {"command": "true"}})
    assert (added.status_code, added.json()["server"]["name"]) == (201, "new")
    again = {"name": "new", "config": {"command": "true"}}
    error_of(await http.post("/api/v1/servers", json=again), "CONFLICT")
    assert (await http.post("/api/v1/servers", json={**again, "replace": True})).status_code == 201
    for action in ("disable", "enable", "restart"):
        assert (await http.post(f"/api/v1/servers/new/{action}")).json()["server"]["name"] == "new"
    assert (await http.delete("/api/v1/servers/new")).json() == {"removed": "new"}
    names = [row["name"] for row in (await http.get("/api/v1/servers")).json()["servers"]]
    assert names == ["notes", "away"]
    assert [change[0] for change in house.desk.changes] == ["add", "add", "disable", "enable", "restart", "remove"]


async def test_a_change_is_made_in_the_callers_name(house: House, http: httpx.AsyncClient) -> None:
    headers = {"X-MCPProxy-Client": "cli/1.0", "X-Request-Id": "r-9"}
    await http.post("/api/v1/servers/notes/restart", headers=headers)
    [(_, _, by)] = house.desk.changes
    assert (by.principal, by.source, by.client, by.request_id) == ("admin", "cli", ClientInfo("cli", "1.0"), "r-9")


@pytest.mark.parametrize("config", [None, "secret-value-here", ["secret-value-here"]])
async def test_a_bad_server_body_is_refused_without_showing_it(http: httpx.AsyncClient, config: Any) -> None:
    response = await http.post("/api/v1/servers", json={"name": "new", "config": config})
    error_of(response, "BAD_REQUEST")
    assert "secret-value-here" not in response.text


async def test_errors_of_the_operator_keep_their_code(http: httpx.AsyncClient) -> None:
    error_of(await http.post("/api/v1/servers", json={"name": "new", "config": {}}), "CONFIG_INVALID")
    error_of(await http.post("/api/v1/servers/nobody/enable"), "NOT_FOUND")
    error_of(await http.delete("/api/v1/servers/nobody"), "NOT_FOUND")
    error_of(await http.get("/api/v1/servers/nobody/logs"), "NOT_FOUND")


@pytest.mark.proves("ACT-9")
async def test_server_logs_are_cut_to_length_and_masked(http: httpx.AsyncClient) -> None:
    answer = (await http.get("/api/v1/servers/notes/logs", params={"lines": 3})).json()
    assert answer["lines"][:3] == ["line 4997", "line 4998", "line 4999"]
    assert "abcdefghijklmnop" not in answer["lines"][3]


@pytest.mark.proves("GATE-13")
async def test_freezing_takes_hold_at_once_and_until_lifted(http: httpx.AsyncClient) -> None:
    assert (await http.post("/api/v1/freeze")).json() == {"frozen": True}
    error_of(await call(http, "notes:create_note", "write"), "FROZEN")
    assert (await call(http, "notes:read_note")).is_success
    assert (await http.get("/api/v1/status")).json()["frozen"] is True
    assert (await http.post("/api/v1/unfreeze")).json() == {"frozen": False}
    assert (await call(http, "notes:create_note", "write")).is_success


@pytest.mark.proves("API-2")
async def test_a_rotated_key_replaces_the_old_one(http: httpx.AsyncClient) -> None:
    key = (await http.post("/api/v1/key/rotate")).json()["key"]
    assert key != KEY
    error_of(await http.get("/api/v1/status"), "UNAUTHORIZED")
    assert (await http.get("/api/v1/status", headers={"X-API-Key": key})).is_success


# --- probes, metrics, strays ---------------------------------------------------------------------------------


async def test_ready_means_that_the_record_can_be_written(
    house: House, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    assert (await http.get("/healthz")).json() == {"status": "ok"}
    assert (await http.get("/readyz")).json() == {"status": "ready"}
    await anyio.to_thread.run_sync(house.store.close)
    response = await http.get("/readyz")
    error_of(response, "STORE_UNAVAILABLE")
    assert str(tmp_path) not in response.text
    assert (await http.get("/healthz")).is_success


async def test_metrics_count_asks_by_variant_and_outcome(http: httpx.AsyncClient) -> None:
    await call(http, "notes:read_note")
    await call(http, "notes:delete_note")
    response = await http.get("/metrics", headers={"X-API-Key": ""})
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = response.text.splitlines()
    by_read = 'variant="call_tool_read"} 1.0'
    assert 'mcpproxy_asks_total{class="read",outcome="success",rule="allowed",' + by_read in lines
    assert 'mcpproxy_asks_total{class="destructive",outcome="blocked",rule="class",' + by_read in lines
    assert 'mcpproxy_servers{state="connected"} 2.0' in lines
    assert 'mcpproxy_servers{state="failed"} 1.0' in lines
    assert 'mcpproxy_servers{state="sleeping"} 0.0' in lines
    assert "mcpproxy_store_writable 1.0" in lines
    assert "mcpproxy_journal_append_failures_total 0.0" in lines
    samples = [line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")]
    typed = {line.split(" ")[2] for line in lines if line.startswith("# TYPE")}
    assert {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in samples} <= typed


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/v1", "/api/v1/servers/", "/api/v2/status", "/API/v1/status"])
async def test_a_path_that_is_not_there_is_a_404_in_the_one_shape(http: httpx.AsyncClient, path: str) -> None:
    error_of(await http.get(path), "NOT_FOUND")


async def test_a_wrong_method_is_a_405_that_names_the_right_ones(http: httpx.AsyncClient) -> None:
    response = await http.put("/api/v1/servers", json={})
    error_of(response, "METHOD_NOT_ALLOWED")
    assert set(response.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}
    assert (await http.head("/api/v1/servers")).status_code == 200


async def test_without_the_guard_in_front_nothing_is_answered(house: House) -> None:
    transport = httpx.ASGITransport(house.rest, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as bare:
        response = await bare.get("/api/v1/status", headers={"X-API-Key": KEY})
    assert response.status_code == 401
