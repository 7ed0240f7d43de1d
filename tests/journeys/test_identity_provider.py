"""People and agents come with tokens of an identity provider (SEC-2): real clients find it, log in and ask for more."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.journeys.test_real_clients import ECHO, GATE_TOOLS, PROJECT, javascript
from tests.support.gateway import Running, clean_environment, gateway, python_server, until
from tests.support.identity import IdentityServer, SigningPair, identity_server
from tests.support.node import script
from tests.support.ports import kept_port
from tests.support.wire import HANDSHAKE, MODERN, Wire, text

pytestmark = pytest.mark.proves("SEC-2")

ERAS = pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
WELL_KNOWN = "/.well-known/oauth-protected-resource"
SCOPES = {"mcp:read": "read", "mcp:write": ["read", "write"], "mcp:all": "destructive"}
DELETE = {"name": "sdk:delete", "args": {"name": "x"}, "intent": {"operation_type": "destructive"}}
BY_SDK = [("v1", "legacy", HANDSHAKE), ("v2", "legacy", HANDSHAKE), ("v2", MODERN, MODERN)]


@pytest.fixture
def provider() -> Iterator[IdentityServer]:
    with identity_server() as found:
        yield found


def settings(provider: IdentityServer, **more: Any) -> dict[str, Any]:
    jwt = {"issuer": provider.issuer, "audience": provider.audience, "operations": SCOPES, "leeway": 0, **more}
    return {
        "surfaces": ["gate", "direct", "passthrough"],
        "mcpServers": {"sdk": python_server("sdk.py"), "other": python_server("sdk.py")},
        "profiles": {"frontend": {"servers": ["sdk"]}},
        "auth": {"jwt": jwt},
    }


@pytest.fixture
def running(provider: IdentityServer, tmp_path: Path) -> Iterator[Running]:
    with gateway(tmp_path / "data", settings(provider)) as found:
        yield found


@pytest.mark.parametrize(
    ("sdk", "era", "revision", "path"),
    [*((*each, "/mcp") for each in BY_SDK), (*BY_SDK[0], "/mcp/direct"), (*BY_SDK[2], "/mcp/s/sdk")],
)
def test_a_real_client_is_led_to_the_provider_logs_in_and_comes_back_for_more(
    provider: IdentityServer, tmp_path: Path, sdk: str, era: str, revision: str, path: str
) -> None:
    calls = [{"name": "call_tool_read", "arguments": ECHO}, {"name": "call_tool_destructive", "arguments": DELETE}]
    if path != "/mcp":
        prefix = "sdk__" if path == "/mcp/direct" else ""
        calls = [{"name": f"{prefix}{tool}", "arguments": args}
                 for tool, args in (("echo", {"text": "hallo"}), ("delete", {"name": "x"}))]  # fmt: skip
    with kept_port() as port:
        provider.audience = f"http://127.0.0.1:{port}{path}"
        with gateway(tmp_path / "data", settings(provider, login_scopes=["mcp:read"]), port=port) as running:
            url = running.url + path
            told = javascript(script(PROJECT, "login.mjs"), sdk, era, json.dumps(calls), url, home=tmp_path)
            found = json.loads(told)
            rows = running.activities(client=f"typescript-{sdk}")
    echoed, deleted = found["results"]
    if path == "/mcp":
        assert set(found["tools"]) == GATE_TOOLS
    assert found.get("revision", revision) == revision
    assert echoed["content"][0]["text"] == "hallo"
    assert not deleted.get("isError"), deleted
    assert found["asked"] == [
        {"scope": "mcp:read", "resource": url},
        {"scope": "mcp:read mcp:all", "resource": url},
    ]
    assert provider.granted == ["mcp:read", "mcp:read mcp:all"]
    assert found["sameSession"]
    assert {row["principal"] for row in rows} == {"user:alice"}
    assert [(row["status"], (row["error"] or {}).get("code")) for row in reversed(rows) if row["tool"] != "echo"] == [
        ("blocked", "INSUFFICIENT_SCOPE"), ("success", None),
    ]  # fmt: skip


def test_the_first_login_asks_for_all_that_the_person_may_be_given(provider: IdentityServer, tmp_path: Path) -> None:
    calls = json.dumps([{"name": "call_tool_destructive", "arguments": DELETE}])
    with kept_port() as port:
        provider.audience = f"http://127.0.0.1:{port}/mcp"
        with gateway(tmp_path / "data", settings(provider), port=port) as running:
            told = javascript(script(PROJECT, "login.mjs"), "v2", MODERN, calls, running.mcp, home=tmp_path)
    found = json.loads(told)
    assert not found["results"][0].get("isError"), found["results"]
    assert found["asked"] == [{"scope": "mcp:read mcp:write mcp:all", "resource": running.mcp}]
    assert provider.granted == ["mcp:read mcp:write mcp:all"]


def test_a_client_whose_person_may_not_do_more_gives_up_and_nothing_reaches_the_server(
    provider: IdentityServer, running: Running, tmp_path: Path
) -> None:
    provider.grants = frozenset({"mcp:read"})
    calls = json.dumps([{"name": "call_tool_destructive", "arguments": DELETE}])
    with pytest.raises(AssertionError):
        javascript(script(PROJECT, "login.mjs"), "v2", MODERN, calls, running.mcp, home=tmp_path)
    assert not running.activities(status="success", tool="delete")


# The metadata, and the challenges.


@pytest.mark.parametrize(
    "surface",
    ["/mcp", "/mcp/direct", "/mcp/s/sdk", "/mcp/s/none", "/mcp/p/frontend", "/mcp/p/none", "/mcp/p/frontend/direct"],
)
def test_each_surface_says_where_tokens_come_from_whether_it_is_there_or_not(
    provider: IdentityServer, running: Running, surface: str
) -> None:
    with httpx.Client(base_url=running.url, trust_env=False) as http:
        answer = http.get(WELL_KNOWN + surface)
        refused = http.post(surface, json={})
    assert answer.status_code == 200
    assert answer.json() == {
        "resource": running.url + surface,
        "authorization_servers": [provider.issuer],
        "scopes_supported": ["mcp:read", "mcp:write", "mcp:all"],
        "bearer_methods_supported": ["header"],
        "resource_name": "mcpproxy",
    }
    assert refused.status_code == 401
    scopes, where = "mcp:read mcp:write mcp:all", f"{running.url}{WELL_KNOWN}{surface}"
    said = f'Bearer realm="mcpproxy", scope="{scopes}", resource_metadata="{where}"'
    assert refused.headers["www-authenticate"] == said


def test_the_address_that_clients_use_may_be_another_one(provider: IdentityServer, tmp_path: Path) -> None:
    config = settings(provider)
    behind = {"host": "mcp.example.com", "x-forwarded-proto": "https", "x-forwarded-for": "192.0.2.1"}
    with gateway(tmp_path / "data", {**config, "allowed_hosts": ["mcp.example.com"]}) as running:
        found = httpx.get(running.url + WELL_KNOWN, headers=behind, trust_env=False)
        assert found.json()["resource"] == "https://mcp.example.com/mcp"
        foreign = httpx.get(running.url + WELL_KNOWN, headers={"host": "evil.example"}, trust_env=False)
        assert foreign.status_code == 421
        unsaid = {"x-forwarded-host": "evil.example", "forwarded": "host=evil.example"}
        assert "evil" not in httpx.get(running.url + WELL_KNOWN, headers=unsaid, trust_env=False).text
    config["auth"]["public_url"] = "https://gate.example/"
    with gateway(tmp_path / "other", config) as running:
        found = httpx.get(f"{running.url}{WELL_KNOWN}/mcp/direct", trust_env=False)
        assert found.json()["resource"] == "https://gate.example/mcp/direct"
        refused = httpx.post(f"{running.url}/mcp", trust_env=False)
        assert f'resource_metadata="https://gate.example{WELL_KNOWN}/mcp"' in refused.headers["www-authenticate"]


def test_without_a_provider_there_is_no_metadata(tmp_path: Path) -> None:
    with gateway(tmp_path / "data", {}, env={"MCPPROXY_MCP_TOKEN": "agent-token-0123456789-abcdef"}) as running:
        assert httpx.get(running.url + WELL_KNOWN, trust_env=False).status_code == 404
        refused = httpx.post(running.mcp, trust_env=False)
        assert refused.headers["www-authenticate"] == 'Bearer realm="mcpproxy"'


def test_a_gateway_that_others_reach_starts_with_a_provider_and_no_token_of_its_own(
    provider: IdentityServer, tmp_path: Path
) -> None:
    config = {**settings(provider), "require_mcp_auth": True}
    with gateway(tmp_path / "data", config) as running:
        assert httpx.post(running.mcp, trust_env=False).status_code == 401
        assert Wire(running.mcp, token=provider.token(scope="mcp:read")).read("sdk:echo", {"text": "hallo"})


# What a token is good for.


@ERAS
def test_a_variant_above_the_token_is_refused_in_the_same_words_whether_there_is_such_a_tool_or_not(
    provider: IdentityServer, running: Running, era: str
) -> None:
    wire = Wire(running.mcp, era, token=provider.token(scope="mcp:read"))
    assert {tool["name"] for tool in wire.request("tools/list")["tools"]} == GATE_TOOLS  # or nobody would ask for more
    answers: set[tuple[int, str, str]] = set()
    for tool in ("sdk:delete", "sdk:none", "none:none", "other:delete"):
        answer = _posted(wire, era, "call_tool_destructive", {**DELETE, "name": tool})
        answers.add((answer.status_code, answer.headers["www-authenticate"], answer.text))
    ((status, challenge, _),) = answers
    assert status == 403
    assert 'error="insufficient_scope"' in challenge
    assert 'scope="mcp:read mcp:all"' in challenge
    assert f'resource_metadata="{running.url}{WELL_KNOWN}/mcp"' in challenge
    assert text(wire.read("sdk:echo", {"text": "hallo"})) == "hallo"


def _posted(wire: Wire, era: str, tool: str, arguments: Any) -> httpx.Response:
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    headers: dict[str, str] = {}
    if era == MODERN:
        meta = {"protocolVersion": MODERN, "clientInfo": wire.info, "clientCapabilities": {}}
        params["_meta"] = {f"io.modelcontextprotocol/{name}": value for name, value in meta.items()}
        headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": tool}
    return wire.post({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}, **headers)


def test_a_profile_and_servers_of_the_claims_are_all_that_there_is(provider: IdentityServer, tmp_path: Path) -> None:
    config = settings(provider, profile_claim="team", servers_claim="servers", operations={})
    with gateway(tmp_path / "data", config) as running:

        def reached(**claims: Any) -> list[bool]:
            wire = Wire(running.mcp, token=provider.token(**claims))
            return [not wire.read(f"{name}:echo", {"text": "x"}).get("isError") for name in ("sdk", "other")]

        assert reached(team="frontend", servers=["sdk", "other"]) == [True, False]
        assert reached(team="frontend", servers=["other"]) == [False, False]
        assert reached(servers=["sdk", "other"]) == [False, False]
        assert reached(team="none", servers=["sdk"]) == [False, False]


def test_the_one_agent_token_goes_on_to_work_beside_the_provider(provider: IdentityServer, tmp_path: Path) -> None:
    token = "agent-token-0123456789-abcdef"
    with gateway(tmp_path / "data", settings(provider), env={"MCPPROXY_MCP_TOKEN": token}) as running:
        for given, principal in ((token, "agent"), (provider.token(scope="mcp:read"), "user:alice")):
            assert text(Wire(running.mcp, token=given, name=principal).read("sdk:echo", {"text": "x"})) == "x"
            assert {row["principal"] for row in running.activities(client=principal)} == {principal}


def test_somebody_with_a_token_reads_their_own_records_and_nothing_else(
    provider: IdentityServer, running: Running
) -> None:
    tokens = {name: provider.token(sub=name, scope="mcp:read") for name in ("alice", "bob")}
    for name, token in tokens.items():
        Wire(running.mcp, token=token).read("sdk:echo", {"text": name})
    running.catch_up()
    with httpx.Client(base_url=running.url, trust_env=False) as http:
        headers = {"authorization": f"Bearer {tokens['bob']}"}
        mine = http.get("/api/v1/activity?mine", headers=headers)
        assert {row["principal"] for row in mine.json()["activities"]} == {"user:bob"}
        for path in ("/api/v1/activity", "/api/v1/servers", "/api/v1/status", "/metrics"):
            assert http.get(path, headers={**headers, "x-forwarded-for": "192.0.2.1"}).status_code == 401, path


# Sessions and streams.


def test_a_session_goes_on_with_a_new_token_of_the_same_person_and_with_nobody_elses(
    provider: IdentityServer, running: Running
) -> None:
    wire = Wire(running.mcp, HANDSHAKE, token=provider.token(scope="mcp:read"))
    wire.headers["authorization"] = f"Bearer {provider.token(scope='mcp:all', jti='new')}"
    assert not wire.via("destructive", "sdk:delete", {"name": "x"}).get("isError")
    wire.headers["authorization"] = f"Bearer {provider.token(scope='mcp:read', jti='less')}"
    assert _posted(wire, HANDSHAKE, "call_tool_destructive", DELETE).status_code == 403
    wire.headers["authorization"] = f"Bearer {provider.token(sub='eve', scope='mcp:all')}"
    stolen = _posted(wire, HANDSHAKE, "call_tool_read", ECHO)
    made_up = wire.post({"jsonrpc": "2.0", "id": 7, "method": "ping"}, **{"mcp-session-id": "0" * 32})
    assert (stolen.status_code, made_up.status_code) == (404, 404)


@ERAS
def test_a_stream_that_listens_ends_with_its_token(provider: IdentityServer, running: Running, era: str) -> None:
    provider.lives = 4
    ending = provider.token(scope="mcp:read")
    wire = Wire(running.mcp, era, token=ending)
    if era == HANDSHAKE:
        stream = wire.http.stream("GET", wire.url, headers=wire.headers)
    else:
        meta = {"protocolVersion": MODERN, "clientInfo": wire.info, "clientCapabilities": {}}
        params = {
            "notifications": {"toolsListChanged": True},
            "_meta": {f"io.modelcontextprotocol/{name}": value for name, value in meta.items()},
        }
        headers = {**wire.headers, "mcp-protocol-version": MODERN, "mcp-method": "subscriptions/listen"}
        body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        stream = wire.http.stream("POST", wire.url, headers=headers, json=body)
    with stream as answer:
        assert answer.status_code == 200
        with pytest.raises(httpx.RemoteProtocolError):  # it is cut off
            for _ in answer.iter_bytes():
                pass
    refused = wire.http.post(wire.url, headers=wire.headers, json={})
    assert refused.status_code == 401
    assert "expired" in refused.headers["www-authenticate"]
    provider.lives = 600
    wire.headers["authorization"] = f"Bearer {provider.token(scope='mcp:read')}"
    assert text(wire.read("sdk:echo", {"text": "again"})) == "again"


def test_the_provider_may_start_after_the_gateway(tmp_path: Path) -> None:
    with identity_server() as provider:
        provider.instead["/keys"] = lambda request: request.send_error(503)
        with gateway(tmp_path / "data", settings(provider)) as running:
            token = provider.token(scope="mcp:read")
            early = httpx.post(running.mcp, headers={"authorization": f"Bearer {token}"}, trust_env=False)
            assert early.status_code == 503
            assert early.json()["error"]["code"] == "IDENTITY_UNAVAILABLE"
            assert "retry-after" in early.headers
            provider.instead.clear()

            def comes_in() -> bool:
                again = httpx.post(running.mcp, headers={"authorization": f"Bearer {token}"}, trust_env=False)
                return again.status_code not in (401, 503)

            until(comes_in, what="the keys")


def test_doctor_looks_whether_the_keys_can_be_had(provider: IdentityServer, tmp_path: Path) -> None:
    path = tmp_path / "mcp_config.json"
    auth = {"jwt": {"issuer": provider.issuer, "audience": provider.audience}}
    path.write_text(json.dumps({"listen": "127.0.0.1:0", "auth": auth}))
    path.chmod(0o600)

    def found() -> dict[str, str]:
        command = [sys.executable, "-m", "mcpproxy_py", "doctor", "-o", "json", "--config", str(path)]
        done = subprocess.run(
            [*command, "--data-dir", str(tmp_path)], env=clean_environment(), capture_output=True, text=True, timeout=60
        )
        rows = [row for row in json.loads(done.stdout)["findings"] if row["subject"] == "identity provider"]
        assert len(rows) == 1, done.stdout + done.stderr
        return rows[0]

    assert found()["state"] == "ok"
    assert f"1 key of {provider.issuer}" in found()["says"]
    provider.keys.append(SigningPair("other", use="enc"))
    assert (found()["state"], "key 2 is not for signatures" in found()["says"]) == ("warning", True)
    provider.instead["/keys"] = lambda request: request.send_error(500)
    assert (found()["state"], "answers 500" in found()["says"]) == ("problem", True)
