"""What a request must carry so that its server knows the protocol revision: `_meta` and HTTP headers.

Each era has its own way. The handshake era agrees once and only repeats the version in a header; the
modern one has no session, so every request says everything again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from mcpproxy_py import __version__
from mcpproxy_py.core import headers as names
from mcpproxy_py.core import revisions
from mcpproxy_py.core.mirrors import Mirror, param_headers

Era = Literal["handshake", "modern"]

CLIENT_INFO: Final[Mapping[str, Any]] = {"name": "mcpproxy", "version": __version__}
CAPABILITIES: Final[Mapping[str, Any]] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"context": {}, "tools": {}},
    "roots": {"listChanged": True},
}
"""For a session that many clients share: all that any of them may be able to do. Who cannot says so when asked."""
OURS: Final = frozenset(
    {revisions.PROTOCOL_VERSION, revisions.CLIENT_INFO, revisions.CLIENT_CAPABILITIES, "progressToken"}
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
            stamped = {**params, "_meta": meta}
            if not meta:
                del stamped["_meta"]
            return stamped
        meta = {
            **meta,
            revisions.PROTOCOL_VERSION: self.version,
            revisions.CLIENT_INFO: dict(CLIENT_INFO),
            revisions.CLIENT_CAPABILITIES: dict(capabilities or {}),
        }
        return {**params, "_meta": meta}

    def headers(self, method: str, params: Mapping[str, Any], mirrored: tuple[Mirror, ...] = ()) -> dict[str, str]:
        """`mirrored`: which arguments this tool wants repeated as headers."""
        headers = {names.PROTOCOL_VERSION: self.version}
        if self.era == "handshake":
            return headers
        headers[names.METHOD] = method
        name = params.get(names.NAMED_BY.get(method, ""))
        if isinstance(name, str):
            headers[names.NAME] = names.encode_header_value(name)
        if mirrored:
            headers.update(param_headers(mirrored, params.get("arguments") or {}))
        return headers
