"""Requests about a task, from the client that follows it: at the direct surface by an id of ours, at a passthrough by
the server's own, whose owner is remembered (SURF-10).

What is nobody's, somebody else's, forged, expired or unknown to its server is answered in the same way: there is no
such task here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.core.json_values import as_object
from mcpproxy_py.core.protocol.apps import result_with_pages
from mcpproxy_py.core.protocol.constants import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
)
from mcpproxy_py.core.protocol.request_state import answers_problem
from mcpproxy_py.core.protocol.tasks import CANCEL, DECLARED, GET, TASK, UPDATE, TaskOrigin, declares, state_of
from mcpproxy_py.core.values import Surface
from mcpproxy_py.errors import RpcError
from mcpproxy_py.serve.mcp.request import McpRequest
from mcpproxy_py.serve.mcp.surfaces import resource_links
from mcpproxy_py.serve.mcp.surfaces.asks import AskRunner, as_ours, relayed
from mcpproxy_py.serve.mcp.surfaces.resource_links import ResourceLinks
from mcpproxy_py.serve.mcp.surfaces.surface import own_params, text_param

UNKNOWN: Final = "There is no such task here"
MISSING: Final = "These requests need the tasks extension, declared with each of them"


class TaskRequests:
    def __init__(self, asking: AskRunner) -> None:
        self._asking = asking
        self._tasks = asking.gateway.tasks

    async def directly(self, exchange: McpRequest, links: ResourceLinks) -> Mapping[str, Any]:
        """At the direct surface. Nothing of the request goes on but what the extension defines."""
        _check_declared(exchange)
        handle, who = text_param(exchange, "taskId"), exchange.peer.principal
        task = self._tasks.opened(handle, who)
        if task is None or not self._in_reach(exchange, task):
            raise _unknown()
        params: dict[str, Any] = {"taskId": task.id}
        if exchange.method == UPDATE:
            params["inputResponses"] = self._answers(exchange)
        try:
            result = await self._asked(exchange, "direct", task, params)
        except RpcError as error:
            raise _unknown() if error.code == INVALID_PARAMS else error from None
        if exchange.method != GET:
            return {}
        if isinstance(problem := state_of(result, task.id), str):
            raise RpcError(INTERNAL_ERROR, f"Server '{task.server}' failed: {problem}")
        shown = {**as_ours({**result, "resultType": TASK}), "taskId": handle, "resultType": "complete"}
        if (inner := as_object(result.get("result"))) is not None:
            await links.learn(who, task.server, resource_links.in_result(inner), self._asking.there(exchange))
            shown["result"] = result_with_pages(task.server, as_ours(inner))
        return shown

    async def passed_through(self, exchange: McpRequest, server: str, known: bool) -> Mapping[str, Any]:
        """At the surface of one server, whose own id it is. `known`: whether it says that it has tasks."""
        task_id = text_param(exchange, "taskId")
        task = await self._tasks.table.find(server, task_id)
        if task is None or task.principal != exchange.peer.principal or not self._in_reach(exchange, task):
            if not known:
                raise RpcError(METHOD_NOT_FOUND, f"Method not found: {exchange.method}")
            _check_declared(exchange)
            raise _unknown()
        if exchange.method == UPDATE:
            self._answers(exchange)
        return await self._asked(exchange, "passthrough", task, own_params(exchange))

    def _answers(self, exchange: McpRequest) -> Any:
        said = exchange.params.get("inputResponses", {})
        if problem := answers_problem(said, self._asking.gateway.snapshot.policy.max_depth):
            raise RpcError(INVALID_PARAMS, f"These answers cannot be sent on: {problem}")
        return said

    def _in_reach(self, exchange: McpRequest, task: TaskOrigin) -> bool:
        """Whether its server and its tool are there for who asks; they may have been, and not be any more."""
        server = self._asking.there(exchange).get(task.server)
        if server is None or server.state == "disabled":
            return False
        return task.tool in server.tools or server.outside is None or not server.outside(task.tool)

    async def _asked(
        self, exchange: McpRequest, kind: Surface, task: TaskOrigin, params: dict[str, Any]
    ) -> Mapping[str, Any]:
        reply = await self._asking.call(exchange, kind, task.tool, params, task.server, task=task)
        result = relayed(reply)
        if exchange.method == GET:
            self._tasks.seen(task, result)
        elif exchange.method == CANCEL:
            self._tasks.told_to_cancel(task)
        return result


def _check_declared(exchange: McpRequest) -> None:
    if not declares(exchange.capabilities):
        raise RpcError(MISSING_REQUIRED_CLIENT_CAPABILITY, MISSING, {"requiredCapabilities": DECLARED})


def _unknown() -> RpcError:
    return RpcError(INVALID_PARAMS, UNKNOWN)
