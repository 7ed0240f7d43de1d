"""Asks over REST: call, search and explain. Each is an ask like any other, decided and recorded by the gateway.

What an agent discovers over plain HTTP, by the door of the MCP surfaces (CAT-5).

The lists of tools are looked up, as `tools/list` is. What the catalog answers is an ask, decided and recorded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

import anyio
import anyio.to_thread
from starlette.requests import ClientDisconnect, Request

from mcpproxy_py.core.json_values import same
from mcpproxy_py.core.policy import confirmation
from mcpproxy_py.core.policy.tool_class import call_with
from mcpproxy_py.core.policy.tool_results import refusal_json
from mcpproxy_py.core.search.tool_search import unavailable_reason
from mcpproxy_py.core.values import VARIANT_OF, Operation, Refusal, Relay, Route, Snapshot, Tool
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.serve.rest import requests, responses
from mcpproxy_py.serve.rest.confirmations import AnsweredBefore
from mcpproxy_py.serve.rest.endpoint import RestEndpoint, RestReply, RestRequest
from mcpproxy_py.serve.rest.routes.profiles import in_profile
from mcpproxy_py.serve.rest.routes.servers import find_tool

T = TypeVar("T")

REFUSALS: Final = (
    Code.MISSING_INTENT, Code.MISSING_OPERATION_TYPE, Code.INVALID_OPERATION_TYPE, Code.INVALID_INTENT,
    Code.INTENT_CONFLICT, Code.INTENT_MISMATCH, Code.SERVER_MISMATCH, Code.INVALID_SENSITIVITY, Code.REASON_TOO_LONG,
    Code.INVALID_NAME, Code.ARGS_CONFLICT, Code.INVALID_ARGUMENTS, Code.TOOL_NOT_FOUND, Code.TOOL_UNAVAILABLE,
    Code.SERVER_UNAVAILABLE, Code.OVERLOADED, Code.TIMEOUT, Code.STORE_UNAVAILABLE, Code.NOT_CONFIRMED, Code.FROZEN,
    Code.UPSTREAM_ERROR,
)  # fmt: skip


async def call_tool(x: RestRequest) -> Mapping[str, Any]:
    ask = x.ask(VARIANT_OF[x.body.variant], x.body.params())
    said, channel = x.body.confirmation, None
    if said is not None:
        shown = x.parts.questions.take(said.token, x.caller.principal)
        channel = AnsweredBefore(x.caller, shown and shown.text, said.model_dump())
        ask = ask if shown is None else ask._replace(asked_by=partial(same, shown.server))
    reply = await while_connected(x.request, x.parts.gateway.call(ask, channel))
    if reply.refusal is not None:
        refuse(reply.refusal, reply.id)
    return {"id": reply.id, "status": reply.status, "result": reply.result, "warning": reply.warning}


async def question(x: RestRequest) -> Mapping[str, Any]:
    gateway = x.parts.gateway
    to = await gateway.decides(in_profile(x, x.ask(VARIANT_OF[x.body.variant], x.body.params()), x.body.profile))
    if not (isinstance(to, Route | Relay) and to.confirm):
        return {"question": None, "token": None}
    server = gateway.snapshot.servers[to.server].identity
    text = (await anyio.to_thread.run_sync(confirmation.question, to, gateway.recorder.mask))["message"]
    return {"question": text, "token": x.parts.questions.add(text, server, x.caller.principal)}


async def search_tools(x: RestRequest) -> Mapping[str, Any]:
    reply: RestReply = await x.parts.gateway.call(x.ask("retrieve_tools", x.query.model_dump(exclude_none=True)))
    if reply.refusal is not None:
        refuse(reply.refusal, reply.id)
    return {"id": reply.id, **reply.result["structuredContent"]}


async def explain(x: RestRequest) -> Mapping[str, Any]:
    """What a caller left out is filled in as an agent that means it would, so that every rung gets its turn."""
    params = x.body.params()
    operation = x.body.variant
    variant = VARIANT_OF[operation] if operation else _advised(x.snapshot, params.get("name"))
    if not any(key.startswith("intent") for key in params):
        params["intent"] = {"operation_type": variant.removeprefix("call_tool_")}
    ask = in_profile(x, x.ask(variant, params), x.body.profile)
    return {"variant": variant, **await x.parts.gateway.explain(ask)}


def _advised(snapshot: Snapshot, name: object) -> str:
    tool = find_tool(snapshot, name) if isinstance(name, str) else None
    return call_with(tool, snapshot.policy) if tool else VARIANT_OF["read"]


def refuse(refusal: Refusal, activity_id: str) -> NoReturn:
    """The refusal in the shape of every REST error; `id` leads to its record."""
    details = refusal_json(refusal)
    del details["code"], details["message"]
    raise GatewayError(refusal.code, refusal.message, details={**details, "id": activity_id})


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """A caller that hangs up cancels what it asked for, upstream too, instead of leaving it to run on unseen."""
    result: list[T] = []
    async with anyio.create_task_group() as group:

        async def work_on() -> None:
            result.append(await work)
            group.cancel_scope.cancel()

        group.start_soon(work_on)
        while (await request.receive())["type"] != "http.disconnect":
            pass
        group.cancel_scope.cancel()
    if not result:
        raise ClientDisconnect
    return result[0]


CALL_ENDPOINTS: Final = (
    RestEndpoint("POST", "/api/v1/call", "Tools", "Call a tool through the gate", call_tool, responses.CallAnswer,
             body=requests.CallBody, refusals=REFUSALS, masked=False),
    RestEndpoint("POST", "/api/v1/call/question", "Tools", "What a person has to be asked before a call", question,
             responses.Question, body=requests.QuestionBody, masked=False, refusals=(Code.NOT_FOUND,),
             more="For a client that shows it to a person, and sends their answer with the call, as `confirmation`."),
    RestEndpoint("GET", "/api/v1/tools/search", "Tools", "Find tools for a need, as retrieve_tools does; recorded",
             search_tools, responses.FoundTools, query=requests.ToolSearch, masked=False,
             refusals=(Code.INVALID_ARGUMENTS, Code.TOOL_NOT_FOUND)),
    RestEndpoint("POST", "/api/v1/explain", "Tools", "Dry run of the decision, with every rung", explain,
             responses.Explanation, body=requests.ExplainBody, refusals=(Code.NOT_FOUND,)),
)  # fmt: skip


async def visible_tools(x: RestRequest) -> Mapping[str, Any]:
    snapshot = x.snapshot
    return {"tools": [_shown(tool, snapshot) for tool in _visible(snapshot, x.query.server)]}


async def tool_ids(x: RestRequest) -> Mapping[str, Any]:
    return {"ids": [tool.full_name for tool in _visible(x.snapshot, x.query.server)]}


async def catalog(x: RestRequest) -> Mapping[str, Any]:
    return await _asked(x, "read", "mcp_list_catalog", x.query.model_dump(exclude_none=True))


async def request_capability(x: RestRequest) -> Mapping[str, Any]:
    return await _asked(x, "write", "mcp_request_capability", x.body.model_dump(exclude_unset=True))


def _visible(snapshot: Snapshot, wanted: str | None) -> Iterable[Tool]:
    """Those that can be called now. A server nobody has is one without tools, as for one that nobody may know of."""
    for name, server in snapshot.servers.items():
        if wanted is None or name == wanted:
            yield from (tool for tool in server.tools.values() if unavailable_reason(server, tool) is None)


def _shown(tool: Tool, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "name": tool.full_name,
        "server": tool.server,
        "description": tool.wire.get("description", ""),
        "inputSchema": tool.wire.get("inputSchema", {"type": "object"}),
        "annotations": dict(tool.annotations),
        "call_with": call_with(tool, snapshot.policy),
    }


async def _asked(x: RestRequest, operation: Operation, tool: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
    params = {"name": f"catalog:{tool}", "args": dict(args), "intent": {"operation_type": operation}}
    reply = await while_connected(x.request, x.parts.gateway.call(x.ask(VARIANT_OF[operation], params)))
    if reply.refusal is not None:
        refuse(reply.refusal, reply.id)
    if reply.result.get("isError"):
        details = {"id": reply.id}
        raise GatewayError(Code.INVALID_ARGUMENTS, reply.result["content"][0]["text"], details=details)
    return reply.result["structuredContent"]


_GROUP: Final = "Discovery, for agents"

DISCOVERY_ENDPOINTS: Final = (
    RestEndpoint("GET", "/mcp/tools", _GROUP, "The tools that can be called now", visible_tools, responses.VisibleTools,
             query=requests.VisibleToolsQuery, guarded="agent", masked=False),
    RestEndpoint("GET", "/tool/ids", _GROUP, "The names of the tools that can be called now", tool_ids,
             responses.ToolIds, query=requests.VisibleToolsQuery, guarded="agent", masked=False),
    RestEndpoint("GET", "/mcp/catalog", _GROUP,
             "Known servers and what is connected, as mcp_list_catalog says; recorded",
             catalog, responses.CatalogAnswer, query=requests.CatalogSearch, guarded="agent", refusals=REFUSALS,
             masked=False),
    RestEndpoint("POST", "/mcp/request-capability", _GROUP, "Ask a person for a server, as mcp_request_capability does",
             request_capability, responses.Requested, body=requests.CapabilityRequest, guarded="agent",
             refusals=REFUSALS),
)  # fmt: skip
