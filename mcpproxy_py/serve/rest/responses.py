"""What is answered over REST: for the OpenAPI document and for the tests that hold every answer to it.

Nothing is checked against these models on the way out: what a tool or a record holds goes out whole.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mcpproxy_py.core.catalog.approval_rules import Status as ApprovalStatus
from mcpproxy_py.core.values import ServerState, Source, Status, ToolClass
from mcpproxy_py.errors import Code


class ResponseModel(BaseModel):
    """An answer may gain keys later; clients skip what they do not know.

    Built when first used, as are the questions: building all of them would be a twentieth of the start.
    """

    model_config = ConfigDict(extra="allow", defer_build=True)


class ErrorShape(ResponseModel):
    code: Code
    message: str = Field(description="For people")
    hint: str = Field(description="What to do about it")
    details: dict[str, Any]


class ErrorAnswer(ResponseModel):
    error: ErrorShape


class Health(ResponseModel):
    status: Literal["ok", "ready"]


class Proof(ResponseModel):
    """Over the lines: what it is for, the asker's nonce, `nonce`, `port`."""

    nonce: str = Field(description="The gateway's own")
    port: int = Field(description="The port that it listens on")
    proof: str = Field(description="HMAC-SHA256 with the admin key, in hexadecimal")


class StatusAnswer(ResponseModel):
    """What runs here: version, address, switches, counts."""

    version: str
    frozen: bool


class FindingAnswer(ResponseModel):
    subject: str
    state: Literal["ok", "warning", "problem"]
    says: str = Field(description="What is so; where it is a problem, how to mend it too")


class HealthAnswer(ResponseModel):
    healthy: bool = Field(description="Whether nothing is a problem; warnings may be there")
    findings: list[FindingAnswer]


class ConfigAnswer(ResponseModel):
    """The configuration in force; secrets are masked."""


class OpenApiAnswer(ResponseModel):
    openapi: str
    paths: dict[str, Any]


class ToolsByClass(ResponseModel):
    read: int
    write: int
    destructive: int
    unknown: int = Field(description="Without hints that say, and without an override")


class ServerAnswer(ResponseModel):
    name: str
    state: ServerState | None = None
    wanted_scope: str | None = Field(
        None, description="What it turned a call away for: a permission that its login did not give"
    )
    tools_by_class: ToolsByClass | None = Field(
        None, description="How many of its tools are of each class, by the highest a call can have"
    )
    unannotated_tools: list[str] | None = Field(
        default=None, description="Tools that have neither hints nor an override, and can be called; 1,000 at most"
    )
    unannotated_as: str | None = Field(
        default=None, description="What such tools count as: `intent_declaration.unannotated`"
    )


class ServerInFull(ResponseModel):
    server: ServerAnswer
    config: dict[str, Any] | None = Field(
        description="Its entry in the configuration file as it is written, secrets masked; null where it is not there"
    )


class ServerList(ResponseModel):
    servers: list[ServerAnswer]


class OneServer(ResponseModel):
    server: ServerAnswer


class ToolClassesSet(ResponseModel):
    server: str
    tools: dict[str, Any]
    before: dict[str, Any] = Field(description="The overrides that stood there; null where there was none")


class Removed(ResponseModel):
    removed: str


class LogLines(ResponseModel):
    server: str
    lines: list[str]


class ToolAnswer(ResponseModel):
    name: str = Field(description="server:tool")
    server: str
    description: str
    annotations: dict[str, Any] = Field(description="As the server gave them")
    tool_class: ToolClass = Field(alias="class", description="The highest class it can have")
    class_origin: str = Field(description="Where the class comes from")
    call_with: str = Field(description="The variant to call it with")
    inputSchema: dict[str, Any]
    callable: bool
    unavailable_reason: str | None


class Tools(ResponseModel):
    tools: list[ToolAnswer]
    next_cursor: str | None


class FoundTools(ResponseModel):
    id: str = Field(description="The activity record of this search")
    tools: list[dict[str, Any]]
    usage_instructions: str
    total: int
    unavailable: dict[str, int]


class CallAnswer(ResponseModel):
    id: str = Field(description="The activity record of this call")
    status: Status
    result: dict[str, Any] = Field(description="The MCP tool result, whole; `isError` in it is the tool's own failure")
    warning: str | None


class Question(ResponseModel):
    """What a person has to be asked before this call; nothing is sent and nothing recorded."""

    question: str | None = Field(description="The text to show, `null` where nobody has to be asked")
    token: str | None = Field(description="To be sent with the answer, once, within five minutes")


class Explanation(ResponseModel):
    """Every rung of the decision, run dry; nothing is sent and nothing recorded."""

    variant: str
    rungs: list[dict[str, Any]]


class Frozen(ResponseModel):
    frozen: bool


class ClientAnswer(ResponseModel):
    name: str
    version: str


class ActivityAnswer(ResponseModel):
    id: str
    type: str
    source: Source
    server: str | None
    tool: str
    arguments: Any = Field(description="Masked and capped")
    response: Any = Field(description="Masked and capped")
    arguments_size: int = Field(description="Bytes before capping")
    response_size: int | None
    status: Status
    error: dict[str, Any] | None
    duration_ms: float | None
    timestamp: datetime
    session_id: str | None
    request_id: str | None
    client: ClientAnswer
    principal: str
    metadata: dict[str, Any]


class RecordedRung(ResponseModel):
    number: int | None = Field(description="Its place on the ladder; `null` for what stopped the call after that")
    rule: str
    looks_at: str = Field(description="For people")
    outcome: Literal["passed", "failed", "not reached"]
    message: str


