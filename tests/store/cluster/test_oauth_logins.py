"""Logins as they are kept: unreadable without the key, renewed by one gateway at a time (UP-9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import select, text, update

from mcpproxy_py.errors import Code, GatewayError, StoreUnavailable
from mcpproxy_py.store.cluster.oauth_logins import CHANGED, LoginCipher, OAuthLogins
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.tables import oauth_logins

pytestmark = [pytest.mark.anyio, pytest.mark.proves("UP-9")]

AS = "https://as.example"
DATA = {"tokens": {"refresh": "hunter2-refresh", "access": "hunter2-access"}}


async def here(work: Callable[[], Any], patience: float | None = None) -> Any:
    return work()


def logins(database: Database, *keys: bytes, told: list[Any] | None = None) -> OAuthLogins:
    """Of one more gateway."""
    heard = told if told is not None else []
    return OAuthLogins(database, here, lambda kind, name: heard.append((kind, name)), lambda: keys or (b"key",))


async def test_what_is_saved_last_is_read_and_everybody_is_told(database: Database) -> None:
    told: list[Any] = []
    one, two = logins(database, told=told), logins(database)
    assert await one.load("s") is None
    assert await one.save("s", AS, {"n": 1}) == 1
    assert await two.save("s", "https://new.example", {"n": 2}) == 2
    assert await one.load("s") == ({"n": 2}, 2)
    assert await one.save("s", AS, {"n": 3}) == 3
    assert await two.load("s") == ({"n": 3}, 3)
    assert await two.load("other") is None
    await one.drop("s")
    assert await two.load("s") is None
    assert told == [(CHANGED, "s")] * 3


async def test_of_many_one_may_renew_until_it_did_or_has_had_its_time(database: Database) -> None:
    version = await logins(database).save("s", AS, DATA)
    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(lambda _: logins(database)._claim("s", AS, version, 60), range(16)))
    assert sorted(won) == [False] * 15 + [True]
    await logins(database).release("s", AS)
    assert await logins(database).claim("s", AS, version, -1)
    assert await logins(database).claim("s", AS, version, 60), "whoever had it is gone"
    assert not await logins(database).claim("s", AS, version + 1, 60)
    renewed = await logins(database).save("s", AS, DATA)
    assert not await logins(database).claim("s", AS, version, 60)
    assert await logins(database).claim("s", AS, renewed, 60)


async def test_without_its_key_it_is_not_read_and_with_one_of_many_it_is(database: Database) -> None:
    await logins(database, b"first").save("s", AS, DATA)
    with database.reading() as connection:
        assert "hunter2" not in str(connection.execute(select(oauth_logins)).all())
    assert await logins(database, b"other").load("s") is None
    assert await logins(database, b"new", b"first").load("s") == (DATA, 1)


async def test_a_row_in_the_place_of_another_or_changed_is_not_read(database: Database) -> None:
    shelf = logins(database)
    await shelf.save("s", AS, DATA)
    await shelf.save("t", AS, {"n": 1})
    with database.writing() as connection:
        value = connection.execute(select(oauth_logins.c.value).where(oauth_logins.c.upstream == "s")).scalar_one()
        connection.execute(update(oauth_logins).where(oauth_logins.c.upstream == "t").values(value=value))
        connection.execute(update(oauth_logins).where(oauth_logins.c.upstream == "s").values(issuer="https://evil"))
    assert await shelf.load("t") is None
    assert await shelf.load("s") is None
    for nonsense in ("", "x", "x y", "\u2713 \u2713", value[:-4]):
        with database.writing() as connection:
            connection.execute(update(oauth_logins).values(value=nonsense))
        assert await shelf.load("s") is None


def test_the_same_is_never_encrypted_the_same() -> None:
    cipher = LoginCipher([b"key"])
    assert cipher.encrypt(b"x", "s") != cipher.encrypt(b"x", "s")
    assert cipher.decrypt(cipher.encrypt(b"x", "s"), "s") == b"x"
    assert cipher.decrypt(cipher.encrypt(b"x", "s"), "t") is None


async def test_a_key_or_a_database_that_is_not_there_is_said(database: Database) -> None:
    def no_key() -> Sequence[bytes]:
        raise GatewayError(Code.CONFIG_INVALID, "the keyring is locked")

    with pytest.raises(StoreUnavailable, match="locked"):
        await OAuthLogins(database, here, lambda kind, name: None, no_key).save("s", AS, DATA)
    with database.writing() as connection:
        connection.execute(text("DROP TABLE oauth_logins"))
    with pytest.raises(StoreUnavailable):
        await logins(database).save("s", AS, DATA)
