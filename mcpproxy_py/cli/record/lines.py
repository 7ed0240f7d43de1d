"""One ask on one line of a terminal, whatever its width: the wider it is, the more the line says. Never wraps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from mcpproxy_py.cli.output import writes_unicode
from mcpproxy_py.cli.record import facts
from mcpproxy_py.cli.times import clock_time, took
from mcpproxy_py.core.record.short_ids import short_id, short_ids

NARROW, WIDE, WIDEST = 60, 110, 150
"""From here on there are seconds and two spaces between; how long it took and for whom; words beside the signs."""
ROOMY: Final = 36
"""Of the reason's column."""
LEAST_BESIDE: Final = 8
LEAST_REASON: Final = 14
LEAST_SUBJECT: Final = 10
WORD: Final = 11
"""As long as `interrupted` and `destructive`."""
CLIENT: Final = 14
TOOK: Final = 8
STREAMED_SUBJECT: Final = 28
"""Of lines that come one by one, so that nobody knows how long the next one is."""
INTENT_STYLES: Final = {"read": "green", "write": "yellow", "destructive": "red"}


def cut(text: str, width: int) -> str:
    """At most so many cells, with a mark where something is missing."""
    if cell_len(text) <= width:
        return text
    mark = "…" if writes_unicode() else "."
    return set_cell_size(text, width - 1).rstrip() + mark if width > 0 else ""


def fit(text: str, width: int) -> str:
    """Exactly so many cells."""
    return set_cell_size(cut(text, width), width)


@dataclass(frozen=True, slots=True)
class LineLayout:
    """How wide each part is; those of no width are left out."""

    width: int
    gap: int
    time: int
    id: int
    status: int
    intent: int
    subject: int
    took: int
    client: int
    reason: int

    @classmethod
    def of(cls, width: int, times: Iterable[int], ids: Iterable[int], subjects: Iterable[int]) -> LineLayout:
        gap = 2 if width >= NARROW else 1
        words = width >= WIDEST
        status, intent = (2 + WORD, WORD) if words else (1, 1)
        more = (TOOK, CLIENT) if width >= WIDE else (0, 0)
        time, row_id = max(times, default=8), max(ids, default=8)
        fixed = time + gap + row_id + gap + status + 1 + intent + gap + sum(each + gap for each in more if each)
        rest = max(LEAST_SUBJECT, width - fixed)
        wanted = max(subjects, default=STREAMED_SUBJECT)
        subject = min(wanted, max(rest // 2, LEAST_SUBJECT))
        reason = rest - subject - gap
        if reason < LEAST_REASON:
            subject, reason = rest, 0
        return cls(width, gap, time, row_id, status, intent, subject, *more, reason)

    def header(self) -> Text:
        words, space = self.status > 1, " " * self.gap
        parts = [fit("TIME", self.time), fit("ID", self.id)]
        parts.append(f"{fit('STATUS' if words else '', self.status)} {fit('INTENT' if words else '', self.intent)}")
        parts.append(fit("TOOL", self.subject))
        parts += ["TOOK".rjust(self.took), fit("CLIENT", self.client)] if self.client else []
        parts += [fit("REASON", self.reason)] if self.reason else []
        return Text(space.join(parts).rstrip(), style="bold")

    def line(self, record: Mapping[str, Any], row_id: str, at: datetime) -> Text:
        sign, intent, space = facts.sign_of(record), facts.intent_of(record), " " * self.gap
        words = self.status > 1
        mark = sign.sign if writes_unicode() else sign.plain
        told = f"{mark} {facts.one_cell_each(record.get('status'))}" if words else mark
        line = Text()
        line.append(fit(_time(record, at, self.width), self.time) + space)
        line.append(fit(row_id, self.id) + space, style="dim")
        line.append(fit(told, self.status) + " ", style=sign.style)
        line.append(
            fit(intent or "-" if words else intent[:1] or "-", self.intent), style=INTENT_STYLES.get(intent, "")
        )
        line.append(space + fit(facts.one_cell_each(facts.subject(record)), self.subject))
        if self.client:
            line.append(space + took(record.get("duration_ms")).rjust(self.took) + space)
            line.append(fit(facts.client_of(record), self.client))
        if self.reason:
            line.append(space)
            line.append_text(_why(record, self.reason))
        line.rstrip()
        return line


def _why(record: Mapping[str, Any], width: int) -> Text:
    """What refused or what failed, and beside it, as far as there is room, the reason that the agent gave."""
    refused, reason, roomy = facts.refused_by(record), facts.reason(record), width >= ROOMY
    if refused:
        first, style = f"refused by {refused}" if roomy else f"by {refused}", facts.sign_of(record).style
    elif failed := facts.failure(record):
        first, style = failed, ""  # the words of a server: only what we say ourselves has a colour
    else:
        first, style = "warned" if facts.warning(record) else "", "yellow"
    text = Text()
    text.append(cut(first, width * 3 // 5 if roomy and reason else width), style=style)
    left = width - text.cell_len - 3
    if reason and not first:
        text.append(cut(reason, width))
    elif reason and left >= LEAST_BESIDE:
        text.append(f" · {cut(reason, left)}")
    return text


def print_lines(rows: Sequence[Mapping[str, Any]], at: datetime, console: Console | None = None) -> None:
    console = console or Console()
    ids = short_ids(_id(row) for row in rows)
    layout = LineLayout.of(
        console.width,
        (cell_len(_time(row, at, console.width)) for row in rows),
        map(cell_len, ids.values()),
        (cell_len(facts.one_cell_each(facts.subject(row))) for row in rows),
    )
    put(console, layout.header())
    for row in rows:
        put(console, layout.line(row, ids[_id(row)], at))


def streamed_line(record: Mapping[str, Any], at: datetime, width: int) -> Text:
    """A line of its own, in line with those before and after it."""
    layout = LineLayout.of(width, [8 if width >= NARROW else 5], [8], [STREAMED_SUBJECT])
    return layout.line(record, short_id(_id(record)), at)


def _id(record: Mapping[str, Any]) -> str:
    return facts.one_cell_each(record.get("id"))


def _time(record: Mapping[str, Any], at: datetime, width: int) -> str:
    return facts.one_cell_each(clock_time(record.get("timestamp"), at, seconds=width >= NARROW))


def put(console: Console, text: Text) -> None:
    console.print(text, no_wrap=True, overflow="crop", crop=True, highlight=False)
