"""What a request must carry so that its server knows the protocol revision: `_meta` and HTTP headers.

Each era has its own way. The handshake era agrees once and only repeats the version in a header; the
modern one has no session, so every request says everything again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY

from mcpproxy_py import __version__

Era = Literal["handshake", "modern"]
HeaderMap = Mapping[tuple[str, ...], str]

CLIENT_INFO: Final[Mapping[str, Any]] = {"name": "mcpproxy", "version": __version__}
CAPABILITIES: Final[Mapping[str, Any]] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"context": {}, "tools": {}},
    "roots": {"listChanged": True},
}
"""For a session that many clients share: all that any of them may be able to do. Who cannot says so when asked."""
OURS: Final = frozenset(
    {PROTOCOL_VERSION_META_KEY, CLIENT_INFO_META_KEY, CLIENT_CAPABILITIES_META_KEY, "progressToken"}
)
"""What a caller's own request says under these is about its conversation with us, never about ours."""


@dataclass(frozen=True, slots=True)
class Stamp:
    era: Era
    version: str

    def params(self, params: Mapping[str, Any], capabilities: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """`capabilities` are those of the client it is for; the gateway's own requests can do nothing but wait."""
        meta = {key: value for key, value in (params.get("_meta") or {}).items() if key not in OURS}
        if self.era == "handshake":
            return {**params, "_meta": meta} if meta else {k: v for k, v in params.items() if k != "_meta"}
        meta = {
            **meta,
            PROTOCOL_VERSION_META_KEY: self.version,
            CLIENT_INFO_META_KEY: dict(CLIENT_INFO),
            CLIENT_CAPABILITIES_META_KEY: dict(capabilities or {}),
        }
        return {**params, "_meta": meta}

    def headers(self, method: str, params: Mapping[str, Any], mirrored: HeaderMap | None = None) -> dict[str, str]:
        """`mirrored`: which arguments this tool wants repeated as headers."""
        headers = {MCP_PROTOCOL_VERSION_HEADER: self.version}
        if self.era == "handshake":
            return headers
        headers[MCP_METHOD_HEADER] = method
        name = params.get(NAME_BEARING_METHODS.get(method, ""))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
        if mirrored:
            headers.update(mcp_param_headers(mirrored, params.get("arguments") or {}))
        return headers


def mirrored_arguments(schema: Any) -> HeaderMap:
    """Which arguments a tool's schema wants as headers; none when it asks for that in a way that is not allowed."""
    return x_mcp_header_map(schema) if find_invalid_x_mcp_header(schema) is None else {}
