"""Everything that can be set, frozen, with what it means beside it. The reference page is printed from here.

What would stand open, or not exist, is no configuration to start with (SEC-1, SURF-4).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, PrivateAttr, SecretStr, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.settings.access.auth import Auth
from mcpproxy_py.settings.access.profiles import Profile, ProfileName
from mcpproxy_py.settings.access.registries import CatalogSettings
from mcpproxy_py.settings.document import servers_by_name
from mcpproxy_py.settings.fields import (
    REFERENCES,
    AllowedHost,
    AllowedOrigin,
    Bytes,
    Count,
    DatabaseUrl,
    Flag,
    Listen,
    PatternName,
    Positive,
    Seconds,
    Tokens,
    check_secret,
    is_loopback,
    split_listen,
)
from mcpproxy_py.settings.mask_patterns import LONGEST, check_pattern
from mcpproxy_py.settings.servers import FROZEN, Provider, ServerSettings, check_name

ENV_PREFIX = "MCPPROXY_"
ENV_DELIMITER = "__"


def _checked_secret(value: SecretStr) -> SecretStr:
    check_secret(value.get_secret_value())
    return value


def _absolute(value: Path) -> Path:
    return value.expanduser().absolute()


Secret = Annotated[SecretStr, AfterValidator(_checked_secret)]
Directory = Annotated[Path, AfterValidator(_absolute)]
ServerName = Annotated[str, AfterValidator(check_name)]
Servers = Annotated[
    dict[ServerName, ServerSettings],
    BeforeValidator(servers_by_name, json_schema_input_type=dict[str, ServerSettings]),
]


class IntentDeclaration(BaseModel):
    """What agents have to declare, and what happens when they do not."""

    model_config = FROZEN

    strict_server_validation: Flag = Field(
        default=True,
        description="Refuse a call whose variant contradicts the server's hints; `false` warns and lets it pass.",
    )
    unannotated: Literal["allow", "write", "destructive"] = Field(
        default="allow", description="What a tool without hints counts as: callable by any variant, or as that class."
    )
    missing: Literal["refuse", "infer"] = Field(
        default="refuse", description="`infer` fills a missing intent from the variant, recorded as inferred."
    )
    host_confirm: Literal["never", "destructive"] = Field(
        default="never",
        description="`destructive` tells the host to ask its user before each destructive call, whatever its own rules "
        "allow. Claude Code does; other hosts ignore it.",
    )
    schema_: Literal["nested", "flat"] = Field(
        default="nested", alias="schema", description="Which spelling of the intent is advertised; both are accepted."
    )


class Discovery(BaseModel):
    """What agents get of the tools that they find."""

    model_config = FROZEN

    detail: Literal["full", "compact", "auto"] = Field(
        default="auto",
        description="How `retrieve_tools` shows what it finds, where the agent does not say: with schemas, with "
        "one-line signatures, or the first with its schema and the others with signatures.",
    )


class MaskPattern(BaseModel):
    """Something of one's own that must not be recorded."""

    model_config = FROZEN

    name: PatternName = Field(description="What is shown instead, as `***name***`.")
    pattern: Annotated[str, AfterValidator(check_pattern)] = Field(
        min_length=1,
        max_length=LONGEST,
        description="A regular expression of RE2. With a group named `secret`, only that part is masked.",
    )


class Activity(BaseModel):
    """The record of who meant what."""

    model_config = FROZEN

    on_failure: Literal["refuse", "allow"] = Field(
        default="refuse", description="What happens to calls above read while the record cannot be written."
    )
    max_payload_bytes: Bytes = Field(
        default=65_536, description="Arguments and results are recorded up to this size each."
    )
    mask_patterns: tuple[MaskPattern, ...] = Field(
        default=(),
        max_length=50,
        description="Patterns to mask in the record, besides keys, tokens, passwords and cards.",
    )
    database_url: DatabaseUrl | None = Field(
        default=None,
        description=f"PostgreSQL to share between gateways; none means SQLite in the data directory. {REFERENCES}",
        repr=False,
    )
    ack: Literal["local", "commit"] = Field(
        default="local",
        description="What an answer waits for: this gateway's journal, or the database that all gateways share.",
    )
    retention_days: Positive | None = Field(default=None, description="Records older than this are deleted.")
    max_size_mb: Positive | None = Field(
        default=None, description="The oldest records are deleted when all of them take more than this."
    )
    max_journal_mb: Positive = Field(
        default=1024, description="Maximum size of the journal while the database cannot be written."
    )


