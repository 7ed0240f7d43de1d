"""From the gateway's reply to what a surface answers: a result, or an error of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpproxy_py.core.policy import tool_results
from mcpproxy_py.core.protocol.constants import INTERNAL_ERROR, INVALID_PARAMS
from mcpproxy_py.core.values import Refusal
from mcpproxy_py.errors import Code, RpcError
from mcpproxy_py.gateway.call import Call


def gated(reply: Call | dict[str, Any]) -> Mapping[str, Any]:
    """The gate: refusals are results that the model can mend; only an unknown outer tool is an error (GATE-5)."""
    if isinstance(reply, dict):
        return reply
    if reply.refusal is not None and reply.refusal.rule == "outer_name":
        raise RpcError(INVALID_PARAMS, reply.refusal.message)
    return reply.result


def called_directly(reply: Call | dict[str, Any]) -> Mapping[str, Any]:
    """Direct: as `passed_through`, but that a tool which does not exist is an error of the protocol."""
    if isinstance(reply, Call) and reply.refusal is not None and reply.refusal.code is Code.TOOL_NOT_FOUND:
        refusal = reply.refusal
        raise RpcError(INVALID_PARAMS, refusal.message, {"nearest": refusal.details.get("nearest", [])})
    return passed_through(reply)


def passed_through(reply: Call | dict[str, Any]) -> Mapping[str, Any]:
    """A refusal is a result, one of an unknown tool too: most servers answer so, and a model only sees results. Its
    details go into `_meta`, because the tool may declare an `outputSchema`, and some clients hold errors to it too."""
    if isinstance(reply, dict):
        return reply
    refusal = reply.refusal
    if refusal is None:
        return reply.result
    return {
        "content": reply.result["content"],
        "isError": True,
        "_meta": {tool_results.REFUSAL_KEY: tool_results.refusal_json(refusal)},
    }


def relayed(reply: Call | dict[str, Any]) -> Mapping[str, Any]:
    """What is no tool call has no result that could hold an error."""
    if isinstance(reply, dict):
        return reply
    if reply.refusal is not None:
        raise upstreams_own(reply.refusal) or refused(reply.refusal)
    return reply.result


def upstreams_own(refusal: Refusal) -> RpcError | None:
    """The error that the upstream itself answered with, with its code and data (UP-6)."""
    said = refusal.details.get("upstream")
    if refusal.code is not Code.UPSTREAM_ERROR or not isinstance(said, Mapping):
        return None
    code = said.get("code")
    if not isinstance(code, int) or isinstance(code, bool):
        return None
    return RpcError(code, refusal.message, said.get("data"))


def refused(refusal: Refusal) -> RpcError:
    return RpcError(INTERNAL_ERROR, refusal.message, tool_results.refusal_json(refusal))
