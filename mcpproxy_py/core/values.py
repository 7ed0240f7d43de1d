"""The values every room shares. Frozen, built at the edge, never wrong inside. What is made anew for every call is a
named tuple, because a frozen dataclass sets its fields one by one.

The names that upstream tools and prompts have on the direct surface: `server__tool` (SURF-2).

A name is made from its own parts alone, so it stays the same whatever else comes and goes. Where the plain
spelling does not fit the protocol, is too long for hosts, could be read in two ways, or looks altered itself, it is
altered and carries a digest of the true name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from mcpproxy_py.core import json_values
from mcpproxy_py.core.pending_checks import CheckVerdict, PendingCheck
from mcpproxy_py.core.policy.tool_names import MAX_NAME, ToolLists, normal_form, tool_lists
from mcpproxy_py.core.record.masking import capped
from mcpproxy_py.errors import Code

if TYPE_CHECKING:
    from mcpproxy_py.core.policy.scope import Access
    from mcpproxy_py.core.protocol.tasks import TaskOrigin
    from mcpproxy_py.core.results.tokens import Steps

SEPARATOR: Final = "__"
LONGEST: Final = 64
"""Hosts break on longer ones."""
DIGEST: Final = 10

_FIT: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{LONGEST}}}")
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_.-]")
_ALTERED: Final = re.compile(rf"_[0-9a-f]{{{DIGEST}}}$")


def direct_name(server: str, name: str) -> str:
    plain = f"{server}{SEPARATOR}{name}"
    if _FIT.fullmatch(plain) and not server.endswith("_") and not name.startswith("_") and not is_altered(plain):
        return plain
    digest = sha256(f"{server}:{name}".encode("utf-8", "replace")).hexdigest()[:DIGEST]
    return f"{_UNFIT.sub('_', plain)[: LONGEST - DIGEST - 1]}_{digest}"


def is_altered(outer: str) -> bool:
    """Whether this may be a name that was altered; if not, `split` has its true parts."""
    return _ALTERED.search(outer) is not None


def split(outer: str) -> tuple[str, str] | None:
    """The parts of a plain name. Neither part of one can make the first separator ambiguous."""
    server, separator, name = outer.partition(SEPARATOR)
    return (server, name) if separator and server and name else None


Operation = Literal["read", "write", "destructive"]
ToolClass = Literal["read", "write", "destructive", "unknown"]
ClassOrigin = Literal["server", "override", "undecided", "unannotated", "untrusted"]
ConfirmBy = Literal["either", "client", "page"]
Detail = Literal["full", "compact", "auto"]
NARROWS: Final[dict[ConfirmBy, int]] = {"either": 0, "client": 1, "page": 2}
Source = Literal["mcp", "cli", "api", "internal"]
Surface = Literal["gate", "direct", "passthrough", "rest"]
IntentSource = Literal["declared", "inferred", "implied", "passive"]
ServerState = Literal["connecting", "connected", "sleeping", "failed", "disabled", "needs_login"]
Status = Literal["pending", "success", "error", "blocked", "cancelled", "timeout", "interrupted"]

UNDECLARING: Final[frozenset[Surface]] = frozenset(("direct", "passthrough"))
"""Doors at which nobody declares an intent: the tool's class implies it."""
OPERATIONS: Final[tuple[Operation, ...]] = ("read", "write", "destructive")
SENSITIVITIES: Final = ("public", "internal", "private", "unknown")
VARIANTS: Final[Mapping[str, Operation]] = {
    "call_tool_read": "read", "call_tool_write": "write", "call_tool_destructive": "destructive",
}  # fmt: skip
VARIANT_OF: Final[Mapping[Operation, str]] = {operation: name for name, operation in VARIANTS.items()}

RANK: Final[Mapping[ToolClass, int]] = {"read": 0, "unknown": 1, "write": 1, "destructive": 2}


def risk(*levels: ToolClass) -> Operation:
    """The one notion of risk: the highest of the levels, unknown counting as write (GATE-12)."""
    return OPERATIONS[max(map(RANK.__getitem__, levels))]


ANNOTATIONS_LIMIT: Final = 2048
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class ClientInfo(NamedTuple):
    """Who says it is asking. Claimed, never trusted."""

    name: str = ""
    version: str = ""


class Intent(NamedTuple):
    operation_type: Operation
    data_sensitivity: str | None = None
    reason: str | None = None
    source: IntentSource = "declared"

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"operation_type": self.operation_type}
        if self.data_sensitivity is not None:
            shown["data_sensitivity"] = self.data_sensitivity
        if self.reason is not None:
            shown["reason"] = self.reason
        shown["source"] = self.source
        return shown


