"""One server's login over time: clocks that are wrong, stores and servers that fail, many who need it at once."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from mcpproxy_py.core.oauth.addresses import AddressRules
from mcpproxy_py.core.oauth.errors import OAuthRefused, OAuthUnreachable
from mcpproxy_py.core.oauth.options import OAuthOptions
from mcpproxy_py.core.oauth.values import AuthorizationServer, HttpWanted, OAuthClient, OAuthTokens, StoredLogin
from mcpproxy_py.errors import StoreUnavailable, UpstreamFailure
from mcpproxy_py.upstream.oauth.auth import LoginRequired
from mcpproxy_py.upstream.oauth.exchange import OAuthHttp
from mcpproxy_py.upstream.oauth.runner import FlowRunner
from mcpproxy_py.upstream.oauth.server_login import ServerLogin
from mcpproxy_py.upstream.transports.http_clients import HttpClients
from tests.support.authserver import Asked, Site, as_json, site

pytestmark = [pytest.mark.anyio, pytest.mark.proves("UP-9")]

HOUR = 3600.0


class Shelf:
    """As the store, in memory."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[dict[str, Any], int]] = {}
        self.claimed: set[tuple[str, int]] = set()
        self.fails = False

    def _check(self) -> None:
        if self.fails:
            raise StoreUnavailable("the disk is full.")

    async def load(self, upstream: str) -> tuple[Mapping[str, Any], int] | None:
        self._check()
        return self.rows.get(upstream)

    async def save(self, upstream: str, issuer: str, data: Mapping[str, Any]) -> int:
        self._check()
        version = self.rows.get(upstream, ({}, 0))[1] + 1
        self.rows[upstream] = (json.loads(json.dumps(data)), version)
        return version

    async def claim(self, upstream: str, issuer: str, version: int, seconds: float) -> bool:
        self._check()
        free = self.rows.get(upstream, ({}, 0))[1] == version and (upstream, version) not in self.claimed
        if free:
            self.claimed.add((upstream, version))
        return free

    async def release(self, upstream: str, issuer: str) -> None:
        self.claimed.clear()

    async def drop(self, upstream: str) -> None:
        self.rows.pop(upstream, None)


class World:
    """An authorization server that only refreshes, a clock that can be set, a store."""

    def __init__(self, issuer: Site) -> None:
        self.issuer = issuer
        self.now = 1_000_000.0
        self.shelf = Shelf()
        self.lives: float | None = HOUR

    def tokens(self, **said: Any) -> OAuthTokens:
        return OAuthTokens(**{"access": "access-0", "obtained_at": self.now, "refresh": "refresh-0",
                              "expires_at": self.now + HOUR, **said})  # fmt: skip

    async def login(self, tokens: OAuthTokens | None = None, url: str = "http://127.0.0.1:1/mcp") -> ServerLogin:
        at = self.issuer.url
        kept = StoredLogin("http://127.0.0.1:1/mcp", at, AuthorizationServer(at, f"{at}/token"),
                           OAuthClient("me", "registered"), tokens=tokens or self.tokens())  # fmt: skip
        if "s" not in self.shelf.rows:
            await self.shelf.save("s", at, kept.as_json())
        found = ServerLogin("s", url, OAuthOptions(), FlowRunner(self.shelf, lambda: self.now))
        await found.prepare()
        return found


