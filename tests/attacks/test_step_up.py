"""Tokens of an identity provider with less than a call needs: the client is told which scopes to ask for, on every
surface, and nothing of the call reaches a server (SEC-2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.attacks.target import ALL_SURFACES, DOORS, ERAS, Log, fresh, heard, params, path_of
from tests.support.gateway import Running, gateway
from tests.support.identity import IdentityServer, identity_server
from tests.support.wire import HANDSHAKE, MODERN, NAMED, RpcError, Wire

pytestmark = pytest.mark.proves("SEC-2")

SCOPES = {"look": "read", "put": ["read", "write"], "all": "destructive"}
WELL_KNOWN = "/.well-known/oauth-protected-resource"


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityServer]:
    with identity_server() as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("step-up")


@pytest.fixture(scope="module")
def running(folder: Path, provider: IdentityServer) -> Iterator[Running]:
    config = {
        "surfaces": ALL_SURFACES,
        "mcpServers": {
            "one": heard(folder, "one"),
            "late": heard(folder, "late", "--hello", str(folder / "go"), lazy=True, connect_timeout=60),
        },
        "profiles": {"reader": {"servers": ["one"], "operations": ["read"]}},
        "auth": {"jwt": {"issuer": provider.issuer, "audience": provider.audience, "operations": SCOPES, "leeway": 0}},
    }
    with gateway(folder / "data", config) as found:
        yield found


def posted(wire: Wire, method: str, arguments: dict[str, Any]) -> httpx.Response:
    """As it comes, with its status and headers."""
    headers: dict[str, str] = {}
    if wire.era == MODERN:
        meta = {"protocolVersion": MODERN, "clientInfo": wire.info, "clientCapabilities": {}}
        arguments = {**arguments, "_meta": {f"io.modelcontextprotocol/{name}": value for name, value in meta.items()}}
        headers = {"mcp-protocol-version": MODERN, "mcp-method": method}
        if method in NAMED:
            headers["mcp-name"] = arguments[NAMED[method]]
    body = {"jsonrpc": "2.0", "id": next(wire.ids), "method": method, "params": arguments}
    return wire.post(body, **headers)


def challenge(answer: httpx.Response) -> str:
    assert answer.status_code == 403, answer.text
    said = answer.headers["www-authenticate"]
    assert 'error="insufficient_scope"' in said
    return said.partition('scope="')[2].partition('"')[0]


@ERAS
@DOORS
def test_a_call_above_the_token_asks_for_its_scopes_and_reaches_no_server(
    provider: IdentityServer, running: Running, folder: Path, door: str, era: str
) -> None:
    url = running.url + path_of(door, "one")
    wire = Wire(url, era, token=provider.token(scope="look"))
    shown = {tool["name"].removeprefix("one__") for tool in wire.request("tools/list")["tools"]}
    wanted = {"call_tool_write", "call_tool_destructive"} if door == "gate" else {"put", "wipe"}
    assert wanted <= shown, "a client does not call what it is not shown"
    for tool, scopes in (("put", "look put"), ("wipe", "look all")):
        mark = fresh()
        refused = posted(wire, "tools/call", params(door, "one", tool, mark))
        assert challenge(refused) == scopes
        assert (
            f'resource_metadata="{running.url}{WELL_KNOWN}{path_of(door, "one")}"'
            in refused.headers["www-authenticate"]
        )
        again = fresh()
        wire.headers["authorization"] = f"Bearer {provider.token(scope=scopes)}"
        assert not wire.request("tools/call", params(door, "one", tool, again)).get("isError")
        assert not Log(folder / "one.heard").has(mark)
        assert Log(folder / "one.heard").calls(again)
        wire.headers["authorization"] = f"Bearer {provider.token(scope='look')}"
    rows = [row for row in running.activities(principal="user:alice") if mark in str(row["arguments"])]
    assert [(row["status"], row["error"]["code"]) for row in rows] == [("blocked", "INSUFFICIENT_SCOPE")]


def test_an_answer_that_is_a_stream_already_tells_of_the_scopes_in_the_stream(
    provider: IdentityServer, running: Running, folder: Path
) -> None:
    """Its server is started for the call, and the answer becomes a stream meanwhile. The next call is challenged."""
    wire = Wire(f"{running.url}/mcp/direct", HANDSHAKE, token=provider.token(scope="look"))
    mark = fresh()
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params("direct", "late", "wipe", mark)}
    with wire.http.stream("POST", wire.url, headers=wire.headers, json=body) as answer:
        assert answer.status_code == 200
        (folder / "go").touch()
        text = answer.read().decode()
    assert '"INSUFFICIENT_SCOPE"' in text
    assert challenge(posted(wire, "tools/call", params("direct", "late", "wipe", mark))) == "look all"
    assert not Log(folder / "late.heard").has(mark)


@ERAS
def test_a_method_that_nobody_knows_asks_for_all_scopes(
    provider: IdentityServer, running: Running, folder: Path, era: str
) -> None:
    wire = Wire(f"{running.url}/mcp/s/one", era, token=provider.token(scope="put"))
    mark = fresh()
    assert challenge(posted(wire, f"wipe/{mark}", {})) == "put all"
    assert not Log(folder / "one.heard").has(mark)


@ERAS
@pytest.mark.parametrize("path", ["/mcp/p/reader", "/mcp/p/reader/direct"])
def test_where_a_profile_forbids_it_no_scope_is_asked_for(
    provider: IdentityServer, running: Running, folder: Path, path: str, era: str
) -> None:
    """What is above the profile is not there, with each token."""
    door = "direct" if path.endswith("direct") else "gate"
    answers: list[str] = []
    for scope in ("look", "all"):
        wire = Wire(running.url + path, era, token=provider.token(scope=scope))
        shown = {tool["name"] for tool in wire.request("tools/list")["tools"]}
        assert not shown & {"one__put", "one__wipe", "call_tool_write", "call_tool_destructive"}
        mark = fresh()
        with pytest.raises(RpcError) as caught:
            wire.request("tools/call", params(door, "one", "wipe", mark))
        answers.append(str(caught.value))
        assert not Log(folder / "one.heard").has(mark)
    assert answers[0] == answers[1]


MADE_UP = ["look ALL", "look all2", 'look all"', 'look", scope="all', "look\r\nx-evil: 1", "look\nall", "look\tall",
           ["look", "all "], ["look", ["all"]], {"look": True, "all": True}]  # fmt: skip


@pytest.mark.parametrize("scope", MADE_UP, ids=repr)
def test_scopes_that_only_look_like_ours_allow_nothing_and_are_not_repeated(
    provider: IdentityServer, running: Running, folder: Path, scope: Any
) -> None:
    token, mark = provider.token(scope=scope), fresh()
    answer = httpx.post(
        f"{running.url}/mcp/direct",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call",
              "params": {**params("direct", "one", "wipe", mark), "_meta": {
                  "io.modelcontextprotocol/protocolVersion": MODERN,
                  "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
                  "io.modelcontextprotocol/clientCapabilities": {}}}},
        headers={"authorization": f"Bearer {token}", "mcp-protocol-version": MODERN, "mcp-method": "tools/call",
                 "mcp-name": "one__wipe", "accept": "application/json, text/event-stream"},
        trust_env=False,
    )  # fmt: skip
    assert set(challenge(answer).split()) <= {"look", "all"}
    assert "x-evil" not in answer.headers
    assert not Log(folder / "one.heard").has(mark)


def test_a_login_that_asked_for_scopes_and_did_not_get_them_is_not_asked_for_them_twice_at_once(
    provider: IdentityServer, running: Running
) -> None:
    """The first login asks for all; the provider gave this person one. What that allows goes on."""
    url = f"{running.url}/mcp"
    first = httpx.post(url, json={}, trust_env=False)
    assert first.status_code == 401
    assert 'scope="look put all"' in first.headers["www-authenticate"]
    wire = Wire(url, token=provider.token(scope="look"))
    assert not wire.request("tools/call", params("gate", "one", "look", fresh())).get("isError")
    none = httpx.post(
        url, json={}, headers={"authorization": f"Bearer {provider.token(scope='mail')}"}, trust_env=False
    )
    assert challenge(none) == "look", "the least, since all was asked for and nothing given"


@pytest.mark.parametrize("path", ["/mcp", "/mcp/direct", "/mcp/s/one", "/mcp/p/reader", "/mcp/p/reader/direct"])
def test_metadata_of_each_surface_lists_all_scopes(running: Running, path: str) -> None:
    found = httpx.get(running.url + WELL_KNOWN + path, trust_env=False).json()
    assert (found["resource"], found["scopes_supported"]) == (running.url + path, ["look", "put", "all"])
    refused = httpx.post(running.url + path, json={}, trust_env=False)
    assert f'resource_metadata="{running.url}{WELL_KNOWN}{path}"' in refused.headers["www-authenticate"]


@pytest.mark.parametrize("given", [None, "eyJhbGciOiJub25lIn0.eyJhIjoxfQ.x", "opaque", "the admin key"])
def test_whoever_is_not_logged_in_is_told_to_log_in_and_not_to_send_the_admin_key(
    running: Running, given: str | None
) -> None:
    token = running.key if given == "the admin key" else given
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    answer = httpx.post(f"{running.url}/mcp", json={}, headers=headers, trust_env=False)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (401, "UNAUTHORIZED")
    assert "login page of the identity provider" in error["hint"]
    if given != "the admin key":
        assert "key" not in error["message"] + error["hint"]
