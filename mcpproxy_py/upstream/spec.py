"""What the operator configured for one upstream, as the supervisor takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

from mcpproxy_py.core.oauth.options import OAuthOptions
from mcpproxy_py.core.pins.canonical import digest
from mcpproxy_py.core.policy.tool_names import in_both
from mcpproxy_py.core.values import NARROWS, ConfirmBy, Operation

Transport = Literal["stdio", "http", "sse", "local"]
Sessions = Literal["auto", "shared", "exclusive", "per_client"]
OverrideEntry = tuple[Operation, Mapping[str, Any] | None]

ASKS_MORE: Final[Mapping[str, int]] = {"none": 0, "destructive": 1, "write": 2}
START_ALLOWANCE: Final = 6
"""A command may first have to download its package (`npx`, `uvx`), so one attempt gets this many times
`connect_timeout`; callers still wait `connect_timeout` at most."""


ShowsPages = Literal["never", "in_lists", "always"]
"""Whether a server hears that pages of apps are shown here: not at all, where its lists are read, or also in a
handshake, which speaks for every call that comes after it and so only where no surface is open that shows none."""


@dataclass(frozen=True, slots=True)
class UpstreamSpec:
    name: str
    transport: Transport = "stdio"
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    work_dir: str | None = None
    """Where a command without a `cwd` runs, made when it is needed; where the gateway itself runs, if there is none."""
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    enabled: bool = True
    lazy: bool = False
    timeout: float = 60.0
    connect_timeout: float = 10.0
    max_concurrency: int = 64
    sessions: Sessions = "auto"
    sessions_why: str = ""
    """What the catalog says for it, where it recommends the same."""
    trust_annotations: bool = True
    trust: Literal["auto", "manual"] = "auto"
    """Whether its first listing is approved by policy, or waits for a person."""
    overrides: Mapping[str, tuple[OverrideEntry, ...]] = field(default_factory=dict[str, tuple[OverrideEntry, ...]])
    allow_tools: tuple[str, ...] | None = None
    deny_tools: tuple[str, ...] = ()
    confirm: Literal["none", "write", "destructive"] = "none"
    confirm_by: ConfirmBy = "either"
    oauth: OAuthOptions | None = None
    """How to log in to it; `None` where its credentials are configured, or it is to have none."""
    private_key: str | None = field(default=None, repr=False)
    signing_algorithm: str = "RS256"
    shows_pages: ShowsPages = "never"
    missing_secret: str | None = None
    """Why it must not be started: a secret in its configuration has no value."""

    @property
    def attempt_limit(self) -> float:
        """How long one attempt to connect, shake hands and list may take."""
        return self.connect_timeout * (START_ALLOWANCE if self.transport == "stdio" else 1)

    def stricter(self, other: UpstreamSpec) -> UpstreamSpec:
        """This with what the other forbids as well: its lists, and when a person is asked."""
        allowed = self.allow_tools
        if other.allow_tools is not None:
            allowed = other.allow_tools if allowed is None else in_both(allowed, other.allow_tools)
        return replace(
            self,
            allow_tools=allowed,
            deny_tools=tuple(dict.fromkeys((*self.deny_tools, *other.deny_tools))),
            confirm=max(self.confirm, other.confirm, key=ASKS_MORE.__getitem__),
            confirm_by=max(self.confirm_by, other.confirm_by, key=NARROWS.__getitem__),
        )

    def same_connection(self, other: UpstreamSpec) -> bool:
        """Whether changing from one to the other can keep the live connection."""
        return self._connection() == other._connection()

    @property
    def identity(self) -> str:
        """What stands behind the name: another program, address or account is another server. The digest is of secrets
        too, so it leaves this process only under a key."""
        where = (self.transport, self.command, self.args, dict(self.env), self.cwd, self.url, dict(self.headers))
        return digest([*where, None if self.oauth is None else asdict(self.oauth), self.private_key])

    def _connection(self) -> tuple[object, ...]:
        where = (self.transport, self.command, self.args, dict(self.env), self.cwd, self.url, dict(self.headers))
        login = (self.oauth, self.private_key, self.signing_algorithm)
        return (*where, *login, self.enabled, self.connect_timeout, self.missing_secret, self.shows_pages)
