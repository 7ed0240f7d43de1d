"""Who may look at the page: links that open it once, and the sessions they become (USE-2).

Both live in one sealed record (`store/sealed_records`), which is a link first, then a session, then ended; its version
makes that a link opens one session, also where two gateways are asked at once. A session has two secrets, and opens
nothing without both: a cookie, which no script can read but which browsers send to every port of a host, and a token,
which scripts of one origin keep and nobody else is sent. Only digests of them are kept.

There is a fixed number of these records, used again and again, because rows of sealed records never go. Nothing is read
and nothing runs before somebody wants the page.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, Final, Protocol

import anyio

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.policy.scope import Access
from mcpproxy_py.core.values import Caller, ClientInfo
from mcpproxy_py.errors import Code, GatewayError, StoreUnavailable
from mcpproxy_py.gateway.access.tokens import OnRecordAct
from mcpproxy_py.gateway.page.records import (
    KeptPageRecord,
    OpenedPage,
    PageAccess,
    PageRecord,
    cookie_name,
    digest_of,
    ended,
    from_json,
    parsed_address,
    refused,
    shown,
)
from mcpproxy_py.store.sealed_records import RecordConflict, SealedRecord, SealedRecords, tells_of

log = logging.getLogger(__name__)

KIND: Final = "page"
CLIENT: Final = ClientInfo("ui")
"""Whose acts these are on record. Nobody who only says so is taken for it."""
LINK_LASTS: Final = 60.0
SESSION_LASTS: Final = 8 * 3600.0
MOST: Final = 64
"""Links and sessions at once."""
TICK: Final = 0.5
"""Seconds by which a stream that is open may outlive its session."""
AGAIN: Final = 1.0
TRIES: Final = 5
LOOPBACK: Final = frozenset(("127.0.0.1", "localhost", "::1"))


class PageStore(Protocol):
    """What this needs of the store room."""

    @property
    def shared(self) -> bool: ...
    def on_event(self, listener: Callable[[str, Any], None]) -> Callable[[], None]: ...
    async def sealed_records(self, kind: str) -> SealedRecords: ...
    async def put_sealed_record(
        self, kind: str, name: str, value: Any, *, expected: int | None = None, details: Mapping[str, Any] = ...
    ) -> SealedRecord: ...


class PageSessions:
    """`admit` is asked with each request of the page; the rest is for people. Raises `GatewayError`."""

    def __init__(
        self, store: PageStore, on_record: OnRecordAct, *, address: str, admin_key: Callable[[], str],
        secret: Callable[[], bytes], spawn: Callable[[Callable[[], Coroutine[Any, Any, None]]], object],
        on_end: Callable[[str], None] = lambda session: None, clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        """`address` is where this machine reaches the gateway. `secret` is this gateway's own: by it a gateway knows
        which records it made and with which admin key, and nobody else can try keys at what is in the database.
        `on_end` hears of what may not go on."""
        self._store = store
        self._on_record = on_record
        self._address = address
        self._admin_key = admin_key
        self._secret = secret
        self._spawn = spawn
        self._on_end = on_end
        self._clock = clock
        self._slots: dict[str, KeptPageRecord] = {}
        self._open: dict[str, PageAccess] = {}
        """By the digest of the token."""
        self._turn = asyncio.Lock()
        self._queued: asyncio.Future[None] | None = None
        self._heard = asyncio.Event()
        self._running = self._was_read = False

    # For each request.

    def admit(
        self, token: str, cookies: Mapping[str, Sequence[str]], origin: str | None, *, local: bool
    ) -> Access | Awaitable[Access]:
        """Who comes with these two halves. Where another gateway may have opened the session just now, that is read
        first."""
        if (found := self._find(token, cookies, origin, local)) is not None:
            return found
        if self._was_read and not self._store.shared:
            raise ended()
        return self._admit_once_read(token, cookies, origin, local)

    async def _admit_once_read(
        self, token: str, cookies: Mapping[str, Sequence[str]], origin: str | None, local: bool
    ) -> Access:
        await self._read()
        if (found := self._find(token, cookies, origin, local)) is None:
            raise ended()
        return found

    def _find(
        self, token: str, cookies: Mapping[str, Sequence[str]], origin: str | None, local: bool
    ) -> PageAccess | None:
        found = self._open.get(digest_of(token))
        if found is None or self._is_over(found.record):
            return None
        record = found.record
        given = cookies.get(cookie_name(record.origin), ())
        if not any(hmac.compare_digest(digest_of(each), record.cookie) for each in given):
            return None
        if (origin is not None and origin != record.origin) or (record.local and not local):
            return None
        return found

    # For people.

    async def create_link(self, address: str | None, by: Caller) -> dict[str, Any]:
        """One that opens the page at this address, once, within a minute. The one time that its code is told."""
        origin, local = self._origin(address)
        code, now = secrets.token_urlsafe(24), self._clock()
        made = PageRecord(
            secrets.token_hex(4), "link", origin, local, self._me, self._mark, now, now + LINK_LASTS, digest_of(code)
        )

        async def act() -> None:
            for _ in range(TRIES):
                await self._read()
                free = self._free()
                try:
                    await self._put(free, made, by)
                    return
                except RecordConflict:
                    continue
            raise GatewayError(Code.CONFLICT, "Others make links at this moment; try again")

        await self._on_record("create_page_link", None, by, {"page": made.id, "address": origin}, act)
        return {"url": f"{origin}/ui#open={code}", "expires_at": made.until, "page": made.id, "local_only": local}

    async def open(self, code: str, origin: str | None, *, local: bool, by: Caller) -> OpenedPage:
        """The session that this link is good for, once."""
        await self._read()
        digest = digest_of(code)
        found = next((each for each in self._records if hmac.compare_digest(each[1].code, digest)), None)
        if found is None:
            raise refused("This link opens nothing")
        kept, record = found
        if record.state != "link":
            log.warning("the link of page %s was tried again after it was used or ended", record.id)
            raise refused("This link was used already")
        if self._is_over(record):
            raise refused("This link is too old: it was good for a minute")
        if origin != record.origin:
            raise refused(f"This link is for {record.origin}, and not for {quoted(origin or 'no page')}")
        if record.local and not local:
            log.warning("the link of page %s was tried from another machine", record.id)
            raise refused("This link works only on the machine of the gateway")
        now, cookie, token = self._clock(), secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        session = replace(
            record, state="open", began=now, until=now + SESSION_LASTS, cookie=digest_of(cookie), token=digest_of(token)
        )

        async def act() -> None:
            try:
                await self._put(kept, session, by)
            except RecordConflict:
                raise refused("This link was used already") from None

        await self._on_record("open_page", None, by, {"page": record.id, "address": origin}, act)
        return OpenedPage(session, cookie, token)

    async def listed(self) -> list[dict[str, Any]]:
        await self._read()
        return [shown(each) for _, each in self._records if each.state == "open" and not self._is_over(each)]

    async def end(self, page: str | None, by: Caller) -> int:
        """This one, or all with what links there are. How many sessions it ended; nothing of them goes on here when
        this returns, and at other gateways within a moment."""
        ended: set[str] = set()

        async def act() -> None:
            for _ in range(TRIES):
                await self._read()
                going_on = [each for each in self._records if each[1].state != "ended" and page in (None, each[1].id)]
                if not going_on:
                    return
                for kept, record in going_on:
                    with suppress(RecordConflict):  # a link that was opened in between: it is looked at again
                        await self._put(kept, replace(record, state="ended", cookie="", token=""), by)
                        ended.update({record.id} if record.state == "open" and not self._is_over(record) else ())
            raise GatewayError(Code.CONFLICT, "Others open pages at this moment; try again")

        details = {} if page is None else {"page": page}
        await self._on_record("end_pages" if page is None else "end_page", None, by, details, act)
        return len(ended)

    def _origin(self, address: str | None) -> tuple[str, bool]:
        """Of the page, and whether only this machine may open it. What leads here from elsewhere, a tunnel or a proxy,
        has to be named."""
        origin, scheme, host = parsed_address(self._address if address is None else address)
        if scheme == "http" and host not in LOOPBACK:
            remedy = "Put TLS in front and name its address (`mcpproxy ui --address https://NAME`), or use a tunnel: "
            remedy += "`ssh -L 8080:127.0.0.1:8080 HOST` there, `mcpproxy ui --print --address http://127.0.0.1:8080`."
            message = f"The page is not opened at {origin}: whoever listens there could read the session"
            raise GatewayError(Code.BAD_REQUEST, message, details={"remedy": remedy})
        return origin, address is None

    # What is kept.

    @property
    def _records(self) -> Sequence[tuple[KeptPageRecord, PageRecord]]:
        return [(kept, kept.record) for kept in self._slots.values() if kept.record is not None]

    def _free(self) -> KeptPageRecord:
        for name in map(str, range(1, MOST + 1)):
            kept = self._slots.get(name) or KeptPageRecord(name, 0, None)
            if kept.record is None or kept.record.state == "ended" or self._is_over(kept.record):
                return kept
        remedy = "`mcpproxy ui --logout` ends all of them."
        raise GatewayError(Code.CONFLICT, f"{MOST} pages are open", details={"remedy": remedy})

    def _is_over(self, record: PageRecord) -> bool:
        """By time, or because the key that opened it is no longer the key. Of another gateway's key only that knows."""
        return self._clock() >= record.until or (record.gateway == self._me and record.mark != self._mark)

    @property
    def _me(self) -> str:
        return hmac.digest(self._secret(), b"page: gateway", "sha256").hex()[:16]

    @property
    def _mark(self) -> str:
        return hmac.digest(self._secret(), b"page: key " + self._admin_key().encode(), "sha256").hex()[:32]

    async def _put(self, kept: KeptPageRecord, record: PageRecord, by: Caller) -> None:
        details = {"page": record.id, "state": record.state, "by": by.principal, "source": by.source}
        try:
            await self._store.put_sealed_record(KIND, kept.name, asdict(record), expected=kept.version, details=details)
        except StoreUnavailable as error:
            raise GatewayError(Code.STORE_UNAVAILABLE, error.message) from None
        finally:
            await self._read()

    async def _read(self) -> None:
        """As the database has them at some moment from now on. However many ask, one reads and one waits to."""
        if self._queued is None:
            self._queued = asyncio.ensure_future(self._read_next())
        await asyncio.shield(self._queued)

    async def _read_next(self) -> None:
        async with self._turn:
            self._queued = None
            if not self._running:
                self._running = True
                self._listen()
            self._take(await self._store.sealed_records(KIND))
            self._was_read = True

    def _take(self, found: SealedRecords) -> None:
        slots = {name: KeptPageRecord(name, one.version, None) for name, one in found.unbelieved.items()}
        for name, one in found.believed.items():
            slots[name] = KeptPageRecord(name, one.version, from_json(one.value))
        self._slots = slots
        before, self._open = self._open, {}
        for _, record in self._records:
            if record.state == "open" and not self._is_over(record):
                there = before.get(record.token)
                self._open[record.token] = there if there and there.record == record else PageAccess(record)
        for token, access in before.items():
            if self._open.get(token) is not access:
                self._on_end(str(access.ends_with))

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()

        def hear(kind: str, payload: Any) -> None:
            if tells_of(KIND, kind, payload):
                loop.call_soon_threadsafe(self._heard.set)

        self._store.on_event(hear)
        self._spawn(self._watch)

    async def _watch(self) -> None:
        """Endless, from the first use on: whatever goes on of a session that is over is ended."""
        while True:
            with anyio.move_on_after(TICK if self._open else None):
                await self._heard.wait()
            if self._heard.is_set():
                self._heard.clear()
                try:
                    await self._read()
                except StoreUnavailable as error:
                    log.warning("cannot read the sessions of the page: %s", error.message)
                    self._heard.set()
                    await anyio.sleep(AGAIN)
            for token, access in tuple(self._open.items()):
                if self._is_over(access.record):
                    del self._open[token]
                    self._on_end(str(access.ends_with))
