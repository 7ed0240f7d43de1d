"""Opening a connection of whatever kind a server is configured with.

What speaks HTTP is imported with the first server that needs it: httpx2 is a twentieth of the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import TYPE_CHECKING

from mcpproxy_py.core.json_size import MAX_VALUES
from mcpproxy_py.errors import Code, UpstreamFailure
from mcpproxy_py.upstream.processes.command import ServerLog
from mcpproxy_py.upstream.processes.reaper_client import ReaperClient
from mcpproxy_py.upstream.session.connection import RpcConnection
from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.transports.in_process import InProcessServer, open_local
from mcpproxy_py.upstream.transports.stdio import open_stdio

if TYPE_CHECKING:
    from mcpproxy_py.upstream.transports.http_clients import AuthFor, HttpClients


class Dialer:
    def __init__(
        self, reaper: ReaperClient, local: Mapping[str, InProcessServer], max_result_bytes: int,
        auth_for: AuthFor | None = None, traced: bool = False, max_values: int = MAX_VALUES,
    ) -> None:  # fmt: skip
        self.reaper = reaper
        self._local = local
        self._limits = {"max_result_bytes": max_result_bytes, "max_values": max_values}
        self._auth_for = auth_for
        self._traced = traced

    def open(self, spec: UpstreamSpec, log: ServerLog, number: int = 1) -> AbstractAsyncContextManager[RpcConnection]:
        """`number` tells a server's sessions apart, so that one can end without the others. Raises `UpstreamFailure`,
        here or on entering, when there is nothing to connect to."""
        if spec.missing_secret is not None:
            raise UpstreamFailure(Code.SERVER_UNAVAILABLE, spec.missing_secret, sent=False)
        match spec.transport:
            case "stdio":
                mark = spec.name if number == 1 else f"{spec.name}~{number}"
                return open_stdio(spec, reaper=self.reaper, log=log, mark=mark, **self._limits)
            case "http":
                from mcpproxy_py.upstream.transports.streamable_http import open_streamable

                return open_streamable(spec, web=self._http_clients, **self._limits)
            case "sse":
                from mcpproxy_py.upstream.transports.legacy_sse import open_sse

                return open_sse(spec, web=self._http_clients, **self._limits)
            case "local":
                return open_local(spec.name, self._built_in(spec.name), **self._limits)

    @cached_property
    def _http_clients(self) -> HttpClients:
        from mcpproxy_py.upstream.transports.http_clients import HttpClients

        return HttpClients(self._auth_for, self._traced)

    def _built_in(self, name: str) -> InProcessServer:
        if name not in self._local:
            raise UpstreamFailure(Code.SERVER_UNAVAILABLE, f"there is no built-in server {name!r}", sent=False)
        return self._local[name]