class PerPrincipal(BaseModel):
    """What each principal may have for itself, so that something is left for the others (SEC-7). A principal is who was
    let in: the agent token, the admin key, or whoever needs neither on this machine (`local`)."""

    model_config = FROZEN

    in_flight: Count = Field(
        default=800, description="Calls at once. A fifth of `limits.max_in_flight` stays for everybody else."
    )
    questions: Count = Field(
        default=250,
        description="Questions and confirmations that wait for an answer at once. No person has so many forms open.",
    )
    sessions: Count = Field(
        default=2_500, description="Client sessions at one surface. A hundred editors do not open so many."
    )
    streams: Count = Field(default=250, description="Streams that listen for changes. A client needs one or two.")
    subscriptions: Count = Field(
        default=2_000,
        description="Resources that are watched for changes. At each server, 10,000 are watched for all principals.",
    )
    record_mb: Positive = Field(
        default=1024,
        description="Megabytes of record a minute. More than half is kept without arguments and results; beyond all of "
        "it, calls are refused. Refused calls may take a 64th whole and another 64th without arguments; beyond that "
        "they are counted and not recorded one by one. The default is 15,000 small calls a second, for a whole minute.",
    )
    kept_results_mb: Positive = Field(
        default=32, description="Megabytes of cut results that are kept to be read on. The oldest go first."
    )


class Limits(BaseModel):
    """Bounds on what one client or server can make the gateway hold."""

    model_config = FROZEN

    max_body_bytes: Count = Field(default=4_194_304, description="Maximum size of a request.")
    max_body_values: Count = Field(
        default=50_000,
        description="Maximum number of keys and values in a request. Reading them holds up everybody's calls for a "
        "moment, about 0.1 ms per thousand.",
    )
    max_result_bytes: Count = Field(
        default=16_777_216,
        description="Maximum size of an upstream's answer. Reading one holds up everybody's calls for a moment, about "
        "2 ms per MB.",
    )
    max_result_values: Count = Field(
        default=300_000, description="Maximum number of keys and values in an upstream's answer."
    )
    result_tokens: Tokens = Field(
        default=20_000,
        description="About how many tokens of a result an agent gets at once, at the gate. A longer one is cut and can "
        "be read on with `read_result`. `0` cuts none; otherwise at least 1000.",
    )
    kept_results_mb: Positive = Field(
        default=64, description="Megabytes of cut results that are kept in memory to be read on, of all principals."
    )
    kept_results_seconds: Seconds = Field(default=900.0, description="Seconds for which a cut result is kept.")
    max_argument_depth: Count = Field(default=64, description="Maximum nesting of arguments.")
    max_sessions: Count = Field(
        default=10_000, description="Client sessions at once; also the most streams that may listen for changes."
    )
    max_in_flight: Count = Field(default=1_000, description="Calls at once.")
    input_timeout: Seconds = Field(
        default=300.0,
        description="Seconds that a client has to answer a request of a server in the middle of a call; a tenth of "
        "that while another call waits for a slot at this server.",
    )
    max_connections: Count = Field(
        default=2_048,
        description="Connections of clients at once; fewer where the limit of open files allows fewer. An agent needs "
        "a handful. When all are taken, a new one takes the place of the one that was idle longest.",
    )
    max_connections_per_address: Count = Field(
        default=1_536,
        description="The same for each address. Behind a proxy all come from one, so it is three quarters of all. Of "
        "IPv6, a /64 network counts as one address.",
    )
    head_timeout: Seconds = Field(
        default=30.0,
        description="Seconds for the request line and headers, from the connection or their first byte. They fit into "
        "one packet or two.",
    )
    body_timeout: Seconds = Field(
        default=120.0, description="Seconds for the body. The largest one arrives in time over a line of 300 kbit/s."
    )
    read_timeout: Seconds = Field(
        default=60.0,
        description="Seconds in which a client has to take 64 KiB of an answer, or the rest of it. A line of 10 kbit/s "
        "is fast enough.",
    )
    idle_timeout: Seconds = Field(
        default=75.0,
        description="Seconds that a connection may stay open between two requests. Clients open another one as needed.",
    )
    per_principal: PerPrincipal = PerPrincipal()


class Log(BaseModel):
    """What goes to stderr."""

    model_config = FROZEN

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The lowest level that is logged."
    )
    format: Literal["text", "json"] = Field(default="text", description="Plain lines, or JSON for programs.")


