"""What servers listed when it was approved, and a person's word on what they list now (SEC-3). Only the admin key comes
in here, so no agent does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints

from mcpproxy_py.core.catalog.approval_rules import MAX_NOTES
from mcpproxy_py.core.pins.compare import Judgement
from mcpproxy_py.errors import Code
from mcpproxy_py.gateway.pins.service import MOST_SUBJECTS, PinStep
from mcpproxy_py.serve.rest.endpoint import RestEndpoint, RestRequest
from mcpproxy_py.serve.rest.requests import BodyModel, QueryModel
from mcpproxy_py.serve.rest.responses import ResponseModel


class PinQuery(QueryModel):
    texts: bool = Field(False, description="Whether the approved texts and schemas are wanted too")


class PinDecisionBody(BodyModel):
    seen: Annotated[str, StringConstraints(min_length=1, max_length=128)] = Field(
        description="`seen` of the answer that was looked at: what has changed since is not decided about"
    )
    subjects: Annotated[list[str], Field(min_length=1, max_length=MOST_SUBJECTS)] | None = Field(
        None, description="`tool:NAME`, `prompt:NAME`, `instructions`; without it, all that waits"
    )
    notes: Annotated[str, StringConstraints(max_length=MAX_NOTES)] | None = Field(
        None, description="Why, for the record"
    )
    name: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = Field(
        None, description="Name of the person who decides; the record has the credential too"
    )
    terminal: bool = Field(False, description="Whether there is a terminal")


class PinAnswer(ResponseModel):
    """What is approved of one server, and how much waits."""

    server: str
    trust: Literal["auto", "manual"] | None = Field(description="null where the server is not configured any more")
    tools: int = Field(description="Approved tools")
    prompts: int
    instructions: bool
    waiting: int = Field(description="Subjects that a person has to decide")
    blocked: int = Field(description="Tools that nobody can call until then")
    findings: int = Field(description="Subjects in which the scan found something")
    rejected: list[str]
    unusable: str | None = Field(description="Why the stored pin is not believed, or cannot be read")
    unwritten: bool = Field(description="Whether it is in force and could not be written yet")
    version: int
    by: str | None = Field(description="Who approved last; `policy` is the gateway")
    at: float | None


class PinList(ResponseModel):
    pins: list[PinAnswer]


class DifferenceShown(ResponseModel):
    subject: str
    part: str
    judgement: Judgement
    before: Any
    after: Any
    text: str


class FindingShown(ResponseModel):
    kind: str
    where: str
    excerpt: str
    text: str


class PinInFull(PinAnswer):
    differences: list[DifferenceShown]
    cut: int = Field(description="How many differences are left out here")
    blocked_tools: dict[str, str] = Field(description="And why")
    finding_rows: dict[str, list[FindingShown]] = Field(description="By subject")
    refused: list[str] = Field(description="What a person said no to, and is listed still")
    seen: str | None = Field(description="Of all that waits; a decision names it. null: not listed since the start")
    approved_texts: dict[str, Any] | None = None


async def list_pins(x: RestRequest) -> Mapping[str, Any]:
    return {"pins": x.parts.pins.rows()}


async def show_pin(x: RestRequest) -> Mapping[str, Any]:
    return await x.parts.pins.show(x.path["server"], texts=x.query.texts)


async def approve_pin(x: RestRequest) -> Mapping[str, Any]:
    return await _decide(x, "approve")


async def reject_pin(x: RestRequest) -> Mapping[str, Any]:
    return await _decide(x, "reject")


async def _decide(x: RestRequest, step: PinStep) -> Mapping[str, Any]:
    body = x.body
    said = {"name": body.name, "notes": body.notes, "terminal": body.terminal}
    said = {key: x.parts.masker.mask(value) for key, value in said.items() if value is not None}
    return await x.parts.pins.decide(x.path["server"], step, body.subjects, body.seen, x.caller, said)


_GROUP: Final = "Pins"
_CHANGES: Final = (Code.NOT_FOUND, Code.CONFLICT, Code.STORE_UNAVAILABLE)

ENDPOINTS: Final = (
    RestEndpoint("GET", "/api/v1/pins", _GROUP, "What is approved of each server, and what waits", list_pins, PinList),
    RestEndpoint("GET", "/api/v1/pins/{server}", _GROUP, "One server: what waits, and how it differs", show_pin,
                 PinInFull, query=PinQuery, refusals=(Code.NOT_FOUND,)),
    RestEndpoint("POST", "/api/v1/pins/{server}/approve", _GROUP, "Approve what a server lists now", approve_pin,
                 PinInFull, body=PinDecisionBody, refusals=_CHANGES),
    RestEndpoint("POST", "/api/v1/pins/{server}/reject", _GROUP, "Refuse what a server lists now", reject_pin,
                 PinInFull, body=PinDecisionBody, refusals=_CHANGES),
)  # fmt: skip
