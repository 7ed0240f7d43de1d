"""The one door: hosts, origins, credentials, body sizes, request ids."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from mcpproxy_py.errors import FACTS, Code
from mcpproxy_py.serve.http.asgi import answered_by, as_asgi
from mcpproxy_py.serve.http.guard import MOST_LINES, AccessRules, Guard, zone_of
from mcpproxy_py.serve.http.hosts import authority, host_list, is_loopback, origin_list
from mcpproxy_py.serve.rest.app import ENDPOINTS

KEY = "mcpk_admin-key-for-tests"
TOKEN = "agent-token-for-tests"

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SEC-1", "API-2")]


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """An application that tells who the guard says is asking, after it read the whole body."""
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    body = json.dumps({"principal": scope["state"]["principal"], "size": size}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body})


def client(app: Any = echo, *, peer: str = "127.0.0.1", **rules: Any) -> httpx.AsyncClient:
    guard = Guard({}, answered_by(app), AccessRules(**{"admin_key": lambda: KEY, **rules}))
    transport = httpx.ASGITransport(as_asgi(guard.serve), raise_app_exceptions=False, client=(peer, 5000))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080")


async def get(path: str, headers: Any = None, **rules: Any) -> httpx.Response:
    async with client(**rules) as http:
        return await http.get(path, headers=headers)


def code_of(response: httpx.Response) -> str | None:
    """The code, having checked that an error has the one shape and the status its code stands for."""
    if response.is_success:
        return None
    error = response.json()["error"]
    assert set(error) == {"code", "message", "hint", "details"}
    assert FACTS[Code(error["code"])].http == response.status_code
    return error["code"]


ADMIN = {"x-api-key": KEY}
AGENT = {"authorization": f"Bearer {TOKEN}"}
PUBLIC = {"listen_host": "0.0.0.0", "mcp_token": TOKEN}


# --- hosts and origins ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "rules", "is_ours"),
    [
        ("127.0.0.1:8080", {}, True),
        ("localhost", {}, True),
        ("LocalHost:9", {}, True),
        ("[::1]:8080", {}, True),
        ("evil.example", {}, False),
        ("127.0.0.1.evil.example", {}, False),
        ("localhost.", {}, False),
        ("127.0.0.1:8080@evil.example", {}, False),
        ("127.0.0.1:99999999", {}, False),
        ("::1", {}, False),
        ("", {}, False),
        ("192.168.1.5:8080", {"listen_host": "192.168.1.5"}, True),
        ("192.168.1.6:8080", {"listen_host": "192.168.1.5"}, False),
        ("0.0.0.0:8080", {"listen_host": "0.0.0.0"}, False),
        ("[::]:8080", {"listen_host": "::"}, False),
        ("[fd00::1]:8080", {"listen_host": "fd00::1"}, True),
        ("gate.example:1234", {"allowed_hosts": ("gate.example",)}, True),
        ("GATE.example", {"allowed_hosts": (" Gate.Example ",)}, True),
        ("gate.example:8443", {"allowed_hosts": ("gate.example:8443",)}, True),
        ("gate.example:8444", {"allowed_hosts": ("gate.example:8443",)}, False),
        ("gate.example", {"allowed_hosts": ("gate.example:8443",)}, False),
        ("gate.example", {"allowed_hosts": ("gate.example:443",)}, True),
        ("a.b.example.com", {"allowed_hosts": ("*.example.com",)}, True),
        ("example.com", {"allowed_hosts": ("*.example.com",)}, False),
        ("badexample.com", {"allowed_hosts": ("*.example.com",)}, False),
        ("[fd00::2]:1", {"allowed_hosts": ("fd00::2",)}, True),
        ("whoever.example", {"allowed_hosts": ("*",)}, True),
        ("not a host", {"allowed_hosts": ("*",)}, False),
    ],
)
async def test_a_host_that_is_not_ours_is_refused(host: str, rules: dict[str, Any], is_ours: bool) -> None:
    given = authority(host)
    allowed = host_list(rules.get("listen_host", "127.0.0.1"), rules.get("allowed_hosts", ()))
    assert (given is not None and allowed.allows(given)) is is_ours
    response = await get("/mcp", {"host": host, **AGENT}, mcp_token=TOKEN, **rules)
    assert code_of(response) == (None if is_ours else "FOREIGN_HOST")


@pytest.mark.parametrize(
    ("origin", "rules", "is_ours"),
    [
        ("http://127.0.0.1:8080", {}, True),
        ("http://localhost:8080", {}, True),
        ("http://[::1]:8080", {}, True),
        ("http://127.0.0.1:3000", {}, False),
        ("http://localhost:3000", {}, False),
        ("http://localhost", {}, False),
        ("https://localhost", {}, False),
        ("http://localhost:3000", {"allowed_origins": ("http://localhost:3000",)}, True),
        ("http://evil.example", {}, False),
        ("null", {}, False),
        ("null", {"allowed_origins": ("null",)}, False),
        ("", {}, False),
        ("file://localhost", {}, False),
        ("http://localhost/path", {}, False),
        ("http://localhost@evil.example", {}, False),
        ("chrome-extension://abcdef", {}, False),
        ("chrome-extension://abcdef", {"allowed_origins": ("chrome-extension://abcdef",)}, True),
        ("https://gate.example", {"allowed_hosts": ("gate.example",)}, True),
        ("https://gate.example:444", {"allowed_hosts": ("gate.example",)}, False),
        ("https://gate.example:444", {"allowed_hosts": ("gate.example:444",)}, True),
        ("https://a.example.com", {"allowed_hosts": ("*.example.com",)}, False),
        ("https://evil.example", {"allowed_hosts": ("*",)}, False),
        ("https://app.example", {"allowed_origins": ("https://app.example/",)}, True),
        ("https://app.example", {"allowed_origins": ("https://app.example:443",)}, True),
        ("http://app.example", {"allowed_origins": ("https://app.example",)}, False),
        ("https://app.example:444", {"allowed_origins": ("https://app.example",)}, False),
        ("https://anything.example", {"allowed_origins": ("*",)}, True),
    ],
)
async def test_a_page_of_a_foreign_origin_is_refused(origin: str, rules: dict[str, Any], is_ours: bool) -> None:
    hosts = host_list("127.0.0.1", rules.get("allowed_hosts", ()))
    assert origin_list(hosts, rules.get("allowed_origins", ())).allows(origin, "127.0.0.1:8080") is is_ours
    response = await get("/api/v1/status", {"origin": origin, **ADMIN}, **rules)
    assert code_of(response) == (None if is_ours else "FOREIGN_ORIGIN")


@pytest.mark.parametrize(
    ("host", "origin", "rules", "is_ours"),
    [
        ("localhost:9000", "http://localhost:9000", {}, True),  # a port that a container is published at
        ("localhost:9000", "http://localhost:8080", {}, False),
        ("localhost", "https://localhost", {}, True),
        ("gate.example:8443", "https://gate.example:8443", {"allowed_hosts": ("gate.example",)}, True),
        ("gate.example:8443", "https://gate.example:8444", {"allowed_hosts": ("gate.example",)}, False),
        ("a.example.com", "https://a.example.com", {"allowed_hosts": ("*.example.com",)}, True),
        ("a.example.com", "https://b.example.com", {"allowed_hosts": ("*.example.com",)}, False),
        ("gate.example", "https://localhost", {"allowed_hosts": ("gate.example",)}, False),
    ],
)
async def test_a_page_is_ours_where_it_comes_from_the_address_that_it_asks(
    host: str, origin: str, rules: dict[str, Any], is_ours: bool
) -> None:
    response = await get("/api/v1/status", {"host": host, "origin": origin, **ADMIN}, **rules)
    assert code_of(response) == (None if is_ours else "FOREIGN_ORIGIN")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "None", "else"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/catalog", "/tool/ids", "/api/v1/status", "/metrics"])
async def test_a_page_of_another_site_does_not_get_in_without_naming_itself(path: str, site: str) -> None:
    response = await get(path, {"sec-fetch-site": site, **ADMIN})
    assert code_of(response) == "FOREIGN_ORIGIN"
    assert "other sites" in response.json()["error"]["message"]


@pytest.mark.parametrize("site", ["same-origin", "none"])
async def test_what_a_person_typed_gets_in(site: str) -> None:
    assert code_of(await get("/mcp/catalog", {"sec-fetch-site": site})) is None
    assert code_of(await get("/mcp", [("sec-fetch-site", site), ("sec-fetch-site", "none")])) == "BAD_REQUEST"


async def test_what_is_open_to_everybody_and_allowed_pages_may_be_asked_from_other_sites() -> None:
    other = {"sec-fetch-site": "cross-site"}
    assert code_of(await get("/healthz", other)) is None
    assert code_of(await get("/.well-known/x", other)) is None
    app = {**other, "origin": "https://app.example"}
    assert code_of(await get("/mcp", app, allowed_origins=("https://app.example",))) is None
    assert code_of(await get("/mcp", app)) == "FOREIGN_ORIGIN"


async def test_what_is_turned_away_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with client() as http:
        for _ in range(MOST_LINES + 5):
            await http.get("/api/v1/status")
    assert len([one for one in caplog.records if "UNAUTHORIZED" in one.getMessage()]) == MOST_LINES


@pytest.mark.proves("API-1")
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_the_probes_are_open_to_any_host_and_need_no_credential(path: str) -> None:
    response = await get(path, {"host": "10.1.2.3", "origin": "http://evil.example"}, **PUBLIC)
    assert response.status_code == 200


async def test_what_merely_begins_like_a_probe_is_not_one() -> None:
    assert code_of(await get("/healthz/deeper", {"host": "evil.example"})) == "FOREIGN_HOST"
    assert code_of(await get("/healthzz")) == "NOT_FOUND"


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.8.9.1", True), ("localhost", True), ("::1", True), ("[::1]", True),
     ("::ffff:127.0.0.1", True), ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("host.example", False)],
)  # fmt: skip
async def test_only_addresses_of_this_machine_count_as_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


# --- credentials ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-api-key": ""},
        {"x-api-key": "wrong"},
        {"x-api-key": KEY + "x"},
        {"x-api-key": KEY[:-1]},
        {"x-api-key": TOKEN},
        {"authorization": "Bearer "},
        {"authorization": f"Basic {KEY}"},
        {"authorization": KEY},
        {"authorization": f"Bearer {TOKEN}"},
        {"x-api-key": "wrong", "authorization": f"Bearer {KEY}"},
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/status", "/api", "/api/"])
async def test_nothing_but_the_admin_key_opens_rest(path: str, headers: dict[str, str]) -> None:
    response = await get(path, headers, mcp_token=TOKEN)
    assert code_of(response) == "UNAUTHORIZED"
    assert response.headers["www-authenticate"].startswith("Bearer")


# --- what is neither MCP nor REST ----------------------------------------------------------------------


@pytest.mark.parametrize("headers", [{}, ADMIN, AGENT, {"accept": "text/html"}])
@pytest.mark.parametrize("path", ["/uix", "/mcpx", "/sse", "/favicon.ico", "/apix/v1/status", "/a%00b", "/<b>"])
@pytest.mark.parametrize("rules", [{}, PUBLIC])
async def test_a_path_in_no_zone_reaches_nobody_whatever_the_credential(
    path: str, headers: dict[str, str], rules: dict[str, Any]
) -> None:
    for method in ("GET", "POST", "DELETE", "OPTIONS"):
        async with client(**rules) as http:
            response = await http.request(method, path, headers=headers)
        assert code_of(response) == "NOT_FOUND"
        assert response.headers["content-type"] == "application/json"
        assert "/mcp" in response.json()["error"]["message"]
        assert "access-control-allow-origin" not in response.headers


async def test_the_old_transport_is_told_of_the_new_one() -> None:
    for method, path in (("GET", "/sse"), ("POST", "/sse"), ("POST", "/messages")):
        async with client() as http:
            response = await http.request(method, path)
        assert "streamable HTTP, at /mcp" in response.json()["error"]["message"]


@pytest.mark.parametrize("rules", [{}, PUBLIC, {"allowed_hosts": ("*",)}])
async def test_a_browser_is_led_to_the_page_which_runs_only_scripts_of_its_own(rules: dict[str, Any]) -> None:
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8", "sec-fetch-site": "none"}
    allowed = {"allowed_hosts": ("127.0.0.1",)} | rules
    led = await get("/", browser, **allowed)
    assert (led.status_code, led.headers["location"], led.content) == (303, "/ui", b"")
    page = await get("/ui", browser, **allowed)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    for name, value in (("x-frame-options", "DENY"), ("referrer-policy", "no-referrer"), ("cache-control", "no-cache"),
                        ("x-content-type-options", "nosniff"), ("cross-origin-opener-policy", "same-origin"),
                        ("cross-origin-resource-policy", "same-origin")):  # fmt: skip
        assert page.headers[name] == value
    assert "<script>" not in page.text and "style=" not in page.text and "http" not in page.text
    async with client(**allowed) as http:
        head = await http.head("/ui", headers=browser)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == str(len(page.content))
        known = await http.get("/ui/", headers={**browser, "if-none-match": page.headers["etag"]})
        assert (known.status_code, known.content) == (304, b"")
        assert (await http.post("/ui", headers=browser)).status_code == 405


@pytest.mark.parametrize(
    "path", ["/ui/none.js", "/ui/../guard.py", "/ui/%2e%2e/files.py", "/ui/views", "/ui//page.js", "/ui/page.js%00"]
)
async def test_nothing_but_the_files_of_the_page_is_served(path: str) -> None:
    assert code_of(await get(path, {})) == "NOT_FOUND"


async def test_a_page_of_another_site_may_neither_load_nor_open_the_page() -> None:
    for site in ("cross-site", "same-site"):
        for path in ("/", "/ui", "/ui/page.js"):
            assert code_of(await get(path, {"accept": "text/html", "sec-fetch-site": site})) == "FOREIGN_ORIGIN"


async def test_programs_at_the_root_are_told_where_to_go() -> None:
    assert (await get("/", {"accept": "application/json"})).json()["mcp"] == "/mcp"
    assert code_of(await get("/", {"accept": "text/event-stream"})) == "NOT_FOUND", (
        "or an MCP client would take it for one"
    )
    async with client() as http:
        posted = await http.post("/", json={"jsonrpc": "2.0", "id": 1, "method": "initialize"})
    assert code_of(posted) == "NOT_FOUND"
    assert "MCP is at /mcp" in posted.json()["error"]["message"]


async def test_pages_of_other_sites_and_foreign_hosts_get_no_page() -> None:
    browser = {"accept": "text/html"}
    assert code_of(await get("/", {**browser, "sec-fetch-site": "cross-site"})) == "FOREIGN_ORIGIN"
    assert code_of(await get("/", {**browser, "host": "evil.example"})) == "FOREIGN_HOST"


def test_every_endpoint_of_rest_is_in_a_zone() -> None:
    assert [each.path for each in ENDPOINTS if zone_of(each.path) == "outside"] == []
    assert {zone_of(path) for path in ("//mcp", "/", "", "/mcpx", "/apix", "/MCP")} == {"outside"}


@pytest.mark.parametrize(
    "headers", [{"x-api-key": KEY}, {"authorization": f"Bearer {KEY}"}, {"authorization": f"bearer {KEY}"}]
)
async def test_the_admin_key_opens_rest_in_either_header(headers: dict[str, str]) -> None:
    response = await get("/api/v1/status", headers)
    assert response.json()["principal"] == "admin"


@pytest.mark.parametrize(
    ("rules", "needs_token"),
    [
        ({}, False),
        ({"mcp_token": TOKEN}, True),
        ({"require_mcp_auth": True}, True),
        ({"listen_host": "::1"}, False),
        ({"listen_host": "0.0.0.0"}, True),
        ({"listen_host": "192.168.1.5"}, True),
        (PUBLIC, True),
    ],
)
async def test_mcp_is_open_on_loopback_only_and_unless_a_token_is_asked_for(
    rules: dict[str, Any], needs_token: bool
) -> None:
    response = await get("/mcp", **rules)
    assert code_of(response) == ("UNAUTHORIZED" if needs_token else None)
    assert needs_token or response.json()["principal"] == "local"


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/mcp/direct", "/mcp/s/git"])
async def test_the_agent_token_opens_mcp_and_the_admin_key_does_not(path: str) -> None:
    assert (await get(path, AGENT, **PUBLIC)).json()["principal"] == "agent"
    for headers in (ADMIN, {"authorization": f"Bearer {KEY}"}, {"authorization": "Bearer wrong"}, {"x-api-key": TOKEN}):
        assert code_of(await get(path, headers, **PUBLIC)) == "UNAUTHORIZED"


async def test_without_a_token_to_compare_with_a_required_one_never_fits() -> None:
    for given in ("", "None", KEY):
        headers = {"authorization": f"Bearer {given}"}
        assert code_of(await get("/mcp", headers, require_mcp_auth=True)) == "UNAUTHORIZED"


async def test_an_empty_admin_key_opens_nothing() -> None:
    assert code_of(await get("/api/v1/status", {"x-api-key": ""}, admin_key=lambda: "")) == "UNAUTHORIZED"


async def test_a_token_that_equals_the_admin_key_opens_mcp_only() -> None:
    both = {"authorization": f"Bearer {KEY}"}
    assert code_of(await get("/mcp", both, mcp_token=KEY)) is None
    assert code_of(await get("/api/v1/status", both, mcp_token=KEY)) == "UNAUTHORIZED"


async def test_a_rotated_key_stops_working_at_once() -> None:
    keys = [KEY]
    async with client(admin_key=lambda: keys[-1]) as http:
        assert (await http.get("/api/v1/status", headers=ADMIN)).is_success
        keys.append("mcpk_new")
        assert code_of(await http.get("/api/v1/status", headers=ADMIN)) == "UNAUTHORIZED"
        assert (await http.get("/api/v1/status", headers={"x-api-key": "mcpk_new"})).is_success


async def test_new_rules_apply_from_the_next_request_on() -> None:
    guard = Guard({}, answered_by(echo), AccessRules(admin_key=lambda: KEY))
    transport = httpx.ASGITransport(as_asgi(guard.serve))
    async with httpx.AsyncClient(transport=transport, base_url="http://gate.example") as http:
        assert code_of(await http.get("/mcp")) == "FOREIGN_HOST"
        guard.use(AccessRules(admin_key=lambda: KEY, allowed_hosts=("gate.example",)))
        assert code_of(await http.get("/mcp")) is None


@pytest.mark.parametrize(
    ("peer", "headers", "is_open"),
    [
        ("127.0.0.1", {}, False),
        ("::1", {}, False),
        ("127.0.0.1", ADMIN, True),
        ("127.0.0.1", AGENT, False),
        ("10.0.0.9", {}, False),
        ("10.0.0.9", ADMIN, True),
        ("10.0.0.9", AGENT, False),
        ("127.0.0.1", {"x-forwarded-for": "10.0.0.9"}, False),
        ("127.0.0.1", {"forwarded": "for=10.0.0.9"}, False),
        ("127.0.0.1", {"x-forwarded-for": "127.0.0.1", **ADMIN}, True),
    ],
)
async def test_metrics_of_a_gateway_that_wants_tokens_need_the_admin_key(
    peer: str, headers: dict[str, str], is_open: bool
) -> None:
    for rules in (PUBLIC, {"require_mcp_auth": True}, {"mcp_token": TOKEN}):
        response = await get("/metrics", headers, peer=peer, **rules)
        assert code_of(response) == (None if is_open else "UNAUTHORIZED"), rules


@pytest.mark.parametrize(
    ("peer", "headers", "is_open"),
    [
        ("127.0.0.1", {}, True),
        ("::1", {}, True),
        ("10.0.0.9", {}, False),
        ("127.0.0.1", {"forwarded": "for=10.0.0.9"}, False),
        ("127.0.0.1", {"x-forwarded-for": "127.0.0.1", **ADMIN}, True),
    ],
)
async def test_metrics_of_an_open_gateway_are_for_its_machine(
    peer: str, headers: dict[str, str], is_open: bool
) -> None:
    response = await get("/metrics", headers, peer=peer)
    assert code_of(response) == (None if is_open else "UNAUTHORIZED")


@pytest.mark.parametrize(
    "twice",
    [
        [("host", "127.0.0.1"), ("host", "evil.example")],
        [("authorization", f"Bearer {TOKEN}"), ("authorization", f"Bearer {KEY}")],
        [("x-api-key", "wrong"), ("x-api-key", KEY)],
        [("origin", "http://localhost"), ("origin", "http://evil.example")],
    ],
)
async def test_a_header_that_decides_something_may_not_come_twice(twice: list[tuple[str, str]]) -> None:
    assert code_of(await get("/mcp", twice)) == "BAD_REQUEST"


# --- bodies --------------------------------------------------------------------------------------------


async def pieces(*sizes: int) -> AsyncIterator[bytes]:
    for size in sizes:
        yield b"x" * size


@pytest.mark.parametrize(
    ("content", "fits"),
    [(b"x" * 100, True), (b"x" * 101, False), (pieces(50, 50), True), (pieces(50, 51), False), (pieces(500), False)],
)
async def test_a_body_is_bounded_whether_announced_or_streamed(content: Any, fits: bool) -> None:
    async with client(max_body_bytes=100) as http:
        response = await http.post("/mcp", content=content)
    assert code_of(response) == (None if fits else "TOO_LARGE")
    assert not fits or response.json()["size"] == 100


@pytest.mark.parametrize("length", ["abc", "-1", "1e3", "²", "9" * 5000])
async def test_a_length_that_is_no_length_is_refused(length: str) -> None:
    async with client(max_body_bytes=100) as http:
        response = await http.post("/mcp", content=b"{}", headers=[(b"content-length", length.encode())])
    assert code_of(response) in ("BAD_REQUEST", "TOO_LARGE")


async def test_an_application_that_swallows_the_limit_is_not_heard() -> None:
    async def careless(scope: Any, receive: Any, send: Any) -> None:
        try:
            await echo(scope, receive, send)
        except Exception:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"fine"})

    async with client(careless, max_body_bytes=100) as http:
        assert code_of(await http.post("/mcp", content=pieces(101))) == "TOO_LARGE"


# --- request ids, failures -------------------------------------------------------------------------------


@pytest.mark.proves("OPS-1")
@pytest.mark.parametrize("given", ["abc-123", "x" * 128])
async def test_a_request_id_is_taken_over_and_echoed(given: str) -> None:
    assert (await get("/mcp", {"x-request-id": given})).headers["x-request-id"] == given
    refused = await get("/api/v1/status", {"x-request-id": given})
    assert refused.headers["x-request-id"] == given


@pytest.mark.proves("OPS-1")
@pytest.mark.parametrize("given", [None, "", "x" * 129, "two words", b"caf\xe9", "a\tb"])
async def test_a_request_id_unfit_for_a_log_line_is_replaced(given: Any) -> None:
    made = (await get("/mcp", {"x-request-id": given} if given is not None else {})).headers["x-request-id"]
    assert made != given
    assert len(made) == 16
    assert made != (await get("/mcp")).headers["x-request-id"]


@pytest.mark.proves("OPS-1")
async def test_a_bug_answers_500_and_its_details_go_to_the_log_only(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("the secret plan")

    async with client(broken) as http:
        response = await http.get("/mcp", headers={"x-request-id": "r-1"})
    assert code_of(response) == "INTERNAL"
    assert response.json()["error"]["details"] == {"request_id": "r-1"}
    assert "secret plan" not in response.text
    assert "secret plan" in caplog.text


@pytest.mark.proves("OPS-1")
async def test_refusals_are_logged_without_the_credential(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "mcpproxy"):
        await get("/api/v1/status?x=y", {"x-api-key": "a-wrong-but-still-secret-key"})
    assert "UNAUTHORIZED" in caplog.text
    assert "still-secret" not in caplog.text


async def test_rules_do_not_show_the_token() -> None:
    assert TOKEN not in repr(AccessRules(admin_key=lambda: KEY, mcp_token=TOKEN))


async def test_websockets_are_closed_and_the_lifespan_passes() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    guard = as_asgi(Guard({}, answered_by(app), AccessRules(admin_key=lambda: KEY)).serve, app)
    await guard({"type": "lifespan"}, None, send)  # type: ignore[arg-type]
    await guard({"type": "websocket", "path": "/mcp", "headers": []}, None, send)  # type: ignore[arg-type]
    assert seen == ["lifespan"]
    assert [message["type"] for message in sent] == ["websocket.close"]