class RecordedRound(ResponseModel):
    at: datetime
    kind: Literal["input_required", "answered", "confirmed", "sent_again"] = Field(
        description="The server or the gateway asked the client, the client answered, a person said yes, or the "
        "request was sent to the server once more"
    )
    methods: list[str] = Field(description="What was asked")
    answers: Any = Field(None, description="What the client answered, masked and capped; gone where it was erased")
    forwarded: dict[str, str] | None = Field(None, description="What of the client's `_meta` went along with it")


class ActivityInFull(ActivityAnswer):
    rounds: list[RecordedRound] = Field(
        description="What went on between the call and its end, the first 100 of it; the chain has all"
    )
    rungs: list[RecordedRung] = Field(
        description="The ladder of the decision, as far as the record tells; empty for what was not decided on one"
    )


class Activities(ResponseModel):
    activities: list[ActivityAnswer]
    next_cursor: str | None


class Summary(ResponseModel):
    """Of the records that match; each group lists its most frequent values."""

    total: int
    by_status: dict[str, int]
    by_type: dict[str, int]
    by_intent_type: dict[str, int]
    by_server: dict[str, int]
    by_tool: dict[str, int]
    by_day: dict[str, int] = Field(description="The latest days, UTC")
    by_hour: dict[str, int] = Field(description="The latest hours of eight days, by their beginning")
    by_hour_and_intent_type: dict[str, dict[str, int]] = Field(
        description="The same hours by what was declared: `read`, `write`, `destructive`, or `none`"
    )
    by_client: dict[str, int] = Field(description="Clients of the newest `sampled` records, as they name themselves")
    by_rule: dict[str, int] = Field(description="What refused, of the newest refusals")
    sampled: int = Field(description="So many records were read one by one")
    exact: bool = Field(
        description="Whether these are all that match; then durations are exact, and else to some percent"
    )
    duration_ms: dict[str, float | None] = Field(description="`p50` and `p95`")
    duration_ms_by_server: dict[str, dict[str, float | None]]
    duration_ms_by_tool: dict[str, dict[str, float | None]]


class VerifyFinding(ResponseModel):
    kind: Literal["changed", "missing", "swapped", "added", "cut", "damaged"]
    message: str


class Verified(ResponseModel):
    """What reading every event and every record found."""

    result: Literal["intact", "broken", "not_verifiable"] = Field(
        description="`not_verifiable` where nothing is wrong as far as could be seen, and not all could be checked"
    )
    intact: bool
    events: int
    rows: int
    wrong: int = Field(description="Number of findings; `findings` has the first hundred")
    chains: list[dict[str, Any]] = Field(description="Each gateway's chain; one sealed with another key is not checked")
    findings: list[VerifyFinding]
    unverified: list[str] = Field(description="What could not be checked, in words")


class AnchorAnswer(ResponseModel):
    """The head of this gateway's chain, to be kept elsewhere."""

    anchor: str = Field(description="All of it in one line, as `activity verify --anchor` takes it")
    chain: str
    seq: int = Field(description="So many events the chain has")
    mac: str = Field(description="The hash of the last one")
    at: str


class NewKey(ResponseModel):
    key: str = Field(description="The new admin key; the old one is not valid any more")


class ApprovalAnswer(ResponseModel):
    approval_id: str
    request_type: Literal["capability_request"]
    requested_by: dict[str, str]
    target_resource: dict[str, str]
    rationale: str
    context: dict[str, Any]
    status: ApprovalStatus
    expires_at_ms: int
    reviewed_by: str | None = Field(description="The credential, and the name given with it")
    reviewed_at_ms: int | None
    review_notes: str | None
    principal: str = Field(description="The identity of the caller, as the gateway determined it")
    created_at_ms: int
    reviewed_from: Literal["cli", "api", "ui"] | None
    reviewed_on_terminal: bool | None
    sealed: bool = Field(description="Whether it is as a gateway wrote it; if not, it counts as pending at most")
    connect_command: str | None = Field(description="What would connect it; an approval alone changes nothing")


class ApprovalList(ResponseModel):
    approvals: list[ApprovalAnswer]
    next_cursor: str | None


class GapExample(ResponseModel):
    text: str
    kind: str
    id: str = Field(description="The activity record")


class GapAnswer(ResponseModel):
    capability: str = Field(description="What was missing, in the words used most; or the tool, as server:tool")
    count: int
    kinds: dict[str, int] = Field(description="How often it was seen, and how")
    examples: list[GapExample]
    first_seen: datetime
    last_seen: datetime


class GapReport(ResponseModel):
    """Explicit requests first, then by weight."""

    gaps: list[GapAnswer]
    total: int
    since: datetime
    approximate: list[str] = Field(description="Kinds that are guesses")
    cut: list[str] = Field(description="Kinds of which only the newest records were read")


class VisibleTool(ResponseModel):
    name: str = Field(description="server:tool")
    server: str
    description: str
    inputSchema: dict[str, Any]
    annotations: dict[str, Any] = Field(description="As the server gave them")
    call_with: str = Field(description="The variant to call it with")


class VisibleTools(ResponseModel):
    tools: list[VisibleTool]


class ToolIds(ResponseModel):
    ids: list[str] = Field(description="server:tool")


class CatalogAnswer(ResponseModel):
    servers: list[dict[str, Any]]
    overlay: dict[str, Any]


class Requested(ResponseModel):
    ok: Literal[True]
    approval: dict[str, Any] | None
    requested_by: dict[str, str]
    classification: dict[str, Any]
