"""The two transports over HTTP, apart so that their client is imported with the first server that needs it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from mcpproxy_py.upstream.session.rpc import RpcConnection
from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.transports.http_clients import AuthFor, Web
from mcpproxy_py.upstream.transports.legacy_sse import open_sse
from mcpproxy_py.upstream.transports.streamable_http import open_streamable


class OverHttp:
    def __init__(self, auth_for: AuthFor | None, traced: bool, max_result_bytes: int) -> None:
        self._web = Web(auth_for, traced)
        self._max_result_bytes = max_result_bytes

    def open(self, spec: UpstreamSpec) -> AbstractAsyncContextManager[RpcConnection]:
        opened = open_sse if spec.transport == "sse" else open_streamable
        return opened(spec, web=self._web, max_result_bytes=self._max_result_bytes)
