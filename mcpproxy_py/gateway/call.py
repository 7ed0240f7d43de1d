"""One ask under way: what was decided, how it ended, and with that the reply to it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.core.policy import tool_results
from mcpproxy_py.core.record import events
from mcpproxy_py.core.record.events import Outcome
from mcpproxy_py.core.values import NOTHING, Ask, Decision, Refusal, Route, Snapshot, Status
from mcpproxy_py.errors import Code

EXPIRED: Final = "its question was not answered in time"
TIMED_OUT: Final = Outcome("timeout", error=events.failure(Code.TIMEOUT, EXPIRED))
UNFINISHED: Final = Outcome("error", error=events.failure(Code.INTERNAL, "the gateway did not finish this call"))


class Call:
    """What was decided, whether it is on record, how it ended; none ends without an outcome to record. To whoever asked
    it is the reply: `result` is what the server said, or a tool result that refuses, and then `refusal` says why. A
    `pending` one asks back, and the call goes on with the next round."""

    __slots__ = (
        "ask", "closed", "decision", "handed_over", "on_disk", "on_record", "outcome", "refusal", "result", "rule",
        "snapshot", "started",
    )  # fmt: skip

    def __init__(self, ask: Ask, decision: Decision, snapshot: Snapshot) -> None:
        self.ask = ask
        self.decision = decision
        self.snapshot = snapshot
        """What was decided on."""
        self.started = time.perf_counter()
        self.on_record = ask.again
        self.handed_over = False
        """Whether the recorder has it, which will write it soon."""
        self.on_disk: int | None = None
        """How often recording had failed when this was known to be on the disk, which it has to be above read."""
        self.closed = False
        """Whether its record is, or is about to be: nothing of it may be sent from then on."""
        self.outcome: Outcome | None = UNFINISHED
        """`None` while it waits for its next round."""
        self.rule: str | None = None
        """What turned it down after all, where that was not the decision."""
        self.result: Mapping[str, Any] = NOTHING
        self.refusal: Refusal | None = None

    @property
    def id(self) -> str:
        return self.ask.id

    @property
    def status(self) -> Status:
        return "pending" if self.outcome is None else self.outcome.status

    @property
    def warning(self) -> str | None:
        return self.decision.warning if isinstance(self.decision, Route) else None

    def answer(self, outcome: Outcome, result: Mapping[str, Any]) -> Call:
        self.outcome, self.result = outcome, result
        return self

    def refuse(self, refusal: Refusal, status: Status = "blocked") -> Call:
        self.refusal, self.rule, self.result = refusal, refusal.rule, tool_results.refused(refusal)
        self.outcome = events.refused(refusal, self.result, status)
        return self

    def ask_back(self, questions: Mapping[str, Any]) -> Call:
        self.outcome, self.result = None, questions
        return self
