"""Agents' requests for servers, which wait for a person (CAT-6, CAT-7).

Every step is on record before it shows. An agent's own step is the ask by which it comes, written ahead like every
write; a person's decision and the running out of time are recorded here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal, Protocol, TypeVar

from mcpproxy_py import __version__
from mcpproxy_py.core.catalog.approval_rules import (
    ApprovalDecision,
    ApprovalRequest,
    CapabilityWish,
    NotAccepted,
    Status,
    Submitted,
)
from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.record import events
from mcpproxy_py.core.record.masking import Masker
from mcpproxy_py.core.values import Caller, ClientInfo
from mcpproxy_py.errors import Code, GatewayError, StoreUnavailable
from mcpproxy_py.gateway.masker import MASKER

log = logging.getLogger(__name__)
T = TypeVar("T")
Step = Literal["approve", "deny"]

AT_ONCE: Final = 500
MOST_CANDIDATES: Final = 10
FINAL: Final = "A decision is final. If it was wrong, the agent can ask again; after a denial in 24 hours."
CLOCK: Final = Caller("local", "internal", ClientInfo("mcpproxy", __version__))
"""Who lets a request expire."""


class Book(Protocol):
    """What this needs of the store room."""

    async def submit(
        self, wish: CapabilityWish, principal: str, *, new_id: str, now_ms: int
    ) -> Submitted | NotAccepted: ...
    async def decide(self, request_id: str, step: Step, review: ApprovalDecision) -> ApprovalRequest | NotAccepted: ...
    async def get(self, request_id: str) -> ApprovalRequest | None: ...
    async def candidates(self, typed: str, limit: int) -> Sequence[ApprovalRequest]: ...
    async def list(self, *, status: Status | None, before: str | None, limit: int) -> Sequence[ApprovalRequest]: ...
    async def overdue(self, now_ms: int, limit: int) -> Sequence[ApprovalRequest]: ...
    async def expire(self, request_id: str, now_ms: int) -> None: ...


class OnRecord(Protocol):
    """Does something between the two events that say so, or refuses where that cannot be recorded."""

    def __call__(
        self, action: str, subject: str | None, by: Caller, details: Mapping[str, Any], act: Callable[[], Awaitable[T]]
    ) -> Awaitable[T]: ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a person decided, with what they say of themselves; who they are is for the guard to know."""

    step: Step
    name: str | None = None
    notes: str | None = None
    terminal: bool = False


class ApprovalService:
    """Raises `GatewayError` for what cannot be done, and `StoreUnavailable`."""

    def __init__(
        self,
        book: Book,
        on_record: OnRecord,
        append: Callable[[Mapping[str, Any]], None],
        new_id: Callable[[float], str],
        advice: Callable[[CapabilityWish], str | None],
        masker: Masker = MASKER,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`append` puts an event on record, for those who follow them. `advice` is the command with which a person
        would grant a wish, where there is one."""
        self._book = book
        self._on_record = on_record
        self._append = append
        self._new_id = new_id
        self._advice = advice
        self._masker = masker
        self._now = now

    async def submit(self, wish: CapabilityWish, principal: str) -> Submitted | NotAccepted:
        await self._let_expire()
        at = self._now()
        filed = await self._book.submit(self._masked(wish), principal, new_id=self._new_id(at), now_ms=_millis(at))
        if isinstance(filed, Submitted) and filed.fresh:
            self._tell(filed.request.id, filed.request.status)
        return filed

    async def page(self, status: Status | None, before: str | None, limit: int) -> list[dict[str, Any]]:
        """The newest first."""
        await self._let_expire()
        return [self._shown(one) for one in await self._book.list(status=status, before=before, limit=limit)]

    async def show(self, request_id: str) -> dict[str, Any]:
        await self._let_expire()
        return self._shown(await self._found(request_id))

    async def decide(self, request_id: str, verdict: Verdict, by: Caller) -> dict[str, Any]:
        """A person's word, which is final. It connects nothing."""
        await self._let_expire()
        request_id = (await self._found(request_id)).id

        async def act() -> ApprovalRequest:
            notes = verdict.notes and self._masker.mask_text(verdict.notes)
            reviewer = self._masker.mask_text(_reviewer(by, verdict))
            review = ApprovalDecision(reviewer, source_of(by), verdict.terminal, _millis(self._now()), notes)
            after = await self._book.decide(request_id, verdict.step, review)
            if isinstance(after, NotAccepted):
                raise GatewayError(Code.CONFLICT, after.message, details={"remedy": FINAL})
            self._tell(after.id, after.status)
            return after

        details = {"approval_id": request_id, **asdict(verdict)}
        return self._shown(await self._on_record(f"{verdict.step}_request", None, by, details, act))

    def _masked(self, wish: CapabilityWish) -> CapabilityWish:
        """Kept like a record: an agent may put a secret into its reasons, and into any other field."""
        kept = {key: value for key, value in asdict(wish).items() if key != "expires_at_ms"}
        masked = {key: self._masker.mask(value) for key, value in kept.items()}
        return replace(wish, **{**masked, "requested_tools": tuple(masked["requested_tools"])})

    async def _found(self, request_id: str) -> ApprovalRequest:
        """By its whole id, or by a beginning of it that only one has."""
        found = await self._book.get(request_id)
        if found is not None:
            return found
        meant = await self._book.candidates(request_id, MOST_CANDIDATES + 1)
        if not meant:
            raise GatewayError(Code.NOT_FOUND, f"There is no request '{quoted(request_id)}'")
        if len(meant) > 1:
            said = [{"id": one.id, "status": one.status, "server": one.wish.mcp_name} for one in meant]
            raise ambiguous(request_id, said)
        return meant[0]

    async def _let_expire(self) -> None:
        """Time's own step. Nobody sees a request as expired before that is on record."""
        now = _millis(self._now())
        for late in await self._book.overdue(now, AT_ONCE):

            async def act(request_id: str = late.id) -> None:
                await self._book.expire(request_id, now)
                self._tell(request_id, "expired")

            await self._on_record("expire_request", None, CLOCK, {"approval_id": late.id}, act)

    def _tell(self, request_id: str, status: Status) -> None:
        """What is done is done, also where nobody can be told of it."""
        try:
            self._append(events.approval_step(request_id, self._now(), status))
        except StoreUnavailable as error:
            log.error("no event was sent that request %s is %s: %s", request_id, status, error.message)

    def _shown(self, request: ApprovalRequest) -> dict[str, Any]:
        return {**request.in_full(), "connect_command": self._advice(request.wish)}


def ambiguous(typed: str, candidates: Sequence[Mapping[str, Any]]) -> GatewayError:
    """Several ids begin like this. None of them is taken for what was meant."""
    more = len(candidates) > MOST_CANDIDATES
    details = {"remedy": "Say more of the id.", "candidates": list(candidates[:MOST_CANDIDATES]), "more": more}
    count = f"more than {MOST_CANDIDATES}" if more else len(candidates)
    return GatewayError(Code.BAD_REQUEST, f"'{quoted(typed)}' can be {count} ids", details=details)


def _reviewer(by: Caller, verdict: Verdict) -> str:
    return f"{by.principal} ({verdict.name})" if verdict.name else by.principal


def source_of(by: Caller) -> Literal["cli", "api", "ui"]:
    if by.source == "cli":
        return "cli"
    return "ui" if by.client.name == "ui" else "api"


def _millis(at: float) -> int:
    return int(at * 1000)
