"""JSON on the wire, and the one shape of every error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_json
from starlette.responses import Response

from mcpproxy_py.errors import FACTS, Code, GatewayError

NO_STORE: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


def json_bytes(value: Any) -> bytes:
    """UTF-8 JSON. What UTF-8 cannot hold (half of a surrogate pair from an old record) goes out escaped."""
    try:
        return to_json(value, inf_nan_mode="null")
    except PydanticSerializationError:
        return json.dumps(value, default=str).encode("ascii")


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json_bytes(value), status, {**NO_STORE, **(headers or {})}, "application/json")


def error_answer(error: GatewayError, headers: Mapping[str, str] | None = None) -> Response:
    return answer(error.as_json(), FACTS[error.code].http, headers)


def bad_request(message: str, **details: Any) -> GatewayError:
    return GatewayError(Code.BAD_REQUEST, message, details=details)
