"""Hearing of changes in the way of each era, for as long as one session lives.

Which resources of a server somebody wants to hear of, whatever happens to its sessions.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import anyio

from mcpproxy_py.errors import Code, UpstreamFailure, bad_answer, lost
from mcpproxy_py.upstream.permit import NotPermitted, OwnPermit, Permit, WatchPermit
from mcpproxy_py.upstream.session.session import UpstreamSession

logger = logging.getLogger(__name__)

ALWAYS: Final[Mapping[str, Any]] = {
    "toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True,
}  # fmt: skip
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
ACK_TIMEOUT: Final = 10.0
INVALID_PARAMS: Final = -32602


class ResourceWatch(Protocol):
    async def run(self, uris: Iterable[str]) -> None:
        """Take up what is wanted, and keep it up. May return when there is nothing to keep up."""
        ...

    async def add(self, permit: Permit, uri: str, timeout: float) -> dict[str, Any]: ...

    async def remove(self, permit: Permit, uri: str, timeout: float) -> dict[str, Any]: ...


def watch(server: str, session: UpstreamSession, on_gap: Callable[[], None]) -> ResourceWatch:
    """`on_gap`: changes are heard from now on, and may have been missed until now."""
    return ModernWatch(server, session, on_gap) if session.modern else HandshakeWatch(server, session)


class HandshakeWatch:
    """Changes come by themselves; each resource has to be asked for."""

    def __init__(self, server: str, session: UpstreamSession) -> None:
        self._server = server
        self._session = session

    async def run(self, uris: Iterable[str]) -> None:
        for uri in list(uris):
            try:
                await self.add(OwnPermit("resources/subscribe", {"uri": uri}), uri, ACK_TIMEOUT)
            except UpstreamFailure as failure:
                logger.warning("%s: it no longer sends notifications for a resource: %s", self._server, failure)

    async def add(self, permit: Permit, uri: str, timeout: float) -> dict[str, Any]:
        return await self._session.request(permit, timeout=timeout)

    async def remove(self, permit: Permit, uri: str, timeout: float) -> dict[str, Any]:
        return await self._session.request(permit, timeout=timeout)


class ModernWatch:
    """One stream for all changes, opened anew whenever other resources are wanted."""

    def __init__(self, server: str, session: UpstreamSession, on_gap: Callable[[], None]) -> None:
        self._server = server
        self._session = session
        self._on_gap = on_gap
        self._uris: frozenset[str] = frozenset()
        self._stream: _Stream | None = None
        self._changing = asyncio.Lock()

    async def run(self, uris: Iterable[str]) -> None:
        self._uris = frozenset(uris)
        pause = FIRST_PAUSE
        try:
            while True:
                begun = anyio.current_time()
                if not await self._once():
                    return
                pause = FIRST_PAUSE if anyio.current_time() - begun > LONGEST_PAUSE else min(pause * 2, LONGEST_PAUSE)
                await anyio.sleep(pause)
        finally:
            self._swap(None)

    async def _once(self) -> bool:
        """One stream, or those that take its place, until the end. Whether another may last longer."""
        stream = self._swap(_Stream(self._session, self._uris, self._on_gap))
        while True:
            failure = await stream.end()
            if stream is not self._stream and self._stream is not None:
                stream = self._stream
            elif failure is not None and failure.code is Code.UPSTREAM_ERROR and failure.data:
                logger.debug("%s does not send change notifications: %s", self._server, failure.message)
                return False
            else:
                return True

    async def add(self, permit: Permit, uri: str, timeout: float) -> dict[str, Any]:
        await self._change(permit, self._uris | {uri}, uri)
        return {}

    async def remove(self, permit: Permit, uri: str, timeout: float) -> dict[str, Any]:
        if uri in self._uris:
            await self._change(permit, self._uris - {uri}, None)
        return {}

    async def _change(self, permit: Permit, uris: frozenset[str], wanted: str | None) -> None:
        """The new stream is open before the old one goes, so that nothing is missed in between."""
        async with self._changing:
            heard = self._stream is not None and self._stream.open
            stream = _Stream(self._session, uris, _nothing if heard else self._on_gap, permit)
            try:
                await stream.acknowledged(wanted)
            except BaseException:
                stream.close()
                raise
            self._uris = uris
            self._swap(stream)

    def _swap(self, stream: _Stream | None) -> Any:
        old, self._stream = self._stream, stream
        if old is not None:
            old.close()
        return stream


def _nothing() -> None: ...


class _Stream:
    """One `subscriptions/listen`."""

    def __init__(
        self, session: UpstreamSession, uris: Iterable[str], on_open: Callable[[], None], permit: Permit | None = None
    ) -> None:
        """`permit` is of the client that wants these `uris` and no others; the gateway itself opens it again."""
        self._session = session
        self._on_open = on_open
        resources = {"resourceSubscriptions": sorted(uris)} if uris else {}
        listen: tuple[str, dict[str, Any]] = "subscriptions/listen", {"notifications": {**ALWAYS, **resources}}
        self._permit = OwnPermit(*listen) if permit is None else WatchPermit(permit, *listen)
        self._honored: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._task = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> UpstreamFailure | None:
        failure = None
        try:
            await self._session.request(self._permit, timeout=None, hear=self._hear)
        except UpstreamFailure as caught:
            failure = caught
        except NotPermitted as no:
            if not self._honored.done():
                self._honored.set_exception(no)
                self._honored.exception()  # nobody may be waiting for it
        if not self._honored.done():
            self._honored.set_exception(failure or lost("the subscription ended at once", sent=True))
            self._honored.exception()  # nobody may be waiting for it
        return failure

    def _hear(self, method: str, params: Mapping[str, Any]) -> None:
        if not self._honored.done():
            honored = params.get("notifications")
            self._honored.set_result(honored if isinstance(honored, dict) else {})
            self._on_open()

    @property
    def open(self) -> bool:
        return self._honored.done() and not self._task.done()

    async def end(self) -> UpstreamFailure | None:
        """Why it ended; None where it ended in peace or was closed."""
        await asyncio.wait([self._task])
        return None if self._task.cancelled() else self._task.result()

    async def acknowledged(self, wanted: str | None) -> None:
        """Returns once the server listens to us. Raises `UpstreamFailure`, also where it will not tell of `wanted`."""
        try:
            async with asyncio.timeout(ACK_TIMEOUT):
                honored = await asyncio.shield(self._honored)
        except TimeoutError:
            raise UpstreamFailure(Code.TIMEOUT, f"it did not take the subscription within {ACK_TIMEOUT:g} s") from None
        agreed = honored.get("resourceSubscriptions")
        if wanted is not None and (not isinstance(agreed, list) or wanted not in agreed):
            raise bad_answer("it does not send notifications for this resource", {"code": INVALID_PARAMS})

    def close(self) -> None:
        self._task.cancel()


MAX_RESOURCES: Final = 10_000


class Subscriptions:
    """The server hears of the first subscriber of a resource and of the last that goes."""

    def __init__(self) -> None:
        self._subscribers: Counter[str] = Counter()
        self._changing = asyncio.Lock()

    @property
    def uris(self) -> Iterable[str]:
        return self._subscribers.keys()

    def forget(self) -> None:
        """Another server has the name now, and no client has subscribed to its resources."""
        self._subscribers.clear()

    async def add(self, watch: ResourceWatch, permit: Permit, uri: str, timeout: float) -> dict[str, Any]:
        """The server's own answer to the first. Raises `UpstreamFailure`."""
        async with self._changing:
            if len(self._subscribers) >= MAX_RESOURCES and uri not in self._subscribers:
                raise UpstreamFailure(
                    Code.OVERLOADED, f"{MAX_RESOURCES} of its resources are subscribed to", sent=False
                )
            answer = {} if uri in self._subscribers else await watch.add(permit, uri, timeout)
            self._subscribers[uri] += 1
            return answer

    async def remove(self, watch: ResourceWatch, permit: Permit, uri: str, timeout: float) -> dict[str, Any]:
        """Whoever was never subscribed gets what the server says to that. Raises `UpstreamFailure`."""
        async with self._changing:
            if permit.channel is None and uri not in self._subscribers:
                return {}  # its client has gone, and another server than this one knew of it
            if self._subscribers[uri] > 1:
                self._subscribers[uri] -= 1
                return {}
            del self._subscribers[uri]
            return await watch.remove(permit, uri, timeout)
