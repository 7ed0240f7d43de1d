"""Profiles, as they are in force: what is in each, and what it tightens (SURF-12)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from pydantic import Field

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.policy.scope import Access, Scope, narrowed
from mcpproxy_py.core.policy.tool_class import by_class, class_of
from mcpproxy_py.core.search.tokens import nearest
from mcpproxy_py.core.values import Ask, Server, Tool
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.gateway.access.profiles import tightens, without_effect
from mcpproxy_py.serve.rest.endpoint import RestEndpoint, RestRequest
from mcpproxy_py.serve.rest.responses import ResponseModel, ToolsByClass

MOST_TOOLS: Final = 1000
"""Names that are listed of one profile."""


class ProfileAnswer(ResponseModel):
    name: str
    description: str | None = None
    servers: list[str] = Field(description="As it names them")
    tools: list[str] | None = Field(None, description="The globs of its tools; none: all")
    operations: list[str]
    unannotated: str
    confirm: str
    confirm_by: str
    strict: bool
    tightens: list[str] = Field(description="What it forbids beyond what the gateway does anyway")
    without_effect: list[str] = Field(description="Its names that mean nothing at this moment")
    tools_by_class: ToolsByClass


class ProfileServer(ResponseModel):
    name: str
    state: str
    tools_by_class: ToolsByClass


class ToolInProfile(ResponseModel):
    name: str
    tool_class: str = Field(alias="class", description="The highest that a call of it can have")


class ProfileInFull(ProfileAnswer):
    in_reach: list[ProfileServer]
    tools_in_reach: list[ToolInProfile] = Field(description=f"{MOST_TOOLS} at most")


class ProfileList(ResponseModel):
    profiles: list[ProfileAnswer]


async def list_profiles(x: RestRequest) -> Mapping[str, Any]:
    return {"profiles": [_described(x, name) for name in x.parts.profiles]}


async def show_profile(x: RestRequest) -> Mapping[str, Any]:
    name = x.path["name"]
    must_know(x, name)
    inside = narrowed(x.parts.gateway.snapshot, x.parts.profiles.scope(name))
    servers = [*inside.servers.values()]
    return {
        **_described(x, name),
        "in_reach": [
            {"name": each.name, "state": each.state, "tools_by_class": by_class(_tools(each))} for each in servers
        ],
        "tools_in_reach": [
            {"name": tool.full_name, "class": class_of(tool, None)[0]}
            for tool in islice((tool for each in servers for tool in _tools(each)), MOST_TOOLS)
        ],
    }


def must_know(x: RestRequest, name: str) -> None:
    if name not in x.parts.profiles:
        near = nearest(name, list(x.parts.profiles))
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise GatewayError(Code.NOT_FOUND, f"There is no profile '{quoted(name)}'{hint}", details={"nearest": near})


def in_profile(x: RestRequest, ask: Ask, name: str | None) -> Ask:
    """The same ask, as it would be in a profile. Raises `GatewayError` for an unknown one."""
    if name is None:
        return ask
    must_know(x, name)
    access = ask.access or Access(ask.principal)
    return ask._replace(access=access.within(x.parts.profiles.scope_of(name)))


def _tools(server: Server) -> Iterator[Tool]:
    """Those that the operator's own lists let be called."""
    return (tool for tool in server.tools.values() if server.offers(tool.name))


def _described(x: RestRequest, name: str) -> dict[str, Any]:
    """As it is in force; what it is for is only in the configuration."""
    snapshot, scope = x.parts.gateway.snapshot, x.parts.profiles.scope(name)
    configured = x.parts.operator.shown_config().get("profiles", {}).get(name, {})
    inside = narrowed(snapshot, scope)
    return {
        "name": name,
        "description": configured.get("description"),
        **_as_configured(scope),
        "tightens": tightens(scope, snapshot.policy),
        "without_effect": without_effect(scope, snapshot),
        "tools_by_class": by_class(tool for server in inside.servers.values() for tool in _tools(server)),
    }


def _as_configured(scope: Scope) -> dict[str, Any]:
    """A reload can leave more than one list in force for a moment: then what is in all of them is meant."""
    operations = ("read", "write", "destructive")
    return {
        "servers": [name for name in scope.servers[0] if all(name in each for each in scope.servers)],
        "tools": [glob for globs in scope.tools for glob in globs] or None,
        "operations": list(operations[: operations.index(scope.ceiling) + 1]),
        "unannotated": scope.unannotated,
        "confirm": scope.confirm,
        "confirm_by": scope.confirm_by,
        "strict": scope.strict,
    }


_GROUP: Final = "Profiles"

PROFILE_ENDPOINTS: Final = (
    RestEndpoint("GET", "/api/v1/profiles", _GROUP, "The profiles of the configuration", list_profiles, ProfileList),
    RestEndpoint("GET", "/api/v1/profiles/{name}", _GROUP, "One profile, and what is in it now", show_profile,
             ProfileInFull, refusals=(Code.NOT_FOUND,)),
)  # fmt: skip
