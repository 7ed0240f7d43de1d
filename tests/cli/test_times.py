"""Times as people type and read them, in their own time zone (USE-6)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import typer

from mcpproxy_py.cli.times import clock_time, local, moment, span, took

pytestmark = pytest.mark.proves("USE-6", "ACT-4")

NOW = datetime(2026, 11, 19, 14, 30, 12, tzinfo=UTC)
"""A Thursday; 15:30 in Berlin."""


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("now", "2026-11-19T14:30:12.000000Z"), ("2h", "2026-11-19T12:30:12.000000Z"),
        ("1h30m", "2026-11-19T13:00:12.000000Z"), ("90 minutes ago", "2026-11-19T13:00:12.000000Z"),
        ("today", "2026-11-18T23:00:00.000000Z"), ("yesterday", "2026-11-17T23:00:00.000000Z"),
        ("Yesterday 14:00", "2026-11-18T13:00:00.000000Z"), ("monday", "2026-11-15T23:00:00.000000Z"),
        ("thursday", "2026-11-18T23:00:00.000000Z"), ("fri", "2026-11-12T23:00:00.000000Z"),
        ("14:00", "2026-11-19T13:00:00.000000Z"), ("9:05:30", "2026-11-19T08:05:30.000000Z"),
        ("2026-11-19", "2026-11-18T23:00:00.000000Z"), ("2026-11-19 14:00", "2026-11-19T13:00:00.000000Z"),
        ("2026-11-19T14:00:01", "2026-11-19T13:00:01.000000Z"), ("2026-07-01", "2026-06-30T22:00:00.000000Z"),
        ("2026-07-01T00:00:00+05:00", "2026-07-01T00:00:00+05:00"),
    ],
)  # fmt: skip
def test_what_people_say_is_understood_in_local_time(berlin: None, typed: str, meant: str) -> None:
    assert moment(typed, NOW) == meant


@pytest.mark.parametrize(
    "typed", ["", " ", "soon", "2026-02-30", "25:00", "14", "monday 9", "2026-11-19 14:00 Z", "-2h", "2y", "1h2",
              "20261119", "9:61", "tomorrow", "mon day"],
)  # fmt: skip
def test_what_is_no_time_is_wrong_usage_with_examples(typed: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"is not a time\. Examples: 2h, 30m, today, yesterday, monday"):
        moment(typed, NOW)


def test_what_is_beyond_the_calendar_says_so() -> None:
    with pytest.raises(typer.BadParameter, match="out of the calendar"):
        moment("999999w", NOW)


def test_a_command_says_what_it_does_not_understand_and_asks_nothing(run: Any, gateway: Any) -> None:
    for words in (("activity", "list", "--since"), ("gaps", "report", "--since"), ("activity", "summary", "--until")):
        ran = run(*words, "whenever")
        assert (ran.status, "'whenever' is not a time" in " ".join(ran.err.split())) == (2, True)
    assert gateway.seen == []


def test_a_time_of_today_has_no_date_and_one_of_this_year_no_year(berlin: None) -> None:
    assert clock_time("2026-11-19T13:00:01.123456Z", NOW) == "14:00:01"
    assert clock_time("2026-11-18T23:30:00Z", NOW) == "00:30:00"
    assert clock_time("2026-11-18T22:30:00Z", NOW) == "11-18 23:30"
    assert clock_time("2025-12-31T22:30:00Z", NOW) == "2025-12-31"
    assert clock_time("2026-11-19T13:00:01Z", NOW, seconds=False) == "14:00"
    assert (clock_time("soon", NOW), clock_time(None, NOW), local(5)) == ("soon", "-", None)


def test_how_long_something_took_is_told_in_a_few_digits() -> None:
    given = [0, 0.04, 9.94, 9.96, 999.4, 999.6, 61_234, 125_000, None, "x"]
    told = ["0.0 ms", "0.0 ms", "9.9 ms", "10 ms", "999 ms", "1.0 s", "61.2 s", "2 min 5 s", "-", "-"]
    assert [took(each) for each in given] == told
    assert [span(each) for each in (0, -5, 59.9, 3600, 90_061)] == ["0 s", "0 s", "59 s", "1 h", "1 d 1 h"]
