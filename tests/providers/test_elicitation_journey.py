"""A provider that asks, behind the whole gateway: either era, many clients at once, one row of the record (PROV-4)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from tests.support.gateway import Running, gateway
from tests.support.links import HttpLink
from tests.support.peer import CAPABILITIES, Answer, Message, Peer, connected, silent
from tests.support.wire import HANDSHAKE, MODERN, RpcError, text

pytestmark = [pytest.mark.anyio, pytest.mark.proves("PROV-4")]

PROVIDER = """
import asyncio
from mcpproxy_py.providers import Accept, Context, Decline, ToolProvider, ToolSpec

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

class Shop(ToolProvider):
    def __init__(self): self.started = 0
    def capabilities(self): return ["elicitation"]
    def tools(self):
        return [ToolSpec(fn.__name__, fn) for fn in (self.remove, self.interview, self.both, self.who, self.count)]
    async def remove(self, item: str, ctx: Context) -> str:
        self.started += 1
        answer = await ctx.elicit(f"Remove {item}?")
        return {Accept: "removed", Decline: "kept"}.get(type(answer), "unanswered") + f" {item}"
    async def interview(self, ctx: Context) -> str:
        first = await ctx.elicit("First name?", NAME)
        last = await ctx.elicit(f"And after {first.content['name']}?", NAME)
        return f"{first.content['name']} {last.content['name']}"
    async def both(self, ctx: Context) -> str:
        answers = await asyncio.gather(ctx.elicit("Left?", NAME), ctx.elicit("Right?", NAME))
        return " and ".join(answer.content["name"] for answer in answers)
    async def who(self, ctx: Context) -> str:
        return f"{ctx.caller.principal} {ctx.caller.client.name}"
    async def count(self) -> int:
        return self.started
