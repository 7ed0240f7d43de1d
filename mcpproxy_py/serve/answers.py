"""What is answered over REST: for the OpenAPI document and for the tests that hold every answer to it.

Nothing is checked against these models on the way out: what a tool or a record holds goes out whole.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mcpproxy_py.core.values import ServerState, Source, Status, ToolClass
from mcpproxy_py.errors import Code


class Answer(BaseModel):
    """An answer may gain keys later; clients skip what they do not know."""

    model_config = ConfigDict(extra="allow")


class ErrorShape(Answer):
    code: Code
    message: str = Field(description="For people")
    hint: str = Field(description="What to do about it")
    details: dict[str, Any]


class Problem(Answer):
    error: ErrorShape


class Health(Answer):
    status: Literal["ok", "ready"]


class StatusAnswer(Answer):
    """What runs here: version, address, switches, counts."""

    version: str
    frozen: bool


class ConfigAnswer(Answer):
    """The configuration in force; secrets are masked."""


class OpenApiAnswer(Answer):
    openapi: str
    paths: dict[str, Any]


class ServerAnswer(Answer):
    name: str
    state: ServerState | None = None


class Servers(Answer):
    servers: list[ServerAnswer]


class OneServer(Answer):
    server: ServerAnswer


class Removed(Answer):
    removed: str


class LogLines(Answer):
    server: str
    lines: list[str]


class ToolAnswer(Answer):
    name: str = Field(description="server:tool")
    server: str
    description: str
    annotations: dict[str, Any] = Field(description="As the server gave them")
    tool_class: ToolClass = Field(alias="class", description="The highest class it can have")
    class_origin: str = Field(description="Who says so")
    call_with: str = Field(description="The variant to call it with")
    inputSchema: dict[str, Any]
    callable: bool
    unavailable_reason: str | None


class Tools(Answer):
    tools: list[ToolAnswer]
    next_cursor: str | None


class FoundTools(Answer):
    id: str = Field(description="The activity record of this search")
    tools: list[dict[str, Any]]
    usage_instructions: str
    total: int
    unavailable: dict[str, int]


class CallAnswer(Answer):
    id: str = Field(description="The activity record of this call")
    status: Status
    result: dict[str, Any] = Field(description="The MCP tool result, whole; `isError` in it is the tool's own failure")
    warning: str | None


class Explanation(Answer):
    """Every rung of the decision, run dry; nothing is sent and nothing recorded."""

    variant: str
    rungs: list[dict[str, Any]]


class Frozen(Answer):
    frozen: bool


class ClientAnswer(Answer):
    name: str
    version: str


class ActivityAnswer(Answer):
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


class Activities(Answer):
    activities: list[ActivityAnswer]
    next_cursor: str | None


class Summary(Answer):
    """Of the records that match; each group lists its most frequent values."""

    total: int
    by_status: dict[str, int]
    by_type: dict[str, int]
    by_intent_type: dict[str, int]
    by_server: dict[str, int]
    by_tool: dict[str, int]
    by_day: dict[str, int] = Field(description="The latest days, UTC")
    duration_ms: dict[str, float | None] = Field(description="`p50` and `p95`, to some percent")
    duration_ms_by_server: dict[str, dict[str, float | None]]
    duration_ms_by_tool: dict[str, dict[str, float | None]]


class Finding(Answer):
    kind: Literal["changed", "missing", "swapped", "added", "cut", "damaged"]
    message: str


class Verified(Answer):
    """What reading every event and every record found."""

    intact: bool
    events: int
    rows: int
    wrong: int = Field(description="How much is wrong; `findings` names the first hundred")
    chains: list[dict[str, Any]] = Field(description="Each gateway's chain; one sealed with another key is not checked")
    findings: list[Finding]


class NewKey(Answer):
    key: str = Field(description="The admin key from now on; the old one is void")
