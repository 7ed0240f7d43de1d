"""JSON-RPC and MCP: envelopes, headers, and what we hand out and get back: states, cursors, ids."""

from __future__ import annotations

import base64
import json
from collections.abc import Hashable
from typing import Any, Final

from hypothesis import strategies as st

from mcpproxy_py import jsonrpc
from mcpproxy_py.core import json_values
from mcpproxy_py.core.policy.scope import Access
from mcpproxy_py.core.protocol import headers, request_state
from mcpproxy_py.core.protocol.constants import EnvelopeRejection
from mcpproxy_py.core.protocol.envelope import Envelope, classify
from mcpproxy_py.errors import RpcError
from mcpproxy_py.jsonrpc import BadMessage
from mcpproxy_py.serve.mcp.event_streams import parse_event_id
from mcpproxy_py.serve.mcp.request import claimed_client, peer_by_envelope
from mcpproxy_py.serve.rest.requests import cursor_of, place_of
from mcpproxy_py.store.activity.filters import PageCursor
from mcpproxy_py.upstream.transports.http_pool import fields

# JSON as it may come from anybody: deep, odd, but JSON.
TEXT: Final = st.text(max_size=12) | st.sampled_from(["", "\x00", "\u202e", "e\u0301", "tools/call", "id", "2.0"])
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def as_bytes(value: Any) -> bytes:
    return json.dumps(value).encode()


def read_message(data: bytes) -> Hashable:
    """A body is a message of one kind, with an id that can be a key and be sent back, or it is refused with an error of
    JSON-RPC; whoever reads on raises nothing else; and what is called plain needs no other look."""
    try:
        message, kind, plain = jsonrpc.decode_request(data)
    except BadMessage as error:
        _refusable(error, error.id)
        return "refused", error.code
    assert kind in ("request", "notification", "response")
    if kind == "request":
        assert type(message["id"]) in (int, str), "an id of another type"
        assert isinstance(message["method"], str)
        hash(message["id"])
        answer = json.loads(jsonrpc.answer(message["id"], {"result": {}}))
        assert answer["id"] == message["id"] or json_values.flaw(message["id"]), "the answer is to another id"
    elif kind == "notification":
        assert "id" not in message
    if plain:
        assert json_values.flaw(message) is None, "it is called plain, and is not"
        assert json.loads(jsonrpc.write(message)) == message, "it is called plain, and comes out as something else"
    else:
        json.loads(jsonrpc.write(message))
    return kind, plain, *_read_on(message)


def _refusable(error: RpcError, request_id: Any) -> None:
    assert request_id is None or jsonrpc.is_id(request_id)
    said = json.loads(jsonrpc.refusal(error, request_id))
    assert said["error"]["code"] in (-32700, -32600), said
    assert 0 < len(said["error"]["message"]) < 400


def _read_on(message: dict[str, Any]) -> tuple[Hashable, ...]:
    """What is done to a message before anything is decided."""
    try:
        params = jsonrpc.params_of(message)
    except RpcError:
        params = {}
    method = message.get("method")
    said = classify(message)
    lines = {
        headers.METHOD: str(method), headers.PROTOCOL_VERSION: "2026-07-28", headers.NAME: "=?base64?eA==?="
    }  # fmt: skip
    with_headers = classify(message, lines)
    assert isinstance(with_headers, Envelope | EnvelopeRejection)
    if isinstance(said, Envelope):
        peer = peer_by_envelope(said, Access("local"))
        assert len(peer.client.name) <= 128 and len(peer.client.version) <= 128
        hash(peer.key)
    claimed_client(params.get("clientInfo"))
    if isinstance(method, str):
        seen = request_state.digest("gate", method, params)
        assert len(seen) == 64
    if "inputResponses" in params:
        problem = request_state.answers_problem(params["inputResponses"], 64)
        if problem is None:
            json.loads(jsonrpc.write(params["inputResponses"]))
    request_state.questions_of(params)
    return type(said).__name__, type(with_headers).__name__


# States.

KEY: Final = b"s" * 32
OLD_KEY: Final = b"o" * 32
STATES: Final = tuple(
    request_state.seal(
        request_state.RequestState(f"a{number}", "local", "d" * 64, 1e9 + number, "g", held, inner), key
    )
    for number, (held, inner, key) in enumerate(
        ((0, None, KEY), (3, None, KEY), (0, {"x": "\ud800", "y": [1, 2.5]}, OLD_KEY), (0, "opaque" * 50, KEY))
    )
)  # fmt: skip
FORGED: Final = request_state.seal(request_state.RequestState("a1", "admin", "d" * 64, 9e9, "g"), b"f" * 32)


