"""Pages of other origins: who gets the headers of CORS, where, and who does not (SEC-11)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.attacks.target import ALL_SURFACES, ERAS, Log, fresh, heard, params
from tests.support.gateway import Running, gateway
from tests.support.wire import MODERN, Wire

pytestmark = pytest.mark.proves("SEC-11")

TOKEN = "agent-token-0123456789-abcdef"
ALLOWED = "https://app.example"
SURFACES = ["/mcp", "/mcp/", "/mcp/direct", "/mcp/s/one", "/mcp/s/none", "/mcp/p/any", "/mcp/p/any/direct"]
METADATA = ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp/direct"]
ELSEWHERE = ["/api/v1/status", "/api/v1/activity?mine", "/api/v1/proof", "/api/v1/page/open", "/ui", "/ui/", "/",
             "/healthz", "/readyz", "/metrics", "/mcp/tools", "/mcp/catalog", "/tool/ids", "/mcp/s/one/x", "/mcpx",
             "/mcp/s/../../api/v1/status", "/.well-known/other",
             "/.well-known/oauth-protected-resource/api/v1"]  # fmt: skip
FORGED = ["null", "https://app.example.evil.example", "https://evil.example", "http://app.example",
          "https://app.example:444", "https://app.example.", "https://app.exampl", "https://app.example/",
          "https://app.example, https://evil.example", "https://app.example https://evil.example",
          "https://evil.example#https://app.example", "https://app.example@evil.example", "HTTPS://APP.EXAMPLE.EVIL",
          "*", "", "file://", "chrome-extension://app.example", "https://xn--app-example"]  # fmt: skip
PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cors")


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Running]:
    config = {
        "surfaces": ALL_SURFACES,
        "mcpServers": {"one": heard(folder, "one")},
        "allowed_origins": [ALLOWED, "https://other.example:8443"],
    }
    with gateway(folder / "data", config, env={"MCPPROXY_MCP_TOKEN": TOKEN}) as found:
        yield found


@pytest.fixture(scope="module")
def http(running: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=running.url, trust_env=False) as found:
        yield found


def cors(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}


@pytest.mark.parametrize("path", [*SURFACES, *METADATA])
@pytest.mark.parametrize("origin", [ALLOWED, "https://other.example:8443"])
def test_the_preflight_of_an_allowed_origin_is_answered_without_a_credential(
    http: httpx.Client, path: str, origin: str
) -> None:
    asked = "Authorization, content-type, MCP-Protocol-Version, mcp-session-id, mcp-method, mcp-name, mcp-param-region"
    more = "x-api-key, cookie, x-forwarded-for, mcp-param-, mcp-param-a b, last-event-id, accept"
    headers = {**PREFLIGHT, "origin": origin, "access-control-request-headers": f"{asked}, {more}"}
    answer = http.options(path, headers=headers)
    assert answer.status_code == 200
    assert not answer.content
    found = cors(answer)
    assert found.pop("access-control-allow-headers").split(", ") == [
        *asked.lower().split(", "), "last-event-id", "accept"
    ]  # fmt: skip
    assert found.pop("access-control-allow-methods") == "GET, POST, DELETE"
    assert found.pop("access-control-allow-origin") == origin
    assert set(found) == {"access-control-max-age", "access-control-expose-headers"}
    assert answer.headers["vary"] == "origin"


def test_a_private_network_is_opened_to_allowed_origins_only(http: httpx.Client) -> None:
    wants = {**PREFLIGHT, "access-control-request-private-network": "true"}
    assert cors(http.options("/mcp", headers={**wants, "origin": ALLOWED}))["access-control-allow-private-network"]
    for origin in FORGED:
        answer = http.options("/mcp", headers={**wants, "origin": origin})
        assert (answer.status_code, cors(answer)) == (403, {}), origin
    assert not cors(http.options("/api/v1/status", headers={**wants, "origin": ALLOWED}))


@pytest.mark.parametrize("origin", FORGED)
@pytest.mark.parametrize("path", ["/mcp", "/mcp/direct", METADATA[0], "/api/v1/status"])
def test_a_forged_origin_gets_nothing_whatever_it_asks(
    http: httpx.Client, folder: Path, path: str, origin: str
) -> None:
    mark = fresh()
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params("gate", "one", "wipe", mark)}
    headers = {"origin": origin, "authorization": f"Bearer {TOKEN}", "access-control-allow-origin": origin}
    for answer in (
        http.options(path, headers={**PREFLIGHT, "origin": origin}),
        http.post(path, json=body, headers=headers),
        http.get(path, headers=headers),
    ):
        assert (answer.status_code, cors(answer)) == (403, {})
    assert not Log(folder / "one.heard").has(mark)


@pytest.mark.parametrize("path", ELSEWHERE)
def test_nowhere_else_do_pages_of_an_allowed_origin_get_headers(
    http: httpx.Client, running: Running, path: str
) -> None:
    """Not what opens with the admin key, and neither with the key."""
    for headers in (
        {}, {"x-api-key": running.key}, {"authorization": f"Bearer {running.key}"},
        {"authorization": f"Bearer {TOKEN}"},
    ):  # fmt: skip
        for answer in (
            http.options(path, headers={**PREFLIGHT, "origin": ALLOWED, **headers}),
            http.get(path, headers={"origin": ALLOWED, **headers}),
        ):
            assert not cors(answer), (path, answer.status_code)


@pytest.mark.parametrize("headers", [
    {"x-api-key": "KEY"}, {"authorization": "Bearer KEY"}, {"cookie": "mcpproxy=KEY"}, {}, {"authorization": "Bearer x"}
])  # fmt: skip
def test_a_page_without_the_agents_token_can_read_why_and_does_nothing(
    http: httpx.Client, running: Running, folder: Path, headers: dict[str, str]
) -> None:
    mark = fresh()
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params("gate", "one", "wipe", mark)}
    given = {name: value.replace("KEY", running.key) for name, value in headers.items()}
    answer = http.post("/mcp", json=body, headers={**given, "origin": ALLOWED})
    assert answer.status_code == 401
    assert cors(answer)["access-control-allow-origin"] == ALLOWED
    assert "www-authenticate" in cors(answer)["access-control-expose-headers"]
    assert "access-control-allow-credentials" not in cors(answer)
    assert not Log(folder / "one.heard").has(mark)


@ERAS
def test_a_page_with_the_token_reads_its_answers(running: Running, era: str) -> None:
    """Plain answers, streams and errors."""
    wire = Wire(running.mcp, era, token=TOKEN)
    wire.headers["origin"] = ALLOWED
    assert not wire.request("tools/call", params("gate", "one", "look", fresh())).get("isError")
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {}}
    answers = [wire.post(body, **({"mcp-protocol-version": MODERN} if era == MODERN else {})), wire.post(b"{")]
    if era != MODERN:
        with wire.http.stream("GET", wire.url, headers=wire.headers) as stream:
            answers.append(stream)
        answers.append(wire.http.delete(wire.url, headers=wire.headers))
    for answer in answers:
        assert cors(answer)["access-control-allow-origin"] == ALLOWED, answer.status_code
        assert "mcp-session-id" in cors(answer)["access-control-expose-headers"]
        assert answer.headers["vary"] == "origin"


def test_two_origins_are_one_too_many(http: httpx.Client) -> None:
    request = http.build_request("OPTIONS", "/mcp", headers=[("origin", ALLOWED), ("origin", "https://evil.example"),
                                                             *PREFLIGHT.items()])  # fmt: skip
    answer = http.send(request)
    assert (answer.status_code, cors(answer)) == (400, {})


def test_a_page_of_the_gateway_itself_needs_no_headers_and_gets_none(http: httpx.Client, running: Running) -> None:
    """What else is served under the name of this machine must not read along."""
    own = running.url
    for origin in (own, own.replace("127.0.0.1", "localhost")):
        assert not cors(http.options("/mcp", headers={**PREFLIGHT, "origin": origin}))
        assert not cors(http.post("/mcp", json={}, headers={"origin": origin}))


def test_a_host_that_is_not_ours_gets_no_headers_whatever_the_origin(http: httpx.Client) -> None:
    answer = http.options("/mcp", headers={**PREFLIGHT, "origin": ALLOWED, "host": "rebound.example"})
    assert (answer.status_code, cors(answer)) == (421, {})


def test_an_origin_that_is_taken_off_the_list_gets_no_headers_any_more(tmp_path: Path) -> None:
    config = {"allowed_origins": [ALLOWED], "mcpServers": {}}
    with gateway(tmp_path / "data", config) as running:
        assert cors(httpx.options(running.mcp, headers={**PREFLIGHT, "origin": ALLOWED}, trust_env=False))
    with gateway(tmp_path / "data", {**config, "allowed_origins": []}) as running:
        answer = httpx.options(running.mcp, headers={**PREFLIGHT, "origin": ALLOWED}, trust_env=False)
        assert (answer.status_code, cors(answer)) == (403, {})
