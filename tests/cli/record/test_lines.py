"""One ask is one line, whatever is in it and however wide the terminal is (USE-6)."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from mcpproxy_py.cli.record import lines as record_lines
from mcpproxy_py.cli.record.facts import SIGNS, failure, intent_of, reason, refused_by, subject
from mcpproxy_py.cli.record.lines import cut, fit, print_lines, streamed_line
from mcpproxy_py.core.values import Status

pytestmark = pytest.mark.proves("USE-6")

NOW = datetime(2026, 11, 19, 14, 30, 12, tzinfo=UTC)
RECORD: dict[str, Any] = {
    "id": "01a1f436-26c0-7001-bbab-a19d2f2a8426", "type": "tool_call", "server": "github", "tool": "delete_repo",
    "status": "blocked", "error": {"code": "SERVER_MISMATCH", "message": "marked destructive"}, "duration_ms": 0.125,
    "timestamp": "2026-11-19T14:00:00.000000Z", "client": {"name": "cursor", "version": "1"}, "arguments": {},
    "metadata": {"intent": {"operation_type": "read", "reason": "tidy"}, "refused_by": "class"},
}  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=8), inner, max_size=2),
    max_leaves=4,
)
wild = st.fixed_dictionaries(
    {},
    optional={key: anything | st.text() for key in (*RECORD, "surface")} | {"status": st.sampled_from([*SIGNS, "new"])},
)
awkward = st.text(st.sampled_from("a日🎉e\u0301\u200d\ufe0f❤\x1b[31m\n\t\x07\u202eｱ가👩🏽"), max_size=60)


def printed(rows: list[dict[str, Any]], width: int) -> list[str]:
    file = io.StringIO()
    print_lines(rows, NOW, Console(file=file, width=width, force_terminal=False))
    return file.getvalue().splitlines()


@given(st.lists(wild, min_size=1, max_size=4), st.integers(20, 200))
def test_whatever_a_record_holds_it_is_one_line_that_fits(rows: list[dict[str, Any]], width: int) -> None:
    shown = printed(rows, width)
    assert len(shown) == 1 + len(rows)
    assert max(map(cell_len, shown)) <= width


@given(awkward, awkward, st.sampled_from(list(SIGNS)), st.integers(40, 160))
def test_wide_and_hostile_text_is_counted_and_cleaned(tool: str, why: str, status: str, width: int) -> None:
    row = {**RECORD, "tool": tool, "status": status,
           "metadata": {"intent": {"operation_type": "read", "reason": why}}, "error": {"message": why}}  # fmt: skip
    _, line = printed([row], width)
    assert cell_len(line) <= width
    assert all(character.isprintable() for character in line)
    assert cell_len(streamed_line(row, NOW, width).plain) <= width


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_a_refusal_says_what_refused_and_beside_it_what_the_agent_said(width: int) -> None:
    _, line = printed([RECORD], width)
    assert "⊘" in line
    assert "by class · tidy" in line
    assert "github:delete_repo" in line


def test_every_status_has_a_sign_of_its_own_with_and_without_unicode() -> None:
    assert set(SIGNS) == set(Status.__args__)  # type: ignore[attr-defined]
    assert len({sign.sign for sign in SIGNS.values()}) == len({sign.plain for sign in SIGNS.values()}) == len(SIGNS)
    assert all(cell_len(sign.sign) == 1 and sign.plain.isascii() for sign in SIGNS.values())


def test_a_wide_terminal_shows_more(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cursor" not in printed([RECORD], 80)[1]
    assert "cursor" in printed([RECORD], 120)[1]
    assert "blocked" in printed([RECORD], record_lines.WIDEST)[1]


def test_what_is_missing_is_marked() -> None:
    assert (cut("abcdef", 4), fit("ab", 4), fit("日本語", 4), cut("日本語", 3)) == ("abc…", "ab  ", "日… ", "日…")
    assert (cut("abc", 0), cut("abc", 1)) == ("", "…")


def test_what_was_asked_for_is_named_by_what_it_is() -> None:
    assert subject(RECORD) == "github:delete_repo"
    assert subject({"type": "config_change", "server": "git", "tool": "add_server"}) == "add_server git"
    assert subject({"type": "tool_call", "server": None, "tool": "call_tool_read"}) == "call_tool_read"
    assert reason({"type": "tool_search", "arguments": {"query": "issues"}}) == "issues"
    assert (refused_by(RECORD), failure(RECORD), intent_of(RECORD)) == ("class", "", "read")
    assert refused_by({"status": "blocked", "metadata": {"decision": {"rule": "freeze"}}}) == "freeze"
    assert (refused_by({"status": "success"}), failure({"status": "error", "error": {"code": "E"}})) == (None, "E")