def read_state(data: bytes) -> Hashable:
    """Nothing opens but, to the byte, what was sealed with one of our keys; and nothing is ever raised."""
    text = data.decode("latin-1")
    variants = [text, text.strip(), data.decode("utf-8", "replace")]
    if text[:1] in '[{"':
        with_json = _json_or_none(text)
        variants.append(with_json)
    opened = None
    for each in variants:
        opened = request_state.unseal(each, [KEY, OLD_KEY])
        assert (opened is not None) == (each in STATES), f"{each!r} opens as {opened}"
        assert request_state.unseal(each, []) is None, "it opens without a key"
        if opened is not None:
            assert len(request_state.key_of(each)) == 64
    return opened is not None, min(text.count("."), 2), len(data) > 64


def _json_or_none(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def flipped() -> st.SearchStrategy[bytes]:
    """A state of ours with one bit of it changed, or two states mixed."""

    def one(state: str, at: int, bit: int) -> bytes:
        raw = bytearray(state.encode())
        raw[at % len(raw)] ^= 1 << bit
        return bytes(raw)

    def mixed(one: str, other: str) -> bytes:
        return f"{one.partition('.')[0]}.{other.partition('.')[2]}".encode()

    def other_body(state: str) -> bytes:
        body, _, mac = state.partition(".")
        said = json.loads(base64.urlsafe_b64decode(body))
        changed = base64.urlsafe_b64encode(json.dumps({**said, "principal": "admin"}).encode()).decode()
        return f"{changed}.{mac}".encode()

    some = st.sampled_from([*STATES, FORGED])
    return st.one_of(
        st.builds(one, some, st.integers(0, 2000), st.integers(0, 7)), st.builds(mixed, some, some),
        st.builds(other_body, some),
    )  # fmt: skip


# Cursors and ids.

CURSORS: Final = (*(str(PageCursor(n)) for n in (0, 1, 2**40)), *map(cursor_of, ("", "s:tool", "é", "a1" * 40)))


def read_cursor(data: bytes) -> Hashable:
    """A cursor that is taken is one that we give out, to the byte; for anything else there is the one documented
    error. The id of an event is a name and a number, or none."""
    text = data.decode("utf-8", "replace")
    found: list[Any] = []
    kinds: tuple[tuple[Any, Any], ...] = ((PageCursor.read, str), (place_of, cursor_of))
    for read, write in kinds:
        try:
            place: Any = read(text)
        except ValueError:
            found.append(None)
            continue
        assert write(place) == text, f"{text!r} is taken for {write(place)!r}"
        found.append(place)
    event = parse_event_id(text)
    assert event is None or (event[1] >= 0 and text.startswith(f"{event[0]}-"))
    return tuple(each is not None for each in (*found, event))


# Arguments as headers.


def read_param_headers(data: bytes) -> Hashable:
    """Of any schema and any arguments: the headers that we send can be written, say what the arguments say, and are
    taken back as such; whoever sends another value or sends one twice is refused."""
    value = _json_or_none(data.decode("utf-8", "replace"))
    if not isinstance(value, dict):
        return "none"
    declared = headers.declared(value.get("schema"))
    mirrors = headers.mirrors(value.get("schema"))
    if isinstance(declared, str):
        assert mirrors == () and len(declared) < 400
        return "refused"
    arguments = value.get("args")
    if not isinstance(arguments, dict) or json_values.flaw(arguments, 1000) is not None:
        return "no arguments"
    sent = headers.param_headers(mirrors, arguments)
    fields(sent)
    lines = list(sent.items())
    assert headers.disagreement(mirrors, arguments, lines) is None, "we refuse what we send"
    for name, text in lines:
        assert headers.disagreement(mirrors, arguments, [*lines, (name.upper(), text)]) is not None, "sent twice"
        others = [(each, said) for each, said in lines if each != name]
        assert headers.disagreement(mirrors, arguments, others) is not None, "left out"
        assert headers.disagreement(mirrors, arguments, [*others, (name, text + "x")]) is not None, "another value"
    for text in json_values.as_array(value.get("texts")) or []:
        if isinstance(text, str) and json_values.flaw(text) is None:
            assert headers.decode_header_value(headers.encode_header_value(text)) == text
            fields({"x": headers.encode_header_value(text)})
            headers.decode_header_value(text)
    return len(mirrors), len(sent)
