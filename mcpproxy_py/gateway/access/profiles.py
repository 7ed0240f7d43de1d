"""The profiles that are in force, by name (SURF-12).

A profile is a scope with a name. Whoever comes through one asks for its scope at each decision, so a profile
that is edited is in force at once, and one that is gone leaves nothing in scope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set

from mcpproxy_py.core.policy.scope import NOTHING_IN_SCOPE, Scope
from mcpproxy_py.core.values import Policy, Snapshot


class ProfileTable:
    def __init__(self, scopes: Mapping[str, Scope] | None = None) -> None:
        self._scopes: dict[str, Scope] = dict(scopes or {})
        self._asked: dict[str, Callable[[], Scope]] = {}
        self.on_gone: Callable[[Set[str]], None] = lambda names: None
        """Told of profiles that have just gone."""

    def __contains__(self, name: object) -> bool:
        return name in self._scopes

    def __iter__(self) -> Iterator[str]:
        return iter(self._scopes)

    def scope(self, name: str) -> Scope:
        """The same object until the profile changes; for one that there is not, or not any more: nothing."""
        return self._scopes.get(name, NOTHING_IN_SCOPE)

    def scope_of(self, name: str) -> Callable[[], Scope]:
        """The way to ask for it again and again: the same for the same name. Raises `LookupError` for a name that there
        is no profile of, so that nobody can make this remember names."""
        if name not in self._scopes:
            raise LookupError(name)
        return self._asked.setdefault(name, lambda: self.scope(name))

    def tighten(self, scopes: Mapping[str, Scope]) -> None:
        """What a new version of the configuration forbids, before what it permits is in force: `use` follows."""
        self._take({name: scope.within(scopes[name]) for name, scope in self._scopes.items() if name in scopes})

    def use(self, scopes: Mapping[str, Scope]) -> None:
        self._take(scopes)

    def _take(self, scopes: Mapping[str, Scope]) -> None:
        """One that says the same as before stays the same object: what was found out by it is kept."""
        before = self._scopes
        self._scopes = {name: before[name] if before.get(name) == scope else scope for name, scope in scopes.items()}
        if gone := before.keys() - scopes.keys():
            self.on_gone(gone)


def without_effect(scope: Scope, snapshot: Snapshot) -> list[str]:
    """The names in a profile that mean nothing now, as sentences. A server can be removed and come back, and a list of
    tools can be late, so this is told and no error."""
    said: list[str] = []
    for names in scope.servers:
        said += [f"there is no server {name}" for name in names if name not in snapshot.servers]
    listed = [server for server in snapshot.servers.values() if scope.has_server(server.name)]
    if any(server.state != "disabled" and not server.tools for server in listed):
        return said  # its tools are not known yet, so nobody can say what means none of them
    tools = [tool for server in listed for tool in server.tools.values()]
    for glob in (glob for globs in scope.tools for glob in globs):
        alone = Scope(tools=((glob,),))
        if not any(alone.has_server(tool.server) and alone.names(tool.server, tool.name) for tool in tools):
            said.append(f"{glob} means no tool")
    return said


def tightens(scope: Scope, policy: Policy) -> list[str]:
    """What it forbids beyond what the gateway does anyway, as sentences."""
    here = scope.tightened(policy)
    said: list[str] = []
    if here.ceiling != policy.ceiling:
        said.append(f"calls above {here.ceiling} do not exist")
    if here.unannotated != policy.unannotated:
        said.append(f"tools without hints count as {here.unannotated}")
    if here.strict != policy.strict:
        said.append("a call that contradicts its tool's hints is refused")
    if scope.confirm != "none":
        above = "" if scope.confirm == "destructive" else " and destructive"
        said.append(f"a person is asked before {scope.confirm}{above} calls")
    return said
