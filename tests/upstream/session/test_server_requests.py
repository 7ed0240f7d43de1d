"""Servers that ask back: each question reaches the client it is for, or nobody (UP-5)."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcpproxy_py.errors import RpcError, UpstreamFailure
from mcpproxy_py.upstream.session import server_requests, throttle
from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.transports import http_exchange
from tests.upstream.helpers import LONG, Chat, Upstreams, connected, running, stdio, text_of, until, web_server

pytestmark = [pytest.mark.anyio, pytest.mark.proves("UP-5")]
FORM = {"message": "How many?", "requestedSchema": {"type": "object"}, "draft": [1, None]}
METHODS = ("elicitation/create", "sampling/createMessage", "roots/list", "x-unknown/question")


class House:
    """A supervisor with the server `s`, and what could not be attributed."""

    def __init__(self, supervisor: Upstreams, refused: list[tuple[str, str]], told: list[tuple[str, Any]]) -> None:
        self.supervisor = supervisor
        self.refused = refused
        self.told = told

    async def call(self, tool: str, chat: Chat | None = None, **args: Any) -> Any:
        return json.loads(text_of(await self.supervisor.call_tool("s", tool, args, channel=chat)))

    async def asked(self, tool: str, chat: Chat) -> Any:
        """What a call gives that asks, and goes on once its client has been asked."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._go_on, chat)
            return await self.call(tool, chat, method="elicitation/create")

    async def _go_on(self, chat: Chat) -> None:
        await until(lambda: chat.asked)
        await self.call("go_on")

    async def answers(self, count: int = 1) -> list[Any]:
        """Once the server got that many to questions of its own. Over HTTP each comes by a request of its own."""
        with anyio.fail_after(LONG):
            while len(answers := await self.call("answers")) < count:  # noqa: ASYNC110 (nobody tells)
                await anyio.sleep(0.02)
        return answers


Opening = Callable[..., AbstractAsyncContextManager[House]]


