"""What happens, live, over a real connection: from now on, from where a client was, and hung up at any time (ACT-3)."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from mcpproxy_py.serve.rest.routes import activity
from tests.serve.parts import PATIENCE, House
from tests.serve.rest.test_approvals import filed
from tests.serve.rest.test_over_the_wire import through
from tests.serve.rest.test_rest import call, error_of
from tests.support.serving import serving

pytestmark = [pytest.mark.anyio, pytest.mark.proves("ACT-3")]


@pytest.fixture
async def client(house: House) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(house.guard) as port, through(port) as http:
        yield http


@asynccontextmanager
async def listening(
    http: httpx.AsyncClient, query: str = "", **headers: str
) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    async with http.stream("GET", f"/api/v1/events{query}", headers=headers) as response:
        assert response.headers["content-type"].startswith("text/event-stream"), await response.aread()
        yield events_of(response)


async def events_of(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    event: dict[str, Any] = {}
    async for line in response.aiter_lines():
        if line.startswith(("id:", "event:", "data:")):
            name, _, value = line.partition(": ")
            event[name] = json.loads(value) if name == "data" else value
        elif not line and event:
            yield event
            event = {}


async def some(source: AsyncIterator[dict[str, Any]], many: int) -> list[dict[str, Any]]:
    with anyio.fail_after(PATIENCE):
        return [await anext(source) for _ in range(many)]


async def test_who_listens_hears_of_every_ask_and_of_its_end(client: httpx.AsyncClient) -> None:
    await call(client, "notes:read_note")
    async with listening(client) as source:
        (hello,) = await some(source, 1)
        assert (hello["event"], hello["data"]) == ("hello", None)
        done = (await call(client, "notes:create_note", "write")).json()
        heard = await some(source, 2)
    assert [event["event"] for event in heard] == ["asked", "finished"]
    assert {event["data"]["id"] for event in heard} == {done["id"]}
    assert heard[1]["data"]["status"] == "success"
    assert heard[1]["data"]["metadata"]["tool_variant"] == "call_tool_write"


@pytest.mark.proves("USE-2")
async def test_who_wants_little_is_told_everything_but_the_payloads(client: httpx.AsyncClient) -> None:
    async with listening(client, "?brief=true") as short, listening(client) as whole:
        await some(short, 1)
        await some(whole, 1)
        await call(client, "notes:read_note", args={"text": "hello"})
        for event, other in zip(await some(short, 2), await some(whole, 2), strict=True):
            assert (event["event"], event["id"]) == (other["event"], other["id"])
            assert other["data"]["arguments"] == {"text": "hello"}
            assert event["data"] == {**other["data"], "arguments": None, "response": None}
        await client.get("/api/v1/tools/search", params={"query": "note"})
        searched = (await some(short, 2))[1]["data"]
    assert (searched["type"], searched["arguments"]["query"], searched["response"]) == ("tool_search", "note", None)
    error_of(await client.get("/api/v1/events?brief=perhaps"), "BAD_REQUEST")


@pytest.mark.proves("USE-2")
async def test_many_who_listen_all_hear_the_same(client: httpx.AsyncClient) -> None:
    async with AsyncExitStack() as stack:
        sources = [await stack.enter_async_context(listening(client)) for _ in range(5)]
        for source in sources:
            await some(source, 1)
        ids = [(await call(client, "notes:read_note")).json()["id"] for _ in range(20)]
        heard = [[event["data"]["id"] for event in await some(source, 40)] for source in sources]
    assert heard == [[row_id for row_id in ids for _ in range(2)]] * 5


async def test_who_comes_back_gets_what_happened_meanwhile_and_nothing_twice(client: httpx.AsyncClient) -> None:
    async with listening(client) as source:
        first = (await some(source, 1))[0]["id"]
    ids = [(await call(client, "notes:read_note")).json()["id"] for _ in range(5)]
    async with listening(client, **{"Last-Event-ID": first}) as source:
        heard = (await some(source, 5))[1:]  # the first says hello
    async with listening(client, **{"Last-Event-ID": heard[-1]["id"]}) as source:
        heard += (await some(source, 7))[1:]
    assert [event["data"]["id"] for event in heard] == [row_id for row_id in ids for _ in range(2)]


async def test_the_place_can_be_told_in_the_address_too(client: httpx.AsyncClient) -> None:
    async with listening(client) as source:
        first = (await some(source, 1))[0]["id"]
    await call(client, "notes:read_note")
    async with client.stream("GET", "/api/v1/events", params={"after": first}) as response:
        assert [event["event"] for event in await some(events_of(response), 3)] == ["hello", "asked", "finished"]


@pytest.mark.parametrize("given", ["x", "1", "1:2:3", "1:-5", "1:5,", " 1:5", "1:5,1:6", f"1:{9**30}", "１:5"])
async def test_a_place_that_was_never_given_out_is_refused(client: httpx.AsyncClient, given: str) -> None:
    response = await client.get("/api/v1/events", params={"after": given})
    assert "not an event id" in error_of(response, "BAD_REQUEST")["message"]


async def test_listeners_that_hang_up_leave_nothing_behind(client: httpx.AsyncClient, house: House) -> None:
    for _ in range(20):
        async with listening(client) as source:
            await some(source, 1)
    with anyio.fail_after(PATIENCE):
        while activity._Seats.taken:  # noqa: ASYNC110
            await anyio.sleep(0.02)
    assert house.store._event_bus._listeners == []
    assert house.store._database.readers.pool.checkedout() == 0  # type: ignore[attr-defined]


async def test_there_are_only_so_many_seats(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "MOST", 1)
    async with listening(client) as source:
        await some(source, 1)
        error_of(await client.get("/api/v1/events"), "OVERLOADED")


async def test_an_export_that_is_hung_up_leaves_no_reading_open(client: httpx.AsyncClient, house: House) -> None:
    text = "x" * 20_000
    for number in range(300):
        house.store.append({"kind": "asked", "id": f"{number:04}", "at": 5.0 + number, "tool": "t", "arguments": text})
    assert await house.store.caught_up()
    for _ in range(5):
        async with client.stream("GET", "/api/v1/activity/export") as response:
            await anext(response.aiter_bytes())
    with anyio.fail_after(PATIENCE):
        while house.store._database.readers.pool.checkedout():  # type: ignore[attr-defined]  # noqa: ASYNC110
            await anyio.sleep(0.02)
    assert len((await client.get("/api/v1/activity/export")).text.splitlines()) == 300


@pytest.mark.proves("CAT-7")
async def test_who_listens_hears_of_requests_filed_decided_and_run_out(client: httpx.AsyncClient, house: House) -> None:
    async with listening(client) as source:
        await some(source, 1)
        yes, late = await filed(client, "yes"), await filed(client, "late")
        await client.post(f"/api/v1/approvals/{yes}/approve", json={})
        house.now = lambda: time.time() + 4 * 86_400
        await client.get("/api/v1/approvals")
        with anyio.fail_after(PATIENCE):
            heard = [told async for told in about_requests(source, 4)]
    assert [told["data"]["approval_id"] for told in heard] == [yes, late, yes, late]
    assert (heard[2]["data"]["status"], heard[3]["data"]["status"]) == ("approved", "expired")
    shown = (await client.get(f"/api/v1/approvals/{yes}")).json()
    assert {**heard[2]["data"], "connect_command": shown["connect_command"]} == shown


@pytest.mark.proves("CAT-7")
async def test_asking_again_for_what_waits_already_is_no_news(client: httpx.AsyncClient) -> None:
    await filed(client, "once")
    async with listening(client) as source:
        await some(source, 1)
        await filed(client, "once")
        await filed(client, "twice")
        with anyio.fail_after(PATIENCE):
            (heard,) = [told async for told in about_requests(source, 1)]
    assert heard["data"]["context"]["mcp_name"] == "twice"


async def about_requests(source: AsyncIterator[dict[str, Any]], many: int) -> AsyncIterator[dict[str, Any]]:
    while many:
        if (told := await anext(source))["event"] == "approval":
            many -= 1
            yield told
