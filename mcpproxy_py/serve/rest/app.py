"""The REST interface: one table of endpoints, and the router made from it (API-1)."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.policy.scope import NOTHING_IN_SCOPE, Access
from mcpproxy_py.core.record.masking import Masker
from mcpproxy_py.core.values import Caller, ClientInfo
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.gateway.access.profiles import ProfileTable
from mcpproxy_py.gateway.masker import MASKER
from mcpproxy_py.gateway.page.records import PageAccess
from mcpproxy_py.gateway.page.sessions import CLIENT, PageSessions
from mcpproxy_py.serve.http.asgi import answer, error_answer
from mcpproxy_py.serve.rest import requests as rest_requests
from mcpproxy_py.serve.rest import responses
from mcpproxy_py.serve.rest.endpoint import (
    RestAdmin,
    RestApprovals,
    RestConfirmations,
    RestEndpoint,
    RestGateway,
    RestPins,
    RestRegistries,
    RestRequest,
    RestServices,
    RestStore,
    RestTokens,
)
from mcpproxy_py.serve.rest.openapi import document
from mcpproxy_py.serve.rest.routes import (
    activity,
    calls,
    catalog,
    confirmations,
    logins,
    pins,
    previews,
    requests,
    servers,
    settings,
    system,
    tokens,
)
from mcpproxy_py.serve.rest.routes.page import PAGE_ENDPOINTS
from mcpproxy_py.serve.rest.routes.profiles import PROFILE_ENDPOINTS

NOBODY: Final = Access("nobody", lambda: NOTHING_IN_SCOPE)
CLIENT_HEADER: Final = "x-mcpproxy-client"
_PRODUCT: Final = re.compile(r"([\x21-\x2e\x30-\x7e]{1,64})(?:/([\x21-\x7e]{1,64}))?(?:\s|$)")


async def openapi(x: RestRequest) -> Mapping[str, Any]:
    return document(ENDPOINTS)


ENDPOINTS: Final[tuple[RestEndpoint, ...]] = (
    *system.ENDPOINTS,
    RestEndpoint(
        "GET",
        "/api/v1/openapi.json",
        "Gateway",
        "All this, as OpenAPI 3.1",
        openapi,
        responses.OpenApiAnswer,
        masked=False,
    ),
    *calls.CALL_ENDPOINTS,
    *servers.ENDPOINTS,
    *logins.ENDPOINTS,
    *activity.ACTIVITY_ENDPOINTS,
    *activity.EVENT_ENDPOINTS,
    *requests.APPROVAL_ENDPOINTS,
    *confirmations.CONFIRMATION_ENDPOINTS,
    *requests.GAP_ENDPOINTS,
    *pins.ENDPOINTS,
    *tokens.TOKEN_ENDPOINTS,
    *PROFILE_ENDPOINTS,
    *PAGE_ENDPOINTS,
    *catalog.ENDPOINTS,
    *settings.ENDPOINTS,
    *previews.ENDPOINTS,
    *calls.DISCOVERY_ENDPOINTS,
)
"""In this order the router tries them: fixed paths stand before those with a name in them."""


def rest_app(
    gateway: RestGateway, store: RestStore, operator: RestAdmin, approvals: RestApprovals,
    waiting_calls: RestConfirmations, agent_tokens: RestTokens, server_pins: RestPins, masker: Masker = MASKER,
    profiles: ProfileTable | None = None, page: PageSessions | None = None, registries: RestRegistries | None = None, *,
    began: float | None = None,
) -> ASGIApp:  # fmt: skip
    """Everything over HTTP that is not MCP; what is left is a 404. The guard must stand in front of it. `began` is when
    the gateway did, by the monotonic clock."""
    began = time.monotonic() if began is None else began
    parts = RestServices(gateway, store, operator, approvals, waiting_calls, agent_tokens, server_pins, began, masker)
    parts = replace(parts, page=page, registries=registries, profiles=parts.profiles if profiles is None else profiles)
    return Router(_routes(parts), redirect_slashes=False, default=_nothing_here)


def _routes(parts: RestServices) -> list[BaseRoute]:
    by_path: defaultdict[str, dict[str, RestEndpoint]] = defaultdict(dict)
    for endpoint in ENDPOINTS:
        by_path[endpoint.path][endpoint.method] = endpoint
    return [Route(path, _Path(methods, parts)) for path, methods in by_path.items()]


class _Path:
    """One path: its methods, and the same way through each of them."""

    def __init__(self, methods: Mapping[str, RestEndpoint], parts: RestServices) -> None:
        self._methods = {**methods, **({"HEAD": methods["GET"]} if "GET" in methods else {})}
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._respond(Request(scope, receive, send))
        except ClientDisconnect:
            return  # nobody is left to answer
        except GatewayError as error:
            allow = {"allow": ", ".join(self._methods)} if error.code is Code.METHOD_NOT_ALLOWED else None
            response = error_answer(error, allow)
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        endpoint = self._methods.get(request.method)
        if endpoint is None:
            allowed = ", ".join(self._methods)
            raise GatewayError(Code.METHOD_NOT_ALLOWED, f"This takes {allowed}, not {quoted(request.method)}")
        caller = _caller(request)
        if (
            endpoint.guarded in ("admin", "key", "own")
            and caller.principal != "admin"
            and not _is_own(endpoint, request)
        ):
            raise GatewayError(Code.UNAUTHORIZED, "This needs the admin key")  # the guard's work; twice holds better
        if endpoint.guarded == "key" and _of_page(request):
            raise GatewayError(Code.KEY_NEEDED, "This needs the admin key itself, and is not done from the page")
        given = await endpoint.handler(
            RestRequest(
                self._parts,
                caller,
                request.path_params,
                rest_requests.query(endpoint.query, request.scope["query_string"]),
                await rest_requests.body(endpoint.body, request),
                request,
            )
        )
        if isinstance(given, Response):
            return given
        return answer(self._parts.masker.mask(given) if endpoint.masked else given, endpoint.status)


def _of_page(request: Request) -> bool:
    return isinstance(request.scope.get("state", {}).get("access"), PageAccess)


def _is_own(endpoint: RestEndpoint, request: Request) -> bool:
    """Of an agent, which the guard let in to read what is its own. The handler keeps to that."""
    access = request.scope.get("state", {}).get("access")
    return endpoint.guarded == "own" and access is not None and not access.everything


def _caller(request: Request) -> Caller:
    state: Mapping[str, Any] = request.scope.get("state", {})
    client = CLIENT if _of_page(request) else _client(request)
    source = "cli" if client.name == "cli" else "api"
    access: Access = state.get("access", NOBODY)
    return Caller(access.principal, source, client, state.get("request_id"), None if access.everything else access)


def _client(request: Request) -> ClientInfo:
    """Who it says it is: our own header, else the first product of the user agent."""
    claimed = request.headers.get(CLIENT_HEADER)
    found = _PRODUCT.match(claimed if claimed is not None else request.headers.get("user-agent", ""))
    if not found or (claimed is None and found[1] == "cli") or found[1] == CLIENT.name:
        return ClientInfo()
    return ClientInfo(found[1], found[2] or "")


async def _nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    error = GatewayError(Code.NOT_FOUND, f"There is nothing at {quoted(scope['path'])}")
    await error_answer(error)(scope, receive, send)