@pytest.fixture(params=["stdio", "http"])
def transport(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def spec(transport: str) -> Iterator[UpstreamSpec]:
    if transport == "stdio":
        yield stdio("s", "asks.py", timeout=2 * LONG, sessions="shared")
    else:
        with web_server("asks.py", "--http", "0") as origin:
            yield UpstreamSpec("s", "http", url=f"{origin}/mcp", timeout=2 * LONG, sessions="shared")


@asynccontextmanager
async def opened(tmp_path: Path, spec: UpstreamSpec) -> AsyncIterator[House]:
    refused: list[tuple[str, str]] = []
    told: list[tuple[str, Any]] = []
    hooks = {
        "on_unattributed": lambda server, method: refused.append((server, method)),
        "on_notification": lambda server, method, params: told.append((method, params)),
    }
    async with running(tmp_path, spec, **hooks) as supervisor:
        await connected(supervisor, "s")
        yield House(supervisor, refused, told)


@pytest.fixture
async def house(spec: UpstreamSpec, tmp_path: Path) -> AsyncIterator[House]:
    async with opened(tmp_path, spec) as house:
        yield house


async def yes(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"action": "accept", "content": {"n": 3}, "method": method, "draft": {"kept": None}}


@pytest.mark.parametrize("method", METHODS)
async def test_a_question_reaches_the_client_and_its_answer_the_server_raw(house: House, method: str) -> None:
    chat = Chat(yes)
    answer = await house.call("ask", chat, method=method, params=FORM)
    assert chat.asked == [(method, FORM)]
    assert answer["result"] == await yes(method, FORM)
    assert house.refused == []


async def test_a_client_that_says_no_says_it_to_the_server_with_code_and_data(house: House) -> None:
    async def no(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        raise RpcError(-1, "the user said no", {"why": "busy"})

    answer = await house.call("ask", Chat(no), method="sampling/createMessage")
    assert answer["error"] == {"code": -1, "message": "the user said no", "data": {"why": "busy"}}


async def test_a_client_that_fails_costs_the_question_and_nothing_else(house: House) -> None:
    async def broken(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        raise ValueError("s3cret")

    async def unwritable(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"text": "\ud800"}

    for answer in (broken, unwritable):
        error = (await house.call("ask", Chat(answer), method="roots/list"))["error"]
        assert error["code"] == -32603
        assert "s3cret" not in error["message"]


async def test_a_caller_that_cannot_be_asked_is_told_from_one_that_is_unknown(house: House) -> None:
    answer = await house.call("ask", None, method="elicitation/create")
    assert answer["error"]["code"] == -32601
    assert house.refused == []


async def test_a_ping_is_answered_by_the_gateway(house: House) -> None:
    chat = Chat(yes)
    assert (await house.call("ask", chat, method="ping", outside=True))["result"] == {}
    assert chat.asked == []


@pytest.mark.parametrize("transport", ["http"], indirect=True)  # one pipe has no streams of its own
async def test_questions_of_many_calls_at_once_do_not_cross_over_on_their_own_streams(house: House) -> None:
    got: dict[int, Any] = {}

    async def one(number: int) -> None:
        async def answer(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
            await anyio.lowlevel.checkpoint()
            return {"number": number}

        chat = Chat(answer)
        got[number] = await house.call("ask", chat, method="elicitation/create", params={"of": number})
        assert chat.asked == [("elicitation/create", {"of": number})]

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(one, number)
    assert {number: answer["result"] for number, answer in got.items()} == {n: {"number": n} for n in range(20)}


@pytest.mark.parametrize("transport", ["http"], indirect=True)
async def test_a_stream_that_was_broken_off_is_the_calls_own_also_when_it_is_resumed(house: House) -> None:
    other, chat = Chat(yes), Chat(yes)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: house.call("wait", other, seconds=2 * LONG))
        await until(lambda: house.supervisor.describe()[0]["in_flight"] == 1)
        answer = await house.call("broken_off", chat, method="elicitation/create")
        tasks.cancel_scope.cancel()
    assert answer["result"]["action"] == "accept"
    assert (len(chat.asked), other.asked, house.refused) == (1, [], [])


async def test_a_server_of_the_oldest_transport_can_ask_too(tmp_path: Path) -> None:
    with web_server("plain_http.py", "--sse", "0") as origin:
        async with opened(tmp_path, UpstreamSpec("s", "sse", url=f"{origin}/sse")) as house:
            chat = Chat(yes)
            (answer,) = await house.call("ask", chat, method="elicitation/create")
            assert (answer["result"]["action"], len(chat.asked)) == ("accept", 1)
            assert house.supervisor.describe()[0]["sessions"] == "exclusive"


async def test_a_question_outside_any_stream_belongs_to_the_only_call_there_is(house: House) -> None:
    chat = Chat(yes)
    answer = await house.call("ask", chat, method="elicitation/create", outside=True)
    assert answer["result"]["action"] == "accept"


async def test_a_question_that_could_be_for_two_is_put_to_neither(house: House) -> None:
    one, other = Chat(yes), Chat(yes)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: house.call("wait", other, seconds=2 * LONG))
        await until(lambda: house.supervisor.describe()[0]["in_flight"] == 1)
        answer = await house.call("ask", one, method="elicitation/create", outside=True)
        tasks.cancel_scope.cancel()
    assert "cannot tell which client" in answer["error"]["message"]
    assert one.asked == other.asked == []
    assert house.refused == [("s", "elicitation/create")]


@pytest.mark.proves("UP-11")
@pytest.mark.parametrize(
    ("mine", "other", "answered"),
    [("ann", "ann", [{"uri": "file:///ann"}]), ("ann", "bob", []), ("", "", [])],
    ids=["one client", "two clients", "nobody in particular"],
)
async def test_the_roots_are_those_of_the_one_client_there_is_or_none(
    spec: UpstreamSpec, tmp_path: Path, mine: str, other: str, answered: list[dict[str, str]]
) -> None:
    """They are a client's and not a call's, so asking for them among several calls is no mix-up: servers do so with
    their first call, and browsers must not be given a session, a browser, for each call for that."""

    async def roots(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"roots": [{"uri": "file:///ann"}]}

    async with opened(tmp_path, replace(spec, sessions="auto")) as house:
        can = {"roots": {}}
        async with anyio.create_task_group() as tasks:
            waiting = Chat(roots, key=other, capabilities=can)
            tasks.start_soon(lambda: house.call("wait", waiting, seconds=2 * LONG))
            await until(lambda: house.supervisor.describe()[0]["in_flight"] == 1)
            chat = Chat(roots, key=mine, capabilities=can)
            answer = await house.call("ask", chat, method="roots/list", outside=True)
            tasks.cancel_scope.cancel()
        assert answer["result"] == {"roots": answered}
        assert house.refused == []
        assert house.supervisor.describe()[0]["sessions"] == "auto"


@pytest.mark.proves("UP-11")
async def test_roots_that_are_asked_for_outside_any_call_are_none(tmp_path: Path) -> None:
    async with opened(tmp_path, stdio("s", "asks.py", "--roots")) as house:
        await until(lambda: house.supervisor.describe()[0]["ignored"]["unattributed"])
        assert [each["result"] for each in await house.answers()] == [{"roots": []}]
        assert (house.refused, house.supervisor.describe()[0]["sessions"]) == ([], "auto")


async def test_a_question_after_the_call_ended_is_refused(
    house: House, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_exchange, "DRAIN", LONG)  # the question comes after the answer, on the same stream
    chat = Chat(yes)
    question = {"method": "elicitation/create"}
    assert text_of(await house.supervisor.call_tool("s", "ask_late", question, channel=chat)) == "answered"
    assert "error" in (await house.answers())[0]
    # On one pipe it is outside any call, which says nothing of the server and is no incident (UP-11).
    assert house.refused == ([("s", "elicitation/create")] if transport == "http" else [])
    assert chat.asked == []


async def test_an_open_question_is_taken_back_when_its_call_ends(house: House) -> None:
    chat = Chat()
    assert await house.asked("ask_and_leave", chat) == "left"
    await until(lambda: chat.withdrawn == ["elicitation/create"])
    (refusal,) = await house.answers()
    assert refusal["error"]["message"] == "the call that this belongs to has ended"


async def test_an_open_question_is_taken_back_when_its_caller_gives_up(house: House) -> None:
    chat = Chat()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: house.call("ask", chat, method="elicitation/create"))
        await until(lambda: chat.asked)
        tasks.cancel_scope.cancel()
    await until(lambda: chat.withdrawn == ["elicitation/create"])


async def test_a_question_the_server_takes_back_is_withdrawn_and_not_answered(house: House) -> None:
    chat = Chat()
    assert await house.asked("withdraw", chat) == []
    await until(lambda: chat.withdrawn == ["elicitation/create"])
    assert not [method for method, _ in house.told if method == "notifications/cancelled"]


async def test_an_id_used_twice_is_refused_the_second_time(house: House) -> None:
    async def after_the_refusal(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        await house.answers()
        return {"n": 1}

    refusal, answer = await house.call("ask_twice", Chat(after_the_refusal), method="elicitation/create")
    assert "is in use" in refusal["error"]["message"]
    assert answer["result"] == {"n": 1}


@pytest.mark.proves("SEC-5")
async def test_a_flood_of_questions_is_bounded_and_other_calls_go_on(house: House) -> None:
    n, all_came = 60, anyio.Event()

    async def in_the_end(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        await all_came.wait()
        return {}

    async def ask() -> None:
        answers = await house.call("ask_many", chat, method="roots/list", n=n)
        assert sum("result" in answer for answer in answers) == server_requests.MAX_OF_A_CALL

    chat = Chat(in_the_end)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await house.answers(n - server_requests.MAX_OF_A_CALL)
        assert await house.call("wait", chat, seconds=0) == "waited"
        all_came.set()
    assert len(chat.asked) == server_requests.MAX_OF_A_CALL


@pytest.mark.proves("SEC-5")
async def test_a_flood_of_questions_for_nobody_is_counted_and_not_all_told(house: House) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(lambda: house.call("wait", Chat(), seconds=2 * LONG))
        await until(lambda: house.supervisor.describe()[0]["in_flight"] == 2)
        tasks.start_soon(lambda: house.call("ask_many", Chat(), method="elicitation/create", n=3000, outside=True))
        await until(lambda: house.supervisor.describe()[0]["ignored"]["unattributed"] == 3000)
        assert len(house.refused) == 100
        assert await house.call("wait", Chat(), seconds=0, text="still") == "still"
        tasks.cancel_scope.cancel()


async def test_the_calls_time_stands_still_while_its_client_is_asked(spec: UpstreamSpec, tmp_path: Path) -> None:
    async def slowly(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        await anyio.sleep(3.5)
        return {}

    async with opened(tmp_path, replace(spec, timeout=3)) as house:
        assert (await house.call("ask", Chat(slowly), method="elicitation/create"))["result"] == {}
        await house.supervisor.apply({"s": replace(spec, timeout=0.3)})
        with pytest.raises(UpstreamFailure):
            await house.call("wait", Chat(), seconds=2 * LONG)


async def test_a_client_that_never_answers_is_not_waited_for_for_ever(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_requests, "INPUT_TIMEOUT", 0.2)
    chat = Chat()
    answer = await house.call("ask", chat, method="elicitation/create")
    assert answer["error"] == {"code": -32001, "message": "the client did not answer within 0.2 s"}
    assert chat.withdrawn == ["elicitation/create"]


async def test_what_comes_on_a_calls_own_stream_is_noted_to_its_caller(house: House) -> None:
    chat = Chat()
    await house.call("log", chat, text="mine")
    assert chat.notes == [
        ("notifications/message", {"level": "info", "data": "mine", "draft": 1}),
        ("notifications/x-unknown", {"text": "mine"}),
    ]
    assert not [method for method, _ in house.told if method in dict(chat.notes)]


async def test_logs_of_calls_at_once_do_not_cross_over(house: House, transport: str) -> None:
    chats = [Chat() for _ in range(8)]
    async with anyio.create_task_group() as tasks:
        for number, chat in enumerate(chats):
            tasks.start_soon(lambda chat=chat, number=number: house.call("log", chat, text=f"of {number}", seconds=0.3))
    heard = [[params["data"] for method, params in chat.notes if method == "notifications/message"] for chat in chats]
    if transport == "http":
        assert heard == [[f"of {number}"] for number in range(8)]
    else:  # on one pipe nobody can tell whose they are
        assert all(len(each) <= 1 for each in heard)


@pytest.mark.proves("SEC-5")
async def test_a_flood_of_progress_is_thinned_and_the_last_of_it_arrives(house: House) -> None:
    chat, begun = Chat(), time.monotonic()
    assert await house.call("progress", chat, n=20_000) == 20_000
    periods = (time.monotonic() - begun) / throttle.PERIOD + 1
    assert len(chat.progress) <= periods * (throttle.BURST + 1) + 1
    assert chat.progress[-1]["progress"] == 19_999
    steps = [each["progress"] for each in chat.progress]
    assert steps == sorted(steps)
