"""The small types settings are made of: strict scalars and texts that cannot break what they are handed to.

Scalars are strict because a file that says `"require_mcp_auth": "no"` is a mistake to report, not a value to
guess at. Variables of the environment are turned into real scalars before they get here.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from mcpproxy_py.core.results.limits import LEAST


def _enough_tokens(value: int) -> int:
    if 0 < value < LEAST:
        raise ValueError(f"0 for no limit, or at least {LEAST}: a cut result has to say how to read on")
    return value


Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=1)]
Bytes = Annotated[int, Field(strict=True, ge=0)]
Tokens = Annotated[int, Field(strict=True, ge=0), AfterValidator(_enough_tokens)]
Positive = Annotated[float, Field(strict=True, gt=0, le=1e9, allow_inf_nan=False)]
Seconds = Annotated[float, Field(strict=True, gt=0, le=86_400, allow_inf_nan=False)]

FEWEST: Final = 16
FEWEST_DIFFERENT: Final = 6
"""Random hexadecimal digits of that number have fewer once in 100 million times."""
REFERENCES: Final = (
    "May be, or hold, a reference: `${env:NAME}`, `${env:NAME:-default}`, `${file:PATH}`, `${keyring:NAME}`."
)

LOCAL: Final = "127.0.0.1"

_HOST_PATTERN: Final = re.compile(r"\*|(\*\.)?[A-Za-z0-9._-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")
_LISTEN: Final = re.compile(r"((\[(?P<v6>[^\[\]]+)\]|(?P<name>[A-Za-z0-9._-]+))?:)?(?P<port>[0-9]{1,5})")
_ORIGIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#@]+")
_VARIABLE: Final = re.compile(r"[^=\0]+")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def _line(value: str) -> str:
    if "\0" in value:
        raise ValueError("text without NUL characters")
    return value


def _filled(value: str) -> str:
    if not value.strip():
        raise ValueError("text that is not empty")
    return _line(value)


def _header_value(value: str) -> str:
    if any(char in value for char in "\r\n\0"):
        raise ValueError("one line of text: headers cannot contain line breaks")
    return value


def _header_name(value: str) -> str:
    if not _HEADER.fullmatch(value):
        raise ValueError("a header name such as Authorization")
    return value


def _variable(value: str) -> str:
    if not _VARIABLE.fullmatch(value):
        raise ValueError("the name of an environment variable")
    return value


def check_token(value: str) -> str:
    """Tokens travel in headers; one that cannot would lock everybody out, an empty one nobody."""
    if not value or not all("!" <= char <= "~" for char in value):
        raise ValueError("a token of visible ASCII characters, without spaces and not empty")
    return value


def check_secret(value: str) -> str:
    """What opens a door or signs has to be long and mixed enough that nobody finds it by trying: 16 random bytes."""
    check_token(value)
    if len(value) < FEWEST or len(set(value)) < FEWEST_DIFFERENT or _repeats_itself(value):
        raise ValueError(f"at least {FEWEST} characters that nobody can guess, such as `openssl rand -hex 32` prints")
    return value


def _repeats_itself(value: str) -> bool:
    return any((value[:length] * len(value))[: len(value)] == value for length in range(1, FEWEST // 2))


def _upstream_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        fits = False
    if not fits or re.search(r"[\s\0]", value):
        raise ValueError("an address such as https://example.com/mcp")
    return value


def _database_url(value: str) -> str:
    if not re.match(r"postgres(ql)?(\+psycopg)?://", value):
        raise ValueError("a database address such as postgresql://user@host/name; without one it is SQLite")
    return value


def _allowed_host(value: str) -> str:
    if not _HOST_PATTERN.fullmatch(value):
        raise ValueError("a host such as example.com, example.com:8080, *.example.com or *")
    return value


def _allowed_origin(value: str) -> str:
    if not _ORIGIN.fullmatch(value):
        raise ValueError("an origin such as https://example.com, without a path")
    return value.lower()


def _pattern_name(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", value):
        raise ValueError("a name of 1 to 40 of `a-z 0-9 -`")
    return value


def split_listen(value: str) -> tuple[str, int]:
    """Host and port of a `listen` value; a port alone is one of this machine. `ValueError` says what was expected."""
    found = _LISTEN.fullmatch(value)
    if not found or int(found["port"]) > 65_535 or not _is_ipv6(found["v6"] or "::1"):
        raise ValueError("HOST:PORT such as 127.0.0.1:8080 or [::1]:8080")
    return found["v6"] or found["name"] or LOCAL, int(found["port"])


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _listen(value: str) -> str:
    split_listen(value)
    return value if ":" in value.lstrip(":") else f"{LOCAL}:{value.removeprefix(':')}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address. A name other than localhost is taken to be public."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


Line = Annotated[str, AfterValidator(_line)]
Text = Annotated[str, AfterValidator(_filled)]
HeaderName = Annotated[str, AfterValidator(_header_name)]
HeaderValue = Annotated[str, AfterValidator(_header_value)]
VariableName = Annotated[str, AfterValidator(_variable)]
UpstreamUrl = Annotated[str, AfterValidator(_upstream_url)]
DatabaseUrl = Annotated[str, AfterValidator(_database_url)]
AllowedHost = Annotated[str, AfterValidator(_allowed_host)]
AllowedOrigin = Annotated[str, AfterValidator(_allowed_origin)]
PatternName = Annotated[str, AfterValidator(_pattern_name)]
Listen = Annotated[str, AfterValidator(_listen)]
