"""Waiting until a server is connected or has failed, and saying what came of it."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import typer

from mcpproxy_py.cli.common import CommandContext
from mcpproxy_py.cli.output import cell, note, say, waiting
from mcpproxy_py.cli.servers.differences import visible
from mcpproxy_py.core.policy.tool_class import next_step_for, said_of_unannotated
from mcpproxy_py.errors import EXIT_FAILED, EXIT_OK, Code, GatewayError

WAIT_SECONDS: Final = 90.0
"""One attempt may take a minute, because `npx` and `uvx` download a package first."""
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 0.5
EXIT_INTERRUPTED: Final = 130
SETTLED: Final = ("connected", "failed", "disabled", "sleeping", "needs_login")
CLASSES: Final = ("read", "write", "destructive")
_SAID: Final = re.compile(r"^.*?; it (?:last wrote|wrote to stdout, where only MCP messages belong): ")
_LOOKED: Final = re.compile(r"; looked (?:in|only in) .*$")

NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait until it is connected or has failed.")]
WaitFor = Annotated[
    float,
    typer.Option("--wait-for", metavar="SECONDS", min=0.0, help="How long to wait for that."),
]


def report(
    session: CommandContext, name: str, answer: Mapping[str, Any], done: str, *, wait: bool, seconds: float
) -> int:
    """Say what was `done`, wait for the server where there is one to wait for, and say what came of it: the exit
    status."""
    row = answer.get("server")
    if not wait or not isinstance(row, dict) or row.get("state") is None:
        session.show(answer, lambda _: say(done))
        return EXIT_OK
    try:
        if session.human:
            say(done)
            sys.stdout.flush()
        row = _settled(session, name, row, seconds)
    except KeyboardInterrupt:
        note(f"\n{name} is configured and goes on connecting; `mcpproxy upstream show {name}` says how it went.")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    session.show({**answer, "server": row}, lambda _: say(result(name, row)))
    for line in remarks(name, row):
        note(line)
    return EXIT_OK if row.get("state") in ("connected", "sleeping", "disabled", "needs_login") else EXIT_FAILED


def _settled(session: CommandContext, name: str, row: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
    """The server's row once it is connected or has failed, or as it is when the time is over."""
    give_up, pause, before = time.monotonic() + seconds, FIRST_PAUSE, row.get("restarts") or 0
    with waiting(f"Connecting {name} (Ctrl-C stops waiting, not the server)"):
        while not _is_settled(row, before) and (left := give_up - time.monotonic()) > 0:
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, LONGEST_PAUSE)
            row = _row(session, name)
    return row


def _row(session: CommandContext, name: str) -> Mapping[str, Any]:
    rows = session.client.get("servers").get("servers", [])
    found = next((row for row in rows if row.get("name") == name), None)
    if found is None:
        raise GatewayError(Code.NOT_FOUND, f"{name} was removed while this waited for it")
    return found


def _is_settled(row: Mapping[str, Any], restarts: int) -> bool:
    """An attempt that failed may have been followed by another before anybody looked."""
    again = row.get("state") == "connecting" and row.get("error") and (row.get("restarts") or 0) > restarts
    return row.get("state") in SETTLED or bool(again)


def result(name: str, row: Mapping[str, Any]) -> str:
    """One line: what it is, with its tools or its reason."""
    state, error = row.get("state"), cell(row.get("error"))
    if state == "connected":
        return f"{name}: connected, {tools(row)}"
    if state == "failed" or (state == "connecting" and row.get("error")):
        return f"{name}: failed: {error}"
    if state == "needs_login":
        return f"{name}: needs a login: {error}"
    if state == "connecting":
        return f"{name}: still connecting"
    later = " until its first call" if state == "sleeping" else ""
    return f"{name}: {state}{later}" + (f", {tools(row)}" if row.get("tool_count") else "")


