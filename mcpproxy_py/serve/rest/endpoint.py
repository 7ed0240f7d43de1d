"""What the REST interface needs of the other rooms. The composition root hands the parts in.

One row of the REST interface, from which the route, the OpenAPI document and the reference page are made.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pydantic import BaseModel
from starlette.requests import Request

from mcpproxy_py.core.catalog.approval_rules import Status as ApprovalStatus
from mcpproxy_py.core.catalog.model import ServerEntry
from mcpproxy_py.core.policy.scope import Access
from mcpproxy_py.core.policy.token_terms import TokenTerms
from mcpproxy_py.core.protocol.client_channel import ClientChannel
from mcpproxy_py.core.record.masking import Masker
from mcpproxy_py.core.values import Ask, Caller, ClientInfo, Decision, Refusal, Snapshot, Source, Status, Surface
from mcpproxy_py.errors import Code
from mcpproxy_py.gateway.access.profiles import ProfileTable
from mcpproxy_py.gateway.admin import ConfigStore
from mcpproxy_py.gateway.approvals import Verdict
from mcpproxy_py.gateway.confirmation.waiting_call import ConfirmationStatus
from mcpproxy_py.gateway.masker import MASKER
from mcpproxy_py.gateway.page.sessions import PageSessions
from mcpproxy_py.gateway.pins.service import PinStep
from mcpproxy_py.gateway.recorder import CallCounters
from mcpproxy_py.gateway.shares import PrincipalShares
from mcpproxy_py.serve.rest.confirmations import ShownQuestions
from mcpproxy_py.serve.rest.requests import NoQuery
from mcpproxy_py.store.activity.feed import FeedBatch, FeedPosition
from mcpproxy_py.store.activity.gap_signals import GapReading
from mcpproxy_py.store.activity.reader import Filters, Page
from mcpproxy_py.store.chain_key import Anchor
from mcpproxy_py.upstream.calls.scheduler import ServerStats


class RestReply(Protocol):
    """The answer to an ask: always a tool result, and the refusal where it is one."""

    @property
    def id(self) -> str: ...
    @property
    def status(self) -> Status: ...
    @property
    def result(self) -> Mapping[str, Any]: ...
    @property
    def refusal(self) -> Refusal | None: ...
    @property
    def warning(self) -> str | None: ...


class RestRecorder(Protocol):
    @property
    def tally(self) -> CallCounters: ...
    @property
    def unrecorded(self) -> int: ...
    @property
    def mask(self) -> Callable[[Any], Any]: ...


class RestGateway(Protocol):
    @property
    def snapshot(self) -> Snapshot: ...
    @property
    def recorder(self) -> RestRecorder: ...
    @property
    def shares(self) -> PrincipalShares: ...
    @property
    def in_flight(self) -> int: ...
    async def call(self, ask: Ask, channel: ClientChannel | None = None) -> RestReply: ...
    async def decides(self, ask: Ask) -> Decision: ...
    def explain(self, ask: Ask) -> Awaitable[Mapping[str, Any]]: ...
    def new_ask(self, tool: str, params: Any, *, source: Source, surface: Surface, principal: str, client: ClientInfo,
                session_id: str | None = None, request_id: str | None = None, access: Access | None = None
                ) -> Ask: ...  # fmt: skip


class RestGaps(Protocol):
    async def seen(self, since_ms: int) -> GapReading: ...


class RestStore(Protocol):
    async def activities(self, filters: Filters) -> Page: ...
    async def activity(self, activity_id: str) -> Mapping[str, Any] | None: ...
    async def candidates(self, typed: str) -> list[dict[str, Any]]: ...
    async def summary(self, filters: Filters) -> Mapping[str, Any]: ...
    def export(self, filters: Filters) -> AsyncIterator[Sequence[Mapping[str, Any]]]: ...
    async def caught_up(self) -> bool: ...
    @property
    def gaps(self) -> RestGaps: ...
    async def verify(self, anchor: Anchor | None = None) -> Mapping[str, Any]: ...
    async def anchor(self) -> Anchor: ...
    async def erase(self, activity_id: str, by: Mapping[str, Any]) -> None: ...
    async def position(self) -> FeedPosition: ...
    def events(self, after: FeedPosition | None, *, brief: bool = False) -> AsyncGenerator[FeedBatch | None]: ...
    def health(self) -> Mapping[str, Any]: ...
    async def size(self) -> int | None: ...


class RestAdmin(Protocol):
    """What a person may do to the gateway. Every change is on record under `by`."""

    async def add_server(
        self, name: str, config: dict[str, Any], by: Caller, *, replace: bool = False, check_secrets: bool = True
    ) -> None: ...
    async def server_entry(self, name: str) -> dict[str, Any] | None: ...
    async def remove_server(self, name: str, by: Caller) -> None: ...
    async def set_enabled(self, name: str, enabled: bool, by: Caller) -> None: ...
    async def set_classes(self, name: str, classes: Mapping[str, Any], by: Caller) -> dict[str, Any]: ...
    async def restart_server(self, name: str, by: Caller) -> None: ...
    async def begin_login(self, name: str, by: Caller, *, device: bool) -> dict[str, Any]: ...
    async def answer_login(self, name: str, address: str, by: Caller) -> dict[str, Any]: ...
    async def log_out(self, name: str, by: Caller, *, revoked: bool) -> dict[str, Any]: ...
    def login_state(self, name: str) -> dict[str, Any]: ...
    async def set_frozen(self, frozen: bool, by: Caller) -> None: ...
    async def rotate_key(self, by: Caller) -> str: ...
    def prove(self, nonce: str) -> dict[str, Any]: ...
    def describe_servers(self) -> list[dict[str, Any]]: ...
    def measured(self) -> list[ServerStats]: ...
    async def server_log(self, name: str, lines: int) -> list[str]: ...
    def shown_config(self) -> dict[str, Any]: ...
    def settings_state(self) -> dict[str, Any]: ...
    async def change_settings(self, changes: Mapping[tuple[str, ...], Any], by: Caller) -> dict[str, list[str]]: ...
    async def tried(self, change: Callable[[ConfigStore], object]) -> dict[str, list[str]]: ...
    async def health(self) -> list[dict[str, Any]]: ...
    def status(self) -> dict[str, Any]: ...


class RestRegistries(Protocol):
    """The configured registries: what is kept of them, and what they say now."""

    async def known(self, words: str, shipped: Mapping[str, ServerEntry]) -> list[Any]: ...
    async def ask(self, words: str, shipped: Mapping[str, ServerEntry]) -> list[Any]: ...
    async def entry(self, slug: str, shipped: Mapping[str, ServerEntry]) -> ServerEntry | None: ...


class RestApprovals(Protocol):
    """Agents' requests, which a person decides."""

    async def page(self, status: ApprovalStatus | None, before: str | None, limit: int) -> list[dict[str, Any]]: ...
    async def show(self, request_id: str) -> dict[str, Any]: ...
    async def decide(self, request_id: str, verdict: Verdict, by: Caller) -> dict[str, Any]: ...


