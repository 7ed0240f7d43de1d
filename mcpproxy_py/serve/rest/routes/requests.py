"""What agents ask of a person, and the person's word (CAT-7). Only the admin key comes in here, so no agent does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.errors import Code
from mcpproxy_py.gateway.approvals import Step, Verdict
from mcpproxy_py.serve.http.asgi import bad_request
from mcpproxy_py.serve.rest import requests, responses
from mcpproxy_py.serve.rest._serve_endpoint import Endpoint, Exchange
from mcpproxy_py.serve.rest.cursor import cursor_of, place_of


async def list_approvals(x: Exchange) -> Mapping[str, Any]:
    """One more than is shown tells whether there is a next page."""
    rows = await x.parts.approvals.page(x.query.status, _before(x.query.cursor), x.query.limit + 1)
    shown = rows[: x.query.limit]
    more = len(rows) > len(shown)
    return {"approvals": shown, "next_cursor": cursor_of(shown[-1]["approval_id"]) if more else None}


async def show_approval(x: Exchange) -> Mapping[str, Any]:
    return await x.parts.approvals.show(x.path["id"])


async def approve(x: Exchange) -> Mapping[str, Any]:
    return await _decide(x, "approve")


async def deny(x: Exchange) -> Mapping[str, Any]:
    return await _decide(x, "deny")


async def _decide(x: Exchange, step: Step) -> Mapping[str, Any]:
    verdict = Verdict(step, x.body.name, x.body.notes, x.body.terminal)
    return await x.parts.approvals.decide(x.path["id"], verdict, x.caller)


def _before(cursor: str | None) -> str | None:
    try:
        return place_of(cursor) if cursor is not None else None
    except ValueError:
        raise bad_request("cursor was not issued by this gateway", parameter="cursor") from None


_GROUP: Final = "Approvals"
_CHANGES: Final = (Code.NOT_FOUND, Code.CONFLICT, Code.STORE_UNAVAILABLE)

ENDPOINTS: Final = (
    Endpoint("GET", "/api/v1/approvals", _GROUP, "Requests by agents for a server, newest first", list_approvals,
             responses.Approvals, query=requests.ApprovalPage, refusals=(Code.STORE_UNAVAILABLE,)),
    Endpoint("GET", "/api/v1/approvals/{id}", _GROUP, "One request", show_approval, responses.ApprovalAnswer,
             refusals=(Code.NOT_FOUND, Code.STORE_UNAVAILABLE)),
    Endpoint("POST", "/api/v1/approvals/{id}/approve", _GROUP, "Approve a request; connects nothing", approve,
             responses.ApprovalAnswer, body=requests.Decision, refusals=_CHANGES),
    Endpoint("POST", "/api/v1/approvals/{id}/deny", _GROUP, "Deny a request", deny, responses.ApprovalAnswer,
             body=requests.Decision, refusals=_CHANGES),
)  # fmt: skip
