"""The gate's tools that the gateway answers itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mcpproxy_py.core.policy import tool_results
from mcpproxy_py.core.policy.surface_tools import ACKNOWLEDGEMENT
from mcpproxy_py.core.record import events
from mcpproxy_py.core.search.tool_search import retrieve_tools
from mcpproxy_py.core.values import LocalAnswer, Refusal, Snapshot
from mcpproxy_py.gateway.kept_results import READ_RESULT, KeptLimits, KeptResults, ResultLimits
from mcpproxy_py.gateway.recorder import Call
from mcpproxy_py.gateway.shares import RecordShare
from mcpproxy_py.upstream.turns import in_turns

LOCAL: Final[Mapping[str, Callable[[Snapshot, Mapping[str, Any]], dict[str, Any]]]] = {
    "retrieve_tools": lambda snapshot, params: tool_results.structured(retrieve_tools(snapshot, params)),
    "request_capability": lambda snapshot, params: tool_results.text(ACKNOWLEDGEMENT),
}


class LocalAnswers:
    def __init__(self, share: RecordShare) -> None:
        self._share = share
        self.kept = KeptResults(KeptLimits(), ResultLimits())

    async def answer(self, call: Call, to: LocalAnswer) -> None:
        if self._share.is_used_up(call.ask.principal):
            call.refuse(self._share.refusal(to.tool, call.ask.principal))
            return
        if to.tool == READ_RESULT:
            result = await self.kept.read(call, to.params)
        else:
            await in_turns(call.snapshot.choosing())
            result = LOCAL[to.tool](call.snapshot, to.params)
        if isinstance(result, Refusal):
            call.refuse(result)
        else:
            call.answer(events.outcome_of(result, call.metadata), result)
