"""What agents ask of a person, and the person's word (CAT-7). Only the admin key comes in here, so no agent does.

What was missing: one ranked report over the record (MISS-3).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mcpproxy_py.core.catalog import gaps
from mcpproxy_py.errors import Code
from mcpproxy_py.gateway.approvals import Step, Verdict
from mcpproxy_py.serve.http.asgi import bad_request
from mcpproxy_py.serve.rest import requests, responses
from mcpproxy_py.serve.rest.endpoint import RestEndpoint, RestRequest
from mcpproxy_py.serve.rest.requests import cursor_of, place_of


async def list_approvals(x: RestRequest) -> Mapping[str, Any]:
    """One more than is shown tells whether there is a next page."""
    rows = await x.parts.approvals.page(x.query.status, before(x.query.cursor), x.query.limit + 1)
    shown = rows[: x.query.limit]
    more = len(rows) > len(shown)
    return {"approvals": shown, "next_cursor": cursor_of(shown[-1]["approval_id"]) if more else None}


async def show_approval(x: RestRequest) -> Mapping[str, Any]:
    return await x.parts.approvals.show(x.path["id"])


async def approve(x: RestRequest) -> Mapping[str, Any]:
    return await _decide(x, "approve")


async def deny(x: RestRequest) -> Mapping[str, Any]:
    return await _decide(x, "deny")


async def _decide(x: RestRequest, step: Step) -> Mapping[str, Any]:
    verdict = Verdict(step, x.body.name, x.body.notes, x.body.terminal)
    return await x.parts.approvals.decide(x.path["id"], verdict, x.caller)


def before(cursor: str | None) -> str | None:
    try:
        return place_of(cursor) if cursor is not None else None
    except ValueError:
        raise bad_request("cursor was not issued by this gateway", parameter="cursor") from None


_GROUP: Final = "Approvals"
_SHORT_IDS: Final = (
    "The id may be a short form, or the beginning of an id; `apr_` can be left out. One that several requests have is "
    "a 400, whose `details.candidates` are these, and nothing is decided."
)
_CHANGES: Final = (Code.NOT_FOUND, Code.CONFLICT, Code.STORE_UNAVAILABLE)

APPROVAL_ENDPOINTS: Final = (
    RestEndpoint("GET", "/api/v1/approvals", _GROUP, "Requests by agents for a server, newest first", list_approvals,
             responses.ApprovalList, query=requests.ApprovalPage, refusals=(Code.STORE_UNAVAILABLE,)),
    RestEndpoint("GET", "/api/v1/approvals/{id}", _GROUP, "One request", show_approval, responses.ApprovalAnswer,
             more=_SHORT_IDS,
             refusals=(Code.NOT_FOUND, Code.STORE_UNAVAILABLE)),
    RestEndpoint("POST", "/api/v1/approvals/{id}/approve", _GROUP, "Approve a request; connects nothing", approve,
             responses.ApprovalAnswer, more=_SHORT_IDS, body=requests.DecisionBody, refusals=_CHANGES),
    RestEndpoint("POST", "/api/v1/approvals/{id}/deny", _GROUP, "Deny a request", deny, responses.ApprovalAnswer,
             more=_SHORT_IDS, body=requests.DecisionBody, refusals=_CHANGES),
)  # fmt: skip


LOOK_BACK: Final = timedelta(days=30)
APPROXIMATE: Final = ("passive", "unmet_search")
"""Guessed from turns of phrase, and from what the same client did next."""


async def report_gaps(x: RestRequest) -> Mapping[str, Any]:
    await x.parts.store.caught_up()
    since: datetime = x.query.since or datetime.now(UTC) - LOOK_BACK
    seen = await x.parts.store.gaps.seen(max(0, int(since.timestamp() * 1000)))
    found = gaps.report(seen.sightings)
    return {
        "gaps": [_shown(gap) for gap in found[: x.query.limit]],
        "total": len(found),
        "since": _time(since),
        "approximate": list(APPROXIMATE),
        "cut": seen.cut,
    }


def _shown(gap: Mapping[str, Any]) -> dict[str, Any]:
    """With times as they are everywhere in this interface."""
    kept = {key: value for key, value in gap.items() if not key.endswith("_ms")}
    times = {key.removesuffix("_ms"): gap[key] for key in gap if key.endswith("_ms")}
    return kept | {key: _time(datetime.fromtimestamp(millis / 1000, UTC)) for key, millis in times.items()}


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


GAP_ENDPOINTS: Final = (
    RestEndpoint("GET", "/api/v1/gaps", "Gaps", "What was missing: requested, hinted at, not found, refused, failing",
             report_gaps, responses.GapReport, query=requests.GapQuery, refusals=(Code.STORE_UNAVAILABLE,)),
)  # fmt: skip
