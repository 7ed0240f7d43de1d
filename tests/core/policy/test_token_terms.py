"""What a token allows, as it is written: what cannot be meant is told, and nothing is guessed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mcpproxy_py.core.policy.scope import Scope
from mcpproxy_py.core.policy.token_terms import (
    TokenTerms,
    ceiling_of,
    check_token_name,
    expiry_of,
    grace_of,
    operations_up_to,
    rate_of,
    server_list,
    tool_list,
)

pytestmark = pytest.mark.proves("SEC-2")
NOW = 1_800_000_000.0


@pytest.mark.parametrize("name", ["a", "0", "claude-code", "a.b_c-d", "x" * 64])
def test_a_name_is_plain(name: str) -> None:
    assert check_token_name(name) == name


@pytest.mark.parametrize("name", ["", "A", "-a", ".a", "_a", "a b", "a/b", "a:b", "é", "a\n", "x" * 65, "a\0"])
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="1 to 64"):
        check_token_name(name)


@pytest.mark.parametrize(("operations", "ceiling"), [
    (["read"], "read"), (["read", "write"], "write"), (["write", "read"], "write"),
    (["read", "write", "destructive"], "destructive"),
])  # fmt: skip
def test_operations_are_a_ceiling(operations: list[str], ceiling: str) -> None:
    assert ceiling_of(operations) == ceiling
    assert sorted(operations_up_to(ceiling_of(operations))) == sorted(operations)


@pytest.mark.parametrize("operations", [
    [], ["write"], ["destructive"], ["read", "destructive"], ["write", "destructive"], ["read", "read"], ["Read"],
    ["all"], ["read", "write", "delete"], [""],
])  # fmt: skip
def test_what_is_no_ceiling_is_refused(operations: list[str]) -> None:
    with pytest.raises(ValueError, match="a ceiling"):
        ceiling_of(operations)


def test_a_rate_is_a_number_of_asks_in_a_second_a_minute_or_an_hour() -> None:
    assert [rate_of(text)[:2] for text in ("5/s", "60/m", "1000/h")] == [(5, 1.0), (60, 60.0), (1000, 3600.0)]
    for wrong in ("", "0/m", "-1/m", "60", "60/d", "60/minute", "6.5/m", "1e3/m", "60/m ", "100001/m", "９/m"):
        with pytest.raises(ValueError, match="60/m"):
            rate_of(wrong)


@pytest.mark.parametrize(("text", "expires"), [
    ("45m", NOW + 45 * 60), ("12h", NOW + 12 * 3600), ("30d", NOW + 30 * 86400), ("2w", NOW + 14 * 86400),
    ("2028-02-29", datetime(2028, 2, 29, tzinfo=UTC).timestamp()),
    ("2027-12-31T23:59:59Z", datetime(2027, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()),
    ("2027-06-01 08:30Z", datetime(2027, 6, 1, 8, 30, tzinfo=UTC).timestamp()),
])  # fmt: skip
def test_an_expiry_is_a_span_or_a_date(text: str, expires: float) -> None:
    assert expiry_of(text, NOW) == expires


def test_every_day_of_the_calendar_is_counted_right() -> None:
    for day in range(20_835, 24_400, 7):
        date = datetime.fromtimestamp(day * 86400, UTC)
        assert expiry_of(date.strftime("%Y-%m-%d"), NOW) == day * 86400


@pytest.mark.parametrize("text", [
    "", "30", "d", "0d", "-1d", "30 d", "2027-02-29", "2027-13-01", "2027-00-10", "2027-01-32", "2027-04-31",
    "2027-01-01T24:00Z", "2027-01-01T10:00", "2027-1-1", "tomorrow", "2020-01-01", "999999d", "9999-01-01", "inf",
])  # fmt: skip
def test_what_is_no_moment_to_come_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        expiry_of(text, NOW)


def test_a_grace_is_bounded() -> None:
    assert [grace_of(text) for text in ("0", "30m", "24h", "30d")] == [0, 1800, 86400, 30 * 86400]
    for wrong in ("", "31d", "1", "-1h", "forever"):
        with pytest.raises(ValueError, match="30 days"):
            grace_of(wrong)


def test_lists_say_something_or_are_left_out() -> None:
    assert server_list(["a", " b ", "a"]) == ("a", "b")
    for wrong in ([], [""], ["a", ""], ["x" * 129], [str(each) for each in range(201)]):
        with pytest.raises(ValueError, match="servers"):
            server_list(wrong)
    assert tool_list(["github:*", "get_*"]) == ("github:*", "get_*")
    for wrong in ([], [":x"], ["x:"], ["  "]):
        with pytest.raises(ValueError):
            tool_list(wrong)


def test_what_is_kept_is_what_was_said() -> None:
    terms = TokenTerms(("a",), ("a:get_*",), "write", "frontend", NOW, rate_of("60/m"), "for CI")
    assert TokenTerms.from_json(terms.as_json()) == terms
    assert terms.scope() == Scope(servers=(("a",),), tools=(("a:get_*",),), ceiling="write")
    assert TokenTerms.from_json(TokenTerms().as_json()) == TokenTerms()
    assert TokenTerms().scope() is None, "nothing is restricted"
