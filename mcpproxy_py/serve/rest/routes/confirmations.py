"""Calls that wait for a person outside of their clients, and that person's word (SEC-10). Only the admin key comes in
here, so no agent does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import Field

from mcpproxy_py.core.values import Operation
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.gateway.approvals import Step, Verdict
from mcpproxy_py.gateway.confirmation.waiting_call import ConfirmationStatus
from mcpproxy_py.serve.rest.endpoint import RestEndpoint, RestRequest
from mcpproxy_py.serve.rest.requests import DecisionBody, QueryModel, Text, cursor_of
from mcpproxy_py.serve.rest.responses import ClientAnswer, ResponseModel
from mcpproxy_py.serve.rest.routes.requests import before


class ConfirmationPage(QueryModel):
    status: ConfirmationStatus | None = Field(None, description="Only those in this state")
    limit: int = Field(100, ge=1, le=500, description="Calls per page")
    cursor: Text | None = Field(None, description="`next_cursor` of the page before")


class ConfirmationBody(DecisionBody):
    arguments_sha256: str = Field(
        pattern="^[0-9a-f]{64}$", description="Of the call as it was shown; a decision is about these arguments only"
    )


class WhoDecided(ResponseModel):
    principal: str = Field(description="The credential")
    name: str | None = Field(description="The name given with it")
    source: Literal["cli", "api", "ui"]
    terminal: bool = Field(description="Whether there was a terminal")


class ConfirmationAnswer(ResponseModel):
    """A call that waits for a person, or waited lately."""

    id: str
    status: ConfirmationStatus
    tool: str = Field(description="As server:tool")
    server: str
    operation: Operation = Field(description="The risk of the call")
    principal: str = Field(description="Who asks, as the gateway determined it")
    client: ClientAnswer
    reason: str | None = Field(description="The agent's words, which nobody checked")
    arguments: Any = Field(description="Masked; of large ones a preview")
    arguments_sha256: str = Field(description="Of all of them; to be sent with the decision")
    warning: str | None
    question: str = Field(description="What a client would show, value by value")
    asked_at: str
    expires_at: str
    decided_at: str | None
    decided_by: WhoDecided | None
    notes: str | None
    delivered: bool | None = Field(
        description="Of a yes: whether the gateway where the call waits has it. While it has not, nothing runs, and "
        "where that gateway has died, nothing will"
    )
    activity_id: str = Field(description="The record of the call, which says what became of it")


class ConfirmationList(ResponseModel):
    confirmations: list[ConfirmationAnswer]
    next_cursor: str | None


async def list_confirmations(x: RestRequest) -> Mapping[str, Any]:
    """One more than is shown tells whether there is a next page."""
    rows = await x.parts.confirmations.page(x.query.status, before(x.query.cursor), x.query.limit + 1)
    shown = rows[: x.query.limit]
    return {"confirmations": shown, "next_cursor": cursor_of(shown[-1]["id"]) if len(rows) > len(shown) else None}


async def show_confirmation(x: RestRequest) -> Mapping[str, Any]:
    return await x.parts.confirmations.show(x.path["id"])


async def approve_call(x: RestRequest) -> Mapping[str, Any]:
    return await _decide(x, "approve")


async def deny_call(x: RestRequest) -> Mapping[str, Any]:
    return await _decide(x, "deny")


async def _decide(x: RestRequest, step: Step) -> Mapping[str, Any]:
    """An agent never decides, whatever let it in here."""
    if x.caller.access is not None:
        raise GatewayError(Code.UNAUTHORIZED, "This needs the admin key")
    verdict = Verdict(step, x.body.name, x.body.notes, x.body.terminal)
    return await x.parts.confirmations.decide(x.path["id"], x.body.arguments_sha256, verdict, x.caller)


_GROUP: Final = "Confirmations"
_SHORT_IDS: Final = (
    "The id may be a short form, or the beginning of an id; `call_` can be left out. One that several calls have is a "
    "400, whose `details.candidates` are these, and nothing is decided."
)
_ONCE: Final = (
    f"{_SHORT_IDS} The digest has to be that of the call that waits. Of two decisions the first counts; the other is a "
    "409, as is one about a call that waits no longer, or whose gateway has died. A yes is used once, by that call, "
    "which is decided again then."
)
_CHANGES: Final = (Code.NOT_FOUND, Code.CONFLICT, Code.STORE_UNAVAILABLE)

CONFIRMATION_ENDPOINTS: Final = (
    RestEndpoint("GET", "/api/v1/confirmations", _GROUP, "Calls that wait for a person, and the last that did",
                 list_confirmations, ConfirmationList, query=ConfirmationPage, refusals=(Code.STORE_UNAVAILABLE,),
                 more="The newest first. The record has all of them; here are the last thousand of each gateway."),
    RestEndpoint("GET", "/api/v1/confirmations/{id}", _GROUP, "One of them", show_confirmation, ConfirmationAnswer,
                 more=_SHORT_IDS, refusals=(Code.NOT_FOUND, Code.STORE_UNAVAILABLE)),
    RestEndpoint("POST", "/api/v1/confirmations/{id}/approve", _GROUP, "Say yes to a call", approve_call,
                 ConfirmationAnswer, more=_ONCE, body=ConfirmationBody, refusals=_CHANGES),
    RestEndpoint("POST", "/api/v1/confirmations/{id}/deny", _GROUP, "Say no to a call", deny_call, ConfirmationAnswer,
                 more=_ONCE, body=ConfirmationBody, refusals=_CHANGES),
)  # fmt: skip
