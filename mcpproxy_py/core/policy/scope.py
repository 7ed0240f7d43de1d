"""What of the gateway there is for one principal: a snapshot, narrowed (SEC-2, SURF-12).

Whoever comes with a token or through a profile is decided on, searches and lists in a snapshot that holds nothing but
what is in scope. So what is out of scope is answered exactly like what does not exist, wherever it is asked for. A
scope narrows and tightens, never widens: two of them together are what both allow.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, Literal

from mcpproxy_py.core.policy.tool_class import lowest_risk
from mcpproxy_py.core.policy.tool_names import MAX_NAME, NamePattern, NameSet, name_set, normal_form
from mcpproxy_py.core.results.tokens import Steps, at_once
from mcpproxy_py.core.search.index import Index, IndexSegment
from mcpproxy_py.core.search.narrowed import FoundMapping, IndexOfSome
from mcpproxy_py.core.values import (
    FORBIDS,
    NARROWS,
    RANK,
    ConfirmBy,
    Operation,
    Policy,
    Server,
    Snapshot,
    Tool,
)

Confirm = Literal["none", "write", "destructive"]
Unannotated = Literal["allow", "write", "destructive"]
_CONFIRMS: Final[dict[Confirm, int]] = {"none": 0, "destructive": 1, "write": 2}
KEPT: Final = 512
"""Narrowed snapshots that one snapshot remembers."""
REMEMBERED: Final = 4096
"""Servers of which a list of globs remembers what it says of them."""
MOST_INNER: Final = 64
"""Scopes besides its own that an access remembers itself in."""
EVERY: Final = "*"


@dataclass(frozen=True, slots=True)
class Scope:
    """Each entry of `servers` and `tools` is one list that somebody wrote (a token, a profile); what is in scope is in
    all of them. A tool is written `server:tool` or, of any server, `tool`; both parts may be globs."""

    servers: tuple[tuple[str, ...], ...] = ()
    tools: tuple[tuple[str, ...], ...] = ()
    ceiling: Operation = "destructive"
    """The highest risk (GATE-12) that a call may have."""
    strict: bool = False
    unannotated: Unannotated = "allow"
    confirm: Confirm = "none"
    confirm_by: ConfirmBy = "either"
    token_ceiling: Operation = "destructive"
    """The highest risk that this token allows. What lies between this and `ceiling` is visible, because the client can
    get a token that allows it (step-up); calls of it are refused."""
    key: str = field(init=False, compare=False, repr=False)
    """All of it, as text. Every call looks for what is in scope, and the hash of a text is known."""

    def __post_init__(self) -> None:
        ceilings = self.ceiling, self.token_ceiling
        said = self.servers, self.tools, ceilings, self.strict, self.unannotated, self.confirm, self.confirm_by
        object.__setattr__(self, "key", repr(said))

    def within(self, other: Scope) -> Scope:
        """What both allow."""
        return Scope(
            servers=tuple(dict.fromkeys(self.servers + other.servers)),
            tools=tuple(dict.fromkeys(self.tools + other.tools)),
            ceiling=min(self.ceiling, other.ceiling, key=RANK.__getitem__),
            token_ceiling=min(self.token_ceiling, other.token_ceiling, key=RANK.__getitem__),
            strict=self.strict or other.strict,
            unannotated=max(self.unannotated, other.unannotated, key=FORBIDS.__getitem__),
            confirm=max(self.confirm, other.confirm, key=_CONFIRMS.__getitem__),
            confirm_by=max(self.confirm_by, other.confirm_by, key=NARROWS.__getitem__),
        )

    def has_server(self, server: str) -> bool:
        """Whether this server is there at all: named, and not one of which no tool could be."""
        return all(server in names for names in self.servers) and all(
            _tool_globs(globs).mentions(server) for globs in self.tools
        )

    def chooses(self, server: str, policy: Policy) -> Callable[[Tool], bool] | None:
        """Which tools of this server, which is there, are in scope; `None`: all of them. `policy` is the tightened
        one."""
        lists = [each for globs in self.tools if (each := _tool_globs(globs).of(server)) is not None]
        if not lists and self.ceiling == "destructive":
            return None
        most, as_declared = RANK[self.ceiling], policy.unannotated == "allow"

        def chosen(tool: Tool) -> bool:
            """Asked of ten thousand tools at once."""
            for each in lists:
                if not each.matches(tool.normal) or len(tool.name) > MAX_NAME:
                    return False
            plain = as_declared and not tool.overrides
            return RANK[tool.declared if plain else lowest_risk(tool, policy)] <= most

        return chosen

    def names(self, server: str, name: str) -> bool:
        """Whether a tool of this name would be in scope, if it is there and may be called at all."""
        if len(name) > MAX_NAME:
            return not self.tools
        lists = [each for globs in self.tools if (each := _tool_globs(globs).of(server)) is not None]
        return not lists or all(each.matches(normal_form(name)) for each in lists)

    def tightened(self, policy: Policy) -> Policy:
        ceiling = min(policy.ceiling, self.ceiling, key=RANK.__getitem__)
        return replace(
            policy,
            strict=policy.strict or self.strict,
            unannotated=max(policy.unannotated, self.unannotated, key=FORBIDS.__getitem__),
            ceiling=ceiling,
            token_ceiling=min(ceiling, policy.token_ceiling, self.token_ceiling, key=RANK.__getitem__),
        )


NOTHING_IN_SCOPE: Final = Scope(servers=((),), ceiling="read")
"""Of a token that was revoked, or ran out, while something of it was under way."""


class _ToolGlobs:
    """One list of `server:tool` or `tool`, as it is written. Raises `ValueError` for one that cannot be meant."""

    def __init__(self, globs: Iterable[str]) -> None:
        pairs = [each.partition(":") for each in globs]
        self._anywhere = [left for left, colon, _ in pairs if not colon]
        self._of = [(NamePattern(left), right) for left, colon, right in pairs if colon]
        for left, _, right in pairs:
            NamePattern(right or left)
        self._known: dict[str, NameSet | None] = {}

    def mentions(self, server: str) -> bool:
        return bool(self._anywhere) or any(each.matches(normal_form(server)) for each, _ in self._of)

    def of(self, server: str) -> NameSet | None:
        """What it says of this server's tools; `None`: every name."""
        if server not in self._known:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            normal = normal_form(server)
            said = [*self._anywhere, *(name for there, name in self._of if there.matches(normal))]
            self._known[server] = None if EVERY in said else name_set(tuple(said))
        return self._known[server]


