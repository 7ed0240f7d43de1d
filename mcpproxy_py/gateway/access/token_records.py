"""One agent token: what is kept of it, and what it is at this moment."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple

from mcpproxy_py.core.policy.scope import NOTHING_IN_SCOPE, Access, Scope
from mcpproxy_py.core.policy.token_terms import TokenTerms

MOST_OLD: Final = 4
TokenState = Literal["active", "expired", "revoked"]


def digest_of_secret(secret: str) -> bytes:
    """SHA-256, once. A slow hash is for passwords, which people choose and others guess; this is of 256 random bits,
    of which nobody can try enough, and it is made anew with each request."""
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()


class OldSecret(NamedTuple):
    """One that was rotated away, and until when it is still good."""

    digest: bytes
    until: float


@dataclass(frozen=True, slots=True)
class KeptToken:
    """As it is in its sealed record. `serial` counts the tokens that had this name one after the other."""

    name: str
    serial: int
    terms: TokenTerms
    digest: bytes
    created: float
    revoked: float | None = None
    rotated_at: float | None = None
    old: tuple[OldSecret, ...] = ()

    @property
    def principal(self) -> str:
        """Not `token:NAME`: what stands after that word is taken for a secret, and masked. Nobody inherits sessions,
        requests or records of one that was revoked and had the same name."""
        return f"agent:{self.name}" if self.serial == 1 else f"agent:{self.name}/{self.serial}"

    def rotated(self, digest: bytes, now: float, grace: float, expires: float | None) -> KeptToken:
        """Without a grace, every old secret ends at once."""
        old = (OldSecret(self.digest, now + grace), *(each for each in self.old if each.until > now)) if grace else ()
        terms = self.terms if expires is None else replace(self.terms, expires=expires)
        return replace(self, digest=digest, terms=terms, rotated_at=now, old=old[:MOST_OLD])

    def as_json(self) -> dict[str, Any]:
        return {
            "serial": self.serial,
            "terms": self.terms.as_json(),
            "digest": self.digest.hex(),
            "created": self.created,
            "revoked": self.revoked,
            "rotated_at": self.rotated_at,
            "old": [[each.digest.hex(), each.until] for each in self.old],
        }

    @classmethod
    def from_json(cls, name: str, kept: Mapping[str, Any]) -> KeptToken:
        """Raises `ValueError`, `KeyError` and `TypeError` for one of another version."""
        return cls(
            name,
            int(kept["serial"]),
            TokenTerms.from_json(kept["terms"]),
            bytes.fromhex(kept["digest"]),
            kept["created"],
            kept["revoked"],
            kept["rotated_at"],
            tuple(OldSecret(bytes.fromhex(digest), until) for digest, until in kept["old"]),
        )


class TokenDeadlines:
    """What is over stays so for this process, also when somebody sets the clock back; and where the clock is set back
    before it is over, the time that was left then counts on."""

    def __init__(self, clock: Callable[[], float], steady: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._steady = steady
        self._by: dict[tuple[str, float], float] = {}
        """Of each moment that was asked for: when it comes, by the clock that nobody sets; 0 where it is over."""

    def is_over(self, principal: str, at: float | None) -> bool:
        if at is None:
            return False
        steady, left = self._steady(), at - self.clock()
        by = self._by.setdefault((principal, at), steady + left)
        if by and (left <= 0 or steady >= by):
            by = self._by[principal, at] = 0.0
        return not by


class TokenAdmission:
    """Of a secret that was looked up and is the token's own. It holds until anything of the token changes."""

    __slots__ = ("_kept", "_token", "access")

    def __init__(self, token: AgentToken) -> None:
        self._token = token
        self._kept = token.kept
        self.access = token.access

    def holds(self) -> bool:
        """Asked with each request that brings the same secret: whether it still opens. Notes that it was used."""
        token = self._token
        if token.kept is not self._kept or not (token.lasts or token.is_alive):
            return False
        token.used = token.clock()
        return True


