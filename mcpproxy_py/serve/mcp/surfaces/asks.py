"""From a client's request to the gateway's reply: the one way by which every MCP surface asks (`Gateway.call`).

Here the rounds of a modern request become one ask again, whichever way it is continued.

From the gateway's reply to what a surface answers: a result, or an error of the protocol.

Asking in a way that resources named in the answer can be read from then on, at the gate and directly (SURF-8).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from typing import Any, Final

from mcpproxy_py.core.policy import tool_results
from mcpproxy_py.core.policy.decide import refuse
from mcpproxy_py.core.protocol import request_state
from mcpproxy_py.core.protocol.constants import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    MODERN,
    SERVER_INFO,
)
from mcpproxy_py.core.protocol.request_state import RequestState
from mcpproxy_py.core.protocol.tasks import TASK, TaskOrigin
from mcpproxy_py.core.values import Ask, Decision, Refusal, Relay, Route, Server, Surface
from mcpproxy_py.errors import FACTS, Code, GatewayError, RpcError, StoreUnavailable
from mcpproxy_py.gateway.gateway import Gateway
from mcpproxy_py.gateway.recorder import Call
from mcpproxy_py.serve.mcp.input_rounds import BadRequestState, HeldCall, InputRounds, Spend, StateBinding, first_time
from mcpproxy_py.serve.mcp.request import CLAIM_LIMIT, McpRequest, WatchedResource
from mcpproxy_py.serve.mcp.surfaces import resource_links, surface
from mcpproxy_py.serve.mcp.surfaces.resource_links import LINKING, MOST_ITEMS, ResourceLinks
from mcpproxy_py.serve.mcp.surfaces.surface import LIST_TTL_MS, UNKNOWN_TTL_MS, kept_privately, text_param, view_of

SUBSCRIBE: Final = "resources/subscribe"
UNSUBSCRIBE: Final = "resources/unsubscribe"


class AskRunner:
    """Shared by all surfaces of one gateway."""

    def __init__(
        self, gateway: Gateway, keys: tuple[bytes, ...], patience: float,
        on_taken_up: Callable[[str], None] = lambda ask_id: None, spend: Spend = first_time,
    ) -> None:  # fmt: skip
        """`spend` says whether a state is used for the first time, wherever states of ours are taken."""
        self.gateway = gateway
        share = gateway.shares.questions
        self.rounds = InputRounds(keys, patience, gateway.recorder.give_up, on_taken_up, spend, share.most)

    async def call(
        self, exchange: McpRequest, surface: Surface, tool: str, params: Any, server: str | None = None,
        method: str | None = None, task: TaskOrigin | None = None,
    ) -> Call | dict[str, Any]:  # fmt: skip
        """The reply, or, for a modern client, the questions that have to be answered first. `method` where it is not
        the exchange's own, `task` where it is about one. Raises `RpcError`."""
        peer = exchange.peer
        ask = self.gateway.new_ask(
            tool, params, source="mcp", surface=surface, principal=peer.principal, client=peer.client,
            session_id=peer.session_id, request_id=str(exchange.id)[:CLAIM_LIMIT], server=server,
            method=method or exchange.method, meta=exchange.meta, plain=exchange.plain, access=peer.access, task=task,
        )  # fmt: skip
        if ask.method in request_state.WHAT:
            if not exchange.params.keys().isdisjoint(request_state.ROUND_KEYS):
                return await self._later_round(ask, exchange)
        elif "requestState" in exchange.params and self.rounds.is_ours(exchange.params["requestState"]):
            return await self._later_round(_without_rounds(ask), exchange)
        return await self._run(ask, exchange)

    async def watch(self, exchange: McpRequest, surface: Surface, resource: WatchedResource) -> Mapping[str, Any]:
        """Subscribe to a resource, within the quota of the client's principal. Raises `RpcError`."""
        share, principal = self.gateway.shares.subscriptions, exchange.peer.principal
        share.take(principal)
        try:
            params = {"uri": resource.uri}
            return relayed(await self.call(exchange, surface, resource.uri, params, resource.server, SUBSCRIBE))
        except BaseException:
            share.give_back(principal)
            raise

    async def unwatch(self, exchange: McpRequest, surface: Surface, resource: WatchedResource) -> Mapping[str, Any]:
        """Raises `RpcError`."""
        self.gateway.shares.subscriptions.give_back(exchange.peer.principal)
        params = {"uri": resource.uri}
        return relayed(await self.call(exchange, surface, resource.uri, params, resource.server, UNSUBSCRIBE))

    def there(self, exchange: McpRequest) -> Mapping[str, Server]:
        """The servers that there are for who asks."""
        return view_of(self.gateway.snapshot, exchange.peer.access).servers

    async def ambiguous(self, exchange: McpRequest, surface: Surface, uri: str, server: str, rival: str) -> RpcError:
        """The error for a resource that two servers call theirs, which is on record like every refusal."""
        peer = exchange.peer
        ask = self.gateway.new_ask(
            uri, {"uri": uri}, source="mcp", surface=surface, principal=peer.principal, client=peer.client,
            session_id=peer.session_id, request_id=str(exchange.id)[:CLAIM_LIMIT], server=server,
            method=exchange.method, access=peer.access,
        )  # fmt: skip
        message = (
            f"Server '{server}' named this resource, and '{rival}' lists it as its own, so it is read from neither"
        )
        hint = f"Read it at the passthrough surface of the one that is meant: /mcp/s/{server} or /mcp/s/{rival}."
        refusal = Refusal(Code.INVALID_ARGUMENTS, f"{message}. {hint}", "resource_owner", hint, f"{server}:{uri}")
        await self.gateway.turn_down(ask, refusal)
        return refused(refusal, INVALID_PARAMS)

    async def _run(self, ask: Ask, exchange: McpRequest) -> Call | dict[str, Any]:
        if exchange.peer.modern:
            return await self._first(ask, exchange)
        exchange.asks = _CallTurn(self, ask)
        reply = await self.gateway.call(ask, exchange)
        if reply.refusal is not None and reply.refusal.code is Code.INSUFFICIENT_SCOPE:
            _challenge(reply.refusal, exchange)
        return reply

    async def _later_round(self, ask: Ask, exchange: McpRequest) -> Call | dict[str, Any]:
        """What a client says to questions is only taken with a state of ours that asked them, and each state once."""
        token, said = exchange.params.get("requestState"), exchange.params.get("inputResponses")
        try:
            if token is None and (said is None or exchange.peer.modern):
                return await self._run(self._unasked(_without_rounds(ask), said, exchange), exchange)
            if token is None or not exchange.peer.modern:
                raise BadRequestState(
                    "inputResponses are answers to questions: send them with the requestState that asked"
                )
            state = self.rounds.open(token, _bound(ask, exchange))
            if state.held:
                return await self._rejoined(ask, state, exchange)
            again = ask._replace(
                id=state.ask_id, again=True, carried=_carried(said, state.inner), asked_by=self.rounds.asked_by(state)
            )
            if (unspent := await self._spend(token, state, again)) is not None:
                return await self.gateway.turn_down(ask, unspent)
        except BadRequestState as bad:
            raise await self._turned_down(ask, bad) from None
        return await self._first(again, exchange)

    def _unasked(self, ask: Ask, said: Any, exchange: McpRequest) -> Ask:
        """A first round that brings answers already. On passthrough a stateless server gets them, bounded and on
        record: the protocol has it take what it can use and ignore the rest (SURF-7). Elsewhere they are ignored, and
        the server asks its questions."""
        server = self.there(exchange).get(ask.server or "")
        if said is None or ask.surface != "passthrough" or server is None or server.protocol_version not in MODERN:
            return ask
        return ask._replace(carried=_carried(said, None))

    async def _spend(self, token: str, state: RequestState, ask: Ask) -> Refusal | None:
        """Use this state up where all gateways of a database see it, before anything is sent. While they cannot, what
        is above read is refused; a read goes on, since all that a second one could do is to read twice, and this
        gateway itself still takes each state once. Raises `BadRequestState`."""
        try:
            await self.rounds.take_up(token, state)
        except StoreUnavailable:
            decided = await self.gateway.decides(ask)
            if self.gateway.refuses_unrecorded and isinstance(decided, Route | Relay) and decided.risk != "read":
                message = f"'{decided.full_name}' is refused: nobody can say whether this requestState was used before"
                details = {"continues": state.ask_id}
                return refuse(decided, Code.STORE_UNAVAILABLE, "request_state", message, details)
            await self.rounds.take_up(token, state, shared=False)
        return None

    async def _first(self, ask: Ask, exchange: McpRequest) -> Call | dict[str, Any]:
        """Run the call in this task. If its server asks in mid-call, the client is answered at once with the
        questions, and what the call comes to is for a later round."""
        exchange.asks = turn = _CallTurn(self, ask)
        reply = await self.gateway.call(ask, exchange)
        turn.end(reply)
        return self._told(reply, ask, exchange)

    async def _rejoined(self, ask: Ask, state: RequestState, exchange: McpRequest) -> Call | dict[str, Any]:
        """Answer a call that is held, and wait for what comes next: more questions, or its end. What was forbidden
        meanwhile ends it. That its server has gone does not: the call itself knows what became of it."""
        allowed = await self.gateway.decides(ask._replace(id=state.ask_id))
        held = self.rounds.held(state)
        if isinstance(allowed, Refusal) and not held.over and allowed.code is not Code.SERVER_UNAVAILABLE:
            held.refuse(allowed)
        else:
            held.answer(state.held, exchange.params.get("inputResponses"))
        coming: asyncio.Future[dict[str, Any] | Call] = asyncio.get_running_loop().create_future()
        held.at_line(lambda what: None if coming.done() else coming.set_result(what))
        try:
            return self._told(await coming, ask, exchange)
        except asyncio.CancelledError:
            held.give_up("the client left")
            raise

    def _told(self, what: dict[str, Any] | Call, ask: Ask, exchange: McpRequest) -> dict[str, Any] | Call:
        """A server's own questions, which end its turn, go out with our state around its own."""
        if not isinstance(what, Call):
            return what
        if what.refusal is not None and what.refusal.code is Code.INSUFFICIENT_SCOPE:
            _challenge(what.refusal, exchange)
        if what.status == "pending" and what.result.get("resultType") != TASK:
            assert isinstance(what.decision, Route | Relay)
            asker = what.snapshot.servers[what.decision.server].identity
            return self.rounds.wrap(what.id, what.result, _bound(ask, exchange), asker)
        return what

    async def _turned_down(self, ask: Ask, bad: BadRequestState) -> RpcError:
        """On record like every refusal, beside the ask that it tried to continue."""
        details = {"continues": bad.ask_id} if bad.ask_id else {}
        name, hint = _target(await self.gateway.decides(ask)), FACTS[Code.INVALID_ARGUMENTS].hint
        refusal = Refusal(Code.INVALID_ARGUMENTS, bad.message, "request_state", hint, name, details=details)
        await self.gateway.turn_down(ask, refusal)
        return RpcError(INVALID_PARAMS, bad.message, {"rule": refusal.rule, "_meta": tool_results.mark(refusal)})


