"""Clients that take their time: they say nothing, or half of something, or do not read what they asked for.

The deadlines of these gateways are short, so that nobody has to wait long for them.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.attacks.raw import RawClient, attached, connected, request, statuses
from tests.support.gateway import Running, gateway, until
from tests.support.wire import HANDSHAKE, Wire

pytestmark = [pytest.mark.proves("SEC-7")]

KEY = "admin-key-0123456789-abcdef"
DEADLINE = 1.0
MANY, OF_ONE = 24, 8
FOREVER = 600.0
ME, OTHER = "127.0.0.1", "127.0.0.2"


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    timeouts = dict.fromkeys(("head_timeout", "body_timeout", "read_timeout", "idle_timeout"), DEADLINE)
    config = {"limits": timeouts}
    with gateway(tmp_path_factory.mktemp("impatient") / "data", config, env={"MCPPROXY_API_KEY": KEY}) as found:
        yield found


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """It would wait for ever, but has few places."""
    timeouts = dict.fromkeys(("head_timeout", "body_timeout", "read_timeout", "idle_timeout"), FOREVER)
    limits = {**timeouts, "max_connections": MANY, "max_connections_per_address": OF_ONE}
    with gateway(tmp_path_factory.mktemp("crowded") / "data", {"limits": limits}) as found:
        yield found


def authorized(line: str, *headers: str, body: bytes = b"") -> bytes:
    return request(line, f"X-API-Key: {KEY}", *headers, body=body)


# Deadlines.

LATE: dict[str, tuple[bytes, list[int]]] = {
    "nothing": (b"", []),
    "one byte": (b"G", [408]),
    "half a request line": (b"GET /heal", [408]),
    "half a head": (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A", [408]),
    "a head without its end": (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n", [408]),
    "nothing after a request": (request("GET /healthz HTTP/1.1"), [200]),
    "half a head after a request": (request("GET /healthz HTTP/1.1") + b"GET /he", [200, 408]),
    "no body": (authorized("POST /api/v1/explain HTTP/1.1", "Content-Length: 10"), [408]),
    "half a body": (authorized("POST /api/v1/explain HTTP/1.1", "Content-Length: 10", body=b"{"), [408]),
    "half a body without a credential": (
        request("POST /mcp HTTP/1.1", "Accept: application/json, text/event-stream", "Content-Type: application/json",
                "Content-Length: 10", body=b"{"), [408],
    ),
    "half a chunk": (authorized("POST /api/v1/explain HTTP/1.1", "Transfer-Encoding: chunked", body=b"5\r\na"), [408]),
    "chunks without an end": (
        authorized("POST /api/v1/explain HTTP/1.1", "Transfer-Encoding: chunked", body=b"1\r\na\r\n"), [408],
    ),
    "half a trailer": (
        authorized("POST /api/v1/explain HTTP/1.1", "Transfer-Encoding: chunked", body=b"1\r\na\r\n0\r\nA: "), [408],
    ),
    "a body that it was told to send": (
        authorized("POST /api/v1/explain HTTP/1.1", "Expect: 100-continue", "Content-Length: 10"), [100, 408],
    ),
    "the rest of a body that nobody wants": (
        request("POST /api/v1/explain HTTP/1.1", "Content-Length: 1000", body=b"{"), [401],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LATE)
def test_who_does_not_go_on_is_let_go(impatient: Running, name: str) -> None:
    sent, answers = LATE[name]
    with connected(impatient.url) as client:
        client.send(sent)
        said = client.rest()
    assert statuses(said) == answers, said
    assert statuses(said)[-1:] != [408] or b"took too long" in said


DRIPS: dict[str, tuple[bytes, bytes]] = {
    "a head": (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"A: b\r\n"),
    "empty lines": (b"", b"\r\n"),
    "a body": (authorized("POST /api/v1/explain HTTP/1.1", "Content-Length: 100000"), b" "),
    "chunks": (authorized("POST /api/v1/explain HTTP/1.1", "Transfer-Encoding: chunked"), b"1\r\n \r\n"),
    "a body that nobody wants": (request("POST /api/v1/explain HTTP/1.1", "Content-Length: 100000"), b" "),
}


@pytest.mark.parametrize("name", DRIPS)
def test_a_byte_now_and_then_does_not_keep_a_connection(impatient: Running, name: str) -> None:
    first, drop = DRIPS[name]
    with connected(impatient.url) as client:
        client.send(first)
        until(lambda: not _still_there(client, drop), what="the end of the connection")


def _still_there(client: RawClient, drop: bytes) -> bool:
    """After one more drop, and the time that an answer would take."""
    if not client.send(drop):
        return False
    client.sock.settimeout(0.05)
    try:
        return client.sock.recv(65_536) != b""
    except TimeoutError:
        return True
    except ConnectionError:
        return False


def descriptors(running: Running) -> int:
    return len(os.listdir(f"/proc/{running.process.pid}/fd"))


def test_who_never_reads_its_answers_is_let_go(impatient: Running) -> None:
    """Each of them a hundred times, so that they do not fit between the two."""
    before = descriptors(impatient)
    asked = authorized("GET /api/v1/openapi.json HTTP/1.1") * 40
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(impatient.url, receive_buffer=4096)) for _ in range(5)]
        for client in clients:
            client.sock.setblocking(False)
            with contextlib.suppress(OSError):
                client.sock.send(asked)
        until(lambda: descriptors(impatient) >= before + 5, what="five connections")
        until(lambda: descriptors(impatient) < before + 5, what="the end of one")
    assert impatient.client.get("/healthz").status_code == 200


def test_a_stream_that_has_nothing_to_say_is_not_late(impatient: Running) -> None:
    wire = Wire(impatient.mcp, HANDSHAKE)
    headers = {**wire.headers, "accept": "text/event-stream"}
    with wire.http.stream("GET", impatient.mcp, headers=headers) as stream:
        assert stream.status_code == 200
        with connected(impatient.url) as silent:  # comes later, and is let go first
            assert silent.rest() == b""
        with connected(impatient.url) as silent:
            assert silent.rest() == b""
        assert not stream.is_closed
        assert wire.send("ping")[-1]["result"] == {}


# The same on the gateway's own socket.

HELLO = b'{"surface":"gate"}\n'
INITIALIZE = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "slow", "version": "1"}}


def message(method: str, number: int, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


def test_a_line_without_an_end_does_not_keep_a_stream(impatient: Running) -> None:
    with attached(impatient.data_dir / "mcp.sock", HELLO) as client:
        assert client.line() == {"ok": True}
        client.send(b'{"jsonrpc":')
        assert client.rest() == b""


def test_a_stream_on_which_nothing_is_said_goes_on(impatient: Running) -> None:
    """An editor that nobody uses is no attacker."""
    with attached(impatient.data_dir / "mcp.sock", HELLO) as client:
        assert client.line() == {"ok": True}
        for _ in range(3):
            with connected(impatient.url) as silent:
                assert silent.rest() == b""
        client.send(message("initialize", 1, **INITIALIZE))
        assert client.line()["id"] == 1


def test_a_stream_whose_answers_nobody_reads_ends(impatient: Running) -> None:
    said = impatient.stderr().count("does not read its answers")
    with attached(impatient.data_dir / "mcp.sock", HELLO) as client:
        assert client.line() == {"ok": True}
        client.send(message("initialize", 1, **INITIALIZE))
        assert client.line()["id"] == 1
        for _ in range(5):
            client.send(b"".join(message("tools/list", number) for number in range(2, 500)))
        until(lambda: impatient.stderr().count("does not read its answers") > said, what="a word on it")
        with contextlib.suppress(ConnectionError):
            client.rest()


# Places.


def opened(stack: ExitStack, running: Running, many: int, sent: bytes, source: str) -> list[RawClient]:
    clients: list[RawClient] = []
    for _ in range(many):
        client = stack.enter_context(connected(running.url, source))
        client.send(sent)
        clients.append(client)
    return clients


def asks_from(running: Running, source: str) -> int:
    with connected(running.url, source) as client:
        client.send(request("GET /readyz HTTP/1.1", "Connection: close"))
        return statuses(client.rest())[0]


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /he",
        request("POST /mcp HTTP/1.1", "Content-Length: 100", body=b"{"),
        request("GET /healthz HTTP/1.1"),
    ],
    ids=["silent", "half a head", "half a body", "idle"],
)
@pytest.mark.parametrize("source", [ME, OTHER])
def test_connections_that_say_nothing_lock_nobody_out(crowded: Running, sent: bytes, source: str) -> None:
    """Neither those of other addresses, nor of their own: whoever comes takes the place of the one silent longest."""
    with ExitStack() as stack:
        clients = opened(stack, crowded, 3 * MANY, sent, source)
        assert [asks_from(crowded, each) for each in (ME, OTHER, "127.0.0.3")] == [200, 200, 200]
        assert descriptors(crowded) < 3 * MANY
        assert clients[0].rest() is not None  # ended; the oldest was the first to go


def listening(running: Running) -> bytes:
    """A stream, which is no silence: its client waits for us."""
    wire = Wire(running.mcp, HANDSHAKE)
    headers = {**wire.headers, "accept": "text/event-stream"}
    wire.http.close()
    return request("GET /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()))


def test_who_has_all_the_places_of_its_address_is_told_so_and_another_address_is_served(crowded: Running) -> None:
    with ExitStack() as stack:
        for _ in range(OF_ONE):
            (client,) = opened(stack, crowded, 1, listening(crowded), OTHER)
            assert statuses(client.until(b"\r\n\r\n")) == [200]
        with connected(crowded.url, OTHER) as refused:
            said = refused.rest()
        assert statuses(said) == [503]
        head, _, body = said.partition(b"\r\n\r\n")
        assert b"retry-after: 5" in head.lower()
        assert json.loads(body)["error"]["code"] == "OVERLOADED"
        assert asks_from(crowded, ME) == 200
        for _ in range(20):
            with connected(crowded.url, OTHER) as refused:
                assert statuses(refused.rest()) == [503]
    until(lambda: asks_from(crowded, OTHER) == 200, what="a place that was given back")
    rows = [row for row in crowded.activities() if row["tool"] == "connections"]
    assert len(rows) == 1 and rows[0]["principal"] == OTHER and rows[0]["status"] == "blocked"
    assert 'mcpproxy_share_refusals_total{share="connections"} ' in crowded.client.get("/metrics").text


def test_all_places_together_are_bounded_and_the_private_socket_has_its_own(crowded: Running) -> None:
    with ExitStack() as stack:
        for number in range(2, 5):
            for _ in range(OF_ONE - 2):
                opened(stack, crowded, 1, listening(crowded), f"127.0.0.{number}")
        streams = [stack.enter_context(attached(crowded.data_dir / "mcp.sock", HELLO)) for _ in range(OF_ONE + 2)]
        answers = [stream.line() for stream in streams]
        assert {"ok": True} in answers and answers[-1] != {"ok": True} and "error" in answers[-1]
    until(lambda: asks_from(crowded, ME) == 200, what="places")


def test_a_gateway_that_is_full_of_the_slow_still_stops(tmp_path: Any) -> None:
    limits = {"head_timeout": FOREVER, "body_timeout": FOREVER, "idle_timeout": FOREVER}
    with gateway(tmp_path / "data", {"limits": limits}) as running, ExitStack() as stack:
        opened(stack, running, 20, b"GET /he", ME)
        opened(stack, running, 20, request("POST /mcp HTTP/1.1", "Content-Length: 9", body=b"{"), ME)
        with httpx.Client(base_url=running.url, trust_env=False, verify=False) as client:
            assert client.get("/healthz").status_code == 200
        assert running.stop() == 0
