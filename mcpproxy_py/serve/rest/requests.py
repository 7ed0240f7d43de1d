"""What may be asked over REST. One model gives the check, the schema and the reference.

From text to checked values, and sentences for what is wrong: no parameter is ever skipped in silence.

Places in a list, as text nobody is meant to take apart. The digest finds slips and meddling, not forgers:
whoever may send a cursor may read the whole list anyway.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import parse_qsl

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import ErrorDetails, from_json
from starlette.requests import Request

from mcpproxy_py.core.catalog.approval_rules import MAX_NOTES
from mcpproxy_py.core.catalog.approval_rules import Status as ApprovalStatus
from mcpproxy_py.core.json_size import MAX_BODY_VALUES, SMALL, seconds
from mcpproxy_py.core.json_values import kind, quoted
from mcpproxy_py.core.protocol.admin_key_proof import NONCE
from mcpproxy_py.core.search.tokens import nearest
from mcpproxy_py.core.values import OPERATIONS, SENSITIVITIES, Operation, Status
from mcpproxy_py.errors import GatewayError
from mcpproxy_py.serve.http.asgi import bad_request
from mcpproxy_py.upstream.session.large_messages import measured
from mcpproxy_py.upstream.turns import TURNS

ActivityType = Literal[
    "tool_call", "tool_search", "resource_read", "prompt_get", "completion", "request", "server_request",
    "config_change", "approval",
]  # fmt: skip

_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def _rfc3339(value: object) -> object:
    """Only a time that means one instant; pydantic alone would take a bare number or a date too."""
    if isinstance(value, str) and not _RFC3339.fullmatch(value):
        mended = " (a + in a URL is written %2B)" if _RFC3339.fullmatch(value.replace(" ", "+")) else ""
        raise ValueError(f"must be a time with a zone, like 2026-01-31T09:00:00Z{mended}")
    return value


Time = Annotated[datetime, BeforeValidator(_rfc3339)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
ToolText = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class QueryModel(BaseModel):
    """Parameters in a URL: text that must mean something, nothing unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class BodyModel(BaseModel):
    """A JSON object: types as they are written, nothing unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class NoQuery(QueryModel):
    pass


class ProofQuery(QueryModel):
    nonce: Annotated[str, StringConstraints(pattern=NONCE)] = Field(
        description="32 to 64 hexadecimal digits, used once"
    )


class ActivityFilter(QueryModel):
    intent_type: Operation | None = Field(None, description="The declared operation type")
    type: ActivityType | None = Field(None, description="The kind of ask")
    exclude_type: ActivityType | None = Field(
        None, description="Not this kind of ask; `server_request` is what servers want of their own accord"
    )
    status: Status | None = Field(None, description="How it ended")
    server: Text | None = Field(None, description="The upstream server")
    tool: Text | None = Field(None, description="The tool's own name")
    session_id: Text | None = Field(None, description="The MCP session")
    request_id: Text | None = Field(None, description="The request, as X-Request-Id named it")
    client: Text | None = Field(None, description="The client's claimed name")
    principal: Text | None = Field(None, description="The identity that the gateway determined")
    start_time: Time | None = Field(None, description="Not before this time (RFC 3339, with a zone)")
    end_time: Time | None = Field(None, description="Before this time (RFC 3339, with a zone)")
    q: Text | None = Field(
        None,
        description="Words, all of them in tool, server, arguments, reason or error; `begin*` matches a prefix",
    )

    @model_validator(mode="after")
    def _in_order(self) -> ActivityFilter:
        if self.start_time and self.end_time and self.end_time < self.start_time:
            raise ValueError("end_time is before start_time")
        return self


class ActivityPage(ActivityFilter):
    limit: int = Field(50, ge=1, le=500, description="Rows per page")
    cursor: Text | None = Field(None, description="`next_cursor` of the page before")
    mine: Literal["", "true"] | None = Field(None, description="Only the records of whoever asks")


class ActivityExport(ActivityFilter):
    format: Literal["jsonl", "csv"] = Field("jsonl", description="JSON Lines or CSV")


class Verification(QueryModel):
    anchor: Text | None = Field(None, description="An anchor that was kept: is the record as it was then, and longer?")


class EventStreamQuery(QueryModel):
    after: Text | None = Field(None, description="Continue after the event with this id, as `Last-Event-ID` does")
    brief: bool = Field(False, description="Without arguments and answers, but for what a search looked for")


class ToolPage(QueryModel):
    server: Text | None = Field(None, description="Only this server's tools")
    limit: int = Field(100, ge=1, le=500, description="Tools per page")
    cursor: Text | None = Field(None, description="`next_cursor` of the page before")


class ToolSearch(QueryModel):
    query: Text = Field(description="What is needed, in plain words")
    limit: int | None = Field(None, ge=1, le=50, description="Maximum number of results (5)")
    detail: Literal["full", "compact", "auto"] | None = Field(
        None, description="Whole schemas, one-line signatures, or a schema for the first only (`discovery.detail`)"
    )
    server: Text | None = Field(None, description="Only this server's tools")
    read_only_only: bool | None = Field(None, description="Only read-only tools")
    exclude_destructive: bool | None = Field(None, description="No destructive tools")


class LogTail(QueryModel):
    lines: int = Field(100, ge=1, le=5000, description="Number of lines, from the end")


_ANY_OBJECT: Final = WithJsonSchema({"type": "object", "additionalProperties": True})
_INTENT: Final = WithJsonSchema(
    {
        "type": "object",
        "properties": {
            "operation_type": {"enum": list(OPERATIONS)},
            "data_sensitivity": {"enum": list(SENSITIVITIES)},
            "reason": {"type": "string", "maxLength": 1000},
        },
        "required": ["operation_type"],
    }
)
_STRING: Final = WithJsonSchema({"type": "string"})


class ToolCall(BodyModel):
    """What is wrong inside these keys is the gate's to refuse, so that the refusal is on record: no types here."""

    name: Annotated[Any, _STRING] = Field(None, description="The tool, as server:tool")
    args: Annotated[Any, _ANY_OBJECT] = Field(None, description="Its arguments")
    args_json: Annotated[Any, _STRING] = Field(None, description="Its arguments as JSON text, instead of `args`")
    intent: Annotated[Any, _INTENT] = Field(None, description="The declared intent")
    intent_operation_type: Annotated[Any, _STRING] = Field(None, description="The intent, flat")
    intent_data_sensitivity: Annotated[Any, _STRING] = Field(None, description="The intent, flat")
    intent_reason: Annotated[Any, _STRING] = Field(None, description="The intent, flat")

    def params(self) -> dict[str, Any]:
        """What was sent, and only that: a key left out is not a key with null."""
        return self.model_dump(exclude_unset=True, exclude={"variant", "confirmation", "profile"})


