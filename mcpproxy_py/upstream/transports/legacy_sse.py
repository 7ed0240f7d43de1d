"""The HTTP transport of 2024-11-05: one stream of events for everything the server says, a POST for what we say."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urljoin, urlsplit

import anyio
import anyio.abc
import httpx2

from mcpproxy_py.core.json_size import MAX_VALUES
from mcpproxy_py.errors import FORGOTTEN, Code, UpstreamFailure, lost
from mcpproxy_py.upstream.oauth.auth import NO_AUTH, NoAuth, ServerAuth
from mcpproxy_py.upstream.session.rpc import Outgoing, PendingRequest, RpcPeer, cancellation
from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.transports.http_clients import (
    BROKEN,
    HttpClients,
    Withheld,
    challenge_of,
    head_of,
    post,
    slices,
    stream,
)
from mcpproxy_py.upstream.transports.http_exchange import (
    ServerSentEvent,
    SseParser,
    compression,
    refusal,
    unreachable,
    unsent,
)
from mcpproxy_py.upstream.transports.http_pool import ResponseHead

logger = logging.getLogger(__name__)

POST_TIMEOUT: Final = 30.0
JSON: Final = {"content-type": "application/json"}
MAX_SIDE_POSTS: Final = 256
"""More than there can be answers of clients on their way; beyond that somebody floods us."""


class SseConnection(RpcPeer):
    wants_headers = True

    def __init__(
        self, url: str, client: httpx2.AsyncClient, tasks: anyio.abc.TaskGroup, max_result_bytes: int,
        max_values: int = MAX_VALUES, auth: ServerAuth | NoAuth = NO_AUTH,
    ) -> None:  # fmt: skip
        super().__init__(max_result_bytes, max_values)
        self._auth = auth
        self.failure: UpstreamFailure | None = None
        """Why it never was a connection, where a server said so."""
        self.located = anyio.Event()
        self._url = url
        self._endpoint = ""
        self._client = client
        self._tasks = tasks
        self._side_posts = 0

    def _send(self, outgoing: Outgoing) -> None:
        if isinstance(outgoing, PendingRequest) or self._side_posts < MAX_SIDE_POSTS:
            self._tasks.start_soon(self._post, outgoing)

    def _retract(self, pending: PendingRequest, reason: str, cancellable: bool) -> None:
        if cancellable and pending.sent and not self.closed.is_set():
            headers = dict(pending.headers)
            self._send(cancellation(pending.id, reason, lambda message, channel: (message.params, headers)))

    async def _post(self, outgoing: Outgoing) -> None:
        aside = not isinstance(outgoing, PendingRequest)
        self._side_posts += aside
        try:
            with anyio.fail_after(POST_TIMEOUT):
                await self._deliver(outgoing)
        except Withheld:
            return  # whoever waits for it knows
        except UpstreamFailure as failure:
            outgoing.fail(failure)
        except httpx2.ConnectError as error:
            outgoing.fail(unsent(error))
            self.shut(unreachable(error))
        except (*BROKEN, TimeoutError) as error:
            outgoing.fail(lost(f"the message was not accepted ({error or type(error).__name__})", sent=outgoing.sent))
        finally:
            self._side_posts -= aside

    async def _deliver(self, outgoing: Outgoing) -> None:
        for again in (False, True):
            version = self._auth.version
            async with post(self._client, self._endpoint, outgoing, JSON) as response:
                head = head_of(response)
            if head.status < 300:
                return
            if again or not await self._may_repeat(head, version):
                raise refusal(head)

    async def _may_repeat(self, head: ResponseHead, version: int, again: bool = False) -> bool:
        """By 401 the server says that it did not act; see `RequestSender.asks_who`."""
        challenge = challenge_of(head)
        return challenge is not None and await self._auth.challenged(head.status, challenge, version, again)

    async def listen(self) -> None:
        """Read the stream to its end; that end is the end of the connection."""
        version = self._auth.version
        try:
            async with stream(self._client, "GET", self._url, headers={"accept": "text/event-stream"}) as response:
                head = head_of(response)
                if response.status_code != 200 or compression(head):
                    if await self._may_repeat(head, version):
                        raise UpstreamFailure(Code.SERVER_UNAVAILABLE, FORGOTTEN, sent=False)
                    raise refusal(head)
                parser = SseParser(self._limit, self._take_event, self._oversize)
                async for chunk in response.aiter_raw():
                    async for slice_ in slices(chunk):
                        parser.feed(slice_)
                        await self.large.room(None)
                await self.large.room(None)
            self.shut("the server closed its stream")
        except UpstreamFailure as failure:
            self.failure = failure
            self.shut(failure.message)
        except httpx2.ConnectError as error:
            self.shut(unreachable(error))
        except BROKEN as error:
            self.shut(f"the stream broke ({error or type(error).__name__})")
        finally:
            self.located.set()

    def _take_event(self, event: ServerSentEvent) -> None:
        if event.kind == "endpoint":
            self._locate(event.data.decode("utf-8", "replace"))
        elif event.kind == "message":
            self.receive_text(event.data)

    def _locate(self, where: str) -> None:
        """The address for our messages; only on the server's own origin, since our credentials go with them."""
        endpoint = urljoin(self._url, where)
        if urlsplit(endpoint)[:2] != urlsplit(self._url)[:2]:
            self.shut("the server names an address for messages on another origin, which is not used")
        elif not self._endpoint:
            self._endpoint = endpoint
        self.located.set()


@asynccontextmanager
async def open_sse(
    spec: UpstreamSpec, *, web: HttpClients, max_result_bytes: int, max_values: int = MAX_VALUES
) -> AsyncIterator[RpcPeer]:
    auth = web.auth(spec)
    await auth.prepare()
    async with web.client(spec) as client, anyio.create_task_group() as tasks:
        connection = SseConnection(spec.url or "", client, tasks, max_result_bytes, max_values, auth)
        connection.traced = web.traced
        try:
            tasks.start_soon(connection.listen)
            with anyio.move_on_after(spec.connect_timeout):
                await connection.located.wait()
            if connection.closed.is_set() or not connection.located.is_set():
                why = connection.why or "the server did not say where to send messages"
                raise connection.failure or UpstreamFailure(Code.SERVER_UNAVAILABLE, why, sent=False)
            yield connection
        finally:
            connection.shut("the gateway is closing this connection")
            tasks.cancel_scope.cancel()
