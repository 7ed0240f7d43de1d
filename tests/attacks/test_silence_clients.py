"""No client silences the gateway: what is too much work is refused before it is read, whichever way it comes."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.attacks.target import ALL_SURFACES, DOORS, ERAS
from tests.support.gateway import READY_TIMEOUT, Running, gateway, python_server
from tests.support.wire import ACCEPT, HANDSHAKE, MODERN, Wire, text

pytestmark = pytest.mark.proves("SEC-6", "SEC-5")
VALUES = 50_000
TOO_MANY = f"The message holds more than {VALUES} keys and values"
META = "io.modelcontextprotocol"


def many(what: str, size: int) -> str:
    return f"[{','.join([what] * (size // (len(what) + 1)))}]"


LARGE = {
    "lists": many("[]", 4_000_000),
    "objects": many("{}", 4_000_000),
    "strings": many('""', 4_000_000),
    "numbers": many("1", 4_000_000),
    "keys": "{" + ",".join(f'"k{number}":1' for number in range(60_000)) + "}",
    "long numbers": many("9" * 4000, 400_000),
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    config = {"surfaces": ALL_SURFACES, "mcpServers": {"quiet": python_server("plain.py")},
              "limits": {"result_tokens": 0}}  # fmt: skip
    with gateway(tmp_path_factory.mktemp("silence") / "data", config) as running:
        yield running


def call_of(value: str, door: str, era: str) -> bytes:
    """The body of a call with this argument, as text."""
    meta = {f"{META}/protocolVersion": MODERN, f"{META}/clientInfo": {"name": "x", "version": "1"},
            f"{META}/clientCapabilities": {}}  # fmt: skip
    inner: dict[str, Any] = {"n": "HERE"}
    if door == "gate":
        inner = {"name": "quiet:echo", "args": inner, "intent": {"operation_type": "read"}}
    params = {"name": NAMES[door], "arguments": inner, **({"_meta": meta} if era == MODERN else {})}
    message = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}
    return json.dumps(message).replace('"HERE"', value).encode()


NAMES = {"gate": "call_tool_read", "direct": "quiet__echo", "passthrough": "echo"}
PATHS = {"gate": "/mcp", "direct": "/mcp/direct", "passthrough": "/mcp/s/quiet"}


def headers_of(door: str, era: str) -> dict[str, str]:
    if era != MODERN:
        return {}
    return {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": NAMES[door]}


@ERAS
@DOORS
@pytest.mark.parametrize("kind", LARGE)
def test_a_request_of_too_many_values_is_refused_unread(running: Running, kind: str, door: str, era: str) -> None:
    wire = Wire(f"{running.url}{PATHS[door]}", era)
    answer = wire.post(call_of(LARGE[kind], door, era), **headers_of(door, era))
    assert (answer.status_code, answer.json()["error"]) == (400, {"code": -32600, "message": TOO_MANY})
    assert text(Wire(running.mcp).read("quiet:echo", {"n": 1}))


@ERAS
@DOORS
def test_what_is_long_and_no_more_than_that_is_sent_whole(running: Running, door: str, era: str) -> None:
    long = json.dumps("a,[{:" * 400_000)
    wire = Wire(f"{running.url}{PATHS[door]}", era)
    answer = wire.post(call_of(long, door, era), **headers_of(door, era))
    assert answer.status_code == 200 and answer.text.count("a,[{:") >= 400_000


def test_a_line_on_the_socket_is_refused_likewise_and_the_next_one_is_answered(running: Running) -> None:
    where = json.loads((running.data_dir / "gateway.json").read_text())["socket"]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(READY_TIMEOUT)
        connection.connect(where)
        connection.sendall(b'{"surface":"gate"}\n')
        lines = connection.makefile("rb")
        assert json.loads(lines.readline()) == {"ok": True}
        connection.sendall(b"\n" * 10_000 + call_of(LARGE["lists"], "gate", MODERN) + b"\n")
        assert json.loads(lines.readline())["error"] == {"code": -32600, "message": TOO_MANY}
        connection.sendall(call_of("1", "gate", MODERN) + b"\n")
        assert json.loads(lines.readline())["result"]["content"]


def test_the_rest_api_likewise(running: Running) -> None:
    body = b'{"variant":"read","name":"quiet:echo","args":{"n":%s}}' % LARGE["lists"].encode()
    answer = running.client.post("/api/v1/call", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "BAD_REQUEST")
    assert f"more than {VALUES} keys and values" in answer.json()["error"]["message"]


@ERAS
def test_arguments_as_text_likewise_and_on_record(running: Running, era: str) -> None:
    large = f'{{"n":{many("[]", 2_000_000)}}}'
    result = Wire(running.mcp, era).read("quiet:echo", args_json=large)
    assert result["isError"] and f"args_json holds more than {VALUES} keys and values" in text(result)
    row = running.activities(status="blocked")[0]
    assert f"{VALUES} keys and values" in row["error"]["message"]


HEAD = (
    "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n"
    + "".join(f"{name}: {value}\r\n" for name, value in {**ACCEPT, **headers_of("gate", MODERN)}.items())
    + "\r\n"
).encode()


def chunked(running: Running, body: bytes) -> bytes:
    """What is answered to a body in chunks of one byte."""
    port = int(running.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=READY_TIMEOUT) as connection:
        said = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
        try:
            connection.sendall(HEAD + said)
            return connection.recv(65_536)
        except ConnectionError:
            return b"hung up"


def test_a_body_in_crumbs_is_refused(running: Running) -> None:
    said = chunked(running, call_of(json.dumps("x" * 20_000), "gate", MODERN))
    assert said == b"hung up" or (b" 400 " in said and b"too many pieces" in said)


def test_a_short_one_in_crumbs_is_read(running: Running) -> None:
    assert b" 200 OK" in chunked(running, call_of("1", "gate", MODERN))


@pytest.mark.parametrize("era", [HANDSHAKE])
def test_an_answer_to_a_server_is_bounded_likewise(running: Running, era: str) -> None:
    wire = Wire(running.mcp, era)
    answer = wire.post(b'{"jsonrpc":"2.0","id":9,"result":{"a":%s}}' % LARGE["lists"].encode())
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, TOO_MANY)
