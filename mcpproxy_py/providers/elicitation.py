"""Asking the person behind a call, in both wire eras (PROV-4). Pure: whoever serves the wire carries the messages.

A client of the handshake era can be asked while the call is open: `Live` has the function that does it.
On the 2026-07-28 wire nothing stays open. A call that needs an answer ends with `InputRequired`; the client asks,
and calls again with the answers. The function then runs again from its start, and what was answered before is
replayed to it: `Replay` carries that. Between the rounds `InputRequired.state` travels through the client, so the
wire has to seal it.

Questions are recognised by their content, not by their order, so that a function may ask several at once; two that
are equal are told apart by counting. One that was answered and is now asked differently fails the call: the answer
belongs to something else than what would be done with it.

Where a provider's call meets the wire: who can be asked and how, and what a round looks like when it goes out.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from mcpproxy_py.core.values import Caller
from mcpproxy_py.providers.results import ToolError, compact
from mcpproxy_py.providers.spec import compiled

MAX_QUESTIONS: Final = 50
SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class Accept:
    """The person answered; `content` fits the schema of the question."""

    content: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Decline:
    """The person said no."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """The person closed the question without an answer."""


Answer = Accept | Decline | Cancel


@dataclass(frozen=True, slots=True)
class Live:
    """A client that can be asked now. `ask` takes the params of `elicitation/create` and gives its result object;
    it is called by several questions at once where the function asks so."""

    ask: Callable[[dict[str, Any]], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Replay:
    """A client that is asked by answering with `InputRequired`. `state` is that of the last round, unsealed, and
    `None` in the first; `responses` are the client's `inputResponses`, by the keys of the requests."""

    state: Mapping[str, Any] | None = None
    responses: Mapping[str, Any] = field(default_factory=dict[str, Any])


Asking = Live | Replay


@dataclass(frozen=True, slots=True)
class InputRequired:
    """The call waits for a person. `requests` goes out as `inputRequests`; `state`, sealed, as `requestState`."""

    requests: Mapping[str, dict[str, Any]]
    state: dict[str, Any]


def question(message: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The params of `elicitation/create`."""
    return {"message": message, "requestedSchema": dict(schema)}


def answer_of(result: Any, schema: Mapping[str, Any]) -> Answer:
    """A client's result object, read with suspicion. Raises `ToolError` for one that is no answer."""
    action = result.get("action") if isinstance(result, Mapping) else None
    if action == "decline":
        return Decline()
    if action == "cancel":
        return Cancel()
    content = result.get("content") if action == "accept" else None
    if action != "accept" or not isinstance(content or {}, Mapping):
        raise ToolError("The client's answer to a question of this tool is not valid in MCP")
    content = dict(content or {})
    if problem := compiled(schema)(content):
        raise ToolError(f"The answer does not fit the question: {problem}")
    return Accept(content)


class ElicitationReplay:
    """The questions of one call on the modern wire: those of earlier rounds, and those still open in this one."""

    def __init__(self, replay: Replay) -> None:
        state = replay.state or {}
        waiting, responses = state.get("waiting", {}), replay.responses
        self._answered = [
            *state.get("answered", ()),
            *({**asked, "result": responses[key]} for key, asked in waiting.items() if key in responses),
        ]
        self._unused = list(self._answered)
        self._count = state.get("count", 0)
        self._open: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        self.asked: asyncio.Event = asyncio.Event()
        """Set once a question is open: this round ends with it."""
        self.replayed: asyncio.Event = asyncio.Event()
        """Set once every answer of earlier rounds was asked for again."""
        self._note_replayed()

    async def ask(self, params: dict[str, Any]) -> Any:
        """The result of an earlier round. A question that has none never comes back: the round ends instead."""
        asked = {"digest": _digest(params), "message": params["message"][:SHOWN]}
        known = next((known for known in self._unused if known["digest"] == asked["digest"]), None)
        if known is None:
            self._post(params, asked)
            return await asyncio.get_running_loop().create_future()
        self._unused.remove(known)
        self._note_replayed()
        await asyncio.sleep(0)  # others that asked beside this one get to ask again, before this answer changes things
        return known["result"]

    def _post(self, params: dict[str, Any], asked: dict[str, Any]) -> None:
        if self._count >= MAX_QUESTIONS:
            raise ToolError(f"This tool asked more than {MAX_QUESTIONS} questions in one call")
        self._count += 1  # over all rounds, so that no key is used twice
        self._open[f"q{self._count}"] = ({"method": "elicitation/create", "params": params}, asked)
        self.asked.set()

    def _note_replayed(self) -> None:
        if not self._unused:
            self.replayed.set()

    def required(self) -> InputRequired:
        """What the client has to be asked before the next round. Raises `ToolError` where the function asks
        something else than it did before."""
        if self._unused:
            before, now = self._unused[0]["message"], next(iter(self._open.values()))[1]["message"]
            raise ToolError(
                f"The tool asked {before!r} in an earlier round and now asks {now!r}, or with another schema. It runs "
                "again from its start each round, and has to ask the same questions then"
            )
        return InputRequired(
            {key: request for key, (request, _) in self._open.items()},
            {
                "answered": self._answered,
                "waiting": {key: asked for key, (_, asked) in self._open.items()},
                "count": self._count,
            },
        )


def _digest(params: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(params, sort_keys=True).encode()).hexdigest()


log = logging.getLogger(__name__)


class ProviderChannel(Protocol):
    """The way back to whoever asked, while the call is under way."""

    @property
    def capabilities(self) -> Mapping[str, Any]: ...

    @property
    def live(self) -> bool: ...

    def notify(self, method: str, params: Mapping[str, Any]) -> None: ...

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]: ...


class ProviderCall(Protocol):
    """What comes with a call beside its arguments. `request_state` is our own, given back unsealed."""

    @property
    def channel(self) -> ProviderChannel: ...

    @property
    def input_responses(self) -> Mapping[str, Any] | None: ...

    @property
    def request_state(self) -> str | None: ...

    @property
    def caller(self) -> Caller: ...


def asking_of(context: ProviderCall) -> Asking | None:
    """How the client can be asked; `None` where it cannot draw a form. Raises `ToolError` for a state that is none."""
    if not _draws_forms(context.channel.capabilities.get("elicitation")):
        return None
    if context.channel.live:
        return Live(_asks(context.channel))
    return Replay(_state(context.request_state), context.input_responses or {})


def round_of(required: InputRequired) -> dict[str, Any]:
    """The raw result that ends a round."""
    return {
        "resultType": "input_required",
        "inputRequests": dict(required.requests),
        "requestState": compact(required.state),
    }


def _draws_forms(declared: Any) -> bool:
    """A client that names no mode means forms; one that names only others has none."""
    return isinstance(declared, Mapping) and (not declared or "form" in declared)


def _asks(channel: ProviderChannel) -> Any:
    async def ask(params: dict[str, Any]) -> Mapping[str, Any]:
        try:
            return await channel.request("elicitation/create", params)
        except Exception as error:
            log.warning("a client could not be asked: %s", error)
            raise ToolError("The person behind this client could not be asked") from None

    return ask


def _state(text: str | None) -> Mapping[str, Any] | None:
    if text is None:
        return None
    try:
        state = json.loads(text)
    except ValueError:
        state = None
    if not isinstance(state, dict):
        raise ToolError("This requestState is not one that this tool gave")
    return state
