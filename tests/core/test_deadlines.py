"""Deadlines are kept with one timer, whatever comes and goes in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.core.deadlines import Deadlines

pytestmark = pytest.mark.proves("UP-7")


@dataclass
class Timer:
    clock: Clock
    when: float
    call: Callable[[], None]

    def cancel(self) -> None:
        self.clock.wanted.remove(self)


class Clock:
    """Time that goes on when it is told to, and rings what was wanted by then."""

    def __init__(self) -> None:
        self.now = 0.0
        self.wanted: list[Timer] = []
        self.made = 0

    def wake_at(self, when: float, call: Callable[[], None]) -> Timer:
        self.made += 1
        timer = Timer(self, when, call)
        self.wanted.append(timer)
        assert len(self.wanted) == 1
        return timer

    def go_to(self, when: float) -> None:
        while self.wanted and self.wanted[0].when <= when:
            timer = self.wanted.pop()
            self.now = max(self.now, timer.when)
            timer.call()
        self.now = when


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 5), st.integers(1, 40)),
        st.tuples(st.just("take"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("wait"), st.just(0), st.integers(1, 20)),
    )
)


@given(STEPS)
def test_everybody_is_called_at_their_time_and_nobody_who_was_taken_out(steps: list[tuple[str, int, int]]) -> None:
    clock = Clock()
    deadlines = Deadlines(lambda: clock.now, clock.wake_at)
    expected: dict[int, float] = {}
    called: list[tuple[int, float]] = []
    due: list[tuple[int, float]] = []
    for step, who, seconds in steps:
        if step == "put":
            expected[who] = clock.now + seconds
            deadlines.add(who, seconds, lambda who=who: called.append((who, clock.now)))
        elif step == "take":
            expected.pop(who, None)
            deadlines.discard(who)
        else:
            until = clock.now + seconds
            due += [(each, when) for each, when in expected.items() if when <= until]
            expected = {each: when for each, when in expected.items() if when > until}
            clock.go_to(until)
    assert sorted(called) == sorted(due)
    assert len(deadlines) == len(expected)


def test_those_that_are_over_in_time_share_one_timer() -> None:
    clock = Clock()
    deadlines = Deadlines(lambda: clock.now, clock.wake_at)
    for call in range(1000):
        deadlines.add(call, 60, lambda: pytest.fail("this was over in time"))
        deadlines.discard(call)
        clock.go_to(clock.now + 0.001)
    assert clock.made == 1


def test_one_that_rings_may_take_out_another_and_put_itself_in_again() -> None:
    clock = Clock()
    deadlines = Deadlines(lambda: clock.now, clock.wake_at)
    rung: list[str] = []

    def first() -> None:
        rung.append("first")
        deadlines.discard("second")
        deadlines.add("first", 5, lambda: rung.append("again"))

    deadlines.add("first", 1, first)
    deadlines.add("second", 1, lambda: rung.append("second"))
    clock.go_to(1)
    assert rung == ["first"]
    clock.go_to(6)
    assert rung == ["first", "again"]


def test_a_timer_that_rings_too_early_is_set_again() -> None:
    clock = Clock()
    deadlines = Deadlines(lambda: clock.now, clock.wake_at)
    rung: list[float] = []
    deadlines.add("it", 10, lambda: rung.append(clock.now))
    timer = clock.wanted.pop()
    clock.now = 9.999
    timer.call()
    assert not rung
    clock.go_to(10)
    assert rung == [10]
