"""JSON-RPC messages on the client's side: read with suspicion, written so that any peer can read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic_core import PydanticSerializationError, from_json, to_json

from mcpproxy_py.core import jsonvalue
from mcpproxy_py.core.revisions import INVALID_REQUEST, PARSE_ERROR
from mcpproxy_py.errors import RpcError

Kind = Literal["request", "notification", "response"]
LONGEST_ID = 1024


def read(body: bytes | str) -> dict[str, Any]:
    """One message as an object. Raises `RpcError`; what is wrong inside is for whoever reads on."""
    try:
        message = jsonvalue.as_object(_decoded(body))
    except ValueError as error:
        raise RpcError(PARSE_ERROR, f"Parse error: {str(error)[:200]}") from None
    if message is None:
        raise RpcError(INVALID_REQUEST, "The body must be a single JSON-RPC message; batches are not taken")
    return message


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
    """Raises `RpcError` for what is no message of any kind."""
    if message.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "Not a JSON-RPC 2.0 message: jsonrpc must be '2.0'")
    if isinstance(message.get("method"), str):
        if "id" not in message:
            return "notification"
        if is_id(message["id"]):
            return "request"
        raise RpcError(INVALID_REQUEST, "The id of a request must be a string or a whole number")
    if is_id(message.get("id")) and ("result" in message or "error" in message):
        return "response"
    raise RpcError(INVALID_REQUEST, "Not a JSON-RPC message: neither a method nor an answer")


def is_id(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= LONGEST_ID
    return isinstance(value, int) and not isinstance(value, bool)


def params_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """Raises `RpcError`: parameters by position are not MCP."""
    params = jsonvalue.as_object(message.get("params", {}))
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
    return write({"jsonrpc": "2.0", "id": request_id, **outcome})


def refusal(error: RpcError, request_id: int | str | None = None) -> bytes:
    return answer(request_id, {"error": error.as_json()})
