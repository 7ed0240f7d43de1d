"""The gate from outside: one shared gateway, asked in both eras."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Running
from tests.support.wire import MODERN, RpcError, Wire, text


@pytest.mark.proves("SURF-1", "SURF-9", "GATE-7", "MISS-1")
def test_the_gate_lists_its_five_tools_the_same_way_to_everyone(client: Wire, shared_gateway: Running) -> None:
    listed = client.request("tools/list")
    assert [tool["name"] for tool in listed["tools"]] == [
        "retrieve_tools", "call_tool_read", "call_tool_write", "call_tool_destructive",
        "read_result", "request_capability"
    ]  # fmt: skip
    assert listed == client.request("tools/list") == Wire(shared_gateway.mcp, client.era).request("tools/list")
    if client.era == MODERN:
        assert listed["ttlMs"] > 0
        assert listed["cacheScope"] == "public"
        assert listed["resultType"] == "complete"


@pytest.mark.proves("SURF-1")
def test_the_server_tells_an_agent_how_to_use_it(client: Wire) -> None:
    welcome = client.request("server/discover") if client.era == MODERN else client.welcome
    for word in ("retrieve_tools", "call_with", "intent.operation_type", "request_capability"):
        assert word in welcome["instructions"]


@pytest.mark.proves("FIND-1", "FIND-3")
def test_a_search_finds_a_tool_and_says_how_to_call_it(client: Wire) -> None:
    found = client.call("retrieve_tools", {"query": "echo back a message", "limit": 3})
    assert json.loads(text(found)) == found["structuredContent"]
    names = [row["name"] for row in found["structuredContent"]["tools"]]
    assert {"s:echo", "sdk:echo"} & set(names)
    assert found["structuredContent"]["total"] >= 1


@pytest.mark.proves("GATE-10", "UP-6")
def test_no_upstream_sees_intent_and_numbers_survive(client: Wire, upstream_log: Path) -> None:
    big, marker = 2**70 + 1, f"marker-{client.era}"
    args = {"n": big, "small": 0.1, "text": "naïve 🦀", "marker": marker}
    result = client.via("write", "s:hint_f_f", args, args_json=json.dumps(args))
    assert not result.get("isError"), result
    seen = [json.loads(line) for line in upstream_log.read_text().splitlines()]
    received = [row["arguments"] for row in seen if row["arguments"].get("marker") == marker]
    assert received == [args]
    assert received[0]["n"] == big


@pytest.mark.proves("UP-6", "UP-10")
def test_what_an_upstream_says_is_relayed_whole(client: Wire) -> None:
    found = client.call("retrieve_tools", {"query": "draft", "limit": 50, "server": "s"})
    row = next(row for row in found["structuredContent"]["tools"] if row["name"] == "s:draft")
    assert any(key not in KNOWN_HINTS for key in row["annotations"]), "a draft annotation survives"


KNOWN_HINTS = {"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}


@pytest.mark.proves("GATE-5")
def test_only_an_unknown_outer_tool_is_a_protocol_error(client: Wire) -> None:
    with pytest.raises(RpcError) as caught:
        client.call("call_tool_delete", {"name": "s:echo"})
    assert caught.value.code == -32602
    assert "Unknown tool: call_tool_delete" in str(caught.value)


@pytest.mark.proves("GATE-6")
def test_call_tool_is_gone_and_says_so(client: Wire) -> None:
    result = client.call("call_tool", {"name": "s:echo", "args": {}})
    assert result["isError"] is True
    for word in ("call_tool_read", "call_tool_write", "call_tool_destructive", "intent", "retrieve_tools"):
        assert word in text(result)


@pytest.mark.proves("MISS-1")
def test_a_wish_is_acknowledged_and_recorded_under_its_own_name(client: Wire, shared_gateway: Running) -> None:
    wish = f"export the report as PDF ({client.era})"
    result = client.call("request_capability", {"capability": wish, "context": "quarterly report"})
    assert not result.get("isError")
    rows = [
        row for row in shared_gateway.activities(tool="request_capability") if row["arguments"]["capability"] == wish
    ]
    assert len(rows) == 1
    assert (rows[0]["type"], rows[0]["status"]) == ("tool_call", "success")
    assert client.call("request_capability", {"capability": "  "})["isError"] is True


@pytest.mark.proves("GATE-4", "ACT-1")
@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"name": "no-colon"}, "INVALID_NAME"),
        ({"name": "a:b:c"}, "TOOL_NOT_FOUND"),
        ({"name": ""}, "INVALID_NAME"),
        ({"name": "s:" + "x" * 10_000}, "INVALID_NAME"),
        ({"name": "s:\x00\x1b"}, "INVALID_NAME"),
        ({"name": "s:echo", "args": "{}"}, "INVALID_ARGUMENTS"),
        ({"name": "s:echo", "args": []}, "INVALID_ARGUMENTS"),
        ({"name": "s:echo", "args": None}, "INVALID_ARGUMENTS"),
        ({"name": "s:echo", "args": {"a": 1}, "args_json": "{}"}, "ARGS_CONFLICT"),
        ({"name": "s:echo", "intent": "read"}, "INVALID_INTENT"),
        ({"name": "s:echo", "intent": ["read"]}, "INVALID_INTENT"),
        ({"name": "s:echo", "intent": 7}, "INVALID_INTENT"),
        ({"name": "s:echo", "intent": {"intent": {"operation_type": "read"}}}, "INVALID_INTENT"),
        ({"name": "s:echo", "intent": {"operation_type": "read", "why": "x"}}, "INVALID_INTENT"),
        ({"name": "s:echo", "intent": {"operation_type": "read", "reason": "🦀" * 1001}}, "REASON_TOO_LONG"),
        ({"name": "s:nothing_like_it"}, "TOOL_NOT_FOUND"),
        ({"name": "nobody:echo"}, "TOOL_NOT_FOUND"),
    ],
)
def test_bad_input_gets_a_clear_error_and_a_record(
    client: Wire, shared_gateway: Running, params: dict[str, Any], code: str
) -> None:
    params = {"intent": {"operation_type": "read"}, **params}
    before = len(shared_gateway.activities(status="blocked"))
    result = client.call("call_tool_read", params)
    assert result["isError"] is True
    assert result["structuredContent"]["code"] == code
    rows = shared_gateway.activities(status="blocked")
    assert len(rows) == before + 1 or len(rows) == 500
    assert rows[0]["error"]["code"] == code


@pytest.mark.proves("GATE-1")
def test_a_reason_of_a_thousand_emoji_is_kept(client: Wire, shared_gateway: Running) -> None:
    reason = "🦀" * 1000
    result = client.call(
        "call_tool_read", {"name": "s:hint_t_n", "intent": {"operation_type": "read", "reason": reason}}
    )
    assert not result.get("isError")
    assert shared_gateway.activities(tool="hint_t_n", limit=1)[0]["metadata"]["intent"]["reason"] == reason


@pytest.mark.proves("GATE-4")
def test_arguments_that_miss_the_schema_are_answered_with_the_schema(client: Wire) -> None:
    result = client.via("write", "sdk:add", {"a": "not a number"})
    assert result["structuredContent"]["code"] == "INVALID_ARGUMENTS"
    assert result["structuredContent"]["inputSchema"]["properties"]
    assert "inputSchema" in text(result)


@pytest.mark.proves("API-2", "GATE-9")
def test_explain_over_rest_shows_every_rung(shared_gateway: Running) -> None:
    answer = shared_gateway.post("/explain", {"name": "s:hint_n_t", "variant": "read"})
    assert answer.status_code == 200, answer.text
    rungs = answer.json()["rungs"]
    assert [rung["number"] for rung in rungs] == list(range(1, 14))
    assert [rung["rule"] for rung in rungs if rung["outcome"] == "failed"] == ["class"]


@pytest.mark.proves("SURF-1")
def test_malformed_messages_get_a_protocol_error_and_hurt_nobody(client: Wire) -> None:
    for body in (b"{", b"[]", b'"x"', b"\xff\xfe", b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', b"[" * 100_000):
        answer = client.post(body, **({"mcp-protocol-version": MODERN} if client.era == MODERN else {}))
        assert 400 <= answer.status_code < 500, body[:20]
    wrong_type = client.post(b"{}", **{"content-type": "text/plain"})
    assert 400 <= wrong_type.status_code < 500
    assert client.request("tools/list")["tools"]


@pytest.mark.proves("ACT-1")
def test_a_record_names_the_client_and_the_session(client: Wire, shared_gateway: Running) -> None:
    client.read("s:hint_t_t")
    row = shared_gateway.activities(tool="hint_t_t", limit=1)[0]
    assert row["client"] == {"name": "test-client", "version": "1.2.3"}
    assert row["principal"] == "local"
    assert row["source"] == "mcp"
    assert row["request_id"]
    assert (row["session_id"] is None) == (client.era == MODERN)


@pytest.mark.proves("GATE-4")
def test_deep_and_hostile_arguments_are_refused_and_the_gateway_goes_on(client: Wire) -> None:
    deep: Any = {}
    for _ in range(100):
        deep = {"a": deep}
    result = client.via("write", "s:echo", deep)
    assert result["structuredContent"]["code"] == "INVALID_ARGUMENTS"
    half = {"name": "s:echo", "intent": {"operation_type": "write"}, "args": {"t": "\ud800"}}
    assert client.call("call_tool_write", half)["structuredContent"]["code"] == "INVALID_ARGUMENTS"
    assert client.request("tools/list")["tools"]