async def eventually(is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 (a task of somebody else's tells nobody)
            await asyncio.sleep(0.01)


@pytest.fixture
def world() -> Iterator[World]:
    def answers(asked: Asked) -> Any:
        time.sleep(0.05)
        return as_json({"access_token": f"access-{len(found.issuer.asked)}", "expires_in": found.lives})

    with site(answers) as issuer:
        found = World(issuer)
        yield found


async def test_a_laptop_that_slept_renews_before_it_sends_anything(world: World) -> None:
    login = await world.login()
    assert login.headers == {"authorization": "Bearer access-0"}
    assert login.until > world.now
    world.now += 8 * HOUR
    assert login.until <= world.now, "so that whoever sends looks first"
    await login.prepare()
    assert login.headers == {"authorization": "Bearer access-1"}
    assert login.until > world.now


@pytest.mark.parametrize("wrong", [-HOUR, HOUR])
async def test_a_clock_that_is_an_hour_off_costs_a_renewal_and_nothing_else(world: World, wrong: float) -> None:
    login = await world.login()
    world.now += wrong
    if login.until <= world.now:
        await login.prepare()
    else:
        assert await login.challenged(401, "Bearer", login.version, again=False), "the server knows better"
    assert login.headers == {"authorization": "Bearer access-1"}


async def test_a_token_that_is_about_to_end_is_used_while_it_is_renewed(world: World) -> None:
    login = await world.login()
    world.now += HOUR - 30
    await login.prepare()
    assert login.headers == {"authorization": "Bearer access-0"}, "nobody waited"
    await eventually(lambda: login.headers["authorization"] == "Bearer access-1")


async def test_of_many_who_need_it_one_renews_it_and_those_who_leave_do_not_end_it(world: World) -> None:
    login = await world.login()
    version = login.version
    waiting = [asyncio.ensure_future(login.challenged(401, "", version, again=False)) for _ in range(64)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert done[1:] == [True] * 63
    assert len(world.issuer.asked) == 1


async def test_of_two_processes_one_renews_and_the_other_takes_what_came(world: World) -> None:
    one, two = await world.login(), await world.login()
    world.now += 2 * HOUR
    await asyncio.gather(one.prepare(), two.prepare())
    assert one.headers == two.headers == {"authorization": "Bearer access-1"}
    assert len(world.issuer.asked) == 1


async def test_a_store_that_fails_for_a_while_loses_no_refresh_token(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpproxy_py.upstream.oauth.server_login.PAUSE", 0.02)
    login = await world.login()
    kept = login.stored
    assert kept is not None
    world.shelf.fails = True
    with pytest.raises(UpstreamFailure, match="cannot be read or written"):
        await login.challenged(401, "", login.version, again=False)
    assert login.stored == kept
    await login.keep(replace(kept, tokens=world.tokens(access="access-9", refresh="refresh-9")))
    assert login.headers == {"authorization": "Bearer access-9"}, "it is used meanwhile"
    world.shelf.fails = False
    await eventually(lambda: world.shelf.rows["s"][0]["tokens"]["refresh"] == "refresh-9")


async def test_what_is_kept_for_one_address_is_not_used_for_another(world: World) -> None:
    moved = await world.login(url="http://127.0.0.1:2/mcp")
    assert moved.headers == {}
    assert world.shelf.rows["s"]


async def test_a_token_without_an_end_is_used_until_it_is_refused(world: World) -> None:
    login = await world.login(world.tokens(expires_at=None))
    world.now += 1000 * HOUR
    await login.prepare()
    assert world.issuer.asked == []
    assert await login.challenged(401, "", login.version, again=False)


@pytest.mark.parametrize("state", ["discovering", "registering", "waiting", "exchanging"])
async def test_a_token_is_renewed_also_while_a_person_logs_in_for_more(world: World, state: Any) -> None:
    login = await world.login()
    login.progress.state = state
    with pytest.raises(LoginRequired, match="one more permission"):
        await login.challenged(403, 'Bearer error="insufficient_scope", scope="w"', login.version, again=False)
    assert await login.challenged(401, "", login.version, again=False)
    assert login.headers == {"authorization": "Bearer access-1"}
    assert login.progress.state in (state, "valid")


async def test_who_was_turned_away_with_an_older_token_just_tries_the_newer_one(world: World) -> None:
    login = await world.login()
    old = login.version
    assert await login.challenged(401, "", old, again=False)
    assert await login.challenged(401, "", old, again=False)
    assert len(world.issuer.asked) == 1


async def test_a_new_token_that_is_refused_as_well_ends_in_a_question_to_a_person(world: World) -> None:
    login = await world.login()
    assert await login.challenged(401, "", login.version, again=False)
    with pytest.raises(LoginRequired, match="mcpproxy upstream login s"):
        await login.challenged(401, "", login.version, again=True)
    assert login.headers == {}


async def test_what_another_gateway_got_or_dropped_is_noticed(world: World) -> None:
    login = await world.login()
    kept = login.stored
    assert kept is not None
    await world.shelf.save("s", kept.issuer, replace(kept, tokens=world.tokens(access="access-7")).as_json())
    login.look_again()
    await eventually(lambda: login.headers.get("authorization") == "Bearer access-7")
    await world.shelf.drop("s")
    login.look_again()
    await eventually(lambda: not (login.headers))


async def test_a_server_that_is_slow_or_sends_without_end_is_given_up() -> None:
    def slow(asked: Asked) -> Any:
        time.sleep(1)
        return as_json({})

    rules = AddressRules("http://127.0.0.1/mcp", "loopback")
    with site(slow) as found, pytest.raises(OAuthUnreachable, match="took longer than"):
        await OAuthHttp(HttpClients(), timeout=0.2).send(HttpWanted("GET", found.url, "it"), rules)
    with pytest.raises(OAuthUnreachable, match="cannot be had"):
        await OAuthHttp(HttpClients()).send(HttpWanted("GET", "http://127.0.0.1:1/", "it"), rules)


async def test_where_a_name_led_to_is_looked_at_before_anything_is_written() -> None:
    """`localhost` stands for a name in the DNS that leads to us; only literal addresses are told by the rules."""
    with site(lambda asked: as_json({})) as found:
        public = AddressRules("https://mcp.example/mcp", "public")
        with pytest.raises(OAuthRefused, match="in a network that the server is not in"):
            await OAuthHttp(HttpClients()).send(HttpWanted("POST", found.url, "it", form={"a": "secret"}), public)
        assert found.asked == []
