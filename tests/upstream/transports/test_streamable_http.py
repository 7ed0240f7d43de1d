"""Both HTTP transports against real servers: headers, sessions, redirects, and servers that go away."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpproxy_py.core.protocol.client_channel import forwarded_meta
from mcpproxy_py.core.protocol.headers import mirrors
from mcpproxy_py.errors import Code, UpstreamFailure
from mcpproxy_py.upstream.session.session import VersionStamp
from mcpproxy_py.upstream.spec import UpstreamSpec
from tests.support.ports import kept_port
from tests.upstream.helpers import Chat, connected, running, text_of, until, web_server

pytestmark = pytest.mark.anyio


def http(origin: str, path: str = "/mcp", **more: Any) -> UpstreamSpec:
    return UpstreamSpec("s", "http", url=origin + path, **more)


def logged(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.proves("SURF-6")
@pytest.mark.parametrize(
    ("transport", "version"), [("http", "2026-07-28"), ("sse", "2025-11-25")], ids=["streamable", "legacy"]
)
async def test_a_real_server_over_http_is_listed_called_and_reports_progress(
    transport: Any, version: str, tmp_path: Path
) -> None:
    with web_server("sdk.py", f"--{transport}", "0") as origin:
        path = "/mcp" if transport == "http" else "/sse"
        async with running(tmp_path, UpstreamSpec("s", transport, url=origin + path)) as supervisor:
            await connected(supervisor, "s")
            server = supervisor.snapshot.servers["s"]
            assert (server.protocol_version, server.tools["delete"].declared) == (version, "destructive")
            chat = Chat()
            await supervisor.call_tool("s", "count", {"steps": 3}, channel=chat)
            assert [each["message"] for each in chat.progress] == ["step 0", "step 1", "step 2"]
            assert text_of(await supervisor.call_tool("s", "echo", {"text": "é"})) == "é"


@pytest.mark.proves("UP-4")
async def test_a_modern_server_over_http_tells_of_new_tools_on_its_subscription(tmp_path: Path) -> None:
    with web_server("sdk.py", "--http", "0") as origin:
        async with running(tmp_path, http(origin)) as supervisor:
            await connected(supervisor, "s")
            # The subscription opens beside everything else; what was said before is found when it does.
            await supervisor.call_tool("s", "grow", {"name": "newcomer"})
            await until(lambda: "newcomer" in supervisor.snapshot.servers["s"].tools)


@pytest.mark.proves("UP-4")
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_an_old_server_over_http_tells_of_new_tools_on_its_stream(transport: Any, tmp_path: Path) -> None:
    with web_server("plain_http.py", f"--{transport}", "0", "--session") as origin:
        spec = UpstreamSpec("s", transport, url=origin + ("/mcp" if transport == "http" else "/sse"))
        async with running(tmp_path, spec) as supervisor:
            await connected(supervisor, "s")
            await supervisor.call_tool("s", "add_tool", {"name": "newcomer"})
            await until(lambda: "newcomer" in supervisor.snapshot.servers["s"].tools)


@pytest.mark.proves("UP-1")
async def test_the_operators_headers_and_the_protocols_own_go_with_every_request(tmp_path: Path) -> None:
    log = tmp_path / "headers"
    with web_server("plain_http.py", "--http", "0", "--session", "--header-log", str(log)) as origin:
        async with running(tmp_path, http(origin, headers={"authorization": "Bearer t0ken"})) as supervisor:
            await connected(supervisor, "s")
            await supervisor.call_tool("s", "echo", {})
        await until(lambda: "deleted" in logged(log)[-1])
    probe, opening, *rest = logged(log)
    assert (probe["mcp-protocol-version"], probe["mcp-method"]) == ("2026-07-28", "server/discover")
    assert "mcp-protocol-version" not in opening
    assert "mcp-session-id" not in opening
    deleted = rest.pop()
    assert {each["mcp-protocol-version"] for each in rest} == {"2025-11-25"}
    assert {each["mcp-session-id"] for each in rest} == {deleted["deleted"]}
    assert {each["authorization"] for each in (probe, opening, *rest)} == {"Bearer t0ken"}


@pytest.mark.proves("SURF-6")
def test_a_modern_request_says_everything_in_headers_and_envelope() -> None:
    schema = {"properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "n": {"type": "integer"}}}
    params = {"name": "quérÿ", "arguments": {"region": "eu"}}
    stamp = VersionStamp("modern", "2026-07-28")
    headers = stamp.headers("tools/call", params, mirrors(schema))
    assert headers["mcp-method"] == "tools/call"
    assert headers["mcp-name"].startswith("=?base64?")
    assert headers["Mcp-Param-Region"] == "eu"
    meta = stamp.params(params, {"trace": 1})["_meta"]
    assert meta["trace"] == 1
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert mirrors({"x-mcp-header": "root"}) == ()


@pytest.mark.proves("SURF-6")
def test_what_a_client_says_of_its_own_conversation_is_not_passed_on() -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "progressToken": 1, "x/y": 1}
    own = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}
    stamp = VersionStamp("handshake", "2025-06-18")
    assert stamp.params({"name": "t"}, forwarded_meta({**meta, **own})) == {"_meta": own, "name": "t"}
    assert stamp.params({}, forwarded_meta(meta)) == {}


@pytest.mark.proves("UP-2")
async def test_a_session_the_server_forgot_is_opened_anew(tmp_path: Path) -> None:
    with web_server("plain_http.py", "--http", "0", "--session") as origin:
        async with running(tmp_path, http(origin)) as supervisor:
            await connected(supervisor, "s")
            forget = urllib.request.Request(f"{origin}/forget", data=b"", method="POST")
            await anyio.to_thread.run_sync(lambda: urllib.request.urlopen(forget).close())
            with pytest.raises(UpstreamFailure) as caught:
                await supervisor.call_tool("s", "echo", {})
            assert (caught.value.code, caught.value.sent) == (Code.SERVER_UNAVAILABLE, True)
            await connected(supervisor, "s")
            assert text_of(await supervisor.call_tool("s", "echo", {})) == "{}"


@pytest.mark.proves("SEC-5")
async def test_a_redirect_is_followed_on_the_same_origin_only(tmp_path: Path) -> None:
    with web_server("plain_http.py", "--http", "0") as origin:
        here = http(origin, "/moved")
        away = UpstreamSpec("away", "http", url=f"{origin}/elsewhere")
        async with running(tmp_path, here, away) as supervisor:
            await connected(supervisor, "s")
            await until(lambda: supervisor.describe()[1]["error"])
            assert "redirects to http://127.0.0.2:9/mcp, which is not followed" in supervisor.describe()[1]["error"]


@pytest.mark.proves("UP-2")
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_server_over_http_that_goes_away_is_noticed_and_comes_back(transport: Any, tmp_path: Path) -> None:
    path = "/mcp" if transport == "http" else "/sse"
    with kept_port() as port:
        spec, server = UpstreamSpec("s", transport, url=f"http://127.0.0.1:{port}{path}"), (f"--{transport}", str(port))
        async with running(tmp_path, spec) as supervisor:
            with web_server("plain_http.py", *server):
                await connected(supervisor, "s")
            with pytest.raises(UpstreamFailure) as caught:
                for _ in range(3):
                    await supervisor.call_tool("s", "echo", {})
            assert caught.value.code is Code.SERVER_UNAVAILABLE
            await until(lambda: supervisor.snapshot.servers["s"].state == "failed")
            with web_server("plain_http.py", *server):
                await connected(supervisor, "s")


@pytest.mark.proves("UP-7", "UP-5")
@pytest.mark.parametrize("kind", ["json", "events", "sse"])
async def test_a_call_given_up_is_cancelled_upstream(kind: str, tmp_path: Path) -> None:
    cancels = tmp_path / "cancels"
    how = ("--sse", "0") if kind == "sse" else ("--http", "0", "--answer", kind)
    with web_server("plain_http.py", *how, "--cancel-log", str(cancels)) as origin:
        spec = UpstreamSpec("s", "sse" if kind == "sse" else "http", url=origin + ("/sse" if kind == "sse" else "/mcp"))
        async with running(tmp_path, spec) as supervisor:
            await connected(supervisor, "s")
            with anyio.move_on_after(0.2):
                await supervisor.call_tool("s", "never", {})
            await until(lambda: logged(cancels))
            assert [each["reason"] for each in logged(cancels)] == ["the caller cancelled"]
            assert text_of(await supervisor.call_tool("s", "echo", {})) == "{}"
