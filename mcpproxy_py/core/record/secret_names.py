"""Which names say that a secret stands under them. Tables, and one question about them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

# By how a name ends, once it is lower case and without anything but letters and digits. First match wins.
ENDS: Final[tuple[tuple[str, str], ...]] = (
    ("privatekey", "private-key"), ("signingkey", "private-key"), ("encryptionkey", "private-key"),
    ("masterkey", "private-key"), ("sshkey", "private-key"), ("secretkeybase", "private-key"),
    ("apikey", "api-key"), ("accesskey", "api-key"), ("secretkey", "api-key"), ("authkey", "api-key"),
    ("accountkey", "api-key"), ("subscriptionkey", "api-key"), ("functionskey", "api-key"), ("sharedkey", "api-key"),
    ("deploykey", "api-key"), ("servicekey", "api-key"), ("licensekey", "api-key"),
    ("authorization", "authorization"), ("credential", "credentials"), ("credentials", "credentials"),
    ("secret", "secret"), ("secrets", "secret"), ("mnemonic", "secret"), ("seedphrase", "secret"),
    ("recoverycode", "secret"), ("recoverycodes", "secret"), ("token", "token"), ("cookie", "cookie"),
    ("cookies", "cookie"), ("connectsid", "cookie"), ("sessid", "cookie"), ("pwd", "password"), ("cvv", "card"),
    ("cvc", "card"), ("cardnumber", "card"), ("creditcard", "card"),
)  # fmt: skip
PARTS: Final = tuple(
    (word, "password")
    for word in ("password", "passwd", "passphrase", "passcode", "passwort", "kennwort", "contraseña", "пароль", "密码")
)
WHOLE: Final[Mapping[str, str]] = {
    "pass": "password", "auth": "authorization", "basicauth": "authorization", "jsessionid": "cookie",
    "otp": "password", "senha": "password", "motdepasse": "password",
}  # fmt: skip
# Names that end like a secret and are none: cursors of paging, ids of progress, the marks of language models;
# and what is said about a password without saying it.
HARMLESS: Final = re.compile(
    r"(?:page|paging|pagination|next|prev|previous|continuation|sync|start|cursor|progress|cancel(?:lation)?"
    r"|stop|eos|bos|pad|mask)token$|passwordless"
    r"|passw(?:or)?ds?(?:are|is|was)?(?:changed?|changes|expire[sd]?|expiry|reset|updated|required|enabled|strength"
    r"|policy|policies|rules|length|min|max|age|count|file|path|url|arn|id|type)"
)
PATHS: Final = frozenset({"pwd", "oldpwd"})
"""What a shell calls the folder one is in."""


def kind_of(name: str) -> str | None:
    """What kind of secret stands under this name, if any."""
    return _remembered(name) if len(name) <= 64 else _kind_of(name)


def _kind_of(name: str) -> str | None:
    plain = re.sub(r"[\W_]+", "", name.lower())
    if HARMLESS.search(plain):
        return None
    if plain in WHOLE:
        return WHOLE[plain]
    parts = (kind for part, kind in PARTS if part in plain)
    ends = (kind for end, kind in ENDS if plain.endswith(end))
    return next(parts, None) or next(ends, None)


_remembered: Final = lru_cache(maxsize=4096)(_kind_of)
