"""Streamable HTTP: one POST per request, answered by JSON or by a stream of events.

The SDK's own transport is not used, because there one broken POST ends the connection for every call in
flight, and one unanswered notification holds up all that follow. Here each exchange fails alone.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import anyio
import anyio.abc
import httpx2

from mcpproxy_py.core import headers as names
from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.events import Event, EventParser
from mcpproxy_py.upstream.failure import FORGOTTEN, UpstreamFailure, bad_answer, lost
from mcpproxy_py.upstream.messages import cancellation, complaint, decode, encode, notification
from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.web import BROKEN, Web, read_bounded, refusal, stream, unreachable, unsent
from mcpproxy_py.upstream.wire import Wire

logger = logging.getLogger(__name__)

SESSION_ID: Final = "mcp-session-id"
LAST_EVENT_ID: Final = "last-event-id"
JSON_OR_EVENTS: Final = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
EVENTS: Final = {"accept": "text/event-stream", "cache-control": "no-store"}
SIDE_TIMEOUT: Final = 10.0
"""For what nobody waits for: cancellations, answers to pings, the goodbye."""
MAX_SIDE_POSTS: Final = 256
"""More than there can be answers of clients on their way; beyond that somebody floods us."""
DRAIN: Final = 1.0
"""How long an answered stream may take to end, so that its connection can be used again."""
MAX_RESUMES: Final = 5
MAX_LISTEN_PAUSE: Final = 30.0


class StreamableConnection(Wire):
    def __init__(self, url: str, client: httpx2.AsyncClient, tasks: anyio.abc.TaskGroup, max_result_bytes: int) -> None:
        super().__init__(max_result_bytes)
        self._url = url
        self._client = client
        self._tasks = tasks
        self._exchanges: dict[int, anyio.CancelScope] = {}
        self._session: dict[str, str] = {}
        self._side_posts = 0

    # Sending.

    def _transmit(self, payload: bytes, headers: Mapping[str, str], request_id: int | None) -> None:
        if request_id is None:
            self._post_aside(payload, headers)
            return
        scope = self._exchanges[request_id] = anyio.CancelScope()
        self._tasks.start_soon(self._exchange, scope, payload, dict(headers), request_id)

    def _retract(self, request_id: int, headers: Mapping[str, str], reason: str, cancellable: bool) -> None:
        """In the modern era closing the stream is the cancellation; before it, a message is, and a hang-up is not."""
        scope = self._exchanges.pop(request_id, None)
        if scope is not None:
            scope.cancel()
        if cancellable and names.METHOD not in headers and not self.closed.is_set():
            self._post_aside(cancellation(request_id, reason), headers)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """Waits until the server has taken it: nothing may overtake `notifications/initialized`."""
        if not self.closed.is_set():
            self._remember(names.PROTOCOL_VERSION, (headers or {}).get(names.PROTOCOL_VERSION), headers or {})
            await self._post_and_forget(encode(notification(method, params)), headers or {})
        if method == "notifications/initialized" and SESSION_ID in self._session:
            self._tasks.start_soon(self._listen)

    def _post_aside(self, payload: bytes, headers: Mapping[str, str]) -> None:
        if self._side_posts < MAX_SIDE_POSTS:
            self._tasks.start_soon(self._post_and_forget, payload, headers)

    async def _post_and_forget(self, payload: bytes, headers: Mapping[str, str]) -> None:
        self._side_posts += 1
        try:
            with anyio.move_on_after(SIDE_TIMEOUT):
                async with self._post(payload, headers):
                    pass
        except BROKEN as error:
            logger.debug("a message nobody waits for was not delivered: %s", error)
        finally:
            self._side_posts -= 1

    def _post(self, payload: bytes, headers: Mapping[str, str]) -> Any:
        return stream(self._client, "POST", self._url, content=payload, headers=self._headers(JSON_OR_EVENTS, headers))

    def _headers(self, kind: Mapping[str, str], headers: Mapping[str, str]) -> dict[str, str]:
        return {**kind, **self._session, **headers}

    # One request.

    async def _exchange(
        self, scope: anyio.CancelScope, payload: bytes, headers: dict[str, str], request_id: int
    ) -> None:
        with scope:
            try:
                await self._converse(payload, headers, request_id)
            except httpx2.ConnectError as error:
                self._fail(request_id, unsent(error))
                self.shut(unreachable(error))
            except (httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol, httpx2.InvalidURL) as error:
                self._fail(request_id, unsent(error))
            except UpstreamFailure as failure:
                self._fail(request_id, failure)
            except BROKEN as error:
                self._fail(request_id, lost(f"the connection broke ({error or type(error).__name__})", sent=True))
            except Exception as error:
                logger.exception("an exchange over HTTP failed")
                self._fail(request_id, lost(f"the exchange failed ({type(error).__name__})", sent=True))
        self._exchanges.pop(request_id, None)

    async def _converse(self, payload: bytes, headers: dict[str, str], request_id: int) -> None:
        self._mark_sent(request_id)
        async with self._post(payload, headers) as response:
            self._remember(SESSION_ID, response.headers.get(SESSION_ID), headers)
            parser = await self._take(response, request_id)
        if parser is not None:
            await self._resume(parser, request_id, headers)
        self._fail(request_id, bad_answer("it ended its answer without a result"))  # does nothing once it is answered

    async def _take(self, response: httpx2.Response, request_id: int) -> EventParser | None:
        """Read one response; gives the parser of a stream, in case it has to be resumed."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status_code >= 300:
            await self._take_refusal(response, request_id, kind)
        elif response.status_code == 202:
            raise bad_answer("it accepted the request and will not answer it (HTTP 202)")
        elif kind == "application/json":
            await self._take_json(response, request_id)
        elif kind == "text/event-stream":
            return await self._take_events(response, request_id)
        else:
            raise bad_answer(f"it answered with content type {kind[:80]!r}, which is not MCP")
        return None

    async def _take_json(self, response: httpx2.Response, request_id: int) -> None:
        body = await read_bounded(response, self._limit)
        if body is None:
            self._counters.oversize += 1
            raise bad_answer(f"it answered with more than {self._limit} bytes")
        try:
            message = decode(body)
        except ValueError as error:
            self._counters.garbage += 1
            raise bad_answer(complaint(error)) from None
        self.receive(message, request_id)

    async def _take_refusal(self, response: httpx2.Response, request_id: int, kind: str) -> None:
        """A status of 300 and more. Many servers put a JSON-RPC error into it, often with a null id."""
        body = await read_bounded(response, self._limit) if kind == "application/json" else None
        try:
            message = decode(body) if body else None
        except ValueError:
            message = None
        if response.status_code == 404 and SESSION_ID in self._session:
            self._fail(request_id, UpstreamFailure(Code.SERVER_UNAVAILABLE, f"{FORGOTTEN}; try again", sent=False))
            self.shut(FORGOTTEN)
        elif isinstance(message, dict) and isinstance(message.get("error"), dict):
            self.receive({**message, "id": request_id})
        raise refusal(response)

    async def _take_events(self, response: httpx2.Response, request_id: int | None) -> EventParser:
        parser = EventParser(self._limit, partial(self._take_event, request_id), self._oversize)
        await self._feed(parser, response, request_id)
        return parser

    async def _feed(self, parser: EventParser, response: httpx2.Response, request_id: int | None) -> None:
        with anyio.CancelScope() as reading:
            async for chunk in response.aiter_bytes():
                parser.feed(chunk)
                if request_id is not None and self._is_settled(request_id):
                    reading.deadline = min(reading.deadline, anyio.current_time() + DRAIN)

    def _take_event(self, request_id: int | None, event: Event) -> None:
        if event.kind == "message":
            self.receive_text(event.data, request_id)

    async def _resume(self, parser: EventParser, request_id: int, headers: dict[str, str]) -> None:
        """A server may end a stream early and have us fetch the rest; it gave the events ids if so."""
        for _ in range(MAX_RESUMES):
            if parser.last_id is None or self._is_settled(request_id):
                return
            await anyio.sleep(parser.retry)
            async with self._get(headers, parser.last_id) as response:
                if not _is_event_stream(response):
                    return
                await self._feed(parser, response, request_id)

    # The server's own stream, and the session.

    def _get(self, headers: Mapping[str, str], last_id: str | None) -> Any:
        resume = {LAST_EVENT_ID: last_id} if last_id else {}
        return stream(self._client, "GET", self._url, headers=self._headers({**EVENTS, **resume}, headers))

    def _remember(self, name: str, value: str | None, headers: Mapping[str, str]) -> None:
        """What every later message of the session repeats. The modern era has no session: nothing is kept there."""
        if value and names.METHOD not in headers:
            self._session.setdefault(name, value)

    async def _listen(self) -> None:
        """What the server says unasked. Many offer no such stream; then its absence is no fault."""
        parser = EventParser(self._limit, partial(self._take_event, None), self._oversize)
        pause = parser.retry
        while not self.closed.is_set():
            try:
                async with self._get({}, parser.last_id) as response:
                    if response.status_code == 404:
                        self.shut(FORGOTTEN)
                    if not _is_event_stream(response):
                        return
                    pause = parser.retry
                    await self._feed(parser, response, None)
            except httpx2.ConnectError as error:
                self.shut(unreachable(error))
            except BROKEN as error:
                logger.debug("the server's stream broke: %s", error)
            await anyio.sleep(pause)
            pause = min(pause * 2, MAX_LISTEN_PAUSE)

    async def say_goodbye(self) -> None:
        if SESSION_ID in self._session:
            try:
                async with stream(self._client, "DELETE", self._url, headers=self._session):
                    pass
            except BROKEN as error:
                logger.debug("the session was not ended: %s", error)


def _is_event_stream(response: httpx2.Response) -> bool:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return response.status_code == 200 and kind == "text/event-stream"


@asynccontextmanager
async def open_streamable(spec: UpstreamSpec, *, web: Web, max_result_bytes: int) -> AsyncIterator[Wire]:
    async with web.client(spec) as client, anyio.create_task_group() as tasks:
        connection = StreamableConnection(spec.url or "", client, tasks, max_result_bytes)
        try:
            yield connection
        finally:
            forgotten = connection.closed.is_set()
            connection.shut("the gateway is closing this connection")
            with anyio.move_on_after(0 if forgotten else 2, shield=True):
                await connection.say_goodbye()
            tasks.cancel_scope.cancel()
