"""What MCP fixed once for everybody: its revisions, its error codes and the reserved keys of `_meta`.

Written down here and not taken from the SDK, because importing the SDK takes longer than starting everything else
of the gateway. `tests/core/protocol/test_envelope.py` holds the values against the SDK's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

# Revisions are an enumerated set, oldest first. They look like dates; nothing promises that the next one does.
HANDSHAKE: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Agreed once, with `initialize`."""
MODERN: Final = ("2026-07-28",)
"""Said again in every request's envelope; there is no session."""
LATEST_HANDSHAKE: Final = HANDSHAKE[-1]
LATEST_MODERN: Final = MODERN[-1]

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
HEADER_MISMATCH: Final = -32020
MISSING_REQUIRED_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_PROTOCOL_VERSION: Final = -32022

HTTP_STATUS: Final[Mapping[int, int]] = MappingProxyType(
    {
        PARSE_ERROR: 400,
        INVALID_REQUEST: 400,
        INVALID_PARAMS: 400,
        HEADER_MISMATCH: 400,
        MISSING_REQUIRED_CLIENT_CAPABILITY: 400,
        UNSUPPORTED_PROTOCOL_VERSION: 400,
        METHOD_NOT_FOUND: 404,
    }
)
"""The status of an error on the modern wire. A code that is not here travels with 200, like an answer."""

_RESERVED: Final = "io.modelcontextprotocol/"
PROTOCOL_VERSION: Final = f"{_RESERVED}protocolVersion"
CLIENT_INFO: Final = f"{_RESERVED}clientInfo"
CLIENT_CAPABILITIES: Final = f"{_RESERVED}clientCapabilities"
SERVER_INFO: Final = f"{_RESERVED}serverInfo"
SUBSCRIPTION_ID: Final = f"{_RESERVED}subscriptionId"
LOG_LEVEL: Final = f"{_RESERVED}logLevel"
LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


@dataclass(frozen=True, slots=True)
class EnvelopeRejection:
    """The members of a JSON-RPC error. `revisions.HTTP_STATUS` knows the status that goes with it."""

    code: int
    message: str
    data: Any = None
