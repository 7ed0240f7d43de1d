"""One upstream as it is configured, in the shape IDEs already use (UP-1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from mcpproxy_py.core.json_values import ComparableObject
from mcpproxy_py.core.policy.tool_names import MAX_NAME, NamePattern
from mcpproxy_py.core.values import ConfirmBy, Operation
from mcpproxy_py.settings.fields import (
    REFERENCES,
    Count,
    Flag,
    HeaderName,
    HeaderValue,
    Line,
    Seconds,
    Text,
    Tokens,
    UpstreamUrl,
    VariableName,
)

FROZEN: Final = ConfigDict(frozen=True, extra="forbid", defer_build=True)
RESERVED: Final = ("catalog",)
NAME_RULE: Final = "a name of 1 to 32 of `a-z 0-9 _ -`, starting with a letter or digit, without `__`"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_PROVIDER: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")

Transport = Literal["stdio", "http", "sse"]
# What the files of IDEs call streamable HTTP.
TRANSPORT_SPELLINGS: Final = {"streamable-http": "http", "streamableHttp": "http"}
WrittenTransport = Literal["stdio", "http", "sse", "streamable-http", "streamableHttp"]


class OverrideEntry(BaseModel):
    """One entry of an override: the class a call gets when its arguments fit `when`."""

    model_config = FROZEN

    when: Annotated[dict[str, Any], AfterValidator(ComparableObject)] | None = Field(
        default=None, description="JSON Schema on the arguments; the last entry has none."
    )
    tool_class: Operation = Field(alias="class", description="The class of the call.")

    @model_validator(mode="after")
    def _when_compiles(self) -> OverrideEntry:
        if self.when is not None:
            _compile(self.when)
        return self


def _compile(schema: Mapping[str, Any]) -> None:
    """A `when` that does not compile would never match: better said now than found out later.

    Imported here because most configurations have no `when` and need not pay for the import.
    """
    import jsonschema_rs

    def refuse(uri: str) -> Any:
        raise ValueError(f"{uri} is not fetched")

    try:
        jsonschema_rs.validator_for(dict(schema), retriever=refuse)
    except Exception as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"a JSON Schema in `when` that compiles ({reason})") from None


def _as_entries(value: Any) -> Any:
    return [{"class": value}] if isinstance(value, str) else value


def _closed(entries: tuple[OverrideEntry, ...]) -> tuple[OverrideEntry, ...]:
    """Exactly the last entry stands without `when`: calls that fit nothing else need a class too (GATE-8)."""
    if not entries or entries[-1].when is not None:
        raise ValueError("a last entry without `when`, for the calls that match no other")
    if any(entry.when is None for entry in entries[:-1]):
        raise ValueError("`when` in every entry but the last; those after one without it never apply")
    return entries


ToolOverride = Annotated[
    tuple[OverrideEntry, ...],
    AfterValidator(_closed),
    BeforeValidator(_as_entries, json_schema_input_type=Operation | list[OverrideEntry]),
]


def _tool_name(value: str) -> str:
    if len(value) > MAX_NAME:
        raise ValueError(f"the name of a tool, or a glob, of at most {MAX_NAME} characters")
    NamePattern(value)
    return value


ToolName = Annotated[Text, AfterValidator(_tool_name)]


def _as_transport(value: Any) -> Any:
    return TRANSPORT_SPELLINGS.get(value, value) if isinstance(value, str) else value


class UpstreamSettings(BaseModel):
    """How calls to an upstream are handled, whatever kind it is."""

    model_config = FROZEN

    enabled: Flag = Field(default=True, description="`false` keeps it configured and unused.")
    timeout: Seconds = Field(default=60.0, description="Seconds a call may take.")
    max_concurrency: Count = Field(
        default=64,
        description="Calls in flight at once. As many may wait. Of 5 or more, one agent may take four fifths.",
    )
    trust_annotations: Flag = Field(default=True, description="`false`: its hints may raise a class, never lower it.")
    tools: dict[ToolName, ToolOverride] = Field(
        default={},
        description="Overrides: name or glob of a tool to a class, or to a list of `{when, class}` whose last has no "
        "`when`.",
    )
    allow_tools: tuple[ToolName, ...] | None = Field(
        default=None, description="If given, only these tools can be called: the safe list. Names or globs."
    )
    deny_tools: tuple[ToolName, ...] = Field(
        default=(), description="These tools cannot be called, nor those whose names look like them. Names or globs."
    )
    confirm: Literal["none", "write", "destructive"] = Field(
        default="none", description="Before calls of this risk and above a person is asked."
    )
    confirm_by: ConfirmBy = Field(
        default="either",
        description="Where the person says yes: in the `client`, outside of it on the `page` or with `mcpproxy "
        "approvals`, or `either`: in the client if it can be asked, outside if not.",
    )

    result_tokens: Tokens | dict[ToolName, Tokens] | None = Field(
        default=None,
        description="Its own `limits.result_tokens`: a number, or numbers by name or glob of a tool. The name of a "
        "tool goes before globs, and of several globs the lowest number counts.",
    )

    @property
    def result_limits(self) -> dict[str, int]:
        """In tokens, by tool or glob."""
        told = self.result_tokens
        return {} if told is None else told if isinstance(told, dict) else {"*": told}

    @property
    def overrides(self) -> dict[str, tuple[tuple[Operation, Mapping[str, Any] | None], ...]]:
        """The overrides as plain pairs, for rooms that do not know these models."""
        return {
            tool: tuple((entry.tool_class, entry.when) for entry in entries) for tool, entries in self.tools.items()
        }


class AssertionSettings(BaseModel):
    """The enterprise's identity provider, which says at a server's authorization server who the person is (enterprise-
    managed authorization, SEP-990)."""

    model_config = FROZEN

    issuer: UpstreamUrl = Field(description="The identity provider. The tokens here are sent to it only.")
    client_id: Text = Field(description="The client that it knows the gateway by.")
    client_secret: Line | None = Field(default=None, description=f"The secret of that client. {REFERENCES}", repr=False)
    subject_token: Line = Field(
        description=f"The person's token, which it exchanges for an assertion. {REFERENCES}", repr=False
    )
    subject_token_type: Literal["id_token", "refresh_token"] = Field(
        default="id_token", description="What that token is. An ID token ends soon; a refresh token lasts."
    )


class LoginSettings(BaseModel):
    """How the gateway shows a server whose requests these are. Without it that is found out: a server that answers 401
    and says where to log in needs `mcpproxy upstream login`."""

    model_config = FROZEN

    type: Literal["oauth", "bearer", "headers", "none"] = Field(
        description="`oauth`: log in. `bearer`: send `token`. `headers`: send what `headers` of the server says and "
        "never log in. `none`: send nothing, and never log in."
    )
    token: HeaderValue | None = Field(default=None, description=f"For `bearer`. {REFERENCES}", repr=False)
    client_id: Text | None = Field(
        default=None, description=f"A client that is registered already. {REFERENCES}", repr=False
    )
    client_secret: Line | None = Field(
        default=None, description=f"Its secret; needs `issuer`. {REFERENCES}", repr=False
    )
    client_metadata_url: Text | None = Field(
        default=None,
        description="The https address of a document that says who the client is, for authorization servers that "
        "take one. Goes before `client_id`.",
    )
    issuer: UpstreamUrl | None = Field(
        default=None,
        description="The only authorization server that is accepted, and gets the secret. Its addresses may be at "
        "other origins, which is refused without this unless it proves its answers by `iss`.",
    )
    scopes: tuple[Text, ...] | None = Field(
        default=None, description="What to ask for, instead of what the server names."
    )
    grant: Literal["authorization_code", "client_credentials", "identity_assertion"] = Field(
        default="authorization_code",
        description="`client_credentials`: a machine, for which nobody logs in. `identity_assertion`: the enterprise's "
        "`identity_provider` says who it is.",
    )
    identity_provider: AssertionSettings | None = Field(
        default=None, description="For the grant `identity_assertion`: whom to ask, and with which token."
    )
    private_key: Line | None = Field(
        default=None,
        description=f"PEM, to sign who the client is instead of sending a secret; needs `issuer`. {REFERENCES}",
        repr=False,
    )
    signing_algorithm: Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"] = Field(
        default="RS256", description="With which `private_key` signs."
    )
    resource: Flag = Field(
        default=True, description="Say for which server the token is (RFC 8707). `false` for one that refuses that."
    )
    prompt: Literal["auto", "omit", "consent", "login", "select_account"] = Field(
        default="auto",
        description="`auto`: ask for consent where the login is to last. `omit` for one that refuses it.",
    )
    redirect_uri: UpstreamUrl | None = Field(
        default=None, description="Where the client's registration wants answers, instead of `http://127.0.0.1:33418`."
    )

    @model_validator(mode="after")
    def _is_whole(self) -> LoginSettings:
        if (self.token is not None) != (self.type == "bearer"):
            raise ValueError("`token` with the type bearer, and with no other")
        strays = [name for name in OF_OAUTH if self.type != "oauth" and getattr(self, name) != OF_OAUTH[name]]
        if strays:
            raise ValueError(f"no `{strays[0]}`, because its type is {self.type}")
        if (self.client_secret or self.private_key) and (self.client_id is None or self.issuer is None):
            raise ValueError("`client_id` and `issuer` beside a secret: it is sent to no other authorization server")
        if self.client_secret and self.private_key:
            raise ValueError("`client_secret` or `private_key`, not both")
        if self.grant != "authorization_code" and not (self.client_secret or self.private_key):
            raise ValueError(f"`client_secret` or `private_key` for the grant {self.grant}")
        if (self.identity_provider is not None) != (self.grant == "identity_assertion"):
            raise ValueError("`identity_provider` with the grant identity_assertion, and with no other")
        return self


OF_OAUTH: Final[Mapping[str, Any]] = {
    name: field.default for name, field in LoginSettings.model_fields.items() if name not in ("type", "token")
}
"""What only a login needs, and what stands there without it."""


class ServerSettings(UpstreamSettings):
    """One upstream: a command to start, or the address of a server that runs already."""

    transport: Annotated[
        Transport,
        BeforeValidator(_as_transport, json_schema_input_type=WrittenTransport),
    ] = Field(
        default="stdio",
        validation_alias=AliasChoices("transport", "type"),
        description="`stdio` with a command, `http` (streamable) or `sse` (legacy) with a url; "
        "guessed when left out. Also read as `type`.",
    )
    command: Text | None = Field(default=None, description="Program to start.")
    args: tuple[Line, ...] = Field(default=(), description=f"Its arguments. {REFERENCES}", repr=False)
    env: dict[VariableName, Line] = Field(
        default={},
        description=f"Environment variables for it, besides a list of harmless ones (`PATH`, `HOME`, `LANG`, the "
        f"usual `LC_*`, the base directories of `XDG_*`, proxies without their passwords). {REFERENCES}",
        repr=False,
    )
    cwd: Text | None = Field(
        default=None,
        description="Directory to start it in, relative to the configuration file. "
        "Without it, `work` in the data directory.",
    )
    url: UpstreamUrl | None = Field(default=None, description=f"Address of the server. {REFERENCES}", repr=False)
    headers: dict[HeaderName, HeaderValue] = Field(
        default={}, description=f"Headers sent with each request. {REFERENCES}", repr=False
    )
    auth: LoginSettings | None = Field(default=None, description="How to log in to it; found out without it.")
    lazy: Flag = Field(default=False, description="Start it on first use.")
    trust: Literal["auto", "manual"] = Field(
        default="auto",
        description="Who approves what it lists first, and new tools: `auto`, the gateway; `manual`, a person with "
        "`mcpproxy pins approve`. What changes later always waits for a person.",
    )
    connect_timeout: Seconds = Field(
        default=10.0, description="Seconds a call waits for a server that is still connecting."
    )
    sessions: Literal["auto", "shared", "exclusive", "per_client"] = Field(
        default="auto",
        description="Which calls share a session with the server: all (`shared`), one at a time (`exclusive`), those "
        "of one client (`per_client`). `auto`: all, until the server sends a request outside a call's own stream while "
        "calls are under way.",
    )

    @model_validator(mode="before")
    @classmethod
    def _guess_transport(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        if "transport" in data and "type" in data:
            raise ValueError("`transport` or `type`, not both")
        if "transport" in data or "type" in data:
            return data
        return {**data, "transport": "http" if "url" in data and "command" not in data else "stdio"}

    @model_validator(mode="after")
    def _reachable_one_way(self) -> ServerSettings:
        if (self.command is None) == (self.url is None):
            found = "neither" if self.command is None else "both"
            raise ValueError(f"exactly one of `command` and `url`, and there is {found}")
        _refuse_strays(self)
        if self.auth is not None and self.auth.type in ("oauth", "bearer", "none") and _has_authorization(self):
            raise ValueError(f"no Authorization in `headers`, because the type of `auth` is {self.auth.type}")
        return self


def _has_authorization(server: ServerSettings) -> bool:
    return any(name.lower() == "authorization" for name in server.headers)


def _refuse_strays(server: ServerSettings) -> None:
    """What belongs to the other kind of server is a mistake: headers on a command would protect nothing."""
    needs, strays = ("command", ("headers", "auth")) if server.transport == "stdio" else ("url", ("args", "env", "cwd"))
    if getattr(server, needs) is None:
        raise ValueError(f"`{needs}`, because transport is {server.transport}")
    for stray in strays:
        if getattr(server, stray):
            raise ValueError(f"no `{stray}`, because transport is {server.transport}")


def _provider_object(value: str) -> str:
    if not _PROVIDER.fullmatch(value):
        raise ValueError("module:object such as weather:provider")
    return value


class ProviderSettings(UpstreamSettings):
    """A provider of tools that runs inside the gateway: an object of a Python module, or an installed package's."""

    object: Annotated[str, AfterValidator(_provider_object)] | None = Field(
        default=None, description="`module:object`; without it, the installed provider of this name."
    )


def _as_provider(value: Any) -> Any:
    return {"object": value} if isinstance(value, str) else value


Provider = Annotated[ProviderSettings, BeforeValidator(_as_provider, json_schema_input_type=str | ProviderSettings)]


def check_name(name: str) -> str:
    """The name, if an upstream may have it; `ValueError` says what was expected."""
    if name in RESERVED:
        raise ValueError(f"another name: {name} is the built-in upstream")
    if "__" in name or not _NAME.fullmatch(name):
        raise ValueError(NAME_RULE)
    return name
