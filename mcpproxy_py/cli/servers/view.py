"""Servers as people are shown them: one line for each, or one on a page."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from mcpproxy_py.cli.output import cell, note, say
from mcpproxy_py.cli.servers.settle import CLASSES, cause, remarks, shown_state, tools, without_hints

SIGNS: Final[Mapping[str, tuple[str, str]]] = {
    "connected": ("✓", "green"), "failed": ("✗", "red"), "connecting": ("…", "yellow"), "sleeping": ("z", "cyan"),
    "disabled": ("-", "dim"),
}  # fmt: skip
PLAIN_SIGNS: Final[Mapping[str, str]] = {"✓": "+", "✗": "x", "…": "~"}
LETTERS: Final = "rwd"
NARROW: Final = 16
"""Columns that an error needs to say anything."""
LOG_LINES: Final = 10


def print_servers(answer: Mapping[str, Any]) -> None:
    """As wide as the terminal; where it is none, as wide as it takes, for other programs to cut."""
    rows = answer.get("servers", [])
    if not rows:
        note("No upstreams. `mcpproxy upstream add NAME -- COMMAND` adds one, `mcpproxy catalog servers` knows some.")
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line, state in lines(rows, width):
        _print(line, SIGNS.get(state, ("", ""))[1])
    for row in rows:
        for line in _marks(row):
            note(line)


def _marks(row: Mapping[str, Any]) -> list[str]:
    pins = {**(row.get("pins") or {}), "findings": ()}  # those are for the page of one server
    return remarks(cell(row.get("name")), {**row, "state": None, "pins": pins})


def lines(rows: Sequence[Mapping[str, Any]], width: int | None) -> Iterator[tuple[str, str]]:
    """The header and a line for each server, with its state. What says least goes first where it is narrow: a column
    of its own for tools without hints (they are `?` among the classes then), how sessions are shared, the classes."""
    table = _table(rows, width)
    widths = [max(len(line[at]) for line in table) for at in range(len(table[0]))]
    for line, state in zip(table, ["", *(str(row.get("state")) for row in rows)], strict=True):
        text = "  ".join(value.ljust(size) for value, size in zip(line, widths, strict=True)).rstrip()
        yield (text if width is None or len(text) <= width else text[: max(width - 1, 1)] + "…"), state


def _table(rows: Sequence[Mapping[str, Any]], width: int | None) -> list[list[str]]:
    columns, blank = dict(COLUMNS), ""
    if width is None:
        blank = "-"
        del columns[""]
    else:
        del columns["transport"]
        for empty in ("error", "no hints"):
            if not any(columns[empty](row) for row in rows):
                del columns[empty]
        if "no hints" in columns and _taken(columns, rows) > width:
            del columns["no hints"]
            columns["classes"] = lambda row: _classes(row, ("unknown", "?"))
        for least in ("sessions", "classes"):
            if _taken(columns, rows) > width:
                del columns[least]
        if "error" in columns:
            columns["error"] = lambda row: cause(row.get("error"))
        columns["state"] = shown_state
    return [
        [name.upper() for name in columns],
        *([value(row) or blank for value in columns.values()] for row in rows),
    ]


def _taken(columns: Mapping[str, Column], rows: Sequence[Mapping[str, Any]]) -> int:
    """How wide it is, with room for an error to say anything."""
    sized = (max(len(name), *(len(value(row)) for row in rows)) for name, value in columns.items() if name != "error")
    return sum(2 + size for size in sized) - 2 + (2 + NARROW if "error" in columns else 0)


def _classes(row: Mapping[str, Any], *more: tuple[str, str]) -> str:
    counted = row.get("tools_by_class") or {}
    shown = (*zip(CLASSES, LETTERS, strict=True), *more)
    return " ".join(f"{counted[each]}{letter}" for each, letter in shown if counted.get(each))


def _error(row: Mapping[str, Any]) -> str:
    return cell(row["error"]) if row.get("error") else ""


Column = Callable[[Mapping[str, Any]], str]
COLUMNS: Final[Mapping[str, Column]] = {
    "": lambda row: _sign(str(row.get("state"))),
    "name": lambda row: cell(row.get("name")),
    "state": lambda row: cell(row.get("state")),
    "transport": lambda row: cell(row.get("transport")),
    "tools": lambda row: cell(row.get("tool_count")),
    "classes": _classes,
    "no hints": lambda row: str(without_hints(row) or ""),
    "sessions": lambda row: cell(mode) if (mode := row.get("session_mode") or row.get("sessions")) else "",
    "error": _error,
}


def _sign(state: str) -> str:
    sign = SIGNS.get(state, ("?", ""))[0]
    unicode = (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")
    return sign if unicode else PLAIN_SIGNS.get(sign, sign)


def _print(line: str, style: str) -> None:
    if not (style and sys.stdout.isatty()):
        say(line)
        return
    from rich.console import Console
    from rich.text import Text

    # Only the sign and the state carry colour, so that a long error stays readable on any ground.
    words, end = line.split(), 0
    for word in words[:3]:
        end = line.index(word, end) + len(word)
    shown = Text(line, no_wrap=True, overflow="ellipsis")
    shown.stylize(style, 0, len(words[0]))
    shown.stylize(style, end - len(words[2]), end)
    Console().print(shown)


def print_server(answer: Mapping[str, Any], log: Sequence[str]) -> None:
    """All about one, in the order in which a person asks."""
    row = answer.get("server") or {}
    name = cell(row.get("name"))
    facts = [
        ("state", f"{_sign(str(row.get('state')))} {shown_state(row)}{_since(row.get('since'))}"),
        ("error", cell(row["error"]) if row.get("error") else ""),
        ("tools", tools(row) if row.get("tool_count") or row.get("state") == "connected" else ""),
        ("sessions", _sessions(row)),
        ("protocol", cell(row["protocol_version"]) if row.get("protocol_version") else ""),
        ("server", _server_info(row.get("server_info"))),
        ("in flight", cell(row["in_flight"]) if row.get("in_flight") else ""),
        ("restarts", cell(row["restarts"]) if row.get("restarts") else ""),
    ]
    say(name)
    for label, value in facts:
        if value:
            say(f"  {label:<10}{value}")
    print_entry(answer.get("config"))
    if log:
        say(f"  end of its log (`mcpproxy upstream logs {name}` has more)")
        say("\n".join(f"    {line}" for line in log))
    for line in remarks(name, row):
        note(line)


def print_configured(name: str, entry: Mapping[str, Any]) -> None:
    """What there is to say of it where no gateway runs."""
    say(name)
    print_entry(entry)


def print_entry(entry: Mapping[str, Any] | None) -> None:
    if entry:
        text = json.dumps(entry, indent=2, ensure_ascii=False)
        say("  configuration\n" + "\n".join(f"    {line}" for line in text.splitlines()))


def _since(at: Any) -> str:
    if not isinstance(at, (int, float)):
        return ""
    then = datetime.fromtimestamp(at).astimezone()
    today = then.date() == datetime.now().astimezone().date()
    return f" since {then:%H:%M:%S}" if today else f" since {then:%Y-%m-%d %H:%M}"


def _sessions(row: Mapping[str, Any]) -> str:
    mode, configured = row.get("session_mode"), row.get("sessions")
    why = row.get("session_mode_reason")
    if not mode:
        return cell(configured) if configured else ""
    return (
        f"{cell(mode)}"
        + (f" (configured {cell(configured)})" if configured and configured != mode else "")
        + (f": {cell(why)}" if why else "")
    )


def _server_info(info: Any) -> str:
    if not isinstance(info, Mapping) or not info.get("name"):
        return ""
    return f"{cell(info['name'])} {cell(info['version']) if info.get('version') else ''}".strip()
