"""The four kinds of `sessions`: who shares one with a server, and when (UP-5)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpproxy_py.errors import Code, UpstreamFailure
from mcpproxy_py.upstream.calls import session_pool
from mcpproxy_py.upstream.spec import UpstreamSpec
from tests.upstream.helpers import (
    LONG,
    Chat,
    Upstreams,
    alive,
    connected,
    numbers,
    running,
    stdio,
    text_of,
    until,
    web_server,
)

pytestmark = [pytest.mark.anyio, pytest.mark.proves("UP-5")]


@pytest.fixture(params=["stdio", "http"])
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[UpstreamSpec]:
    if request.param == "stdio":
        yield stdio("s", "asks.py", "--pid-file", str(tmp_path / "pids"), timeout=2 * LONG)
    else:
        with web_server("asks.py", "--http", "0") as origin:
            yield UpstreamSpec("s", "http", url=f"{origin}/mcp", timeout=2 * LONG)


async def call(supervisor: Upstreams, tool: str, chat: Chat | None = None, **args: Any) -> Any:
    return json.loads(text_of(await supervisor.call_tool("s", tool, args, channel=chat)))


def row(supervisor: Upstreams) -> dict[str, Any]:
    return supervisor.describe()[0]


def answering(number: int, after: float = 0.2, **more: Any) -> Chat:
    async def answer(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        await anyio.sleep(after)
        return {"number": number}

    return Chat(answer, **more)


async def all_ask(supervisor: Upstreams, chats: list[Chat]) -> list[Any]:
    got: list[Any] = [None] * len(chats)

    async def one(number: int) -> None:
        params = {"of": number}
        answer = await call(supervisor, "ask", chats[number], method="elicitation/create", params=params, outside=True)
        got[number] = answer.get("result", answer.get("error"))

    async with anyio.create_task_group() as tasks:
        for number in range(len(chats)):
            tasks.start_soon(one, number)
    return got


async def test_a_server_that_asks_outside_its_calls_gets_them_one_at_a_time_from_then_on(
    spec: UpstreamSpec, tmp_path: Path
) -> None:
    async with running(tmp_path, spec) as supervisor:
        await connected(supervisor, "s")
        sessions = {(await call(supervisor, "whoami"))["session"] for _ in range(3)}
        assert (len(sessions), row(supervisor)["sessions"]) == (1, "auto")
        first = await call(supervisor, "ask", answering(0), method="elicitation/create", outside=True)
        assert first["result"] == {"number": 0}
        assert row(supervisor)["sessions"] == "exclusive"
        chats = [answering(number) for number in range(12)]  # more than there are sessions: the rest waits
        assert await all_ask(supervisor, chats) == [{"number": number} for number in range(12)]
        assert [chat.asked for chat in chats] == [[("elicitation/create", {"of": n})] for n in range(12)]
        assert 1 <= row(supervisor)["extra_sessions"] <= session_pool.MAX_EXTRA


async def test_an_exclusive_server_gets_one_call_at_a_time_from_the_start(spec: UpstreamSpec, tmp_path: Path) -> None:
    async with running(tmp_path, replace(spec, sessions="exclusive")) as supervisor:
        await connected(supervisor, "s")
        chats = [answering(number) for number in range(4)]
        assert await all_ask(supervisor, chats) == [{"number": number} for number in range(4)]


async def test_a_shared_server_keeps_its_one_session_and_refuses_what_could_be_for_two(
    spec: UpstreamSpec, tmp_path: Path
) -> None:
    async with running(tmp_path, replace(spec, sessions="shared")) as supervisor:
        await connected(supervisor, "s")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: call(supervisor, "wait", Chat(), seconds=2 * LONG))
            await until(lambda: row(supervisor)["in_flight"] == 1)
            answer = await call(supervisor, "ask", answering(1), method="elicitation/create", outside=True)
            tasks.cancel_scope.cancel()
        assert "cannot tell" in answer["error"]["message"]
        assert (row(supervisor)["sessions"], row(supervisor)["extra_sessions"]) == ("shared", 0)


async def test_the_first_question_among_many_calls_is_refused_and_the_next_is_not(
    spec: UpstreamSpec, tmp_path: Path
) -> None:
    async with running(tmp_path, spec) as supervisor:
        await connected(supervisor, "s")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: call(supervisor, "wait", Chat(), seconds=2 * LONG))
            await until(lambda: row(supervisor)["in_flight"] == 1)
            first = await call(supervisor, "ask", answering(0), method="elicitation/create", outside=True)
            assert "cannot tell" in first["error"]["message"]
            chats = [answering(number) for number in range(3)]
            assert await all_ask(supervisor, chats) == [{"number": number} for number in range(3)]
            tasks.cancel_scope.cancel()


async def test_a_question_on_a_calls_own_stream_leaves_the_session_shared(tmp_path: Path) -> None:
    with web_server("asks.py", "--http", "0") as origin:
        async with running(tmp_path, UpstreamSpec("s", "http", url=f"{origin}/mcp")) as supervisor:
            await connected(supervisor, "s")
            assert (await call(supervisor, "ask", answering(7), method="roots/list"))["result"] == {"number": 7}
            assert row(supervisor)["sessions"] == "auto"


async def test_each_client_has_a_session_of_its_own_with_its_own_capabilities(
    spec: UpstreamSpec, tmp_path: Path
) -> None:
    async with running(tmp_path, replace(spec, sessions="per_client")) as supervisor:
        await connected(supervisor, "s")
        ann, bob = Chat(key="ann", capabilities={"elicitation": {}, "x": {"y": 1}}), Chat(key="bob")
        seen = [await call(supervisor, "whoami", chat) for chat in (ann, bob, ann, bob, None, None)]
        sessions = [each["session"] for each in seen]
        assert sessions[:2] == sessions[2:4]
        assert sessions[4] == sessions[5]
        assert len(set(sessions)) == 3
        assert seen[0]["capabilities"] == ann.capabilities
        assert seen[1]["capabilities"] == {}
        assert seen[4]["capabilities"]["roots"] == {"listChanged": True}
        supervisor.forget("ann")
        await until(lambda: row(supervisor)["extra_sessions"] == 1)
        assert (await call(supervisor, "whoami", ann))["session"] not in sessions


async def test_a_clients_own_session_is_opened_once_however_many_calls_come_first(
    spec: UpstreamSpec, tmp_path: Path
) -> None:
    async with running(tmp_path, replace(spec, sessions="per_client")) as supervisor:
        await connected(supervisor, "s")
        chats = [answering(number, key="ann") for number in range(5)]
        got = await all_ask(supervisor, chats)
        assert all("number" in each for each in got)  # whichever of its calls was asked, it was this client
        assert row(supervisor)["extra_sessions"] == 1


async def test_a_server_that_asks_at_its_start_asks_the_client_it_is_started_for(tmp_path: Path) -> None:
    spec = stdio("s", "asks.py", "--roots", sessions="per_client")
    refused: list[str] = []
    hook = lambda server, method: refused.append(method)  # noqa: E731
    async with running(tmp_path, spec, on_unattributed=hook) as supervisor:
        await connected(supervisor, "s")
        await until(lambda: row(supervisor)["ignored"]["unattributed"])  # of the session that is nobody's
        chat = answering(3, after=0, key="ann")
        assert await call(supervisor, "wait", chat, seconds=0.6) == "waited"
        assert chat.asked == [("roots/list", {})]
        assert [each["result"] for each in await call(supervisor, "answers", chat)] == [{"number": 3}]
        assert refused == []


@pytest.mark.proves("UP-3")
async def test_further_sessions_are_processes_that_end_alone_and_with_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_pool, "IDLE", 0.3)
    pids = tmp_path / "pids"
    spec = stdio("s", "asks.py", "--pid-file", str(pids), sessions="exclusive")
    async with running(tmp_path, spec) as supervisor:
        await connected(supervisor, "s")
        await all_ask(supervisor, [answering(number) for number in range(3)])
        main, *others = numbers(pids)
        assert others
        await until(lambda: not any(alive(pid) for pid in others))
        assert alive(main)
        assert row(supervisor)["restarts"] == 0
        await all_ask(supervisor, [answering(number) for number in range(3)])
    assert not any(alive(pid) for pid in numbers(pids))


async def test_a_further_session_that_dies_takes_only_its_call_along(tmp_path: Path) -> None:
    spec = stdio("s", "asks.py", sessions="per_client")
    async with running(tmp_path, spec) as supervisor:
        await connected(supervisor, "s")
        with pytest.raises(UpstreamFailure) as caught:
            await call(supervisor, "die", Chat(key="ann"))
        assert (caught.value.code, caught.value.sent) == (Code.SERVER_UNAVAILABLE, True)
        assert await call(supervisor, "wait", Chat(key="bob"), seconds=0) == "waited"
        assert await call(supervisor, "wait", Chat(key="ann"), seconds=0) == "waited"
        assert row(supervisor)["restarts"] == 0


async def test_a_further_session_that_cannot_be_opened_is_an_error_that_says_so(tmp_path: Path) -> None:
    program = tmp_path / "once.py"
    program.write_text(
        "import os, sys\n"
        f"if os.path.exists({str(tmp_path / 'started')!r}): sys.exit('only one of me')\n"
        f"open({str(tmp_path / 'started')!r}, 'w').close()\n"
        f"os.execv(sys.executable, [sys.executable, {str(Path(__file__).parents[2] / 'servers' / 'asks.py')!r}])\n"
    )
    spec = replace(stdio("s", "asks.py", sessions="per_client"), args=(str(program),))
    async with running(tmp_path, spec) as supervisor:
        await connected(supervisor, "s")
        for message in ("it last wrote: only one of me", "no further session with it could be opened"):
            with pytest.raises(UpstreamFailure) as caught:
                await call(supervisor, "whoami", Chat(key="ann"))
            assert (caught.value.code, caught.value.sent) == (Code.SERVER_UNAVAILABLE, False)
            assert message in caught.value.message
        assert (await call(supervisor, "whoami"))["pid"]


@pytest.mark.proves("UP-7")
async def test_clients_beyond_the_bound_take_the_place_of_one_that_rests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_pool, "MAX_CLIENTS", 2)
    with web_server("asks.py", "--http", "0") as origin:
        spec = UpstreamSpec("s", "http", url=f"{origin}/mcp", sessions="per_client", timeout=2 * LONG)
        async with running(tmp_path, spec) as supervisor:
            await connected(supervisor, "s")
            for name in ("ann", "bob", "eve", "joe"):
                assert await call(supervisor, "wait", Chat(key=name), seconds=0) == "waited"
                await until(lambda: row(supervisor)["extra_sessions"] <= 2)  # also what ends takes a place
            async with anyio.create_task_group() as tasks:
                for name in ("ann", "bob"):
                    tasks.start_soon(lambda name=name: call(supervisor, "wait", Chat(key=name), seconds=2 * LONG))
                await until(lambda: row(supervisor)["in_flight"] == 2)
                await until(lambda: row(supervisor)["extra_sessions"] == 2)
                with pytest.raises(UpstreamFailure) as caught:
                    await call(supervisor, "whoami", Chat(key="eve"))
                assert (caught.value.code, caught.value.sent) == (Code.OVERLOADED, False)
                tasks.cancel_scope.cancel()


async def test_a_caller_that_gives_up_while_its_session_opens_leaves_it_to_the_next(tmp_path: Path) -> None:
    spec = stdio("s", "asks.py", sessions="per_client")
    async with running(tmp_path, spec) as supervisor:
        await connected(supervisor, "s")
        with anyio.move_on_after(0.01):
            await call(supervisor, "whoami", Chat(key="ann"))
        assert (await call(supervisor, "whoami", Chat(key="ann")))["session"]
        assert row(supervisor)["extra_sessions"] == 1


async def test_a_changed_configuration_changes_the_kind_without_a_new_connection(tmp_path: Path) -> None:
    spec = stdio("s", "asks.py")
    async with running(tmp_path, spec) as supervisor:
        await connected(supervisor, "s")
        main = (await call(supervisor, "whoami"))["session"]
        await supervisor.apply({"s": replace(spec, sessions="per_client")})
        assert (await call(supervisor, "whoami", Chat(key="ann")))["session"] != main
        assert (await call(supervisor, "whoami"))["session"] == main


ROOTS = "notifications/roots/list_changed"


async def told(supervisor: Upstreams, chat: Chat) -> int:
    return (await call(supervisor, "whoami", chat))["asked"].get(ROOTS, 0)


async def is_told(supervisor: Upstreams, chat: Chat) -> None:
    """Once it is there: it travels, over HTTP by a request of its own."""
    with anyio.fail_after(LONG):
        while not (times := await told(supervisor, chat)):  # noqa: ASYNC110 (nobody tells)
            await anyio.sleep(0.02)
    assert times == 1


async def test_a_client_whose_roots_change_is_heard_by_the_session_that_is_its_own_and_no_other(
    spec: UpstreamSpec, tmp_path: Path
) -> None:
    async with running(tmp_path, replace(spec, sessions="per_client")) as supervisor:
        await connected(supervisor, "s")
        ann, bob = Chat(key="ann"), Chat(key="bob")
        assert [await told(supervisor, chat) for chat in (ann, bob)] == [0, 0]
        for _ in range(1000):
            supervisor.roots_changed("ann")
        await until(lambda: not supervisor._moved)
        await is_told(supervisor, ann)
        assert [await told(supervisor, chat) for chat in (bob, Chat())] == [0, 0]


async def test_a_session_that_serves_one_call_at_a_time_hears_of_that_calls_client(
    spec: UpstreamSpec, tmp_path: Path
) -> None:
    async with running(tmp_path, replace(spec, sessions="exclusive")) as supervisor:
        await connected(supervisor, "s")
        told_of_both = anyio.Event()

        async def then(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
            await told_of_both.wait()
            return {}

        ann = Chat(then, key="ann")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: call(supervisor, "ask", ann, method="roots/list"))
            await until(lambda: ann.asked)
            supervisor.roots_changed("bob")
            supervisor.roots_changed("ann")
            await until(lambda: not supervisor._moved)
            told_of_both.set()
        await is_told(supervisor, Chat())
