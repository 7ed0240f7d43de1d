"""Requests for a capability and what became of them. The rules are `core.catalog.approval_rules`; here they
meet what is kept.

A row is believed with its seal (`seals`). One without is shown as pending where it says that it was approved, and
nobody can approve it: what it asks for may not be what was asked.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from hashlib import sha256
from typing import Any, Final, Literal, Protocol, TypeVar

from sqlalchemy import ColumnElement, Connection, insert, or_, select, update
from sqlalchemy.exc import SQLAlchemyError

from mcpproxy_py.core.catalog import approval_rules as rules
from mcpproxy_py.core.catalog.approval_rules import (
    ApprovalDecision,
    ApprovalRequest,
    CapabilityWish,
    NotAccepted,
    Status,
    Submitted,
)
from mcpproxy_py.core.record.short_ids import id_ranges
from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store.codec import decode, encode
from mcpproxy_py.store.database.columns import within
from mcpproxy_py.store.database.engine import Database, plain
from mcpproxy_py.store.database.tables import approvals, turns
from mcpproxy_py.store.seals import DECIDED, OnRecord, Seals, UnbelievedRows

T = TypeVar("T")
AT_ONCE: Final = 500
SEALED: Final = ("id", "principal", "subject", "status", "wish", "review", "created_at", "expires_at")
"""The columns that a seal covers."""
CHANGED: Final = (
    "{} was written or changed by somebody else than a gateway, so it cannot be approved. Deny it; if the agent needs "
    "it, it asks again."
)


class ApprovalReaderThread(Protocol):
    def __call__(self, work: Callable[[], T]) -> Awaitable[T]: ...


class ApprovalStore:
    """What is written here is on the disk when it returns. Everything raises `StoreUnavailable`."""

    def __init__(
        self,
        database: Database,
        in_thread: ApprovalReaderThread,
        seals: Seals,
        on_record: OnRecord,
        doubts: UnbelievedRows,
    ) -> None:
        self._database = database
        self._in_thread = in_thread
        self._seals = seals
        self._on_record = on_record
        self._doubts = doubts

    async def submit(
        self, wish: CapabilityWish, principal: str, *, new_id: str, now_ms: int
    ) -> Submitted | NotAccepted:
        return await self._in_thread(partial(self._submit, wish, principal, new_id, now_ms))

    async def decide(
        self, request_id: str, step: Literal["approve", "deny"], review: ApprovalDecision
    ) -> ApprovalRequest | NotAccepted:
        """Raises `KeyError` where there is no such request."""
        return await self._in_thread(partial(self._decide, request_id, step, review))

    async def get(self, request_id: str) -> ApprovalRequest | None:
        found = await self._in_thread(partial(self._read, approvals.c.id == request_id, limit=1))
        return found[0] if found else None

    async def candidates(self, typed: str, limit: int) -> list[ApprovalRequest]:
        """What a short form, or the beginning of an id, can mean."""
        return await self._in_thread(partial(self._candidates, typed, limit))

    async def list(
        self, *, status: Status | None = None, before: str | None = None, limit: int
    ) -> list[ApprovalRequest]:
        """The newest first, older than `before` where that is given."""
        return await self._in_thread(partial(self._list, status, before, limit))

    async def overdue(self, now_ms: int, limit: int) -> list[ApprovalRequest]:
        """Those whose time ran out and that do not say so yet."""
        late = (approvals.c.status == "pending", approvals.c.expires_at <= now_ms)
        return await self._in_thread(partial(self._read, *late, limit=limit))

    async def expire(self, request_id: str, now_ms: int) -> None:
        await self._in_thread(partial(self._expire, request_id, now_ms))

    def _list(self, status: Status | None, before: str | None, limit: int) -> list[ApprovalRequest]:
        """What was approved in the database alone is still pending, so what the column says is only a beginning."""
        columns = ("pending", "approved") if status == "pending" else (status,)
        wanted = [] if status is None else [approvals.c.status.in_(columns)]
        found: list[ApprovalRequest] = []
        while len(found) < limit:
            older = [] if before is None else [approvals.c.id < before]
            some = self._read(*wanted, *older, limit=AT_ONCE)
            found += [request for request in some if status in (None, request.status)]
            if len(some) < AT_ONCE:
                break
            before = some[-1].id
        return found[:limit]

    def _candidates(self, typed: str, limit: int) -> list[ApprovalRequest]:
        edges = self._read(limit=1), self._read(limit=1, order=approvals.c.id.asc())
        if not all(edges):
            return []
        (last,), (first,) = edges
        found: dict[str, ApprovalRequest] = {}
        for ids in id_ranges(typed, first.created_at_ms, last.created_at_ms, rules.ID_PREFIX):
            if len(found) < limit:
                found |= {one.id: one for one in self._read(within(approvals.c.id, ids), limit=limit - len(found))}
        return list(found.values())

    def _submit(self, wish: CapabilityWish, principal: str, new_id: str, now_ms: int) -> Submitted | NotAccepted:
        mine = approvals.c.principal == principal
        matters = or_(approvals.c.status == "pending", approvals.c.subject == wish.subject)
        with self._changing() as connection:
            known = self._requests(connection, mine, matters)
            found = rules.submit(wish, principal, known, new_id=new_id, now_ms=now_ms)
            if isinstance(found, Submitted) and found.fresh:
                connection.execute(insert(approvals), [self._row(found.request)])
        return found

    def _decide(
        self, request_id: str, step: Literal["approve", "deny"], review: ApprovalDecision
    ) -> ApprovalRequest | NotAccepted:
        with self._changing() as connection:
            found = self._requests(connection, approvals.c.id == request_id)
            if not found:
                raise KeyError(request_id)
            if step == "approve" and not found[0].sealed:
                return NotAccepted(CHANGED.format(found[0].id))
            after = rules.decide(found[0], step, review)
            if isinstance(after, ApprovalRequest):
                self._tell(self._put(connection, after), review.at_ms / 1000)
        return after

    def _tell(self, row: Mapping[Any, Any], at: float, **told: Any) -> None:
        """Before the row is committed: no decision counts that is not on record."""
        said = {"status": row["status"], "digest": digest_of(row)}
        self._on_record({"kind": DECIDED, "id": row["id"], "at": at, **said, **told})

    def adopt(self) -> int:
        """Requests of a version that did not seal, as they are: once, at this directory's first start with one that
        does. That a decision was taken over is on record."""
        with self._changing() as connection:
            columns = [approvals.c[column] for column in SEALED]
            rows = connection.execute(select(*columns).where(approvals.c.seal.is_(None))).all()
            for row in rows:
                self._seal(connection, row)
                if row.review is not None:
                    self._tell(row._mapping, time.time(), adopted=True)
        return len(rows)

    def seal_again(self) -> None:
        """With the keys of today, what holds by one of them."""
        with self._changing() as connection:
            for row in connection.execute(select(approvals)).all():
                if request_holds(self._seals, row):
                    self._seal(connection, row)

    def _seal(self, connection: Connection, row: Any) -> None:
        seal = self._seals.seal(*_sealed(row._mapping))
        connection.execute(update(approvals).where(approvals.c.id == row.id).values(seal=seal))

    def _expire(self, request_id: str, now_ms: int) -> None:
        with self._changing() as connection:
            for found in self._requests(connection, approvals.c.id == request_id):
                after = rules.expired(found, now_ms)
                if after.status != found.status:  # else it would only be sealed again, as whoever changed it left it
                    self._put(connection, after)

    def _read(self, *where: ColumnElement[bool], limit: int, order: Any = None) -> list[ApprovalRequest]:
        with self._database.reading() as connection:
            return self._requests(connection, *where, limit=limit, order=order)

    def _requests(
        self, connection: Connection, *where: ColumnElement[bool], limit: int | None = None, order: Any = None
    ) -> list[ApprovalRequest]:
        found = requests(connection, self._seals, *where, limit=limit, order=order)
        for request in found:
            if request.sealed:
                self._doubts.settled(request.id)
            else:
                says = f"the request {request.id} in the database carries no seal of a gateway; it is not believed"
                self._doubts.found(request.id, says)
        return found

    def _put(self, connection: Connection, request: ApprovalRequest) -> Mapping[str, Any]:
        row = self._row(request)
        connection.execute(update(approvals).where(approvals.c.id == request.id).values(row))
        self._doubts.settled(request.id)
        return row

    def _row(self, request: ApprovalRequest) -> dict[str, Any]:
        row = _row(request)
        return {**row, "seal": self._seals.seal(*_sealed(row))}

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        """A transaction that decides on what it reads: whoever comes second reads what the first has written."""
        try:
            with self._database.writing_for_good() as connection:
                self._database.lock_for_changes(connection)
                connection.execute(update(turns).where(turns.c.name == "approvals").values(taken=turns.c.taken + 1))
                yield connection
        except SQLAlchemyError as error:
            raise StoreUnavailable(f"cannot keep requests in the database: {plain(error)}.") from error


def requests(
    connection: Connection, seals: Seals, *where: ColumnElement[bool], limit: int | None = None, order: Any = None
) -> list[ApprovalRequest]:
    """The newest first, unless another order is said."""
    query = select(approvals).where(*where).order_by(approvals.c.id.desc() if order is None else order).limit(limit)
    return [_believed(row, seals) for row in connection.execute(query)]


def request_holds(seals: Seals, row: Any) -> bool:
    return seals.holds(row.seal, *_sealed(row._mapping))


def digest_of(row: Mapping[Any, Any]) -> str:
    """Of all that a seal covers, for the event that says it was decided."""
    return sha256(encode(_sealed(row))).hexdigest()


def _sealed(row: Mapping[Any, Any]) -> list[Any]:
    return [row[column] for column in SEALED]


def _believed(row: Any, seals: Seals) -> ApprovalRequest:
    if request_holds(seals, row):
        return _request(row)
    said = replace(_request(row), sealed=False)
    closed = said.status in ("denied", "expired")
    return said if closed else replace(said, status="pending", review=None)


def _row(request: ApprovalRequest) -> dict[str, Any]:
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


def _request(row: Any) -> ApprovalRequest:
    wish = decode(row.wish)
    return ApprovalRequest(
        id=row.id,
        principal=row.principal,
        wish=CapabilityWish(**{**wish, "requested_tools": tuple(wish["requested_tools"])}),
        created_at_ms=row.created_at,
        expires_at_ms=row.expires_at,
        status=row.status,
        review=None if row.review is None else ApprovalDecision(**decode(row.review)),
    )
