"""Logins at servers as they are kept: encrypted, and renewed by one gateway at a time.

What is in a row can be read with a key that is not in the database. It is bound to the server and the authorization
server it is for, so a row that somebody puts in the place of another is worth nothing.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import Connection, delete, func, insert, select, update

from mcpproxy_py.errors import GatewayError, StoreUnavailable
from mcpproxy_py.store.codec import decode, encode
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.tables import oauth_logins as logins

log = logging.getLogger(__name__)
T = TypeVar("T")

CHANGED: Final = "oauth_login"
"""What everybody is told, with the name of the server."""
_PURPOSE: Final = b"mcpproxy logins at servers, 1"
_NONCE: Final = 12
Keys = Callable[[], Sequence[bytes]]
"""The first encrypts, all decrypt. Asked in a thread, when there is something to encrypt or to read."""


class InThread(Protocol):
    def __call__(self, work: Callable[[], T], patience: float | None = None) -> Any: ...


class LoginCipher:
    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = [hmac.digest(key, _PURPOSE, "sha256") for key in keys]

    def encrypt(self, text: bytes, *bound: str) -> str:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = secrets.token_bytes(_NONCE)
        sealed = AESGCM(self._keys[0]).encrypt(nonce, text, _bound(bound))
        return f"{_key_id(self._keys[0])} {base64.b64encode(nonce + sealed).decode()}"

    def decrypt(self, value: str, *bound: str) -> bytes | None:
        """`None` for what none of the keys reads."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key_id, _, text = value.partition(" ")
        try:
            sealed = base64.b64decode(text, validate=True)
            for key in self._keys:
                if _key_id(key) == key_id:
                    return AESGCM(key).decrypt(sealed[:_NONCE], sealed[_NONCE:], _bound(bound))
        except (InvalidTag, ValueError):
            return None
        return None


def _key_id(key: bytes) -> str:
    return hashlib.sha256(b"id of" + key).hexdigest()[:16]


def _bound(parts: Sequence[str]) -> bytes:
    return encode(list(parts))


class OAuthLogins:
    """As `upstream.oauth.auth.LoginStore` says. All raise `StoreUnavailable`."""

    def __init__(
        self, database: Database, in_thread: InThread, announce: Callable[[str, Any], None], keys: Keys
    ) -> None:
        self._database = database
        self._in_thread = in_thread
        self._announce = announce
        self._keys = keys
        self._cipher_made: LoginCipher | None = None
        self._unread: set[str] = set()

    async def load(self, upstream: str) -> tuple[Mapping[str, Any], int] | None:
        return await self._in_thread(partial(self._load, upstream))

    async def save(self, upstream: str, issuer: str, data: Mapping[str, Any]) -> int:
        version = await self._in_thread(partial(self._save, upstream, issuer, data))
        self._announce(CHANGED, upstream)
        return version

    async def claim(self, upstream: str, issuer: str, version: int, seconds: float) -> bool:
        return await self._in_thread(partial(self._claim, upstream, issuer, version, seconds))

    async def release(self, upstream: str, issuer: str) -> None:
        await self._in_thread(partial(self._release, upstream, issuer))

    async def drop(self, upstream: str) -> None:
        await self._in_thread(partial(self._drop, upstream))
        self._announce(CHANGED, upstream)

    # Blocking.

    def _cipher(self) -> LoginCipher:
        if self._cipher_made is None:
            try:
                self._cipher_made = LoginCipher(self._keys())
            except GatewayError as error:
                raise StoreUnavailable(error.message) from None
        return self._cipher_made

    def _load(self, upstream: str) -> tuple[Mapping[str, Any], int] | None:
        wanted = select(logins).where(logins.c.upstream == upstream).order_by(logins.c.version.desc())
        with self._database.reading() as connection:
            rows = connection.execute(wanted).all()
        for row in rows:
            text = self._cipher().decrypt(row.value, row.upstream, row.issuer)
            if text is not None:
                return decode(text.decode()), row.version
            if row.value not in self._unread:
                self._unread.add(row.value)
                log.error("the login at %s cannot be read with the key that is here; log in again, or bring back the "
                          "key (`mcpproxy doctor` says where it is)", upstream)  # fmt: skip
        return None

    def _save(self, upstream: str, issuer: str, data: Mapping[str, Any]) -> int:
        value = self._cipher().encrypt(encode(dict(data)), upstream, issuer)
        with self._database.explained(), self._database.writing_for_good() as connection:
            self._database.lock_for_changes(connection)
            version = 1 + self._newest(connection, upstream)
            values = {"value": value, "version": version, "at": self._database.now(connection), "claimed_until": 0}
            here = (logins.c.upstream == upstream) & (logins.c.issuer == issuer)
            if connection.execute(update(logins).where(here).values(values)).rowcount == 0:
                connection.execute(insert(logins), [{"upstream": upstream, "issuer": issuer, **values}])
        return version

    def _newest(self, connection: Connection, upstream: str) -> int:
        found = select(func.max(logins.c.version)).where(logins.c.upstream == upstream)
        return connection.execute(found).scalar() or 0

    def _claim(self, upstream: str, issuer: str, version: int, seconds: float) -> bool:
        with self._database.explained(), self._database.writing_for_good() as connection:
            now = self._database.now(connection)
            here = (logins.c.upstream == upstream) & (logins.c.issuer == issuer)
            free = (logins.c.version == version) & (logins.c.claimed_until < now)
            until = {"claimed_until": now + round(seconds * 1e6)}
            return connection.execute(update(logins).where(here & free).values(until)).rowcount == 1

    def _release(self, upstream: str, issuer: str) -> None:
        here = (logins.c.upstream == upstream) & (logins.c.issuer == issuer)
        with self._database.explained(), self._database.writing() as connection:
            connection.execute(update(logins).where(here).values({"claimed_until": 0}))

    def _drop(self, upstream: str) -> None:
        with self._database.explained(), self._database.writing_for_good() as connection:
            connection.execute(delete(logins).where(logins.c.upstream == upstream))
