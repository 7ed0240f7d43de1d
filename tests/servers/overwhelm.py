"""A server that answers a call with far too much of something: `{"mode": ...}` says of what.

    python overwhelm.py [--list MODE]            over stdio
    python overwhelm.py --http PORT [--list MODE] streamable HTTP at /mcp and the older SSE at /sse; the first line on
                                                 stdout is `PORT <n>`, and it ends with its stdin

It writes bytes and no objects, so that it is no slower than whoever reads it. `--list` is what it lists its tools with.
The modes are in `ANSWERS`, `FLOODS`, `BODIES` and `LISTS`.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import itertools
import json
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

MB = 1 << 20
FLOOD_SECONDS = float(os.environ.get("OVERWHELM_SECONDS", "1.5"))
TOOL = {"name": "do", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
WAIT = "finish"
"""What a flood ends with, so that its call has an answer."""


def result(request_id: int, inside: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"result":%s}' % (request_id, inside)


def content(text: bytes) -> bytes:
    return b'{"content":[{"type":"text","text":%s}]}' % text


def structured(value: bytes) -> bytes:
    return b'{"content":[],"structuredContent":{"a":%s}}' % value


def many(what: bytes, size: int) -> bytes:
    return b"[" + b",".join([what] * (size // (len(what) + 1))) + b"]"


def keys(number: int) -> bytes:
    return b"{" + b",".join(b'"key%d":1' % n for n in range(number)) + b"}"


def secrets() -> bytes:
    lines = " ".join(f"password=Hunter{n}!x token: ghp_{n:036d} Bearer abc{n} AKIA{n:016d}" for n in range(700))
    return json.dumps(lines[:60_000]).encode()


ANSWERS: dict[str, Callable[[], bytes]] = {
    "lists-30MB": lambda: structured(many(b"[]", 30 * MB)),
    "objects-30MB": lambda: structured(many(b"{}", 30 * MB)),
    "strings-30MB": lambda: structured(many(b'""', 30 * MB)),
    "numbers-30MB": lambda: structured(many(b"1", 30 * MB)),
    "lists-15MB": lambda: structured(many(b"[]", 15 * MB)),
    "lists-most": lambda: structured(many(b"[]", 440_000)),
    "objects-most": lambda: structured(many(b'{"a":1}', 560_000)),
    "keys-most": lambda: structured(keys(98_000)),
    "floats-most": lambda: structured(many(b"1.7976931348623157e308", 10 * MB)),
    "texts-most": lambda: structured(many(b'"' + b"x" * 28 + b'"', 14 * MB)),
    "duplicate-keys": lambda: structured(b"{" + b",".join([b'"a":1'] * 240_000) + b"}"),
    "text-15MB": lambda: content(b'"' + b"x" * (15 * MB) + b'"'),
    "text-not-ascii-15MB": lambda: content(b'"' + "é漢".encode() * (3 * MB) + b'"'),
    "escapes-15MB": lambda: content(b'"' + b"\\n" * (7 * MB) + b'"'),
    "unicode-escapes-15MB": lambda: content(b'"' + b"\\u00e9" * (5 * MB // 2) + b'"'),
    "half-surrogates": lambda: content(b'"' + b"\\ud83d" * (MB // 2) + b'"'),
    "json-in-text-12MB": lambda: content(json.dumps(json.dumps([{"a": [1, "b,c"]}] * 600_000)).encode()),
    "text-40MB": lambda: content(b'"' + b"x" * (40 * MB) + b'"'),
    "deep": lambda: structured(b"[" * 100_000 + b"]" * 100_000),
    "deep-objects": lambda: structured(b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    "huge-number": lambda: structured(b"9" * 2_000_000),
    "many-numbers-of-4000-digits": lambda: structured(many(b"9" * 4000, 8 * MB)),
    "content-items": lambda: b'{"content":' + many(b'{"type":"text","text":""}', 2 * MB) + b"}",
    "resource-links": lambda: (
        b'{"content":['
        + b",".join(b'{"type":"resource_link","uri":"note://%d","name":"n"}' % n for n in range(40_000))
        + b"]}"
    ),
    "secrets-60KB": lambda: content(secrets()),
    "secrets-deep-60KB": lambda: structured(many(b'{"password":"x"}', 60_000)),
    "meta-2MB": lambda: b'{"content":[],"_meta":{"x":%s}}' % many(b"{}", 2 * MB),
    "input-required": lambda: b'{"resultType":"input_required","inputRequests":%s}' % keys(100_000),
    "not-json-15MB": lambda: b"x" * (15 * MB),
}
"""What stands in a result."""


def note(method: str, params: bytes = b"{}") -> bytes:
    return b'{"jsonrpc":"2.0","method":"%s","params":%s}' % (method.encode(), params)


def ask(number: int, method: str, params: bytes = b"{}") -> bytes:
    return b'{"jsonrpc":"2.0","id":"q%d","method":"%s","params":%s}' % (number, method.encode(), params)


ELICIT = b'{"message":"?","requestedSchema":{"type":"object","properties":{}}}'
FLOODS: dict[str, Callable[[int, int], bytes]] = {
    "progress": lambda call, n: note("notifications/progress", b'{"progressToken":%d,"progress":%d}' % (call, n)),
    "log-messages": lambda call, n: note("notifications/message", b'{"level":"error","data":"%d"}' % n),
    "log-messages-60KB": lambda call, n: note(
        "notifications/message", b'{"level":"error","data":%s}' % many(b"[]", 60_000)
    ),
    "list-changed": lambda call, n: note("notifications/tools/list_changed"),
    "resources-updated": lambda call, n: note("notifications/resources/updated", b'{"uri":"note://%d"}' % n),
    "unknown-notifications": lambda call, n: note("notifications/x"),
    "cancelled": lambda call, n: note("notifications/cancelled", b'{"requestId":"q%d"}' % n),
    "pings": lambda call, n: ask(n, "ping"),
    "elicitations": lambda call, n: ask(n, "elicitation/create", ELICIT),
    "samplings": lambda call, n: ask(n, "sampling/createMessage", b'{"messages":[],"maxTokens":1}'),
    "unknown-requests": lambda call, n: ask(n, "x/y"),
    "answers-to-nobody": lambda call, n: result(10**6 + n, b"{}"),
    "garbage": lambda call, n: b"this is no message %d" % n,
    "empty": lambda call, n: b"",
    "blank": lambda call, n: b" ",
    "brackets": lambda call, n: b"[]",
    "batches-of-notifications": lambda call, n: b"[" + b",".join([note("notifications/x")] * 900) + b"]",
    "batches-of-pings": lambda call, n: b"[" + b",".join(ask(n, "ping") for n in range(900)) + b"]",
    "batches-of-nothing-60KB": lambda call, n: many(b"1", 60_000),
    "medium-answers": lambda call, n: result(10**6 + n, structured(many(b"[]", 60_000))),
    "large-answers": lambda call, n: result(10**6 + n, structured(many(b"[]", 600_000))),
}
"""What comes again and again, before the answer."""


def flood(mode: str, call: int) -> Iterator[bytes]:
    """Blocks of lines, for as long as a flood takes."""
    make, end = FLOODS[mode], time.monotonic() + FLOOD_SECONDS
    numbers = itertools.count()
    block = [make(call, n) for n in itertools.islice(numbers, 2000 if len(make(call, 0)) < 1000 else 4)]
    fixed = b"\n".join([*block, b""])
    while time.monotonic() < end:
        yield fixed


def error(text: bytes) -> bytes:
    return b'{"code":-32000,"message":%s,"data":%s}' % (text, many(b"{}", 10_000))


def tools(number: int, description: int = 10, schema: bytes = b'{"type":"object"}') -> bytes:
    text = b"word " * (description // 5)
    return b",".join(b'{"name":"t%d","description":"%s","inputSchema":%s}' % (n, text, schema) for n in range(number))


LISTS: dict[str, Callable[[int], bytes]] = {
    "none": lambda page: b'{"tools":[%s]}' % json.dumps(TOOL).encode(),
    "endless": lambda page: (
        b'{"tools":[%s],"nextCursor":"%d"}' % (json.dumps({**TOOL, "name": f"p{page}"}).encode(), page)
    ),
    "large-pages": lambda page: b'{"tools":[%s],"nextCursor":"%d"}' % (tools(700, 10_000), page),
    "many": lambda page: b'{"tools":[%s]}' % tools(25_000),
    "large-tools": lambda page: b'{"tools":[%s]}' % tools(5, 2 * MB),
    "large-schemas": lambda page: (
        b'{"tools":[%s]}'
        % tools(
            60,
            10,
            b'{"type":"object","properties":{%s}}' % b",".join(b'"p%d":{"type":"string"}' % n for n in range(1000)),
        )
    ),
    "extras": lambda page: b'{"tools":[],"x":%s}' % many(b"{}", MB),
    "new-names": lambda page: (
        b'{"tools":[%s]}'
        % b",".join(
            b'{"name":"page%d_tool%d_of_this_server","inputSchema":{"type":"object"}}' % (page, n)
            for n in range(12_000)
        )
    ),
    "longest-names": lambda page: (
        b'{"tools":[%s]}'
        % b",".join(
            b'{"name":"p%d_%d_%s","inputSchema":{"type":"object"}}' % (page, n, b"ab" * 120) for n in range(12_000)
        )
    ),
    "long-words": lambda page: (
        b'{"tools":[%s]}'
        % b",".join(
            b'{"name":"t%d","description":"%s","inputSchema":{"type":"object"}}' % (n, b"aB" * 20_000)
            for n in range(200)
        )
    ),
}


OTHER_LISTS: dict[str, Callable[[], bytes]] = {
    "prompts/list": lambda: (
        b'{"prompts":[%s]}' % b",".join(b'{"name":"a prompt of %d characters: \xc3\xa9"}' % n for n in range(20_000))
    ),
    "resources/list": lambda: (
        b'{"resources":[%s]}'
        % b",".join(b'{"uri":"%s://%d/x","name":"n"}' % (b"ui" if n % 2 else b"note", n) for n in range(20_000))
    ),
    "resources/templates/list": lambda: (
        b'{"resourceTemplates":[%s]}'
        % b",".join(b'{"uriTemplate":"note://{x}/%d","name":"n"}' % n for n in range(20_000))
    ),
    "skills/list": lambda: (
        b'{"skills":[%s]}'
        % b",".join(b'{"uri":"skill://s%d/SKILL.md","name":"n","description":"d"}' % n for n in range(20_000))
    ),
}
"""Lists besides that of tools, which a server has with any `--list` but `none`."""


def head(kind: str, length: int | None = None, *more: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"content-type: {kind}", *more]
    lines.append(f"content-length: {length}" if length is not None else "transfer-encoding: chunked")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def again(data: bytes) -> Iterator[bytes]:
    end = time.monotonic() + FLOOD_SECONDS
    while time.monotonic() < end:
        yield data


JSON, EVENTS = "application/json", "text/event-stream"


def of_events(data: bytes) -> Iterator[bytes]:
    """A stream of this, again and again."""
    yield head(EVENTS)
    yield from again(chunk(data))


def compressed(kind: str, data: bytes) -> Iterator[bytes]:
    packed = gzip.compress(data)
    yield head(kind, len(packed), "content-encoding: gzip")
    yield packed


BODIES: dict[str, Callable[[int], Iterable[bytes]]] = {
    "gzip-json": lambda call: compressed(JSON, b" " * (200 * MB)),
    "gzip-events": lambda call: compressed(EVENTS, b"\n" * (60 * MB)),
    "sse-empty-lines": lambda call: of_events(b"\n" * 65_536),
    "sse-comments": lambda call: of_events(b":\n" * 32_768),
    "sse-comments-of-64KB": lambda call: of_events(b":" + b"x" * 65_536 + b"\n"),
    "sse-fields": lambda call: of_events(b"data:\n" * 16_384),
    "sse-ids": lambda call: of_events(b"id: 1\nevent: x\n\n" * 4_096),
    "sse-events": lambda call: of_events(b"data: {}\n\n" * 8_192),
    "sse-one-line": lambda call: itertools.chain([head(EVENTS), chunk(b"data: ")], again(chunk(b"x" * 65_536))),
    "one-byte-chunks": lambda call: itertools.chain([head(JSON)], again(b"1\r\n \r\n" * 20_000)),
    "one-byte-chunks-of-events": lambda call: itertools.chain([head(EVENTS)], again(b"1\r\n\n\r\n" * 20_000)),
    "headers": lambda call: itertools.chain([b"HTTP/1.1 200 OK\r\n"], again(b"a: b\r\n" * 10_000)),
    "interim": lambda call: again(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 2_000),
    "endless-json": lambda call: itertools.chain([head(JSON)], again(chunk(b" " * 65_536))),
    "lists-15MB": lambda call: [head(JSON, len(body := result(call, ANSWERS["lists-15MB"]()))), body],
    "text-15MB": lambda call: [head(JSON, len(body := result(call, ANSWERS["text-15MB"]()))), body],
    "keys-most-as-event": lambda call: [
        head(EVENTS),
        chunk(b"data: " + result(call, ANSWERS["keys-most"]()) + b"\n\n"),
    ],
    "progress": lambda call: of_events(b"".join([b"data: " + FLOODS["progress"](call, 1) + b"\n\n"] * 1_000)),
}


def body_of(mode: str, call: int) -> Iterable[bytes]:
    """An HTTP answer of any mode."""
    if mode in BODIES:
        return BODIES[mode](call)
    if mode in ANSWERS:
        whole = result(call, ANSWERS[mode]())
        return [head(JSON, len(whole)), whole]
    return itertools.chain(
        [head(EVENTS)], (chunk(b"data: " + each.replace(b"\n", b"\n\ndata: ") + b"\n\n") for each in flood(mode, call))
    )


def answer_to(message: dict[str, Any], listing: str, page: int) -> bytes | None:
    """To what is no call."""
    method, number = message.get("method"), message.get("id")
    if number is None:
        return None
    if method == "initialize":
        able: dict[str, Any] = {"tools": {"listChanged": True}}
        if listing != "none":
            able |= {"prompts": {}, "resources": {}, "extensions": {"io.modelcontextprotocol/skills": {}}}
        found = {"protocolVersion": "2025-11-25", "capabilities": able,
                 "serverInfo": {"name": "overwhelm", "version": "1"}}  # fmt: skip
        return result(number, json.dumps(found).encode())
    if method == "tools/list":
        return result(number, LISTS[listing](page))
    if method in OTHER_LISTS and listing != "none":
        return result(number, OTHER_LISTS[method]())
    if method == "ping":
        return result(number, b"{}")
    return b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"no"}}' % number


def over_stdio(listing: str) -> None:
    out = sys.stdout.buffer
    pages = itertools.count()

    def lines(mode: str, call: int) -> Iterator[bytes]:
        if mode in ANSWERS:
            yield result(call, ANSWERS[mode]()) + b"\n"
        elif mode in FLOODS:
            yield from flood(mode, call)
            yield result(call, b'{"content":[]}') + b"\n"
        elif mode == "error-10MB":
            yield b'{"jsonrpc":"2.0","id":%d,"error":%s}\n' % (call, error(b'"' + b"x" * (10 * MB) + b'"'))
        elif mode == "batch-100000":
            yield many(b"{}", 300_000) + b"\n"
            yield result(call, b'{"content":[]}') + b"\n"
        elif mode == "stderr":
            for block in again(b"x" * 100 + b"\n"):
                sys.stderr.buffer.write(block * 600)
            yield result(call, b'{"content":[]}') + b"\n"
        elif mode == "endless-line":
            yield from again(b"x" * 65_536)
            yield b"\n" + result(call, b'{"content":[]}') + b"\n"
        elif mode == "drip":
            for byte in result(call, b'{"content":[]}') + b"\n":
                yield bytes([byte])
                time.sleep(0.002)
        elif mode == "exits":
            yield result(call, ANSWERS["text-15MB"]()) + b"\n"
            out.flush()
            os._exit(0)

    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message.get("method") == "tools/call":
            for block in lines(message["params"]["arguments"].get("mode", "none"), message["id"]):
                out.write(block)
                out.flush()
        elif (said := answer_to(message, listing, next(pages))) is not None:
            out.write(said + b"\n")
            out.flush()


LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def serve(connection: socket.socket, listing: str, pages: Iterator[int], legacy: str) -> None:
    with contextlib.suppress(OSError), connection:
        reader = connection.makefile("rb")
        while True:
            said = b""
            while not said.endswith(b"\r\n\r\n"):
                line = reader.readline()
                if not line:
                    return
                said += line
            found = LENGTH.search(said)
            body = reader.read(int(found[1])) if found else b""
            if said.startswith(b"GET /sse"):
                for block in itertools.chain(
                    [head(EVENTS, None, *(["content-encoding: gzip"] if legacy == "gzip" else []))],
                    again(chunk(gzip.compress(b"\n" * (60 * MB)) if legacy == "gzip" else b"\n" * 65_536)),
                ):
                    connection.sendall(block)
                return
            if not body:
                connection.sendall(b"HTTP/1.1 405 No\r\ncontent-length: 0\r\n\r\n")
                continue
            message = json.loads(body)
            if message.get("method") == "tools/call":
                for block in body_of(message["params"]["arguments"].get("mode", "none"), message["id"]):
                    connection.sendall(block)
                if message["params"]["arguments"].get("mode") not in ANSWERS:
                    return
            elif (answer := answer_to(message, listing, next(pages))) is not None:
                connection.sendall(head(JSON, len(answer)) + answer)
            else:
                connection.sendall(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")


def over_http(port: int, listing: str, legacy: str) -> None:
    listener = socket.create_server(("127.0.0.1", port))
    print(f"PORT {listener.getsockname()[1]}", flush=True)
    pages = itertools.count()

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection, listing, pages, legacy), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", type=int)
    parser.add_argument("--list", default="none")
    parser.add_argument("--legacy", default="empty")
    given = parser.parse_args()
    if given.http is None:
        over_stdio(given.list)
    else:
        over_http(given.http, given.list, given.legacy)
