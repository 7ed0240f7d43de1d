"""Tokens while time goes by, clocks are set, and another gateway changes them (SEC-2)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from mcpproxy_py.core.policy.scope import NOTHING_IN_SCOPE, Scope
from mcpproxy_py.core.policy.token_terms import TokenTerms, rate_of
from mcpproxy_py.core.values import Caller, ClientInfo
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.gateway.access import token_records
from mcpproxy_py.gateway.access.rates import RateLimits
from mcpproxy_py.gateway.access.tokens import TokenService
from mcpproxy_py.store.sealed_records import RecordConflict, SealedRecord, SealedRecords, UnbelievedRecord

pytestmark = [pytest.mark.proves("SEC-2"), pytest.mark.anyio]
BY = Caller("admin", "cli", ClientInfo())
NOW = 1_800_000_000.0


class FakeUses:
    async def read(self, kind: str) -> Mapping[str, float]:
        return {}

    async def note(self, kind: str, uses: Mapping[str, float]) -> None:
        return None


class FakeStore:
    """Sealed records without a database."""

    shared = False
    last_uses = FakeUses()

    def __init__(self) -> None:
        self.rows: dict[str, SealedRecord] = {}
        self.unbelieved: dict[str, UnbelievedRecord] = {}
        self.beat_to_it = False

    def on_event(self, listener: Callable[[str, Any], None]) -> Callable[[], None]:
        return lambda: None

    async def sealed_records(self, kind: str) -> SealedRecords:
        rows = {name: row for name, row in self.rows.items() if name not in self.unbelieved}
        return SealedRecords(rows, dict(self.unbelieved))

    async def sealed_record(self, kind: str, name: str) -> SealedRecord | UnbelievedRecord | None:
        return self.unbelieved.get(name) or self.rows.get(name)

    async def put_sealed_record(
        self, kind: str, name: str, value: Any, *, expected: int | None = None, details: Mapping[str, Any] | None = None
    ) -> SealedRecord:
        there = self.rows[name].version if name in self.rows else 0
        if self.beat_to_it or expected != there:
            raise RecordConflict(kind, name, there)
        self.unbelieved.pop(name, None)
        self.rows[name] = SealedRecord(name, value, there + 1, NOW)
        return self.rows[name]


class Site:
    """A service, and hands on both clocks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.steady = NOW, 1000.0
        self.store = FakeStore()
        self.ended: list[str] = []
        self.profiles: dict[str, Scope] = {}
        self.rates = RateLimits(lambda who, share: None, lambda: self.steady)
        monkeypatch.setattr(token_records.TokenDeadlines.__init__, "__defaults__", (lambda: self.steady,))

        async def on_record(
            action: str, subject: str | None, by: Caller, details: Mapping[str, Any], act: Callable[[], Awaitable[Any]]
        ) -> Any:
            return await act()

        self.service = TokenService(
            self.store, on_record, profile_scope=lambda name: self.profiles.get(name, NOTHING_IN_SCOPE),
            server_names=lambda: {"hub"}, on_rates=self.rates.use, on_end=self.ended.append, clock=lambda: self.wall,
        )  # fmt: skip

    def pass_time(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds
        self.service._end_expired()

    async def made(self, name: str = "ci", **terms: Any) -> str:
        return (await self.service.create(name, TokenTerms(**terms), BY))["token"]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


async def test_it_ends_at_its_time_and_what_goes_on_with_it(site: Site) -> None:
    secret = await site.made(expires=NOW + 60)
    access = site.service.find(secret)
    assert access is not None and access.scope is None
    site.pass_time(59)
    assert site.service.find(secret) is access and site.ended == []
    site.pass_time(1)
    assert site.service.find(secret) is None
    assert access.scope is NOTHING_IN_SCOPE, "what it began before ends too"
    assert site.ended == ["agent:ci"]
    assert (site.service.show("ci")["state"], site.service.counts()["expired"]) == ("expired", 1)
    site.pass_time(1)
    assert site.ended == ["agent:ci"], "told once"


async def test_a_clock_that_is_set_back_revives_nothing_and_gives_no_time(site: Site) -> None:
    expired, running = await site.made("expired", expires=NOW + 60), await site.made("running", expires=NOW + 600)
    site.pass_time(60)
    site.wall -= 86400
    await site.service.reload()
    assert site.service.find(expired) is None
    assert site.service.find(running) is not None
    site.pass_time(539)
    assert site.service.find(running) is not None
    site.pass_time(1)
    assert site.service.find(running) is None, "ten minutes are over, whatever the clock says"


async def test_a_clock_that_is_set_forward_ends_what_is_over_by_it_for_good(site: Site) -> None:
    secret = await site.made(expires=NOW + 60)
    site.wall += 3600
    assert site.service.find(secret) is None
    site.wall -= 3600
    assert site.service.find(secret) is None


async def test_an_old_secret_lives_for_its_grace_with_the_same_access(site: Site) -> None:
    first = await site.made()
    access = site.service.find(first)
    second = (await site.service.rotate("ci", 60, None, BY))["token"]
    assert site.service.find(first) is access is site.service.find(second)
    site.pass_time(60)
    assert (site.service.find(first), site.service.find(second)) == (None, access)
    third = (await site.service.rotate("ci", 0, NOW + 900, BY))["token"]
    assert [site.service.find(each) for each in (first, second, third)] == [None, None, access]
    assert site.ended == [], "who it is stays"
    assert site.service.show("ci")["expires_at"] is not None


async def test_what_was_found_once_holds_until_anything_of_the_token_changes(site: Site) -> None:
    """What the guard asks with each request whose head it knows."""
    first = await site.made(expires=NOW + 600)
    known = site.service.admission(first)
    assert known is not None and known.access is site.service.find(first)
    site.pass_time(1)
    assert known.holds() and site.service.show("ci")["last_used_at"] == "2027-01-15T08:00:01Z"
    await site.service.reload()
    assert known.holds(), "nothing has changed"
    second = (await site.service.rotate("ci", 60, None, BY))["token"]
    assert not known.holds(), "it is looked up again"
    assert site.service.admission(first) is None, "and each time, since the old secret has an end of its own"
    known = site.service.admission(second)
    assert known is not None and known.holds()
    site.pass_time(599)
    assert not known.holds()
    site.wall -= 86400
    assert not known.holds(), "over is over"
    again = site.service.admission(secret := await site.made())
    assert again is not None and again.holds() and not known.holds()
    await site.service.revoke("ci", BY)
    assert not again.holds() and site.service.admission(secret) is None
    assert site.service.admission("made up") is None


async def test_a_scope_is_only_taken_for_settled_while_nothing_can_change_it_unheard(site: Site) -> None:
    """A call then looks for its snapshot by the key alone, so what is not there any more must not be found by it."""
    secret = await site.made(servers=("hub",))
    access = site.service.find(secret)
    assert access is not None and access.scope is not None and access.settled == access.scope.key
    await site.service.rotate("ci", 60, NOW + 600, BY)
    assert access.settled is None, "it has an end now"
    await site.service.revoke("ci", BY)
    assert (access.settled, access.scope) == (None, NOTHING_IN_SCOPE)

    taken = site.service.find(await site.made("other", servers=("hub",)))
    assert taken is not None and taken.settled is not None
    site.store.unbelieved["other"] = UnbelievedRecord("other", "changed", 1)
    await site.service.reload()
    assert taken.settled is None
    site.profiles["frontend"] = Scope(servers=(("hub",),))
    for terms in ({}, {"expires": NOW + 60, "servers": ("hub",)}, {"profile": "frontend", "servers": ("hub",)}):
        found = site.service.find(await site.made(f"t{len(terms)}{'profile' in terms}", **terms))
        assert found is not None and found.settled is None and found.within(lambda: None).settled is None


async def test_a_name_that_is_used_again_is_somebody_else(site: Site) -> None:
    first = await site.made()
    access = site.service.find(first)
    with pytest.raises(GatewayError, match="There is a token 'ci'"):
        await site.made()
    await site.service.revoke("ci", BY)
    assert site.ended == ["agent:ci"]
    again = site.service.find(await site.made())
    assert again is not None and access is not None
    assert (again.principal, again.scope, access.scope) == ("agent:ci/2", None, NOTHING_IN_SCOPE)
    assert site.service.find(first) is None


async def test_what_is_not_believed_opens_nothing_and_ends(site: Site) -> None:
    secret = await site.made()
    access = site.service.find(secret)
    for why in ("changed", "put back", "missing"):
        site.store.unbelieved["ci"] = UnbelievedRecord("ci", why, 1)  # pyright: ignore[reportArgumentType]
        await site.service.reload()
        assert site.service.find(secret) is None
        assert site.service.show("ci") == {"name": "ci", "state": "not believed", "why": why}
    assert access is not None and access.scope is NOTHING_IN_SCOPE
    assert (site.ended, site.service.any, site.service.counts()["not_believed"]) == (["agent:ci"], True, 1)
    with pytest.raises(GatewayError, match="not believed"):
        await site.service.rotate("ci", 0, None, BY)
    await site.service.revoke("ci", BY)
    assert site.service.show("ci")["state"] == "revoked"


async def test_one_of_another_version_opens_nothing_and_keeps_nobody_else_out(site: Site) -> None:
    secret = await site.made("good")
    site.store.rows["odd"] = SealedRecord("odd", {"serial": "x"}, 1, NOW)
    site.store.rows["list"] = SealedRecord("list", [], 1, NOW)
    await site.service.reload()
    assert site.service.find(secret) is not None
    assert [row["name"] for row in site.service.list()] == ["good"]


async def test_who_was_first_elsewhere_is_told(site: Site) -> None:
    await site.made()
    site.store.beat_to_it = True
    for change in (site.service.revoke("ci", BY), site.service.rotate("ci", 0, None, BY), site.made("other")):
        with pytest.raises(GatewayError, match="changed meanwhile") as refused:
            await change
        assert refused.value.code is Code.CONFLICT


async def test_a_profile_and_its_own_terms_are_both_in_force(site: Site) -> None:
    with pytest.raises(GatewayError, match="no profile 'frontend'"):
        await site.made(profile="frontend")
    site.profiles["frontend"] = Scope(servers=(("hub", "web"),), strict=True)
    access = site.service.find(await site.made(profile="frontend", servers=("web",)))
    assert access is not None
    scope = access.scope
    assert scope is not None and scope is access.scope, "the same object while nothing changes"
    assert (scope.has_server("web"), scope.has_server("hub"), scope.strict) == (True, False, True)
    del site.profiles["frontend"]
    gone = access.scope
    assert gone is not None and not gone.has_server("web"), "a profile that is gone leaves nothing in scope"


async def test_a_server_that_is_not_there_is_told_and_no_error(site: Site) -> None:
    made = await site.service.create("ci", TokenTerms(servers=("hub", "gone")), BY)
    assert made["warnings"] == ["There is no server 'gone' now"]


@pytest.mark.parametrize("given", ["", "mcpp_", "mcpp_x", "x" * 10_000, "mcpp_\udcff", "Bearer", "mcpp_" + "é" * 9])
async def test_what_is_no_token_finds_nobody(site: Site, given: str) -> None:
    await site.made()
    assert site.service.find(given) is None


async def test_asks_are_counted_by_a_bucket_that_fills_again(site: Site) -> None:
    await site.made(rate=rate_of("2/m"))
    refusals = [site.rates.refusal("agent:ci", "t") for _ in range(3)]
    assert refusals[:2] == [None, None]
    refused = refusals[2]
    assert refused is not None
    assert (refused.code, refused.rule, refused.details["retry_after_seconds"]) == (Code.OVERLOADED, "rate", 30)
    assert site.rates.refusal("agent:other", "t") is None
    await site.service.reload()
    assert site.rates.refusal("agent:ci", "t") is not None, "reading again fills nothing"
    site.steady += 30
    assert [site.rates.refusal("agent:ci", "t") is None for _ in range(2)] == [True, False]
    site.steady += 86400
    assert [site.rates.refusal("agent:ci", "t") is None for _ in range(3)] == [True, True, False]
    await site.service.revoke("ci", BY)
