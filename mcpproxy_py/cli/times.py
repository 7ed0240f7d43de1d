"""Times as people type them and read them: in the time zone of this machine."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

import typer

EXAMPLES: Final = "2h, 30m, today, yesterday, monday, 14:00, 2026-11-19, '2026-11-19 14:00', 2026-11-19T14:00:00Z"
HELP: Final = "a time (2h, 30m, today, yesterday, monday, 14:00, 2026-11-19, '2026-11-19 14:00'), local or RFC 3339"
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE: Final = r"(\d{1,6}) ?(s|sec|secs|seconds?|m|min|mins|minutes?|h|hours?|d|days?|w|weeks?)"
_AGES: Final = re.compile(rf"(?:{_AGE} ?)+(?:ago)?", re.ASCII)
_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE)
_DATED: Final = re.compile(r"(?:(\d{4}-\d\d-\d\d|[a-z]+)(?:[t ]|$))?(\d{1,2}:\d\d(?::\d\d)?)?", re.ASCII)
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def now() -> datetime:
    return datetime.now().astimezone()


def moment(given: str | None, at: datetime | None = None, option: str | None = None) -> str | None:
    """RFC 3339 from what a person typed: an age, a day, a time of today, or both. A day is its beginning. What is
    RFC 3339 already goes on for the gateway to judge."""
    if given is None or _RFC3339.fullmatch(given.strip()):
        return given
    at = at or now()
    try:
        found = _moment(" ".join(given.lower().split()), at)
        if found is not None:
            return found.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    except (OverflowError, OSError):
        raise typer.BadParameter(f"{given} is out of the calendar", param_hint=option) from None
    except ValueError:  # the 30th of February
        pass
    raise typer.BadParameter(f"'{given}' is not a time. Examples: {EXAMPLES}", param_hint=option)


def _moment(text: str, at: datetime) -> datetime | None:
    if text == "now":
        return at
    if _AGES.fullmatch(text):
        ages = re.findall(_AGE, text)
        return at - sum((timedelta(**{_UNITS[unit[0]]: int(count)}) for count, unit in ages), timedelta())
    found = _DATED.fullmatch(text)
    if not text or found is None:
        return None
    day = _day(found[1] or "today", at.astimezone().date())
    # A naive time is one of this machine's zone, with its summer time of that day.
    return None if day is None else datetime.combine(day, _clock(found[2])).astimezone()


def _clock(text: str | None) -> time:
    hour, minute, second = [*map(int, (text or "0:00").split(":")), 0][:3]
    return time(hour, minute, second)


def _day(text: str, today: date) -> date | None:
    """A weekday is the last one of that name, and may be today."""
    if text[0].isdigit():
        return date.fromisoformat(text)
    if text in ("today", "yesterday"):
        return today - timedelta(days=text == "yesterday")
    number = next((at for at, name in enumerate(_WEEKDAYS) if text in (name, name[:3])), None)
    return None if number is None else today - timedelta(days=(today.weekday() - number) % 7)


def local(timestamp: Any) -> datetime | None:
    """A timestamp of the record; `None` for what is none."""
    try:
        return datetime.fromisoformat(timestamp).astimezone()
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def clock_time(timestamp: Any, at: datetime, *, seconds: bool = True) -> str:
    """Today's without the date, this year's without the year; of an older one only the day."""
    found = local(timestamp)
    if found is None:
        return str(timestamp or "-")
    today = at.astimezone()
    if found.date() == today.date():
        return found.strftime("%H:%M:%S" if seconds else "%H:%M")
    return found.strftime("%m-%d %H:%M" if found.year == today.year else "%Y-%m-%d")


def took(millis: Any) -> str:
    """How long a call took, in three digits or so."""
    if not isinstance(millis, int | float):
        return "-"
    if millis < 999.5:
        return f"{millis:.0f} ms" if millis >= 9.95 else f"{millis:.1f} ms"
    return f"{millis / 1000:.1f} s" if millis < 99_950 else span(millis / 1000)


def span(seconds: float) -> str:
    """The two largest units of a time."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"
