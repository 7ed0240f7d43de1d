"""One request of ours that an upstream has not answered yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from mcpproxy_py.core.deadlines import Deadlines
from mcpproxy_py.core.talk import Talk
from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.failure import MAY_HAVE_ACTED, UpstreamFailure
from mcpproxy_py.upstream.flow import Flow

Hear = Callable[[str, Mapping[str, Any]], None]


class Pending:
    """`talk` is the client that asked for it; None where the gateway itself did. `hear` gets the notifications that
    belong to it. Its time stands still while its client is being asked something, since a person may take minutes."""

    __slots__ = (
        "_deadlines", "_flow", "_hear", "_loop", "_timeout", "asked_at", "future", "method", "questions", "sent",
        "talk",
    )  # fmt: skip

    def __init__(
        self, loop: asyncio.AbstractEventLoop, deadlines: Deadlines, method: str, timeout: float | None,
        talk: Talk | None, hear: Hear | None,
    ) -> None:  # fmt: skip
        self.future: asyncio.Future[dict[str, Any]] = loop.create_future()
        self.sent = False
        self.talk = talk
        self.questions = 0
        self.asked_at = 0.0
        self._loop = loop
        self._deadlines = deadlines
        self.method = method
        self._timeout = timeout
        self._hear = talk.note if hear is None and talk is not None else hear
        self._flow: Flow | None = None
        self._start()

    @property
    def over(self) -> bool:
        return self.future.done()

    def hold(self) -> None:
        """A question is out."""
        self.asked_at = self.asked_at if self.questions else self._loop.time()
        self.questions += 1
        self._stop()

    def go_on(self) -> None:
        """It has its answer, and the time starts anew."""
        self.questions -= 1
        if not self.questions and not self.future.done():
            self._start()

    def note(self, method: str, params: Mapping[str, Any]) -> None:
        if self._hear is None or self.future.done():
            return
        if self._flow is None:
            self._flow = Flow(self._loop, self._hear)
        self._flow.put(method, params)

    def succeed(self, result: dict[str, Any]) -> None:
        self._flush()
        self.future.set_result(result)

    def fail(self, failure: UpstreamFailure) -> bool:
        if self.future.done():
            return False
        self._flush()
        self.future.set_exception(failure)
        return True

    def end(self) -> None:
        """Nobody waits for it any more."""
        self._stop()
        if self._flow is not None:
            self._flow.close()

    def discard(self) -> None:
        """Nobody will ask how it ended."""
        if not self.future.cancel() and not self.future.cancelled():
            self.future.exception()

    def _flush(self) -> None:
        if self._flow is not None:
            self._flow.flush()

    def _start(self) -> None:
        if self._timeout is not None:
            self._deadlines.put(self, self._timeout, self._expire)

    def _stop(self) -> None:
        self._deadlines.take(self)

    def _expire(self) -> None:
        outcome = MAY_HAVE_ACTED if self.sent else "nothing had been sent"
        message = f"no answer to {self.method} within {self._timeout:.3g} s; {outcome}"
        self.fail(UpstreamFailure(Code.TIMEOUT, message, sent=self.sent))
