"""The summary as a page of a terminal: when how much was asked, of which tools, by whom, how long it took, what was
refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from mcpproxy_py.cli import times
from mcpproxy_py.cli.output import writes_unicode
from mcpproxy_py.cli.record import facts
from mcpproxy_py.cli.record.lines import cut, fit, put

HOURS: Final = 24
"""Up to so many are shown by the hour; more are shown by the day."""
WEEK_HOURS: Final = 8 * 24
MOST_DAYS: Final = 14
MOST_ROWS: Final = 8
WIDEST: Final = 100
EIGHTHS: Final = "▏▎▍▌▋▊▉█"
Answer = Mapping[str, Any]


def print_summary(answer: Answer, since: str | None) -> None:
    console = Console()
    width = min(console.width, WIDEST)
    for line in _totals(answer, width):
        put(console, line)
    if not answer.get("total"):
        return
    _section(console, "When", _bars(answer, since, width))
    _section(console, "Tools", _tools(answer, width))
    _section(console, "Refused by", _counts(answer, "by_rule", width, "yellow"))
    _section(console, _of_sample("Clients", answer), _counts(answer, "by_client", width, ""))


def _totals(answer: Answer, width: int) -> Iterator[Text]:
    total, statuses = answer.get("total") or 0, answer.get("by_status") or {}
    first = Text()
    first.append(f"{total:,} {'ask' if total == 1 else 'asks'}", style="bold")
    if took := _took(answer.get("duration_ms"), exact=bool(answer.get("exact"))):
        first.append(f"  {took}")
    yield first
    line = Text()
    for status, count in statuses.items():
        sign = facts.SIGNS.get(status, facts.UNKNOWN_STATUS)
        said = f"{sign.sign if writes_unicode() else sign.plain} {count:,} {facts.one_cell_each(status)}"
        if line and line.cell_len + 2 + cell_len(said) > width:
            yield line
            line = Text()
        line.append("  " if line else "").append(said, style=sign.style)
    yield line


def _took(durations: Any, *, exact: bool) -> str:
    """What buckets tell is only about right, and says so."""
    if not isinstance(durations, Mapping) or durations.get("p50") is None:
        return ""
    about = "" if exact else "~"
    return f"p50 {about}{times.took(durations['p50'])}, p95 {about}{times.took(durations['p95'])}"


def _section(console: Console, title: str, rows: Iterator[Text]) -> None:
    found = list(rows)
    if found:
        put(console, Text(f"\n{title}", style="bold"))
        for row in found:
            put(console, row)


def _bars(answer: Answer, since: str | None, width: int) -> Iterator[Text]:
    counted = _by_time(answer, since)
    most = max((count for _, count in counted), default=0)
    digits, wide = len(f"{most:,}"), max((len(label) for label, _ in counted), default=0)
    for label, count in counted:
        room = width - wide - digits - 6
        line = Text(f"  {label:>{wide}}  ")
        line.append(f"{count:>{digits},} ")
        line.append(_bar(count, most, room), style="blue")
        line.rstrip()
        yield line


def _by_time(answer: Answer, since: str | None) -> list[tuple[str, int]]:
    """Hours where there are few; else days, of this time zone as far as hours are known, older ones of UTC."""
    found = [(times.local(at), count) for at, count in (answer.get("by_hour") or {}).items()]
    hours = {at: count for at, count in found if at is not None}
    if not hours:
        return []
    total, last = answer.get("total") or 0, max(hours)
    begin = times.local(since) if since else None
    first = max(min(hours), last - timedelta(hours=HOURS - 1))
    within_hours = begin is not None and last - begin < timedelta(hours=HOURS)
    if within_hours or (sum(hours.values()) == total and last - min(hours) < timedelta(hours=HOURS)):
        return [(f"{at:%H:%M}", count) for at, count in _each_hour(hours, first, last)]
    if sum(hours.values()) == total:
        days: Counter[str] = Counter()
        for at, count in hours.items():
            days[f"{at:%Y-%m-%d}"] += count
    else:
        days = Counter(answer.get("by_day") or {})
    return [(_day(day), days[day]) for day in sorted(days)[-MOST_DAYS:]]


def _day(day: str) -> str:
    """With its weekday, which is how people remember it."""
    try:
        found = datetime.fromisoformat(day)
        return f"{found:%a %m-%d}" if found.year == times.now().year else f"{found:%Y-%m-%d}"
    except ValueError:
        return facts.one_cell_each(day)


def _each_hour(hours: Mapping[datetime, int], first: datetime, last: datetime) -> Iterator[tuple[datetime, int]]:
    """Empty hours too, or a quiet night would not be seen."""
    at = first
    while at <= last:
        yield at, hours.get(at, 0)
        at = (at + timedelta(hours=1)).astimezone()


def _bar(count: int, most: int, room: int) -> str:
    if not count or room < 1:
        return ""
    if not writes_unicode():
        return "#" * max(1, count * room // most)
    whole, eighths = divmod(max(1, count * room * 8 // most), 8)
    return EIGHTHS[-1] * whole + (EIGHTHS[eighths - 1] if eighths else "")


def _tools(answer: Answer, width: int) -> Iterator[Text]:
    durations = answer.get("duration_ms_by_tool") or {}
    exact = bool(answer.get("exact"))
    rows = [(facts.one_cell_each(name), count, _took(durations.get(name), exact=exact))
            for name, count in list((answer.get("by_tool") or {}).items())[:MOST_ROWS]]  # fmt: skip
    digits = max((len(f"{count:,}") for _, count, _ in rows), default=1)
    beside = max((len(took) for _, _, took in rows), default=0) if width >= 60 else 0
    room = min(max((cell_len(name) for name, _, _ in rows), default=0), width - digits - beside - 6)
    for name, count, took in rows:
        line = Text(f"  {fit(name, room)}  {count:>{digits},}")
        if beside:
            line.append(f"  {took}", style="dim")
        line.rstrip()
        yield line
    yield from _more(answer.get("by_tool"), "tools")


def _counts(answer: Answer, group: str, width: int, style: str) -> Iterator[Text]:
    rows: Sequence[tuple[str, int]] = list((answer.get(group) or {}).items())[:MOST_ROWS]
    digits = max((len(f"{count:,}") for _, count in rows), default=1)
    room = min(max((cell_len(facts.one_cell_each(name)) for name, _ in rows), default=0), width - digits - 6)
    for name, count in rows:
        line = Text("  ")
        line.append(fit(facts.one_cell_each(name), room), style=style)
        line.append(f"  {count:>{digits},}")
        yield line
    yield from _more(answer.get(group), "")


def _more(group: Any, what: str) -> Iterator[Text]:
    if isinstance(group, Mapping) and len(group) > MOST_ROWS:
        left = cut(f"  and {len(group) - MOST_ROWS} more {what}".rstrip(), WIDEST)
        yield Text(f"{left}; -o json has all", style="dim")


def _of_sample(title: str, answer: Answer) -> str:
    return title if answer.get("exact") else f"{title} (of the newest {answer.get('sampled') or 0:,})"
