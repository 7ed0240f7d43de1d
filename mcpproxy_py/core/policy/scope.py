"""What of the gateway there is for one principal: a snapshot, narrowed (SEC-2, SURF-12).

Whoever comes with a token or through a profile is decided on, searches and lists in a snapshot that holds nothing but
what is in scope. So what is out of scope is answered exactly like what does not exist, wherever it is asked for. A
scope narrows and tightens, never widens: two of them together are what both allow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal

from mcpproxy_py.core.policy.tool_class import lowest_risk
from mcpproxy_py.core.policy.tool_names import MAX_NAME, NamePattern, NameSet, compared, normal_form
from mcpproxy_py.core.search.index import Index, IndexSegment
from mcpproxy_py.core.values import FORBIDS, RANK, Operation, Policy, Server, Snapshot, Tool

Confirm = Literal["none", "write", "destructive"]
Unannotated = Literal["allow", "write", "destructive"]
_CONFIRMS: Final[dict[Confirm, int]] = {"none": 0, "destructive": 1, "write": 2}
KEPT: Final = 64
"""Narrowed snapshots that one snapshot remembers."""


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

    def within(self, other: Scope) -> Scope:
        """What both allow."""
        return Scope(
            servers=tuple(dict.fromkeys(self.servers + other.servers)),
            tools=tuple(dict.fromkeys(self.tools + other.tools)),
            ceiling=min(self.ceiling, other.ceiling, key=RANK.__getitem__),
            strict=self.strict or other.strict,
            unannotated=max(self.unannotated, other.unannotated, key=FORBIDS.__getitem__),
            confirm=max(self.confirm, other.confirm, key=_CONFIRMS.__getitem__),
        )

    def has_server(self, server: str) -> bool:
        """Whether this server is there at all: named, and not one of which no tool could be."""
        return all(server in names for names in self.servers) and all(
            _tool_globs(globs).mentions(server) for globs in self.tools
        )

    def has_tool(self, tool: Tool, policy: Policy) -> bool:
        """Of a server that is there. `policy` is the tightened one."""
        if RANK[lowest_risk(tool, policy)] > RANK[self.ceiling]:
            return False
        return all(_tool_globs(globs).match(tool.server, tool.name) for globs in self.tools)

    def tightened(self, policy: Policy) -> Policy:
        return replace(
            policy,
            strict=policy.strict or self.strict,
            unannotated=max(policy.unannotated, self.unannotated, key=FORBIDS.__getitem__),
            ceiling=min(policy.ceiling, self.ceiling, key=RANK.__getitem__),
        )


NOTHING_IN_SCOPE: Final = Scope(servers=((),), ceiling="read")
"""Of a token that was revoked, or ran out, while something of it was under way."""


class _ToolGlobs:
    """One list of `server:tool` or `tool`, as it is written. Raises `ValueError` for one that cannot be meant."""

    def __init__(self, globs: Iterable[str]) -> None:
        pairs = [each.partition(":") for each in globs]
        self._anywhere = NameSet(left for left, colon, _ in pairs if not colon)
        self._of = [(NamePattern(left), NamePattern(right)) for left, colon, right in pairs if colon]

    def mentions(self, server: str) -> bool:
        return bool(self._anywhere.entries) or any(each.matches(normal_form(server)) for each, _ in self._of)

    def match(self, server: str, tool: str) -> bool:
        if len(tool) > MAX_NAME:
            return False
        normal = compared(tool).normal
        if self._anywhere.matches(normal):
            return True
        return any(name.matches(normal) and there.matches(server) for there, name in self._of)


@lru_cache(maxsize=1024)
def _tool_globs(globs: tuple[str, ...]) -> _ToolGlobs:
    return _ToolGlobs(globs)


def check_tool_glob(text: str) -> None:
    """Raises `ValueError` for what is no `server:tool` or `tool`."""
    parts = text.split(":", 1)
    if len(text) > MAX_NAME or not all(part.strip() for part in parts):
        raise ValueError("the name of a tool, or `server:tool`; both parts may be globs")
    _ToolGlobs([text])


def narrowed(snapshot: Snapshot, scope: Scope) -> Snapshot:
    """What of this snapshot is in scope. Of each server's listing it is found out once for each scope."""
    if (known := snapshot.narrowed.get(scope)) is not None:
        return known
    policy = scope.tightened(snapshot.policy)
    segments: dict[str, IndexSegment] = {}
    servers: dict[str, Server] = {}
    index: Index = snapshot.index
    for name, server in snapshot.servers.items():
        if not scope.has_server(name):
            continue
        part = index.segments.get(name)
        if part is not None:
            part = segments[name] = part.only((scope, policy), lambda tool: scope.has_tool(tool, policy))
        servers[name] = replace(
            server,
            tools={} if part is None else part.by_name,
            confirm=max(server.confirm, scope.confirm, key=_CONFIRMS.__getitem__),
        )
    if len(snapshot.narrowed) >= KEPT:
        snapshot.narrowed.clear()
    snapshot.narrowed[scope] = found = Snapshot(policy=policy, servers=servers, index=Index(segments))
    return found


Lacks = Callable[[Operation], str | None]


class Access:
    """Who was let in, and what there is for them. It may change between two looks: a token is revoked, a profile is
    edited; so every decision asks `view` anew, which costs next to nothing while nothing changed."""

    __slots__ = ("_last", "_scope", "_scoped", "_view", "everything", "lacks", "principal")

    def __init__(
        self, principal: str, scope: Callable[[], Scope | None] | None = None, lacks: Lacks = lambda operation: None
    ) -> None:
        """`scope` gives what is in scope now; `None`: everything."""
        self.principal = principal
        self.lacks = lacks
        """The scopes that a new token would need for calls of this risk; None where this one will do, or none would."""
        self.everything = scope is None
        """Then what is asked on its behalf needs no `view`."""
        self._scope = scope
        self._last: Snapshot | None = None
        self._scoped: Scope | None = None
        self._view: Snapshot | None = None

    @property
    def scope(self) -> Scope | None:
        return None if self._scope is None else self._scope()

    def view(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot as it is for this principal, the same object for the same snapshot and scope."""
        if self._scope is None:
            return snapshot
        scope = self._scope()
        if self._last is not snapshot or self._scoped is not scope or self._view is None:
            self._view = snapshot if scope is None else narrowed(snapshot, scope)
            self._last, self._scoped = snapshot, scope
        return self._view

    def within(self, scope: Callable[[], Scope | None]) -> Access:
        """The same principal, in another scope besides (a profile's)."""
        memo: tuple[Scope | None, Scope | None, Scope | None] = (None, None, None)

        def both() -> Scope | None:
            nonlocal memo
            one, other = self.scope, scope()
            if memo[0] is not one or memo[1] is not other:
                memo = one, other, other if one is None else one if other is None else one.within(other)
            return memo[2]

        return Access(self.principal, both, self.lacks)
