"""What the claims of a verified token are good for: who it is, and the scope of that (SEC-2). Pure.

What is missing, or is not what it should be, narrows: a token without the claim that lists servers reaches none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from mcpproxy_py.core.policy.scope import NOTHING_IN_SCOPE, Access, Scope
from mcpproxy_py.core.values import RANK, Operation
from mcpproxy_py.serve.http.identity.parsing import BadToken
from mcpproxy_py.settings.access.auth import JwtAuth

MAX_PRINCIPAL: Final = 128
MOST_VALUES: Final = 1000
"""Of a claim that lists something."""
LATEST: Final = 1e11
"""Seconds; a date beyond it is none."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What one token gives."""

    principal: str
    scope: Callable[[], Scope | None]
    scopes: frozenset[str]
    """What it has of what was asked for."""
    ends: float


class Lacking(Exception):
    """The token is good, and not for this gateway: scopes that it needs are not among its own, which are `scopes`."""

    def __init__(self, scopes: frozenset[str]) -> None:
        super().__init__("scopes that it needs are missing")
        self.scopes = scopes


ProfileScope = Callable[[str], Scope]
"""What a profile allows; of one that there is not, nothing."""


class ClaimRules:
    """How claims are read, as configured."""

    def __init__(self, settings: JwtAuth, profile_scope: ProfileScope) -> None:
        self._settings = settings
        self._profile_scope = profile_scope

    def check_times(self, claims: Mapping[str, Any], now: float) -> float:
        """When the token ends. Raises `BadToken`."""
        leeway = self._settings.leeway
        ends, begins, made = (_date(claims, name) for name in ("exp", "nbf", "iat"))
        if ends is None:
            raise BadToken("the token has no end (exp)")
        if now >= ends + leeway:
            raise BadToken("the token has expired (exp)")
        if begins is not None and begins > now + leeway:
            raise BadToken("the token is not valid yet (nbf)")
        if made is not None and made > now + leeway:
            raise BadToken("the token is from the future (iat): see whether the clocks agree")
        return ends + leeway

    def check_origin(self, claims: Mapping[str, Any]) -> None:
        """Raises `BadToken`."""
        if claims.get("iss") != self._settings.issuer:
            raise BadToken("the token is from another issuer (iss)")
        named = claims.get("aud")
        named = [named] if isinstance(named, str) else named
        if not isinstance(named, list) or not all(isinstance(each, str) for each in named):  # pyright: ignore[reportUnknownVariableType]
            raise BadToken("the token names no audience (aud)")
        wanted = {each.removesuffix("/") for each in self._settings.audience}
        if not any(each.removesuffix("/") in wanted for each in named):  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            raise BadToken("the token is meant for another audience (aud)")
        if "cnf" in claims:
            raise BadToken("the token is bound to a key (cnf), and no proof of that is checked here")

    def grant(self, claims: Mapping[str, Any], ends: float) -> Grant:
        """Raises `BadToken` and `Lacking`."""
        settings = self._settings
        principal = self._principal(claims)
        has = _scopes(claims)
        values = has if settings.scopes_claim is None else _listed(_claim(claims, settings.scopes_claim))
        if not has.issuperset(settings.required_scopes):
            raise Lacking(has)
        ceiling: Operation = "destructive"
        own = Scope()
        if settings.operations:
            allowed: list[Operation] = [settings.ceiling_of(each) for each in settings.operations if each in values]
            if not allowed:
                raise Lacking(has)
            ceiling = max(allowed, key=lambda each: RANK[each])
            own = Scope(ceiling=ceiling)
            if settings.scopes_claim is None:  # a client can ask for the scopes that this token lacks
                reachable: list[Operation] = [settings.ceiling_of(each) for each in settings.operations]
                own = Scope(ceiling=max(reachable, key=lambda each: RANK[each]), token_ceiling=ceiling)
        if settings.servers_claim is not None:
            servers = tuple(sorted(_listed(_claim(claims, settings.servers_claim))))
            own = replace(own, servers=(servers,))
        profile = self._profile(claims)
        if profile is None:
            unlimited = own == Scope()
            return Grant(principal, lambda: None if unlimited else own, has, ends)
        both = Access("", lambda: own).within(profile)
        return Grant(principal, lambda: both.scope, has, ends)

    def _principal(self, claims: Mapping[str, Any]) -> str:
        name = self._settings.principal_claim
        found = _claim(claims, name)
        if not isinstance(found, str) or not 0 < len(found) <= MAX_PRINCIPAL or not found.isprintable():
            raise BadToken(f"the token says nobody that could be on record: {name} of 1 to {MAX_PRINCIPAL} characters")
        if found != found.strip():
            raise BadToken(f"{name} of the token begins or ends with a space")
        if name.endswith("email") and _claim(claims, f"{name}_verified") is not True:
            raise BadToken(f"the email of the token is not verified: {name}_verified is not true")
        return f"user:{found}"

    def _profile(self, claims: Mapping[str, Any]) -> Callable[[], Scope] | None:
        settings, name = self._settings, self._settings.profile
        if settings.profile_claim is not None:
            told = _claim(claims, settings.profile_claim)
            if told is not None:
                given = _listed(told)
                name = next(iter(given)) if len(given) == 1 else ""  # of several, nobody knows which is meant
            elif name is None:
                name = ""
        if name is None:
            return None
        return partial(self._profile_scope, name) if name else lambda: NOTHING_IN_SCOPE


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """By its name, or by a path into objects: names of claims may have dots in them too."""
    if name in claims:
        return claims[name]
    at: Any = claims
    for part in name.split("."):
        if not isinstance(at, Mapping):
            return None
        at = at.get(part)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return at  # pyright: ignore[reportUnknownVariableType]


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """By RFC 9068, or as Entra ID, Okta and others spell it."""
    return _listed(claims.get("scope")) | _listed(claims.get("scp"))


def _listed(value: Any) -> frozenset[str]:
    """A list of texts, or one text with spaces between."""
    if isinstance(value, str):
        return frozenset(value.split(" ")[:MOST_VALUES]) - {""}
    if isinstance(value, list) and all(isinstance(each, str) for each in value):  # pyright: ignore[reportUnknownVariableType]
        return frozenset(value[:MOST_VALUES])  # pyright: ignore[reportUnknownArgumentType]
    return frozenset()


def _date(claims: Mapping[str, Any], name: str) -> float | None:
    found = claims.get(name)
    if found is None and name not in claims:
        return None
    if not isinstance(found, int | float) or isinstance(found, bool) or not -LATEST <= found <= LATEST:
        raise BadToken(f"{name} of the token is no date")
    return float(found)
