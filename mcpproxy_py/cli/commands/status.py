"""`mcpproxy status`: what a person wants to know of the running gateway, in about ten lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from mcpproxy_py.cli import times
from mcpproxy_py.cli.common import CommandContext, command, group
from mcpproxy_py.cli.output import cell, pairs
from mcpproxy_py.cli.record.facts import SERVERS_OWN
from mcpproxy_py.cli.servers.settle import cause, shown_state
from mcpproxy_py.errors import GatewayError

app = group("The running gateway.")

LABEL: Final = 10
MOST_PENDING: Final = 100
MOST_DOWN: Final = 5
CLASSES: Final = ("read", "write", "destructive", "unknown")
UNANNOTATED: Final[Mapping[str, str]] = {
    "allow": "the read door lets them through",
    "write": "they count as writing",
    "destructive": "they count as destructive",
}
FAILED: Final = ("error", "timeout", "interrupted")


class StatusLine(NamedTuple):
    label: str
    says: str
    style: str = ""


@command(app, "status")
def status(session: CommandContext) -> None:
    """State of the running gateway.

    On a terminal: address, servers and why which are down, asks of today, what waits for a person. Into a pipe go the
    values that the gateway says of itself, by name; `-o json` has all of it, servers and the summary of today too.

    For example: mcpproxy status
    """
    answer = session.client.get("status")
    if session.human and not sys.stdout.isatty():
        pairs(answer)
        return
    session.show({**answer, **dict(_more(session.client))}, _print)


def _more(client: Any) -> Iterator[tuple[str, Any]]:
    """What cannot be read is left out: the rest is worth to be seen all the same."""
    midnight = times.moment("today", times.now())
    with suppress(GatewayError):
        yield "servers", client.get("servers").get("servers", [])
    with suppress(GatewayError):
        yield "today", client.get("activity", "summary", start_time=midnight, exclude_type=SERVERS_OWN)
    with suppress(GatewayError):
        calls = client.get("confirmations", status="waiting", limit=MOST_PENDING).get("confirmations", [])
        yield "waiting_calls", len(calls)
    with suppress(GatewayError):
        found = client.get("approvals", status="pending", limit=MOST_PENDING)
        yield "waiting", {"count": len(found.get("approvals", [])), "more": bool(found.get("next_cursor"))}


def _print(answer: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for line in lines_of(answer):
        text = Text()
        text.append(f"{line.label:<{LABEL}}  ", style="dim")
        said = Text(cell(line.says), style=line.style)
        for number, part in enumerate(said.wrap(console, max(20, console.width - LABEL - 2))):
            part.rstrip()
            text.append(f"\n{' ' * (LABEL + 2)}" if number else "").append_text(part)
        console.print(text, highlight=False, soft_wrap=True)


def lines_of(answer: Mapping[str, Any]) -> Iterator[StatusLine]:
    get = answer.get
    yield StatusLine("mcpproxy", f"{get('version')}, up {times.span(get('uptime_seconds') or 0)}, process {get('pid')}")
    yield StatusLine("address", f"{get('url')} ({', '.join(get('surfaces') or ['no surface'])})")
    if get("config_error"):
        yield StatusLine(
            "problem", f"the configuration cannot be used, so the old one applies: {get('config_error')}", "red"
        )
    yield from _mode(answer)
    # The built-in one is no server that somebody has.
    servers = [row for row in get("servers") or [] if isinstance(row, Mapping) and row.get("transport") != "local"]
    yield from _servers(servers)
    yield _tools(servers, answer)
    yield _today(answer)
    yield from _tokens(get("tokens") or {})
    yield from _profiles(get("profiles") or {})
    if calls := get("waiting_calls"):
        said = f"{calls} {'call' if calls == 1 else 'calls'} for your yes: mcpproxy approvals list"
        yield StatusLine("waiting", said, "yellow")
    yield from _for_a_person(get("waiting"))
    yield from _pins(servers)
    yield from _record(get("store") or {}, answer)
    yield StatusLine("data", str(get("data_dir")))
    yield StatusLine("log", _log(answer))


def _mode(answer: Mapping[str, Any]) -> Iterator[StatusLine]:
    strict = answer.get("mode") == "strict"
    said = "a call must be declared as what the tool is" if strict else "a tool may be called with a weaker declaration"
    yield StatusLine("mode", f"{answer.get('mode')}: {said}", "" if strict else "yellow")
    if answer.get("frozen"):
        yield StatusLine("frozen", "only reads run, until `mcpproxy unfreeze`", "red")
    if answer.get("draining"):
        yield StatusLine("stopping", "calls in flight may finish; nothing new is taken", "yellow")


def _servers(servers: Sequence[Mapping[str, Any]]) -> Iterator[StatusLine]:
    if not servers:
        yield StatusLine("servers", "none yet; add one with `mcpproxy upstream add`")
        return
    enabled = [row for row in servers if row.get("state") != "disabled"]
    up = [row for row in enabled if row.get("state") in ("connected", "sleeping")]
    off = f", {len(servers) - len(enabled)} disabled" if len(servers) > len(enabled) else ""
    all_up = len(up) == len(enabled)
    yield StatusLine("servers", f"{len(up)} of {len(enabled)} up{off}", "green" if all_up else "yellow")
    down = [row for row in enabled if row not in up]
    for row in down[:MOST_DOWN]:
        why = f": {cause(row['error'])}" if row.get("error") else ""
        yield StatusLine("", f"{row.get('name')} {shown_state(row)}{why}", "red" if row.get("error") else "")
    if len(down) > MOST_DOWN:
        yield StatusLine("", f"and {len(down) - MOST_DOWN} more: mcpproxy upstream list", "red")


def _tools(servers: Sequence[Mapping[str, Any]], answer: Mapping[str, Any]) -> StatusLine:
    said = str(sum(row.get("tool_count") or 0 for row in servers))
    classes = [row["tools_by_class"] for row in servers if isinstance(row.get("tools_by_class"), Mapping)]
    counts = {name: sum(each.get(name) or 0 for each in classes) for name in CLASSES}
    if any(counts.values()):
        said += f" ({', '.join(f'{count} {name}' for name, count in counts.items() if count)})"
    unannotated = sum(len(row.get("unannotated_tools") or ()) for row in servers)
    if not unannotated:
        return StatusLine("tools", said)
    what = UNANNOTATED.get(str(answer.get("unannotated")), "see `mcpproxy tools classify`")
    return StatusLine("tools", f"{said}; {unannotated} without hints: {what}", "yellow")


def _today(answer: Mapping[str, Any]) -> StatusLine:
    today = answer.get("today")
    if not isinstance(today, Mapping):
        return StatusLine("asks today", "unknown: the record cannot be read", "red")
    by_status = today.get("by_status") or {}
    refused, failed = by_status.get("blocked", 0), sum(by_status.get(name, 0) for name in FAILED)
    parts = [str(today.get("total") or 0)]
    parts += [f"{refused} refused"] * bool(refused) + [f"{failed} failed"] * bool(failed)
    parts += [f"{answer['in_flight']} under way"] * bool(answer.get("in_flight"))
    return StatusLine("asks today", ", ".join(parts))


def _profiles(said: Mapping[str, Any]) -> Iterator[StatusLine]:
    if said.get("count"):
        wrong = said.get("without_effect") or {}
        hint = f"; names in {', '.join(wrong)} mean nothing: mcpproxy profiles list" if wrong else ""
        yield StatusLine("profiles", f"{said['count']}{hint}", "yellow" if wrong else "")


def _tokens(counts: Mapping[str, Any]) -> Iterator[StatusLine]:
    """Of agents; nothing where there are none."""
    known = (("active", "active"), ("expiring_soon", "expiring within a week"), ("expired", "expired"),
             ("not_believed", "not believed"))  # fmt: skip
    said = [f"{counts[key]} {word}" for key, word in known if counts.get(key)]
    if said:
        wrong = counts.get("expired") or counts.get("expiring_soon")
        style = "red" if counts.get("not_believed") else "yellow" if wrong else ""
        yield StatusLine("tokens", f"{', '.join(said)}{': mcpproxy token list' if style else ''}", style)


def _pins(servers: Sequence[Mapping[str, Any]]) -> Iterator[StatusLine]:
    pins = [row["pins"] for row in servers if isinstance(row.get("pins"), Mapping)]
    waiting, blocked = (sum(each.get(key) or 0 for each in pins) for key in ("waiting", "blocked"))
    if waiting:
        more = f", {blocked} tools are blocked until then" if blocked else ""
        yield StatusLine("changed", f"{waiting} of what servers list waits for you{more}: mcpproxy pins diff", "yellow")


def _for_a_person(waiting: Any) -> Iterator[StatusLine]:
    count = waiting.get("count") if isinstance(waiting, Mapping) else 0
    if count:
        more = " or more" if waiting.get("more") else ""
        said = f"{count}{more} {'request' if count == 1 else 'requests'} for a server: mcpproxy approvals list"
        yield StatusLine("waiting", said, "yellow")


def _record(store: Mapping[str, Any], answer: Mapping[str, Any]) -> Iterator[StatusLine]:
    """Only where something is wrong with it."""
    if not store.get("writable", True):
        yield StatusLine(
            "problem", f"nothing can be recorded: {store.get('last_error') or 'see mcpproxy doctor'}", "red"
        )
    elif store.get("last_error"):
        yield StatusLine("problem", f"the database does not take records: {store.get('last_error')}", "red")
    if answer.get("unrecorded"):
        yield StatusLine("problem", f"{answer['unrecorded']} calls could not be recorded since the start", "red")


def _log(answer: Mapping[str, Any]) -> str:
    if answer.get("log"):
        return str(answer["log"])
    kept = Path(str(answer.get("data_dir"))) / "gateway.log"
    return str(kept) if kept.exists() else "on stderr of the process"
