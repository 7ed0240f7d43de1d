"""What a decision makes of schemas on arguments, where nobody can tell at once whether they fit, or at all.

What an operator's `when` says is a matter of safety: while it is open, the call counts as the highest class that the
override has. What a server says of its own arguments is a service to the agent: they go unchecked, and the result says
so. Either way the decision names what is open, and whoever can wait finds it out and has it decided again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from mcpproxy_py.core.pending_checks import PendingCheck
from mcpproxy_py.core.policy.tool_class import class_of, matched, verdict_on
from mcpproxy_py.core.values import Ask, ClassOrigin, Tool, ToolClass

NOT_YET: Final = "it takes longer than can be waited for here"


class Checked(Protocol):
    """What a draft of a decision says about checks."""

    name: str | None
    tool: Tool
    tool_class: ToolClass | None
    origin: ClassOrigin
    warning: str | None
    pending: PendingCheck | None
    undecided: str | None
    unchecked: str | None


def note_class(ask: Ask, draft: Checked, args: Mapping[str, Any]) -> None:
    """The class of a call with these arguments, and who says so."""
    if not draft.tool.overrides:
        draft.tool_class, draft.origin = class_of(draft.tool, args)
        return
    draft.tool_class, open_check = matched(draft.tool, args, ask.verdicts)
    draft.origin = "override" if open_check is None else "undecided"
    if open_check is not None:
        why = _why(ask, draft, open_check)
        draft.undecided = draft.warning = (
            f"Tool '{draft.name}' counts as {draft.tool_class}, the highest class of its override, because nobody can "
            f"tell whether the arguments fit a `when`: {why}"
        )


def what_is_wrong(ask: Ask, draft: Checked, pending: PendingCheck) -> str | None:
    """As a tool's `violation` would say it, for one that could not."""
    verdict = verdict_on(pending, ask.verdicts)
    if verdict is not None and verdict.cannot is None:
        return verdict.wrong
    why = _why(ask, draft, pending)
    draft.unchecked = f"The arguments of '{draft.name}' were not checked against its input schema: {why}"
    draft.warning = f"{draft.warning}; {draft.unchecked}" if draft.warning else draft.unchecked
    return None


def _why(ask: Ask, draft: Checked, pending: PendingCheck) -> str:
    verdict = verdict_on(pending, ask.verdicts)
    if verdict is None:
        draft.pending = pending
    return NOT_YET if verdict is None or verdict.cannot is None else verdict.cannot
