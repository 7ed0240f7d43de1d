"""What the gateway needs of the upstream room, and a decision for which it was waited on: what cannot be found out on
the event loop about a call's arguments is found out beside it, and then decided again in one turn."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final, Protocol

from mcpproxy_py.core.pending_checks import CheckVerdict, PendingCheck
from mcpproxy_py.core.policy import decide
from mcpproxy_py.core.values import Ask, Decision, Refusal, Route, Snapshot
from mcpproxy_py.upstream.permit import Permit

MAX_CHECKS: Final = 32
"""For one call. Its server may come with another schema each time."""


class Upstreams(Protocol):
    @property
    def snapshot(self) -> Snapshot: ...
    async def ready(self, server: str) -> None: ...
    async def check(self, server: str, pending: PendingCheck) -> CheckVerdict: ...
    def request(self, server: str, permit: Permit) -> Awaitable[dict[str, Any]]: ...


def decided_now(upstreams: Upstreams, ask: Ask) -> tuple[Decision, Snapshot]:
    snapshot = upstreams.snapshot if ask.access is None else ask.access.view(upstreams.snapshot)
    return decide.decide(ask, snapshot), snapshot


async def decided_with_checks(upstreams: Upstreams, ask: Ask) -> tuple[Ask, Decision, Snapshot]:
    """The ask with what was found out about it, and what is decided on it now. What a decision says is pending beyond
    that, it took for what nobody can tell."""
    while True:
        snapshot = upstreams.snapshot if ask.access is None else ask.access.view(upstreams.snapshot)
        decision = decide.decide(ask, snapshot)
        if not isinstance(decision, Route | Refusal) or (pending := decision.pending) is None:
            return ask, decision, snapshot
        if decision.tool is None or len(ask.verdicts) >= MAX_CHECKS:
            return ask, decision, snapshot
        verdict = await upstreams.check(decision.tool.server, pending)
        ask = ask._replace(verdicts=(*ask.verdicts, verdict))
