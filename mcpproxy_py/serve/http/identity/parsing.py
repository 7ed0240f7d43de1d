"""A token, taken apart without believing it: strict JSON, bounded, each name once.

PyJWT reads a name that comes twice as the last one; whoever looked at the token before us may have read the first.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, Final, NamedTuple

MAX_TOKEN: Final = 8192
"""Characters; tokens of large providers have 1,000 to 3,000."""
MAX_KEY_ID: Final = 256
TYPES: Final = frozenset((None, "jwt", "at+jwt", "application/at+jwt"))
"""What an access token may call itself; a token for a logout or a proof of possession is none."""
_COMPACT: Final = re.compile(r"eyJ[A-Za-z0-9_-]*\.eyJ[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*")
"""Three parts, of which two begin like a JSON object with a name in it."""


class BadToken(Exception):
    """Why a token is not accepted, in words for the client: nothing in them is from the token."""


class ParsedToken(NamedTuple):
    header: dict[str, Any]
    claims: dict[str, Any]


def looks_like_jwt(text: str) -> bool:
    """Whether it is worth another look; our own tokens never are."""
    return text.startswith("eyJ") and text.count(".") == 2


def parse(text: str) -> ParsedToken:
    """Raises `BadToken`."""
    if len(text) > MAX_TOKEN:
        raise BadToken(f"the token is longer than {MAX_TOKEN} characters")
    if not _COMPACT.fullmatch(text):
        raise BadToken("the token is no signed JWT")
    header, claims, _ = text.split(".")
    return ParsedToken(_object(header, "header"), _object(claims, "claims"))


def _object(part: str, name: str) -> dict[str, Any]:
    try:
        found = json.loads(
            base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True).decode(),
            object_pairs_hook=_once, parse_constant=_no_number,
        )  # fmt: skip
    except (ValueError, RecursionError, binascii.Error):
        raise BadToken(f"the {name} of the token cannot be read: no JSON object with each name once") from None
    if not isinstance(found, dict):
        raise BadToken(f"the {name} of the token is no JSON object")
    return found  # pyright: ignore[reportUnknownVariableType]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name came twice")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def algorithm_of(header: dict[str, Any], allowed: frozenset[str]) -> str:
    algorithm, kind = header.get("alg"), header.get("typ")
    if not isinstance(algorithm, str) or algorithm not in allowed:
        raise BadToken(f"the token is not signed with one of {', '.join(sorted(allowed))}")
    if "crit" in header or "b64" in header:
        raise BadToken("the token demands an extension of JWS (crit), and none is known here")
    if (kind.lower() if isinstance(kind, str) else kind) not in TYPES:
        raise BadToken("the token is of another type (typ) than an access token")
    return algorithm


def key_id_of(header: dict[str, Any]) -> str | None:
    """None where it names none, which is enough for a provider with one key."""
    found = header.get("kid")
    if found is None:
        return None
    if not isinstance(found, str) or not 0 < len(found) <= MAX_KEY_ID:
        raise BadToken(f"the key id (kid) of the token is no text of at most {MAX_KEY_ID} characters")
    return found
