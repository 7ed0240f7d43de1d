"""JSON-RPC messages on the client's side: read with suspicion, written so that any peer can read them.

JSON-RPC messages as bytes and as objects: written strictly, read with some patience. No state, no I/O.

Newline framing that a hostile peer cannot make expensive.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final, Literal

from pydantic_core import PydanticSerializationError, from_json, to_json

from mcpproxy_py.core import json_values
from mcpproxy_py.core.protocol import own_meta
from mcpproxy_py.core.protocol.constants import INVALID_REQUEST, PARSE_ERROR
from mcpproxy_py.errors import Code, RpcError, UpstreamFailure, bad_answer

logger = logging.getLogger(__name__)

Kind = Literal["request", "notification", "response"]
LONGEST_ID: Final = 1024
_removals: Final = count(1)
LONGEST_ERROR: Final = 8_192
"""Characters that are kept of what a server says in an error."""
PLAIN_LENGTH: Final = 16_384
PLAIN_BRACKETS: Final = 64
"""Nothing can be nested deeper than there are brackets."""
_SHAPE: Final = bytes.maketrans(b"123456789E[", b"000000000e{")
_LARGE: Final = b"e000"
_LONG: Final = b"0" * 64
"""Fewer digits, and an exponent of two, make no number that is not finite, nor one that Python would not write."""


class BadMessage(RpcError):
    """No message, or of no kind. `id` where it has one all the same."""

    def __init__(self, code: int, message: str, request_id: int | str | None = None) -> None:
        super().__init__(code, message)
        self.id = request_id


def decode_request(body: bytes) -> tuple[dict[str, Any], Kind, bool]:
    """One message as an object, what it is, and whether it is *plain*: no value in it needs another look before it is
    sent on (`jsonvalue.flaw`). Raises `BadMessage`; what is wrong inside is for whoever reads on."""
    try:
        message = from_json(body, allow_inf_nan=False)
        shape = body.translate(_SHAPE, b"+") if len(body) <= PLAIN_LENGTH else _LARGE
        plain = _LARGE not in shape and _LONG not in shape and shape.count(b"{") <= PLAIN_BRACKETS
    except ValueError:
        message, plain = _read_leniently(body), False
    if type(message) is not dict:
        raise BadMessage(INVALID_REQUEST, "The body must be a single JSON-RPC message; batches are not accepted")
    request_id = message.get("id")
    if (
        type(message.get("method")) is str and message.get("jsonrpc") == "2.0" and request_id is not None
        and (type(request_id) is int or (type(request_id) is str and len(request_id) <= LONGEST_ID))
    ):  # fmt: skip
        return message, "request", plain
    return message, kind_of(message), plain


def _read_leniently(body: bytes) -> Any:
    try:
        return _decoded(body)
    except ValueError as error:
        raise BadMessage(PARSE_ERROR, f"Parse error: {str(error)[:200]}") from None


def _decoded(body: bytes | str) -> Any:
    """Half a surrogate pair is no JSON that we send on, but the gate can say so better than a parser."""
    try:
        return from_json(body)
    except ValueError as error:
        if "surrogate" not in str(error) and "hex escape" not in str(error):
            raise
    try:
        return json.loads(body)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def kind_of(message: Mapping[str, Any]) -> Kind:
    """Raises `BadMessage` for what is no message of any kind."""
    own_id = message["id"] if is_id(message.get("id")) else None
    if message.get("jsonrpc") != "2.0":
        raise BadMessage(INVALID_REQUEST, "Not a JSON-RPC 2.0 message: jsonrpc must be '2.0'", own_id)
    if isinstance(message.get("method"), str):
        if "id" not in message:
            return "notification"
        if is_id(message["id"]):
            return "request"
        raise BadMessage(INVALID_REQUEST, "The id of a request must be a string or a whole number")
    if own_id is not None and ("result" in message or "error" in message):
        return "response"
    raise BadMessage(INVALID_REQUEST, "Not a JSON-RPC message: neither a method nor an answer", own_id)


def is_id(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= LONGEST_ID
    return isinstance(value, int) and not isinstance(value, bool)


def params_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """Raises `RpcError`: parameters by position are not MCP."""
    params = json_values.as_object(message.get("params", {}))
    if params is None:
        raise RpcError(INVALID_REQUEST, "params must be an object")
    return params


def write(message: Mapping[str, Any]) -> bytes:
    try:
        return to_json(message, inf_nan_mode="null")
    except (PydanticSerializationError, UnicodeError):  # a lone half of a surrogate pair somewhere
        return json.dumps(message, ensure_ascii=True, default=str).encode()


def notification(method: str, params: Mapping[str, Any]) -> bytes:
    return write({"jsonrpc": "2.0", "method": method, "params": params})


def request(request_id: int | str, method: str, params: Mapping[str, Any]) -> bytes:
    return write({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def answer(request_id: int | str | None, outcome: Mapping[str, Any]) -> bytes:
    """`outcome` has one key: `result` or `error`."""
    message = {"jsonrpc": "2.0", "id": request_id, **outcome}
    try:
        return to_json(message, inf_nan_mode="null")
    except (PydanticSerializationError, UnicodeError):
        return write(message)


def refusal(error: RpcError, request_id: int | str | None = None) -> bytes:
    return answer(request_id, {"error": error.as_json()})


def encode(message: Mapping[str, Any]) -> bytes:
    try:
        payload = to_json(message)
        if b"NaN" in payload or b"Infinity" in payload:  # a float may be one; the words in a text are fine
            from_json(payload, allow_inf_nan=False)
        return payload
    except (ValueError, RecursionError) as error:
        complaint = f"these parameters cannot be written as JSON: {error}"
        raise UpstreamFailure(Code.UPSTREAM_ERROR, complaint, sent=False) from None


def decode(data: bytes | str) -> Any:
    """What a server says: strict JSON, without keys of `_meta` that are ours to write. Raises `ValueError`."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    try:
        value = from_json(raw, allow_inf_nan=False)
    except ValueError:
        value = parse(raw)
    if (b"_meta" in raw or b"\\u" in raw) and own_meta.may_hold_own(raw) and own_meta.remove_own(value):
        tell_of_removal()
    return value


