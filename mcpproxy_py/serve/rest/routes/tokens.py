"""Tokens of agents: made, listed, rotated and revoked by a person (SEC-2)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import permutations
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Field, StringConstraints, WithJsonSchema

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.policy import token_terms
from mcpproxy_py.core.policy.token_terms import SPAN_SECONDS, TokenTerms
from mcpproxy_py.core.values import OPERATIONS
from mcpproxy_py.errors import Code
from mcpproxy_py.serve.http.asgi import bad_request
from mcpproxy_py.serve.rest.endpoint import RestEndpoint, RestRequest
from mcpproxy_py.serve.rest.requests import BodyModel
from mcpproxy_py.serve.rest.responses import ResponseModel

T = TypeVar("T")
Short = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Note = Annotated[str, StringConstraints(max_length=token_terms.LONGEST_NOTE)]
DEFAULT_GRACE: Final = "24h"


def _numbers_to(most: int) -> str:
    """A pattern for the numbers from 1 to this one, as they are written."""
    digits = str(most)
    if not digits.strip("9"):
        return f"[1-9][0-9]{{0,{len(digits) - 1}}}"
    found = [f"[1-9][0-9]{{0,{len(digits) - 2}}}"] if len(digits) > 1 else []
    for at, digit in enumerate(digits):
        low, high = 0 if at else 1, int(digit) - 1
        if low <= high:
            found.append(f"{digits[:at]}[{low}-{high}]" + "[0-9]" * (len(digits) - at - 1))
    return "|".join((*found, digits))


def _spans_to(longest: float) -> str:
    """A pattern for spans that are no longer than this."""
    most = {unit: min(int(longest // each), token_terms.MOST_OF_A_SPAN) for unit, each in SPAN_SECONDS.items()}
    return "|".join(f"({_numbers_to(number)}){unit}" for unit, number in most.items())


def _written(pattern: str) -> WithJsonSchema:
    """The schema of a text that `token_terms` reads: what it says of a wrong one is more than a pattern could."""
    return WithJsonSchema({"type": "string", "pattern": f"^({pattern})$"})


_DAY: Final = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME: Final = r"[Tt ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?[Zz]"
TokenName = Annotated[str, _written(token_terms.NAME)]
ServerName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
ToolGlob = Annotated[
    str, Field(min_length=1, max_length=256, json_schema_extra={"pattern": r"^[^:]*[^:\s][^:]*(:[\s\S]*\S[\s\S]*)?$"})
]
Operations = Annotated[
    list[Short],
    WithJsonSchema({"type": "array", "items": {"enum": list(OPERATIONS)},
                    "enum": [list(order) for names in token_terms.CEILINGS for order in permutations(names)]}),
]  # fmt: skip
Expiry = Annotated[Short, _written(f"{_spans_to(token_terms.LONGEST_LIFE)}|{_DAY}({_TIME})?")]
AskRate = Annotated[Short, _written(f"({_numbers_to(token_terms.MOST_ASKS)})/[smh]")]
Grace = Annotated[Short, _written(f"0[{''.join(SPAN_SECONDS)}]?|{_spans_to(token_terms.LONGEST_GRACE)}")]
Servers = Annotated[list[ServerName], Field(max_length=token_terms.MOST_ENTRIES, json_schema_extra={"minItems": 1})]
ToolGlobs = Annotated[list[ToolGlob], Field(max_length=token_terms.MOST_ENTRIES, json_schema_extra={"minItems": 1})]


class TokenBody(BodyModel):
    name: TokenName = Field(description="1 to 64 of a-z, 0-9, `_`, `.` and `-`")
    servers: Servers | None = Field(None, description="Only these servers")
    tools: ToolGlobs | None = Field(None, description="Only tools that fit: `server:tool` or `tool`, globs")
    operations: Operations | None = Field(
        None, description="A ceiling on risk: `read`, or `read` and `write`, or all three"
    )
    profile: Short | None = Field(None, description="Only what this profile of the configuration has")
    expires: Expiry | None = Field(None, description="A span such as `30d` or `12h`, or a date, which is UTC")
    rate: AskRate | None = Field(None, description="How often it may ask: `60/m`, `5/s`, `1000/h`")
    note: Note | None = Field(None, description="For people")


class RotationBody(BodyModel):
    grace: Grace | None = Field(None, description=f"How long the old secret is still good [{DEFAULT_GRACE}]")
    expires: Expiry | None = Field(None, description="When the token expires from now on")


class TokenAnswer(ResponseModel):
    name: str
    state: Literal["active", "expired", "revoked", "not believed"]
    principal: str | None = Field(None, description="Who it is in the record")
    servers: list[str] | None = None
    tools: list[str] | None = None
    operations: list[str] | None = None
    profile: str | None = None
    rate: str | None = None
    note: str | None = None
    created_at: str | None = None
    expires_at: str | None = None
    revoked_at: str | None = None
    rotated_at: str | None = None
    old_secret_until: str | None = Field(None, description="Until when secrets from before a rotation are good")
    last_used_at: str | None = Field(None, description="As far as this gateway knows; others tell once a minute")


class NewTokenAnswer(TokenAnswer):
    token: str = Field(description="The secret, which is shown this once")
    warnings: list[str]


class TokenList(ResponseModel):
    tokens: list[TokenAnswer]


async def list_tokens(x: RestRequest) -> Mapping[str, Any]:
    return {"tokens": x.parts.tokens.list()}


async def show_token(x: RestRequest) -> Mapping[str, Any]:
    return x.parts.tokens.show(x.path["name"])


async def create_token(x: RestRequest) -> Mapping[str, Any]:
    return await x.parts.tokens.create(_name(x.body.name), _terms(x.body), x.caller)


async def revoke_token(x: RestRequest) -> Mapping[str, Any]:
    return await x.parts.tokens.revoke(x.path["name"], x.caller)


async def rotate_token(x: RestRequest) -> Mapping[str, Any]:
    grace = _read("grace", token_terms.grace_of, x.body.grace or DEFAULT_GRACE)
    return await x.parts.tokens.rotate(x.path["name"], grace or 0.0, _expiry(x.body.expires), x.caller)


def _terms(body: TokenBody) -> TokenTerms:
    return TokenTerms(
        servers=_read("servers", token_terms.server_list, body.servers) or (),
        tools=_read("tools", token_terms.tool_list, body.tools) or (),
        ceiling=_read("operations", token_terms.ceiling_of, body.operations) or "destructive",
        profile=body.profile,
        expires=_expiry(body.expires),
        rate=_read("rate", token_terms.rate_of, body.rate),
        note=body.note or "",
    )


def _expiry(given: str | None) -> float | None:
    return _read("expires", lambda text: token_terms.expiry_of(text, time.time()), given)


def _name(given: str) -> str:
    return _read("name", token_terms.check_token_name, given) or ""


def _read(key: str, reader: Callable[[Any], T], given: Any) -> T | None:
    """What was given, in its sense. Nothing is read from nothing."""
    if given is None:
        return None
    try:
        return reader(given)
    except ValueError as wrong:
        raise bad_request(f"{key}: {quoted(str(wrong), 300)}", key=key) from None


_GROUP: Final = "Tokens"
_CHANGES: Final = (Code.NOT_FOUND, Code.CONFLICT, Code.STORE_UNAVAILABLE)

TOKEN_ENDPOINTS: Final = (
    RestEndpoint("GET", "/api/v1/tokens", _GROUP, "The tokens of agents, without their secrets", list_tokens,
             TokenList),
    RestEndpoint("POST", "/api/v1/tokens", _GROUP, "Make a token; its secret is shown this once", create_token,
             NewTokenAnswer, body=TokenBody, status=201, refusals=(Code.CONFLICT, Code.STORE_UNAVAILABLE),
             masked=False),
    RestEndpoint("GET", "/api/v1/tokens/{name}", _GROUP, "One token", show_token, TokenAnswer,
             refusals=(Code.NOT_FOUND,)),
    RestEndpoint("POST", "/api/v1/tokens/{name}/revoke", _GROUP, "End a token, and all that goes on with it",
             revoke_token, TokenAnswer, refusals=_CHANGES),
    RestEndpoint("POST", "/api/v1/tokens/{name}/rotate", _GROUP, "A new secret for the same token", rotate_token,
             NewTokenAnswer, body=RotationBody, refusals=_CHANGES, masked=False,
             more="Its principal, sessions and scope stay. The old secret is good for `grace` more."),
)  # fmt: skip
