"""Large messages of one connection: measured, then read, each in turns of the event loop that it shares with others.

What comes after one on the same stream waits for it, and so does the stream, so that nothing overtakes it and nothing
piles up. Other streams of the connection go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from mcpproxy_py import jsonrpc
from mcpproxy_py.core.json_size import ValueCounter, at_most, pieces, seconds
from mcpproxy_py.core.protocol import own_meta
from mcpproxy_py.core.results.tokens import collect
from mcpproxy_py.upstream.turns import TURN, TURNS, in_turns, uncollected

logger = logging.getLogger(__name__)

Stream = int | None
SMALL_AT_ONCE: Final = 64
"""Small messages that are read in one turn, of those that had to wait."""


class LargeResult(dict[str, Any]):
    """A result whose text was long: whatever is done with all of it takes its turn too."""

    def __init__(self, result: Mapping[str, Any], size: int) -> None:
        super().__init__(result)
        self._size = size

    async def turn(self) -> None:
        """Until something may be done with all of it."""
        await TURNS.turn(seconds(self._size))


class LargeMessage(NamedTuple):
    text: bytes
    read: Callable[[Any], None]
    """Does what the message says."""
    refuse: Callable[[str], None]
    """Told why it is not read."""


class LargeMessages:
    """`hold` stops the stream's source, and has it go on."""

    def __init__(self, max_values: int, hold: Callable[[Stream, bool], None]) -> None:
        self.waiting: dict[Stream, deque[LargeMessage | Callable[[], None]]] = {}
        self._max_values = max_values
        self._hold = hold
        self._tasks: dict[Stream, asyncio.Task[None]] = {}
        self._acting = False
        """Whether what is done just now is what had to wait."""

    def put(self, text: bytes, stream: Stream, read: Callable[[Any], None], refuse: Callable[[str], None]) -> None:
        self._line(stream).append(LargeMessage(text, read, refuse))

    def after(self, stream: Stream, act: Callable[[], None]) -> bool:
        """Whether something of this stream is to be read yet, and `act` comes after it."""
        if stream not in self.waiting or self._acting:
            return False
        self.waiting[stream].append(act)
        return True

    async def room(self, stream: Stream) -> None:
        """Until all that came on this stream is read."""
        while stream in self._tasks:
            await asyncio.wait([self._tasks[stream]])

    def _line(self, stream: Stream) -> deque[LargeMessage | Callable[[], None]]:
        line = self.waiting.get(stream)
        if line is None:
            line = self.waiting[stream] = deque()
            self._hold(stream, True)
            self._tasks[stream] = asyncio.get_running_loop().create_task(self._work_off(stream, line))
        return line

    async def _work_off(self, stream: Stream, line: deque[LargeMessage | Callable[[], None]]) -> None:
        done = 0
        try:
            while line:
                item = line.popleft()
                if isinstance(item, LargeMessage):
                    await self._read(item)
                else:
                    self._act(item)
                    done += 1
                    if not done % SMALL_AT_ONCE:
                        await asyncio.sleep(0)
        finally:
            del self.waiting[stream], self._tasks[stream]
            self._hold(stream, False)
            for item in line:  # where this was cancelled; among it is who is told of the end
                if not isinstance(item, LargeMessage):
                    self._act(item)

    async def _read(self, message: LargeMessage) -> None:
        values = await measured(message.text, self._max_values)
        if values > self._max_values:
            why = f"it answered with more than {self._max_values} keys and values in one message"
            self._act(partial(message.refuse, why))
            return
        await TURNS.turn(seconds(len(message.text), values))
        try:
            said = uncollected(partial(jsonrpc.parse, message.text))
        except ValueError as error:
            self._act(partial(message.refuse, jsonrpc.complaint(error)))
            return
        await TURNS.turn(seconds(len(message.text)))
        if own_meta.may_hold_own(message.text):
            await _remove_own(said)
        self._act(partial(message.read, said))

    def _act(self, act: Callable[[], None]) -> None:
        self._acting = True
        try:
            act()
        except Exception:
            logger.exception("what a server sent could not be read")
        finally:
            self._acting = False


async def _remove_own(said: Any) -> None:
    """In turns, like everything that is done with all of a large message."""
    await TURNS.turn(TURN)
    if sum(await in_turns(collect(own_meta.removal(said)))):
        jsonrpc.tell_of_removal()


async def measured(text: bytes, limit: int) -> int:
    """How many values a text has, or about; more than the limit where there are more. In turns."""
    found = 0
    for piece in pieces(text):
        await TURNS.turn(seconds(len(piece)))
        found += at_most(piece)
    if found < limit:
        return found
    counter = ValueCounter()
    for piece in pieces(text):
        await TURNS.turn(seconds(len(piece)))
        counter.feed(piece)
        if counter.values > limit:
            break
    return counter.values
