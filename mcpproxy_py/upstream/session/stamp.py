"""What a request must carry so that its server knows the protocol revision: `_meta` and HTTP headers.

Each era has its own way. The handshake era agrees once and only repeats the version in a header; the
modern one has no session, so every request says everything again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from mcpproxy_py import __version__
from mcpproxy_py.core.protocol import _core_headers as names
from mcpproxy_py.core.protocol import constants
from mcpproxy_py.core.protocol.client_channel import Talk
from mcpproxy_py.core.protocol.headers import Mirror, param_headers
from mcpproxy_py.upstream.permit import Permitted

Era = Literal["handshake", "modern"]

CLIENT_INFO: Final[Mapping[str, Any]] = {"name": "mcpproxy", "version": __version__}
_CLIENT_INFO: Final = dict(CLIENT_INFO)
CAPABILITIES: Final[Mapping[str, Any]] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"context": {}, "tools": {}},
    "roots": {"listChanged": True},
}
"""For a session that many clients share: all that any of them may be able to do. Who cannot says so when asked."""


@dataclass(frozen=True, slots=True)
class Stamp:
    era: Era
    version: str

    def __call__(self, message: Permitted, talk: Talk | None) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """A message of the gateway's own, which can do nothing but wait, with its headers."""
        return self.params(message.params), self.headers(message.method, message.params)

    def params(
        self, params: Mapping[str, Any], meta: Mapping[str, Any] | None = None,
        capabilities: Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any]:  # fmt: skip
        """`meta` and `capabilities` are those of the client it is for, as far as they go along."""
        if self.era == "handshake":
            return {**params, "_meta": dict(meta)} if meta else params
        said = {
            **(meta or {}),
            constants.PROTOCOL_VERSION: self.version,
            constants.CLIENT_INFO: _CLIENT_INFO,
            constants.CLIENT_CAPABILITIES: {} if capabilities is None else capabilities,
        }
        return {**params, "_meta": said}

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
