"""An operator gives a server's name to another program while something of the first one waits: a yes, an answer, a
task. Nothing that was said to one of them, or about it, reaches the other (GATE-14, SEC-4)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.target import (
    ALL_SURFACES,
    DOORS,
    ERAS,
    Log,
    Target,
    accepts,
    ask,
    eventually,
    fresh,
    heard,
    params,
    retry,
    turn,
)
from tests.support.gateway import gateway
from tests.support.peer import CAPABILITIES, META
from tests.support.waiting import decide
from tests.support.wire import HANDSHAKE, MODERN

pytestmark = [pytest.mark.anyio, pytest.mark.proves("GATE-14", "SEC-4", "SEC-10")]
KINDS = {"modern": ("--modern",), "handshake": ()}
SERVERS = pytest.mark.parametrize("server", list(KINDS))
HOW: dict[str, dict[str, Any]] = {
    "another program": {},
    "other arguments": {"args": ["--tools", "1"]},
    "another environment": {"env": {"ACCOUNT": "other"}},
}


@dataclass
class Replaceable:
    target: Target
    folder: Path

    def log(self, server: str) -> Log:
        """What the program heard that has the name now."""
        return Log(self.folder / f"{server}.other")

    def replace(self, server: str, how: str = "another program") -> None:
        entry = heard(self.folder, f"{server}-unused", *KINDS[server], confirm=self.confirm(server))
        entry["args"][entry["args"].index("--log") + 1] = str(self.log(server).path)
        more = HOW[how]
        entry = {**entry, **more, "args": [*entry["args"], *more.get("args", ())]}
        self.put(server, entry)

    def confirm(self, server: str) -> str:
        return str(self.target.servers[server].get("confirm", "none"))

    def put(self, server: str, entry: Any) -> None:
        answer = self.target.running.post("/servers", {"name": server, "config": entry, "replace": True})
        assert answer.status_code in (200, 201), answer.text
        self.target.running.wait_for(server, state="connected")

    @contextlib.contextmanager
    def put_back(self, server: str) -> Iterator[None]:
        try:
            yield
        finally:
            self.put(server, self.target.servers[server])


@contextlib.contextmanager
def house(folder: Path, **extra: Any) -> Iterator[Replaceable]:
    servers = {name: heard(folder, name, *flags, **extra) for name, flags in KINDS.items()}
    config = {"surfaces": ALL_SURFACES, "mcpServers": servers}
    with gateway(folder / "data", config) as running:
        yield Replaceable(Target(running, folder, servers), folder)


@pytest.fixture(scope="module")
def confirmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replaceable]:
    with house(tmp_path_factory.mktemp("confirmed"), confirm="destructive") as found:
        yield found


@pytest.fixture(scope="module")
def open_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replaceable]:
    with house(tmp_path_factory.mktemp("open")) as found:
        yield found


@ERAS
@DOORS
@SERVERS
async def test_a_yes_in_the_client_is_none_for_another_program_of_that_name(
    confirmed: Replaceable, era: str, door: str, server: str
) -> None:
    mark, target, asked = fresh(), confirmed.target, list[str]()

    async def person(method: str, said: Any) -> Any:
        asked.append(str(said.get("message")))
        if len(asked) == 1:
            await eventually(lambda: confirmed.replace(server) or True, "the other program")
        return {"action": "accept", "content": {"allow": True}}

    with confirmed.put_back(server):
        async with target.client(door, server, era, person) as peer:
            found = await ask(peer, params(door, server, "wipe", mark))
        assert asked, "a person was asked"
        assert not found.ok, found
        assert not confirmed.log(server).calls(mark), "what runs there now is not what the person saw"
        assert not target.log(server).calls(mark)
        (row,) = target.ended(mark)
        assert row["status"] == "blocked", row


@pytest.mark.parametrize("how", list(HOW))
async def test_nor_is_one_on_the_page(confirmed: Replaceable, how: str) -> None:
    mark, target, server = fresh(), confirmed.target, "modern"

    def waits() -> Any:
        rows = target.running.get("/confirmations", status="waiting")["confirmations"]
        return next((row for row in rows if mark in str(row["arguments"])), None)

    with confirmed.put_back(server):
        async with target.client("gate", server, MODERN, capabilities={}) as peer:
            pending = await peer.begin("tools/call", params("gate", server, "wipe", mark))
            row = await eventually(waits, "the call to wait")
            await eventually(lambda: confirmed.replace(server, how) or True, "the other program")
            decide(target.running, row, "approve")
            result = await pending.result()
            while result.get("resultType") == "input_required":  # it is sent away, to come back
                again = {**params("gate", server, "wipe", mark), "requestState": result["requestState"]}
                result = await (await peer.begin("tools/call", again)).result()
        assert result.get("isError"), result
        assert not confirmed.log(server).calls(mark)


@pytest.mark.parametrize("how", list(HOW))
def test_nor_is_one_on_a_terminal(confirmed: Replaceable, how: str) -> None:
    """`mcpproxy call` shows the question first, and sends the answer with the call."""
    mark, running, server = fresh(), confirmed.target.running, "handshake"
    call = {"name": f"{server}:wipe", "args": {"mark": mark}, "intent": {"operation_type": "destructive"}}
    call["variant"] = "destructive"
    with confirmed.put_back(server):
        shown = running.post("/call/question", call).json()
        confirmed.replace(server, how)
        yes = {"token": shown["token"], "allow": True, "terminal": True, "name": "ann"}
        answer = running.post("/call", {**call, "confirmation": yes})
        assert answer.status_code == 403, answer.text
        assert "was replaced" in answer.text
        assert not confirmed.log(server).calls(mark)


@DOORS
async def test_an_answer_to_one_program_never_reaches_the_other(open_house: Replaceable, door: str) -> None:
    """In the modern era the answer comes with a state of the server's own, in another request."""
    mark, word, target, server = fresh(), fresh("said"), open_house.target, "modern"
    asked = params(door, server, "wipe_ask", mark)
    with open_house.put_back(server):
        async with target.client(door, server, MODERN) as peer:
            again = retry(asked, await turn(peer, asked), word)
            open_house.replace(server)
            found = await turn(peer, again)
        assert not found.ok, found
        assert not open_house.log(server).has(word), "a server that asked nothing heard the answer"
        assert not open_house.log(server).calls(mark)


