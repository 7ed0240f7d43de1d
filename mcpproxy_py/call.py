"""One ask under way, and what answers it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mcpproxy_py.core import answers, record
from mcpproxy_py.core.record import Outcome
from mcpproxy_py.core.values import Ask, Decision, Refusal, Route, Status
from mcpproxy_py.errors import Code

EXPIRED: Final = "its question was not answered in time"
TIMED_OUT: Final = Outcome("timeout", error=record.failure(Code.TIMEOUT, EXPIRED))
UNFINISHED: Final = Outcome("error", error=record.failure(Code.INTERNAL, "the gateway did not finish this call"))


class Reply(NamedTuple):
    """The answer to an ask. `result` is what the server said, or a tool result that refuses; then `refusal` says
    why. A `pending` one asks back, and the call goes on with the next round."""

    id: str
    status: Status
    result: Mapping[str, Any]
    decision: Decision
    refusal: Refusal | None = None

    @property
    def warning(self) -> str | None:
        return self.decision.warning if isinstance(self.decision, Route) else None


class Call:
    """What was decided, whether it is on record, how it ended. Every reply is made here, so that none goes out
    without an outcome to record."""

    __slots__ = ("ask", "decision", "on_record", "outcome", "rule", "started")

    def __init__(self, ask: Ask, decision: Decision) -> None:
        self.ask = ask
        self.decision = decision
        self.started = time.perf_counter()
        self.on_record = ask.again
        self.outcome: Outcome | None = UNFINISHED
        """`None` while it waits for its next round."""
        self.rule: str | None = None
        """What turned it down after all, where that was not the decision."""

    def answer(self, outcome: Outcome, result: Mapping[str, Any]) -> Reply:
        self.outcome = outcome
        return Reply(self.ask.id, outcome.status, result, self.decision)

    def refuse(self, refusal: Refusal, status: Status = "blocked") -> Reply:
        result = answers.refused(refusal)
        self.rule = refusal.rule
        self.outcome = record.refused(refusal, result, status)
        return Reply(self.ask.id, status, result, self.decision, refusal)

    def ask_back(self, questions: Mapping[str, Any]) -> Reply:
        self.outcome = None
        return Reply(self.ask.id, "pending", questions, self.decision)
