"""What a running gateway says of itself over REST, as findings. Pure. One of another version may say less.

One thing that was looked at, and what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from mcpproxy_py.core.policy.tool_class import next_step_for, said_of_unannotated
from mcpproxy_py.errors import GatewayError

State = Literal["ok", "warning", "problem"]
Look = Callable[[], str]
"""Says what is fine, and raises what is not."""


class CheckResult(NamedTuple):
    subject: str
    state: State
    says: str
    """What is so; where it is a problem, how to mend it too."""


class CheckWarning(Exception):
    """Nothing that keeps a gateway from working today."""


def found(subject: str, look: Look) -> CheckResult:
    try:
        return CheckResult(subject, "ok", look())
    except CheckWarning as doubt:
        return CheckResult(subject, "warning", str(doubt))
    except GatewayError as error:
        return CheckResult(subject, "problem", error.message)


LATE: Final = 60.0
"""Seconds that the database may be behind the journal."""
_NOTHING_SAID: Final = {"failed": "no reason given", "connecting": "not connected yet", "needs_login": "log in"}
STATES: Final[Mapping[str, State]] = {"failed": "problem", "connecting": "warning", "needs_login": "problem"}


def gateway_at_work(status: Mapping[str, Any], version: str) -> Iterator[CheckResult]:
    """`version` is this command's own."""
    yield CheckResult(
        "gateway", "ok", f"version {status.get('version')} runs at {status.get('url')}, process {status.get('pid')}"
    )
    if status.get("version") != version:
        yield CheckResult("gateway", "warning", f"this command is version {version}: restart the gateway to use it too")
    if status.get("config_error"):
        says = f"the configuration changed and cannot be used, so the old one applies: {status['config_error']}"
        yield CheckResult("configuration", "problem", says)
    if waits := status.get("awaits_restart"):
        says = f"changed since the start, and in force after `mcpproxy restart`: {', '.join(waits)}"
        yield CheckResult("configuration", "warning", says)
    if status.get("frozen"):
        yield CheckResult("gateway", "warning", "it is frozen: only reads run, until `mcpproxy unfreeze`")
    yield from _tokens(status.get("tokens") or {})
    yield from _profiles(status.get("profiles") or {})
    yield from _record(status, status.get("store") or {})


def _tokens(counts: Mapping[str, Any]) -> Iterator[CheckResult]:
    """Of agents. Those that are not believed the record names, one by one."""
    see = "see `mcpproxy token list`"
    if active := counts.get("active"):
        yield CheckResult("tokens", "ok", f"{active} {'agent has one' if active == 1 else 'agents have one'}")
    if soon := counts.get("expiring_soon"):
        says = f"{soon} {'expires' if soon == 1 else 'expire'} within a week; {see}, and `mcpproxy token rotate`"
        yield CheckResult("tokens", "warning", says)
    if expired := counts.get("expired"):
        yield CheckResult("tokens", "warning", f"{expired} {'has' if expired == 1 else 'have'} expired; {see}")


def _profiles(said: Mapping[str, Any]) -> Iterator[CheckResult]:
    """A name that means nothing forbids nothing that somebody meant to keep, but lacks what they wanted."""
    for name, why in (said.get("without_effect") or {}).items():
        yield CheckResult("profiles", "warning", f"{name}: {', '.join(why)}; see `mcpproxy profiles show {name}`")
    if said.get("count") and not said.get("without_effect"):
        yield CheckResult("profiles", "ok", f"{said['count']} configured, and every name in them means something")


def _record(status: Mapping[str, Any], store: Mapping[str, Any]) -> Iterator[CheckResult]:
    late, why = store.get("lag_seconds") or 0, store.get("last_error")
    if not store.get("writable", True):
        says = f"nothing can be recorded: {why or 'the journal cannot be written'}"
        yield CheckResult("record", "problem", f"{says}; see `disk` and `data directory` here")
    elif late > LATE:
        yield CheckResult(
            "record", "warning", f"the database is {late:.0f} s behind the journal: {why or 'it is slow'}"
        )
    else:
        yield CheckResult("record", "ok", f"goes to {store.get('database')}")
    for doubt in store.get("unbelieved") or ():
        yield CheckResult("record", "problem", doubt)
    if status.get("unrecorded"):
        yield CheckResult("record", "warning", f"{status['unrecorded']} calls could not be recorded since the start")


def servers_at_work(rows: Iterable[Mapping[str, Any]]) -> Iterator[CheckResult]:
    for row in rows:
        name, state = row["name"], row["state"]
        subject, logs = f"server {name}", f"; see `mcpproxy upstream logs {name}`"
        if state in STATES:
            yield CheckResult(subject, STATES[state], f"{state}: {_reason(row)}")
        elif state == "connected":
            count = row.get("tool_count")
            yield CheckResult(subject, "ok", f"connected, {count} {'tool' if count == 1 else 'tools'}")
        else:
            yield CheckResult(subject, "ok", f"is {state}")
        if row.get("left_out"):
            told = ", ".join(f"{tool} ({why})" for tool, why in row["left_out"].items())
            yield CheckResult(subject, "warning", f"some of its tools cannot be used: {told}")
        if row.get("unmatched_entries"):
            says = f"its configuration names tools that it does not have: {', '.join(row['unmatched_entries'])}"
            yield CheckResult(subject, "warning", f"{says}; see `mcpproxy tools list --server {name}`")
        if row.get("unannotated_tools"):
            says = said_of_unannotated(len(row["unannotated_tools"]), row.get("unannotated_as", "allow"))
            yield CheckResult(subject, "warning", f"{says}; see `{next_step_for(name)}`")
        yield from _pins(subject, name, row.get("pins") or {})
        if (row.get("ignored") or {}).get("garbage"):
            yield CheckResult(subject, "warning", f"writes output that is no message where only messages belong{logs}")


def _pins(subject: str, name: str, pins: Mapping[str, Any]) -> Iterator[CheckResult]:
    step = f"`mcpproxy pins diff {name}`"
    if pins.get("unusable"):
        yield CheckResult(subject, "problem", f"{pins['unusable']}; its tools are blocked until you decide: {step}")
    elif waiting := pins.get("waiting"):
        blocked = f", and {pins['blocked']} of its tools are blocked" if pins.get("blocked") else ""
        yield CheckResult(subject, "warning", f"{waiting} of what it lists waits for you{blocked}; see {step}")


def _reason(row: Mapping[str, Any]) -> str:
    """With the command that says more. A command that was not found has written nothing."""
    error, name = row.get("error"), row["name"]
    said, looked, _ = str(error or _NOTHING_SAID[row["state"]]).partition("; looked ")
    again = "the last attempt failed, and it is tried again: " if error and row.get("state") == "connecting" else ""
    return f"{again}{said}; see `mcpproxy upstream {'show' if looked else 'logs'} {name}`"