class Ask(NamedTuple):
    """One thing somebody wants from the gateway, whatever door it came through.

    `tool` is the outer name (`call_tool_read`, `retrieve_tools`, `server__tool`), `params` the arguments as
    decoded from the wire and not yet believed. `id` is time-ordered and names the activity record. Where
    `method` is no tool call, `tool` is what it is about (a URI, a prompt) and `params` all of its parameters.
    """

    id: str
    at: float
    tool: str
    params: Any
    source: Source = "mcp"
    surface: Surface = "gate"
    principal: str = "local"
    client: ClientInfo = ClientInfo()
    session_id: str | None = None
    request_id: str | None = None
    server: str | None = None
    """The one upstream behind this door; only passthrough has that."""
    method: str = "tools/call"
    meta: Mapping[str, Any] | None = None
    """The client's own `_meta`, which goes along upstream."""
    carried: Mapping[str, Any] = NOTHING
    """Of a later round: `inputResponses` and the upstream's own `requestState`."""
    again: bool = False
    """Whether this is a later round of an ask that is on record already."""
    plain: bool = False
    """Whether `params` were read by a strict JSON parser: no string in them holds half of a surrogate pair."""
    verdicts: tuple[CheckVerdict, ...] = ()
    """What was found out about its arguments beside the event loop."""
    access: Access | None = None
    """What there is for who asks; `None`: everything."""
    asked_by: Callable[[str], bool] | None = None
    """Whether a server of this identity began what this continues; `None` where it continues nothing."""
    task: TaskOrigin | None = None
    """The task that a request of that extension is about, where its owner asks."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, or changes something outside an ask (a server, the freeze, the key)."""

    principal: str
    source: Source
    client: ClientInfo
    request_id: str | None = None
    access: Access | None = None


@dataclass(frozen=True, slots=True)
class Override:
    """One entry of an operator's override: `when` is a compiled JSON Schema, `None` matches always."""

    tool_class: Operation
    when: Callable[[Mapping[str, Any]], bool | PendingCheck] | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as its server declared it (`wire`, whole) and as the operator classed it.

    `violation` is the compiled input schema: the first thing wrong with some arguments, or `None`.
    It is absent where the schema did not compile; the tool then stays callable, and `unchecked` says why.
    """

    server: str
    name: str
    wire: Mapping[str, Any]
    declared: ToolClass
    trusted: bool = True
    overrides: tuple[tuple[Override, ...], ...] = ()
    """The entries of each that means it; globs may be several."""
    violation: Callable[[Mapping[str, Any]], str | PendingCheck | None] | None = None
    unchecked: str | None = None
    refused: str | None = None
    """Why nobody may call it for its name: it looks like another one, or like one that an override names."""
    changed: str | None = None
    """Why nobody may call it before a person has decided: it is not what was approved."""
    full_name: str = field(init=False)
    direct_name: str = field(init=False)
    normal: str = field(init=False)  # what its name is compared by, where it is not too long for that
    annotations: Mapping[str, Any] = field(init=False)
    on_record: Any = field(init=False)
    """The annotations as every record of a call has them: a server may make them as long as it likes."""

    def __post_init__(self) -> None:
        said = json_values.as_object(self.wire.get("annotations")) or {}
        object.__setattr__(self, "full_name", f"{self.server}:{self.name}")
        object.__setattr__(self, "normal", normal_form(self.name) if len(self.name) <= MAX_NAME else self.name)
        object.__setattr__(self, "direct_name", direct_name(self.server, self.name))
        object.__setattr__(self, "annotations", said)
        object.__setattr__(self, "on_record", capped(said, ANNOTATIONS_LIMIT)[0])


@dataclass(frozen=True, slots=True)
class Server:
    """An upstream as the last snapshot saw it. `tools` may be an older listing while it is away."""

    name: str
    state: ServerState
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    error: str | None = None
    allow_tools: tuple[str, ...] | None = None
    deny_tools: tuple[str, ...] = ()
    confirm: Literal["none", "write", "destructive"] = "none"
    confirm_by: ConfirmBy = "either"
    transport: str = "stdio"
    identity: str = ""
    """Which program or address it is: a digest of what the operator configured (`UpstreamSpec.identity`)."""
    protocol_version: str | None = None
    listing_extras: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the server said in its list beside the tools."""
    tasks: float | None = None
    """For how many seconds a call may go on as a task that is followed here; `None` where it has none."""
    outside: Callable[[str], bool] | None = field(default=None, compare=False, repr=False)
    """Whether no tool of this name is in the scope that this was narrowed to."""
    lists: ToolLists = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lists", tool_lists(self.allow_tools, self.deny_tools))

    @property
    def condition(self) -> str:
        return "needs a login" if self.state == "needs_login" else f"is {self.state}"

    def offers(self, tool: str) -> bool:
        """Whether the operator's lists let this tool be called at all, its name does, and it is what was approved."""
        return self.forbids(tool) is None

    def forbids(self, tool: str) -> str | None:
        """Why they do not."""
        found = self.tools.get(tool)
        if found is None:
            return self.lists.judged(tool) if self.outside is None or not self.outside(tool) else "it is out of scope"
        return found.refused or self.lists.forbids(tool) or found.changed


FORBIDS: Final[Mapping[str, int]] = {"allow": 0, "write": 1, "destructive": 2}