def tools(row: Mapping[str, Any]) -> str:
    """`12 tools (7 read, 4 write, 1 destructive), 3 without hints`"""
    count, by_class = row.get("tool_count") or 0, row.get("tools_by_class") or {}
    parts = ", ".join(f"{by_class[each]} {each}" for each in CLASSES if by_class.get(each))
    bare = without_hints(row)
    return (
        f"{count} tool{'' if count == 1 else 's'}"
        + (f" ({parts})" if parts else "")
        + (f", {bare} without hints" if bare else "")
    )


def without_hints(row: Mapping[str, Any]) -> int:
    """How many of its tools say nothing of what they do, and nobody said it for them."""
    named = row.get("unannotated_tools")
    return len(named) if isinstance(named, list) else (row.get("tools_by_class") or {}).get("unknown") or 0


def remarks(name: str, row: Mapping[str, Any]) -> list[str]:
    """What a person should know besides, and what to do next."""
    told = [
        f"{name}: the tool {cell(tool)} is left out: {cell(why)}" for tool, why in (row.get("left_out") or {}).items()
    ]
    told += [
        f"{name}: none of its tools is meant by {cell(entry)}; `mcpproxy tools list --server {name}` has their names"
        for entry in row.get("unmatched_entries") or ()
    ]
    if row.get("state") == "connected" and (bare := without_hints(row)):
        says = said_of_unannotated(bare, row.get("unannotated_as", "allow"))
        told.append(f"{name}: {says}. To give each a class: {next_step_for(name)}")
    told += list(_of_pins(name, row.get("pins") or {}))
    if row.get("state") == "connecting" and not row.get("error"):
        told.append(f"It stays configured and goes on; `mcpproxy upstream show {name}` says how it went.")
    elif row.get("state") == "needs_login":
        told.append(f"To log in: mcpproxy upstream login {name}")
    elif row.get("state") in ("failed", "connecting"):
        told.append("It stays configured. What you can do:")
        steps = dict(_steps(name, row))
        told += [f"  {step:<{max(map(len, steps))}}  {what}" for step, what in steps.items()]
    return told


def _of_pins(name: str, pins: Mapping[str, Any]) -> Iterator[str]:
    """What waits for a person of what the server lists, and what the scan found in it."""
    if pins.get("unusable"):
        yield f"{name}: {cell(pins['unusable'])}; see `mcpproxy pins diff {name}`"
    if waiting := pins.get("waiting"):
        many, blocked = waiting > 1, pins.get("blocked") or 0
        told = f"{waiting} change{'s' * many} of what it lists wait{'s' * (not many)} for you"
        told = "nothing of it is approved yet" if pins.get("first") else told
        more = f", and {blocked} of its tools {'are' if blocked > 1 else 'is'} blocked until then" if blocked else ""
        yield f"{name}: {told}{more}. To see and decide it: mcpproxy pins diff {name}"
    for each in pins.get("findings") or ():
        yield f"{name}: {visible(str(each['subject']))}: {visible(str(each['text']))}"


def _steps(name: str, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if row.get("transport") in ("http", "sse"):
        yield "mcpproxy doctor", "look at its address"
    elif not str(row.get("error")).startswith("command not found"):  # which has written nothing
        yield f"mcpproxy upstream logs {name}", "see all that it wrote"
    yield f"mcpproxy upstream edit {name}", "change it"
    yield f"mcpproxy upstream restart {name}", "try again"
    yield f"mcpproxy upstream remove {name}", "take it out"


def shown_state(row: Mapping[str, Any]) -> str:
    """In the words for people: one that failed and is connecting again is not a new one."""
    if row.get("state") == "needs_login":
        return "needs login"
    return "retrying" if row.get("state") == "connecting" and row.get("error") else cell(row.get("state"))


def cause(error: Any) -> str:
    """Of an error what the server said itself, where it said something, and not where a command was looked for: what
    there is room for in a line. `upstream show` has all."""
    return _LOOKED.sub("", _SAID.sub("", cell(error))) if error else ""
