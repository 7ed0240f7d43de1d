"""HTTP as no honest client speaks it: what a request is, whose page it comes from, and who may read what.

The second request of each smuggling case is told by its path: nobody may ever answer it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.attacks.raw import attached, connected, memory, request, statuses
from tests.attacks.target import heard
from tests.support.gateway import Running, gateway

pytestmark = [pytest.mark.proves("SEC-5", "SEC-7")]

KEY = "admin-key-0123456789-abcdef"
TOKEN = "agent-token-0123456789-abcdef"
CHUNKED = "Transfer-Encoding: chunked"
END = b"0\r\n\r\n"
MB = 1 << 20


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("edges")
    secrets = {"MCPPROXY_API_KEY": KEY, "MCPPROXY_MCP_TOKEN": TOKEN}
    with gateway(folder / "data", {"surfaces": ["gate", "direct"]}, env=secrets) as found:
        yield found


@pytest.fixture(scope="module")
def tokenless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """As it is on a developer's machine: whoever is on it needs no credential for the MCP surfaces."""
    folder = tmp_path_factory.mktemp("tokenless")
    config = {"surfaces": ["gate", "direct"], "mcpServers": {"one": heard(folder, "one", "--modern")}}
    with gateway(folder / "data", config) as found:
        yield found


# What a request is.

HIDDEN = request("GET /smuggled HTTP/1.1", f"X-API-Key: {KEY}")
LAST = request("GET /readyz HTTP/1.1", "Connection: close")
POST = "POST /healthz HTTP/1.1"


def post(*headers: str, body: bytes = HIDDEN, line: str = POST) -> bytes:
    return request(line, *headers, body=body)


def chunked(body: bytes, *headers: str) -> bytes:
    return request(POST, CHUNKED, *headers, body=body)


