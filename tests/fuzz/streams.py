"""Server-sent events and lines of JSON, as they come from servers, and as the command line reads them."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from typing import Any, Final

from mcpproxy_py import jsonrpc
from mcpproxy_py.cli.gateway.client import parsed
from mcpproxy_py.errors import UpstreamFailure
from mcpproxy_py.jsonrpc import LineSplitter
from mcpproxy_py.upstream.transports.http_exchange import ServerSentEvent, SseParser
from tests.fuzz.http import splits

LIMIT: Final = 600
"""More than what is kept of the ends of what is too long, and little enough to be passed."""


def read_events(data: bytes) -> Hashable:
    """However a stream comes, it is the same events, none larger than is allowed, and no end of one is an event."""
    told: list[tuple[Any, ...]] = []
    for parts in splits(data):
        events: list[ServerSentEvent] = []
        dropped: list[tuple[bytes, bytes]] = []
        parser = SseParser(LIMIT, events.append, lambda *ends, into=dropped: into.append(ends))
        for part in parts:
            parser.feed(part)
        told.append((events, dropped, parser.last_id, parser.retry))
        assert told[-1] == told[0], f"in {len(parts)} parts this is {told[-1]}, at once it is {told[0]}"
    events, dropped, last_id, retry = told[0]
    assert all(len(event.data) <= LIMIT for event in events), "an event is larger than is allowed"
    assert all(len(head) <= 512 and len(tail) <= 512 for head, tail in dropped), "too much is kept of what is dropped"
    assert 0 <= retry <= 30, "a server says how long we wait"
    assert last_id is None or ("\n" not in last_id and "\0" not in last_id), "an id that cannot be a header"
    assert not data or sum(len(event.data) for event in events) < len(data), "more came out than went in"
    return min(len(events), 3), min(len(dropped), 3), last_id is not None, retry == 1


def read_watched(data: bytes) -> Hashable:
    """As the command line reads the gateway's own stream: the same events however it comes, and the same as our other
    reader finds, where an event is one line of data."""
    found = [list(parsed(parts)) for parts in splits(data)]
    assert all(each == found[0] for each in found), "the events depend on how they came"
    assert all(isinstance(key, str) and isinstance(value, str) for event in found[0] for key, value in event.items())
    if b"\r" not in data and len(data) < LIMIT:
        events: list[ServerSentEvent] = []
        SseParser(LIMIT, events.append, lambda head, tail: None).feed(data)
        theirs = [event.data.decode("utf-8", "replace") for event in events if b"\n" not in event.data]
        ours = [event["data"] for event in found[0] if event.get("data")]
        assert not theirs or set(theirs) <= set(ours), f"another reader finds {theirs}, this one {ours}"
    return min(len(found[0]), 3), bool(found[0]) and "id" in found[0][0]


def read_lines(data: bytes) -> Hashable:
    """Messages of a server over stdio: the same lines however they come; what is read of one that is too long is an id
    that stands in it; reading one raises nothing but what says that it is none."""
    told: list[tuple[list[bytes], list[tuple[bytes, bytes]]]] = []
    for parts in splits(data):
        lines: list[bytes] = []
        dropped: list[tuple[bytes, bytes]] = []
        splitter = LineSplitter(LIMIT, lines.append, lambda *ends, into=dropped: into.append(ends))
        for part in parts:
            splitter.feed(part)
        told.append((lines, dropped))
        assert told[-1] == told[0], f"in {len(parts)} parts this is {told[-1]}, at once it is {told[0]}"
    lines, dropped = told[0]
    assert all(len(line) <= LIMIT and b"\n" not in line for line in lines)
    kinds = {_kind_of(line) for line in lines}
    for head, tail in dropped:
        found = jsonrpc.id_at_the_edges(head, tail)
        assert found is None or str(found).encode() in head + tail
    return min(len(kinds), 3), "dict" in kinds, bool(dropped)


def _kind_of(line: bytes) -> str:
    try:
        message = jsonrpc.decode(line)
    except ValueError as error:
        assert len(jsonrpc.complaint(error)) < 200
        return "none"
    with suppress(UpstreamFailure):  # for a number that is not finite
        jsonrpc.encode({"again": message})
    if isinstance(message, dict):
        assert jsonrpc.own_id(message.get("id")) >= 0 or isinstance(message.get("id"), int)
        if "error" in message:
            assert isinstance(jsonrpc.failure_of(message["error"]).message, str)
    return type(message).__name__