class RestConfirmations(Protocol):
    """Calls that wait for a person outside of their clients."""

    async def page(self, status: ConfirmationStatus | None, before: str | None, limit: int) -> list[dict[str, Any]]: ...
    async def show(self, typed: str) -> dict[str, Any]: ...
    async def decide(self, typed: str, arguments_sha256: str, verdict: Verdict, by: Caller) -> dict[str, Any]: ...
    async def erase(self, activity_id: str) -> None: ...


class RestTokens(Protocol):
    """Tokens of agents. Every change is on record under `by`."""

    def list(self) -> list[dict[str, Any]]: ...
    def show(self, name: str) -> dict[str, Any]: ...
    async def create(self, name: str, terms: TokenTerms, by: Caller) -> dict[str, Any]: ...
    async def revoke(self, name: str, by: Caller) -> dict[str, Any]: ...
    async def rotate(self, name: str, grace: float, expires: float | None, by: Caller) -> dict[str, Any]: ...


class RestPins(Protocol):
    """What servers listed when it was approved, and what a person has to decide of what they list now."""

    def rows(self) -> list[dict[str, Any]]: ...
    async def show(self, server: str, *, texts: bool = False) -> dict[str, Any]: ...
    async def decide(
        self, server: str, step: PinStep, subjects: Sequence[str] | None, seen: str, by: Caller,
        said: Mapping[str, Any],
    ) -> dict[str, Any]: ...  # fmt: skip


