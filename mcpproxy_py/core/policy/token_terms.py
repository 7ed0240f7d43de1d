"""What an agent token allows, as a person writes it down and as it is kept (SEC-2).

Text and JSON in, values out; what cannot be meant raises `ValueError` with a sentence that says what can. `now` is an
argument, as everywhere in here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mcpproxy_py.core.policy.scope import Scope, check_tool_glob
from mcpproxy_py.core.values import OPERATIONS, Operation

PREFIX: Final = "mcpp_"
"""How every token begins, so that whoever masks or looks for secrets knows one."""
NAME: Final = r"[a-z0-9][a-z0-9_.-]{0,63}"
_NAME: Final = re.compile(NAME, re.ASCII)
_RATE: Final = re.compile(r"([1-9][0-9]{0,5})/([smh])", re.ASCII)
_SPAN: Final = re.compile(r"(0|[1-9][0-9]{0,5})([mhdw])", re.ASCII)
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d))?[Zz])?", re.ASCII)
_RATE_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
MOST_ASKS: Final = 100_000
MOST_OF_A_SPAN: Final = 999_999
SPAN_SECONDS: Final = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
LONGEST_LIFE: Final = 3660 * 86400.0
LONGEST_GRACE: Final = 30 * 86400.0
MOST_ENTRIES: Final = 200
LONGEST_NOTE: Final = 500
LONGEST_SERVER: Final = 128
CEILINGS: Final[Mapping[tuple[str, ...], Operation]] = {
    ("read",): "read",
    ("read", "write"): "write",
    ("read", "write", "destructive"): "destructive",
}
"""`operations` is a ceiling on risk: what is allowed begins with read and leaves nothing out in between."""


class Rate(NamedTuple):
    """So many asks in so many seconds."""

    asks: int
    seconds: float
    text: str


def check_token_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("a token's name has 1 to 64 of a-z, 0-9, _, . and -, and begins with a letter or digit")
    return text


def rate_of(text: str) -> Rate:
    found = _RATE.fullmatch(text)
    if found is None or int(found[1]) > MOST_ASKS:
        raise ValueError("a rate is a number up to 100000 and s, m or h, such as 60/m")
    return Rate(int(found[1]), _RATE_SECONDS[found[2]], text)


def ceiling_of(operations: Iterable[str]) -> Operation:
    found = tuple(operations)
    named = tuple(each for each in OPERATIONS if each in found)
    if len(named) == len(found) and named in CEILINGS:
        return CEILINGS[named]
    raise ValueError("operations are read, or read,write, or read,write,destructive: what is allowed is a ceiling")


def operations_up_to(ceiling: Operation) -> list[str]:
    return next(list(names) for names, each in CEILINGS.items() if each == ceiling)


def expiry_of(text: str, now: float) -> float:
    """Seconds since 1970, for `30d`, `12h`, `2027-01-31` (the beginning of that day, UTC) or a time in UTC."""
    if (span := _SPAN.fullmatch(text)) is not None:
        expires = now + int(span[1]) * SPAN_SECONDS[span[2]]
    elif (date := _DATE.fullmatch(text)) is not None:
        expires = _moment(*(int(part or 0) for part in date.groups()))
    else:
        raise ValueError("an expiry is a span such as 30d, 12h or 45m, or a date such as 2027-01-31, which is UTC")
    if expires <= now:
        raise ValueError("that is past already")
    if expires - now > LONGEST_LIFE:
        raise ValueError("that is more than ten years; leave it out for a token that does not expire")
    return float(expires)


def grace_of(text: str) -> float:
    """Seconds."""
    if text == "0":
        return 0.0
    if (span := _SPAN.fullmatch(text)) is None or (seconds := int(span[1]) * SPAN_SECONDS[span[2]]) > LONGEST_GRACE:
        raise ValueError("a grace is a span of at most 30 days such as 24h or 30m, or 0")
    return seconds


def _moment(year: int, month: int, day: int, hour: int, minute: int, second: int) -> float:
    """Days since 1970 by the civil calendar (Hinnant), so that this needs no clock and no zone."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    in_range = 1 <= month <= 12 and 1 <= day <= _DAYS[month - 1] and hour < 24 and minute < 60 and second < 60
    if not in_range or (month == 2 and day == 29 and not leap) or year < 1970:
        raise ValueError("there is no such date")
    shifted = year - (month <= 2)
    era, of_era = divmod(shifted, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    days = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
    return days * 86400.0 + hour * 3600 + minute * 60 + second


def server_list(names: Iterable[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(name.strip() for name in names))
    if not found or not all(found) or len(found) > MOST_ENTRIES or any(len(name) > LONGEST_SERVER for name in found):
        raise ValueError(f"servers are 1 to {MOST_ENTRIES} names; leave it out for all of them")
    return found


def tool_list(globs: Iterable[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(globs))
    if not found or len(found) > MOST_ENTRIES:
        raise ValueError(f"tools are 1 to {MOST_ENTRIES} globs; leave it out for all of them")
    for glob in found:
        try:
            check_tool_glob(glob)
        except ValueError as wrong:
            raise ValueError(f"'{glob[:80]}': {wrong}") from None
    return found


@dataclass(frozen=True, slots=True)
class TokenTerms:
    """`None` and `()` restrict nothing."""

    servers: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    ceiling: Operation = "destructive"
    profile: str | None = None
    expires: float | None = None
    rate: Rate | None = None
    note: str = ""

    def scope(self) -> Scope | None:
        """Without the profile's; `None` where nothing is restricted."""
        if not (self.servers or self.tools or self.ceiling != "destructive"):
            return None
        return Scope(
            servers=(self.servers,) if self.servers else (),
            tools=(self.tools,) if self.tools else (),
            ceiling=self.ceiling,
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "servers": list(self.servers) or None,
            "tools": list(self.tools) or None,
            "operations": operations_up_to(self.ceiling),
            "profile": self.profile,
            "rate": None if self.rate is None else self.rate.text,
            "expires": self.expires,
            "note": self.note,
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> TokenTerms:
        """Of a record that is believed. Raises `ValueError`, `KeyError` and `TypeError` for one of another version."""
        return cls(
            servers=tuple(kept["servers"] or ()),
            tools=tuple(kept["tools"] or ()),
            ceiling=ceiling_of(kept["operations"]),
            profile=kept["profile"],
            expires=kept["expires"],
            rate=None if kept["rate"] is None else rate_of(kept["rate"]),
            note=kept["note"],
        )
