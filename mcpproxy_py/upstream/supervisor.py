"""All upstreams together: who runs, what they offer, and calling them."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.abc

from mcpproxy_py.core.json_size import MAX_VALUES
from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.pending_checks import CheckVerdict, PendingCheck
from mcpproxy_py.core.pins.scan.finding import ABOUT_OTHERS
from mcpproxy_py.core.policy.tool_class import by_class
from mcpproxy_py.core.record.masking import mask_text
from mcpproxy_py.core.values import Policy
from mcpproxy_py.errors import Code, UpstreamFailure
from mcpproxy_py.upstream.calls.scheduler import EVICT_AFTER, ServerStats
from mcpproxy_py.upstream.lists.in_force import ListingJudge
from mcpproxy_py.upstream.lists.notifications import (
    LISTS,
    OnListChanged,
    OnNotification,
    OnUnattributed,
    UpstreamCallbacks,
    ignored,
)
from mcpproxy_py.upstream.lists.tool_list import ListingStore
from mcpproxy_py.upstream.oauth.auth import AuthFor
from mcpproxy_py.upstream.permit import OwnPermit, Permit
from mcpproxy_py.upstream.processes.reaper_client import ReaperClient
from mcpproxy_py.upstream.schemas.check_workers import CheckWorkers
from mcpproxy_py.upstream.server import SERVER_WIDE, UNSUBSCRIBE, UpstreamServer
from mcpproxy_py.upstream.session.session import Negotiated
from mcpproxy_py.upstream.snapshot import SnapshotPublisher
from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.transports.dialer import Dialer
from mcpproxy_py.upstream.transports.in_process import InProcessServer

MAX_RESULT_BYTES: Final = 16 * 1024 * 1024
ROOTS_CHANGED: Final = "notifications/roots/list_changed"
COALESCE: Final = 0.05


class Supervisor:
    """Everything lives inside `run`; ending that ends every child."""

    def __init__(
        self, *, log_dir: Path, local: Mapping[str, InProcessServer] | None = None, known: ListingStore | None = None,
        max_result_bytes: int = MAX_RESULT_BYTES, max_values: int = MAX_VALUES,
        on_change: Callable[[], object] | None = None,
        on_notification: OnNotification = ignored, on_unattributed: OnUnattributed = ignored,
        on_list_changed: OnListChanged = ignored, auth_for: AuthFor | None = None,
        clock: Callable[[], float] = time.time, evict_after: float = EVICT_AFTER, traced: bool = False,
        mask: Callable[[str], str] = mask_text, judge: ListingJudge | None = None,
    ) -> None:  # fmt: skip
        """`on_change` is called after each publishing, `on_notification(server, method, params)` for each
        notification that belongs to no call, `on_unattributed(server, method)` for each question of a server's that
        belongs to no one call and was refused, `on_list_changed(server, method)` when a server says that one of its
        lists changed. All on the event loop, and none may block. `hurry` is how many seconds a client may be away with
        a question while other calls wait for its place. With `traced`, the trace context of a request goes to servers
        over HTTP in its headers too. `mask` takes secrets out of what servers write to stderr and of what is said of
        them. `judge` says what of a server's listing is in force; without one, all of it."""
        self._log_dir = log_dir
        self._local = dict(local or {})
        self._known, self._judge = known, judge
        self._max_result_bytes, self._max_values = max_result_bytes, max_values
        self._callbacks = UpstreamCallbacks(on_notification, on_unattributed, on_list_changed)
        self._auth_for = auth_for
        self._traced = traced
        self._mask = mask
        self._clock = clock
        self._evict_after = evict_after
        self._on_change = on_change
        self._publisher = SnapshotPublisher(self._published)
        self.snapshot = self._publisher.snapshot
        """What is published now. An attribute, because every call reads it."""
        self._workers: dict[str, UpstreamServer] = {}
        self._checks = CheckWorkers()
        self._moved: set[str] = set()
        self._applying = anyio.Lock()
        self._tasks: anyio.abc.TaskGroup | None = None
        self._dialer: Dialer | None = None

    def _published(self) -> None:
        self.snapshot = self._publisher.snapshot
        if self._on_change is not None:
            self._on_change()

    def set_policy(self, policy: Policy) -> None:
        self._publisher.set_policy(policy)

    async def run(
        self, specs: Mapping[str, UpstreamSpec], *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Start with `await tasks.start(supervisor.run, specs)`; every server is in the snapshot by then, and none
        was waited for. Runs until it is cancelled."""
        # Two groups: the reaper goes last, and what would replace it must not outlive it.
        async with anyio.create_task_group() as keeping:
            reaper = ReaperClient(keeping)
            self._dialer = Dialer(
                reaper, self._local, self._max_result_bytes, self._auth_for, self._traced, self._max_values
            )
            try:
                async with anyio.create_task_group() as self._tasks:
                    await self.apply(specs)
                    task_status.started()
                    await anyio.sleep_forever()
            finally:
                self._tasks = None
                self._workers.clear()
                keeping.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await self._checks.aclose()
                    await reaper.aclose()

    def tighten(self, specs: Mapping[str, UpstreamSpec], policy: Policy) -> None:
        """Of a configuration to come what it forbids, at once: of every rule the stricter one is in force until `apply`
        and `set_policy` take it on."""
        for name, worker in self._workers.items():
            if name in specs or name not in self._local:
                worker.tighten(specs.get(name))
        self._publisher.set_policy(self.snapshot.policy.stricter(policy))

    async def apply(
        self, specs: Mapping[str, UpstreamSpec], local: Mapping[str, InProcessServer] | None = None
    ) -> None:
        """Make the running servers those of `specs`: only what changed is touched. `local` replaces what lives
        inside the gateway, where given. Returns once what was removed has ended; what was added is still
        connecting."""
        async with self._applying:
            if local is not None:
                self._local.clear()  # the dialer looks into the same mapping
                self._local.update(local)
            wanted = {name: UpstreamSpec(name, transport="local") for name in self._local} | dict(specs)
            removed = [self._workers.pop(name) for name in list(self._workers) if name not in wanted]
            for worker in removed:
                worker.stop()
            for spec in wanted.values():
                await self._apply_one(spec)
            self._publisher.retain(wanted)
            for worker in removed:
                await worker.done.wait()
            for worker in list(self._workers.values()) if removed else ():
                findings = worker.tool_list.review.get("findings", ())
                if any(each["kind"] in ABOUT_OTHERS for each in findings):  # perhaps about a removed server
                    await worker.tool_list.derive()

    def names(self) -> Container[str]:
        """Of the servers that are configured, connected or not."""
        return self._workers.keys()

    async def _apply_one(self, spec: UpstreamSpec) -> None:
        worker = self._workers.get(spec.name)
        if worker is None:
            self._start(spec)
        elif worker.spec != spec or worker.tightened:
            await worker.change(spec)

    def _start(self, spec: UpstreamSpec) -> None:
        if self._tasks is None or self._dialer is None:
            raise RuntimeError("apply() needs a supervisor that runs")
        worker = self._workers[spec.name] = UpstreamServer(
            spec, publisher=self._publisher, dialer=self._dialer, log_path=self.log_path(spec.name), known=self._known,
            clock=self._clock, callbacks=self._callbacks, evict_after=self._evict_after, mask=self._mask,
            judge=self._judge,
        )  # fmt: skip
        self._tasks.start_soon(worker.run)

    async def ready(self, server: str) -> None:
        """Wakes a sleeping server, and waits until it is connected or has failed, `connect_timeout` at most."""
        if (worker := self._workers.get(server)) is not None:
            await worker.ready()

    async def restart(self, server: str) -> None:
        """End its connection and start it anew, a sleeping one too. `ready` waits for the result."""
        self._worker(server).restart()

    def request(self, server: str, permit: Permit) -> Coroutine[Any, Any, dict[str, Any]]:
        """Any request of a client's, with the server's limits: the raw result. What is sent is what `permit` gives at
        that moment. Raises `UpstreamFailure`, also before it is awaited, and `NotPermitted`."""
        worker = self._workers.get(server) or self._worker(server)
        return worker.request(permit) if permit.method in SERVER_WIDE else worker.calls.request(permit)

    async def check(self, server: str, pending: PendingCheck) -> CheckVerdict:
        """What cannot be found out on the event loop: whether arguments for this server fit a schema."""
        return await self._checks.check(server, pending)

    async def unwatch(self, server: str, uri: str) -> None:
        """A client that watched this resource is gone. The server is told when the last one has left. Raises
        `UpstreamFailure`."""
        await self._worker(server).request(OwnPermit(UNSUBSCRIBE, {"uri": uri}))

    async def listed(self, server: str, method: str) -> list[dict[str, Any]]:
        """All that `prompts/list`, `resources/list` or `resources/templates/list` gives, raw, kept until the server
        says that it changed; nothing where it has no such thing. Raises `UpstreamFailure`."""
        return await self._worker(server).listed(method)

    async def judge_again(self, server: str) -> None:
        """What is approved of this server is something else now. Nothing where there is no such server."""
        if (worker := self._workers.get(server)) is not None:
            await worker.judge_again()

    def forget(self, key: str) -> None:
        """The client of this `ClientChannel.key` is gone, and with it the sessions that were its own."""
        for worker in self._workers.values():
            worker.forget(key)

    def list_changed_elsewhere(self, server: str, method: str) -> bool:
        """This server said to another gateway that one of its lists changed. Whether that means anything here."""
        worker = self._workers.get(server) if method in LISTS else None
        if worker is not None:
            worker.notifications.hear_elsewhere(method)
        return worker is not None

    def look_again(self) -> None:
        """For a while nobody would have told us what servers say elsewhere."""
        for worker in self._workers.values():
            worker.notifications.missed()

    def roots_changed(self, key: str) -> None:
        """The client of this `ClientChannel.key` says so. Its own sessions are told, once for each moment."""
        if self._tasks is not None and key not in self._moved:
            self._moved.add(key)
            self._tasks.start_soon(self._tell_of_roots, key)

    async def _tell_of_roots(self, key: str) -> None:
        await anyio.sleep(COALESCE)
        self._moved.discard(key)
        for session in [each for worker in self._workers.values() for each in worker.sessions_of(key)]:
            with suppress(UpstreamFailure):
                await session.send_notification(ROOTS_CHANGED)

    def handshake(self, server: str) -> Negotiated | None:
        """What the server said of itself when it connected; None while it is not connected."""
        worker = self._workers.get(server)
        return worker.session.handshake if worker and worker.session else None

    @property
    def reaper_pid(self) -> int | None:
        """The process that ends the servers of a gateway that was killed; None before the first stdio server."""
        return self._dialer.reaper.pid if self._dialer else None

    def log_path(self, server: str) -> Path:
        return self._log_dir / f"{server}.log"

    def describe(self) -> list[dict[str, Any]]:
        """Each server as people are shown it."""
        rule = self.snapshot.policy.unannotated
        return [{**_described(worker), "unannotated_as": rule} for worker in self._workers.values()]

    def measured(self) -> list[ServerStats]:
        """Each server as metrics are shown it."""
        return [worker.measured() for worker in self._workers.values()]

    def _worker(self, server: str) -> UpstreamServer:
        worker = self._workers.get(server)
        if worker is None:
            raise UpstreamFailure(Code.SERVER_UNAVAILABLE, f"there is no server {server!r}", sent=False)
        return worker


def _described(worker: UpstreamServer) -> dict[str, Any]:
    spec, session, names = worker.spec, worker.session, worker.tool_list.names
    mode, why = worker.calls.session_mode
    return {
        "name": spec.name,
        "transport": spec.transport,
        "state": worker.state,
        "enabled": spec.enabled,
        "lazy": spec.lazy,
        "error": worker.error,
        "tool_count": len(worker.tool_list.tools),
        "tools_by_class": by_class(worker.tool_list.tools.values()),
        "left_out": {quoted(name): why for name, why in worker.tool_list.left_out.items()} | dict(names.left_out),
        "unmatched_entries": list(names.unmatched),
        "unannotated_tools": list(names.unannotated),
        "pins": dict(worker.tool_list.review),
        "protocol_version": session.handshake.protocol_version if session else None,
        "server_info": dict(session.handshake.server_info) if session else None,
        "since": worker.since,
        "sessions": worker.calls.sessions,
        "session_mode": mode,
        "session_mode_reason": why,
        "extra_sessions": len(worker.pool) + len(worker.legacy_sessions.pool),
        "in_flight": worker.calls.slots.in_flight,
        "restarts": worker.restarts,
        "ignored": worker.counts(),
    }
