"""Requests for a capability and what became of them. The rules are `core.approvals`; here they meet what is kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

from sqlalchemy import ColumnElement, Connection, insert, or_, select, update
from sqlalchemy.exc import SQLAlchemyError

from mcpproxy_py.core import approvals as rules
from mcpproxy_py.core.approvals import NotNow, Request, Review, Status, Submitted
from mcpproxy_py.core.wishes import Wish
from mcpproxy_py.store.codec import decode, encode
from mcpproxy_py.store.database import Database, plain
from mcpproxy_py.store.failure import StoreUnavailable
from mcpproxy_py.store.tables import approvals, turns

T = TypeVar("T")


class InThread(Protocol):
    def __call__(self, work: Callable[[], T]) -> Awaitable[T]: ...


class Approvals:
    """What is written here is on the disk when it returns. Everything raises `StoreUnavailable`."""

    def __init__(self, database: Database, in_thread: InThread) -> None:
        self._database = database
        self._in_thread = in_thread

    async def submit(self, wish: Wish, principal: str, *, new_id: str, now_ms: int) -> Submitted | NotNow:
        return await self._in_thread(partial(self._submit, wish, principal, new_id, now_ms))

    async def decide(self, request_id: str, step: Literal["approve", "deny"], review: Review) -> Request | NotNow:
        """Raises `KeyError` where there is no such request."""
        return await self._in_thread(partial(self._decide, request_id, step, review))

    async def get(self, request_id: str) -> Request | None:
        found = await self._in_thread(partial(self._read, approvals.c.id == request_id, limit=1))
        return found[0] if found else None

    async def list(self, *, status: Status | None = None, before: str | None = None, limit: int) -> list[Request]:
        """The newest first, older than `before` where that is given."""
        wanted = [] if status is None else [approvals.c.status == status]
        older = [] if before is None else [approvals.c.id < before]
        return await self._in_thread(partial(self._read, *wanted, *older, limit=limit))

    async def overdue(self, now_ms: int, limit: int) -> list[Request]:
        """Those whose time ran out and that do not say so yet."""
        late = (approvals.c.status == "pending", approvals.c.expires_at <= now_ms)
        return await self._in_thread(partial(self._read, *late, limit=limit))

    async def expire(self, request_id: str, now_ms: int) -> None:
        await self._in_thread(partial(self._expire, request_id, now_ms))

    def _submit(self, wish: Wish, principal: str, new_id: str, now_ms: int) -> Submitted | NotNow:
        mine = approvals.c.principal == principal
        matters = or_(approvals.c.status == "pending", approvals.c.subject == wish.subject)
        with self._changing() as connection:
            known = requests(connection, mine, matters)
            found = rules.submit(wish, principal, known, new_id=new_id, now_ms=now_ms)
            if isinstance(found, Submitted) and found.fresh:
                connection.execute(insert(approvals), [_row(found.request)])
        return found

    def _decide(self, request_id: str, step: Literal["approve", "deny"], review: Review) -> Request | NotNow:
        with self._changing() as connection:
            found = requests(connection, approvals.c.id == request_id)
            if not found:
                raise KeyError(request_id)
            after = rules.decide(found[0], step, review)
            if isinstance(after, Request):
                _put(connection, after)
        return after

    def _expire(self, request_id: str, now_ms: int) -> None:
        with self._changing() as connection:
            for found in requests(connection, approvals.c.id == request_id):
                _put(connection, rules.expired(found, now_ms))

    def _read(self, *where: ColumnElement[bool], limit: int) -> list[Request]:
        with self._database.reading() as connection:
            return requests(connection, *where, limit=limit)

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        """A transaction that decides on what it reads: whoever comes second reads what the first has written."""
        try:
            with self._database.writing_for_good() as connection:
                connection.execute(update(turns).where(turns.c.name == "approvals").values(taken=turns.c.taken + 1))
                yield connection
        except SQLAlchemyError as error:
            raise StoreUnavailable(f"cannot keep requests in the database: {plain(error)}.") from error


def requests(connection: Connection, *where: ColumnElement[bool], limit: int | None = None) -> list[Request]:
    query = select(approvals).where(*where).order_by(approvals.c.id.desc()).limit(limit)
    return [_request(row) for row in connection.execute(query)]


def _put(connection: Connection, request: Request) -> None:
    connection.execute(update(approvals).where(approvals.c.id == request.id).values(_row(request)))


def _row(request: Request) -> dict[str, Any]:
    return {
        "id": request.id,
        "principal": request.principal,
        "subject": request.wish.subject,
        "status": request.status,
        "wish": encode(asdict(request.wish)).decode(),
        "review": None if request.review is None else encode(asdict(request.review)).decode(),
        "created_at": request.created_at_ms,
        "expires_at": request.expires_at_ms,
    }


def _request(row: Any) -> Request:
    wish = decode(row.wish)
    return Request(
        id=row.id,
        principal=row.principal,
        wish=Wish(**{**wish, "requested_tools": tuple(wish["requested_tools"])}),
        created_at_ms=row.created_at,
        expires_at_ms=row.expires_at,
        status=row.status,
        review=None if row.review is None else Review(**decode(row.review)),
    )
