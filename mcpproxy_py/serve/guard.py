"""The one door: what every HTTP request must pass before any surface hears of it (SEC-1, API-2).

In this order, and the first that fails answers:

1. headers that decide something come once     400
2. the `Host` is ours                          421 (except for the two probes)
3. the `Origin`, where there is one, is ours   403 (the same)
4. the credential fits the door                401
5. the body is not too long                    413 (declared or streamed)

`admission` decides the first four; here is what takes sending and receiving.
"""

from __future__ import annotations

import logging
import random
import re
import sys
import time
from collections.abc import Mapping
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from mcpproxy_py.core.jsonvalue import quoted
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.serve.admission import Admission, GuardRules, request_id, single_headers
from mcpproxy_py.serve.head import Headers, head_of
from mcpproxy_py.serve.visit import Visit, begin
from mcpproxy_py.serve.wire import bad_request, error_answer

__all__ = ["Guard", "GuardRules"]

log = logging.getLogger("mcpproxy.http")

_FIT_TO_LOG: Final = re.compile(rb"[\x21-\x7e]{1,128}")
MOST_DIGITS: Final = 18
"""Of a declared length that are read; more are too long a body all the same."""
_CHALLENGE: Final = {"www-authenticate": 'Bearer realm="mcpproxy"'}


class Guard:
    """ASGI middleware around the whole application.

    It leaves a `Visit` for those behind it, and `scope["state"]["principal"]` (`admin`, `agent`, `local`) and
    `["request_id"]` for those who know ASGI only. Every exception that nobody caught it answers with a 500 that gives
    nothing away.
    """

    def __init__(self, app: ASGIApp, rules: GuardRules) -> None:
        self.app = app
        self.last = time.monotonic()
        """When somebody who may last wanted something; a detached gateway ends when that is long ago."""
        self.use(rules)

    def use(self, rules: GuardRules) -> None:
        """Requests from now on obey these rules."""
        self._admission = Admission(rules)
        self._max_body_bytes = rules.max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._something_else(scope, receive, send)
            return
        head = head_of(scope)
        named = head.once(_own_name) or random.randbytes(8).hex()
        scope.setdefault("state", {})["request_id"] = named
        visit = Visit(scope, head, receive, send, named, self._max_body_bytes)
        remembered = request_id.set(named)
        try:
            await self._serve(scope, visit)
        except GatewayError as error:
            await _refuse(scope, visit, error)
        except Exception:
            await _failed(scope, visit)
        finally:
            request_id.reset(remembered)

    async def _something_else(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": "not served here"})

    async def _serve(self, scope: Scope, visit: Visit) -> None:
        seen = visit.head.once(single_headers)
        visit.principal = self._admission.principal(scope["path"], seen, scope.get("client"))
        visit.declared(visit.head.once(_declared_length))
        self.last = time.monotonic()
        scope["state"]["principal"] = visit.principal
        begin(scope, visit)
        await self.app(scope, visit.receive, visit.send)
        visit.check()
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s %s", scope["method"], quoted(scope["path"]))


async def _refuse(scope: Scope, visit: Visit, error: GatewayError) -> None:
    log.warning("%s %s: %s (%s)", scope["method"], quoted(scope["path"]), error.message, error.code.value)
    await _answer(scope, visit, error, _CHALLENGE if error.code is Code.UNAUTHORIZED else None)


async def _failed(scope: Scope, visit: Visit) -> None:
    """A bug of ours, or of a surface. An answer under way can only be cut off, which raising does."""
    log.exception("%s %s failed", scope["method"], quoted(scope["path"]))
    if visit.started:
        raise
    details = {"request_id": visit.request_id}
    await _answer(scope, visit, GatewayError(Code.INTERNAL, "Something went wrong in the gateway", details=details))


async def _answer(scope: Scope, visit: Visit, error: GatewayError, headers: Mapping[str, str] | None = None) -> None:
    """The answer of the guard's own, unless another is under way: that one stays cut off."""
    if not visit.started:
        await error_answer(error, headers)(scope, visit.receive, visit.override)


def _own_name(headers: Headers) -> str | None:
    """The caller's own id for its request, if it is one that can stand in a log line."""
    own = dict(headers).get(b"x-request-id")
    return own.decode("ascii") if own is not None and _FIT_TO_LOG.fullmatch(own) else None


def _declared_length(headers: Headers) -> int:
    length = dict(headers).get(b"content-length", b"0")
    if not length.isdigit():
        raise bad_request("The content-length header is not a number", header="content-length")
    return int(length) if len(length) <= MOST_DIGITS else sys.maxsize
