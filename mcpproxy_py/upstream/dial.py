"""Opening a connection of whatever kind a server is configured with."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.connection import Connection
from mcpproxy_py.upstream.failure import UpstreamFailure
from mcpproxy_py.upstream.keeper import Keeper
from mcpproxy_py.upstream.local import LocalUpstream, open_local
from mcpproxy_py.upstream.logfile import CappedLog
from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.sse import open_sse
from mcpproxy_py.upstream.stdio import open_stdio
from mcpproxy_py.upstream.streamable import open_streamable
from mcpproxy_py.upstream.web import Web


@dataclass(frozen=True, slots=True)
class Dialer:
    keeper: Keeper
    web: Web
    local: Mapping[str, LocalUpstream]
    max_result_bytes: int

    def open(self, spec: UpstreamSpec, log: CappedLog, number: int = 1) -> AbstractAsyncContextManager[Connection]:
        """`number` tells a server's sessions apart, so that one can end without the others. Raises `UpstreamFailure`,
        here or on entering, when there is nothing to connect to."""
        match spec.transport:
            case "stdio":
                mark = spec.name if number == 1 else f"{spec.name}~{number}"
                return open_stdio(spec, keeper=self.keeper, log=log, max_result_bytes=self.max_result_bytes, mark=mark)
            case "http":
                return open_streamable(spec, web=self.web, max_result_bytes=self.max_result_bytes)
            case "sse":
                return open_sse(spec, web=self.web, max_result_bytes=self.max_result_bytes)
            case "local":
                return open_local(spec.name, self._built_in(spec.name))

    def _built_in(self, name: str) -> LocalUpstream:
        if name not in self.local:
            raise UpstreamFailure(Code.SERVER_UNAVAILABLE, f"there is no built-in server {name!r}", sent=False)
        return self.local[name]
