"""The HTTP answer to one request: plain JSON, unless something has to go out before it; then a stream.

Most requests are over before anything else happens. After `BEGIN_AFTER` somebody listens
for the client hanging up, and a long silence is bridged.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import Receive

from mcpproxy_py.core.deadlines import Deadlines
from mcpproxy_py.serve.head import Headers
from mcpproxy_py.serve.mcp import streams
from mcpproxy_py.serve.mcp.streams import Stream
from mcpproxy_py.serve.visit import Visit

BEGIN_AFTER: Final = 0.02


class Answer:
    def __init__(
        self, visit: Visit, slow: Deadlines, *, on_left: Callable[[], object],
        stream: Callable[[], Stream] = Stream, headers: Headers | None = None, resumable: bool = False,
    ) -> None:  # fmt: skip
        """`slow` tells when this one is. `on_left` is called when the client hangs up before the answer, `stream` when
        one is needed.
        Where streams can be resumed, every slow answer is one: a client that loses its connection can come back."""
        self._visit = visit
        self._on_left = on_left
        self._new_stream = stream
        self._headers = headers or []
        self._resumable = resumable
        self._loop = asyncio.get_running_loop()
        self._deadlines = slow
        slow.put(self, BEGIN_AFTER, self._slow)
        self._stream: Stream | None = None
        self._pouring: asyncio.Task[None] | None = None
        self._left: asyncio.Task[None] | None = None
        self.finished = False
        self.client_left = False
        self.early = False
        """Whether the answer went out while its request goes on."""
        self._leaving: asyncio.Task[None] | None = None

    def put(self, message: bytes) -> None:
        """A message that goes out before the answer. What comes after it is dropped: nobody would look there."""
        if not self.finished:
            self._begin().put(message)

    async def finish(self, body: bytes, status: int = 200) -> None:
        """The answer; of two, only the first counts."""
        if self.finished:
            return
        self.finished = True
        if self._stream is None or self._pouring is None:
            self._rest()
            return await self._visit.answer(status, body, self._headers)
        self._stream.put(body, last=True)
        await self._pouring
        self._rest()

    def pause(self, seconds: float) -> Awaitable[object] | None:
        """Let the client go, to come back for the rest, where it can: over when it is back."""
        if not self._resumable or self.finished:
            return None
        return self._begin().pause(seconds)

    def leave(self, body: bytes) -> None:
        """Answer now, from within the request, which goes on without its client."""
        self.early = True
        self._leaving = self._loop.create_task(self.finish(body))

    def abandon(self) -> None:
        """There will be no answer."""
        self.finished = True
        self._rest()
        if self._stream is not None:
            self._stream.end()

    async def end(self) -> None:
        """The same, where its stream may end in good order."""
        self.abandon()
        if self._pouring is not None:
            await self._pouring

    def _rest(self) -> None:
        self._deadlines.take(self)
        if self._left is not None:
            self._left.cancel()
        if self._stream is not None and not self._resumable:
            self._stream.release()

    def _slow(self) -> None:
        self._watch()
        if self._resumable:
            self._begin()

    def _watch(self) -> asyncio.Task[None]:
        if self._left is None:
            self._deadlines.take(self)
            self._left = self._loop.create_task(hung_up(self._visit.receive))
            self._left.add_done_callback(self._note_left)
            self._silence = self._loop.call_later(streams.PING_AFTER, self._break_silence)
        return self._left

    def _note_left(self, left: asyncio.Task[None]) -> None:
        self._silence.cancel()
        if not left.cancelled() and not self.finished:
            self.client_left = True
            self._on_left()

    def _break_silence(self) -> None:
        if not self.finished:
            self._begin()

    def _begin(self) -> Stream:
        if self._stream is None:
            self._stream = self._new_stream()
            self._stream.prime()
            self._pouring = self._loop.create_task(self._pour(self._stream))
        return self._stream

    async def _pour(self, stream: Stream) -> None:
        with contextlib.suppress(OSError):
            await self._visit.send(streams.begin(self._headers))
            await stream.pour(self._visit.send, self._watch())


async def hung_up(receive: Receive) -> None:
    with contextlib.suppress(Exception):
        while (await receive())["type"] != "http.disconnect":
            pass