class Confirmation(BodyModel):
    """What a person answered to the question that was shown to them."""

    token: Text = Field(description="That of the question")
    allow: bool = Field(description="Whether they said yes")
    terminal: bool = Field(False, description="Whether there is a terminal")
    name: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = Field(
        None, description="Name of the person; the record has the credential too"
    )


class CallBody(ToolCall):
    variant: Operation = Field(description="The variant to call; its intent must be declared")
    confirmation: Confirmation | None = Field(None, description="The answer to `POST /api/v1/call/question`")


class ExplainBody(ToolCall):
    """What is left out is filled in as by an agent that means it. What is wrong is explained, so nothing is refused
    for its type, and the document does not say so either."""

    name: Any = Field(None, description="The tool, as server:tool")
    args: Any = Field(None, description="Its arguments, an object")
    args_json: Any = Field(None, description="Its arguments as JSON text, instead of `args`")
    intent: Any = Field(None, description="The intent to try, an object")
    intent_operation_type: Any = Field(None, description="The intent, flat")
    intent_data_sensitivity: Any = Field(None, description="The intent, flat")
    intent_reason: Any = Field(None, description="The intent, flat")
    variant: Operation | None = Field(None, description="The variant; left out, the one `call_with` names")
    profile: str | None = Field(None, description="As it would be in this profile", max_length=64)


