"""Long work is done a piece at a time, and others have turns of the event loop in between."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.core.json_size import SMALL, ValueCounter, at_most, holds_more, pieces
from mcpproxy_py.errors import UpstreamFailure
from mcpproxy_py.upstream.session.large_messages import LargeMessages, measured
from mcpproxy_py.upstream.transports.http_pool import SLICE
from mcpproxy_py.upstream.turns import MANY, LastingObjects, TurnQueue, uncollected
from tests.upstream.rawweb import Peer, Request, call, result_of, site, wire_to

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SEC-6")]
WAIT = 60


class LoopTurns:
    """Counts the turns of the event loop."""

    def __init__(self) -> None:
        self.count = 0
        self._going = True

    def _next(self) -> None:
        self.count += 1
        if self._going:
            asyncio.get_running_loop().call_soon(self._next)

    @asynccontextmanager
    async def counted(self) -> AsyncIterator[None]:
        self._next()
        try:
            yield
        finally:
            self._going = False


# The queue.


async def test_who_has_long_work_to_do_gets_a_turn_in_the_order_of_coming() -> None:
    queue, order = TurnQueue(), list[int]()

    async def work(number: int) -> None:
        await queue.turn(0)
        order.append(number)

    await asyncio.wait_for(asyncio.gather(*(work(number) for number in range(50))), WAIT)
    assert order == list(range(50))


async def test_between_two_pieces_of_work_others_have_a_turn() -> None:
    queue, turns, at = TurnQueue(), LoopTurns(), list[int]()

    async def work() -> None:
        await queue.turn(0)
        at.append(turns.count)

    async with turns.counted():
        await asyncio.wait_for(asyncio.gather(*(work() for _ in range(20))), WAIT)
    assert len(set(at)) == 20


async def test_after_a_long_piece_nobody_elses_begins_for_twice_as_long() -> None:
    queue, loop = TurnQueue(), asyncio.get_running_loop()
    await queue.turn(0.05)
    rested = list[str]()
    loop.call_later(0.1, rested.append, "yes")
    await queue.turn(0)
    assert rested


async def test_who_was_cancelled_takes_nobodys_turn() -> None:
    queue = TurnQueue()
    waiting = [asyncio.ensure_future(queue.turn(0.02)) for _ in range(20)]
    for each in waiting[:19]:
        each.cancel()
    await asyncio.wait_for(waiting[19], WAIT)


def test_a_queue_works_in_one_loop_after_the_other() -> None:
    queue = TurnQueue()

    async def leave_somebody_waiting() -> None:
        waiting = asyncio.ensure_future(queue.turn(60))
        await asyncio.sleep(0)
        await waiting
        left = asyncio.ensure_future(queue.turn(60))
        await asyncio.sleep(0)
        assert not left.done()

    for _ in range(2):
        asyncio.run(asyncio.wait_for(leave_somebody_waiting(), WAIT))


def test_what_is_made_uncollected_is_given_back_and_collecting_goes_on() -> None:
    import gc

    collecting = gc.isenabled()
    gc.enable()
    try:
        assert uncollected(gc.isenabled) is False
        assert gc.isenabled()
        with pytest.raises(KeyError):
            uncollected(lambda: {}["none"])
        assert gc.isenabled()
    finally:
        if not collecting:
            gc.disable()


# Counting.


JSON = st.recursive(
    st.none() | st.integers(-9, 9) | st.text('\\"a,[{:é', max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('\\",:[', max_size=4), inner, max_size=4),
    max_leaves=30,
)


def counted(value: object) -> int:
    if isinstance(value, list):
        return 1 + max(len(value) - 1, 0) + sum(map(counted, value))
    if isinstance(value, dict):
        return 1 + 2 * len(value) + max(len(value) - 1, 0) + sum(map(counted, value.values()))
    return 0


@given(JSON, st.booleans(), st.randoms())
def test_values_are_counted_alike_however_the_text_is_cut(value: object, plain: bool, chance: random.Random) -> None:
    text, counter = json.dumps(value, ensure_ascii=plain).encode(), ValueCounter()
    whole = len(text)
    while text:
        cut = chance.randint(1, 9)
        counter.feed(text[:cut])
        text = text[cut:]
    assert counter.values == 1 + counted(value)
    assert at_most(json.dumps(value, ensure_ascii=plain).encode()) >= counted(value) and whole


def test_a_long_number_counts_for_what_it_costs_and_base64_does_not() -> None:
    number = b"9" * 4000
    assert holds_more(b"[" + b",".join([number] * 100) + b"]", 50_000)
    assert not holds_more(b'"' + b"QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo" * 10_000 + b'"', 50_000)
    assert not holds_more(b'"' + number * 100 + b'"', 50_000)


async def test_counting_takes_turns_and_ends_with_the_first_that_is_too_many() -> None:
    text, turns = b"[" + b",".join([b"[]"] * 1_000_000) + b"]", LoopTurns()
    async with turns.counted():
        assert await measured(text, 10_000_000) == 2_000_001 - 1
    assert turns.count >= len(list(pieces(text)))
    assert 1000 < await measured(text, 1000) < 100_000


LONG = b" " * 2 * SMALL + b"1"


# Messages.


async def test_nothing_overtakes_a_large_message_on_its_stream_and_other_streams_go_on() -> None:
    order, holds = list[Any](), list[tuple[int | None, bool]]()
    large = LargeMessages(10**9, lambda stream, hold: holds.append((stream, hold)))

    large.put(b" " * 8 * SMALL + LONG, 1, order.append, order.append)
    assert large.after(1, lambda: order.append("small"))
    assert large.after(1, lambda: order.append("end"))
    assert not large.after(2, lambda: order.append("never"))
    await asyncio.wait_for(large.room(1), WAIT)
    assert order == [1, "small", "end"]
    assert holds == [(1, True), (1, False)]
    assert not large.waiting


async def test_what_had_to_wait_is_not_put_off_by_itself() -> None:
    large, order = LargeMessages(10**9, lambda stream, hold: None), list[Any]()

    def end() -> None:
        if not large.after(1, end):
            order.append("end")

    large.put(LONG, 1, order.append, order.append)
    end()
    await asyncio.wait_for(large.room(1), WAIT)
    assert order == [1, "end"]


async def test_one_that_holds_too_much_is_refused_with_the_limit_and_the_next_is_read() -> None:
    large, order = LargeMessages(1000, lambda stream, hold: None), list[Any]()
    large.put(b"[" + b",".join([b"1"] * SMALL) + b"]", None, order.append, order.append)
    large.put(LONG, None, order.append, order.append)
    await asyncio.wait_for(large.room(None), WAIT)
    assert order == ["it answered with more than 1000 keys and values in one message", 1]


async def test_one_that_is_no_json_is_refused() -> None:
    large, order = LargeMessages(10**9, lambda stream, hold: None), list[Any]()
    large.put(LONG + b"]", None, order.append, order.append)
    await asyncio.wait_for(large.room(None), WAIT)
    assert order == ["it answered with invalid JSON"]


async def test_keys_of_ours_are_taken_out_of_one_that_consists_of_them_in_turns() -> None:
    large, order = LargeMessages(10**9, lambda stream, hold: None), list[Any]()
    text = json.dumps([{"_meta": {"mcpproxy/warning": 1, "kept": [{"_meta": {"MCPproxy/x": 1}}]}}] * 30_000).encode()
    turns = LoopTurns()
    async with turns.counted():
        large.put(text, None, order.append, order.append)
        await asyncio.wait_for(large.room(None), WAIT)
    assert order == [[{"_meta": {"kept": [{"_meta": {}}]}}] * 30_000]
    assert turns.count > len(list(pieces(text)))


async def test_a_failure_while_one_is_read_costs_nothing_that_comes_after() -> None:
    large, order = LargeMessages(10**9, lambda stream, hold: None), list[Any]()

    def fail(said: Any) -> None:
        raise KeyError

    large.put(LONG, None, fail, order.append)
    large.put(LONG, None, order.append, order.append)
    await asyncio.wait_for(large.room(None), WAIT)
    assert order == [1]


# Streams.


FLOODS = {
    "empty lines": b"\n" * 65_536,
    "comments": b":\n" * 32_768,
    "fields": b"data:\n" * 10_000,
    "events": b"data: {}\n\n" * 6_000,
}


@pytest.mark.parametrize("framing", ["chunked", "crumbs", "counted", "to the end"])
@pytest.mark.parametrize("flood", FLOODS)
async def test_a_flood_in_a_stream_is_read_a_slice_in_each_turn_of_the_loop(flood: str, framing: str) -> None:
    said = FLOODS[flood] * 4

    async def answer(peer: Peer, request: Request) -> None:
        body = said + b"\n\ndata: " + result_of(request) + b"\n\n"
        kind = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
        if framing == "chunked":
            whole = b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        elif framing == "crumbs":
            small = b"".join(b"1\r\n%c\r\n" % byte for byte in body[-60_000:])
            whole = b"transfer-encoding: chunked\r\n\r\n" + small + b"0\r\n\r\n"
        elif framing == "counted":
            whole = b"content-length: %d\r\n\r\n%b" % (len(body), body)
        else:
            whole = b"\r\n" + body
        await peer.say(kind + whole)
        if framing == "to the end":
            peer.writer.close()

    turns = LoopTurns()
    async with site(answer) as here, wire_to(here.url) as wire, turns.counted():
        before = turns.count
        assert await call(wire) == "fine"
    read = 60_000 * 6 if framing == "crumbs" else len(said)
    assert turns.count - before >= read // SLICE


async def test_a_large_answer_in_chunks_is_whole_and_its_connection_is_used_again() -> None:
    large = "x" * (SMALL * 10)

    async def answer(peer: Peer, request: Request) -> None:
        body = result_of(request, large)
        await peer.say(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        for begin in range(0, len(body), 5000):
            part = body[begin : begin + 5000]
            await peer.say(b"%x\r\n%b\r\n" % (len(part), part))
        await peer.say(b"0\r\n\r\n")

    async with site(answer) as here, wire_to(here.url) as wire:
        assert [await call(wire) for _ in range(5)] == [large] * 5
        assert here.connections == 1


async def test_what_comes_behind_an_answer_in_the_same_read_is_never_taken_for_the_next_one() -> None:
    """Also where it comes in a later slice than the end of the answer."""

    async def answer(peer: Peer, request: Request) -> None:
        body = result_of(request)
        forged = result_of(request, "forged").replace(b'"id": %d' % request.id, b'"id": %d' % (request.id + 1))
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
        padding = b"x: " + b"x" * (SLICE - 200) + b"\r\n"
        second = head + b"content-length: %d\r\n\r\n%b" % (len(forged), forged)
        await peer.say(head + padding + b"content-length: %d\r\n\r\n%b%b" % (len(body), body, second * 40))

    async with site(answer) as here, wire_to(here.url) as wire:
        for _ in range(5):
            try:
                assert await call(wire) == "fine"
            except UpstreamFailure as failure:
                assert "forged" not in failure.message


async def test_a_compressed_stream_is_not_begun() -> None:
    async def answer(peer: Peer, request: Request) -> None:
        packed = gzip.compress(b"\n" * 50_000_000)
        head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n"
        await peer.say(f"{head}content-length: {len(packed)}\r\n\r\n".encode() + packed)

    turns = LoopTurns()
    async with site(answer) as here, wire_to(here.url) as wire, turns.counted():
        with pytest.raises(UpstreamFailure, match="it compressed its answer with 'gzip'"):
            await call(wire)


def test_what_lasts_is_taken_out_of_the_collectors_sight_ever_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that lists itself anew all the time must not keep every cycle there is from being collected."""
    import gc

    frozen: list[int] = []
    lasting, made = LastingObjects(), 0
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(made))
    lasting.made(MANY - 1)
    assert frozen == [], "small listings are left to the collector"
    for _ in range(1000):
        made += 1
        lasting.made(MANY)
    assert frozen == [1, 3, 7, 15, 31, 63, 127, 255, 511]