class Settings(BaseSettings):
    """The whole configuration. A reload is a new value; nothing in here changes."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        case_sensitive=True,  # keys of the file, too: pydantic-settings would take `Listen` for `listen`
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=ENV_DELIMITER,
    )

    listen: Listen = Field(
        default="127.0.0.1:8080", description="Address to listen on, HOST:PORT; a port alone is one of 127.0.0.1."
    )
    data_dir: Directory = Field(
        default=Path("~/.mcpproxy"),
        validate_default=True,
        description="Where the record, the key and the logs are kept, readable by its owner only.",
    )
    surfaces: tuple[Literal["gate", "direct", "passthrough"], ...] = Field(
        default=("gate",),
        description="Which surfaces exist. On direct and passthrough no intent is needed.",
    )
    require_mcp_auth: Flag = Field(default=False, description="Require the agent token on a loopback address too.")
    mcp_token: Secret | None = Field(
        default=None, description=f"Agent token, for access to the MCP surfaces. {REFERENCES}"
    )
    auth: Auth = Auth()
    sealing_keys: tuple[Secret, ...] = Field(
        default=(),
        description="Keys that sign the state that clients carry between the rounds of a call. The first signs, all "
        "are accepted. Gateways behind one address need the same ones. None means a key of this data directory. "
        f"{REFERENCES}",
    )
    api_key: Secret | None = Field(
        default=None, description=f"Admin key to use instead of the one made at first start. {REFERENCES}"
    )
    allowed_hosts: tuple[AllowedHost, ...] = Field(default=(), description="Additional `Host` headers to accept.")
    allowed_origins: tuple[AllowedOrigin, ...] = Field(
        default=(),
        description="Additional `Origin` headers to accept. Pages of these origins may also read the MCP surfaces and "
        "their metadata (CORS).",
    )
    intent_declaration: IntentDeclaration = IntentDeclaration()
    discovery: Discovery = Discovery()
    catalog: CatalogSettings = CatalogSettings()
    capture_missing_capabilities: Flag = Field(default=True, description="Offer the tool `request_capability`.")
    request_capability_description: str | None = Field(
        default=None,
        min_length=1,
        max_length=4_000,
        description="Description of that tool, instead of the built-in one.",
    )
    activity: Activity = Activity()
    limits: Limits = Limits()
    notify_desktop: Flag = Field(
        default=False,
        description="Show a notification on the desktop of this machine when a call waits for a person, with "
        "`notify-send` or `osascript`, whichever there is. It names the server, and nothing that an agent said.",
    )
    shutdown_timeout: Seconds = Field(
        default=10.0, description="Seconds that calls in flight get when the gateway stops."
    )
    log: Log = Log()
    servers: Servers = Field(default={}, alias="mcpServers", description="The upstreams, by name.")
    providers: dict[ServerName, Provider] = Field(
        default={}, description="Providers of tools inside the gateway, by name: `module:object`, or an object."
    )
    profiles: dict[ProfileName, Profile] = Field(
        default={}, description="What there is for one project or kind of work, by name; a profile only narrows."
    )

    _written: Mapping[str, Any] = PrivateAttr(default_factory=dict[str, Any])
    _missing: Mapping[str, str] = PrivateAttr(default_factory=dict[str, str])

    @model_validator(mode="after")
    def _one_of_each_name(self) -> Settings:
        if twice := sorted(self.servers.keys() & self.providers.keys()):
            raise ValueError(f"one upstream of each name, and {twice[0]} is both a server and a provider")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is handed in: `load` lays file, environment and flags over each other itself, because it
        has to know where each value came from, and a value built in a test must not depend on the machine."""
        return (init_settings,)

    @classmethod
    def read(
        cls, values: Mapping[str, Any], written: Mapping[str, Any], missing: Mapping[str, str] | None = None
    ) -> Settings:
        """Settings that remember how they were written, before secrets were filled in, and which servers have secrets
        that are `missing`."""
        settings = cls.model_validate(values)
        settings._written = written
        settings._missing = missing or {}
        return settings

    @property
    def missing_secrets(self) -> Mapping[str, str]:
        """The servers that cannot be started, and why: a secret has no value. Of what stands in its place in their
        settings nothing may be used."""
        return self._missing

    @property
    def written(self) -> Mapping[str, Any]:
        """The configuration with references instead of secrets: what may be shown of arguments and addresses."""
        return self._written

    @property
    def address(self) -> tuple[str, int]:
        return split_listen(self.listen)

    @property
    def listens_publicly(self) -> bool:
        """Whether other machines may reach it; then the MCP surfaces need a token (SEC-1)."""
        return not is_loopback(self.address[0])

    @property
    def accepts_tokens(self) -> bool:
        """Whether agents come with something that is configured."""
        return self.mcp_token is not None or self.auth.jwt is not None


def check_doors(settings: Settings, *, has_tokens: bool = False) -> None:
    """Raises `GatewayError` with the way out. `has_tokens` says whether somebody ever made an agent a token of its own:
    then those open the MCP surfaces, and where all of them have ended, nothing does."""
    if settings.accepts_tokens or has_tokens:
        return
    if settings.listens_publicly:
        raise GatewayError(
            Code.CONFIG_INVALID,
            f"{settings.listen} can be reached from outside, and no agent token is set. Set one first:\n"
            f'  export MCPPROXY_MCP_TOKEN="$(openssl rand -hex 32)"\n'
            "or run it on 127.0.0.1 once and make one for each agent: mcpproxy token create NAME",
        )
    if settings.require_mcp_auth:
        raise GatewayError(
            Code.CONFIG_INVALID,
            "require_mcp_auth is set, but mcp_token is not, and no agent has a token (mcpproxy token create NAME)",
        )
