"""The HTTP transport of 2024-11-05: one stream of events for everything the server says, a POST for what we say."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urljoin, urlsplit

import anyio
import anyio.abc
import httpx2

from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.events import Event, EventParser
from mcpproxy_py.upstream.failure import UpstreamFailure, lost
from mcpproxy_py.upstream.messages import cancellation
from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.web import BROKEN, Web, head_of, refusal, stream, unreachable, unsent
from mcpproxy_py.upstream.wire import Wire

logger = logging.getLogger(__name__)

POST_TIMEOUT: Final = 30.0
MAX_SIDE_POSTS: Final = 256
"""More than there can be answers of clients on their way; beyond that somebody floods us."""


class SseConnection(Wire):
    wants_headers = True

    def __init__(self, url: str, client: httpx2.AsyncClient, tasks: anyio.abc.TaskGroup, max_result_bytes: int) -> None:
        super().__init__(max_result_bytes)
        self.located = anyio.Event()
        self._url = url
        self._endpoint = ""
        self._client = client
        self._tasks = tasks
        self._side_posts = 0

    def _transmit(self, payload: bytes, headers: Mapping[str, str], request_id: int | None) -> None:
        if request_id is not None or self._side_posts < MAX_SIDE_POSTS:
            self._tasks.start_soon(self._post, payload, dict(headers), request_id)

    def _retract(self, request_id: int, headers: Mapping[str, str], reason: str, cancellable: bool) -> None:
        if cancellable and not self.closed.is_set():
            self._transmit(cancellation(request_id, reason), headers, None)

    async def _post(self, payload: bytes, headers: dict[str, str], request_id: int | None) -> None:
        self._side_posts += request_id is None
        self._mark_sent(request_id)
        try:
            with anyio.fail_after(POST_TIMEOUT):
                await self._deliver(payload, headers)
        except UpstreamFailure as failure:
            self._fail(request_id or 0, failure)
        except httpx2.ConnectError as error:
            self._fail(request_id or 0, unsent(error))
            self.shut(unreachable(error))
        except (*BROKEN, TimeoutError) as error:
            self._fail(request_id or 0, lost(f"the message was not taken ({error or type(error).__name__})", sent=True))
        finally:
            self._side_posts -= request_id is None

    async def _deliver(self, payload: bytes, headers: dict[str, str]) -> None:
        headers["content-type"] = "application/json"
        async with stream(self._client, "POST", self._endpoint, content=payload, headers=headers) as response:
            if response.status_code >= 300:
                raise refusal(head_of(response))

    async def listen(self) -> None:
        """Read the stream to its end; that end is the end of the connection."""
        try:
            async with stream(self._client, "GET", self._url, headers={"accept": "text/event-stream"}) as response:
                if response.status_code != 200:
                    raise refusal(head_of(response))
                parser = EventParser(self._limit, self._take_event, self._oversize)
                async for chunk in response.aiter_bytes():
                    parser.feed(chunk)
            self.shut("the server closed its stream")
        except UpstreamFailure as failure:
            self.shut(failure.message)
        except httpx2.ConnectError as error:
            self.shut(unreachable(error))
        except BROKEN as error:
            self.shut(f"the stream broke ({error or type(error).__name__})")
        finally:
            self.located.set()

    def _take_event(self, event: Event) -> None:
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
async def open_sse(spec: UpstreamSpec, *, web: Web, max_result_bytes: int) -> AsyncIterator[Wire]:
    async with web.client(spec) as client, anyio.create_task_group() as tasks:
        connection = SseConnection(spec.url or "", client, tasks, max_result_bytes)
        connection.traced = web.traced
        try:
            tasks.start_soon(connection.listen)
            with anyio.move_on_after(spec.connect_timeout):
                await connection.located.wait()
            if connection.closed.is_set() or not connection.located.is_set():
                why = connection.why or "the server did not say where to send messages"
                raise UpstreamFailure(Code.SERVER_UNAVAILABLE, why, sent=False)
            yield connection
        finally:
            connection.shut("the gateway is closing this connection")
            tasks.cancel_scope.cancel()
