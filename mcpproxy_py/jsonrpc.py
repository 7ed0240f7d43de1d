"""JSON-RPC messages on the client's side: read with suspicion, written so that any peer can read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic_core import PydanticSerializationError, from_json, to_json

from mcpproxy_py.core import json_values
from mcpproxy_py.core.protocol.constants import INVALID_REQUEST, PARSE_ERROR
from mcpproxy_py.errors import RpcError

Kind = Literal["request", "notification", "response"]
LONGEST_ID: Final = 1024
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
        raise BadMessage(INVALID_REQUEST, "The body must be a single JSON-RPC message; batches are not taken")
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
