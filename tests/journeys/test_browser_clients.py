"""A page of another origin that speaks MCP by `fetch`, in a real browser (SEC-11)."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.chromium import browser
from tests.support.gateway import Running, gateway, python_server
from tests.support.identity import IdentityServer, identity_server
from tests.support.wire import HANDSHAKE, MODERN

pytestmark = pytest.mark.proves("SEC-11")

SCRIPT = r"""
async ({url, revision, token, modern}) => {
  const heard = {};
  const messages = async (answer) => {
    const text = await answer.text();
    if (!(answer.headers.get('content-type') || '').startsWith('text/event-stream')) return [JSON.parse(text)];
    return text.split('\n').filter((line) => line.startsWith('data:') && line.slice(5).trim())
      .map((line) => JSON.parse(line.slice(5)));
  };
  const base = {'content-type': 'application/json', accept: 'application/json, text/event-stream'};
  const meta = {
    'io.modelcontextprotocol/protocolVersion': revision,
    'io.modelcontextprotocol/clientInfo': {name: 'page', version: '1'},
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  let id = 0;
  let own = {};
  const send = (method, params, headers = {}) => {
    if (modern) {
      params = {...params, _meta: meta};
      headers = {...headers, 'mcp-protocol-version': revision, 'mcp-method': method};
      if (method === 'tools/call') headers['mcp-name'] = params.name;
    }
    const body = JSON.stringify({jsonrpc: '2.0', id: ++id, method, params});
    return fetch(url, {method: 'POST', body, headers: {...base, ...own, ...headers}});
  };

  // Without a token: the challenge can be read, and the metadata that it names.
  const challenged = await send(modern ? 'server/discover' : 'initialize', {});
  heard.refused = challenged.status;
  heard.challenge = challenged.headers.get('www-authenticate');
  const where = heard.challenge.match(/resource_metadata="([^"]+)"/)[1];
  heard.metadata = await (await fetch(where, {headers: {'mcp-protocol-version': revision}})).json();

  own = {authorization: `Bearer ${token}`};
  if (!modern) {
    const client = {protocolVersion: revision, capabilities: {}, clientInfo: {name: 'page', version: '1'}};
    const opened = await send('initialize', client);
    heard.session = opened.headers.get('mcp-session-id');
    await opened.text();
    own = {...own, 'mcp-session-id': heard.session, 'mcp-protocol-version': revision};
    const note = JSON.stringify({jsonrpc: '2.0', method: 'notifications/initialized'});
    await fetch(url, {method: 'POST', body: note, headers: {...base, ...own}});
  }
  heard.tools = (await messages(await send('tools/list', {}))).at(-1).result.tools.map((tool) => tool.name);
  const echo = {name: 'sdk:echo', args: {text: 'from a page'}, intent: {operation_type: 'read'}};
  const called = await messages(await send('tools/call', {name: 'call_tool_read', arguments: echo}));
  heard.echo = called.at(-1).result.content[0].text;

  // More than the token allows: the challenge of step-up can be read too.
  const wipe = {name: 'sdk:delete', args: {name: 'x'}, intent: {operation_type: 'destructive'}};
  const above = await send('tools/call', {name: 'call_tool_destructive', arguments: wipe});
  heard.above = [above.status, above.headers.get('www-authenticate')];
  if (!modern) heard.ended = (await fetch(url, {method: 'DELETE', headers: own})).status;
  return heard;
}
"""
REACHES = """async ([url, options]) => {
  try { return (await fetch(url, options)).status } catch (error) { return error.name }
}"""


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<!doctype html><title>a page of somebody else</title>"
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture(scope="module")
def origins() -> Iterator[list[str]]:
    """Two, of which one is allowed."""
    servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) for _ in range(2)]
    threads = [threading.Thread(target=each.serve_forever, daemon=True) for each in servers]
    for thread in threads:
        thread.start()
    yield [f"http://127.0.0.1:{each.server_port}" for each in servers]
    for server, thread in zip(servers, threads, strict=True):
        server.shutdown()
        server.server_close()
        thread.join(60)


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityServer]:
    with identity_server() as found:
        yield found


@pytest.fixture(scope="module")
def running(
    provider: IdentityServer, origins: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    operations = {"mcp:read": "read", "mcp:all": "destructive"}
    config = {
        "mcpServers": {"sdk": python_server("sdk.py")},
        "allowed_origins": [origins[0]],
        "auth": {"jwt": {"issuer": provider.issuer, "audience": provider.audience, "operations": operations}},
    }
    with gateway(tmp_path_factory.mktemp("pages") / "data", config) as found:
        yield found


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.mark.parametrize("revision", [MODERN, HANDSHAKE])
def test_a_page_of_an_allowed_origin_reads_the_challenge_and_calls_tools(
    provider: IdentityServer, running: Running, origins: list[str], chrome: Any, revision: str
) -> None:
    page = chrome.new_page()
    page.goto(origins[0])
    token = provider.token(scope="mcp:read")
    heard = page.evaluate(
        SCRIPT, {"url": running.mcp, "revision": revision, "token": token, "modern": revision == MODERN}
    )
    page.close()
    where = f"{running.url}/.well-known/oauth-protected-resource/mcp"
    assert heard["refused"] == 401
    assert heard["challenge"] == f'Bearer realm="mcpproxy", scope="mcp:read mcp:all", resource_metadata="{where}"'
    assert heard["metadata"]["authorization_servers"] == [provider.issuer]
    assert {"call_tool_read", "call_tool_destructive"} <= set(heard["tools"])
    assert heard["echo"] == "from a page"
    status, challenge = heard["above"]
    assert status == 403
    assert 'error="insufficient_scope"' in challenge
    assert 'scope="mcp:read mcp:all"' in challenge
    if revision != MODERN:
        assert (len(heard["session"]) > 16, heard["ended"]) == (True, 200)


@pytest.mark.parametrize("revision", [MODERN, HANDSHAKE])
def test_a_page_of_another_origin_reads_nothing_and_calls_nothing(
    provider: IdentityServer, running: Running, origins: list[str], chrome: Any, revision: str
) -> None:
    page = chrome.new_page()
    page.goto(origins[1])
    token = provider.token(scope="mcp:all", sub="mallory")
    options = {"method": "POST", "body": "{}", "headers": {
        "authorization": f"Bearer {token}", "content-type": "application/json", "mcp-protocol-version": revision,
    }}  # fmt: skip
    assert page.evaluate(REACHES, [running.mcp, options]) == "TypeError"
    blind = {"method": "POST", "body": "{}", "headers": {"content-type": "text/plain"}}
    assert page.evaluate(REACHES, [running.mcp, blind]) == "TypeError"
    assert page.evaluate(REACHES, [f"{running.url}/.well-known/oauth-protected-resource/mcp", {}]) == "TypeError"
    page.close()
    assert not running.activities(principal="user:mallory")


def test_an_allowed_page_reaches_neither_rest_nor_the_page_of_the_gateway_with_the_admin_key(
    running: Running, origins: list[str], chrome: Any, tmp_path: Path
) -> None:
    page = chrome.new_page()
    page.goto(origins[0])
    for headers in ({"x-api-key": running.key}, {"authorization": f"Bearer {running.key}"}):
        for path in ("/api/v1/status", "/api/v1/freeze", "/ui", "/metrics"):
            for method in ("GET", "POST"):
                options = {"method": method, "headers": headers, "credentials": "include"}
                assert page.evaluate(REACHES, [running.url + path, options]) == "TypeError", path
    with_cookies = {"method": "POST", "body": "{}", "credentials": "include"}
    assert page.evaluate(REACHES, [running.mcp, with_cookies]) == "TypeError"
    page.close()
    assert running.get("/status")["frozen"] is False