class QuestionBody(ExplainBody):
    """What is wrong is refused by the call, and asks nothing here."""

    variant: Operation = Field(  # pyright: ignore[reportIncompatibleVariableOverride]
        description="The variant to call; its intent must be declared"
    )


class NewServer(BodyModel):
    name: Text = Field(description="Its name: a-z, 0-9, _ and -")
    config: Annotated[dict[str, Any], _ANY_OBJECT] = Field(description="As under `mcpServers` in the configuration")
    replace: bool = Field(
        False,
        description="Whether a server of that name may be replaced. A value `***` in it then stays what it was",
    )
    check: bool = Field(True, description="Whether it is refused where one of its secrets is missing")


class ToolClasses(BodyModel):
    tools: dict[ToolText, Operation | list[dict[str, Any]] | None] = Field(
        min_length=1, max_length=1000,
        description="Tool to class, or to a list of `{when, class}` as under `tools` of a server; null takes the "
        "override out",
    )  # fmt: skip


class ApprovalPage(QueryModel):
    status: ApprovalStatus | None = Field(None, description="Only those in this state")
    limit: int = Field(100, ge=1, le=500, description="Requests per page")
    cursor: Text | None = Field(None, description="`next_cursor` of the page before")


class DecisionBody(BodyModel):
    notes: Annotated[str, StringConstraints(max_length=MAX_NOTES)] | None = Field(
        None, description="Why, for the record"
    )
    name: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = Field(
        None, description="Name of the person who decides; the record has the credential too"
    )
    terminal: bool = Field(False, description="Whether there is a terminal")


class GapQuery(QueryModel):
    since: Time | None = Field(None, description="Not before this time (RFC 3339, with a zone); 30 days back")
    limit: int = Field(50, ge=1, le=500, description="Maximum number of gaps")


class VisibleToolsQuery(QueryModel):
    server: Text | None = Field(None, description="Only this server's tools")


class CatalogSearch(QueryModel):
    query: Text | None = Field(None, description="What the server is for, or its name")
    limit: int | None = Field(None, ge=1, le=200, description="Maximum number of servers (20)")


_INTEGER: Final = WithJsonSchema({"type": "integer"})
_NAMES: Final = WithJsonSchema({"type": "array", "items": {"type": "string"}})


class CapabilityRequest(BodyModel):
    """As with a call: what is wrong inside is the tool's to refuse, on record."""

    agent_id: Annotated[Any, _STRING] = Field(None, description="The agent's name, as a label")
    mcp_name: Annotated[Any, _STRING] = Field(None, description="The server that is missing")
    rationale: Annotated[Any, _STRING] = Field(None, description="What it is needed for")
    catalog_slug: Annotated[Any, _STRING] = Field(None, description="Its slug in the catalog")
    requested_tools: Annotated[Any, _NAMES] = Field(None, description="Tools of it that are needed")
    context: Annotated[Any, _ANY_OBJECT] = Field(None, description="Further information for the decision")
    expires_at_ms: Annotated[Any, _INTEGER] = Field(None, description="When the request expires, in Unix milliseconds")


MAX_PARAMETERS: Final = 64

Model = TypeVar("Model", bound=BaseModel)


def query(model: type[Model], raw: bytes) -> Model:
    """The parameters after `?`. Raises `GatewayError` that names the first wrong one and lists all."""
    pairs = _pairs(raw)
    repeated = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if repeated:
        raise bad_request(f"Parameter '{quoted(repeated[0])}' was given more than once", parameter=quoted(repeated[0]))
    return _checked(model, dict(pairs), "parameter")


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    try:
        text = raw.decode("ascii")
        return parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_PARAMETERS, errors="strict")
    except ValueError:
        limit = f"text in UTF-8, percent-encoded, and at most {MAX_PARAMETERS}"
        raise bad_request(f"The query cannot be read: parameters are {limit}") from None


