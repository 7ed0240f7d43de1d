"""The sending half of every real connection: a request is sent, waited for, given up, and accounted for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.core.talk import Talk
from mcpproxy_py.errors import Code
from mcpproxy_py.upstream import messages
from mcpproxy_py.upstream.failure import UpstreamFailure, lost
from mcpproxy_py.upstream.inbound import Inbound
from mcpproxy_py.upstream.pending import Hear, Pending

UNCANCELLABLE: Final = frozenset({"initialize", "server/discover"})
"""The protocol forbids cancelling these."""


class Wire(Inbound):
    """Base of the real connections; they say how bytes leave (`_transmit`) and how a request is given up."""

    def __init__(self, max_result_bytes: int) -> None:
        super().__init__(max_result_bytes)
        self._guest = 0

    def _retract(self, request_id: int, headers: Mapping[str, str], reason: str, cancellable: bool) -> None:
        """Tell the peer that nobody waits any more. Must not wait for anything itself."""
        raise NotImplementedError

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout: float | None, talk: Talk | None = None,
        hear: Hear | None = None, headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        if self.closed.is_set():
            raise lost(self.why, sent=False)
        request_id = self._last_id = self._last_id + 1
        wants_progress = talk is not None and talk.wants_progress
        payload = messages.encode(messages.request(request_id, method, params, wants_progress))
        pending = self._pending[request_id] = Pending(self._loop, self._deadlines, method, timeout, talk, hear)
        try:
            self._transmit(payload, headers or {}, request_id)
            return await pending.future
        except asyncio.CancelledError:
            self._retract(request_id, headers or {}, "the caller cancelled", method not in UNCANCELLABLE)
            raise
        except UpstreamFailure as failure:
            if failure.code is Code.TIMEOUT:
                self._retract(request_id, headers or {}, failure.message, method not in UNCANCELLABLE)
            raise
        finally:
            self._over(request_id, pending)

    def _over(self, request_id: int, pending: Pending) -> None:
        self._pending.pop(request_id, None)
        pending.end()
        if pending.questions:
            self._questions.end(pending)

    def host(self, talk: Talk) -> None:
        guest = self._guest = self._last_id = self._last_id + 1
        self._pending[guest] = Pending(self._loop, self._deadlines, "", None, talk, None)

    def unhost(self) -> None:
        pending = self._pending.get(self._guest)
        if pending is not None:
            self._over(self._guest, pending)
            pending.discard()

    @property
    def calls(self) -> int:
        return sum(pending.talk is not None for pending in self._pending.values())

    async def notify(
        self, method: str, params: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        if not self.closed.is_set():
            self._transmit(messages.encode(messages.notification(method, params)), headers or {}, None)

    def _mark_sent(self, request_id: int | None) -> None:
        if request_id is not None and (pending := self._pending.get(request_id)) is not None:
            pending.sent = True

    def shut(self, why: str) -> None:
        """The conversation is over: everybody who waits is told so, with whether it had been sent. `on_closed` comes
        first, so that whoever hears of it here finds it published."""
        if self.closed.is_set():
            return
        self.why = why
        self.closed.set()
        self.on_closed()
        for pending in self._pending.values():
            pending.fail(lost(why, pending.sent))
