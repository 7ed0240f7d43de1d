"""Who a client of our socket is, by the token in its first line, and its profiles: those that `mcpproxy stdio` asked
for at first, and those that it found out about later, when its client said where it works (SEC-2, SURF-12)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import is_
from typing import Any, Final

from pydantic_core import from_json, to_json

from mcpproxy_py.core import json_values
from mcpproxy_py.core.policy.scope import NOTHING_IN_SCOPE, Access, Scope
from mcpproxy_py.gateway.access.profiles import ProfileTable

MOST_PROFILES: Final = 16
SHOWN_PROFILES: Final = 10
Wish = Mapping[str, Any]
LOCAL: Final = Access("local")
"""Whoever may open the socket is the user whose gateway it is."""


class AttachedScope:
    """The profiles that a bridge asked for, together; it may add to them, and never takes one back."""

    def __init__(self, profiles: ProfileTable, names: Iterable[str], told: str) -> None:
        """`told` are the words by which the bridge says another one, which no client can know. Raises `ValueError` for
        a name that there is no profile of."""
        self._profiles = profiles
        self._told = told
        self._all: list[Callable[[], Scope]] = []
        self._last: tuple[tuple[Scope, ...], Scope | None] = ((), None)
        self.names: list[str] = []
        self.may_be_any = any(True for _ in profiles)
        """Whether there is any profile that it could come to be of."""
        self.mark = to_json({"narrow": told})[:-1] + b","
        for name in names:
            self._add(name)

    @classmethod
    def wished(cls, wish: Wish, profiles: ProfileTable) -> AttachedScope | None:
        """`None` for one that knows no profiles. Raises `ValueError`."""
        names, told = wish.get("profiles"), wish.get("narrow")
        if names is None:
            return None
        if not isinstance(names, list) or not isinstance(told, str) or len(names) > MOST_PROFILES:
            raise ValueError(f'"profiles" in the first line must be a list of up to {MOST_PROFILES} names')
        return cls(profiles, names, told)

    def _add(self, name: object) -> None:
        try:
            self._all.append(self._profiles.scope_of(str(name)))
        except LookupError:
            known = ", ".join(list(self._profiles)[:SHOWN_PROFILES]) or "none is configured"
            raise ValueError(
                f"there is no profile '{json_values.quoted(name)}' ({known}): see `mcpproxy profiles list`, or add it "
                "to `profiles` in the configuration"
            ) from None
        self.names.append(str(name))

    def narrow(self, line: bytes) -> bytes:
        """One more profile. Of an unknown one, or a line that is wrong, nothing is in scope from now on."""
        said: dict[str, Any] = {"narrowed": self._told}
        try:
            if len(self._all) >= MOST_PROFILES:
                raise ValueError(f"more than {MOST_PROFILES} profiles at once")
            self._add(from_json(line)["profile"])
        except (ValueError, KeyError) as error:
            self._all[:] = [lambda: NOTHING_IN_SCOPE]
            said["error"] = str(error)
        return to_json(said)

    def __call__(self) -> Scope | None:
        if not self._all:
            return None
        scopes = tuple(each() for each in self._all)
        if len(scopes) != len(self._last[0]) or not all(map(is_, scopes, self._last[0])):
            self._last = scopes, reduce(Scope.within, scopes)
        return self._last[1]


def within(access: Access, scope: AttachedScope) -> Access:
    """What both allow. Of the user's own, nothing is kept that outlives the client."""
    return Access(LOCAL.principal, scope) if access is LOCAL else access.within(scope)


def access_of(wish: Wish, credential: Callable[[str], Access | None]) -> Access:
    """With a token one of the user's agents, and without one the user. Raises `ValueError` for a token that opens
    nothing: who says who it is is not taken for somebody else."""
    if (given := wish.get("token")) is None:
        return LOCAL
    access = credential(given) if isinstance(given, str) else None
    if access is None:
        raise ValueError("the token opens nothing here: it is wrong, expired or revoked; see `mcpproxy token list`")
    return access
