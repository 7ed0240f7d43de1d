"""Clients that mean ill or know no better: each gets a clear error, and the next one is served as if nothing had been.

Scaled to what is quick: 20,000 notifications stand for a million, and 1,000 sessions meet a limit of 400.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from mcpproxy_py.core.protocol.request_state import LONGEST_STATE, RequestState, seal
from tests.support.gateway import Running, clean_environment, gateway, python_server, until
from tests.support.links import HttpLink
from tests.support.peer import connected
from tests.support.readable import readable
from tests.support.wire import ACCEPT, HANDSHAKE, MODERN, RpcError, Wire, messages, text

pytestmark = pytest.mark.proves("SEC-5")

BODY_LIMIT = 500_000
SESSION_LIMIT = 400
META = "io.modelcontextprotocol/"
ENVELOPE = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}}
READ = {"name": "call_tool_read", "arguments": {"name": "s:echo", "intent": {"operation_type": "read"}}}
TIMEOUT = 60
HTTP = httpx.Client(timeout=TIMEOUT, trust_env=False, verify=False)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("hostile")
    config = {
        "limits": {"max_body_bytes": BODY_LIMIT, "max_sessions": SESSION_LIMIT, "result_tokens": 0},
        "mcpServers": {"s": python_server("plain.py", "--log", str(home / "calls"))},
    }
    with gateway(home / "data", config) as found:
        yield found


@pytest.fixture(autouse=True)
def others_are_served(running: Running) -> Iterator[None]:
    """Whatever a test does to it, the gateway answers others afterwards, and had no accident."""
    yield
    for era in (MODERN, HANDSHAKE):
        well_behaved(running, era)
    assert running.process.poll() is None
    assert "Traceback" not in running.stderr()


def well_behaved(running: Running, era: str = MODERN) -> None:
    client = Wire(running.mcp, era, name="well-behaved")
    assert text(client.read("s:echo", {"text": "hello"})) == '{"text": "hello"}'
    client.http.close()


def modern(method: str = "tools/call", params: Mapping[str, Any] = READ, request_id: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {**params, "_meta": ENVELOPE}}


def headers(body: Mapping[str, Any], **more: str) -> list[tuple[str, str]]:
    routing = {"mcp-protocol-version": MODERN, "mcp-method": body["method"]}
    name = {"mcp-name": body["params"]["name"]} if "name" in body["params"] else {}
    return [*ACCEPT.items(), *{**routing, **name, **more}.items()]


def post(running: Running, body: Any, lines: list[tuple[str, str]] | None = None) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HTTP.post(running.mcp, content=content, headers=lines or headers(body))


def refused(answer: httpx.Response, status: int, code: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    (message,) = messages(answer)
    assert message["error"]["code"] == code, message
    assert message["error"]["message"]
    return message


# The connection itself.


class Raw:
    """A connection on which anything can be said."""

    def __init__(self, running: Running) -> None:
        url = httpx.URL(running.url)
        self.host = f"{url.host}:{url.port}"
        self.socket = socket.create_connection((url.host, url.port), TIMEOUT)

    def head(self, *more: str, method: str = "POST", path: str = "/mcp") -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"host: {self.host}", *(f"{k}: {v}" for k, v in ACCEPT.items()), *more]
        return "\r\n".join(lines).encode() + b"\r\n"

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def try_to_send(self, data: bytes) -> None:
        """The other side may have had enough in the middle of it."""
        try:
            self.socket.sendall(data)
        except OSError:
            return

    def rest(self) -> bytes:
        """Everything until the other side closes."""
        found = b""
        try:
            while chunk := self.socket.recv(65_536):
                found += chunk
        except ConnectionResetError:
            pass
        return found

    def until(self, mark: bytes) -> bytes:
        found = b""
        while mark not in found:
            chunk = self.socket.recv(65_536)
            assert chunk, found
            found += chunk
        return found

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


@pytest.mark.parametrize("politely", [True, False], ids=["closed", "reset"])
def test_half_a_request_and_a_client_that_is_gone_come_to_nothing(running: Running, politely: bool) -> None:
    mark = f"half-{politely}"
    body = json.dumps(modern(params={**READ, "arguments": {**READ["arguments"], "args": {"text": mark}}})).encode()
    routing = [f"{name}: {value}" for name, value in headers(modern())[2:]]
    raw = Raw(running)
    whole = raw.head(*routing, f"content-length: {len(body)}") + b"\r\n" + body
    chunked = raw.head(*routing, "transfer-encoding: chunked") + b"\r\n%x\r\n" % len(body) + body
    for part in (b"", b"PO", whole[:40], whole[: -len(body) - 2], whole[: -len(body)], whole[:-1], chunked, b"\0" * 99):
        raw = Raw(running)
        raw.send(part)
        raw.socket.close() if politely else raw.reset()
    well_behaved(running)
    assert running.activities(q=mark) == []


def test_a_body_that_is_announced_too_large_is_refused_before_it_comes(running: Running) -> None:
    for length in (BODY_LIMIT + 1, 10**12, 10**30):
        raw = Raw(running)
        raw.send(raw.head(f"content-length: {length}", "connection: close") + b"\r\n")
        found = raw.rest()
        assert found.startswith((b"HTTP/1.1 413", b"HTTP/1.1 400")), found
        assert b"TOO_LARGE" in found or length > 2**64


def test_a_body_that_grows_too_large_is_cut_off(running: Running) -> None:
    raw = Raw(running)
    raw.send(raw.head("transfer-encoding: chunked") + b"\r\n")
    for _ in range(4 * BODY_LIMIT // 50_000):
        raw.try_to_send(b"c350\r\n" + b" " * 50_000 + b"\r\n")
    assert b"HTTP/1.1 413" in raw.until(b"TOO_LARGE")


def test_headers_without_end_are_cut_off(running: Running) -> None:
    few = Raw(running)
    few.send(few.head(*(f"x-{number}: y" for number in range(500)), "content-length: 2", "connection: close"))
    few.send(b"\r\n{}")
    assert few.rest().startswith(b"HTTP/1.1 400"), "many headers are no harm; the message in the body is none"
    for endless in (b"x: y\r\n" * 10_000, b"y" * 60_000):
        raw = Raw(running)
        raw.send(raw.head()[:-2] + b"\r\nx-long: ")
        for _ in range(100):
            raw.try_to_send(endless)
        assert not raw.rest().startswith(b"HTTP/1.1 200")
        raw.socket.close()
    line = Raw(running)
    line.try_to_send(b"GET /" + b"a" * 5_000_000)
    assert not line.rest().startswith(b"HTTP/1.1 200")


def test_what_is_no_http_gets_an_answer_that_says_so(running: Running) -> None:
    for said in (b"hello\r\n\r\n", b"POST /mcp HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 9):
        raw = Raw(running)
        raw.try_to_send(said)
        assert raw.rest()[:12] in (b"HTTP/1.1 400", b"HTTP/1.0 400"), said


# Headers that decide.


ROUTING = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "call_tool_read")]


@pytest.mark.parametrize("again", [*ROUTING, ("mcp-method", "tools/list"), ("mcp-name", "call_tool_write"),
    ("mcp-protocol-version", HANDSHAKE), ("mcp-protocol-version", "1999-01-01"), ("Mcp-Method", "tools/call")],
    ids=str)  # fmt: skip
@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_a_routing_header_that_comes_twice_is_refused(running: Running, again: tuple[str, str], first: bool) -> None:
    """Even with the same value: who reads which is not ours to guess."""
    before = len(running.activities(tool="echo"))
    lines = headers(modern())
    refused(post(running, modern(), [again, *lines] if first else [*lines, again]), 400, -32020)
    assert len(running.activities(tool="echo")) == before


def test_a_session_id_that_comes_twice_is_refused(running: Running) -> None:
    mine, other = Wire(running.mcp, HANDSHAKE), Wire(running.mcp, HANDSHAKE)
    lines = [*mine.headers.items(), ("mcp-session-id", other.headers["mcp-session-id"])]
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    refused(post(running, ping, lines), 400, -32020)
    assert HTTP.delete(running.mcp, headers=lines).status_code == 400
    assert mine.request("ping") == other.request("ping") == {}


@pytest.mark.parametrize("forged", ["x", "0" * 32, "../../mcp", "%00", "x" * 50_000, "null", "a b", "\xe9\xff", ""])
def test_a_forged_session_id_is_unknown_whatever_is_asked(running: Running, forged: str) -> None:
    lines = {**ACCEPT, "mcp-session-id": forged.encode("latin-1")}
    for method, content in (("POST", b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'), ("GET", None),
                            ("POST", b'{"jsonrpc":"2.0","method":"notifications/initialized"}'),
                            ("POST", b'{"jsonrpc":"2.0","id":1,"result":{}}'), ("DELETE", None)):  # fmt: skip
        refused(HTTP.request(method, running.mcp, content=content, headers=lines), 404, -32600)


def test_a_session_id_in_another_spelling_is_another_one(running: Running) -> None:
    client = Wire(running.mcp, HANDSHAKE)
    real = client.headers["mcp-session-id"]
    assert re.fullmatch(r"[0-9a-f]{32}", real)
    for spelled in (real.upper(), real[:-1], f"{real}0", f'"{real}"', f"{real},{real}", real[::-1]):
        if spelled != real:
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            assert client.post(ping, **{"mcp-session-id": spelled}).status_code == 404
    assert client.request("ping") == {}


@pytest.mark.parametrize("version", ["1999-01-01", "2027-01-01", "latest", "2026-07-28.1", "0", "x" * 20_000])
def test_an_unknown_revision_is_named_with_those_that_are_spoken(running: Running, version: str) -> None:
    body = modern()
    body["params"]["_meta"] = {**ENVELOPE, f"{META}protocolVersion": version}
    said = refused(post(running, body, headers(body, **{"mcp-protocol-version": version})), 400, -32022)
    assert said["id"] == 1
    assert said["error"]["data"] == {"supported": [MODERN], "requested": version}


def test_a_revision_in_one_place_and_another_in_the_other_is_a_contradiction(running: Running) -> None:
    body = modern()
    for version in ("1999-01-01", "x"):
        refused(post(running, body, headers(body, **{"mcp-protocol-version": version})), 400, -32020)
    for version in (HANDSHAKE, "1999-01-01", 20260728, None, [MODERN]):
        body["params"]["_meta"] = {**ENVELOPE, f"{META}protocolVersion": version}
        refused(post(running, body), 400, -32020)
    without = [(name, value) for name, value in headers(body) if name != "mcp-protocol-version"]
    refused(post(running, body, without), 400, -32600)


@pytest.mark.parametrize("version", ["1999-01-01", "2099-12-31", MODERN, "", "x" * 10_000])
def test_a_handshake_with_an_unknown_revision_settles_on_the_newest_one(running: Running, version: str) -> None:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    answer = post(running, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, [*ACCEPT.items()])
    assert messages(answer)[0]["result"]["protocolVersion"] == HANDSHAKE


@pytest.mark.parametrize(
    "params", [{}, {"protocolVersion": 7}, {"protocolVersion": None}, {"protocolVersion": [HANDSHAKE]}]
)
def test_a_handshake_without_a_revision_is_refused_and_opens_nothing(running: Running, params: Any) -> None:
    answer = post(running, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, [*ACCEPT.items()])
    assert messages(answer)[0]["error"]["code"] == -32602
    assert "mcp-session-id" not in answer.headers


@pytest.mark.parametrize(
    "said", [None, 7, "x", [], {"name": 7}, {"name": "x" * 10_000, "version": {"a": 1}}, {"name": "\0\x1b"}]
)
def test_what_a_client_calls_itself_is_only_a_label(running: Running, said: Any) -> None:
    params = {"protocolVersion": HANDSHAKE, "capabilities": said, "clientInfo": said}
    answer = post(running, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, [*ACCEPT.items()])
    session = {"mcp-session-id": answer.headers["mcp-session-id"]}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": READ}
    assert "result" in messages(post(running, call, [*ACCEPT.items(), *session.items()]))[-1]
    name = running.activities(session_id=session["mcp-session-id"])[0]["client"]["name"]
    assert len(name) <= 128 + len("\\u0000")
    assert name.isprintable()


# Sessions and notifications in numbers.


def test_a_thousand_sessions_that_are_left_make_room_and_those_in_use_stay(running: Running) -> None:
    used = Wire(running.mcp, HANDSHAKE, name="used")
    params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "leaves", "version": "1"}}
    hello = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode()
    opened: list[str] = []
    with (
        httpx.Client(trust_env=False, timeout=TIMEOUT) as http,
        http.stream("GET", running.mcp, headers=used.headers) as listening,
    ):
        assert listening.status_code == 200
        for _ in range(1000):
            answer = http.post(running.mcp, content=hello, headers=ACCEPT)
            opened.append(answer.headers["mcp-session-id"])
        assert len(set(opened)) == 1000
        ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'

        def alive(session_id: str) -> bool:
            answer = http.post(running.mcp, content=ping, headers={**ACCEPT, "mcp-session-id": session_id})
            assert answer.status_code in (200, 404)
            return answer.status_code == 200

        assert [alive(session_id) for session_id in opened] == [False] * 601 + [True] * 399
        assert used.request("ping") == {}, "somebody listens there, so it is in use"


def test_when_every_session_is_in_use_a_new_one_is_refused_until_one_ends(tmp_path: Path) -> None:
    config = {"limits": {"max_sessions": 2}, "mcpServers": {}}
    with gateway(tmp_path / "data", config) as running, httpx.Client(trust_env=False, timeout=TIMEOUT) as http:
        first, second = Wire(running.mcp, HANDSHAKE), Wire(running.mcp, HANDSHAKE)
        hello = {"protocolVersion": HANDSHAKE, "capabilities": {}}
        body = {"jsonrpc": "2.0", "id": 5, "method": "initialize", "params": hello}
        with http.stream("GET", running.mcp, headers=first.headers) as one:
            with http.stream("GET", running.mcp, headers=second.headers) as other:
                assert (one.status_code, other.status_code) == (200, 200)
                said = refused(post(running, body, [*ACCEPT.items()]), 503, -32603)
                assert said["id"] == 5
                assert Wire(running.mcp).request("tools/list")["tools"], "the modern era needs no session"
            until(lambda: post(running, body, [*ACCEPT.items()]).status_code == 200)
            assert first.request("ping") == {}


def test_as_many_may_listen_in_the_modern_era_as_there_may_be_sessions(tmp_path: Path) -> None:
    body = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    content, lines = json.dumps(body), headers(body)
    with (
        gateway(tmp_path / "data", {"limits": {"max_sessions": 1}, "mcpServers": {}}) as running,
        httpx.Client(trust_env=False, timeout=TIMEOUT) as http,
    ):
        with http.stream("POST", running.mcp, content=content, headers=lines) as one:
            said = one.iter_lines()  # kept: it closes the stream when it goes
            assert "acknowledged" in next(line for line in said if line.startswith("data"))
            refused(post(running, body), 503, -32603)
            assert Wire(running.mcp).request("tools/list")["tools"]
        until(lambda: listens(http, running, body))


def listens(http: httpx.Client, running: Running, body: Mapping[str, Any]) -> bool:
    with http.stream("POST", running.mcp, content=json.dumps(body), headers=headers(body)) as answer:
        return answer.status_code == 200


@pytest.mark.parametrize("era", [MODERN, HANDSHAKE], ids=["modern", "handshake"])
def test_notifications_in_numbers_are_taken_and_change_nothing(running: Running, era: str) -> None:
    client = Wire(running.mcp, era)
    more = {"mcp-protocol-version": era, "mcp-method": "notifications/cancelled"}
    for number in range(1000):
        method = ("notifications/initialized", "notifications/cancelled", "notifications/unheard-of")[number % 3]
        params = {"requestId": number, "progressToken": number, "padding": "x" * 100}
        assert client.post({"jsonrpc": "2.0", "method": method, "params": params}, **more).status_code == 202
    assert not client.read("s:echo", {"text": "after"}).get("isError")


def test_twenty_thousand_notifications_over_a_pipe_hold_up_nobody(running: Running) -> None:
    with Pipe(running) as pipe:
        line = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "x" * 50}}
        pipe.say(*[line] * 20_000)
        well_behaved(running)
        pipe.say({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": ENVELOPE}})
        assert pipe.hear()["id"] == 2


class Pipe:
    """`mcpproxy stdio` with a client that says what it likes."""

    def __init__(self, running: Running) -> None:
        arguments = [sys.executable, "-m", "mcpproxy_py", "stdio", "--data-dir", str(running.data_dir)]
        self.process = subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_environment()
        )
        assert self.process.stdin and self.process.stdout
        self.into = self.process.stdin
        self.out = open(os.dup(self.process.stdout.fileno()), "rb", buffering=0)  # noqa: SIM115
        """Nothing is read ahead, so that waiting for more is waiting for a line."""
        self.process.stdout.close()

    def __enter__(self) -> Pipe:
        return self

    def __exit__(self, *failure: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.into.close()
        self.out.close()
        self.process.wait(TIMEOUT)

    def say(self, *lines: Any) -> None:
        for line in lines:
            self.into.write((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")
        self.into.flush()

    def hear(self) -> dict[str, Any]:
        assert readable([self.out], TIMEOUT), "nothing came"
        return json.loads(self.out.readline())


def test_nonsense_over_a_pipe_gets_an_error_for_each_line_and_the_next_is_answered(running: Running) -> None:
    with Pipe(running) as pipe:
        wrong = [b"{", b"[]", b"null", b"\xff\xfe", b'"x"', b"[" * 50_000, b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
                 b'{"jsonrpc":"2.0","id":{},"method":"ping"}', b'{"jsonrpc":"2.0","id":1}']  # fmt: skip
        pipe.say(*wrong)
        assert {pipe.hear()["error"]["code"] for _ in wrong} == {-32700, -32600}
        pipe.say({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert "initialize" in pipe.hear()["error"]["message"]
        pipe.say({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": ENVELOPE}})
        assert pipe.hear()["result"]["tools"]


def test_a_line_over_the_limit_is_the_last_one_of_its_client(running: Running) -> None:
    with Pipe(running) as pipe:
        with contextlib.suppress(BrokenPipeError):
            pipe.say(b'{"padding": "' + b"x" * 4 * BODY_LIMIT + b'"}')
        assert pipe.hear()["error"]["code"] == -32700
        assert pipe.out.readline() == b""


# Messages.


GOOD_IDS = [0, -1, 2**63, 10**300, "", "x", "x" * 1024, "\0\x1b", "é🦀", "null", "1"]
BAD_IDS = [1.5, True, None, [], {}, [1], {"a": 1}, "x" * 1025, "x" * 100_000]


@pytest.mark.parametrize("request_id", GOOD_IDS, ids=lambda found: repr(found)[:20])
def test_any_text_or_whole_number_is_an_id_and_comes_back_as_it_was(running: Running, request_id: Any) -> None:
    (answer,) = messages(post(running, modern(request_id=request_id)))
    assert (answer["id"], "result" in answer) == (request_id, True)
    assert type(answer["id"]) is type(request_id)


@pytest.mark.parametrize("request_id", BAD_IDS, ids=lambda found: repr(found)[:20])
def test_anything_else_is_no_id(running: Running, request_id: Any) -> None:
    assert refused(post(running, modern(request_id=request_id)), 400, -32600)["id"] is None
    session = Wire(running.mcp, HANDSHAKE)
    ping = {"jsonrpc": "2.0", "id": request_id, "method": "ping"}
    assert refused(session.post(ping), 400, -32600)["id"] is None


def test_an_id_in_use_is_refused_in_its_session_and_free_in_every_other(running: Running, tmp_path: Path) -> None:
    first, second = Wire(running.mcp, HANDSHAKE), Wire(running.mcp, HANDSHAKE)
    args = {"seconds": 50, "until": str(tmp_path / "enough")}
    slow = {**READ, "arguments": {**READ["arguments"], "name": "s:slow", "args": args}}
    body = {"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": slow}
    with ThreadPoolExecutor(2) as pool:
        going = pool.submit(first.post, body)
        until(lambda: running.get("/status")["in_flight"] == 1)
        refused(first.post(body), 400, -32600)
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}}
        assert second.post(cancelled).status_code == 202, "of a request that is not its own"
        ping = {"jsonrpc": "2.0", "id": 77, "method": "ping"}
        assert messages(second.post(ping))[-1] == {"jsonrpc": "2.0", "id": 77, "result": {}}
        assert not going.done()
        (tmp_path / "enough").touch()
        (answer,) = messages(going.result(TIMEOUT))
        assert (answer["id"], text(answer["result"])) == (77, "slow")
        assert first.post(ping).status_code == 200, "and it is free again"


def test_modern_clients_may_all_use_the_same_id_at_once(running: Running) -> None:
    def ask(number: int) -> str:
        arguments = {**READ["arguments"], "args": {"text": str(number)}}
        (answer,) = messages(post(running, modern(params={**READ, "arguments": arguments}, request_id=1)))
        return json.loads(text(answer["result"]))["text"]

    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(ask, range(40))] == [str(number) for number in range(40)]


def nested(levels: int, opening: str = '{"a":', closing: str = "}") -> str:
    return opening * levels + "1" + closing * levels


VALUES = {
    "deep objects": nested(20_000),
    "deep arrays": nested(20_000, "[", "]"),
    "a little too deep": nested(100),
    "a huge number": "9" * 4500,
    "a huge exponent": "1e999",
    "not a number": "NaN",
    "infinity": "-Infinity",
    "half a surrogate pair": r'"\ud800"',
    "a key that is half a pair": r'{"\udfff": 1}',
    "unfinished": '{"a": ',
    "a comment": "1 /* why not */",
    "a trailing comma": "[1,]",
    "a raw control character": '"\x01"',
}


@pytest.mark.parametrize("where", ["args", "arguments", "params", "_meta"])
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_values_that_cannot_be_passed_on_are_refused_wherever_they_are(
    running: Running, where: str, value: str
) -> None:
    """As an error of the protocol, or as a refusal that is on record; and a wrong value that nobody reads may be."""
    body, spoiled = modern(), modern(params=json.loads(json.dumps(READ)))
    params = spoiled["params"]
    places = {"args": params["arguments"], "arguments": params, "params": spoiled, "_meta": dict(ENVELOPE)}
    params["_meta"] = places["_meta"]
    places[where]["x-own" if where == "_meta" else where] = "PLACE"
    answer = post(running, json.dumps(spoiled).replace('"PLACE"', value).encode(), headers(body))
    assert answer.status_code < 500
    (message,) = messages(answer)
    if "result" in message and where != "_meta":
        assert message["result"]["isError"] is True
    else:
        assert "result" in message or answer.status_code == 400


@pytest.mark.parametrize(
    "name", ["\0", "s:\0", "s:echo\0", "\x1b[31mred", "s:" + "x" * 100_000, "é:ü", "‮:x", "", ":", "s:"]
)
def test_names_nobody_should_have_are_refused_and_printable_on_record(running: Running, name: str) -> None:
    params = {**READ, "arguments": {**READ["arguments"], "name": name}}
    (answer,) = messages(post(running, modern(params=params)))
    assert answer["result"]["isError"] is True
    assert answer["result"]["structuredContent"]["code"] in ("INVALID_NAME", "TOOL_NOT_FOUND")
    row = running.activities(limit=1)[0]
    assert row["status"] == "blocked"
    assert row["tool"].isprintable()


@pytest.mark.parametrize(
    "wrong",
    [
        {"jsonrpc": "1.0"}, {"jsonrpc": 2.0}, {"method": 7}, {"method": None}, {"params": []}, {"params": None},
        {"params": "x"}, {"method": "x" * 100_000}, {"method": "\0"}, {"method": "tools/call\n"},
    ],
    ids=lambda found: str(found)[:30],
)  # fmt: skip
@pytest.mark.parametrize("era", [MODERN, HANDSHAKE], ids=["modern", "handshake"])
def test_a_message_of_the_wrong_shape_is_refused_with_a_code(running: Running, era: str, wrong: Any) -> None:
    body = {**modern(), **wrong}
    client = Wire(running.mcp, era)
    more = {name: value for name, value in headers(modern()) if name.startswith("mcp-")} if era == MODERN else {}
    answer = client.post(body, **more)
    (message,) = messages(answer)
    assert message["error"]["code"] in (-32600, -32602, -32601, -32020)
    assert answer.status_code < 500


# Rounds that nobody opened, and answers to questions that nobody asked.


def forged_state() -> str:
    """As ours, but under another key."""
    return seal(RequestState("01", "local", "0" * 64, 4e9, "0" * 16, 1), b"another key")


STATES = ["", "x", "a.b", "." * 1000, 7, True, [], {"a": 1}, "é", "\0", "x" * (LONGEST_STATE + 1), forged_state(),
          forged_state().partition(".")[0] + "."]  # fmt: skip


@pytest.mark.parametrize("state", STATES, ids=lambda found: repr(found)[:20])
@pytest.mark.parametrize("responses", [None, {}, {"elicitation-1": {"action": "accept"}}, [], 7])
def test_a_state_that_is_none_of_ours_continues_nothing(running: Running, state: Any, responses: Any) -> None:
    before = len((running.data_dir.parent / "calls").read_text().splitlines()) if responses is None else None
    params = {**READ, "requestState": state, "inputResponses": responses}
    answer = post(running, modern(params=params))
    (message,) = messages(answer)
    assert message["error"]["code"] == -32602
    assert "requestState" in message["error"]["message"]
    row = running.activities(limit=1)[0]
    assert (row["status"], row["metadata"]["refused_by"]) == ("blocked", "request_state")
    if before is not None:
        assert len((running.data_dir.parent / "calls").read_text().splitlines()) == before


@pytest.mark.parametrize("outcome", [{"result": {}}, {"result": 7}, {"error": {"code": -1, "message": "no"}},
    {"error": "x"}], ids=str)  # fmt: skip
def test_an_answer_that_nobody_waits_for_is_dropped(running: Running, outcome: Any) -> None:
    session = Wire(running.mcp, HANDSHAKE)
    for request_id in ("mcpproxy-1", "mcpproxy-99", 1, "x" * 1000):
        assert session.post({"jsonrpc": "2.0", "id": request_id, **outcome}).status_code == 202
    stray = {"jsonrpc": "2.0", "id": "mcpproxy-1", **outcome}
    lines = [*ACCEPT.items(), ("mcp-protocol-version", MODERN)]
    refused(post(running, stray, lines), 400, -32600)


@pytest.mark.anyio
async def test_nobody_can_answer_for_another_session(running: Running) -> None:
    """Ids of questions can be guessed; the session they belong to cannot."""
    may_answer = anyio.Event()

    async def person(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        await may_answer.wait()
        return {"action": "accept", "content": {"by": "the person"}}

    intruder = Wire(running.mcp, HANDSHAKE)
    async with connected(HttpLink(running.mcp), HANDSHAKE, person) as peer:
        arguments = {**READ["arguments"], "name": "s:ask", "args": {"method": "elicitation/create"}}
        pending = await peer.begin("tools/call", {"name": "call_tool_read", "arguments": arguments})
        await peer.hear_question()
        for number in range(10):
            stolen = {"action": "accept", "content": {"by": "the intruder"}}
            assert intruder.post({"jsonrpc": "2.0", "id": f"mcpproxy-{number}", "result": stolen}).status_code == 202
        assert not pending.done.is_set()
        may_answer.set()
        (answer,) = json.loads(text(await pending.result()))
        assert answer["result"]["content"] == {"by": "the person"}


# Clients that do not read.


@pytest.mark.parametrize("era", [MODERN, HANDSHAKE], ids=["modern", "handshake"])
def test_clients_that_never_read_hold_up_nobody_and_can_still_have_their_answer(running: Running, era: str) -> None:
    client, size = Wire(running.mcp, era), 8_000_000
    slow: list[Raw] = []
    before = len(running.activities(tool="huge", status="success"))
    for number in range(10):
        arguments = {**READ["arguments"], "name": "s:huge", "args": {"bytes": size}}
        body = modern(params={"name": "call_tool_read", "arguments": arguments}, request_id=number)
        lines = headers(body) if era == MODERN else [*client.headers.items()]
        routing = [f"{name}: {value}" for name, value in lines if name.startswith("mcp-")]
        content = json.dumps(body).encode()
        raw = Raw(running)
        raw.send(raw.head(*routing, f"content-length: {len(content)}", "connection: close") + b"\r\n" + content)
        slow.append(raw)
    until(lambda: len(running.activities(tool="huge", status="success")) >= before + 10)
    for _ in range(5):
        well_behaved(running)
    for number, raw in enumerate(slow):
        found = raw.rest()
        assert len(found) > size
        assert b'"id":%d,' % number in found


def test_of_many_streams_of_one_session_only_the_latest_stays_open(running: Running) -> None:
    """So that a client that opens streams and never reads them cannot pile up work."""
    client = Wire(running.mcp, HANDSHAKE)
    raws: list[Raw] = []
    for _ in range(50):
        raw = Raw(running)
        lines = [f"{name}: {value}" for name, value in client.headers.items() if name.startswith("mcp-")]
        raw.send(raw.head(*lines, "connection: close", method="GET") + b"\r\n")
        assert raw.until(b"\r\n\r\n").startswith(b"HTTP/1.1 200")
        raws.append(raw)
    for raw in raws[:-1]:
        assert raw.rest().endswith(b"0\r\n\r\n"), "ended as streams end"
    assert client.request("ping") == {}


def test_an_event_id_from_elsewhere_resumes_nothing(running: Running) -> None:
    client = Wire(running.mcp, HANDSHAKE)
    for wrong in ("x", "r1-1", "s", "-1", "s--1", "s-9999999999999999999999", "\xe9-1", "r" * 10_000 + "-1"):
        lines = {**client.headers, "last-event-id": wrong.encode("latin-1")}
        refused(HTTP.get(running.mcp, headers=lines), 404, -32600)


def test_errors_are_told_to_raw_clients_as_to_polite_ones(running: Running) -> None:
    with pytest.raises(RpcError) as caught:
        Wire(running.mcp).request("no/such/method")
    assert caught.value.code == -32601
