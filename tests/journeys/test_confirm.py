"""A person is asked before a call that the operator wants confirmed, in either era and at every door (SEC-4)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpproxy_py.errors import EXIT_REFUSED
from mcpproxy_py.store.journal.entries import read
from tests.support.everything import over_stdio
from tests.support.gateway import Running, clean_environment, gateway, python_server
from tests.support.links import HttpLink
from tests.support.peer import WAIT, Answer, Message, Peer, connected, silent
from tests.support.wire import HANDSHAKE, MODERN, RpcError, text

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SEC-4")]

ERAS = pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
DOORS = pytest.mark.parametrize("door", ["/mcp", "/mcp/direct", "/mcp/s/notes"])
YES: Mapping[str, Any] = {"action": "accept", "content": {"allow": True}}


def configuration(path: Path, **extra: Any) -> dict[str, Any]:
    return {
        "surfaces": ["gate", "direct", "passthrough"],
        "mcpServers": {
            "notes": python_server("plain.py", "--log", str(path / "calls"), confirm="destructive"),
            "careful": python_server("plain.py", "--log", str(path / "calls"), confirm="write"),
            "inside": python_server("plain.py", "--log", str(path / "calls"), confirm="write", confirm_by="client"),
            "asking": over_stdio("--era", "modern", "--notes", str(path / "asking"), confirm="write"),
        },
        **extra,
    }


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("confirm")
    with gateway(path / "data", configuration(path)) as found:
        yield found


def saying(answer: Mapping[str, Any]) -> Answer:
    async def person(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        assert method == "elicitation/create"
        return answer

    return person


def client(running: Running, era: str, answer: Answer = silent, door: str = "/mcp", **options: Any) -> Any:
    return connected(HttpLink(f"{running.url}{door}"), era, answer, **options)


def call(
    door: str, tool: str, args: Mapping[str, Any], operation: str = "destructive", server: str = "notes"
) -> Message:
    if door == "/mcp":
        intent = {"operation_type": operation, "reason": "the test wants it"}
        arguments = {"name": f"{server}:{tool}", "args": dict(args), "intent": intent}
        return {"name": f"call_tool_{operation}", "arguments": arguments}
    return {"name": f"{server}__{tool}" if door == "/mcp/direct" else tool, "arguments": dict(args)}


def reached(running: Running, word: str) -> int:
    """How many calls with this word the server saw."""
    calls = running.data_dir.parent / "calls"
    return calls.read_text().count(word) if calls.exists() else 0


def recorded(running: Running, word: str) -> list[dict[str, Any]]:
    return [row for row in running.activities() if word in json.dumps(row["arguments"])]


async def refused(peer: Peer, params: Message) -> str:
    result = await peer.request("tools/call", params)
    assert result["isError"], result
    return text(result)


@ERAS
@DOORS
async def test_a_yes_lets_exactly_this_call_through(running: Running, era: str, door: str) -> None:
    word = f"yes-{era}-{door}"
    async with client(running, era, saying(YES), door) as peer:
        result = await peer.request("tools/call", call(door, "delete_note", {"text": word}))
        assert not result.get("isError"), result
        assert len(peer.asked) == 1
        assert "notes:delete_note" in peer.asked[0][1]["message"] and word in peer.asked[0][1]["message"]
        await peer.request("tools/call", call(door, "delete_note", {"text": word}))
        assert len(peer.asked) == 2, "a yes is for one call"
    assert reached(running, word) == 2
    assert [row["status"] for row in recorded(running, word)] == ["success", "success"]


@ERAS
@DOORS
@pytest.mark.parametrize(
    "answer",
    [{"action": "decline"}, {"action": "cancel"}, {"action": "accept", "content": {"allow": False}}, {"action": 7}],
    ids=["decline", "cancel", "not-allowed", "nonsense"],
)
async def test_everything_else_refuses_it(running: Running, era: str, door: str, answer: Mapping[str, Any]) -> None:
    word = f"no-{era}-{door}-{answer['action']}-{len(answer)}"
    async with client(running, era, saying(answer), door) as peer:
        assert "needs a person's yes" in await refused(peer, call(door, "delete_note", {"text": word}))
    assert reached(running, word) == 0
    (row,) = recorded(running, word)
    assert (row["status"], row["error"]["code"]) == ("blocked", "NOT_CONFIRMED")


@ERAS
@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}], ids=["none", "only-pages"])
async def test_a_client_that_cannot_be_asked_is_refused(running: Running, era: str, capabilities: Message) -> None:
    word = f"mute-{era}-{len(capabilities)}"
    async with client(running, era, capabilities=capabilities) as peer:
        assert "takes no forms" in await refused(peer, call("/mcp", "delete_note", {"text": word}, server="inside"))
    assert reached(running, word) == 0


async def test_rest_and_the_command_line_cannot_be_asked_either(running: Running) -> None:
    command = ["call", "tool-destructive", "--tool-name", "notes:delete_note", "--json_args", '{"text":"by-hand"}']
    whole = [sys.executable, "-m", "mcpproxy_py", *command, "--data-dir", str(running.data_dir)]
    done = await anyio.run_process(whole, env=clean_environment(), check=False)
    assert done.returncode == EXIT_REFUSED, done.stderr
    assert b"needs a person's yes" in done.stderr
    assert reached(running, "by-hand") == 0


@ERAS
async def test_only_what_the_operator_wants_confirmed_is_asked_about(running: Running, era: str) -> None:
    async with client(running, era, saying(YES)) as peer:
        await peer.request("tools/call", call("/mcp", "echo", {"text": "x"}, "read", "careful"))
        await peer.request("tools/call", call("/mcp", "write_note", {"text": "x"}, "write", "notes"))
        assert peer.asked == []
        await peer.request("tools/call", call("/mcp", "write_note", {"text": "x"}, "write", "careful"))
        assert len(peer.asked) == 1


@ERAS
async def test_what_was_frozen_while_the_person_thought_is_refused(running: Running, era: str) -> None:
    word = f"frozen-{era}"

    async def freezes(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = await anyio.to_thread.run_sync(running.post, "/freeze")
        assert answer.status_code == 200
        return YES

    try:
        async with client(running, era, freezes) as peer:
            assert "frozen" in await refused(peer, call("/mcp", "delete_note", {"text": word}))
    finally:
        assert running.post("/unfreeze").status_code == 200
    assert reached(running, word) == 0


async def test_a_yes_works_once_and_for_these_arguments_only(running: Running) -> None:
    first, other = (call("/mcp", "delete_note", {"text": word}) for word in ("once-only", "something-else"))
    async with client(running, MODERN) as peer:
        question = await (await peer.begin("tools/call", first)).result()
        (key,) = question["inputRequests"]
        yes = {"inputResponses": {key: dict(YES)}, "requestState": question["requestState"]}
        with pytest.raises(RpcError, match="another request"):
            await (await peer.begin("tools/call", {**other, **yes})).result()
        assert not (await (await peer.begin("tools/call", {**first, **yes})).result()).get("isError")
        with pytest.raises(RpcError):
            await (await peer.begin("tools/call", {**first, **yes})).result()
    assert (reached(running, "once-only"), reached(running, "something-else")) == (1, 0)


@ERAS
async def test_the_yes_is_on_record_between_question_and_end(running: Running, era: str) -> None:
    word = f"steps-{era}"
    async with client(running, era, saying(YES)) as peer:
        await peer.request("tools/call", call("/mcp", "delete_note", {"text": word}))
    (row,) = recorded(running, word)
    assert kinds(running, row["id"]) == ["asked", "input_required", "answered", "confirmed", "finished"]


def kinds(running: Running, ask_id: str) -> list[str]:
    events = [entry.event for line in journal(running) if (entry := read(line)) is not None]
    return [event["kind"] for event in events if event["id"] == ask_id]


def journal(running: Running) -> Iterator[bytes]:
    for path in sorted((running.data_dir / "journal").glob("*.log")):
        yield from path.read_bytes().split(b"\n")[:-1]


async def test_two_people_are_asked_at_once_and_each_answers_for_their_own_call(running: Running) -> None:
    both_asked = anyio.Event()
    count = 0

    def person(answer: Mapping[str, Any]) -> Answer:
        async def waits(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
            nonlocal count
            count += 1
            if count == 2:
                both_asked.set()
            await both_asked.wait()
            return answer

        return waits

    no = {"action": "decline"}
    async with client(running, MODERN, person(YES)) as ada, client(running, HANDSHAKE, person(no)) as bob:
        with anyio.fail_after(WAIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ada.request, "tools/call", call("/mcp", "delete_note", {"text": "of-ada"}))
                tasks.start_soon(bob.request, "tools/call", call("/mcp", "delete_note", {"text": "of-bob"}))
    assert (reached(running, "of-ada"), reached(running, "of-bob")) == (1, 0)


@ERAS
async def test_a_server_that_asks_too_is_heard_after_the_yes(running: Running, era: str) -> None:
    async def person(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        confirming = "Allow this" in params["message"]
        return YES if confirming else {"action": "accept", "content": {"answer": "blue"}}

    async with client(running, era, person) as peer:
        result = await peer.request("tools/call", call("/mcp", "ask", {"who": "ada"}, "write", "asking"))
    assert text(result) == "ada says blue"
    assert "What says ada?" in [params["message"] for _, params in peer.asked]


@ERAS
async def test_nobody_answering_is_a_no(tmp_path: Path, era: str) -> None:
    async def sleeps(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        await anyio.sleep_forever()
        raise AssertionError

    config = configuration(tmp_path, limits={"input_timeout": 1})
    del config["mcpServers"]["asking"]
    with gateway(tmp_path / "data", config) as running:
        async with client(running, era, sleeps) as peer:
            await peer.begin("tools/call", call("/mcp", "delete_note", {"text": "unheard"}))
            await peer.hear_question() if era == HANDSHAKE else None
            await until(lambda: [row["status"] for row in recorded(running, "unheard")] == ["blocked"])
        assert recorded(running, "unheard")[0]["error"]["code"] == "NOT_CONFIRMED"
        assert reached(running, "unheard") == 0


async def until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(WAIT):
        while not true():  # noqa: ASYNC110 (the record tells nobody)
            await anyio.sleep(0.05)
