"""A call that waits for a person outside of its client: what they see of it, and what they said (SEC-10)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

from mcpproxy_py.core import json_values
from mcpproxy_py.core.policy import confirmation
from mcpproxy_py.core.record.masking import Masker
from mcpproxy_py.core.record.short_ids import id_ranges, millis_of
from mcpproxy_py.core.values import Ask, Relay, Route

ID_PREFIX: Final = "call_"
MOST_OF_ARGUMENTS: Final = 16_384
"""Bytes of the masked arguments that are kept; the question shows a part of them, and the digest is of all."""
MOST_OF_TEXT: Final = 2_000

ConfirmationStatus = Literal["waiting", "approved", "denied", "expired", "cancelled"]


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """As it is in its sealed record. Times are seconds since 1970."""

    id: str
    status: ConfirmationStatus
    tool: str
    server: str
    operation: str
    principal: str
    client: Mapping[str, str]
    reason: str | None
    arguments: Any
    arguments_sha256: str
    warning: str | None
    question: str
    asked_at: float
    expires_at: float
    activity_id: str
    decided_at: float | None = None
    decided_by: Mapping[str, Any] | None = None
    notes: str | None = None
    delivered: bool | None = None
    """Whether the gateway where it waits has a yes; `None` where there is none, or a version before did not say."""

    @property
    def is_undelivered(self) -> bool:
        return self.status == "approved" and self.delivered is False

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Any) -> WaitingCall:
        """Raises `TypeError` for one of another version."""
        return cls(**kept)

    def at(self, now: float) -> WaitingCall:
        """As it is to be seen now: where its gateway died, nobody writes down that its time has run out."""
        return replace(self, status="expired") if self.status == "waiting" and self.expires_at <= now else self

    def shown(self) -> dict[str, Any]:
        times = {key: _time(getattr(self, key)) for key in ("asked_at", "expires_at", "decided_at")}
        return {**self.as_json(), **times}


def waiting_call(
    new_id: str, ask: Ask, to: Route | Relay, question: str, masker: Masker, now: float, patience: float
) -> WaitingCall:
    """Masked as it is on record: it is kept in the database, and shown to people."""
    arguments = to.args if isinstance(to, Route) else to.params
    said = {"name": ask.client.name, "version": ask.client.version}
    reason, warning = (to.intent.reason, to.warning) if isinstance(to, Route) else (None, None)
    kept: dict[str, Any] = {
        "tool": to.full_name,
        "client": said,
        "reason": reason and json_values.quoted(reason, MOST_OF_TEXT),
        "warning": warning,
        "principal": ask.principal,
    }
    return WaitingCall(
        id=f"{ID_PREFIX}{new_id}",
        status="waiting",
        server=to.server,
        operation=to.risk,
        arguments=json.loads(masker.payload_text(arguments, MOST_OF_ARGUMENTS)[0]),
        arguments_sha256=confirmation.arguments_digest(arguments),
        question=masker.mask_text(question),  # a client is shown the reason as it is; here it is kept
        asked_at=now,
        expires_at=now + patience,
        activity_id=ask.id,
        **masker.mask(kept),
    )


class Ended(NamedTuple):
    """There will be no answer, and why."""

    why: str


class OpenCall:
    """One that waits in this process: nowhere else can it be let through."""

    __slots__ = ("call", "closes_as", "decision", "is_taken", "name", "writing")

    def __init__(self, call: WaitingCall, name: str, decision: asyncio.Future[WaitingCall | Ended]) -> None:
        self.call = call
        self.name = name
        """Of its record."""
        self.decision = decision
        self.is_taken = False
        """Whether what was decided was taken up: once, and by the call that waits here."""
        self.closes_as: ConfirmationStatus = "cancelled"
        """What becomes of it where nothing was decided."""
        self.writing: asyncio.Task[Any] | None = None

    def decide(self, after: WaitingCall) -> bool:
        """Only for the call as it was shown: the same id, and the same arguments. Whether it was news."""
        same = (after.id, after.arguments_sha256) == (self.call.id, self.call.arguments_sha256)
        if not same or after.status not in ("approved", "denied") or self.decision.done():
            return False
        self.decision.set_result(after)
        return True

    def end(self, why: str) -> None:
        if not self.decision.done():
            self.decision.set_result(Ended(why))

    def take(self) -> WaitingCall | Ended:
        """What was decided, which counts once."""
        assert not self.is_taken
        said = self.decision.result()
        self.is_taken = isinstance(said, WaitingCall)
        return said


def gateway_of(name: str) -> str:
    """Where a call waits, of the name of its record."""
    return name.rpartition("/")[0]


def ids_meant(typed: str, ids: Mapping[str, Any]) -> list[str]:
    """What a short form, or the beginning of an id, can mean."""
    if not ids:
        return []
    ranges = list(id_ranges(typed, millis_of(min(ids)), millis_of(max(ids)), ID_PREFIX))
    return [each for each in ids if any(r.first <= each < r.last and each.endswith(r.ending) for r in ranges)]


def _time(at: float | None) -> str | None:
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
