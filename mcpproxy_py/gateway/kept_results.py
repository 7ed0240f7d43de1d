"""Results that were cut, kept whole for a while, for the principal that they were given to (SURF-13).

They are kept in memory and never on disk: what goes there is masked first, and these are read on as they are. So a
gateway knows only its own, and none from before it was started; it says so where somebody comes with another's handle.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from pydantic_core import to_json

from mcpproxy_py import jsonrpc
from mcpproxy_py.core.json_size import seconds
from mcpproxy_py.core.results import cutting, reading
from mcpproxy_py.core.results.cutting import Handle
from mcpproxy_py.core.results.kept_text import KeptText
from mcpproxy_py.core.results.limits import ResultLimits
from mcpproxy_py.core.values import Refusal, Route, Snapshot
from mcpproxy_py.errors import FACTS, Code
from mcpproxy_py.gateway.recorder import Call
from mcpproxy_py.upstream.session.large_messages import measured
from mcpproxy_py.upstream.turns import TURNS, in_turns, uncollected

log = logging.getLogger(__name__)

READ_RESULT: Final = "read_result"
RULE: Final = "kept_result"
OF_ONE: Final = 2048
"""Bytes that one takes beside its text, about."""


@dataclass(frozen=True, slots=True)
class KeptLimits:
    seconds: float = 900
    size: int = 64 << 20
    """Bytes, of all principals together."""
    of_principal: int = 32 << 20
    values: int = 300_000
    """Of JSON in a text that is compared with `structuredContent`."""


class KeptResult(NamedTuple):
    principal: str
    text: KeptText
    until: float
    server: str
    tool: str
    ask_id: str
    limit: int

    @property
    def size(self) -> int:
        return len(self.text) + OF_ONE + 16 * len(self.text.starts)


class KeptResults:
    def __init__(self, limits: KeptLimits, result_limits: ResultLimits) -> None:
        self._limits = limits
        self._kept: dict[tuple[str, str], KeptResult] = {}
        """By principal and handle, the oldest first."""
        self._sizes: dict[str, int] = {}
        self._here = secrets.token_hex(2)
        """What handles of this process begin with."""
        self._timer: asyncio.TimerHandle | None = None
        self.use(result_limits)

    def use(self, limits: ResultLimits) -> None:
        self._result_limits = limits
        self.floor = limits.floor
        """Bytes of a result that nobody needs to look at."""

    # Cutting.

    async def cut(self, call: Call) -> Mapping[str, Any]:
        """The result of a call, as its agent gets it: as it is, where it is not too long."""
        result, to = call.result, call.decision
        if not isinstance(to, Route) or call.size <= (limit := self._result_limits.of(to.server, to.tool.name)):
            return result
        if not limit or result.get("isError") is True or result.get("resultType", "complete") != "complete":
            return result
        handle = Handle(f"{self._here}-{secrets.token_urlsafe(15)}", max(1, round(self._limits.seconds / 60)))
        made = await self._cut(result, call.size, limit, handle)
        if made is None:
            return result
        shown, text = made
        who = call.ask.principal
        until = time.monotonic() + self._limits.seconds
        kept = KeptResult(who, text, until, to.server, to.tool.name, call.ask.id, limit)
        if not self._add(handle.id, kept):
            log.warning("ask %s: its result of %d bytes is too large to be kept, so it is not cut", call.id, call.size)
            return result
        return shown

    async def _cut(
        self, result: Mapping[str, Any], size: int, limit: int, handle: Handle
    ) -> tuple[dict[str, Any], KeptText] | None:
        await TURNS.turn(seconds(size))
        texts = [text.encode(errors="replace") for text in cutting.texts_of(result)]
        structured = result.get("structuredContent")
        encoded = None
        if structured is not None:
            await TURNS.turn(seconds(size))
            encoded = uncollected(partial(to_json, structured, inf_nan_mode="null", fallback=str))
            if len(texts) == 1 and await self._says(texts[0], encoded):
                encoded = None
        return await in_turns(cutting.cut(result, texts, encoded, limit, handle))

    async def _says(self, text: bytes, encoded: bytes) -> bool:
        """Whether a text is the same JSON, however it is written."""
        if text == encoded:
            return True
        values = await measured(text, self._limits.values)
        if values > self._limits.values:
            return False
        await TURNS.turn(seconds(len(text), values))
        try:
            value = uncollected(partial(jsonrpc.parse, text))
        except ValueError:
            return False
        await TURNS.turn(seconds(len(text), values))
        return uncollected(partial(to_json, value)) == encoded

    # Keeping.

    def _add(self, handle: str, kept: KeptResult) -> bool:
        most, mine = self._limits.size, self._limits.of_principal
        if kept.size > min(most, mine):
            return False
        self._sizes[kept.principal] = self._sizes.get(kept.principal, 0) + kept.size
        self._kept[kept.principal, handle] = kept
        self._forget_expired()
        while self._sizes[kept.principal] > mine:
            self._forget_oldest(kept.principal)
        while sum(self._sizes.values()) > most:
            self._forget_oldest(max(self._sizes, key=self._sizes.__getitem__))
        return True

    def _forget_oldest(self, principal: str) -> None:
        self._forget(next(key for key in self._kept if key[0] == principal))

    def _forget(self, key: tuple[str, str]) -> None:
        kept = self._kept.pop(key)
        left = self._sizes[kept.principal] - kept.size
        if left:
            self._sizes[kept.principal] = left
        else:
            del self._sizes[kept.principal]

    def _forget_expired(self) -> None:
        now = time.monotonic()
        for key in [key for key, kept in self._kept.items() if kept.until <= now]:
            self._forget(key)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._kept:
            first = next(iter(self._kept.values())).until
            self._timer = asyncio.get_running_loop().call_later(first - now + 1, self._forget_expired)

    def end(self, principal: str) -> None:
        """It may not come in any more."""
        for key in [key for key in self._kept if key[0] == principal]:
            self._forget(key)

    @property
    def size(self) -> int:
        return sum(self._sizes.values())

    # Reading on.

    async def read(self, call: Call, params: Mapping[str, Any]) -> Mapping[str, Any] | Refusal:
        handle, begin, query = params["id"], params["from"] or 0, (params["query"] or "").strip()
        kept = self._kept.get((call.ask.principal, handle))
        if kept is None or kept.until <= time.monotonic() or not _in_reach(kept, call.snapshot):
            return self._not_there(handle)
        call.metadata = {"reads_on": kept.ask_id, "of": f"{kept.server}:{kept.tool}"}
        if problem := reading.problem(kept.text, begin, query):
            message = f"{READ_RESULT}: {problem}"
            return Refusal(Code.INVALID_ARGUMENTS, message, "local_arguments", FACTS[Code.INVALID_ARGUMENTS].hint)
        if query:
            return await in_turns(reading.matching(kept.text, handle, begin, query, kept.limit))
        return await in_turns(reading.piece_of(kept.text, handle, begin, kept.limit))

    def _not_there(self, handle: str) -> Refusal:
        """The same for what has expired, what is somebody else's, and what never was."""
        ours = handle.startswith(f"{self._here}-")
        minutes = max(1, round(self._limits.seconds / 60))
        why = (
            f"There is no result with this id: results are kept for {minutes} minutes, and less where there is no room"
            if ours
            else f"There is no result with this id at this gateway ({self._here}): each keeps its own, until it ends"
        )
        code = Code.RESULT_NOT_KEPT
        return Refusal(code, f"{why}. Call the tool again", RULE, FACTS[code].hint)


def _in_reach(kept: KeptResult, snapshot: Snapshot) -> bool:
    """Whether who asks could still call the tool, but for whether its server is there just now: not where it is out of
    scope, disabled, denied, or not what was approved."""
    server = snapshot.servers.get(kept.server)
    return server is not None and server.state != "disabled" and server.forbids(kept.tool) is None
