"""What stands in the way of a call after its decision, as the refusal that says so."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, TypeGuard

from mcpproxy_py.core.json_values import same
from mcpproxy_py.core.policy import decide, tool_results
from mcpproxy_py.core.record.events import Outcome
from mcpproxy_py.core.values import (
    Ask,
    Decision,
    LocalAnswer,
    Refusal,
    Relay,
    Route,
    Snapshot,
    Status,
)
from mcpproxy_py.errors import MAY_HAVE_ACTED, Code, UpstreamFailure
from mcpproxy_py.gateway.recorder import EXPIRED, TIMED_OUT, Call
from mcpproxy_py.upstream.permit import NotPermitted


def same_call(to: Route | Relay, again: Decision) -> TypeGuard[Route | Relay]:
    """Whether what was decided again is what was recorded, shown and confirmed, and nothing is open that was not. A
    person said yes to the tool as it was listed then."""
    if isinstance(to, Route):
        return (
            isinstance(again, Route)
            and again.pending is None
            and (again.server, again.tool.name, again.risk) == (to.server, to.tool.name, to.risk)
            and same(again.args, to.args)
            and (again.tool is to.tool or not to.confirm or same(again.tool.wire, to.tool.wire))
            and (to.confirm or not again.confirm)
        )
    return (
        isinstance(again, Relay)
        and (again.server, again.method, again.risk) == (to.server, to.method, to.risk)
        and same(again.params, to.params)
        and (to.confirm or not again.confirm)
    )


def since_changed(call: Call, to: Route | Relay, snapshot: Snapshot) -> Refusal | None:
    """Why what was decided, and perhaps confirmed, may not be sent any more; decided again on this snapshot."""
    again: Decision = decide.decide(call.ask, snapshot)
    if isinstance(again, Refusal):
        return again
    replaced = snapshot.servers[to.server].identity != call.snapshot.servers[to.server].identity
    if isinstance(again, LocalAnswer) or replaced or not same_call(to, again):
        return changed(to, again)
    asks = again.confirm and call.ask.surface != "rest"
    if asks and snapshot.servers[to.server].confirm_by not in ("either", call.yes_by):
        return without_yes(to, "where it has to be given changed meanwhile; call it again")
    return None


def changed(to: Route | Relay, again: Decision) -> Refusal:
    if isinstance(again, Route | Relay) and again.confirm:
        return without_yes(to, "its class changed meanwhile; call it again")
    message = f"'{to.full_name}' is refused: what it does changed while it waited, so ask again"
    return decide.refuse(to, Code.TOOL_UNAVAILABLE, "changed", message)


def without_yes(to: Route | Relay, why: str) -> Refusal:
    message = f"Tool '{to.full_name}' needs a person's yes: {why}"
    return decide.refuse(to, Code.NOT_CONFIRMED, "confirm", message)


def shutting_down(to: Route | Relay) -> Refusal:
    return decide.refuse(to, Code.SERVER_UNAVAILABLE, "draining", "The gateway is shutting down")


def crowded(to: Route | Relay) -> Refusal:
    message = f"'{to.full_name}' is refused: too many calls wait for a person"
    return decide.refuse(to, Code.OVERLOADED, "confirm", message)


def full(to: Route | Relay, in_flight: int) -> Refusal:
    return decide.refuse(to, Code.OVERLOADED, "in_flight", f"The gateway has {in_flight} calls in flight")


def unanswerable(to: Route | Relay) -> Refusal:
    message = f"'{to.full_name}' asks for input, which this client cannot give"
    return decide.refuse(to, Code.UPSTREAM_ERROR, "upstream", message)


def unfit_answers(to: Route | Relay, problem: str) -> Refusal:
    message = f"The answers for '{to.full_name}' cannot be sent on: {problem}"
    return decide.refuse(to, Code.INVALID_ARGUMENTS, "request_state", message)


def explained(ask: Ask, decision: Decision, snapshot: Snapshot, recorded: Any) -> dict[str, Any]:
    """What a dry run shows: the decision as it would be recorded, its refusal, and every rung."""
    return {
        "decision": recorded,
        "refusal": tool_results.refusal_json(decision) if isinstance(decision, Refusal) else None,
        "rungs": [
            {"number": step.number, "rule": step.rule, "outcome": step.outcome, "message": step.message}
            for step in decide.explain(ask, snapshot)
        ],
    }


def unrecordable(to: Route | Relay) -> Refusal:
    message = f"'{to.full_name}' is refused: it cannot be recorded"
    return decide.refuse(to, Code.STORE_UNAVAILABLE, "store", message)


def reconnects(failure: UpstreamFailure | NotPermitted) -> bool:
    """Whether another connection changes this: the last one had just gone, or its server forgot the session (404)."""
    if isinstance(failure, NotPermitted):
        return failure.refusal.awaits is not None
    unheard = not failure.sent or same(failure.data.get("status"), 404)
    return unheard and failure.code is Code.SERVER_UNAVAILABLE


def failed(to: Route | Relay, failure: UpstreamFailure) -> tuple[Refusal, Status]:
    """Only a result, or an error of the protocol, says what the server did; a status of HTTP is no proof that it did
    nothing, whatever the status means."""
    status: Status = "timeout" if failure.code is Code.TIMEOUT else "error" if failure.sent else "blocked"
    details, message = {"upstream": failure.data} if failure.data else {}, failure.message
    if to.risk != "read" and failure.sent and "code" not in failure.data and MAY_HAVE_ACTED not in message:
        message = f"{message}; {MAY_HAVE_ACTED}"
    return decide.refuse(to, failure.code, "upstream", message, details), status


def not_permitted(no: NotPermitted) -> tuple[Refusal, Status]:
    """A call that its server has already is no call that was kept from it."""
    if not no.sent:
        return no.refusal, "blocked"
    return replace(no.refusal, message=f"{no.refusal.message}; {MAY_HAVE_ACTED}"), "error"


def given_up(why: asyncio.CancelledError) -> Outcome:
    """A cancellation may say that it was time that ran out."""
    if EXPIRED in why.args:
        return TIMED_OUT
    return Outcome("cancelled", error={"code": "CANCELLED", "message": "the caller cancelled it"})


def no_longer_allowed(why: asyncio.CancelledError) -> Refusal | None:
    """The refusal that a call was cancelled with, between two of its rounds; the cancelling is over with that."""
    refusal = why.args[0] if why.args and isinstance(why.args[0], Refusal) else None
    if refusal is not None and (task := asyncio.current_task()) is not None:
        task.uncancel()
    return refusal


def unattributed(server: str, method: str) -> Refusal:
    """A server asked something that belongs to no one call. It was refused."""
    message = f"Server '{server}' asked {method[:80]}, and it does not say for which call"
    hint = "With `sessions: exclusive` its requests belong to one call, unless that call was cancelled."
    return Refusal(Code.UPSTREAM_ERROR, message, "unattributed", hint, f"{server}:{method[:80]}")
