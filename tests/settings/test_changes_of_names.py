"""What a change of lists and overrides loosens, where names are compared in normal form and entries are globs: nothing
that was refused or classed higher may come back unsaid (UP-8, GATE-16)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.core.policy.tool_names import NameSet, ToolLists
from mcpproxy_py.core.values import RANK
from mcpproxy_py.settings.changes import compared
from mcpproxy_py.settings.models import Settings

pytestmark = pytest.mark.proves("UP-8", "GATE-16")
PIECES = st.sampled_from(["a", "b", "A", "_", "*", "?", "[ab]", "[!a]"])
ENTRIES = st.lists(PIECES, min_size=1, max_size=4).map("".join)
LISTS = st.lists(ENTRIES, max_size=3)
NAMES = st.text("abAB_", min_size=1, max_size=4)
CLASSES = st.dictionaries(ENTRIES, st.sampled_from(["read", "write", "destructive"]), max_size=3)
L, T, N, B = {"looser"}, {"tighter"}, set[str](), {"looser", "tighter"}


def directions(key: str, was: Any, now: Any) -> set[str]:
    before, after = (
        Settings.model_validate({"mcpServers": {"s": {"command": "x", key: value}}}) for value in (was, now)
    )
    return {change.direction for change in compared(before, after)}


@pytest.mark.parametrize(
    ("key", "was", "now", "expected"),
    [
        ("deny_tools", ["purge"], ["purge*"], T),
        ("deny_tools", ["purge*"], ["purge"], L),
        ("deny_tools", ["purge"], ["PURGE "], N),
        ("deny_tools", ["purge", "drop"], ["*"], T),
        ("deny_tools", ["*"], ["purge", "drop"], L),
        ("deny_tools", ["drop_*"], ["drop_?"], L),
        ("deny_tools", ["drop_*"], ["*_x"], B),
        ("deny_tools", ["a[bc]"], ["a?"], B),  # a tool may be called just like the glob
        ("deny_tools", ["a[bc]"], ["a*"], T),
        ("allow_tools", ["get"], ["get*"], L),
        ("allow_tools", ["get*"], ["get"], T),
        ("allow_tools", ["get"], ["Get"], N),
        ("allow_tools", ["get_*"], ["get_a", "get_b"], T),
        ("allow_tools", None, ["*"], T),
        ("allow_tools", ["*"], None, L),
        ("allow_tools", ["a*"], ["*a"], B),
        ("tools", {"purge": "destructive"}, {"purge*": "destructive"}, T),
        ("tools", {"purge*": "destructive"}, {"purge": "destructive"}, L),
        ("tools", {"*": "destructive"}, {"*": "destructive", "get": "read"}, L),
        ("tools", {"*": "read"}, {"*": "read", "get": "destructive"}, T),
        ("tools", {"*": "destructive", "get": "read"}, {"*": "destructive"}, T),
        ("tools", {"*": "write"}, {"*": "write", "get": "write"}, N),
        ("tools", {"purge": "destructive"}, {"Purge": "destructive"}, N),
        ("tools", {"a*": "read", "*b": "destructive"}, {"a*": "read"}, L),
        ("tools", {"tool_1": "read"}, {"tool_1": "read", "tool_l": "destructive"}, B),
    ],
)
def test_globs_are_compared_by_what_they_mean(key: str, was: Any, now: Any, expected: set[str]) -> None:
    assert directions(key, was, now) == expected


@given(LISTS, LISTS, NAMES)
def test_what_is_not_denied_any_more_is_said(was: list[str], now: list[str], name: str) -> None:
    if NameSet(was).matches(name.lower()) and not NameSet(now).matches(name.lower()):
        assert "looser" in directions("deny_tools", was, now)


@given(st.none() | LISTS, st.none() | LISTS, NAMES)
def test_what_is_allowed_now_is_said(was: list[str] | None, now: list[str] | None, name: str) -> None:
    if ToolLists(was, []).forbids(name) and not ToolLists(now, []).forbids(name):
        assert "looser" in directions("allow_tools", was, now)


@given(CLASSES, CLASSES, NAMES)
def test_what_is_classed_lower_is_said(was: dict[str, Any], now: dict[str, Any], name: str) -> None:
    before, after = (
        max((RANK[classes[key]] for key in NameSet(classes).closest(name)), default=-1) for classes in (was, now)
    )
    if after < before and before > 0:
        assert "looser" in directions("tools", was, now)
    if before < 0 <= after < 2:
        assert "looser" in directions("tools", was, now), "its server may have said that it is destructive"