class _CallTurn:
    """One run of a call, which for a modern client becomes a held call at its server's first question."""

    __slots__ = ("_ask", "_asking", "_held", "_task")

    def __init__(self, asking: AskRunner, ask: Ask) -> None:
        self._asking = asking
        self._ask = ask
        self._task = asyncio.current_task()
        self._held: HeldCall | None = None

    def end(self, reply: Call) -> None:
        if self._held is not None:
            self._held.finish(reply)

    def question(self, principal: str) -> AbstractContextManager[None]:
        return self._asking.gateway.shares.questions.held(principal)

    def note(self, kind: str, method: str) -> None:
        """That it was answered goes on record where the answer is, with what was said."""
        if kind != "answered":
            self._asking.gateway.recorder.note_round(self._ask.id, kind, [method])

    async def later(self, exchange: McpRequest, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if (held := self._hold(exchange)) is None:
            raise RpcError(INVALID_PARAMS, "Too many calls wait for their clients' answers")
        return await held.ask(method, params)

    @property
    def is_away(self) -> bool:
        return self._held is not None and self._held.is_away

    def come_back(self, exchange: McpRequest) -> None:
        """Where there is no room for that, it goes on waiting as it does."""
        if (held := self._hold(exchange)) is not None:
            held.come_back()

    def _hold(self, exchange: McpRequest) -> HeldCall | None:
        if self._held is None:
            self._held = self._asking.rounds.hold(self._ask.id, _bound(self._ask, exchange), self._cancel)
            if self._held is not None:
                self._held.at_line(partial(_leave, exchange))
        return self._held

    def _cancel(self, why: object) -> None:
        if self._task is not None:
            self._task.cancel(why)


def _challenge(refusal: Refusal, exchange: McpRequest) -> None:
    """A client that lacks scopes is answered with 403 and the scopes to ask for (MCP 2026-07-28, Authorization, Scope
    Challenge Handling). Where the answer has become a stream already, it gets the refusal like any other."""
    access = exchange.peer.access
    if access is not None and access.scopes_for is not None and not exchange.is_streaming:
        scopes = access.scopes_for(refusal.details["operation"])
        raise GatewayError(refusal.code, f"{refusal.message}: {scopes}", details={"scope": scopes})


def _leave(exchange: McpRequest, what: dict[str, Any] | Call) -> None:
    """The client goes with the questions. A reply that came before any went out is returned as usual."""
    if not isinstance(what, Call):
        exchange.answer_early(what)


def _target(decision: Decision) -> str | None:
    """What it would have gone to, so that its record is found there."""
    if isinstance(decision, Route | Relay):
        return decision.full_name
    return decision.name if isinstance(decision, Refusal) else None


def _bound(ask: Ask, exchange: McpRequest) -> StateBinding:
    door = f"{ask.surface}/{ask.server or ''}"
    return StateBinding(ask.principal, request_state.digest(door, ask.method, exchange.params))


def _without_rounds(ask: Ask) -> Ask:
    """Of a method that is relayed as it is: what was said to us is not for its server."""
    if ask.method == "tools/call" or not any(key in ask.params for key in request_state.ROUND_KEYS):
        return ask  # those are the arguments of a tool
    return ask._replace(params={key: value for key, value in ask.params.items() if key not in request_state.ROUND_KEYS})


def _carried(said: Any, inner: Any) -> dict[str, Any]:
    """What the upstream gets to see of a later round: the answers, and its own state."""
    answers = {} if said is None else {"inputResponses": said}
    return answers if inner is None else {**answers, "requestState": inner}


def gated(reply: Call | dict[str, Any]) -> Mapping[str, Any]:
    """The gate: refusals are results that the model can mend; only an unknown outer tool is an error (GATE-5)."""
    if isinstance(reply, dict):
        return reply
    if reply.refusal is not None and reply.refusal.rule == "outer_name":
        raise RpcError(INVALID_PARAMS, reply.refusal.message)
    return reply.result


def called_directly(reply: Call | dict[str, Any]) -> Mapping[str, Any]:
    """Direct: as `passed_through`, except that an unknown tool and a missing capability of the client are errors of
    the protocol."""
    if isinstance(reply, Call) and reply.refusal is not None and reply.refusal.code is Code.TOOL_NOT_FOUND:
        refusal = reply.refusal
        data = {"nearest": refusal.details.get("nearest", []), "_meta": tool_results.mark(refusal)}
        raise RpcError(INVALID_PARAMS, refusal.message, data)
    if isinstance(reply, Call) and reply.refusal is not None:
        own = upstreams_own(reply.refusal)
        if own is not None and own.code == MISSING_REQUIRED_CLIENT_CAPABILITY:
            raise own
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


def refused(refusal: Refusal, code: int = INTERNAL_ERROR) -> RpcError:
    data = {**tool_results.refusal_json(refusal), "_meta": tool_results.mark(refusal)}
    return RpcError(code, refusal.message, data)


def as_ours(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """A server's result at a surface of the gateway's own: who answers there, for whom the result may be kept, and the
    longest that it may be, the server does not say (SURF-9)."""
    meta = result.get("_meta")
    if type(meta) is dict and SERVER_INFO in meta:
        result = {**result, "_meta": {key: value for key, value in meta.items() if key != SERVER_INFO}}  # pyright: ignore[reportUnknownVariableType]
    if "ttlMs" in result and result.get("resultType") != TASK:
        ttl = result["ttlMs"]
        result = {**result, "ttlMs": max(UNKNOWN_TTL_MS, min(ttl, LIST_TTL_MS)) if type(ttl) is int else UNKNOWN_TTL_MS}
    return kept_privately(result) if "cacheScope" in result else result


def _links(result: Mapping[str, Any]) -> bool:
    """Whether this result of a tool may name resources; nearly none does."""
    content = result.get("content")
    if type(content) is list:
        for item in islice(content, MOST_ITEMS):  # pyright: ignore[reportUnknownArgumentType]
            if type(item) is dict and item.get("type") in LINKING:  # pyright: ignore[reportUnknownMemberType]
                return True
    return False


async def call_linking(
    asking: AskRunner, links: ResourceLinks, kind: Surface,
    result_of: Callable[[Call | dict[str, Any]], Mapping[str, Any]], exchange: McpRequest,
) -> Mapping[str, Any]:  # fmt: skip
    """A tool call, whose result may name resources."""
    name = exchange.params.get("name")
    if type(name) is not str:
        name = text_param(exchange, "name")
    reply = await asking.call(exchange, kind, name, exchange.params.get("arguments", {}))
    result = result_of(reply)
    if isinstance(reply, Call):
        if reply.refusal is not None:
            return result
        if isinstance(reply.decision, Route) and _links(result):
            there = asking.there(exchange)
            await links.learn(exchange.peer.principal, reply.decision.server, resource_links.in_result(result), there)
        if kind == "gate" and reply.size > (kept := asking.gateway.local.kept).floor:
            result = await kept.cut(reply)
    return as_ours(result)


async def linked_owner(
    asking: AskRunner, links: ResourceLinks, exchange: McpRequest, uri: str, kind: Surface
) -> str | None:
    """The server that named this resource in something relayed. Raises `RpcError` where two servers claim it."""
    owner = links.owner(exchange.peer.principal, uri, asking.there(exchange))
    if owner is not None and owner.rival is not None:
        raise await asking.ambiguous(exchange, kind, uri, owner.server, owner.rival)
    return None if owner is None else owner.server


async def read_linked(
    asking: AskRunner, links: ResourceLinks, exchange: McpRequest, kind: Surface, server: str | None
) -> Mapping[str, Any]:
    """A resource from the server that named it (SURF-8). Raises `RpcError`, also where `server` is `None`."""
    uri = text_param(exchange, "uri")
    if server is None:
        raise unknown_resource(uri)
    result = relayed(await asking.call(exchange, kind, uri, surface.own_params(exchange), server))
    there = asking.there(exchange)
    await links.learn(exchange.peer.principal, server, resource_links.in_contents(result), there)
    return as_ours(result)


def unknown_resource(uri: str) -> RpcError:
    return RpcError(INVALID_PARAMS, "Unknown resource: no result or listing has named this URI here", {"uri": uri})
