"""One record as a page of a terminal: who asked for what, when, what was decided and how, and what went back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from mcpproxy_py.cli import times
from mcpproxy_py.cli.output import pretty, writes_unicode
from mcpproxy_py.cli.record import facts
from mcpproxy_py.core.record.short_ids import short_id

LABEL: Final = 11
PAYLOAD_LINES: Final = 16
DECLARED: Final[Mapping[str, str]] = {
    "inferred": "not declared; inferred from the variant", "implied": "not declared; implied by the class of the tool",
    "passive": "declared beside the call",
}  # fmt: skip


VERDICTS: Final[Mapping[str, str]] = {"allow": "allowed", "warn": "allowed, with a warning"}


def print_page(record: Mapping[str, Any], *, whole: bool) -> None:
    console = Console()
    sign = facts.sign_of(record)
    head = Text()
    head.append(f"{sign.sign if writes_unicode() else sign.plain} {record.get('status')}", style=sign.style)
    head.append(f"  {facts.one_cell_each(facts.subject(record))}", style="bold")
    _put(console, head)
    for label, value in _facts(record):
        if value:
            _fact(console, label, value)
    for name in ("arguments", "rounds", "response"):
        _payload(console, name, record.get(name) if record.get(name) != [] else None, record.get(f"{name}_size"), whole)


def _fact(console: Console, label: str, value: str) -> None:
    for number, part in enumerate(Text(value).wrap(console, max(20, console.width - LABEL))):
        line = Text()
        line.append(f"{'' if number else label:<{LABEL}}", style="dim").append_text(part)
        line.rstrip()
        _put(console, line)


def _put(console: Console, text: Text) -> None:
    console.print(text, highlight=False, soft_wrap=True)


def _facts(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    said = facts.one_cell_each
    yield "id", f"{said(record.get('id'))} ({short_id(str(record.get('id')))} is enough)"
    yield "when", _when(record)
    yield "who", _who(record)
    yield "reason", facts.reason(record)
    yield "intent", _intent(record)
    yield "error", _error(record)
    yield from _decision(record)
    yield "session", said(record.get("session_id"))
    yield "request", said(record.get("request_id"))


def _when(record: Mapping[str, Any]) -> str:
    found = times.local(record.get("timestamp"))
    if found is None:
        return facts.one_cell_each(record.get("timestamp"))
    how_long = record.get("duration_ms")
    took = "" if how_long is None else f", took {times.took(how_long)}"
    return f"{found:%a %Y-%m-%d %H:%M:%S %z}{took}"


def _who(record: Mapping[str, Any]) -> str:
    said = facts.one_cell_each
    version = said(facts.inner(record, "client", "version"))
    client = " ".join(part for part in (facts.client_of(record), version) if part)
    way = "/".join(part for part in (said(record.get("source")), said(record.get("surface"))) if part)
    return ", ".join(
        part
        for part in (client and f"{client} (as it says)", said(record.get("principal")), way and f"over {way}")
        if part
    )


def _intent(record: Mapping[str, Any]) -> str:
    intent = facts.inner(record, "metadata", "intent")
    if not isinstance(intent, Mapping):
        return ""
    said = facts.one_cell_each
    source = DECLARED.get(str(intent.get("source")), "declared")
    data = f"; data is {said(intent['data_sensitivity'])}" if intent.get("data_sensitivity") else ""
    variant = facts.inner(record, "metadata", "tool_variant")
    return f"{facts.intent_of(record)} ({source}){data}{f'; called with {said(variant)}' if variant else ''}"


def _error(record: Mapping[str, Any]) -> str:
    error = record.get("error")
    parts = (facts.one_cell_each(facts.inner(record, "error", key)) for key in ("code", "message"))
    return ": ".join(part for part in parts if part) if isinstance(error, Mapping) else ""


def _decision(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    decision = facts.inner(record, "metadata", "decision")
    if not isinstance(decision, Mapping):
        return
    said, refused = facts.one_cell_each, facts.refused_by(record)
    given = said(decision.get("verdict"))
    verdict = f"refused by {refused}" if refused else VERDICTS.get(given, given)
    mode = f" ({said(decision.get('mode'))} mode)" if decision.get("mode") else ""
    yield "decision", f"{verdict}{mode}{f'; {facts.warning(record)}' if facts.warning(record) else ''}"
    if decision.get("class"):
        origin = f", by the {said(decision.get('class_origin'))}" if decision.get("class_origin") else ""
        hints = decision.get("annotations")
        told = f"; hints {said(hints)}" if hints else ""
        yield "class", f"{said(decision.get('class'))}{origin}{told}"
    yield "rungs", facts.rungs(record)


def _payload(console: Console, name: str, value: Any, size: Any, whole: bool) -> None:
    """Long ones are cut for the screen."""
    if value is None:
        return
    lines = pretty(value).splitlines()
    many = len(lines)
    shown = lines if whole or many <= PAYLOAD_LINES else lines[: PAYLOAD_LINES - 1]
    width = None if whole else console.width - 1
    told = f" ({size} bytes)" if isinstance(size, int) and size else ""
    _put(console, Text(f"\n{name}{told}", style="bold"))
    cut = many > len(shown)
    for line in shown:
        if width is not None and len(line) > width * 3:
            line, cut = f"{line[: width * 3 - 1]}…", True
        _put(console, Text(line))
    if cut:
        left = f"{many - len(shown)} more lines" if many > len(shown) else "Long lines are cut"
        _put(console, Text(f"… {left}; --full shows all, -o json as well", style="dim"))