class AgentToken:
    """One token as it is now. Its `access` stays the same object through rotations, so that its sessions stay."""

    def __init__(self, kept: KeptToken, deadlines: TokenDeadlines, profile_scope: Callable[[str], Scope]) -> None:
        self.kept = kept
        self.lasts = kept.revoked is None and kept.terms.expires is None
        """Whether it is alive until its record changes."""
        self.clock = deadlines.clock
        self.access = Access(kept.principal, self._scope)
        self.ended = False
        """Whether what went on of it was ended."""
        self.used = self.written = 0.0
        """When it was last used here, and how much of that is in the database."""
        self._deadlines = deadlines
        self._profile_scope = profile_scope
        self._own = kept.terms.scope()
        self._last: tuple[Scope | None, Scope | None] = (None, None)
        self._settle()

    def use(self, kept: KeptToken) -> None:
        """What is kept of it has changed, or not."""
        if kept != self.kept:
            self.kept, self._own, self._last = kept, kept.terms.scope(), (None, None)
            self.lasts = kept.revoked is None and kept.terms.expires is None
            self._settle()

    def revoke(self) -> None:
        """Its record is gone, or another one's now."""
        self.kept, self.lasts = replace(self.kept, revoked=0.0), False
        self._settle()

    def _settle(self) -> None:
        """One that neither runs out nor follows a profile has its scope until its record changes."""
        own = self._own if self.lasts and self.kept.terms.profile is None else None
        self.access.settled = None if own is None else own.key

    @property
    def state(self) -> TokenState:
        if self.kept.revoked is not None:
            return "revoked"
        return "active" if self.is_alive else "expired"

    @property
    def is_alive(self) -> bool:
        kept = self.kept
        return kept.revoked is None and not self._deadlines.is_over(self.access.principal, kept.terms.expires)

    @property
    def digests(self) -> list[bytes]:
        return [] if self.kept.revoked is not None else [self.kept.digest, *(old.digest for old in self.kept.old)]

    def takes(self, digest: bytes) -> bool:
        """Whether a secret with this digest opens anything now."""
        if not self.is_alive:
            return False
        if hmac.compare_digest(self.kept.digest, digest):
            return True
        who = self.kept.principal
        return any(
            hmac.compare_digest(old.digest, digest) and not self._deadlines.is_over(who, old.until)
            for old in self.kept.old
        )

    def admission(self, digest: bytes) -> TokenAdmission | None:
        """For the secret with this digest, if it need not be looked up again until something changes. One that was
        rotated away has an end of its own, and is looked up each time."""
        return TokenAdmission(self) if hmac.compare_digest(self.kept.digest, digest) else None

    def _scope(self) -> Scope | None:
        """Asked at each decision: of one that ended, nothing is in scope, also for what it began before."""
        if not (self.lasts or self.is_alive):
            return NOTHING_IN_SCOPE
        if self.kept.terms.profile is None:
            return self._own
        profile = self._profile_scope(self.kept.terms.profile)
        if self._last[0] is not profile:
            self._last = profile, profile if self._own is None else profile.within(self._own)
        return self._last[1]

    def shown(self, used: float) -> dict[str, Any]:
        """For people. Never the secret, nor its digest."""
        kept, terms = self.kept, self.kept.terms.as_json()
        return {
            "name": kept.name,
            "principal": kept.principal,
            "state": self.state,
            **{key: terms[key] for key in ("servers", "tools", "operations", "profile", "rate", "note")},
            "created_at": _time(kept.created),
            "expires_at": _time(kept.terms.expires),
            "revoked_at": _time(kept.revoked),
            "rotated_at": _time(kept.rotated_at),
            "old_secret_until": _time(max((each.until for each in kept.old), default=None)),
            "last_used_at": _time(used or None),
        }


def _time(at: float | None) -> str | None:
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
