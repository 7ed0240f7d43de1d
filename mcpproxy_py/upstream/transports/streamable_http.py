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

from mcpproxy_py.core.json_size import MAX_VALUES, SMALL
from mcpproxy_py.core.protocol import headers as names
from mcpproxy_py.errors import FORGOTTEN, Code, UpstreamFailure, bad_answer
from mcpproxy_py.upstream.permit import Permit
from mcpproxy_py.upstream.session.large_messages import LargeResult
from mcpproxy_py.upstream.session.rpc import Notice, Outgoing, PendingRequest, RpcPeer, Stamp, cancellation, unstamped
from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.transports.http_clients import (
    BROKEN,
    HttpClients,
    RequestSender,
    Withheld,
    head_of,
    post,
    slices,
    stream,
)
from mcpproxy_py.upstream.transports.http_exchange import (
    EVENTS,
    HttpExchange,
    ServerSentEvent,
    SseParser,
    compression,
    media_type,
    unreachable,
)
from mcpproxy_py.upstream.transports.http_pool import ResponseHead

logger = logging.getLogger(__name__)

SESSION_ID: Final = "mcp-session-id"
LAST_EVENT_ID: Final = "last-event-id"
JSON_OR_EVENTS: Final = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
EVENTS_ONLY: Final = {"accept": EVENTS, "cache-control": "no-store"}
SIDE_TIMEOUT: Final = 10.0
"""For what nobody waits for: cancellations, answers to pings, the goodbye."""
MAX_SIDE_POSTS: Final = 256
"""More than there can be answers of clients on their way; beyond that somebody floods us."""
MAX_RESUMES: Final = 5
MAX_LISTEN_PAUSE: Final = 30.0
LISTEN_PATIENCE: Final = 2.0
"""What a server sends outside the stream of a call is lost until its own stream is open, so the first call waits for
the head of that response. Some servers send the head with the first event only."""


