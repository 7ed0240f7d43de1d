"""Upstreams that answer wrongly: what that costs, over each transport, is at most the one call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from mcpproxy_py.errors import Code, UpstreamFailure
from mcpproxy_py.jsonrpc import decode
from mcpproxy_py.upstream.spec import UpstreamSpec
from tests.upstream.helpers import LONG, Chat, Upstreams, connected, running, stdio, text_of, until, web_server

pytestmark = [pytest.mark.anyio, pytest.mark.proves("UP-7", "SEC-5")]
LIMIT = 1024 * 1024
TRANSPORTS = ("stdio", "json", "events", "sse")


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def spec(transport: str) -> Iterator[UpstreamSpec]:
    """The plain server under the name `bad`, over each way to reach it."""
    if transport == "stdio":
        yield stdio("bad", "plain.py", timeout=LONG)
    elif transport == "sse":
        with web_server("plain_http.py", "--sse", "0") as origin:
            yield UpstreamSpec("bad", "sse", url=f"{origin}/sse", timeout=LONG)
    else:
        with web_server("plain_http.py", "--http", "0", "--answer", transport) as origin:
            yield UpstreamSpec("bad", "http", url=f"{origin}/mcp", timeout=LONG)


@pytest.fixture
async def supervisor(spec: UpstreamSpec, tmp_path: Path) -> AsyncIterator[Upstreams]:
    async with running(tmp_path, spec, max_result_bytes=LIMIT) as supervisor:
        await connected(supervisor, "bad")
        yield supervisor


async def failure_of(supervisor: Upstreams, tool: str, **args: object) -> UpstreamFailure:
    with pytest.raises(UpstreamFailure) as caught:
        await supervisor.call_tool("bad", tool, args)
    return caught.value


async def still_works(supervisor: Upstreams) -> None:
    assert text_of(await supervisor.call_tool("bad", "echo", {"text": "still"})) == '{"text": "still"}'
    assert supervisor.describe()[0]["restarts"] == 0


async def test_an_answer_too_large_fails_that_call_and_keeps_the_connection(supervisor: Upstreams) -> None:
    failure = await failure_of(supervisor, "huge", bytes=50_000_000)
    assert (failure.code, failure.message) == (Code.UPSTREAM_ERROR, f"it answered with more than {LIMIT} bytes")
    await still_works(supervisor)


async def test_a_large_answer_within_the_limit_is_passed_on_whole(supervisor: Upstreams) -> None:
    size = LIMIT - 200
    assert len(text_of(await supervisor.call_tool("bad", "huge", {"bytes": size}))) == size


async def test_invalid_json_fails_the_call_it_answers_at_once(supervisor: Upstreams) -> None:
    failure = await failure_of(supervisor, "invalid")
    assert (failure.code, failure.message) == (Code.UPSTREAM_ERROR, "it answered with invalid JSON")
    await still_works(supervisor)


async def test_a_second_answer_is_dropped_and_counted(supervisor: Upstreams, transport: str) -> None:
    assert text_of(await supervisor.call_tool("bad", "twice", {})) == "first"
    await still_works(supervisor)
    if transport in ("stdio", "sse"):
        assert supervisor.describe()[0]["ignored"]["unmatched"] == 1


async def test_an_answer_with_a_foreign_id_answers_nobody(supervisor: Upstreams, transport: str) -> None:
    failures: list[UpstreamFailure] = []

    async def ask() -> None:
        failures.append(await failure_of(supervisor, "wrong_id"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await until(lambda: supervisor.describe()[0]["ignored"]["unmatched"] == 1)
        await still_works(supervisor)
        tasks.cancel_scope.cancel()
    # Where one answer ends the exchange, nothing more can come; elsewhere the call goes on waiting.
    assert [failure.code for failure in failures] == ([Code.UPSTREAM_ERROR] if transport == "json" else [])


async def test_junk_around_an_answer_is_skipped_and_counted(supervisor: Upstreams, transport: str) -> None:
    if transport == "json":  # there the first thing said is the answer
        assert (await failure_of(supervisor, "garbage")).code is Code.UPSTREAM_ERROR
    else:
        assert text_of(await supervisor.call_tool("bad", "garbage", {})) == "after the garbage"
    assert supervisor.describe()[0]["ignored"]["garbage"] >= 1
    await still_works(supervisor)


async def test_an_error_is_passed_on_with_its_code_and_data(supervisor: Upstreams) -> None:
    failure = await failure_of(supervisor, "error")
    assert failure.code is Code.UPSTREAM_ERROR
    assert failure.message == "the plain server refuses"
    assert failure.data == {"code": -32050, "data": {"why": "asked to"}}


async def test_a_call_never_answered_times_out_and_holds_up_no_other(supervisor: Upstreams, spec: UpstreamSpec) -> None:
    await supervisor.apply({"bad": replace(spec, timeout=2)})
    failures: list[UpstreamFailure] = []

    async def hang() -> None:
        failures.append(await failure_of(supervisor, "never"))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(hang)
        await until(lambda: supervisor.describe()[0]["in_flight"] == 5)
        await supervisor.apply({"bad": spec})
        await still_works(supervisor)
    assert {failure.code for failure in failures} == {Code.TIMEOUT}
    assert all("may have acted" in failure.message and failure.sent for failure in failures)


async def test_what_a_result_holds_comes_whole_and_unknown_keys_with_it(supervisor: Upstreams) -> None:
    args = {"text": "é\u0000\U0001f600", "big": 12345678901234567890123456789, "deep": {"a": [None, 1.5, True]}}
    result = await supervisor.call_tool("bad", "echo", args)
    assert result["structuredContent"] == {"args": args}
    assert result["draftResult"] == {"kept": 1}


def test_half_an_emoji_does_not_cost_the_answer() -> None:
    assert decode(b'{"a":"cut \\ud83d","b":"\\ud83d\\ude00","n":12345678901234567890123}') == {
        "a": "cut ?", "b": "\U0001f600", "n": 12345678901234567890123,
    }  # fmt: skip


@pytest.mark.parametrize(
    "bad", [b'{"a":NaN}', b'{"a":-Infinity}', b"[" * 200_000, b'{"a":"\\ud8', b"1" * 9000, b"", b"\xff"]
)
def test_what_is_no_json_is_no_json(bad: bytes) -> None:
    with pytest.raises(ValueError):
        decode(bad)


async def test_arguments_that_are_no_json_fail_before_anything_is_sent(supervisor: Upstreams) -> None:
    failure = await failure_of(supervisor, "echo", text="\ud800")
    assert (failure.code, failure.sent) == (Code.UPSTREAM_ERROR, False)
    await still_works(supervisor)


async def test_progress_arrives_raw_and_in_order_for_the_call_it_belongs_to(
    supervisor: Upstreams, transport: str
) -> None:
    chat = Chat()
    await supervisor.call_tool("bad", "progress", {"steps": 4}, channel=chat, meta={"progressToken": "mine"})
    expected = [] if transport == "json" else [(step, 4, step) for step in range(4)]
    assert [(each["progress"], each["total"], each["draftField"]) for each in chat.progress] == expected
