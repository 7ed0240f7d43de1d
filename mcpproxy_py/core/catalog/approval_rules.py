"""Requests for a capability, from the asking to a person's decision: every rule, and no storage (CAT-6, CAT-7).

An agent asks; a person decides; nothing else happens. An approval connects nothing and opens nothing, it is the
durable word of a person that the server may be connected.

The life of a request:

| from | step | to | who |
|---|---|---|---|
| (none) | submit | pending | an agent, through `submit` |
| pending | approve | approved | a person |
| pending | deny | denied | a person |
| pending | expire | expired | time, when `expires_at_ms` is reached |

Everything else is refused: decided requests are final and expired ones stay expired. A store keeps `Request`
values, calls `submit` and `decide` inside one transaction on what it read there, and writes what comes back.

What an agent may ask of a person, checked and bounded field by field (CAT-6).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from mcpproxy_py.core import json_values
from mcpproxy_py.core.catalog.model import NotAnswered, key

ID_PREFIX: Final = "apr_"
MOST_TOOLS: Final = 50
MAX_CONTEXT: Final = 8_000
TEXT_LIMITS: Final[Mapping[str, int]] = {"agent_id": 128, "mcp_name": 128, "rationale": 2_000, "catalog_slug": 128}
MAX_TOOL_NAME: Final = 256


@dataclass(frozen=True, slots=True)
class CapabilityWish:
    """What an agent asks for, checked. `subject` is what makes two wishes the same."""

    agent_id: str
    mcp_name: str
    rationale: str
    catalog_slug: str | None = None
    requested_tools: tuple[str, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])
    expires_at_ms: int | None = None

    @property
    def subject(self) -> str:
        """The server alone: a denied wish must not come back by naming another tool, agent or reason."""
        return key(self.catalog_slug or self.mcp_name)


def retargeted(wished: CapabilityWish, slug: str | None, server: str | None) -> CapabilityWish:
    """The wish under the slug of its catalog entry or the name of its configured server, where it has one: two
    spellings of one server are one subject."""
    return replace(wished, catalog_slug=slug, mcp_name=wished.mcp_name if slug or server is None else server)


def parse_wish(arguments: Mapping[str, Any]) -> CapabilityWish:
    """The arguments of `mcp_request_capability` as a wish. Raises `NotAnswered` with what is wrong."""
    texts = {name: _text(arguments, name) for name in TEXT_LIMITS}
    for name in ("agent_id", "mcp_name", "rationale"):
        if texts[name] is None:
            raise NotAnswered(f"{name} is required and must not be empty")
    if not key(texts["mcp_name"] or ""):
        raise NotAnswered("mcp_name must name a server with letters or digits, like notion")
    return CapabilityWish(
        agent_id=texts["agent_id"] or "",
        mcp_name=texts["mcp_name"] or "",
        rationale=texts["rationale"] or "",
        catalog_slug=texts["catalog_slug"],
        requested_tools=_tools(arguments.get("requested_tools")),
        context=_context(arguments.get("context")),
        expires_at_ms=_whole(arguments.get("expires_at_ms")),
    )


def _text(arguments: Mapping[str, Any], name: str) -> str | None:
    value = arguments.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise NotAnswered(f"{name} must be a string, not {json_values.kind(value)}")
    if flaw := json_values.flaw(value):
        raise NotAnswered(f"{name}: {flaw}")
    text = value.strip()
    if len(text) > TEXT_LIMITS[name]:
        raise NotAnswered(f"{name} is {len(text)} characters long; at most {TEXT_LIMITS[name]} are allowed")
    return text or None


def _tools(value: Any) -> tuple[str, ...]:
    names = [] if value is None else json_values.as_array(value)
    if names is None:
        raise NotAnswered(f"requested_tools must be an array of tool names, not {json_values.kind(value)}")
    if len(names) > MOST_TOOLS:
        raise NotAnswered(f"requested_tools has {len(names)} entries; at most {MOST_TOOLS} are allowed")
    return tuple(dict.fromkeys(_tool(name) for name in names))


def _tool(name: Any) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_TOOL_NAME or not name.isprintable():
        raise NotAnswered(f"requested_tools: '{json_values.quoted(name)}' is not the name of a tool")
    return name.strip()


def _context(value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    context = json_values.as_object(value)
    if context is None:
        raise NotAnswered(f"context must be an object, not {json_values.kind(value)}")
    if flaw := json_values.flaw(context):
        raise NotAnswered(f"context: {flaw}")
    size = len(json.dumps(context, ensure_ascii=False))
    if size > MAX_CONTEXT:
        raise NotAnswered(f"context is {size} characters of JSON; at most {MAX_CONTEXT} are allowed")
    return context


def _whole(value: Any) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise NotAnswered(f"expires_at_ms must be a whole number of milliseconds since 1970, not {json_values.kind(value)}")


Status = Literal["pending", "approved", "denied", "expired"]
Step = Literal["approve", "deny", "expire"]

STATUSES: Final[tuple[Status, ...]] = ("pending", "approved", "denied", "expired")
TRANSITIONS: Final[Mapping[tuple[Status, Step], Status]] = {
    ("pending", "approve"): "approved",
    ("pending", "deny"): "denied",
    ("pending", "expire"): "expired",
}

MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
DEFAULT_LIFE: Final = 72 * HOUR
SHORTEST_LIFE: Final = MINUTE
LONGEST_LIFE: Final = 30 * 24 * HOUR
DENIAL_HOLDS: Final = 24 * HOUR
MOST_PENDING: Final = 20

MAX_NOTES: Final = 2_000


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """A person's decision: who, from where, and whether a terminal was there."""

    by: str
    source: Literal["cli", "api", "ui"]
    terminal: bool
    at_ms: int
    notes: str | None = None


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """One request as it is kept. `principal` is who was authenticated; `wish.agent_id` is only a label."""

    id: str
    principal: str
    wish: CapabilityWish
    created_at_ms: int
    expires_at_ms: int
    status: Status = "pending"
    review: ApprovalDecision | None = None
    sealed: bool = True
    """Whether it is known to be what a gateway wrote; if not, somebody else changed it where it is kept."""

    def as_json(self) -> dict[str, Any]:
        """The approval object, with exactly the documented keys."""
        return {
            "approval_id": self.id,
            "request_type": "capability_request",
            "requested_by": {"kind": "agent"},
            "target_resource": {"type": "agent", "id": self.wish.agent_id},
            "rationale": self.wish.rationale,
            "context": self._context(),
            "status": self.status,
            "expires_at_ms": self.expires_at_ms,
            "reviewed_by": self.review.by if self.review else None,
            "reviewed_at_ms": self.review.at_ms if self.review else None,
            "review_notes": self.review.notes if self.review else None,
        }

    def in_full(self) -> dict[str, Any]:
        """The same, with what only a person is shown."""
        return {
            **self.as_json(),
            "principal": self.principal,
            "created_at_ms": self.created_at_ms,
            "reviewed_from": self.review.source if self.review else None,
            "reviewed_on_terminal": self.review.terminal if self.review else None,
            "sealed": self.sealed,
        }

    def _context(self) -> dict[str, Any]:
        said = {"mcp_name": self.wish.mcp_name, "catalog_slug": self.wish.catalog_slug,
                "requested_tools": list(self.wish.requested_tools), "details": dict(self.wish.context)}  # fmt: skip
        return {name: value for name, value in said.items() if value}


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of a wish. Only a `fresh` one is to be stored; the others are requests from before."""

    request: ApprovalRequest
    fresh: bool


@dataclass(frozen=True, slots=True)
class NotAccepted:
    """A wish or a decision that is turned down, in words for whoever asked."""

    message: str


def submit(
    wish: CapabilityWish, principal: str, known: Iterable[ApprovalRequest], *, new_id: str, now_ms: int
) -> Submitted | NotAccepted:
    """The request this wish becomes, or the one it is already.

    `known` are this principal's requests (others are ignored), in any order. The same subject gets back, in this
    order: its pending request; its approved one while that lasts; its denied one for 24 hours.
    """
    if problem := _life_problem(wish.expires_at_ms, now_ms):
        return NotAccepted(problem)
    mine = [expired(one, now_ms) for one in known if one.principal == principal]
    if earlier := _earlier(mine, wish.subject, now_ms):
        return Submitted(earlier, fresh=False)
    waiting = sum(one.status == "pending" for one in mine)
    if waiting >= MOST_PENDING:
        return NotAccepted(
            f"{waiting} of your requests wait for a person already; at most {MOST_PENDING} may. Nothing was filed."
        )
    life = wish.expires_at_ms if wish.expires_at_ms is not None else now_ms + DEFAULT_LIFE
    return Submitted(ApprovalRequest(f"{ID_PREFIX}{new_id}", principal, wish, now_ms, life), fresh=True)


def _earlier(mine: Sequence[ApprovalRequest], subject: str, now_ms: int) -> ApprovalRequest | None:
    same = sorted((one for one in mine if one.wish.subject == subject), key=lambda one: -one.created_at_ms)
    for status in ("pending", "approved", "denied"):
        for one in same:
            if one.status == status and _still_counts(one, now_ms):
                return one
    return None


def _still_counts(one: ApprovalRequest, now_ms: int) -> bool:
    if one.status == "denied":
        return one.review is None or now_ms < one.review.at_ms + DENIAL_HOLDS
    return now_ms < one.expires_at_ms


def _life_problem(expires_at_ms: int | None, now_ms: int) -> str | None:
    if expires_at_ms is None:
        return None
    given, latest = json_values.quoted(expires_at_ms), now_ms + LONGEST_LIFE
    if expires_at_ms < now_ms + SHORTEST_LIFE:
        return f"expires_at_ms must be at least a minute from now (now is {now_ms}), not {given}"
    if expires_at_ms > latest:
        return f"expires_at_ms may be at most 30 days from now ({latest}), not {given}"
    return None


def expired(request: ApprovalRequest, now_ms: int) -> ApprovalRequest:
    """The request as time has left it. Apply it to whatever is read from storage."""
    late = request.status == "pending" and now_ms >= request.expires_at_ms
    return replace(request, status=TRANSITIONS[request.status, "expire"]) if late else request


def decide(
    request: ApprovalRequest, step: Literal["approve", "deny"], review: ApprovalDecision
) -> ApprovalRequest | NotAccepted:
    """The request after a person's decision. That it is a person is for the caller to see to."""
    if review.notes is not None and len(review.notes) > MAX_NOTES:
        return NotAccepted(f"notes are {len(review.notes)} characters long; at most {MAX_NOTES} are allowed")
    current = expired(request, review.at_ms)
    after = TRANSITIONS.get((current.status, step))
    if after is None:
        return NotAccepted(f"{request.id} is {current.status} and stays so; only pending requests can be decided")
    return replace(current, status=after, review=review)
