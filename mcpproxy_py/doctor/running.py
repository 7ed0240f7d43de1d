"""What a running gateway says of itself over REST, as findings. Pure. One of another version may say less.

One thing that was looked at, and what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from mcpproxy_py.errors import GatewayError

State = Literal["ok", "warning", "problem"]
Look = Callable[[], str]
"""Says what is fine, and raises what is not."""


class Finding(NamedTuple):
    subject: str
    state: State
    says: str
    """What is so; where it is a problem, how to mend it too."""


class Doubt(Exception):
    """Nothing that keeps a gateway from working today."""


def found(subject: str, look: Look) -> Finding:
    try:
        return Finding(subject, "ok", look())
    except Doubt as doubt:
        return Finding(subject, "warning", str(doubt))
    except GatewayError as error:
        return Finding(subject, "problem", error.message)


LATE: Final = 60.0
"""Seconds that the database may be behind the journal."""
STATES: Final[Mapping[str, State]] = {"failed": "problem", "connecting": "warning"}


def gateway_at_work(status: Mapping[str, Any], version: str) -> Iterator[Finding]:
    """`version` is this command's own."""
    yield Finding(
        "gateway", "ok", f"version {status.get('version')} runs at {status.get('url')}, process {status.get('pid')}"
    )
    if status.get("version") != version:
        yield Finding("gateway", "warning", f"this command is version {version}: restart the gateway to use it too")
    if status.get("config_error"):
        says = f"the configuration changed and cannot be used, so the old one applies: {status['config_error']}"
        yield Finding("configuration", "problem", says)
    if status.get("frozen"):
        yield Finding("gateway", "warning", "it is frozen: only reads run, until `mcpproxy unfreeze`")
    yield from _record(status, status.get("store") or {})


def _record(status: Mapping[str, Any], store: Mapping[str, Any]) -> Iterator[Finding]:
    late, why = store.get("lag_seconds") or 0, store.get("last_error")
    if not store.get("writable", True):
        says = f"nothing can be recorded: {why or 'the journal cannot be written'}"
        yield Finding("record", "problem", f"{says}; see `disk` and `data directory` here")
    elif late > LATE:
        yield Finding("record", "warning", f"the database is {late:.0f} s behind the journal: {why or 'it is slow'}")
    else:
        yield Finding("record", "ok", f"goes to {store.get('database')}")
    for doubt in store.get("unbelieved") or ():
        yield Finding("record", "problem", doubt)
    if status.get("unrecorded"):
        yield Finding("record", "warning", f"{status['unrecorded']} calls could not be recorded since the start")


def servers_at_work(rows: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
    for row in rows:
        name, state = row["name"], row["state"]
        subject, logs = f"server {name}", f"; see `mcpproxy upstream logs {name}`"
        if state in STATES:
            yield Finding(subject, STATES[state], f"{state}: {row.get('error') or 'no reason given'}{logs}")
        elif state == "connected":
            yield Finding(subject, "ok", f"connected, {row.get('tool_count')} tools")
        else:
            yield Finding(subject, "ok", f"is {state}")
        if row.get("left_out"):
            told = ", ".join(f"{tool} ({why})" for tool, why in row["left_out"].items())
            yield Finding(subject, "warning", f"some of its tools cannot be used: {told}")
        if (row.get("ignored") or {}).get("garbage"):
            yield Finding(subject, "warning", f"writes output that is no message where only messages belong{logs}")