_tool_globs: Final = lru_cache(maxsize=1024)(_ToolGlobs)


def check_tool_glob(text: str) -> None:
    """Raises `ValueError` for what is no `server:tool` or `tool`."""
    parts = text.split(":", 1)
    if len(text) > MAX_NAME or not all(part.strip() for part in parts):
        raise ValueError("the name of a tool, or `server:tool`; both parts may be globs")
    _ToolGlobs([text])


def glob_covers(glob: str, other: str) -> bool:
    """Whether the first of two as they are written surely means all that the second means."""
    (server, tool), (other_server, other_tool) = _both_parts(glob), _both_parts(other)
    return server.covers(other_server) and tool.covers(other_tool)


def _both_parts(glob: str) -> tuple[NamePattern, NamePattern]:
    left, colon, right = glob.partition(":")
    return (NamePattern(left), NamePattern(right)) if colon else (NamePattern("*"), NamePattern(left))


class ToolsInScope(FoundMapping[Tool]):
    """Of one server. Whoever calls a tool looks at that one only; the others are chosen when somebody lists them."""

    __slots__ = ("_all", "_chooses", "_found", "_part")

    def __init__(
        self, every: Mapping[str, Tool], chooses: Callable[[Tool], bool], part: Callable[[], IndexSegment]
    ) -> None:
        self._all = every
        self._chooses = chooses
        self._part = part
        self._found: dict[str, Tool] = {}

    def get(self, key: str, default: Any = None) -> Any:
        if (found := self._found.get(key)) is not None:
            return found
        tool = self._all.get(key)
        if tool is None or not self._chooses(tool):
            return default
        self._found[key] = tool
        return tool

    def __iter__(self) -> Iterator[str]:
        self._found = {
            each.name: self._all[each.name]
            for each in self._part().tools
            if self._all.get(each.name) is each or self.get(each.name) is not None
        }
        return iter(self._found)


class ServersInScope(FoundMapping[Server]):
    """Of one snapshot, each narrowed when somebody looks at it."""

    __slots__ = ("_found", "_policy", "_scope", "_snapshot")

    def __init__(self, snapshot: Snapshot, scope: Scope, policy: Policy) -> None:
        self._snapshot = snapshot
        self._scope = scope
        self._policy = policy
        self._found: dict[str, Server] = {}

    def get(self, key: str, default: Any = None) -> Any:
        found = self._found.get(key)
        if found is None:
            server = self._snapshot.servers.get(key)
            if server is None or not self._scope.has_server(key):
                return default
            found = self._found[key] = self._narrowed(server)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._snapshot.servers if self._scope.has_server(name))

    def _narrowed(self, server: Server) -> Server:
        scope, chooses = self._scope, self._scope.chooses(server.name, self._policy)
        confirm = max(server.confirm, scope.confirm, key=_CONFIRMS.__getitem__)
        confirm_by = max(server.confirm_by, scope.confirm_by, key=NARROWS.__getitem__)
        if (confirm, confirm_by) != (server.confirm, server.confirm_by):
            server = replace(server, confirm=confirm, confirm_by=confirm_by)
        if chooses is None:
            return server
        whole: IndexSegment | None = self._snapshot.index.segments.get(server.name)
        if whole is None:
            return replace(server, tools={})
        tools = ToolsInScope(server.tools, chooses, lambda: at_once(whole.only(_choice(scope, self._policy), chooses)))

        def is_out_of_scope(name: str) -> bool:
            return not scope.names(server.name, name)

        return replace(server, tools=tools, outside=is_out_of_scope)


