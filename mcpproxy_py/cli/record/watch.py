"""`mcpproxy activity watch`: a line for each ask when it ends, and on a terminal those under way below."""

from __future__ import annotations

import json
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from mcpproxy_py.cli import times
from mcpproxy_py.cli.gateway.client import records
from mcpproxy_py.cli.output import cell, note, say
from mcpproxy_py.cli.record import facts
from mcpproxy_py.core.record.short_ids import short_id
from mcpproxy_py.errors import GatewayError

Row = Mapping[str, Any]
Wanted = Callable[[Row], bool]
Event = tuple[str, Row]
BEGINS: Final = "hello"
ASKED: Final = "asked"
APPROVAL: Final = "approval"
CONFIRMATION: Final = "confirmation"
"""Of a call that is on record itself; see `mcpproxy approvals watch`."""
SAID: Final = "said"
FAILED: Final = "failed"
TICK: Final = 1.0
MOST_PENDING: Final = 100


class Watched:
    """Which events are to be seen, and how many were left out because servers did that of their own accord."""

    def __init__(self, wanted: Wanted, *, servers_own: bool) -> None:
        self._wanted = wanted
        self._servers_own = servers_own
        self.hidden = 0

    def __call__(self, kind: str, record: Row) -> bool:
        if kind == BEGINS or not self._wanted(record):
            return False
        if not self._servers_own and record.get("type") == facts.SERVERS_OWN:
            self.hidden += kind != ASKED
            return False
        return True


def print_json(connect: Callable[[], Any], wanted: Watched) -> None:
    """Every event that there is, one per line."""
    for kind, record in records(connect):
        if kind != CONFIRMATION and wanted(kind, record):
            say(json.dumps(record))
            sys.stdout.flush()


def print_plain(connect: Callable[[], Any], wanted: Watched, row: Callable[[str, Row], Iterable[Any]]) -> None:
    """For a pipe: stable columns, one line for each ask when it ends."""
    for kind, record in records(connect):
        if kind not in (ASKED, CONFIRMATION) and wanted(kind, record):
            say("  ".join(map(cell, (kind, *row(kind, record)))))
            sys.stdout.flush()


def print_live(connect: Callable[[], Any], wanted: Watched) -> None:
    """For a terminal."""
    from rich.console import Console
    from rich.text import Text

    from mcpproxy_py.cli.record.lines import put, streamed_line

    console = Console()
    under_way = UnderWay(console)
    try:
        for kind, record in _with_ticks(connect):
            under_way.clear()
            if kind == BEGINS:
                under_way.begin_with(row for row in _pending(connect) if wanted(ASKED, row))
            elif kind == SAID:
                note(str(record["text"]))
            elif kind == APPROVAL and wanted(kind, record):
                put(console, Text(_of_request(record), style="bold"))
            elif kind == ASKED and wanted(kind, record):
                under_way.add(record)
            elif kind and kind != CONFIRMATION and wanted(kind, record):
                under_way.remove(record)
                put(console, streamed_line(_ended(kind, record), times.now(), console.width))
            under_way.draw()
    finally:
        under_way.clear()


def _of_request(record: Row) -> str:
    name, status = cell(facts.inner(record, "context", "mcp_name")), cell(record.get("status"))
    return f"Request {short_id(str(record.get('approval_id')))} for {name} is {status}"


def _ended(kind: str, record: Row) -> Row:
    return {**record, "metadata": {"intent": {"reason": "its payloads were erased"}}} if kind == "erased" else record


def _pending(connect: Callable[[], Any]) -> list[Row]:
    """What was asked before anybody watched, and has not ended."""
    try:
        return connect().get("activity", status="pending", limit=MOST_PENDING).get("activities", [])
    except GatewayError:  # it has just gone: then it is told elsewhere
        return []


def _with_ticks(connect: Callable[[], Any]) -> Iterator[Event]:
    """The events, and nothing (`""`) after each second without any, for whoever shows how long something takes."""
    found: queue.Queue[tuple[str, Any]] = queue.Queue(1000)

    def read() -> None:
        try:
            for event in records(connect, lambda text: found.put((SAID, {"text": text}))):
                found.put(event)
        except BaseException as error:
            found.put((FAILED, error))

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            kind, what = found.get(timeout=TICK)
        except queue.Empty:
            kind, what = "", {}
        if kind == FAILED:
            raise what  # pyright: ignore[reportGeneralTypeIssues]
        yield kind, what


class UnderWay:
    """The last line of a terminal: what was asked and has not ended, and for how long. Rewritten in place."""

    def __init__(self, console: Any) -> None:
        self._console = console
        self._asks: dict[str, Row] = {}
        self._drawn = False

    def begin_with(self, asks: Iterable[Row]) -> None:
        self._asks = {str(ask.get("id")): ask for ask in sorted(asks, key=lambda ask: str(ask.get("id")))}

    def add(self, ask: Row) -> None:
        if ask.get("status") == "pending":  # it may have ended before its beginning was told
            self._asks[str(ask.get("id"))] = ask

    def remove(self, ask: Row) -> None:
        self._asks.pop(str(ask.get("id")), None)

    def clear(self) -> None:
        if self._drawn:
            self._write("\r\x1b[K")
            self._drawn = False

    def draw(self) -> None:
        from rich.cells import cell_len, set_cell_size

        if not self._asks or self._console.is_dumb_terminal:
            return
        now, said = times.now(), []
        for ask in self._asks.values():
            begun = times.local(ask.get("timestamp"))
            seconds = (now - begun).total_seconds() if begun else 0
            said.append(f"{facts.one_cell_each(facts.subject(ask))} {times.span(seconds)}")
        text, width = f"{len(said)} under way: {', '.join(said)}", self._console.width - 1
        self._write(text if cell_len(text) <= width else set_cell_size(text, width))
        self._drawn = True

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()
