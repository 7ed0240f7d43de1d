"""Calls that were answered with a task: who follows it, what is on record of it, and what ends it (SURF-10).

A client that follows tasks gets its task where the surface serves `tasks/get`, under an id by which we know it again;
for any other, it is followed here. Its call is on record as begun, and as ended by whoever sees the end. A freeze tells
what is above read to end.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from mcpproxy_py.core.protocol import tasks
from mcpproxy_py.core.protocol.client_channel import ClientChannel
from mcpproxy_py.core.protocol.request_state import server_mark
from mcpproxy_py.core.protocol.tasks import ENDED, TaskOrigin
from mcpproxy_py.core.record import events
from mcpproxy_py.core.record.events import Outcome
from mcpproxy_py.core.values import Relay, Route, Snapshot
from mcpproxy_py.errors import Code, UpstreamFailure
from mcpproxy_py.gateway.recorder import Call
from mcpproxy_py.gateway.tasks.following import FollowedTask, Permits
from mcpproxy_py.gateway.tasks.table import TaskTable
from mcpproxy_py.upstream.permit import CancelPermit, NotPermitted

if TYPE_CHECKING:
    from mcpproxy_py.gateway.gateway import Gateway

log = logging.getLogger(__name__)

CANCEL_PATIENCE: Final = 10.0
"""Seconds for a server to hear that a task is to end."""
SETTLE: Final = 2.0
CANCELLED: Final = {"code": "CANCELLED", "message": "its task was cancelled"}
FORGOTTEN: Final = events.failure(Code.TIMEOUT, "nobody has seen how its task ended")
FROZEN: Final = events.failure(Code.FROZEN, "its task was told to end: this gateway was frozen")


class CallTasks:
    def __init__(self, gateway: Gateway) -> None:
        self.keys: tuple[bytes, ...] = (secrets.token_bytes(32),)
        """What ids are sealed with at the direct surface; gateways of one database have theirs in common."""
        self.table = TaskTable(lambda task: self._record(task, Outcome("timeout", error=FORGOTTEN), guess=True))
        self._gateway = gateway
        self._followed: dict[FollowedTask, TaskOrigin] = {}
        self._beside: set[asyncio.Task[None]] = set()
        self._frozen = False

    async def went_on(
        self, call: Call, to: Route | Relay, channel: ClientChannel, begun: dict[str, Any], permit: Permits
    ) -> dict[str, Any]:
        """What to answer a call with whose server began a task: the task, or what came of it. Raises `UpstreamFailure`
        and `NotPermitted`."""
        surface = call.ask.surface
        there = self._gateway.snapshot.servers.get(to.server)
        limit = None if there is None else there.tasks
        task_id = tasks.id_of(begun)
        if task_id is None or isinstance(to, Relay) or (limit is None and surface != "passthrough"):
            message = f"'{to.full_name}' answers with a task that goes on, which cannot be followed here"
            raise UpstreamFailure(Code.UPSTREAM_ERROR, message)
        now = time.time()
        task = TaskOrigin(
            to.server, task_id, call.ask.principal, call.id, to.tool.name, to.risk, now, tasks.expires(begun, now),
            server_mark(call.snapshot.servers[to.server].identity, self.keys[0]),
        )  # fmt: skip
        if surface == "passthrough" or (surface == "direct" and follows(channel)):
            return await self._handed_over(call, to, task, begun)
        assert limit is not None
        return await self._followed_here(
            call, task, FollowedTask(self._gateway, call, to, channel, permit, limit), begun
        )

    async def _handed_over(self, call: Call, to: Route, task: TaskOrigin, begun: dict[str, Any]) -> dict[str, Any]:
        """To a client that asks about it itself. Nobody hears of it before everybody knows whose it is."""
        if not await self.table.keep(task):
            message = f"'{to.full_name}' answers with a task of somebody else's"
            raise UpstreamFailure(Code.UPSTREAM_ERROR, message)
        recorder = self._gateway.recorder
        recorder.note_round(call.id, "task", ["working"])
        recorder.tally.count(call.ask, call.decision, call.decision.rule, "pending")
        if self._frozen and task.risk != "read":
            self._spawn(self._told_to_end(task))
        if call.ask.surface == "passthrough":
            return begun
        return {**begun, "taskId": tasks.seal(task, self.keys[0])}

    async def _followed_here(
        self, call: Call, task: TaskOrigin, followed: FollowedTask, begun: dict[str, Any]
    ) -> dict[str, Any]:
        self._followed[followed] = task
        try:
            return dict(await followed.result(begun))
        finally:
            if self._followed.pop(followed, None) and not followed.ended:
                self._spawn(self._cancelled(task))

    # What is seen of a task that a client follows.

    def opened(self, handle: object, principal: str) -> TaskOrigin | None:
        """The task behind an id of the direct surface, for its owner."""
        return tasks.unseal(handle, self.keys, principal, time.time())

    def seen(self, task: TaskOrigin, said: Mapping[str, Any]) -> None:
        """A client was told this of its task."""
        state = tasks.state_of(said, task.id)
        if isinstance(state, str) or state.status not in ENDED or not self.table.end(task):
            return
        if state.result is not None:
            outcome = events.outcome_of(state.result, {})
        elif state.error is not None:
            why = state.failure[: tasks.LONGEST_MESSAGE]
            outcome = Outcome("error", error=events.failure(Code.UPSTREAM_ERROR, why))
        else:
            outcome = Outcome("cancelled", error=CANCELLED)
        self._record(task, outcome)

    def told_to_cancel(self, task: TaskOrigin) -> None:
        """By its client, which need not look again. Should it all the same, and see another end, that one counts."""
        if not self.table.has_ended(task):
            self._record(task, Outcome("cancelled", error=CANCELLED), guess=True)

    def _record(self, task: TaskOrigin, outcome: Outcome, *, guess: bool = False) -> None:
        duration = None if guess else max(0.0, time.time() - task.began) * 1000
        self._gateway.recorder.end_later(task.ask_id, task.principal, outcome, duration)

    # What ends one.

    def snapshot_changed(self, snapshot: Snapshot) -> None:
        frozen = snapshot.policy.frozen
        if frozen and not self._frozen:
            for followed in self._followed:
                followed.wake()  # it asks for leave to look, has none, and ends
            self._spawn(self._freeze())
        self._frozen = frozen

    async def load(self) -> None:
        """What the gateway knew before it was started; frozen, it goes on ending it."""
        await self.table.load()
        if self._frozen:
            self._spawn(self._freeze())

    async def _freeze(self) -> None:
        """What is known here first, which needs no database."""
        told: set[TaskOrigin] = set()
        for look in (True, False):
            due = [task for task in self.table.going_on() if task.risk != "read" and task not in told]
            told.update(due)
            for task in due:
                self._spawn(self._told_to_end(task))
            if look:
                await self.table.look_around()

    async def _told_to_end(self, task: TaskOrigin) -> None:
        if await self._cancelled(task):
            self._record(task, Outcome("cancelled", error=FROZEN), guess=True)

    async def _cancelled(self, task: TaskOrigin) -> bool:
        """Whether its server has heard of it, which is all that can be done about it."""
        upstreams = self._gateway.upstreams
        try:
            async with asyncio.timeout(CANCEL_PATIENCE):
                await upstreams.ready(task.server)
                await upstreams.request(task.server, CancelPermit(task.id))
            return True
        except (UpstreamFailure, NotPermitted, TimeoutError) as why:
            log.warning("a task of %s could not be told to end: %s", task.server, why)
            return False

    async def settle(self) -> None:
        """The gateway ends. What is still followed is told to end, which is waited for a moment."""
        followed, self._followed = self._followed, {}
        for task in followed.values():
            self._spawn(self._cancelled(task))
        if self._beside:
            await asyncio.wait(self._beside, timeout=SETTLE)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(_quietly(work))
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)


async def _quietly(work: Coroutine[Any, Any, Any]) -> None:
    try:
        await work
    except Exception:
        log.exception("a task could not be looked after")


def follows(channel: ClientChannel) -> bool:
    """Whether this client asks about its tasks itself, which only the modern era can."""
    return not channel.live and tasks.declares(channel.capabilities)