@dataclass(frozen=True, slots=True)
class Policy:
    """The switches a decision depends on; part of the snapshot, so that one read gives all of it."""

    strict: bool = True
    unannotated: Literal["allow", "write", "destructive"] = "allow"
    missing_intent: Literal["refuse", "infer"] = "refuse"
    frozen: bool = False
    max_depth: int = 64
    offers_requests: bool = True
    """Whether `request_capability` exists."""
    detail: Detail = "full"
    """How `retrieve_tools` shows tools where nobody says."""
    ceiling: Operation = "destructive"
    """The highest risk a call may have; lower only for a principal with a narrower scope."""
    token_ceiling: Operation = "destructive"
    """The same with the token at hand, at most `ceiling`. For calls in between, a client can get another token."""

    @property
    def mode(self) -> str:
        return "strict" if self.strict else "permissive"

    def stricter(self, other: Policy) -> Policy:
        """Of each switch what forbids more."""
        return Policy(
            strict=self.strict or other.strict,
            unannotated=max(self.unannotated, other.unannotated, key=FORBIDS.__getitem__),
            missing_intent="refuse" if "refuse" in (self.missing_intent, other.missing_intent) else "infer",
            frozen=self.frozen or other.frozen,
            max_depth=min(self.max_depth, other.max_depth),
            offers_requests=self.offers_requests and other.offers_requests,
            detail=other.detail,
            ceiling=min(self.ceiling, other.ceiling, key=RANK.__getitem__),
            token_ceiling=min(self.token_ceiling, other.token_ceiling, key=RANK.__getitem__),
        )


ViewKey = tuple[Surface, str | None, str]
"""A surface, the one server behind it where it has one, and the name by which a tool is called there."""


@dataclass(slots=True)
class ToolView:
    """What follows for one tool from one snapshot, whatever it is called with: found out by the first call."""

    server: Server
    tool: Tool
    split: tuple[str, str]
    name: str
    """`server:tool`, as it was asked for."""
    offered: bool
    tool_class: ToolClass | None
    """`None` where an override looks at the arguments, so that each call is asked about."""
    origin: ClassOrigin
    effective: ToolClass
    on_record: dict[tuple[Any, ...], bytes] = field(default_factory=dict[Any, bytes], compare=False, repr=False)
    """The part of a record that is the same for every such call; written and read by `core.record.events` alone."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a decision may look at, published as one reference and never changed."""

    policy: Policy = field(default_factory=Policy)
    servers: Mapping[str, Server] = field(default_factory=dict[str, Server])
    index: Any = None
    """`core.search.Index` over the tools of every server in `servers`."""
    choosing: Callable[[], Steps[Any]] = field(default=lambda: (None for _ in ()), compare=False, repr=False)
    """Finds out in small steps which tools are in here, where that is left to whoever looks at all of them."""
    views: dict[ViewKey, ToolView] = field(default_factory=dict[Any, ToolView], init=False, compare=False, repr=False)
    """Of the tools that were called since this was published; only names of tools that exist get in."""
    narrowed: dict[str | None, Snapshot] = field(default_factory=dict[Any, Any], init=False, compare=False, repr=False)
    """What of it is in which scope, by the key of that, never by `None`; written by `core.policy.scope` alone."""


class Route(NamedTuple):
    """The call may go: to this tool, with exactly these arguments."""

    server: str
    tool: Tool
    args: Mapping[str, Any]
    variant: Operation
    intent: Intent
    tool_class: ToolClass
    risk: Operation
    rule: str
    origin: ClassOrigin = "server"
    warning: str | None = None
    confirm: bool = False
    """Whether a person has to say yes first."""
    view: ToolView | None = None
    pending: PendingCheck | None = None
    """What was decided without, as if nobody could tell."""

    @property
    def full_name(self) -> str:
        return self.tool.full_name


@dataclass(frozen=True, slots=True)
class Relay:
    """A request that is no tool call may go to this server, as it came."""

    server: str
    method: str
    params: Mapping[str, Any]
    subject: str
    risk: Operation
    rule: str = "relayed"
    confirm: bool = False
    """Whether a person has to say yes first."""

    @property
    def full_name(self) -> str:
        return f"{self.server}:{self.subject}"


@dataclass(frozen=True, slots=True)
class LocalAnswer:
    """The gateway answers this one itself (`retrieve_tools`, `request_capability`)."""

    tool: str
    params: Mapping[str, Any]
    rule: str = "local"
    risk: Operation = "read"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The first rung that failed, with what was known by then. `awaits` names a server whose
    connection is still under way and could change this answer."""

    code: Code
    message: str
    rule: str
    remedy: str
    name: str | None = None
    variant: Operation | None = None
    intent: Intent | None = None
    claimed: Any = None
    """What the caller declared, as it came, when it was too wrong to become an `Intent`."""
    tool: Tool | None = None
    tool_class: ToolClass | None = None
    origin: ClassOrigin = "server"
    args: Mapping[str, Any] | None = None
    awaits: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    pending: PendingCheck | None = None
    """What was decided without, as if nobody could tell."""


Decision = Route | Relay | LocalAnswer | Refusal
