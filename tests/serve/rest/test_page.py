"""Links to the page and its sessions: how long they last, from where, and how many there are (USE-2)."""

from __future__ import annotations

import time
from collections.abc import Mapping

import httpx
import pytest

from tests.serve.parts import ADDRESS, House

pytestmark = [pytest.mark.anyio, pytest.mark.proves("USE-2")]
HOUR = 3600.0


async def link(http: httpx.AsyncClient, **body: str) -> str:
    answer = await http.post("/api/v1/page/links", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["url"]


def browser(house: House, peer: str = "127.0.0.1") -> httpx.AsyncClient:
    transport = httpx.ASGITransport(house.app, client=(peer, 5))
    return httpx.AsyncClient(transport=transport, base_url=ADDRESS, headers={"sec-fetch-site": "same-origin"})


async def opened(there: httpx.AsyncClient, url: str) -> httpx.Response:
    address, _, code = url.partition("/ui#open=")
    answer = await there.post("/api/v1/page/open", json={"code": code}, headers={"origin": address})
    if answer.status_code == 200:
        there.headers["x-mcpproxy-page"] = answer.json()["page_token"]
        there.headers["cookie"] = answer.headers["set-cookie"].partition(";")[0]
    there.cookies.clear()
    return answer


async def asks(there: httpx.AsyncClient) -> int:
    return (await there.get("/api/v1/page/session")).status_code


def later(house: House, seconds: float) -> None:
    now = time.time() + seconds
    house.now = lambda: now


@pytest.mark.parametrize(("after", "status"), [(59, 200), (61, 401), (9 * HOUR, 401)])
async def test_a_link_lasts_a_minute(house: House, http: httpx.AsyncClient, after: float, status: int) -> None:
    url = await link(http)
    later(house, after)
    async with browser(house) as there:
        assert (await opened(there, url)).status_code == status


@pytest.mark.parametrize(("after", "status"), [(7.9 * HOUR, 200), (8.1 * HOUR, 401)])
async def test_a_session_lasts_eight_hours(house: House, http: httpx.AsyncClient, after: float, status: int) -> None:
    async with browser(house) as there:
        await opened(there, await link(http))
        assert await asks(there) == 200
        later(house, after)
        assert await asks(there) == status


@pytest.mark.parametrize("peer", ["192.0.2.1", "10.0.0.5", "::ffff:192.0.2.1", "fe80::1"])
async def test_a_link_without_an_address_opens_nothing_on_another_machine_and_neither_does_its_session(
    house: House, http: httpx.AsyncClient, peer: str
) -> None:
    url = await link(http)
    async with browser(house, peer) as there:
        answer = await opened(there, url)
        assert answer.status_code == 401 and "only on the machine" in answer.json()["error"]["message"]
        async with browser(house) as here:
            assert (await opened(here, url)).status_code == 200
            there.headers.update({name: here.headers[name] for name in ("cookie", "x-mcpproxy-page")})
            assert (await asks(here), await asks(there)) == (200, 401)


async def test_a_link_for_an_address_opens_for_whoever_comes_by_it(house: House, http: httpx.AsyncClient) -> None:
    url = await link(http, address=ADDRESS + "/")
    assert url.startswith(f"{ADDRESS}/ui#open=")
    async with browser(house, "192.0.2.1") as there:
        assert (await opened(there, url)).status_code == 200
        assert await asks(there) == 200


async def test_a_changed_key_ends_sessions_also_where_nobody_told(house: House, http: httpx.AsyncClient) -> None:
    async with browser(house) as there:
        url = await link(http)
        await opened(there, await link(http))
        house.desk.key = "mcpk_another"
        assert await asks(there) == 401
        assert (await opened(there, url)).status_code == 401


async def test_places_are_used_again_and_there_are_only_so_many(house: House, http: httpx.AsyncClient) -> None:
    for _ in range(64):
        await link(http)
    full = await http.post("/api/v1/page/links", json={})
    assert full.status_code == 409 and "--logout" in full.json()["error"]["details"]["remedy"]
    later(house, 61)
    await link(http)
    assert (await http.delete("/api/v1/page/sessions")).json() == {"ended": 0}


async def test_acts_of_the_page_are_on_record_as_such(house: House, http: httpx.AsyncClient) -> None:
    async with browser(house) as there:
        await opened(there, await link(http))
        said: Mapping[str, str] = {"x-mcpproxy-client": "cli/1", "origin": ADDRESS}
        assert (await there.delete("/api/v1/page/session", headers=said)).json() == {"ended": 1}
        assert await asks(there) == 401
    action, details, by = house.desk.changes[-1]
    assert (action, by.principal, by.client.name) == ("end_page", "admin", "ui")
    assert details["page"]
