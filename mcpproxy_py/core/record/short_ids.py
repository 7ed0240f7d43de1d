"""Short forms of ids, for people: shown in lists and taken wherever an id is (USE-6).

An id is a UUID of version 7: 48 bits of milliseconds first. Its first four digits stay the same for seven weeks and the
eight after them name the millisecond, so these eight are the short form. Where two of a list are of one millisecond, a
dot and the last digits of the id follow. What a person types is looked up along the index of ids: the beginning of a
whole id, or of a short form, in each of the seven weeks that the record spans.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

LEAST_TYPED: Final = 4
"""Digits that are enough to look for, where no other id begins with them."""
TIME_DIGITS: Final = 8
_EPOCH_DIGITS: Final = 4
_EPOCH_BITS: Final = 32
"""Milliseconds in one of the spans that the first four digits name."""
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TYPED: Final = re.compile(rf"([0-9a-f]{{{LEAST_TYPED},32}})(?:\.([0-9a-f]{{1,12}}))?")
_DASHES: Final = (8, 12, 16, 20)
_AFTER_ALL_DIGITS: Final = "g"


class IdRange(NamedTuple):
    """Ids from `first` on that sort before `last` and end as said."""

    first: str
    last: str
    ending: str


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Each of these ids in its short form. One that is no UUID is its own."""
    known = list(dict.fromkeys(ids))
    plain = {each: _plain(each) for each in known}
    often = Counter(plain.values())
    return {each: short if often[short] == 1 else _told_apart(each, short, plain) for each, short in plain.items()}


def short_id(whole: str) -> str:
    return _plain(whole)


def _plain(whole: str) -> str:
    uuid = whole[-36:]
    if not _UUID.fullmatch(uuid):
        return whole
    return uuid.replace("-", "")[_EPOCH_DIGITS : _EPOCH_DIGITS + TIME_DIGITS]


def _told_apart(whole: str, short: str, plain: dict[str, str]) -> str:
    others = [each for each, form in plain.items() if form == short and each != whole]
    for many in range(2, 13):
        if not any(each.endswith(whole[-many:]) for each in others):
            return f"{short}.{whole[-many:]}"
    return whole


def id_ranges(typed: str, first_millis: int, last_millis: int, prefix: str = "") -> Iterator[IdRange]:
    """Where an id that a person typed may lie, among those of these times; the newest first. Nothing, where it cannot
    be one. What tells ids of one millisecond apart counts only behind a whole short form."""
    found = _TYPED.fullmatch(typed.strip().lower().removeprefix(prefix).replace("-", ""))
    if found is None or (found[2] and len(found[1]) < TIME_DIGITS):
        return
    digits, ending = found[1], found[2] or ""
    yield _range(prefix, digits, ending)
    if len(digits) + _EPOCH_DIGITS > 32:
        return
    for span in range(last_millis >> _EPOCH_BITS, (first_millis >> _EPOCH_BITS) - 1, -1):
        yield _range(prefix, f"{span:04x}{digits}", ending)


def _range(prefix: str, digits: str, ending: str) -> IdRange:
    text = "-".join(
        digits[start:end] for start, end in zip((0, *_DASHES), (*_DASHES, 32), strict=True) if digits[start:]
    )
    return IdRange(f"{prefix}{text}", f"{prefix}{text}{_AFTER_ALL_DIGITS}", ending)


def millis_of(made: str) -> int:
    """When an id was made, in milliseconds since 1970. Raises `ValueError` for one that was not made here."""
    return int(made[-36:-23].replace("-", ""), 16)


def first_id(millis: int) -> str:
    """What no id from this moment on sorts before, and every earlier one does."""
    text = f"{millis:012x}"
    return f"{text[:8]}-{text[8:]}"