"""
ERAS = pytest.mark.parametrize("era", [MODERN, HANDSHAKE], ids=["modern", "handshake"])
DOORS = pytest.mark.parametrize("door", ["gate", "direct", "passthrough"])
PATHS = {"gate": "/mcp", "direct": "/mcp/direct", "passthrough": "/mcp/s/shop"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    data = tmp_path_factory.mktemp("shop") / "data"
    data.mkdir(mode=0o700)
    (data / "shop.py").write_text(PROVIDER)
    config = {"surfaces": ["gate", "direct", "passthrough"], "providers": {"shop": "shop:Shop"}}
    with gateway(data, config) as found:
        found.wait_for("shop")
        yield found


def params(door: str, tool: str, **arguments: Any) -> Message:
    if door == "gate":
        intent = {"operation_type": "write"}
        return {"name": "call_tool_write", "arguments": {"name": f"shop:{tool}", "args": arguments, "intent": intent}}
    return {"name": f"shop__{tool}" if door == "direct" else tool, "arguments": arguments}


@asynccontextmanager
async def client(
    running: Running, era: str, answer: Answer = silent, door: str = "gate", name: str = "peer",
    capabilities: Mapping[str, Any] = CAPABILITIES,
) -> AsyncIterator[Peer]:  # fmt: skip
    link = HttpLink(running.url + PATHS[door])
    async with connected(link, era, answer, capabilities=capabilities, name=name) as peer:
        yield peer


def saying(action: str = "accept", **content: Any) -> Answer:
    async def answer(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        assert method == "elicitation/create"
        return {"action": action, **({"content": content} if action == "accept" else {})}

    return answer


async def call(peer: Peer, tool: str, door: str = "gate", **arguments: Any) -> Message:
    return await peer.request("tools/call", params(door, tool, **arguments))


def rows(running: Running, word: str) -> list[dict[str, Any]]:
    return [row for row in running.activities(server="shop") if word in json.dumps(row["arguments"])]


@ERAS
@DOORS
@pytest.mark.parametrize(("action", "said"), [("accept", "removed"), ("decline", "kept"), ("cancel", "unanswered")])
async def test_the_person_is_asked_and_the_call_goes_on_with_the_answer(
    running: Running, era: str, door: str, action: str, said: str
) -> None:
    item = f"{era}-{door}-{action}"
    async with client(running, era, saying(action), door) as peer:
        assert text(await call(peer, "remove", door, item=item)) == f"{said} {item}"
        assert [params["message"] for _, params in peer.asked] == [f"Remove {item}?"]
    (row,) = rows(running, item)
    assert row["status"] == "success"


@ERAS
async def test_questions_one_after_the_other_and_side_by_side(running: Running, era: str) -> None:
    names = {"First name?": "Ada", "And after Ada?": "Lovelace", "Left?": "l", "Right?": "r"}

    async def answer(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"action": "accept", "content": {"name": names[params["message"]]}}

    async with client(running, era, answer) as peer:
        assert text(await call(peer, "interview")) == "Ada Lovelace"
        assert text(await call(peer, "both")) == "l and r"


async def test_many_clients_of_both_eras_at_once_are_each_asked_their_own_question(running: Running) -> None:
    def about(name: str) -> Answer:
        async def answer(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
            assert name in params["message"]
            return {"action": "accept" if name.endswith("0") else "decline", "content": {}}

        return answer

    async def shop(era: str, number: int) -> None:
        name = f"crowd-{era}-{number}"
        async with client(running, era, about(name), name=name) as peer, anyio.create_task_group() as tasks:
            for turn in range(3):
                tasks.start_soon(one, peer, f"{name}-{turn}{number}")

    async def one(peer: Peer, item: str) -> None:
        said = text(await call(peer, "remove", item=item))
        done.append(said)

    done: list[str] = []
    async with anyio.create_task_group() as clients:
        for era in (MODERN, HANDSHAKE):
            for number in range(2):
                clients.start_soon(shop, era, number)
    assert len(done) == 12
    assert {said.split()[0] for said in done if "-0-" in said} == {"removed"}
    assert {said.split()[0] for said in done if "-1-" in said} == {"kept"}


async def test_the_rounds_of_a_modern_call_are_one_ask_with_one_row(running: Running) -> None:
    async with client(running, MODERN) as peer:
        wanted = params("gate", "remove", item="one-row")
        first = await (await peer.begin("tools/call", wanted)).result()
        assert first["resultType"] == "input_required"
        assert [row["status"] for row in rows(running, "one-row")] == ["pending"]
        (key,) = first["inputRequests"]
        again = {**wanted, "inputResponses": {key: {"action": "accept", "content": {}}},
                 "requestState": first["requestState"]}  # fmt: skip
        assert text(await (await peer.begin("tools/call", again)).result()) == "removed one-row"
        assert [row["status"] for row in rows(running, "one-row")] == ["success"]


async def test_every_round_is_decided_again(running: Running) -> None:
    async with client(running, MODERN) as peer:
        wanted = params("gate", "remove", item="frozen-meanwhile")
        first = await (await peer.begin("tools/call", wanted)).result()
        (key,) = first["inputRequests"]
        again = {**wanted, "inputResponses": {key: {"action": "accept", "content": {}}},
                 "requestState": first["requestState"]}  # fmt: skip
        running.post("/freeze")
        try:
            told = await (await peer.begin("tools/call", again)).result()
        finally:
            running.post("/unfreeze")
        assert told["structuredContent"]["code"] == "FROZEN"


async def test_an_answer_counts_for_the_call_that_asked_and_for_no_other(running: Running) -> None:
    async with client(running, MODERN) as peer:
        mine, other = params("gate", "remove", item="cheap"), params("gate", "remove", item="dear")
        first = await (await peer.begin("tools/call", mine)).result()
        (key,) = first["inputRequests"]
        answers = {"inputResponses": {key: {"action": "accept", "content": {}}}}
        state = first["requestState"]
        for wanted, given in ((other, state), (mine, state[:-3] + "AAA")):
            with pytest.raises(RpcError):
                await (await peer.begin("tools/call", {**wanted, **answers, "requestState": given})).result()


@ERAS
async def test_a_client_that_cannot_be_asked_is_told_so(running: Running, era: str) -> None:
    async with client(running, era, capabilities={}) as peer:
        result = await call(peer, "remove", item="nobody-asked")
        assert result["isError"] is True
        assert "cannot be asked" in text(result)


@ERAS
async def test_a_provider_knows_who_was_let_in_with_the_call(running: Running, era: str) -> None:
    async with client(running, era, name="the-ide") as peer:
        assert text(await call(peer, "who")) == "local the-ide"


async def test_over_rest_the_caller_is_the_admin_who_cannot_be_asked(running: Running) -> None:
    def over_rest(tool: str, **args: Any) -> dict[str, Any]:
        body = {"variant": "write", "name": f"shop:{tool}", "args": args, "intent": {"operation_type": "write"}}
        return running.post("/call", body).json()["result"]

    assert text(over_rest("who")).startswith("admin ")
    assert "cannot be asked" in text(over_rest("remove", item="x"))
