"""Whose tokens open the MCP surfaces, beside our own (SEC-2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from mcpproxy_py.core.values import RANK, Operation
from mcpproxy_py.settings.fields import Text, is_loopback
from mcpproxy_py.settings.servers import FROZEN

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Of public keys only: with a shared secret, whoever can check a token could make one."""
DEFAULT_ALGORITHMS: Final[tuple[Algorithm, ...]] = ("RS256", "PS256", "ES256", "EdDSA")
MOST_TEXT: Final = 512
_CLAIM: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")
_SCOPE: Final = _CLAIM
"""What RFC 6749 allows in one scope: it goes into a header, between quotes."""


def is_trustworthy(url: str) -> bool:
    """Whether nobody on the way can answer in its place: https, or this machine itself."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))


def _is_fit(value: str) -> bool:
    try:
        parts = urlsplit(value)
        named = bool(parts.hostname) and (parts.port is None or parts.port > 0)
        return named and is_trustworthy(value) and "@" not in parts.netloc and not parts.fragment
    except ValueError:
        return False


def _address(value: str, example: str) -> str:
    if not _is_fit(value):
        raise ValueError(f"an https address such as {example} (http only on this machine), without a password in it")
    if not re.fullmatch(r"[\x21\x23-\x5b\x5d-\x7e]+", value) or len(value) > MOST_TEXT:
        raise ValueError(f"an address of at most {MOST_TEXT} visible ASCII characters such as {example}")
    return value


def _without_query(value: str) -> str:
    if "?" in value:
        raise ValueError("an address without a query")
    return value


def _issuer(value: str) -> str:
    return _without_query(_address(value, "https://login.example.com"))


def _public_url(value: str) -> str:
    found = _without_query(_address(value, "https://mcp.example.com"))
    if urlsplit(found).path not in ("", "/"):
        raise ValueError("the address of this gateway without a path, such as https://mcp.example.com")
    return found.rstrip("/")


def _keys(value: str) -> str:
    if "://" in value:
        return _address(value, "https://login.example.com/keys")
    path = Path(value).expanduser()
    if not path.is_absolute():
        raise ValueError("an https address, or the absolute path of a file")
    return str(path)


def _claim(value: str) -> str:
    if not _CLAIM.fullmatch(value):
        raise ValueError("the name of a claim: visible ASCII characters without quotes and backslashes")
    return value


def _scope(value: str) -> str:
    if not _SCOPE.fullmatch(value):
        raise ValueError("a scope: visible ASCII characters without quotes and backslashes")
    return value


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _not_empty(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value:
        raise ValueError("at least one")
    return value


Issuer = Annotated[str, AfterValidator(_issuer)]
PublicUrl = Annotated[str, AfterValidator(_public_url)]
KeySource = Annotated[str, AfterValidator(_keys)]
ClaimName = Annotated[str, AfterValidator(_claim)]
ScopeName = Annotated[str, AfterValidator(_scope)]
ClaimValue = Annotated[Text, Field(max_length=200)]
Audiences = Annotated[
    tuple[Annotated[Text, Field(max_length=MOST_TEXT)], ...],
    AfterValidator(_not_empty),
    BeforeValidator(_as_list, json_schema_input_type=str | list[str]),
]
Operations = Annotated[
    tuple[Operation, ...],
    AfterValidator(_not_empty),
    BeforeValidator(_as_list, json_schema_input_type=Operation | list[Operation]),
]
Leeway = Annotated[float, Field(strict=True, ge=0, le=300, allow_inf_nan=False)]


class JwtAuth(BaseModel):
    """The tokens of one identity provider, and what they are good for."""

    model_config = FROZEN

    issuer: Issuer = Field(description="The identity provider, as its tokens name it (`iss`).")
    audience: Audiences = Field(
        description="What tokens for this gateway name as their audience (`aud`), one of these: the address that "
        "clients use, or a name that the provider gives this gateway."
    )
    jwks: KeySource | None = Field(
        default=None,
        description="The provider's public keys: an https address, or a file. None means the one that the issuer's "
        "metadata names.",
    )
    algorithms: Annotated[tuple[Algorithm, ...], AfterValidator(_not_empty)] = Field(
        default=DEFAULT_ALGORITHMS, description="The algorithms of signatures that are accepted."
    )
    principal_claim: ClaimName = Field(
        default="sub",
        description="The claim that says who it is; the record shows it as `user:VALUE`. It must never pass from one "
        "person to another.",
    )
    profile_claim: ClaimName | None = Field(
        default=None,
        description="The claim that names a profile. A token without it gets `profile`, or nothing where none is set.",
    )
    profile: ClaimName | None = Field(default=None, description="The profile of everybody who comes with a token.")
    scopes_claim: ClaimName | None = Field(
        default=None,
        description="The claim that `operations` looks at, such as `roles`; a dot leads into an object. None means "
        "the scopes of the token (`scope` or `scp`).",
    )
    operations: dict[ClaimValue, Operations] = Field(
        default={},
        max_length=100,
        description="What each scope, or each value of `scopes_claim`, allows. The highest is a ceiling on risk, and a "
        "token with none of them is refused. Empty: no ceiling.",
    )
    servers_claim: ClaimName | None = Field(
        default=None, description="The claim that lists the servers in reach. A token without it reaches none."
    )
    required_scopes: tuple[ScopeName, ...] = Field(
        default=(), max_length=50, description="Scopes that every token needs."
    )
    login_scopes: Annotated[tuple[ScopeName, ...], Field(max_length=100)] | None = Field(
        default=None,
        description="The scopes that clients ask for at the first login, besides `required_scopes`; they ask for more "
        "when a call needs more. None means all scopes of `operations`: the provider gives each person what they may "
        "have.",
    )
    leeway: Leeway = Field(default=60.0, description="Seconds by which clocks may differ.")

    @model_validator(mode="after")
    def _scopes_can_be_asked_for(self) -> JwtAuth:
        if self.scopes_claim is None:
            for each in self.operations:
                try:
                    _scope(each)
                except ValueError as error:
                    raise ValueError(f"scopes as keys of `operations`; {each!r} is not {error}") from None
        return self

    @property
    def scopes_to_ask_for(self) -> tuple[str, ...]:
        """Those of `operations`, where a client can ask for them: it cannot ask for a role."""
        return tuple(self.operations) if self.scopes_claim is None else ()

    @property
    def first_scopes(self) -> tuple[str, ...]:
        """What the challenge to a client without a token names."""
        more = self.scopes_to_ask_for if self.login_scopes is None else self.login_scopes
        return tuple(dict.fromkeys((*self.required_scopes, *more)))

    @property
    def all_scopes(self) -> tuple[str, ...]:
        """What the metadata of the surfaces names."""
        return tuple(dict.fromkeys((*self.first_scopes, *self.scopes_to_ask_for)))

    def ceiling_of(self, value: str) -> Operation:
        """The highest operation that this scope, or role, allows."""
        return max(self.operations[value], key=RANK.__getitem__)


class Auth(BaseModel):
    """Who may use the MCP surfaces, beside who has the agent token."""

    model_config = FROZEN

    public_url: PublicUrl | None = Field(
        default=None,
        description="The address under which clients reach this gateway, without a path, such as "
        "`https://mcp.example.com`. None means the one that each client uses.",
    )
    jwt: JwtAuth | None = Field(default=None, description="Tokens of an identity provider.")


# What a change of it loosens or tightens (`settings.changes`).

ABSENT: Final = object()
"""What keys of a section are that is not there."""
Said = Iterable[tuple[Literal["looser", "tighter"], str]]


def issuer_changed(was: Any, now: Any) -> Said:
    if now is not ABSENT:
        yield "looser", f"{{key}}: tokens of {escaped(now)} are accepted"
    if was is not ABSENT:
        yield "tighter", f"{{key}}: tokens of {escaped(was)} are not accepted any more"
    if was is ABSENT:
        yield "tighter", "{key}: agents need a token"
    if now is ABSENT:
        yield "looser", "{key}: agents need a token only where mcp_token or require_mcp_auth asks for one"


def operations_changed(was: Mapping[str, Any], now: Mapping[str, Any]) -> Said:
    """Without any, there is no ceiling; otherwise a scope that is not named allows nothing."""
    for scope in sorted({*was, *now}):
        before, after = (
            max((RANK[each] for each in said.get(scope, ())), default=-1) if said else len(RANK) for said in (was, now)
        )
        if before != after:
            more = after > before
            told = f"{{key}}: tokens with {escaped(scope)} may do {'more' if more else 'less'}"
            yield "looser" if more else "tighter", told


def within(rule: Callable[[Any, Any], Said]) -> Callable[[Any, Any], Said]:
    """Of a section that is there before and after; whether it is there at all, another key says."""
    return lambda was, now: () if ABSENT in (was, now) else rule(was, now)


def escaped(text: str) -> str:
    """It is put into a sentence that is formatted once more."""
    return text.replace("{", "{{").replace("}", "}}")