@DOORS
async def test_the_same_program_started_anew_still_hears_it(open_house: Replaceable, door: str) -> None:
    mark, word, target, server = fresh(), fresh("said"), open_house.target, "modern"
    asked = params(door, server, "wipe_ask", mark)
    async with target.client(door, server, MODERN) as peer:
        again = retry(asked, await turn(peer, asked), word)
        assert target.running.post(f"/servers/{server}/restart").status_code in (200, 202)
        target.running.wait_for(server, state="connected")
        assert (await turn(peer, again)).ok
    assert target.log(server).has(word)


async def test_nobody_tells_the_other_which_resources_are_watched(open_house: Replaceable) -> None:
    word, target, server = fresh("watched"), open_house.target, "handshake"
    with open_house.put_back(server):
        async with target.client("passthrough", server, HANDSHAKE) as peer:
            assert (await ask(peer, {"uri": f"note://{word}"}, "resources/subscribe")).ok
            assert target.log(server).has(word)
            open_house.replace(server)
            mark = fresh()
            assert (await ask(peer, params("passthrough", server, "look", mark))).ok
            assert open_house.log(server).calls(mark)
        async with target.client("passthrough", server, HANDSHAKE) as peer:  # what the first left behind has been done
            assert (await ask(peer, params("passthrough", server, "look", fresh()))).ok
        assert not open_house.log(server).has(word)


TASKS = {**CAPABILITIES, "extensions": {f"{META}tasks": {}}}


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_a_task_of_one_program_is_none_of_the_other(open_house: Replaceable, method: str) -> None:
    mark, word, target, server = fresh(), fresh("said"), open_house.target, "modern"
    with open_house.put_back(server):
        async with target.client("passthrough", server, MODERN, accepts(word), capabilities=TASKS) as peer:
            begun = await turn(peer, params("passthrough", server, "begin", mark))
            assert begun.result.get("resultType") == "task", begun
            about = {"taskId": begun.result["taskId"]}
            if method == "tasks/update":
                about["inputResponses"] = {"one": {"action": "accept", "content": {"answer": word}}}
            open_house.replace(server)
            before = len(open_house.log(server).of(method))
            found = await turn(peer, about, method)
        assert not found.ok, found
        assert not open_house.log(server).has(word)
        assert len(open_house.log(server).of(method)) == before
