"""What a change of a server, or of the class of tools, would do: said before it is made, in sentences for people.

Everything is checked as it would be by the change, and nothing is written, started or recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import anyio.to_thread
from pydantic import Field, WithJsonSchema

from mcpproxy_py.core.policy.tool_class import by_class, class_of
from mcpproxy_py.core.policy.tool_names import NameSet, own_entry
from mcpproxy_py.core.record.class_effects import counted_class, effect, said
from mcpproxy_py.core.values import RANK, Override, Server, ToolClass
from mcpproxy_py.errors import Code
from mcpproxy_py.serve.http.asgi import bad_request
from mcpproxy_py.serve.rest import requests
from mcpproxy_py.serve.rest.endpoint import RestEndpoint, RestRequest
from mcpproxy_py.serve.rest.requests import BodyModel
from mcpproxy_py.serve.rest.responses import ResponseModel, ToolsByClass
from mcpproxy_py.serve.rest.routes.servers import find_tool, must_know
from mcpproxy_py.settings.masking import masked_entry
from mcpproxy_py.store.activity.reader import Filters

PAST_CALLS: Final = 200
MOST_LOOKED_AT: Final = 20
"""Tools of one preview whose past calls are read."""
ServerAction = Literal["add", "replace", "remove", "enable", "disable", "restart"]


class ServerPreviewBody(BodyModel):
    action: ServerAction = Field(description="What is about to be done to it")
    name: Annotated[str, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 1000})] = Field(
        min_length=1, max_length=1000, description="The server"
    )
    config: Annotated[
        dict[str, Any] | None, WithJsonSchema({"type": ["object", "null"], "additionalProperties": True})
    ] = Field(None, description="Of `add` and `replace`: as under `mcpServers` in the configuration")
    check: bool = Field(True, description="Whether it is refused where one of its secrets is missing")


class ServerPreview(ResponseModel):
    name: str
    action: ServerAction
    says: list[str] = Field(description="What it does, in the order in which it matters")
    looser: list[str] = Field(description="What is permitted that was refused before")
    tighter: list[str]
    tools_by_class: ToolsByClass = Field(description="The tools that it has now")
    in_flight: int = Field(description="Calls of it that are under way")
    profiles: list[str] = Field(description="Profiles that name it")
    config: dict[str, Any] | None = Field(description="The entry as it would be, secrets masked")


class ClassPreviewBody(requests.ToolClasses):
    server: requests.Text = Field(description="The server of these tools")


class PastCalls(ResponseModel):
    looked_at: int = Field(description=f"Records of calls of it, the newest {PAST_CALLS} at most")
    refused: int = Field(description="Of these, how many went through and would have been refused")
    allowed: int = Field(description="How many were refused for the class and would have gone through")
    asked: int = Field(description="How many went through without a question, and a person would have been asked")
    examples: list[dict[str, Any]] = Field(description="Some of them: `id`, `timestamp` and `would`")


class ClassPreview(ResponseModel):
    tool: str
    before: ToolClass = Field(description="What it counts as now, at most")
    after: ToolClass
    lowers: bool = Field(description="Whether it is lower than now")
    calls: PastCalls | None = Field(description=f"null for tools beyond the first {MOST_LOOKED_AT}")
    says: str


class ClassPreviews(ResponseModel):
    tools: list[ClassPreview]


async def preview_server(x: RestRequest) -> Mapping[str, Any]:
    body = x.body
    if (body.config is None) == (body.action in ("add", "replace")):
        needs = "needs" if body.config is None else "takes no"
        raise bad_request(f"`{body.action}` {needs} `config`", key="config")
    entry = body.config or await x.parts.operator.server_entry(body.name)
    if body.action != "add":
        rows = x.parts.operator.describe_servers()
        if entry is None or body.config is not None:
            must_know(body.name, (row["name"] for row in rows), "server")
    found = await _tried(x)
    server = x.parts.gateway.snapshot.servers.get(body.name)
    row = next((each for each in x.parts.operator.describe_servers() if each["name"] == body.name), {})
    profiles = [name for name, each in _profiles(x).items() if body.name in (each.get("servers") or ())]
    says = list(_sentences(body.action, body.name, masked_entry(entry or {}), server, row, profiles))
    return {
        "name": body.name, "action": body.action, "says": says, "looser": found["looser"],
        "tighter": found["tighter"], "tools_by_class": by_class(server.tools.values() if server else ()),
        "in_flight": row.get("in_flight", 0), "profiles": profiles, "config": entry and masked_entry(entry),
    }  # fmt: skip


async def _tried(x: RestRequest) -> Mapping[str, list[str]]:
    """As the change would be checked. Raises `GatewayError` for what would be refused."""
    body, operator = x.body, x.parts.operator
    match body.action:
        case "add" | "replace":
            again, check = body.action == "replace", body.check
            return await operator.tried(
                lambda file: file.put_server(body.name, body.config, replace=again, secrets_must_be_there=check)
            )
        case "remove":
            return await operator.tried(lambda file: file.drop_server(body.name))
        case "enable" | "disable":
            return await operator.tried(lambda file: file.set_enabled(body.name, body.action == "enable"))
        case _:
            return {"looser": [], "tighter": []}


def _profiles(x: RestRequest) -> Mapping[str, Any]:
    return x.parts.operator.shown_config().get("profiles") or {}


def _sentences(
    action: str, name: str, entry: Mapping[str, Any], server: Server | None, row: Mapping[str, Any],
    profiles: Sequence[str],
) -> Iterator[str]:  # fmt: skip
    tools = len(server.tools) if server else 0
    if action in ("add", "replace", "enable", "restart") and entry.get("enabled", True) in (True, action == "restart"):
        yield from _begins(entry)
    if action in ("remove", "disable") and tools:
        yield f"{_count(tools, 'tool')} of it can no longer be found or called."
    if action != "add" and (flying := row.get("in_flight", 0)):
        yield f"{_count(flying, 'call')} of it {'is' if flying == 1 else 'are'} under way and will be ended."
    if action in ("replace", "restart"):
        yield "Its connection is ended and made anew; calls of it wait until it is back."
    if action == "remove":
        yield "Its entry goes from the configuration file, with its class overrides and its lists of tools."
    if action == "disable":
        yield "Its entry stays in the configuration file, so it can be enabled again."
    if action == "add":
        yield "Agents without a narrower token or profile can find and call its tools at once."
        if entry.get("trust") == "manual":
            yield "Nothing that it lists can be called until you approve it."
        else:
            yield "What it lists first is approved as it is; what it changes later is judged, and may wait for you."
    if profiles:
        names = "names" if len(profiles) == 1 else "name"
        yield f"{_count(len(profiles), 'profile')} {names} it: {', '.join(profiles)}."


def _begins(entry: Mapping[str, Any]) -> Iterator[str]:
    """What is started or reached, from the entry as it may be shown."""
    if entry.get("command"):
        line = " ".join(map(str, [entry["command"], *(entry.get("args") or ())]))
        when = "On first use it" if entry.get("lazy") else "It"
        yield f"{when} starts `{line}` on the gateway's machine, which can do there what its user can."
        if entry.get("env"):
            yield f"The command is given these variables: {', '.join(map(str, entry['env']))}."
    elif entry.get("url"):
        host = urlsplit(str(entry["url"])).netloc.rpartition("@")[2]
        yield f"It connects to {host}, which sees every call of its tools, with the arguments."
        if entry.get("headers"):
            yield f"These headers go there with each request: {', '.join(map(str, entry['headers']))}."


def _count(number: int, what: str) -> str:
    return f"{number} {what if number == 1 else what + 's'}"


async def preview_classes(x: RestRequest) -> Mapping[str, Any]:
    body, snapshot = x.body, x.parts.gateway.snapshot
    must_know(body.server, snapshot.servers, "server")
    await x.parts.operator.tried(lambda file: file.set_classes(body.server, body.tools))
    configured = (x.parts.operator.shown_config().get("mcpServers") or {}).get(body.server) or {}
    await x.parts.store.caught_up()
    found = [
        await _preview(x, name, override, configured.get("tools") or {}, with_calls=number < MOST_LOOKED_AT)
        for number, (name, override) in enumerate(body.tools.items())
    ]
    return {"tools": found}


async def _preview(
    x: RestRequest, name: str, override: Any, overrides: Mapping[str, Any], *, with_calls: bool
) -> dict[str, Any]:
    snapshot = x.parts.gateway.snapshot
    server, policy = snapshot.servers[x.body.server], snapshot.policy
    full_name = f"{server.name}:{name}"
    tool = find_tool(snapshot, full_name)
    if tool is None:
        return {"tool": full_name, "before": "unknown", "after": "unknown", "lowers": False, "calls": None,
                "says": f"{server.name} lists no such tool now; it applies when it does."}  # fmt: skip
    after = replace(tool, overrides=_overrides(name, override, overrides))
    was, now = class_of(tool, None)[0], class_of(after, None)[0]
    lowers = RANK[counted_class(after, policy)] < RANK[counted_class(tool, policy)]
    line = f"{full_name} goes from {was} to {now}." if was != now else f"{full_name} stays {now}."
    if was == "unknown" and now == "read":
        line += " A freeze and `confirm` took it for a write, and no longer will."
    answer = {"tool": full_name, "before": was, "after": now, "lowers": lowers or _drops(was, now)}
    if not with_calls:
        return {**answer, "calls": None, "says": line}
    page = await x.parts.store.activities(Filters(type="tool_call", server=server.name, tool=name, limit=PAST_CALLS))
    past = await anyio.to_thread.run_sync(effect, page.activities, tool, after, policy, server.confirm)
    return {**answer, "calls": past._asdict(), "says": f"{line} {said(past)}"}


def _drops(was: ToolClass, now: ToolClass) -> bool:
    return RANK[now] < RANK[was]


def _overrides(name: str, wanted: Any, overrides: Mapping[str, Any]) -> tuple[tuple[Override, ...], ...]:
    """Those that the tool would have. An entry of its own goes before globs; of several globs all count."""
    if wanted is not None:
        return (_entries(wanted),)
    own = own_entry(name, overrides)
    left = {key: each for key, each in overrides.items() if key != own}
    return tuple(_entries(left[key]) for key in NameSet(left).closest(name))


def _entries(wanted: Any) -> tuple[Override, ...]:
    """Only the highest class is asked for, so that what a `when` says does not matter."""
    if isinstance(wanted, str):
        return (Override(wanted),)  # type: ignore[arg-type]
    return tuple(Override(each["class"], _never if each.get("when") is not None else None) for each in wanted)


def _never(args: Mapping[str, Any]) -> bool:
    return False


_GROUP: Final = "Previews"

ENDPOINTS: Final = (
    RestEndpoint("POST", "/api/v1/preview/server", _GROUP, "What adding, changing or removing a server would do",
                 preview_server, ServerPreview, body=ServerPreviewBody,
                 refusals=(Code.NOT_FOUND, Code.CONFLICT, Code.CONFIG_INVALID),
                 more="Nothing is written or started, and what the change would refuse is refused."),
    RestEndpoint("POST", "/api/v1/preview/tools", _GROUP, "What other classes of tools would do, to past calls too",
                 preview_classes, ClassPreviews, body=ClassPreviewBody,
                 refusals=(Code.NOT_FOUND, Code.CONFIG_INVALID, Code.STORE_UNAVAILABLE),
                 more="By the records of the newest calls of each tool. Nothing is written."),
)  # fmt: skip