@dataclass(frozen=True, slots=True)
class RestServices:
    gateway: RestGateway
    store: RestStore
    operator: RestAdmin
    approvals: RestApprovals
    confirmations: RestConfirmations
    tokens: RestTokens
    pins: RestPins
    started_at: float
    """Seconds of the monotonic clock."""
    masker: Masker = MASKER
    questions: ShownQuestions = field(default_factory=ShownQuestions)
    profiles: ProfileTable = field(default_factory=ProfileTable)
    page: PageSessions | None = None
    registries: RestRegistries | None = None


SURFACE = "rest"

Guarded = Literal["admin", "key", "own", "agent", "metrics", "open"]
"""Whose door it is; `agent` is that of the MCP surfaces, and `own` the admin's where an agent gets what is its own.
What needs the `key` itself is not done from the page."""


@dataclass(frozen=True, slots=True)
class RestRequest:
    """A request whose every part has been checked, and what it takes to answer it."""

    parts: RestServices
    caller: Caller
    path: Mapping[str, str]
    query: Any
    """An instance of the endpoint's `query` model."""
    body: Any
    """An instance of the endpoint's `body` model, `None` where it takes none."""
    request: Request

    def ask(self, tool: str, params: Mapping[str, Any]) -> Ask:
        """What this caller wants of the gateway, as the same kind of ask every other door makes."""
        return self.parts.gateway.new_ask(
            tool,
            params,
            source=self.caller.source,
            surface=SURFACE,
            principal=self.caller.principal,
            client=self.caller.client,
            request_id=self.caller.request_id,
            access=self.caller.access,
        )

    @property
    def access(self) -> Access | None:
        """As the guard gave it; None where there was none."""
        return self.request.scope.get("state", {}).get("access")

    @property
    def snapshot(self) -> Snapshot:
        """What there is for this caller."""
        snapshot, access = self.parts.gateway.snapshot, self.caller.access
        return snapshot if access is None else access.view(snapshot)


Handler = Callable[[RestRequest], Awaitable[Any]]
"""Gives something JSON can hold, or a whole `Response`. Raises `GatewayError`."""


@dataclass(frozen=True, slots=True)
class RestEndpoint:
    """`refusals` are the codes of its own; those every endpoint shares are added where it is described."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    group: str
    summary: str
    handler: Handler
    answer: type[BaseModel] | None
    query: type[BaseModel] = NoQuery
    body: type[BaseModel] | None = None
    status: int = 200
    refusals: tuple[Code, ...] = ()
    media: tuple[str, ...] = ("application/json",)
    guarded: Guarded = "admin"
    more: str = ""
    """What the summary has no room for."""
    masked: bool = True
    """Whether secrets are taken out of the answer. Not of what is a server's own, or the secret that was asked for; and
    from the record they were taken out before it was written."""

    @property
    def shown_path(self) -> str:
        """The path without the converters that only the router reads."""
        return self.path.replace(":path}", "}")

    @property
    def shared_refusals(self) -> tuple[Code, ...]:
        if self.guarded == "open":
            return (Code.BAD_REQUEST, Code.INTERNAL)
        large = (Code.TOO_LARGE,) if self.body else ()
        return (Code.BAD_REQUEST, Code.UNAUTHORIZED, Code.FOREIGN_HOST, Code.FOREIGN_ORIGIN, *large, Code.INTERNAL)

    @property
    def all_refusals(self) -> tuple[Code, ...]:
        return tuple(dict.fromkeys((*self.shared_refusals, *self.refusals)))