def parse(raw: bytes) -> Any:
    """Strict JSON. Raises `ValueError`. NaN and Infinity would only break the next reader.

    Servers in JavaScript cut texts in the middle of an emoji and send the half of it, escaped. That is not worth
    a lost answer, so the half becomes a question mark.
    """
    try:
        return from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        if "hex escape" not in str(error):
            raise
        return _mended(raw)


def tell_of_removal() -> None:
    """Powers of two: the first is always told, a flood of them is not."""
    many = next(_removals)
    if many & (many - 1) == 0:
        logger.warning("keys of _meta that only mcpproxy writes were removed from %d messages of servers", many)


def _mended(data: bytes) -> Any:
    try:
        whole = json.dumps(json.loads(data), ensure_ascii=False)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return from_json(whole.encode("utf-8", "replace"), allow_inf_nan=False)


def complaint(error: ValueError) -> str:
    """What `decode` could not read, in words for whoever waited for it."""
    deep = "recursion" in str(error) or "deeply" in str(error)
    return "it answered with JSON that is nested too deeply" if deep else "it answered with invalid JSON"


def notification_object(method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return message


def request_object(request_id: int, method: str, params: Mapping[str, Any], wants_progress: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
    if wants_progress:  # our own id is the token: the caller's could collide with another caller's
        params = {**params, "_meta": {**(params.get("_meta") or {}), "progressToken": request_id}}
    if params:
        message["params"] = params
    return message


def answer_object(request_id: Any, body: Mapping[str, Any]) -> dict[str, Any]:
    """`body` is a result or an error."""
    return {"jsonrpc": "2.0", "id": request_id, **body}


def error(code: int, message: str, data: Any = None) -> dict[str, Any]:
    said: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        said["data"] = data
    return {"error": said}


def object_in(message: Mapping[str, Any], key: str) -> dict[str, Any]:
    """What stands there, where it is an object; else an empty one."""
    found = message.get(key)
    return found if isinstance(found, dict) else {}


def without(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != key}


def own_id(value: Any) -> int:
    """An id of ours as a peer may echo it (some send it back as a string); 0 is never used."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) <= 18 and value.isascii() and value.isdigit():
        return int(value)
    return 0


def failure_of(error: Any) -> UpstreamFailure:
    if not isinstance(error, dict):
        return bad_answer("it answered with neither a result nor an error")
    message = error.get("message")
    shown = message if isinstance(message, str) and message else "it answered with an error"
    if len(shown) > LONGEST_ERROR:
        shown = f"{shown[:LONGEST_ERROR]}… (cut, of {len(shown)} characters)"
    return bad_answer(shown, {key: error[key] for key in ("code", "data") if key in error})


KEPT: Final = 512
"""How much of the two ends of a dropped line is kept, to find out which request it answered."""

# Anchored at the very start or the very end of the object, so that an "id" inside the result is never taken for it.
_HEAD: Final = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,')
_TAIL: Final = re.compile(rb',\s*"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


def id_at_the_edges(head: bytes, tail: bytes) -> int | None:
    """The request id of a message that was not or could not be parsed, where it stands in plain sight."""
    found = _HEAD.match(head) or _TAIL.search(tail)
    return int(found[1]) if found else None


class LineSplitter:
    """Cuts bytes into lines of at most `limit`; a longer one is skipped to its newline.

    `on_oversize(head, tail)` is called once with an empty tail when the limit is passed, so that the
    caller can fail the request at once, and once more at the newline.
    """

    def __init__(
        self, limit: int, on_line: Callable[[bytes], None], on_oversize: Callable[[bytes, bytes], None]
    ) -> None:
        self._limit = limit
        self._on_line = on_line
        self._on_oversize = on_oversize
        self._partial = bytearray()
        self._skipped_head: bytes | None = None
        self._skipped_tail = b""

    def feed(self, data: bytes) -> None:
        *whole, rest = data.split(b"\n")
        for piece in whole:
            if not self._partial and self._skipped_head is None and len(piece) <= self._limit:
                self._on_line(piece)  # nearly all of them: a line that comes at once
            else:
                self._extend(piece)
                self._end_line()
        if rest:
            self._extend(rest)

    def _extend(self, piece: bytes) -> None:
        if self._skipped_head is not None:
            self._skipped_tail = (self._skipped_tail + piece[-KEPT:])[-KEPT:]
        elif len(self._partial) + len(piece) <= self._limit:
            self._partial += piece
        else:
            self._start_skipping(piece)

    def _start_skipping(self, piece: bytes) -> None:
        self._skipped_head = bytes(self._partial[:KEPT]) + piece[: max(0, KEPT - len(self._partial))]
        self._skipped_tail = (bytes(self._partial[-KEPT:]) + piece[-KEPT:])[-KEPT:]
        self._partial = bytearray()
        self._on_oversize(self._skipped_head, b"")

    def _end_line(self) -> None:
        if self._skipped_head is not None:
            head, tail = self._skipped_head, self._skipped_tail
            self._skipped_head, self._skipped_tail = None, b""
            self._on_oversize(head, tail)
        else:
            line, self._partial = bytes(self._partial), bytearray()
            self._on_line(line)
