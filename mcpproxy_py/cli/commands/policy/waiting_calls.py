"""Calls that wait for a person, as `mcpproxy approvals` shows and decides them (SEC-10)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import typer

from mcpproxy_py.cli import times
from mcpproxy_py.cli.common import CommandContext, person
from mcpproxy_py.cli.gateway.client import every_page, records
from mcpproxy_py.cli.output import cell, clean, note, pairs, say
from mcpproxy_py.core.record.short_ids import short_ids
from mcpproxy_py.errors import Code, GatewayError

Row = Mapping[str, Any]
CALL, REQUEST = "call_", "apr_"
PATH: Final = "confirmations"
BELL: Final = "\a"
STATES: Final = {"pending": "waiting"}
"""Of a call, by what the command says of both."""
BEGINS, CONFIRMATION, APPROVAL = "hello", "confirmation", "approval"


def listed(client: Any, status: str | None) -> list[Row]:
    """Without a status those that wait now. A gateway of before has none."""
    try:
        return every_page(client, PATH, items=PATH, status=STATES.get(status or "pending", status))[PATH]
    except GatewayError as error:
        if error.code is not Code.NOT_FOUND:
            raise
        return []


def found(client: Any, typed: str) -> Row | None:
    """The call that is meant, or `None` where it is a request for a server. Raises `GatewayError` where both can be."""
    if typed.startswith(REQUEST):
        return None
    try:
        call = client.get(PATH, typed)
    except GatewayError as error:
        if typed.startswith(CALL) or error.code is not Code.NOT_FOUND:
            raise
        return None
    if not typed.startswith(CALL) and _is_request(client, typed):
        details = {"remedy": f"Begin it with {CALL} or {REQUEST}."}
        raise GatewayError(Code.BAD_REQUEST, f"'{typed}' can be a call and a request for a server", details=details)
    return call


def _is_request(client: Any, typed: str) -> bool:
    try:
        client.get("approvals", typed)
    except GatewayError as error:
        return error.code is not Code.NOT_FOUND
    return True


def decide(session: CommandContext, call: Row, step: str, notes: str | None, yes: bool) -> None:
    """About what was shown, or read just now: the digest of its arguments goes along."""
    terminal = sys.stdin.isatty()
    if terminal and not yes:
        show(call)
        typer.confirm(clean(f"{step.capitalize()} {call['id']}?"), abort=True, err=True)
    body = {"arguments_sha256": call["arguments_sha256"], "terminal": terminal, "name": person(), "notes": notes}
    said = {key: value for key, value in body.items() if value is not None}
    session.show(session.client.post(PATH, call["id"], step, body=said), _print_decided)


def show(call: Row) -> None:
    """The question first, as a client would show it; then the rest."""
    say(clean(str(call["question"])))
    say("")
    rest = {key: value for key, value in call.items() if key not in ("question", "arguments", "reason")}
    pairs({key: value for key, value in rest.items() if value is not None})


def rows(calls: list[Row], *, short: bool) -> Iterator[list[Any]]:
    ids = short_ids(call["id"] for call in calls) if short else {}
    for call in calls:
        expires = times.clock_time(call["expires_at"], times.now(), seconds=False) if short else call["expires_at"]
        yield [ids.get(call["id"], call["id"]), call["status"], call["server"], call["tool"], expires, call["reason"]]


def _print_decided(call: Row) -> None:
    say(f"{call['id']} is {call['status']}.")
    if call.get("delivered") is False:
        note("The gateway where it waits has not taken that up. It may have died, and then nothing runs; this tells: "
             f"mcpproxy approvals show {call['id']}")  # fmt: skip
    elif call["status"] == "approved":
        note(f"It runs now, if it is still allowed: mcpproxy activity show {call['activity_id']}")


def watch(session: CommandContext, connect: Callable[[], Any]) -> None:
    """Endless: what waits now, and what comes and goes."""
    told: set[str] = set()
    for kind, record in records(connect):
        if kind == BEGINS:
            for call in reversed(listed(connect(), "pending")):
                _tell(session, call, told)
        elif kind == CONFIRMATION:
            _tell(session, _call_of(connect, record), told)
        elif kind == APPROVAL:
            _tell(session, record, told)


def _call_of(connect: Callable[[], Any], record: Row) -> Row:
    try:
        return {**connect().get(PATH, record["id"]), "status": record["status"]}
    except GatewayError:
        return record


def _tell(session: CommandContext, what: Row, told: set[str]) -> None:
    """The bell is for what is new and waits."""
    which, status = str(what.get("id") or what.get("approval_id")), str(what.get("status"))
    key = f"{which} {status}"
    if key in told:
        return
    told.add(key)
    if not session.human:
        say(json.dumps(what))
    else:
        about = what.get("tool") or (what.get("context") or {}).get("mcp_name")
        words = what.get("reason") or what.get("rationale")
        bell = BELL if status in ("waiting", "pending") and sys.stdout.isatty() else ""
        print(bell, end="")
        say("  ".join(cell(value) for value in (which, status, about, words)))
    sys.stdout.flush()
