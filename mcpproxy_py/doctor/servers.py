"""Whether the configured servers can be had, without starting any of them: is there such a command, does anything
answer there. Whether it then speaks MCP, a running gateway knows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import httpx2

from mcpproxy_py.app.builtin_upstreams import server_specs
from mcpproxy_py.core.protocol.constants import LATEST_MODERN
from mcpproxy_py.doctor.running import CheckResult, CheckWarning, Look, found
from mcpproxy_py.errors import Code, GatewayError, UpstreamFailure
from mcpproxy_py.jsonrpc import encode, request_object
from mcpproxy_py.settings import Settings
from mcpproxy_py.upstream.processes.command import child_environment, resolve
from mcpproxy_py.upstream.session.session import VersionStamp
from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.transports.http_clients import BROKEN, HttpClients, stream
from mcpproxy_py.upstream.transports.http_exchange import EVENTS
from mcpproxy_py.upstream.transports.streamable_http import JSON_OR_EVENTS

AT_ONCE: Final = 16
"""Dead addresses take their time, and need not take it one after the other."""
DISCOVER: Final = "server/discover"
"""Opens no session. A server that does not know it says so, and that is an answer too."""
TURNED_AWAY: Final[Mapping[int, str]] = {
    401: "it requires a credential: `mcpproxy upstream login`, or give what it asks for under `headers`",
    403: "it denies access: see what it asks for under `headers`",
    404: "there is nothing at that path: check the address in its documentation",
    405: "it accepts no requests there: if it is a legacy server, set `transport` to `sse`",
    410: "it is not there any more: see its documentation",
}


def within_reach(settings: Settings) -> Iterator[CheckResult]:
    web = HttpClients()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        yield from threads.map(partial(_looked_for, web), server_specs(settings).values())


def commands(settings: Settings) -> Iterator[CheckResult]:
    """Only whether the commands of servers can be found: nothing is asked of anybody else's machine."""
    for spec in server_specs(settings).values():
        if spec.enabled and spec.transport == "stdio":
            yield found(f"server {spec.name}", partial(_command, spec))


def _looked_for(web: HttpClients, spec: UpstreamSpec) -> CheckResult:
    if not spec.enabled:
        return CheckResult(f"server {spec.name}", "ok", "is disabled")
    if (why := spec.missing_secret) is not None:
        return CheckResult(f"server {spec.name}", "problem", f"it cannot start: {why}")
    look: Look = partial(_command, spec) if spec.transport == "stdio" else lambda: anyio.run(_answer, web, spec)
    return found(f"server {spec.name}", look)


def _command(spec: UpstreamSpec) -> str:
    try:
        return f"starts {resolve(spec, child_environment(spec, os.environ, {})).program}"
    except UpstreamFailure as failure:
        raise _unavailable(failure.message) from None


async def _answer(web: HttpClients, spec: UpstreamSpec) -> str:
    """By the way that calls would go. Only the host is named: the rest of an address may be a secret."""
    where = urlsplit(spec.url or "").netloc.rpartition("@")[2]
    try:
        with anyio.fail_after(spec.connect_timeout):
            async with web.client(spec) as client, stream(client, **_request(spec)) as answer:
                return _understood(where, answer.status_code)
    except (TimeoutError, httpx2.TimeoutException):
        raise _unavailable(f"{where} does not answer within {spec.connect_timeout:g} s") from None
    except (*BROKEN, ValueError) as error:
        raise _unavailable(f"{where} cannot be reached: {_why(error)}") from None


def _request(spec: UpstreamSpec) -> dict[str, Any]:
    if spec.transport == "sse":
        return {"method": "GET", "url": spec.url, "headers": {"accept": EVENTS}}
    stamp = VersionStamp("modern", LATEST_MODERN)
    question = encode(request_object(1, DISCOVER, stamp.params({}), wants_progress=False))
    return {"method": "POST", "url": spec.url, "headers": {**stamp.headers(DISCOVER, {}), **JSON_OR_EVENTS},
            "content": question}  # fmt: skip


def _understood(where: str, status: int) -> str:
    if status in TURNED_AWAY:
        raise _unavailable(f"{where} answers {status}; {TURNED_AWAY[status]}")
    if status >= 500:
        raise _unavailable(f"{where} answers {status}: it fails itself; its own log says why")
    if 300 <= status < 400:
        raise CheckWarning(f"{where} answers {status} and redirects; write the address where it sends us instead")
    return f"{where} answers"


def _why(error: Exception) -> str:
    said = str(error) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in said:
        return "its certificate is not trusted here; SSL_CERT_FILE can name your own certificate authority"
    if "Name or service not known" in said or "nodename nor servname" in said:
        return "there is no host of that name; check the spelling and your network"
    return f"{said}; see that it runs, and that its address is right"


def _unavailable(why: str) -> GatewayError:
    return GatewayError(Code.SERVER_UNAVAILABLE, why)