def _choice(scope: Scope, policy: Policy) -> Hashable:
    """All that the choice of a server's tools depends on: scopes that share it share what was chosen."""
    return scope.tools, scope.ceiling, policy.unannotated


def narrowed(snapshot: Snapshot, scope: Scope) -> Snapshot:
    """What of this snapshot is in scope. Next to nothing is done for it before somebody looks: there may be hundreds of
    scopes, and a new snapshot whenever a server says something."""
    if (known := snapshot.narrowed.get(scope.key)) is not None:
        return known
    policy = scope.tightened(snapshot.policy)
    index: Index = snapshot.index
    choice, servers = _choice(scope, policy), ServersInScope(snapshot, scope, policy)

    def parts() -> Steps[dict[str, IndexSegment]]:
        found: dict[str, IndexSegment] = {}
        for name, part in index.segments.items():
            if (server := servers.get(name)) is not None:
                chooses = scope.chooses(name, policy)
                found[name] = part if chooses is None else (yield from part.only(choice, chooses))
                iter(server.tools)  # which looks at none of them again
        return found

    if len(snapshot.narrowed) >= KEPT:
        del snapshot.narrowed[next(iter(snapshot.narrowed))]
    snapshot.narrowed[scope.key] = found = Snapshot(
        policy=policy,
        servers=servers,
        index=IndexOfSome(index, (scope.servers, choice), lambda: at_once(parts())),
        choosing=parts,
    )
    return found


ScopesFor = Callable[[Operation], str]


class Access:
    """Who was let in, and what there is for them. It may change between two looks: a token is revoked, a profile is
    edited; so every decision asks `view` anew, which costs next to nothing while nothing changed."""

    __slots__ = ("_inner", "_scope", "ends_with", "everything", "principal", "scopes_for", "settled")

    def __init__(
        self, principal: str, scope: Callable[[], Scope | None] | None = None, scopes_for: ScopesFor | None = None
    ) -> None:
        """`scope` gives what is in scope now; `None`: everything."""
        self.principal = principal
        self.scopes_for = scopes_for
        """The scopes that a token needs for calls of this risk; `None` where clients cannot ask for scopes."""
        self.everything = scope is None
        """Then what is asked on its behalf needs no `view`."""
        self.ends_with: str | None = None if scope is None else principal
        """What of it may end while something of it is under way, which ends as well."""
        self.settled: str | None = None
        """The `key` of its scope, where that stays until whoever made this says so here. Then `snapshot.narrowed` need
        only be looked at. `None`: `view` has to be asked."""
        self._scope = scope
        self._inner: dict[Callable[[], Scope | None], Access] | None = None

    @property
    def scope(self) -> Scope | None:
        return None if self._scope is None else self._scope()

    def view(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot as it is for this principal. Nothing of it is kept in here, for most principals are idle, and a
        snapshot is large."""
        if self._scope is None or (scope := self._scope()) is None:
            return snapshot
        return snapshot.narrowed.get(scope.key) or narrowed(snapshot, scope)

    def within(self, scope: Callable[[], Scope | None]) -> Access:
        """The same principal, in another scope besides (a profile's). For the same one it is the same object, so that
        what it found out is of use to the next request; that lives as long as this does."""
        if self._inner is None or len(self._inner) >= MOST_INNER:
            self._inner = {}
        found = self._inner.get(scope)
        if found is None:
            found = self._inner[scope] = Access(self.principal, self._both(scope), self.scopes_for)
        return found

    def _both(self, scope: Callable[[], Scope | None]) -> Callable[[], Scope | None]:
        memo: tuple[Scope | None, Scope | None, Scope | None] = (None, None, None)

        def both() -> Scope | None:
            nonlocal memo
            one, other = self.scope, scope()
            if memo[0] is not one or memo[1] is not other:
                memo = one, other, other if one is None else one if other is None else one.within(other)
            return memo[2]

        return both
