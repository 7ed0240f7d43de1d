"""Every method of MCP that a client can name: who may call it, on which surface, and by which check (GATE-14).

This is the only such list. Surfaces take their handlers by it, decisions take the risk of a request from it, and
`python -m tests.house.methods_reference` prints it. `tests/core/protocol/test_methods.py` compares it with the schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from mcpproxy_py.core.values import Operation

Era = Literal["session-based", "stateless"]
Check = Literal["call", "request", "page", "shared", "named", "task", "gateway", "own", "ignored", "refused"]
CHECKS: Final[Mapping[Check, str]] = {
    "call": "The checks of a tool call, on record: see [the gate](gate.md).",
    "request": "The checks of a request to one server, with the risk in the table, on record: token scope, method, "
               "arguments, server, operator's lists, ceiling, freeze, confirmation.",
    "page": "As `request`. Of the parameters only the cursor goes to the server.",
    "shared": "As `request`. The server keeps one such state for all clients of the gateway: it is told when the first "
              "client watches a resource and when the last one leaves, and the last log level counts.",
    "named": "As `request`, at the server that named this URI or prompt to this agent; on direct also at the one that "
             "lists it, or a template of it. Otherwise it is unknown.",
    "task": "As `request`, for the agent whose call began the task, and with the risk of that call unless it only "
            "looks. For every other agent there is no such task.",
    "gateway": "The gateway answers, from what is in the token's scope.",
    "own": "Is about nothing but this client's own session, streams and requests.",
    "ignored": "Accepted and dropped.",
    "refused": "Method not found. No server hears of it.",
}  # fmt: skip


class Method(NamedTuple):
    """A method in one kind of revision. `sender` is who sends it by the protocol; one of a server's is refused."""

    name: str
    eras: tuple[Era, ...]
    risk: Operation  # what a request for it counts as, where it goes to a server
    gate: Check
    direct: Check
    passthrough: Check
    sender: Literal["client", "server"] = "client"


_S: Final[tuple[Era, ...]] = ("session-based",)
_T: Final[tuple[Era, ...]] = ("stateless",)
_BOTH: Final = _S + _T
TABLE: Final = (
    Method("initialize", _S, "read", "own", "own", "own"),
    Method("ping", _S, "read", "own", "own", "own"),
    Method("server/discover", _T, "read", "gateway", "gateway", "gateway"),
    Method("subscriptions/listen", _T, "read", "own", "shared", "shared"),
    Method("tools/call", _BOTH, "write", "call", "call", "call"),
    Method("tools/list", _BOTH, "read", "gateway", "gateway", "gateway"),
    Method("prompts/list", _BOTH, "read", "gateway", "gateway", "page"),
    Method("prompts/get", _BOTH, "read", "refused", "named", "request"),
    Method("resources/list", _BOTH, "read", "gateway", "gateway", "page"),
    Method("resources/templates/list", _BOTH, "read", "gateway", "gateway", "page"),
    Method("resources/read", _BOTH, "read", "named", "named", "request"),
    Method("resources/subscribe", _S, "read", "refused", "shared", "shared"),
    Method("resources/unsubscribe", _S, "read", "refused", "shared", "shared"),
    Method("completion/complete", _BOTH, "read", "refused", "named", "request"),
    Method("logging/setLevel", _S, "read", "own", "own", "shared"),
    # Of the experimental tasks of 2025-11-25 none can begin through the gateway, so nobody owns one: `task` in the
    # parameters of a call is not sent on. Requests about those that another client began are nobody's either.
    Method("tasks/result", _S, "read", "refused", "refused", "refused"),
    Method("tasks/list", _S, "read", "refused", "refused", "refused"),
    # The tasks extension. At a passthrough a client of an older revision may follow its task too.
    Method("tasks/get", _S, "read", "refused", "refused", "task"),
    Method("tasks/update", _S, "write", "refused", "refused", "task"),
    Method("tasks/cancel", _S, "write", "refused", "refused", "task"),
    Method("tasks/get", _T, "read", "refused", "task", "task"),
    Method("tasks/update", _T, "write", "refused", "task", "task"),
    Method("tasks/cancel", _T, "write", "refused", "task", "task"),
    # The skills extension.
    Method("skills/list", _BOTH, "read", "refused", "page", "page"),
    Method("skills/get", _BOTH, "read", "refused", "request", "request"),
    Method("resources/directory/read", _BOTH, "read", "refused", "named", "request"),
    # What servers ask of clients.
    Method("elicitation/create", _BOTH, "write", "refused", "refused", "refused", "server"),
    Method("sampling/createMessage", _BOTH, "write", "refused", "refused", "refused", "server"),
    Method("roots/list", _BOTH, "write", "refused", "refused", "refused", "server"),
    # Notifications. None of a client's goes to a server as it came.
    Method("notifications/initialized", _S, "read", "ignored", "ignored", "ignored"),
    Method("notifications/cancelled", _BOTH, "read", "own", "own", "own"),
    Method("notifications/progress", _S, "read", "ignored", "ignored", "ignored"),
    Method("notifications/roots/list_changed", _S, "read", "own", "own", "own"),
    Method("notifications/tasks/status", _S, "read", "ignored", "ignored", "ignored"),
)
# By the names of all methods. They are compared exactly; what only looks like one of them goes nowhere.
RISKS: Final[Mapping[str, Operation]] = {each.name: each.risk for each in TABLE}


def with_check(surface: str, check: Check) -> frozenset[str]:
    """The methods with this check on this surface, in any revision."""
    return frozenset(each.name for each in TABLE if getattr(each, surface) == check)


def refused_at(surface: str, era: Era) -> frozenset[str]:
    """The methods that are refused there, or that the revision does not have."""
    taken = {each.name for each in TABLE if era in each.eras and getattr(each, surface) != "refused"}
    return frozenset(RISKS.keys() - taken)
