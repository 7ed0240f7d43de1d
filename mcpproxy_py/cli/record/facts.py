"""What a record says, in the words that every view of it uses. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mcpproxy_py.cli.output import cell

SERVERS_OWN: Final = "server_request"
"""The type of what servers want of their own accord."""
_CHANGES: Final = ("config_change", "approval")


class StatusSign(NamedTuple):
    """One cell that tells a status without its colour, and one for terminals that know ASCII alone."""

    sign: str
    plain: str
    style: str


SIGNS: Final[Mapping[str, StatusSign]] = {
    "success": StatusSign("✓", "+", "green"),
    "error": StatusSign("✗", "x", "red"),
    "blocked": StatusSign("⊘", "#", "yellow"),
    "timeout": StatusSign("◔", "o", "red"),
    "cancelled": StatusSign("–", "-", "dim"),
    "interrupted": StatusSign("!", "!", "red"),
    "pending": StatusSign("~", "~", "cyan"),
}
UNKNOWN_STATUS: Final = StatusSign("?", "?", "")
# Terminals do not agree on how wide these make what stands before them.
_JOINERS: Final = re.compile("[\u200c\u200d\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]")


def one_cell_each(value: Any) -> str:
    """One line whose width every terminal counts alike; empty where there is nothing."""
    return "" if value in (None, "", [], {}) else _JOINERS.sub("", cell(value))


def inner(record: Mapping[str, Any], *path: str) -> Any:
    """A value some levels down; `None` where any of them is missing or something else."""
    found: Any = record
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def subject(record: Mapping[str, Any]) -> str:
    """What was asked for: `server:tool`, or what a person changed."""
    server, tool = record.get("server"), record.get("tool")
    if record.get("type") in _CHANGES:
        return " ".join(str(each) for each in (tool, server) if each)
    return (
        f"{server}:{tool}" if server and tool and not str(tool).startswith(f"{server}:") else str(tool or server or "")
    )


def refused_by(record: Mapping[str, Any]) -> str | None:
    """The rule that refused; `None` for what was not refused."""
    if record.get("status") != "blocked":
        return None
    rule = inner(record, "metadata", "refused_by") or inner(record, "metadata", "decision", "rule")
    return one_cell_each(rule or inner(record, "error", "code")) or "the gateway"


def reason(record: Mapping[str, Any]) -> str:
    """Why the agent says it asked; of a search, what it looked for."""
    said = inner(record, "metadata", "intent", "reason")
    if not said and record.get("type") == "tool_search":
        said = inner(record, "arguments", "query")
    return one_cell_each(said)


def failure(record: Mapping[str, Any]) -> str:
    """What went wrong where it was not refused."""
    if record.get("status") in ("success", "blocked"):
        return ""
    return one_cell_each(inner(record, "error", "message") or inner(record, "error", "code"))


def warning(record: Mapping[str, Any]) -> str:
    return one_cell_each(inner(record, "metadata", "decision", "warning"))


def intent_of(record: Mapping[str, Any]) -> str:
    return one_cell_each(inner(record, "metadata", "intent", "operation_type"))


def client_of(record: Mapping[str, Any]) -> str:
    return one_cell_each(inner(record, "client", "name"))


def sign_of(record: Mapping[str, Any]) -> StatusSign:
    return SIGNS.get(str(record.get("status")), UNKNOWN_STATUS)


def rungs(record: Mapping[str, Any]) -> str:
    """The ladder that it went up, as far as it came. A gateway of an older version does not tell."""
    told = record.get("rungs")
    steps = [step for step in told if isinstance(step, Mapping)] if isinstance(told, list) else []
    if not steps:
        return ""
    passed, left = (
        [one_cell_each(step.get("rule")) for step in steps if step.get("outcome") == outcome]
        for outcome in ("passed", "not reached")
    )
    refused = next((step for step in steps if step.get("outcome") == "failed"), None)
    if refused is None:
        return f"all {len(passed)} passed"
    rule = one_cell_each(refused.get("rule"))
    if refused.get("number") is None:
        return f"all {len(passed)} passed; then refused by {rule}"
    text = f"{len(passed)} passed ({', '.join(passed)}); {rule} refused" if passed else f"{rule} refused"
    return f"{text}; not reached: {', '.join(left)}" if left else text
