"""A task of a server's, asked about here until it ends, for a client that does not follow tasks itself (SURF-10).

To its client it is a call like any other: it takes as long as a call may take, says how it goes where progress is
wanted, asks what the task asks, and when its client goes, or may no longer do this, the task is told to end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from mcpproxy_py.core.protocol.client_channel import ClientChannel
from mcpproxy_py.core.protocol.tasks import ENDED, GET, UPDATE, TaskState, id_of, state_of, wait_of
from mcpproxy_py.core.values import Route
from mcpproxy_py.errors import Code, RpcError, UpstreamFailure
from mcpproxy_py.gateway.recorder import Call
from mcpproxy_py.upstream.permit import NotPermitted, Permit

if TYPE_CHECKING:
    from mcpproxy_py.gateway.gateway import Gateway

PASSING: Final = frozenset((Code.SERVER_UNAVAILABLE, Code.OVERLOADED, Code.TIMEOUT))
"""What a task may outlive: its server is asked again."""
MOST_NOTED: Final = 100
"""Changes of one task that go on record."""
MOST_QUESTIONS: Final = 64
"""That one task may ask; more is no conversation."""
LAST_WORD: Final = 2.0
"""Seconds that the last look at a task may take beyond its time."""
Permits = Callable[[str, Mapping[str, Any]], Permit]
"""Leave to send one request about the task."""


class FollowedTask:
    """`wake` makes it look at once, whatever its server said about when to."""

    def __init__(
        self, gateway: Gateway, call: Call, to: Route, channel: ClientChannel, permit: Permits, limit: float
    ) -> None:
        self._gateway = gateway
        self._call = call
        self._to = to
        self._channel = channel
        self._permit = permit
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + limit
        self._wake = asyncio.Event()
        self._status = ""
        self._said = ""
        self._changes = 0
        self._answered: set[str] = set()
        self.ended = False
        """Whether its server has said so."""

    @property
    def risk(self) -> str:
        return self._to.risk

    def wake(self) -> None:
        self._wake.set()

    async def result(self, begun: Mapping[str, Any]) -> Mapping[str, Any]:
        """What it comes to. Raises `UpstreamFailure` and `NotPermitted`."""
        task_id = id_of(begun) or ""
        self._show("working", "")
        wait = wait_of(begun)
        while True:
            if (state := await self._looked(task_id, wait)) is None:
                continue
            wait = state.wait
            self._show(state.status, state.message)
            if state.status in ENDED:
                self.ended = True
                return _outcome(state)
            if state.questions:
                await self._answer(task_id, state)

    async def _looked(self, task_id: str, wait: float) -> TaskState | None:
        """How it stands after this wait; `None` where its server could not be asked for the moment."""
        left = self._end - self._loop.time()
        if left <= 0:
            message = f"its task was still {self._status} after {self._limit:g} s, which is as long as a call may take"
            raise UpstreamFailure(Code.TIMEOUT, f"{message} (`timeout` of the server); the task was told to end")
        try:
            async with asyncio.timeout(min(wait, left)):
                await self._wake.wait()
            self._wake.clear()
        except TimeoutError:
            pass
        said = await self._asked(self._permit(GET, {"taskId": task_id}))
        if said is None:
            return None
        state = state_of(said, task_id)
        if isinstance(state, str):
            raise UpstreamFailure(Code.UPSTREAM_ERROR, f"{state}; the task was told to end")
        self._call.turn = getattr(said, "turn", None)
        return state

    async def _asked(self, permit: Permit) -> dict[str, Any] | None:
        """`None` where the server is away: it may come back in time, and know the task still."""
        upstreams, server = self._gateway.upstreams, self._to.server
        try:
            async with asyncio.timeout_at(max(self._end, self._loop.time()) + LAST_WORD):
                try:
                    return await upstreams.request(server, permit)
                except UpstreamFailure as failure:
                    if failure.code not in PASSING:
                        raise
                except NotPermitted as no:
                    if no.refusal.code is not Code.SERVER_UNAVAILABLE:
                        raise
                await upstreams.ready(server)
        except TimeoutError:
            pass
        return None

    async def _answer(self, task_id: str, state: TaskState) -> None:
        """Put what it asks to the client. Its time stands still meanwhile, since a person may take minutes."""
        new = {key: question for key, question in state.questions.items() if key not in self._answered}
        if not new:
            return
        if len(self._answered) + len(new) > MOST_QUESTIONS:
            raise UpstreamFailure(Code.UPSTREAM_ERROR, f"its task asks more than {MOST_QUESTIONS} questions")
        began = self._loop.time()
        try:
            said = {key: await self._channel.request(method, params) for key, (method, params) in new.items()}
        except RpcError as error:
            message = f"its task asks for input that the client does not give: {error.message}"
            raise UpstreamFailure(Code.UPSTREAM_ERROR, message) from None
        self._end += self._loop.time() - began
        await self._gateway.record_answers(self._call, self._to, [method for method, _ in new.values()], said)
        if await self._asked(self._permit(UPDATE, {"taskId": task_id, "inputResponses": said})) is not None:
            self._answered |= new.keys()

    def _show(self, status: str, said: str) -> None:
        """What is new, on record and to a client that wants to know."""
        if (status, said) == (self._status, self._said):
            return
        if status != self._status and self._changes < MOST_NOTED:
            self._gateway.recorder.note_round(self._call.id, "task", [status])
        self._status, self._said = status, said
        self._changes += 1
        if self._channel.wants_progress:
            told = {"progress": self._changes, "message": said or f"The task is {status.replace('_', ' ')}"}
            self._channel.notify("notifications/progress", told)


def _outcome(state: TaskState) -> Mapping[str, Any]:
    if state.result is not None:
        return state.result
    if state.error is not None:
        raise UpstreamFailure(Code.UPSTREAM_ERROR, state.failure, data=state.error)
    why = state.message and f": {state.message}"
    raise UpstreamFailure(Code.UPSTREAM_ERROR, f"its task was cancelled at the server{why}")
