"""JSON-RPC messages as bytes and as objects: written strictly, read with some patience. No state, no I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json, to_json

from mcpproxy_py._upstream_failure import UpstreamFailure, bad_answer
from mcpproxy_py.errors import Code


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
    """Strict JSON; raises `ValueError`. NaN and Infinity would only break the next reader.

    Servers in JavaScript cut texts in the middle of an emoji and send the half of it, escaped. That is not worth
    a lost answer, so the half becomes a question mark.
    """
    try:
        return from_json(data, allow_inf_nan=False)
    except ValueError as error:
        if "hex escape" not in str(error):
            raise
    try:
        whole = json.dumps(json.loads(data), ensure_ascii=False)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return from_json(whole.encode("utf-8", "replace"), allow_inf_nan=False)


def complaint(error: ValueError) -> str:
    """What `decode` could not read, in words for whoever waited for it."""
    deep = "recursion" in str(error) or "deeply" in str(error)
    return "it answered with JSON that is nested too deeply" if deep else "it answered with invalid JSON"


def notification(method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return message


def request(request_id: int, method: str, params: Mapping[str, Any], wants_progress: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
    if wants_progress:  # our own id is the token: the caller's could collide with another caller's
        params = {**params, "_meta": {**(params.get("_meta") or {}), "progressToken": request_id}}
    if params:
        message["params"] = params
    return message


def answer(request_id: Any, body: Mapping[str, Any]) -> dict[str, Any]:
    """`body` is a result or an error."""
    return {"jsonrpc": "2.0", "id": request_id, **body}


def error(code: int, message: str, data: Any = None) -> dict[str, Any]:
    said: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        said["data"] = data
    return {"error": said}


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
    return bad_answer(shown, {key: error[key] for key in ("code", "data") if key in error})