async def body(model: type[Model] | None, request: Request) -> Model | None:
    """The JSON object in the body; where none is taken, an empty object passes too."""
    raw = await request.body()
    if model is None and not raw:
        return None
    _check_media(request.headers.get("content-type"))
    if len(raw) > SMALL:
        values = await measured(raw, MAX_BODY_VALUES)
        if values > MAX_BODY_VALUES:
            raise bad_request(f"The body holds more than {MAX_BODY_VALUES} keys and values")
        await TURNS.turn(seconds(len(raw), values))
    given = _object(raw)
    if model is not None:
        return _checked(model, given, "key")
    if given:
        raise bad_request("This takes no body")
    return None


def _check_media(content_type: str | None) -> None:
    """A form or text body can be posted by any web page; a JSON one cannot without asking first."""
    media, _, parameters = (content_type or "").lower().partition(";")
    charset = parameters.partition("charset=")[2].strip().strip('"')
    if media.strip() != "application/json" or charset not in ("", "utf-8"):
        given = f"'{quoted(content_type)}'" if content_type else "missing"
        raise bad_request(f"The Content-Type must be application/json; it is {given}")


def _object(raw: bytes) -> dict[str, Any]:
    try:
        value = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise bad_request(f"The body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise bad_request(f"The body must be an object, not {kind(value)}")
    return value


def _checked(model: type[Model], given: Mapping[str, Any], word: str) -> Model:
    unknown = next((name for name in given if name not in model.model_fields), None)
    if unknown is not None:
        raise _unknown(unknown, model, word)
    try:
        return model.model_validate(given)
    except ValidationError as error:
        problems = [_problem(found, word) for found in error.errors(include_url=False, include_context=False)]
        raise bad_request(problems[0]["problem"], **{word: problems[0]["where"]}, problems=problems) from None


def _unknown(name: str, model: type[BaseModel], word: str) -> GatewayError:
    near = nearest(name, model.model_fields, 1)
    known = ", ".join(model.model_fields) or "none"
    hint = f"did you mean '{near[0]}'?" if near else f"known: {known}"
    details = {word: quoted(name), "nearest": near[0] if near else None, "known": list(model.model_fields)}
    return bad_request(f"Unknown {word} '{quoted(name)}'; {hint}", **details)


def _problem(found: ErrorDetails, word: str) -> dict[str, str]:
    """A value is shown back only where it came in the URL: a body may hold secrets."""
    where = ".".join(map(str, found["loc"]))
    said = found["msg"].removeprefix("Value error, ").replace("Input should be", "must be", 1)
    said = "is required" if found["type"] == "missing" else said[:1].lower() + said[1:]
    given = found["input"]
    shown = f", not '{quoted(given)}'" if word == "parameter" and isinstance(given, str) else ""
    return {"where": where, "problem": f"{where} {said}{shown}".strip()}


_VERSION: Final = b"t1"
_DIGEST_BYTES: Final = 6


def cursor_of(place: str) -> str:
    raw = place.encode("utf-8", "surrogatepass")
    return base64.urlsafe_b64encode(_digest(raw) + raw).decode("ascii").rstrip("=")


def place_of(cursor: str) -> str:
    """Raises `ValueError` for what `cursor_of` never gave."""
    raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    digest, place = raw[:_DIGEST_BYTES], raw[_DIGEST_BYTES:]
    if digest != _digest(place) or base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=") != cursor:
        raise ValueError("not a cursor that this gateway issued")
    return place.decode("utf-8", "surrogatepass")


def _digest(raw: bytes) -> bytes:
    return hashlib.sha256(_VERSION + raw).digest()[:_DIGEST_BYTES]
