"""What each principal may have for itself, so that none of them takes everything from the others (SEC-7).

What is refused for that is counted, and on record with its count: the first time at once, after that once a minute for
each principal and share. A record of each would be a way to fill the disk.

How much record a principal makes is bounded for each minute. Nothing above read goes unrecorded for that: what no
longer has its arguments on record says so, and when even that is too much, calls are refused.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from mcpproxy_py.core.protocol.constants import INTERNAL_ERROR
from mcpproxy_py.core.record.events import EventText
from mcpproxy_py.core.values import Refusal
from mcpproxy_py.errors import FACTS, Code, RpcError
from mcpproxy_py.gateway.access.rates import RATE, RateLimits

MINUTE: Final = 60.0
RULE: Final = "share"
COUNTED: Final = frozenset((RULE, RATE))
"""Rules whose refusals are counted, and not all on record: what comes too often is refused likewise."""
OTHERS: Final = "others"
MOST_KEYS: Final = 64
"""Principals and shares that are told apart in a minute."""
REFUSED_PART: Final = 64
"""Of a share of the record, the part that refused calls may take whole, and once more without their arguments."""
NOT_KEPT: Final = b'{"truncated":true,"preview":"","reason":"not kept: the share of the record is used up"}'


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Of all principals together."""

    payload_bytes: int = 65_536
    in_flight: int = 1000
    refuse_unrecorded: bool = True
    patience: float = 300
    """Seconds that a person has to say yes to a call."""
    rounds: int = 16
    """How often a server may ask back within one call; one that never stops asking must not hold it for ever."""


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """Of each principal."""

    in_flight: int = 800
    questions: int = 250
    sessions: int = 2500
    streams: int = 250
    subscriptions: int = 2000
    record_bytes: int = 1 << 30
    """A minute."""


class ShareUsedUp(RpcError):
    """What a client hears that wants more than its share."""

    def __init__(self, message: str) -> None:
        super().__init__(INTERNAL_ERROR, message, {"code": Code.OVERLOADED.value, "hint": FACTS[Code.OVERLOADED].hint})


class Share:
    """Of one thing: how many of it each principal has."""

    __slots__ = ("_on_refused", "_what", "most", "name", "taken")

    def __init__(self, name: str, what: str, most: int, on_refused: Callable[[str, str], None]) -> None:
        """`on_refused(principal, name)` is told of everything that was refused for it."""
        self.name = name
        self.most = most
        self.taken: dict[str, int] = {}
        self._what = what
        self._on_refused = on_refused

    def is_used_up(self, principal: str) -> bool:
        return self.taken.get(principal, 0) >= self.most

    def refused(self, principal: str) -> ShareUsedUp:
        """Counts it, and says why."""
        self._on_refused(principal, self.name)
        return ShareUsedUp(
            f"'{principal}' has {self.most} {self._what}, which is its share (limits.per_principal.{self.name})"
        )

    def refusal(self, what: str, principal: str) -> Refusal:
        """Of a call of `what`. Counted likewise."""
        message = f"'{what}' is refused: {self.refused(principal).message}"
        hint = FACTS[Code.OVERLOADED].hint
        return Refusal(Code.OVERLOADED, message, RULE, hint, what, details={"share": self.name})

    def take(self, principal: str) -> None:
        """One more. Raises `ShareUsedUp`."""
        if self.is_used_up(principal):
            raise self.refused(principal)
        self.taken[principal] = self.taken.get(principal, 0) + 1

    def give_back(self, principal: str) -> None:
        left = self.taken.get(principal, 0) - 1
        if left > 0:
            self.taken[principal] = left
        else:
            self.taken.pop(principal, None)

    @contextmanager
    def held(self, principal: str) -> Iterator[None]:
        self.take(principal)
        try:
            yield
        finally:
            self.give_back(principal)


class RecordShare(Share):
    """Bytes of record in this minute. `taken` has all of them, `of_refused` what refused calls took of it."""

    __slots__ = ("most_refused", "of_refused", "until", "whole")

    def __init__(self, most: int, on_refused: Callable[[str, str], None]) -> None:
        super().__init__("record_mb", "bytes of record in this minute", most, on_refused)
        self.of_refused: dict[str, int] = {}
        self.whole = most // 2
        """Beyond that, arguments and results are left out."""
        self.most_refused = 2 * most // REFUSED_PART
        """Beyond that, calls that are refused are counted only; from half of it on, their arguments are left out."""
        self.until = 0.0

    def roll(self, now: float) -> None:
        """The next minute."""
        self.until = now + MINUTE
        self.taken.clear()
        self.of_refused.clear()

    def without_payload(self, principal: str, event: EventText) -> EventText:
        """What was counted whole, with a note in place of its arguments or result."""
        if len(event.payload) <= len(NOT_KEPT):
            return event
        self.taken[principal] -= len(event.payload) - len(NOT_KEPT)
        return event._replace(payload=NOT_KEPT)


Report = Callable[[str, str, int], None]
"""Puts on record that a principal was refused something for a share of its, and how often."""


class PrincipalShares:
    """All of them, and what was refused for them."""

    def __init__(self, limits: ShareLimits | None = None) -> None:
        limits = limits or ShareLimits()
        self.in_flight = Share("in_flight", "calls in flight", limits.in_flight, self.count)
        self.questions = Share("questions", "questions open", limits.questions, self.count)
        self.sessions = Share("sessions", "sessions in use", limits.sessions, self.count)
        self.streams = Share("streams", "streams open", limits.streams, self.count)
        self.subscriptions = Share("subscriptions", "subscriptions to resources", limits.subscriptions, self.count)
        self.record = RecordShare(limits.record_bytes, self.count)
        self.rates = RateLimits(self.count)
        self.refusals: Counter[str] = Counter()
        """By share, since the start."""
        self.report: Report = lambda principal, share, count: None
        self._unreported: dict[tuple[str, str], int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def count(self, principal: str, share: str) -> None:
        """Something was refused for this share."""
        self.refusals[share] += 1
        key = principal, share
        if key not in self._unreported and len(self._unreported) >= MOST_KEYS:
            key = OTHERS, share
        if key in self._unreported:
            self._unreported[key] += 1
            return
        self._unreported[key] = 0
        self.report(*key, 1)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MINUTE, self._next_minute)

    def close(self) -> None:
        """What was counted goes on record now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for key, count in self._unreported.items():
            if count:
                self.report(*key, count)
        self._unreported.clear()

    def _next_minute(self) -> None:
        """Whoever was refused nothing in the last one begins anew."""
        self._timer = None
        due = {key: count for key, count in self._unreported.items() if count}
        self._unreported = dict.fromkeys(due, 0)
        for key, count in due.items():
            self.report(*key, count)
        if due:
            self._timer = asyncio.get_running_loop().call_later(MINUTE, self._next_minute)


def told(principal: str, share: str, count: int) -> Refusal:
    """What goes on record of that."""
    times = "once" if count == 1 else f"{count} times within a minute"
    why = "it asks more often than it may" if share == RATE else f"its share of {share} is used up"
    message = f"'{principal}' was refused something {times}: {why}"
    details: dict[str, Any] = {"share": share, "count": count}
    rule = RATE if share == RATE else RULE
    return Refusal(Code.OVERLOADED, message, rule, FACTS[Code.OVERLOADED].hint, details=details)
