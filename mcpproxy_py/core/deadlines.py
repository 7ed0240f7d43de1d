"""Many deadlines with one timer. Nearly everything is over long before its time, and a timer that is made and thrown
away for each costs more than it looks: the event loop has to close it too."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Deadlines:
    """`wake_at(when, call)` has `call` called at this time of `now`, or a little sooner or later."""

    def __init__(self, now: Callable[[], float], wake_at: Callable[[float, Callable[[], None]], Timer]) -> None:
        self._now = now
        self._wake_at = wake_at
        self._due: dict[Any, tuple[float, Callable[[], object]]] = {}
        self._timer: Timer | None = None
        self._wakes = inf
        """When we are woken next. Whoever is gone by then was not worth another timer."""

    def __len__(self) -> int:
        return len(self._due)

    def add(self, who: Any, seconds: float, call: Callable[[], object]) -> None:
        """`call` is called in so many seconds, unless `who` is taken out before, or put in anew."""
        when = self._now() + seconds
        self._due[who] = when, call
        if when < self._wakes:
            self._wake(when)

    def discard(self, who: Any) -> None:
        self._due.pop(who, None)

    def _wake(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._wakes, self._timer = when, self._wake_at(when, self._ring)

    def _ring(self) -> None:
        now, self._wakes, self._timer = self._now(), inf, None
        over = [who for who, (when, _) in self._due.items() if when <= now]
        for who in over:
            if (due := self._due.pop(who, None)) is not None:  # one of those before may have taken it out
                due[1]()
        if self._due:
            soonest = min(when for when, _ in self._due.values())
            if soonest < self._wakes:
                self._wake(soonest)