REFUSED: dict[str, bytes] = {
    # Two lengths.
    "length and chunks": post("Content-Length: 5", CHUNKED, body=END + HIDDEN),
    "chunks and length": post(CHUNKED, "Content-Length: 5", body=END + HIDDEN),
    "chunks and no length": post(CHUNKED, "Content-Length: 0", body=END + HIDDEN),
    "two lengths": post("Content-Length: 0", f"Content-Length: {len(HIDDEN)}"),
    "two lengths the other way": post(f"Content-Length: {len(HIDDEN)}", "Content-Length: 0"),
    "the same length twice": post("Content-Length: 0", "Content-Length: 0"),
    "a list of lengths": post("Content-Length: 0, 0"),
    "a list of two lengths": post("Content-Length: 0, 5"),
    # Lengths that are none.
    "plus": post("Content-Length: +0"),
    "minus": post("Content-Length: -1"),
    "minus nothing": post("Content-Length: -0"),
    "hexadecimal": post("Content-Length: 0x0"),
    "an exponent": post("Content-Length: 0e0"),
    "an underscore": post("Content-Length: 0_0"),
    "a space within": post("Content-Length: 0 0"),
    "empty": post("Content-Length: "),
    "a NUL": post("Content-Length: 0\0"),
    "beyond 64 bits": post("Content-Length: 18446744073709551616"),
    "far beyond 64 bits": post(f"Content-Length: {'9' * 60}"),
    "with a point": post("Content-Length: 0.0"),
    "in quotes": post('Content-Length: "0"'),
    "another digit": post("Content-Length: \xb2"),
    "space before the colon": post("Content-Length : 0"),
    "tab before the colon": post("Content-Length\t: 0"),
    # Codings.
    "coding with space before the colon": post("Transfer-Encoding : chunked", body=END + HIDDEN),
    "identity": post("Transfer-Encoding: identity"),
    "chunked before another": post("Transfer-Encoding: chunked, identity", body=END + HIDDEN),
    "another before chunked": post("Transfer-Encoding: identity, chunked", body=END + HIDDEN),
    "gzip before chunked": post("Transfer-Encoding: gzip, chunked", body=END + HIDDEN),
    "almost chunked": post("Transfer-Encoding: xchunked", body=END + HIDDEN),
    "more than chunked": post("Transfer-Encoding: chunkedx", body=END + HIDDEN),
    "chunked in quotes": post('Transfer-Encoding: "chunked"', body=END + HIDDEN),
    "chunked with a parameter": post("Transfer-Encoding: chunked;q=1", body=END + HIDDEN),
    "chunked twice": post(CHUNKED, CHUNKED, body=END + HIDDEN),
    "chunked twice in one": post("Transfer-Encoding: chunked, chunked", body=END + HIDDEN),
    "a vertical tab": post("Transfer-Encoding: \x0bchunked", body=END + HIDDEN),
    "a form feed": post("Transfer-Encoding: chunked\x0c", body=END + HIDDEN),
    "a NUL after": post("Transfer-Encoding: chunked\0", body=END + HIDDEN),
    "an empty coding": post("Transfer-Encoding:"),
    "chunks in HTTP/1.0": post(CHUNKED, line="POST /healthz HTTP/1.0", body=END + HIDDEN),
    # Lines that are not what they seem.
    "a folded coding": post("Transfer-Encoding:\r\n chunked", body=END + HIDDEN),
    "a coding folded by a tab": post("Transfer-Encoding:\r\n\tchunked", body=END + HIDDEN),
    "a folded first line": b"POST /healthz HTTP/1.1\r\n Transfer-Encoding: chunked\r\nHost: a\r\n\r\n" + END + HIDDEN,
    "a fold": post(f"X-A: b\r\n Content-Length: {len(HIDDEN)}"),
    "line feeds": POST.encode() + b"\nHost: 127.0.0.1\nContent-Length: 0\n\n" + HIDDEN,
    "one line feed": post("X-A: b\nContent-Length: 0"),
    "a coding after a line feed": post("X-A: b\nTransfer-Encoding: chunked", body=END + HIDDEN),
    "a carriage return": post("X-A: b\rTransfer-Encoding: chunked", body=END + HIDDEN),
    "carriage returns": POST.encode() + b"\rHost: 127.0.0.1\r\r" + HIDDEN,
    "the other way round": POST.encode() + b"\n\rHost: 127.0.0.1\n\r\n\r" + HIDDEN,
    "two carriage returns": POST.encode() + b"\r\r\nHost: 127.0.0.1\r\r\n\r\r\n" + HIDDEN,
    "a NUL in a name": post("Content\0-Length: 0"),
    "a NUL in a value": post("X-A: \0"),
    "no name": post(": 0"),
    "no colon": post("Content-Length"),
    "a space in a name": post("Content Length: 0"),
    "a high byte in a name": post("Content-Length\xff: 0"),
    # Chunks.
    "chunk of minus one": chunked(b"-1\r\n\r\n" + END + HIDDEN),
    "chunk of plus nothing": chunked(b"+0\r\n\r\n" + HIDDEN),
    "chunk with 0x": chunked(b"0x0\r\n\r\n" + HIDDEN),
    "space before a chunk": chunked(b" 0\r\n\r\n" + HIDDEN),
    "space after a size": chunked(b"0 \r\n\r\n" + HIDDEN),
    "chunk beyond 64 bits": chunked(b"10000000000000000\r\n\r\n" + HIDDEN),
    "chunk far beyond": chunked(b"fffffffffffffffff0\r\n\r\n" + HIDDEN),
    "chunk with line feeds": chunked(b"0\n\n" + HIDDEN),
    "chunk with carriage returns": chunked(b"0\r\r" + HIDDEN),
    "size with a line feed": chunked(b"1\nx\r\n0\r\n\r\n" + HIDDEN),
    "a chunk that is shorter": chunked(b"5\r\nab\r\n0\r\n\r\n" + HIDDEN),
    "a chunk that is longer": chunked(b"1\r\nabcdef\r\n0\r\n\r\n" + HIDDEN),
    "a chunk without a size": chunked(b"\r\n\r\n" + HIDDEN),
    "a chunk that is none": chunked(b"zz\r\n\r\n" + HIDDEN),
    "an extension with a line feed": chunked(b"1;a\nb\r\nx\r\n0\r\n\r\n" + HIDDEN),
    "an extension with a carriage return": chunked(b"1;a\rb\r\nx\r\n0\r\n\r\n" + HIDDEN),
    "an extension over two lines": chunked(b'1;a="\r\n"\r\nx\r\n0\r\n\r\n' + HIDDEN),
    "an extension with a NUL": chunked(b"1;\0\r\nx\r\n0\r\n\r\n" + HIDDEN),
    "a length in a trailer": chunked(b"0\r\nContent-Length: 5\r\n\r\n" + HIDDEN),
    "a coding in a trailer": chunked(b"0\r\nTransfer-Encoding: chunked\r\n\r\n" + HIDDEN),
    "a trailer with line feeds": chunked(b"0\r\nA: b\n\n" + HIDDEN),
    # Whom it is for.
    "another host in the request line": post(line="POST http://evil.example/healthz HTTP/1.1"),
    "a user in the request line": post(line="POST http://a@127.0.0.1/healthz HTTP/1.1"),
    "a tunnel": request("CONNECT 127.0.0.1:80 HTTP/1.1", body=HIDDEN),
    "no path at all": request("OPTIONS * HTTP/1.1", body=HIDDEN),
    "a path without a slash": post("Content-Length: 0", line="POST healthz HTTP/1.1"),
    "a space in the path": post("Content-Length: 0", line="POST /healthz x HTTP/1.1"),
    "tabs": post("Content-Length: 0", line="POST\t/healthz\tHTTP/1.1"),
    "a space at the end": post("Content-Length: 0", line="POST /healthz HTTP/1.1 "),
    # What is spoken.
    "lower case": post("Content-Length: 0", line="POST /healthz http/1.1"),
    "a method in lower case": post("Content-Length: 0", line="post /healthz HTTP/1.1"),
    "a method that nobody knows": post("Content-Length: 0", line="SMUGGLE /healthz HTTP/1.1"),
    "HTTP/0.9": b"GET /healthz\r\n\r\n" + HIDDEN,
    "HTTP/0.9 by its name": request("GET /healthz HTTP/0.9", body=HIDDEN),
    "HTTP/2.0": request("GET /healthz HTTP/2.0", body=HIDDEN),
    "HTTP/1.2": request("GET /healthz HTTP/1.2", body=HIDDEN),
    "HTTP/3": request("GET /healthz HTTP/3", body=HIDDEN),
    "HTTP/11": request("GET /healthz HTTP/11", body=HIDDEN),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HIDDEN,
}
LENGTH = f"Content-Length: {len(HIDDEN)}"
TAKEN: dict[str, tuple[bytes, list[int]]] = {
    "a body that looks like a request": (post(LENGTH), [405, 200]),
    "the same with a GET": (request("GET /mcp HTTP/1.1", LENGTH, body=HIDDEN), [401, 200]),
    "in chunks": (chunked(b"%x\r\n%b\r\n%b" % (len(HIDDEN), HIDDEN, END)), [405, 200]),
    "in chunks with extensions": (chunked(b"%x;a=b\r\n%b\r\n%b" % (len(HIDDEN), HIDDEN, END)), [405, 200]),
    "with a harmless trailer": (chunked(b"%x\r\n%b\r\n0\r\nA: b\r\n\r\n" % (len(HIDDEN), HIDDEN)), [405, 200]),
    "connection names the length": (post("Connection: Content-Length", LENGTH), [405, 200]),
    "an expectation": (post("Expect: 200-ok", LENGTH), [405, 200]),
    "our own host in the request line": (post(LENGTH, line="POST http://127.0.0.1/healthz HTTP/1.1"), [405, 200]),
    "two hosts": (request(POST, "Host: evil.example", LENGTH, body=HIDDEN), [400, 200]),
    "the last one": (post("Connection: close", "Content-Length: 0"), [405]),
    "of HTTP/1.0": (post("Content-Length: 0", line="POST /healthz HTTP/1.0"), [405]),
    "another protocol": (request("GET /healthz HTTP/1.1", "Connection: Upgrade", "Upgrade: h2c", body=HIDDEN), [200]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_request_that_can_be_read_in_two_ways_ends_its_connection(running: Running, name: str) -> None:
    with connected(running.url) as client:
        client.send(REFUSED[name] + LAST)
        said = client.rest()
    assert b"smuggled" not in said
    assert all(status in (400, 431, 501, 505) for status in statuses(said)), said
    assert len(statuses(said)) <= 1


@pytest.mark.parametrize("name", TAKEN)
def test_the_body_of_a_request_is_never_another_request(running: Running, name: str) -> None:
    sent, answers = TAKEN[name]
    with connected(running.url) as client:
        client.send(sent + LAST)
        said = client.rest()
    assert b"smuggled" not in said
    assert statuses(said) == answers, said


def test_what_would_be_smuggled_is_answered_where_it_is_asked_openly(running: Running) -> None:
    """Else the tests above could not fail."""
    with connected(running.url) as client:
        client.send(HIDDEN + LAST)
        assert b"smuggled" in client.rest()


@pytest.mark.parametrize("version", ["HTTP/0.9", "HTTP/2.0"])
def test_another_version_is_refused_by_its_own_status(running: Running, version: str) -> None:
    with connected(running.url) as client:
        client.send(request(f"GET /healthz {version}"))
        said = client.rest()
    assert statuses(said) == [505] and b"Only HTTP/1.1" in said


# What comes beside headers and body.


@pytest.mark.parametrize(
    ("path", "trailer"),
    [("/mcp", f"Authorization: Bearer {TOKEN}"), ("/api/v1/status", f"X-API-Key: {KEY}"),
     ("/api/v1/explain", f"X-API-Key: {KEY}"), ("/api/v1/explain", f"Authorization: Bearer {KEY}")],
)  # fmt: skip
@pytest.mark.parametrize("at_once", [True, False])
def test_a_credential_in_a_trailer_opens_nothing(running: Running, path: str, trailer: str, at_once: bool) -> None:
    head = request(f"POST {path} HTTP/1.1", CHUNKED, "Content-Type: application/json")
    body, ending = b"2\r\n{}\r\n0\r\n", f"{trailer}\r\n\r\n".encode()
    with connected(running.url) as client:
        if at_once:
            client.send(head + body + ending + LAST)
        else:
            for piece in (head, body, ending, LAST):
                client.send(piece)
        assert statuses(client.rest()) == [401, 200]


def test_a_host_in_a_trailer_is_no_second_host(running: Running) -> None:
    head = request("GET /api/v1/status HTTP/1.1", f"X-API-Key: {KEY}", CHUNKED)
    with connected(running.url) as client:
        client.send(head + b"0\r\nHost: evil.example\r\nOrigin: http://evil.example\r\n\r\n" + LAST)
        assert statuses(client.rest()) == [200, 200]


TRAILERS = b"".join(b"X-Trailer-%d: %b\r\n" % (number, b"x" * 200) for number in range(500))
BESIDE: dict[str, tuple[bytes, bytes]] = {
    "trailers": (b"0\r\n", TRAILERS),
    "trailers that say nothing": (b"0\r\n", b"A:\r\n" * 5000),
    "one trailer": (b"0\r\nX-Trailer: ", b"x" * 100_000),
    "an extension": (b"1;", b"x" * 100_000),
    "a size": (b"", b"0" * 100_000),
    "extensions of many chunks": (b"", b"1;%b\r\nx\r\n" % (b"y" * 2000) * 50),
}


@pytest.mark.parametrize("path", ["/mcp", "/api/v1/status", "/healthz"])
@pytest.mark.parametrize("name", BESIDE)
def test_what_comes_beside_the_chunks_of_a_body_is_bounded(running: Running, name: str, path: str) -> None:
    """Before any credential. 40 MB of it cost 419 MB."""
    first, then = BESIDE[name]
    before = memory(running.process.pid)
    with connected(running.url) as client:
        client.send(request(f"POST {path} HTTP/1.1", CHUNKED) + first)
        sent = 0
        while sent < 40 * MB and client.send(then):
            sent += len(then)
        grown = memory(running.process.pid) - before
    assert sent < 40 * MB, "nobody hung up"
    assert grown < 20 * MB, grown
    assert running.client.get("/healthz").status_code == 200


def test_who_sends_too_much_beside_a_body_is_told_so(running: Running) -> None:
    """Where the answer is not given before that; and no request that came before it loses its own."""
    with connected(running.url) as client:
        client.send(request("POST /api/v1/explain HTTP/1.1", f"X-API-Key: {KEY}", CHUNKED) + b"1\r\n{\r\n0\r\n")
        client.send(b"X-Trailer: 1\r\n" * 2000)
        said = client.rest()
    assert statuses(said) == [431] and b"trailers" in said


HEADS: dict[str, bytes] = {
    "many headers": request("GET /healthz HTTP/1.1", *(f"X-{number}: 1" for number in range(1_500))),
    "a million of them": request("GET /healthz HTTP/1.1", *["A:"] * 1_000_000),
    "a long header": request("GET /healthz HTTP/1.1", f"X: {'x' * 200_000}"),
    "a long name": request("GET /healthz HTTP/1.1", f"{'x' * 200_000}: x"),
    "a long path": request(f"GET /{'x' * 200_000} HTTP/1.1"),
    "a long method": b"GET" * 100_000 + b" / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("name", HEADS)
def test_a_head_is_bounded_however_it_comes(running: Running, name: str) -> None:
    for pieces in (HEADS[name],), [HEADS[name][at : at + 9_000] for at in range(0, len(HEADS[name]), 9_000)]:
        with connected(running.url) as client:
            for piece in pieces:
                if not client.send(piece):
                    break
            said = client.rest()
        assert all(status in (400, 431) for status in statuses(said)), said[:500]  # or hung up on in the middle
    assert running.client.get("/healthz").status_code == 200


def test_requests_sent_ahead_are_bounded(running: Running) -> None:
    """A hundred thousand of them at once: some are answered, nobody keeps the others."""
    before, many = memory(running.process.pid), 100_000
    with connected(running.url) as client:
        client.send(request("GET /healthz HTTP/1.1") * 3)
        assert 200 in statuses(client.until(b"ok"))
        client.sock.setblocking(False)
        block, left = request("GET /api/v1/status HTTP/1.1", "X: " + "y" * 100) * 500, many // 500
        try:
            while left and client.sock.send(block):
                left -= 1
        except OSError:
            pass  # it reads no more, or has hung up
        assert running.client.get("/healthz").status_code == 200
        assert memory(running.process.pid) - before < 20 * MB


# Whose page it is.


def ways_in(running: Running) -> dict[str, tuple[str, str, dict[str, str]]]:
    admin = {"x-api-key": running.key}
    return {
        "a search of the catalog": ("GET", "/mcp/catalog?query=github", {}),
        "the tools": ("GET", "/mcp/tools", {}),
        "their names": ("GET", "/tool/ids", {}),
        "a session's stream": ("GET", "/mcp", {"accept": "text/event-stream"}),
        "figures": ("GET", "/metrics", {}),
        "the record": ("GET", "/api/v1/activity", admin),
        "a freeze": ("POST", "/api/v1/freeze", admin),
    }


WAYS = [
    "a search of the catalog",
    "the tools",
    "their names",
    "a session's stream",
    "figures",
    "the record",
    "a freeze",
]


@pytest.mark.proves("SEC-1")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "SAME-ORIGIN", "whatever"])
def test_a_page_of_another_site_gets_nothing_without_naming_its_origin(tokenless: Running, way: str, site: str) -> None:
    method, path, headers = ways_in(tokenless)[way]
    before = len(tokenless.activities())
    answer = tokenless.client.request(
        method, path, headers={**headers, "sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
    )
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "FOREIGN_ORIGIN"
    assert len(tokenless.activities()) == before
    assert not tokenless.get("/status")["frozen"]


@pytest.mark.proves("SEC-1")
def test_a_person_may_type_the_address_and_a_probe_may_be_linked(tokenless: Running) -> None:
    assert tokenless.client.get("/mcp/tools", headers={"sec-fetch-site": "none"}).status_code == 200
    for path in ("/healthz", "/readyz"):
        assert tokenless.client.get(path, headers={"sec-fetch-site": "cross-site"}).status_code == 200


@pytest.mark.proves("SEC-1")
def test_a_page_that_another_port_of_this_machine_serves_is_foreign(tokenless: Running) -> None:
    port = httpx.URL(tokenless.url).port or 0
    before = len(tokenless.activities())
    for host in ("localhost", "127.0.0.1", "[::1]"):
        for origin in (
            f"http://{host}:{port + 1}",
            f"http://{host}",
            f"https://{host}:{port - 1}",
            f"http://{host}:80",
        ):
            answer = tokenless.client.get("/mcp/catalog", headers={"origin": origin})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FOREIGN_ORIGIN"), origin
        own = tokenless.client.get("/tool/ids", headers={"origin": f"http://{host}:{port}"})
        assert own.status_code == 200
    assert len(tokenless.activities()) == before


# Who may read what.


def paths(running: Running) -> list[tuple[str, str]]:
    described = running.client.get("/api/v1/openapi.json").json()["paths"]
    found = [(method.upper(), path) for path, methods in described.items() for method in methods]
    assert len(found) > 30
    return found


OPEN = {"/healthz", "/readyz", "/api/v1/proof", "/metrics", "/api/v1/page/open"}
"""The last one to this machine only."""
AGENTS = {("GET", "/mcp/tools"), ("GET", "/tool/ids"), ("GET", "/mcp/catalog"), ("POST", "/mcp/request-capability")}
WRONG: dict[str, dict[str, str]] = {
    "none": {},
    "another key": {"x-api-key": "admin-key-0123456789-abcdeg"},
    "an empty key": {"x-api-key": ""},
    "part of the key": {"x-api-key": KEY[:-1]},
    "the key and more": {"x-api-key": KEY + "0"},
    "another token": {"authorization": "Bearer agent-token-0123456789-abcdeg"},
    "the key as a password": {"authorization": f"Basic {KEY}"},
    "the key in a cookie": {"cookie": f"x-api-key={KEY}"},
    "the key behind a comma": {"x-api-key": f"x, {KEY}"},
}
AGENT = {"authorization": f"Bearer {TOKEN}"}
ADMINS: list[dict[str, str]] = [{"x-api-key": KEY}, {"authorization": f"Bearer {KEY}"}]


def asked(running: Running, method: str, path: str, headers: dict[str, str]) -> int:
    filled = path.replace("{", "").replace("}", "")
    body: dict[str, Any] = {"content": b"not json"} if method in ("POST", "PUT", "PATCH") else {}
    with (
        httpx.Client(base_url=running.url, trust_env=False, timeout=60, verify=False) as client,
        client.stream(method, filled, headers=headers, **body) as answer,
    ):
        return answer.status_code


@pytest.mark.proves("API-2")
@pytest.mark.parametrize("name", WRONG)
def test_no_path_is_opened_by_a_wrong_credential(running: Running, name: str) -> None:
    """Every path that there is: they are read from the gateway's own description, so that a new one is among them."""
    for method, path in paths(running):
        if path not in OPEN:
            for asking in {method, "GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT"}:
                assert asked(running, asking, path, WRONG[name]) == 401, (asking, path, name)


@pytest.mark.proves("API-2")
def test_the_agent_token_opens_the_surfaces_and_the_admin_key_all_else(running: Running) -> None:
    for method, path in paths(running):
        if path in OPEN:
            continue
        if (method, path) in AGENTS:
            assert asked(running, method, path, AGENT) != 401, path
            assert [asked(running, method, path, each) for each in ADMINS] == [401, 401], path
        else:
            assert asked(running, method, path, AGENT) == 401, path
            assert asked(running, method, path, {"x-api-key": TOKEN}) == 401, path
    for header in ADMINS:
        assert asked(running, "GET", "/api/v1/status", header) == 200


@pytest.mark.proves("API-2")
@pytest.mark.parametrize("path", ["/api/v1//status", "//api/v1/status", "/api/v1/status/", "/API/V1/STATUS",
    "/api/v1/%73tatus", "/api%2fv1/status", "/api/v1/./status", "/mcp/../api/v1/status", "/mcp/%2e%2e/api/v1/status",
    "/healthz/../api/v1/status", "/healthz%2f..%2fapi/v1/status", "/healthz;/api/v1/status",
    "/metrics/../api/v1/status", "/.well-known/../api/v1/status", "/api/v1/status?x=/healthz", 
    "/api/v1/status%00/healthz", "/tool/../api/v1/status",
])  # fmt: skip
def test_no_spelling_of_a_path_opens_what_is_behind_it(running: Running, path: str) -> None:
    for headers in ((), (f"Authorization: Bearer {TOKEN}",)):
        with connected(running.url) as client:
            client.send(request(f"GET {path} HTTP/1.1", "Connection: close", *headers))
            said = client.rest()
        assert b"uptime_seconds" not in said and statuses(said)[0] in (400, 401, 404, 405), said


# The first line on the gateway's own socket.

VALUES: list[Any] = [
    None,
    True,
    0,
    -1.5,
    "",
    "nowhere",
    "gate\n",
    "\0",
    "\ud800",
    [],
    ["gate"],
    {},
    {"gate": 1},
    10**40,
]


def mcp_sock(running: Running) -> Path:
    return running.data_dir / "mcp.sock"


@pytest.mark.parametrize("value", VALUES, ids=lambda value: json.dumps(value)[:12])
@pytest.mark.parametrize("key", ["surface", "server"])
def test_a_wrong_wish_is_answered_in_one_line_and_no_traceback(tokenless: Running, key: str, value: Any) -> None:
    with attached(mcp_sock(tokenless), json.dumps({key: value}).encode() + b"\n") as client:
        answer = client.line()
    if value is None:
        assert answer == {"ok": True}
    else:
        assert set(answer) == {"error"} and answer["error"].isprintable() and len(answer["error"]) < 300
    assert "Traceback" not in tokenless.stderr()


@pytest.mark.parametrize("line", [b"[]", b"null", b"1", b'"gate"', b"true", b"{", b"", b"{}{}", b"\xff", b"[" * 4000,
    b'{"surface":"gate","surface":[]}', b'{"surface":"direct","server":[]}', b"GET / HTTP/1.1\r", b"x" * 5000,
    b'{"server":' + b"9" * 4000 + b"}", b'{"surface":"\\ud800"}',
])  # fmt: skip
def test_a_first_line_that_is_no_wish_is_answered_so(tokenless: Running, line: bytes) -> None:
    with attached(mcp_sock(tokenless), line + b"\n") as client:
        assert set(client.line()) == {"error"}
        assert client.rest() == b""
    assert "Traceback" not in tokenless.stderr()
