"""Requests that take several rounds on the modern wire (SURF-6, PROV-4).

Two kinds. Where the upstream is modern too, it keeps its own state: we seal that into ours, and nothing waits
here. Where the upstream asks over a live session, the call is *held*: it goes on in the task that began it,
while its client is told the questions and comes back with the answers.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.protocol import request_state
from mcpproxy_py.core.protocol.request_state import RequestState
from mcpproxy_py.core.values import Refusal
from mcpproxy_py.gateway.recorder import EXPIRED, Call

Spend = Callable[[str, float], Awaitable[bool]]

MAX_HELD: Final = 1000
USED: Final = "This round was answered before; its requestState works once"
MAY_HAVE_ACTED: Final = "the server may already have acted on the call"


async def first_time(key: str, expires: float) -> bool:
    """Where there is nobody else who could have used it."""
    return True


@dataclass(frozen=True, slots=True)
class StateBinding:
    """Whose round it is and of which request: what a state is sealed for, and held against when it comes back."""

    principal: str
    digest: str


class BadRequestState(Exception):
    """A `requestState` that cannot be continued. `ask_id` names the ask, where the state really was one of ours."""

    def __init__(self, message: str, ask_id: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.ask_id = ask_id


class InputRounds:
    """`patience` is how many seconds a client has for its next round; `on_expired(ask_id)` is told of an ask whose
    next round never came, and that nobody holds; `on_taken_up(ask_id)` of one that began at another gateway."""

    def __init__(
        self, keys: Sequence[bytes], patience: float, on_expired: Callable[[str], None],
        on_taken_up: Callable[[str], None] = lambda ask_id: None, spend: Spend = first_time,
        most_of_one: int = MAX_HELD,
    ) -> None:  # fmt: skip
        """`spend(key, expires)` says whether this is the first time anywhere; it raises `StoreUnavailable`.
        `most_of_one`: calls of one principal that wait for their next round."""
        self._most_of_one = most_of_one
        self._keys = keys
        self._spend = spend
        self._spent: dict[str, float] = {}
        self._patience = patience
        self._on_expired = on_expired
        self._on_taken_up = on_taken_up
        self._gateway = secrets.token_hex(8)
        self._held: dict[str, HeldCall] = {}
        self._open: dict[str, tuple[asyncio.TimerHandle, str]] = {}
        """What ends the wait of an ask, and whose it is."""

    def __len__(self) -> int:
        return len(self._held) + len(self._open)

    def end(self, principal: str) -> None:
        """Its access has ended: so do its calls that wait for a next round."""
        for ask_id in [each for each, (_, whose) in self._open.items() if whose == principal]:
            self._expire(ask_id)
        for held in [each for each in self._held.values() if each.principal == principal]:
            held.give_up("its token was revoked, or has expired")

    # A modern upstream's own state.

    def wrap(self, ask_id: str, result: Mapping[str, Any], bound: StateBinding, server: str) -> dict[str, Any]:
        """The questions of the server of this identity, with our state around its own."""
        self._forget(ask_id)
        mine = [each for each, (_, principal) in self._open.items() if principal == bound.principal]
        if len(mine) >= self._most_of_one:
            self._expire(mine[0])
        self._await_next(ask_id, bound.principal)
        return {**result, "requestState": self._seal(ask_id, bound, 0, result.get("requestState"), server)}

    async def take_up(self, token: str, state: RequestState, *, shared: bool = True) -> None:
        """Its next round is here, and no other comes with this state: it is used up in here at once, and, where
        `shared`, in what all gateways look at. Raises `BadRequestState` for one that was used before, and what `spend`
        raises; then it is as unused as it was."""
        key = request_state.key_of(token)
        if key in self._spent:
            raise BadRequestState(USED, state.ask_id)
        self._forget_spent()
        self._spent[key] = state.expires
        if shared:
            try:
                fresh = await self._spend(key, state.expires)
            except Exception:
                del self._spent[key]
                raise
            if not fresh:
                raise BadRequestState(USED, state.ask_id)
        self._forget(state.ask_id)
        if state.gateway != self._gateway:
            self._on_taken_up(state.ask_id)

    def _forget_spent(self) -> None:
        """Those that have expired; the oldest are the first, nearly in order."""
        now = time.time()
        while self._spent and self._spent[oldest := next(iter(self._spent))] < now:
            del self._spent[oldest]

    def taken_up_elsewhere(self, ask_id: str) -> None:
        """Another gateway has the next round, so the client has its time once more. Ours still runs: that gateway
        may die, and then nobody else would close the record."""
        if ask_id in self._open:
            principal = self._open[ask_id][1]
            self._forget(ask_id)
            self._await_next(ask_id, principal)

    def _await_next(self, ask_id: str, principal: str) -> None:
        timer = asyncio.get_running_loop().call_later(self._patience, self._expire, ask_id)
        self._open[ask_id] = timer, principal

    def _forget(self, ask_id: str) -> None:
        if (waiting := self._open.pop(ask_id, None)) is not None:
            waiting[0].cancel()

    def _expire(self, ask_id: str) -> None:
        self._forget(ask_id)
        self._on_expired(ask_id)

    # Calls that are held.

    def hold(self, ask_id: str, bound: StateBinding, cancel: Callable[[object], object]) -> HeldCall | None:
        """None when too many are held already. `cancel` ends the call, with the reason: words, or a refusal."""
        mine = [each for each in self._held.values() if each.principal == bound.principal]
        if len(mine) >= self._most_of_one and (ended := next((each for each in mine if each.over), None)) is not None:
            ended.give_up("another call of this client waits")
        elif len(mine) >= self._most_of_one or len(self._held) >= MAX_HELD:
            return None
        held = self._held[ask_id] = HeldCall(
            bound.principal,
            lambda number: self._seal(ask_id, bound, number),
            cancel,
            lambda: self._held.pop(ask_id, None),
            self._patience,
        )
        return held

    def held(self, state: RequestState) -> HeldCall:
        """Raises `BadRequestState` for a call that does not wait here."""
        if state.gateway != self._gateway:
            raise BadRequestState(
                f"This call waited in a gateway process that has ended, or in another replica; {MAY_HAVE_ACTED}",
                state.ask_id,
            )
        if (held := self._held.get(state.ask_id)) is None:
            raise BadRequestState(
                f"This call no longer waits: it was answered, or it ended; {MAY_HAVE_ACTED}", state.ask_id
            )
        return held

    # What comes back.

    def is_ours(self, token: object) -> bool:
        """Whether this is a state of ours, where other requests may have parameters of that name."""
        return request_state.unseal(token, self._keys) is not None

    def asked_by(self, state: RequestState) -> Callable[[str], bool]:
        """Tells the server that asked from all others, by its identity."""
        return partial(request_state.began, state.server, self._keys)

    def open(self, token: object, bound: StateBinding) -> RequestState:
        """The state that a client brought back. Raises `BadRequestState`."""
        state = request_state.unseal(token, self._keys)
        if state is None or state.principal != bound.principal:  # who it was issued to, nobody else is told
            raise BadRequestState(
                "This requestState was changed, or issued to another client, or by a gateway that does not share its "
                "sealing_keys"
            )
        if state.digest != bound.digest:
            raise BadRequestState(
                "This requestState belongs to another request: repeat the request as it was", state.ask_id
            )
        if state.expires < time.time():
            raise BadRequestState(f"This requestState has expired; {MAY_HAVE_ACTED}", state.ask_id)
        return state

    def _seal(self, ask_id: str, bound: StateBinding, number: int, inner: Any = None, server: str = "") -> str:
        mark = request_state.server_mark(server, self._keys[0]) if server else ""
        state = RequestState(
            ask_id, bound.principal, bound.digest, time.time() + self._patience, self._gateway, number, inner, mark
        )
        return request_state.seal(state, self._keys[0])


class HeldCall:
    """A call that goes on upstream while its client is away with a question to answer.

    Somebody is at the line (a request of the client's that waits for what comes next), or nobody is; then the
    questions that are open decide how long the call may wait.
    """

    def __init__(
        self,
        principal: str,
        seal: Callable[[int], str],
        cancel: Callable[[object], object],
        on_end: Callable[[], object],
        patience: float,
    ) -> None:
        self.principal = principal
        self._seal = seal
        self._cancel = cancel
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._round = 0
        self._asked = 0
        self._open: dict[str, tuple[dict[str, Any], asyncio.Future[dict[str, Any]]]] = {}
        self._tell: Callable[[dict[str, Any] | Call], object] | None = None
        self._limit = patience
        self._patience: asyncio.TimerHandle | None = None
        self._reply: Call | None = None

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self._asked += 1
        key = f"{method.partition('/')[0]}-{self._asked}"
        answer: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._open[key] = {"method": method, "params": dict(params)}, answer
        self._loop.call_soon(self._turn)  # questions of the same moment go out together
        try:
            return await answer
        finally:
            self._open.pop(key, None)

    @property
    def is_away(self) -> bool:
        return self._tell is None

    def come_back(self) -> None:
        """Whoever is at the line leaves with nothing to answer, to ask at once how it goes."""
        if self._tell is not None:
            self._round += 1
            self._wait()
            self._speak({"resultType": "input_required", "requestState": self._seal(self._round)})

    def at_line(self, tell: Callable[[dict[str, Any] | Call], object]) -> None:
        """From now on `tell` hears, once, what comes next: the questions, or the reply."""
        self._tell = tell
        if self._patience is not None:
            self._patience.cancel()
        if self._reply is not None:
            self._speak(self._reply)

    def answer(self, number: int, responses: object) -> None:
        """The client's answers to round `number`. Raises `BadRequestState` for a round that is over."""
        if number != self._round:
            raise BadRequestState(USED)
        self._round += 1
        for key, response in (json_values.as_object(responses) or {}).items():
            said = json_values.as_object(response)
            if said is not None and key in self._open and not self._open[key][1].done():
                self._open[key][1].set_result(said)
        if any(not answer.done() for _, answer in self._open.values()):
            self._loop.call_soon(self._turn)  # what was left out is asked again

    def refuse(self, refusal: Refusal) -> None:
        """What was decided is no longer so: the call ends, and its reply says why."""
        self._cancel(refusal)

    @property
    def over(self) -> bool:
        """Whether the call has ended, and only its reply waits."""
        return self._reply is not None

    def finish(self, reply: Call) -> None:
        """The call is over. If nobody is at the line, the reply waits for the next round."""
        self._reply = reply
        if self._tell is not None:
            self._speak(reply)
        else:
            self._wait()

    def give_up(self, why: str) -> None:
        """End the call: its client left, or its time is up."""
        if self._patience is not None:
            self._patience.cancel()
        self._on_end()
        if self._reply is None:
            self._cancel(why)

    def _turn(self) -> None:
        """The client's turn: whoever is at the line leaves with the open questions."""
        asked = {key: question for key, (question, answer) in self._open.items() if not answer.done()}
        if self._tell is None or not asked:
            return
        self._round += 1
        self._wait()
        state = self._seal(self._round)
        self._speak({"resultType": "input_required", "inputRequests": asked, "requestState": state})

    def _speak(self, what: dict[str, Any] | Call) -> None:
        if (tell := self._tell) is None:
            return
        self._tell = None
        if isinstance(what, Call):
            if self._patience is not None:
                self._patience.cancel()
            self._on_end()
        tell(what)

    def _wait(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._patience = self._loop.call_later(self._limit, self.give_up, EXPIRED)
