"""The public keys of a provider: which of them check signatures, and having them at hand before a token needs them.

They are fetched at the start, again every few minutes, and when a token names a key that is not among them, at most
once a minute: whoever makes key ids up must not have us ask the provider as often as he likes. A request waits only for
a fetch that it needs, and not for long.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.serve.http.identity.fetch import PATIENCE, KeysUnavailable, key_set, source_of
from mcpproxy_py.serve.http.identity.parsing import MAX_KEY_ID
from mcpproxy_py.settings.access.auth import JwtAuth

log = logging.getLogger("mcpproxy.identity")

REFRESH: Final = 600.0
REFRESH_FILE: Final = 60.0
RETRY: Final = 60.0
"""Seconds between fetches, whoever wants another one."""
FIRST_RETRY: Final = 5.0
"""The same while no key is known: the provider may start after us."""
BELIEVED: Final = 6 * 3600.0
"""Seconds for which keys are believed that could not be fetched again: a provider takes a stolen one back that way."""
MOST_KEYS: Final = 100
RSA_BITS: Final = range(2048, 8193)
"""Shorter ones can be broken; longer ones take a while to check."""
FAMILIES: Final[Mapping[str, tuple[str, str | None]]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None)),
    "ES256": ("EC", "P-256"), "ES384": ("EC", "P-384"), "ES512": ("EC", "P-521"), "EdDSA": ("OKP", "Ed25519"),
}  # fmt: skip
"""Which key an algorithm takes: its `kty`, and its `crv`."""


class SigningKey(NamedTuple):
    key_id: str | None
    family: tuple[str, str | None]
    algorithm: str | None
    """The only one it is for, where it says so."""
    thumbprint: str
    public: Any

    def fits(self, algorithm: str) -> bool:
        return self.family == FAMILIES[algorithm] and self.algorithm in (None, algorithm)


class KeySet:
    """Those of a JWK set that check signatures. What is wrong with one is no reason to do without the others."""

    def __init__(self, published: Any) -> None:
        """Raises `KeysUnavailable` for what is no JWK set."""
        keys = published.get("keys") if isinstance(published, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if not isinstance(keys, list):
            raise KeysUnavailable("what was found is no JWK set: it has no list of `keys`")
        self.skipped: list[str] = []
        self._keys: dict[tuple[str | None, tuple[str, str | None]], SigningKey | None] = {}
        for number, jwk in enumerate(keys[:MOST_KEYS]):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            key = _signing_key(jwk)
            if isinstance(key, str):
                self.skipped.append(f"key {number + 1} {key}")
            else:
                place = key.key_id, key.family
                twice = place in self._keys and self._keys[place] != key
                self._keys[place] = None if twice else key  # of two with one name nobody knows which is meant
        if not len(self):
            raise KeysUnavailable(f"there is no key that checks signatures: {'; '.join(self.skipped) or 'none at all'}")
        self.thumbprints = frozenset(each.thumbprint for each in self)

    def __iter__(self) -> Iterator[SigningKey]:
        return (each for each in self._keys.values() if each is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def find(self, key_id: str | None, algorithm: str) -> SigningKey | None:
        family = FAMILIES[algorithm]
        if key_id is None:
            fitting = [each for each in self if each.family == family]
            found = fitting[0] if len(fitting) == 1 else None
        else:
            found = self._keys.get((key_id, family))
        return found if found is not None and found.fits(algorithm) else None


def _signing_key(jwk: Any) -> SigningKey | str:
    """Or what is wrong with it."""
    import jwt

    if not isinstance(jwk, dict):
        return "is no object"
    held: dict[str, Any] = jwk
    family = held.get("kty"), held.get("crv")
    family = (family[0], None) if family[0] == "RSA" else family
    if family not in FAMILIES.values():
        return "is of a kind that is not used here"
    if held.get("use", "sig") != "sig" or "verify" not in (held.get("key_ops") or ["verify"]):
        return "is not for signatures"
    if "d" in held:
        return "is a private key, which everybody can read: the provider has to replace it"
    key_id, algorithm = held.get("kid"), held.get("alg")
    if not (key_id is None or (isinstance(key_id, str) and 0 < len(key_id) <= MAX_KEY_ID)):
        return f"has a key id (kid) that is no text of at most {MAX_KEY_ID} characters"
    if algorithm is not None and FAMILIES.get(str(algorithm)) != family:
        return "is for an algorithm that is not used here"
    try:
        public = jwt.PyJWK(held, algorithm or next(name for name, each in FAMILIES.items() if each == family)).key
    except (jwt.exceptions.PyJWTError, ValueError, TypeError, OverflowError) as error:
        return f"cannot be read: {quoted(str(error), 200)}"
    if family[0] == "RSA" and public.key_size not in RSA_BITS:
        return f"has {public.key_size} bits, and only 2048 to 8192 are used here"
    essence = json.dumps({name: held.get(name) for name in ("kty", "crv", "n", "e", "x", "y")}, sort_keys=True)
    return SigningKey(key_id, family, algorithm, hashlib.sha256(essence.encode()).hexdigest(), public)  # pyright: ignore[reportArgumentType]


class SigningKeys:
    """Of one provider, as far as they are known at this moment."""

    def __init__(
        self, settings: JwtAuth, on_change: Callable[[frozenset[str]], None] = lambda thumbprints: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`on_change` is told which keys there still are."""
        self._settings = settings
        self._on_change = on_change
        self._clock = clock
        self._known: KeySet | None = None
        self._fetched = self._tried = -BELIEVED
        self._fetching: asyncio.Task[None] | None = None
        self.problem: str | None = None
        """Why the last fetch failed."""

    async def run(self) -> None:
        """Fetches them again and again. Never ends."""
        is_file = self._settings.jwks is not None and "://" not in self._settings.jwks
        while True:
            await asyncio.shield(self._fetch())
            self._forget()
            await asyncio.sleep(self._pause if self.problem else REFRESH_FILE if is_file else REFRESH)

    def at_hand(self, key_id: str | None, algorithm: str) -> SigningKey | None:
        self._forget()
        return None if self._known is None else self._known.find(key_id, algorithm)

    async def find(self, key_id: str | None, algorithm: str) -> SigningKey | None:
        """Looks again where that is allowed. Raises `KeysUnavailable` where nobody can say which keys there are."""
        if (found := self.at_hand(key_id, algorithm)) is not None:
            return found
        if self._fetching is not None or self._clock() - self._tried >= self._pause:
            task = self._fetch()
            done, _ = await asyncio.wait((task,), timeout=PATIENCE)
            if not done:
                raise KeysUnavailable(f"{source_of(self._settings)} does not answer within {PATIENCE:g} s")
            found = self.at_hand(key_id, algorithm)
        if found is None and (self._known is None or self.problem is not None):
            raise KeysUnavailable(self.problem or "they were not fetched yet")
        return found

    @property
    def _pause(self) -> float:
        return FIRST_RETRY if self._known is None else RETRY

    def _fetch(self) -> asyncio.Task[None]:
        """The one under way, or a new one."""
        if self._fetching is None:
            self._tried = self._clock()
            self._fetching = asyncio.get_running_loop().create_task(self._fetch_now())
        return self._fetching

    async def _fetch_now(self) -> None:
        try:
            found = KeySet(await key_set(self._settings))
        except KeysUnavailable as problem:
            self.problem = str(problem)
            log.warning("the keys of %s cannot be had: %s", self._settings.issuer, quoted(self.problem, 500))
        except Exception:
            self.problem = "the fetch failed inside the gateway"
            log.exception("the keys of %s cannot be had", self._settings.issuer)
        else:
            self.problem, before, self._known = None, self._known, found
            self._fetched = self._clock()
            if before is None or before.thumbprints != found.thumbprints:
                said = "".join(f"; {each}" for each in found.skipped)
                log.info("%d keys of %s are known%s", len(found), self._settings.issuer, quoted(said, 500))
                self._on_change(found.thumbprints)
        finally:
            self._fetching = None

    def _forget(self) -> None:
        if self._known is not None and self._clock() - self._fetched > BELIEVED:
            log.error("the keys of %s are too old to be believed", self._settings.issuer)
            self._known = None
            self._on_change(frozenset())
