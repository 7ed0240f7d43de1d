"""One row of the REST interface, from which the route, the OpenAPI document and the reference page are made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel
from starlette.requests import Request

from mcpproxy_py.core.values import Ask, Caller
from mcpproxy_py.errors import Code
from mcpproxy_py.serve.rest.endpoint import Parts
from mcpproxy_py.serve.rest.requests import NoQuery

SURFACE = "rest"

Guarded = Literal["admin", "agent", "metrics", "open"]
"""Whose door it is; `agent` is that of the MCP surfaces."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request whose every part has been checked, and what it takes to answer it."""

    parts: Parts
    caller: Caller
    path: Mapping[str, str]
    query: Any
    """An instance of the endpoint's `query` model."""
    body: Any
    """An instance of the endpoint's `body` model, `None` where it takes none."""
    request: Request

    def ask(self, tool: str, params: Mapping[str, Any]) -> Ask:
        """What this caller wants of the gateway, as the same kind of ask every other door makes."""
        return self.parts.gateway.new_ask(
            tool,
            params,
            source=self.caller.source,
            surface=SURFACE,
            principal=self.caller.principal,
            client=self.caller.client,
            request_id=self.caller.request_id,
        )


Handler = Callable[[Exchange], Awaitable[Any]]
"""Gives something JSON can hold, or a whole `Response`. Raises `GatewayError`."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`refusals` are the codes of its own; those every endpoint shares are added where it is described."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    group: str
    summary: str
    handler: Handler
    answer: type[BaseModel] | None
    query: type[BaseModel] = NoQuery
    body: type[BaseModel] | None = None
    status: int = 200
    refusals: tuple[Code, ...] = ()
    media: tuple[str, ...] = ("application/json",)
    guarded: Guarded = "admin"
    more: str = ""
    """What the summary has no room for."""

    @property
    def shown_path(self) -> str:
        """The path without the converters that only the router reads."""
        return self.path.replace(":path}", "}")

    @property
    def shared_refusals(self) -> tuple[Code, ...]:
        if self.guarded == "open":
            return (Code.BAD_REQUEST, Code.INTERNAL)
        large = (Code.TOO_LARGE,) if self.body else ()
        return (Code.BAD_REQUEST, Code.UNAUTHORIZED, Code.FOREIGN_HOST, Code.FOREIGN_ORIGIN, *large, Code.INTERNAL)

    @property
    def all_refusals(self) -> tuple[Code, ...]:
        return tuple(dict.fromkeys((*self.shared_refusals, *self.refusals)))