class StreamableConnection(RpcPeer):
    wants_headers = True

    def __init__(
        self,
        url: str,
        client: httpx2.AsyncClient,
        carrier: RequestSender,
        tasks: anyio.abc.TaskGroup,
        max_result_bytes: int,
        max_values: int = MAX_VALUES,
    ) -> None:
        super().__init__(max_result_bytes, max_values)
        self._url = url
        self._client = client
        self._carrier = carrier
        self._tasks = tasks
        self._exchanges: dict[int, HttpExchange] = {}
        self._session: dict[str, str] = {}
        self._side_posts = 0
        self._stream_answered = anyio.Event()
        """The server answered the first GET of the session, with a stream or without."""

    # Sending.

    def _send(self, outgoing: Outgoing) -> None:
        if isinstance(outgoing, PendingRequest):
            exchange = self._exchanges[outgoing.id] = HttpExchange(self, outgoing)
            self._carry(exchange)
        else:
            self._post_aside(outgoing)

    def _carry(self, exchange: HttpExchange) -> None:
        self._carrier.carry(exchange, self._session)

    def _retract(self, pending: PendingRequest, reason: str, cancellable: bool) -> None:
        """In the modern era closing the stream is the cancellation; before it, a message is, and a hang-up is not."""
        exchange, headers = self._exchanges.pop(pending.id, None), dict(pending.headers)
        if exchange is not None:
            exchange.hang_up()
        if cancellable and pending.sent and names.METHOD not in headers and not self.closed.is_set():
            self._post_aside(cancellation(pending.id, reason, lambda message, channel: (message.params, headers)))

    def _goes_on(self, pending: PendingRequest) -> bool:
        """Not in the modern era, in which a server says everything on the stream that was closed."""
        return names.METHOD not in pending.headers

    async def notify(self, permit: Permit, stamp: Stamp = unstamped) -> None:
        """Waits until the server has taken it: nothing may overtake `notifications/initialized`."""
        notice = Notice(permit, stamp)
        if not self.closed.is_set():
            await self._post_and_forget(notice)
            self._remember(names.PROTOCOL_VERSION, notice.headers.get(names.PROTOCOL_VERSION), notice.headers)
        if permit.method == "notifications/initialized" and SESSION_ID in self._session:
            self._tasks.start_soon(self._listen)
            with anyio.move_on_after(LISTEN_PATIENCE):
                await self._stream_answered.wait()

    def _post_aside(self, outgoing: Outgoing) -> None:
        if self._side_posts < MAX_SIDE_POSTS:
            self._tasks.start_soon(self._post_and_forget, outgoing)

    async def _post_and_forget(self, outgoing: Outgoing) -> None:
        self._side_posts += 1
        try:
            with anyio.move_on_after(SIDE_TIMEOUT):
                async with post(self._client, self._url, outgoing, self._headers(JSON_OR_EVENTS, {})):
                    pass
        except (*BROKEN, Withheld) as error:
            logger.debug("a notification or answer was not delivered: %s", error)
        finally:
            self._side_posts -= 1

    def _headers(self, kind: Mapping[str, str], headers: Mapping[str, str]) -> dict[str, str]:
        return {**kind, **self._session, **headers}

    # One request, as its exchange tells.

    @property
    def limit(self) -> int:
        return self._limit

    def count(self, what: str) -> None:
        setattr(self._counters, what, getattr(self._counters, what) + 1)

    def oversize(self, head: bytes, tail: bytes) -> None:
        self._oversize(head, tail)

    def is_settled(self, request_id: int) -> bool:
        return self._is_settled(request_id)

    def opened(self, exchange: HttpExchange, head: ResponseHead) -> bool:
        if head.status == 404 and SESSION_ID in self._session:
            exchange.fail(UpstreamFailure(Code.SERVER_UNAVAILABLE, FORGOTTEN, data={"status": 404}))
            self.shut(FORGOTTEN)
            return False
        if head.status in (401, 403) and self._carrier.asks_who(exchange, head, self._session):
            return False
        self._remember(SESSION_ID, head.fields.get(SESSION_ID.encode(), b"").decode("latin-1"), exchange.headers)
        if self._carrier.must_repeat(exchange, head):
            self._carry(exchange)
            return False
        return True

    def message_in(self, exchange: HttpExchange, message: Any, size: int) -> None:
        if size > SMALL and isinstance(message, dict) and isinstance(result := message.get("result"), dict):
            message = {**message, "result": LargeResult(result, size)}
        self.receive(message, exchange.request_id)

    def large_in(self, exchange: HttpExchange, text: bytes) -> None:
        read = partial(self.message_in, exchange, size=len(text))
        self.large.put(text, exchange.request_id, read, exchange.unreadable)

    async def room(self, exchange: HttpExchange) -> None:
        await self.large.room(exchange.request_id)

    def _hold(self, stream: int | None, hold: bool) -> None:
        exchange = self._exchanges.get(stream) if stream is not None else None
        if exchange is not None:
            exchange.hold(hold)

    def text_in(self, exchange: HttpExchange, data: bytes) -> None:
        self.receive_text(data, exchange.request_id)

    def failed(self, exchange: HttpExchange, failure: UpstreamFailure) -> None:
        if not self.large.after(exchange.request_id, partial(self.failed, exchange, failure)):
            self._fail(exchange.request_id, failure)

    def ended(self, exchange: HttpExchange) -> None:
        """A server may end a stream early and have us fetch the rest; it gave the events ids if so."""
        events, request_id = exchange.events, exchange.request_id
        if self.large.waiting and self.large.after(request_id, partial(self.ended, exchange)):
            return
        if self._exchanges.pop(request_id, None) is None or self.is_settled(request_id):
            return
        if events is None or events.last_id is None:
            self._fail(request_id, bad_answer("it ended its answer without a result"))
        else:
            self._exchanges[request_id] = exchange
            self._tasks.start_soon(self._resume, exchange, events)

    async def _resume(self, exchange: HttpExchange, events: SseParser) -> None:
        with anyio.CancelScope() as scope:
            exchange.hang_up = scope.cancel
            try:
                await self._fetch_the_rest(exchange, events)
            except BROKEN as error:
                logger.debug("the rest of an answer could not be fetched: %s", error)
            self._fail(exchange.request_id, bad_answer("it ended its answer without a result"))  # unless it is answered
        self._exchanges.pop(exchange.request_id, None)

    async def _fetch_the_rest(self, exchange: HttpExchange, events: SseParser) -> None:
        for _ in range(MAX_RESUMES):
            if self.is_settled(exchange.request_id):
                return
            await self._pause(exchange.request_id, events.retry)
            async with self._get(exchange.headers, events.last_id) as response:
                if not _is_event_stream(response):
                    return
                async for chunk in response.aiter_raw():
                    await self._feed(events, chunk, exchange.request_id)
                    if self.is_settled(exchange.request_id):
                        return

    async def _feed(self, events: SseParser, chunk: bytes, stream: int | None) -> None:
        """In turns of the event loop, at the pace at which what it says is read."""
        async for slice_ in slices(chunk):
            events.feed(slice_)
            if stream in self.large.waiting:
                await self.large.room(stream)

    async def _pause(self, request_id: int, seconds: float) -> None:
        """As long as the server wants, or until the client comes back that was sent away for the same time."""
        pending = self._pending.get(request_id)
        back = pending.channel.pause(seconds) if pending is not None and pending.channel is not None else None
        with anyio.move_on_after(seconds):
            await (back or anyio.sleep_forever())

    # The server's own stream, and the session.

    def _take_event(self, event: ServerSentEvent) -> None:
        if event.kind == "message":
            self.receive_text(event.data)

    def _get(self, headers: Mapping[str, str], last_id: str | None) -> Any:
        resume = {LAST_EVENT_ID: last_id} if last_id else {}
        return stream(self._client, "GET", self._url, headers=self._headers({**EVENTS_ONLY, **resume}, headers))

    def _remember(self, name: str, value: str | None, headers: Mapping[str, str]) -> None:
        """What every later message of the session repeats. The modern era has no session: nothing is kept there."""
        if value and names.METHOD not in headers:
            self._session.setdefault(name, value)

    async def _listen(self) -> None:
        """What the server says unasked. Many offer no such stream; then its absence is no fault."""
        parser = SseParser(self._limit, self._take_event, self._oversize)
        pause = parser.retry
        while not self.closed.is_set():
            try:
                async with self._get({}, parser.last_id) as response:
                    self._stream_answered.set()
                    if response.status_code == 404:
                        self.shut(FORGOTTEN)
                    if not _is_event_stream(response):
                        return
                    pause = parser.retry
                    if not parser.last_id:
                        self.on_gap()
                    async for chunk in response.aiter_raw():
                        await self._feed(parser, chunk, None)
            except httpx2.ConnectError as error:
                self.shut(unreachable(error))
            except BROKEN as error:
                logger.debug("the server's stream broke: %s", error)
            self._stream_answered.set()  # it answers with an error
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
    head = head_of(response)
    return response.status_code == 200 and media_type(head) == EVENTS and not compression(head)


@asynccontextmanager
async def open_streamable(
    spec: UpstreamSpec, *, web: HttpClients, max_result_bytes: int, max_values: int = MAX_VALUES
) -> AsyncIterator[RpcPeer]:
    auth = web.auth(spec)
    await auth.prepare()
    async with web.client(spec) as client, anyio.create_task_group() as tasks:
        origin = web.origin(spec, client, JSON_OR_EVENTS)
        carrier = RequestSender(spec.url or "", client, origin, JSON_OR_EVENTS, tasks, auth)
        connection = StreamableConnection(spec.url or "", client, carrier, tasks, max_result_bytes, max_values)
        connection.traced = web.traced
        try:
            yield connection
        finally:
            forgotten = connection.closed.is_set()
            connection.shut("the gateway is closing this connection")
            with anyio.move_on_after(0 if forgotten else 2, shield=True):
                await connection.say_goodbye()
            carrier.close()
            tasks.cancel_scope.cancel()
