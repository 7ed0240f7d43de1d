"""How names are compared, and what globs mean (GATE-16)."""

from __future__ import annotations

import subprocess
import sys
from fnmatch import fnmatchcase

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mcpproxy_py.core.policy.confusables import ALIKE, ascii_look, mixes_scripts, similar
from mcpproxy_py.core.policy.tool_class import class_of
from mcpproxy_py.core.policy.tool_names import (
    MAX_STEPS,
    GlobAutomaton,
    NamePattern,
    NameSet,
    ToolLists,
    ambiguous,
    in_both,
    normal_form,
)
from mcpproxy_py.core.values import RANK, Override, Server, Tool

pytestmark = pytest.mark.proves("GATE-16")

FEW = st.text("ab_1", max_size=6)
PIECES = st.sampled_from(["a", "b", "_", "1", "*", "?", "[ab]", "[!a]", "[!b1]", "[a-b]"])
GLOBS = st.lists(PIECES, max_size=6).map("".join)


@given(st.text())
def test_the_normal_form_of_a_normal_form_is_itself(name: str) -> None:
    assert normal_form(normal_form(name)) == normal_form(name)


@given(st.text(st.characters(codec="ascii", min_codepoint=33, max_codepoint=126)))
def test_of_plain_names_only_the_case_is_dropped(name: str) -> None:
    assert normal_form(name) == name.lower()
    assert similar(name) == name


@given(GLOBS, FEW)
def test_a_glob_means_what_a_shell_means_by_it(glob: str, name: str) -> None:
    assert NamePattern(glob).matches(name) == (fnmatchcase(name, glob) or name == glob)


@given(st.lists(GLOBS, max_size=4), st.lists(FEW, max_size=8))
def test_a_list_matches_what_one_of_its_globs_matches(globs: list[str], names: list[str]) -> None:
    together, each = NameSet(globs), [NamePattern(glob) for glob in globs]
    assert [together.matches(name) for name in names] == [any(one.matches(name) for one in each) for name in names]


def test_however_many_globs_a_list_has_a_known_name_is_matched_by_looking_up_its_characters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = NameSet([f"*x{number}*" for number in range(500)])
    assert [names.matches(f"page_x{number}") for number in (7, 499, 500)] == [True, True, True]
    assert not names.matches("page_y7")
    monkeypatch.setattr(GlobAutomaton, "_step", None)
    assert names.matches("page_x7") and not names.matches("page_y7")


def test_what_a_list_keeps_of_names_is_bounded_and_forgotten_in_time() -> None:
    names = NameSet(["*a?b*", "z*"])
    for number in range(3 * MAX_STEPS):
        assert names.matches(f"{chr(0x4E00 + number % 20_000)}{number}a{number % 10}b")
        assert not names.matches(f"{number}a{number}")
    assert names.matches("z") and not names.matches("yz")


@given(GLOBS, GLOBS, FEW)
def test_what_covers_an_entry_means_all_that_it_means(wide: str, narrow: str, name: str) -> None:
    if NamePattern(wide).covers(NamePattern(narrow)) and NamePattern(narrow).matches(name):
        assert NamePattern(wide).matches(name)


@given(st.lists(GLOBS, max_size=3), st.lists(GLOBS, max_size=3), FEW)
def test_what_is_in_both_lists_is_in_each(one: list[str], other: list[str], name: str) -> None:
    if NameSet(in_both(one, other)).matches(name):
        assert NameSet(one).matches(name) and NameSet(other).matches(name)


@given(st.lists(GLOBS, min_size=1, max_size=3), st.lists(GLOBS, max_size=3), FEW)
def test_a_denied_name_is_never_let_through_and_one_that_is_not_allowed_neither(
    deny: list[str], allow: list[str], name: str
) -> None:
    lists = ToolLists(allow, deny)
    if NameSet(deny).matches(name) or not NameSet(allow).matches(name):
        assert lists.forbids(name) is not None


@pytest.mark.parametrize("glob", ["a*" * 120 + "b", "*a?" * 80, "*" * 200 + "b", "[!b]*" * 50 + "b", "a?*" * 80 + "z"])
def test_no_name_makes_a_glob_try_every_way(glob: str) -> None:
    """By backtracking these would take longer than the universe has been there. Nothing but its end stops such a
    search, so it is made in a process of its own."""
    search = (
        "import sys; from mcpproxy_py.core.policy.tool_names import NamePattern, compared\n"
        "pattern = NamePattern(sys.argv[1])\n"
        "for name in ('a' * 256, 'ab' * 128, 'b' * 256): pattern.matches(name), pattern.resembles(compared(name))"
    )
    assert subprocess.run([sys.executable, "-c", search, glob], timeout=60).returncode == 0


def test_a_long_name_is_not_looked_at() -> None:
    assert "longer than" in str(ToolLists(None, ["x*"]).forbids("а" * 1_000_000))
    assert ToolLists(None, []).forbids("a" * 1_000_000) is None


@pytest.mark.parametrize("wrong", ["[z-a]", "x[9-0]*", "[ß-a]"])
def test_a_range_that_goes_backwards_is_no_glob(wrong: str) -> None:
    with pytest.raises(ValueError, match="from low to high"):
        NamePattern(wrong)


@pytest.mark.parametrize("name", ["a[b", "get[]", "[", "a]", "what?", "x*y", "get[0]", "[!x"])
def test_a_name_with_the_characters_of_a_glob_means_itself_too(name: str) -> None:
    assert NamePattern(name).matches(name)


def test_no_character_of_the_table_stands_there_twice_or_is_ascii() -> None:
    every = "".join(ALIKE.values())
    assert len(set(every)) == len(every) and not any(map(str.isascii, every))
    assert all(ascii_look(char) == looks for looks, chars in ALIKE.items() for char in chars)


@given(st.text("purge_al1", min_size=1, max_size=12), st.data())
def test_letters_out_of_the_table_do_not_get_past_an_entry(name: str, data: st.DataObject) -> None:
    other = "".join(data.draw(st.sampled_from([char, *ALIKE.get(char, "")])) for char in name)
    assume(normal_form(other) != normal_form(name))
    for lists in (ToolLists(None, [name]), ToolLists([name], []), ToolLists(["*", name], [])):
        assert lists.forbids(other) is not None
    assert ToolLists(None, [f"{name}*"]).forbids(other + "_x") is not None


@pytest.mark.parametrize(
    ("entry", "name", "alike"),
    [
        ("tool_1", "tool_l", True), ("tool_l", "tool_I", True), ("tool_l", "tool_1", True), ("get_0", "get_O", True),
        ("turn", "tum", True), ("www", "vvww", True), ("lint", "1int", True), ("form_*", "f0rm_x", True),
        ("mail", "mai1", True), ("*_v1", "list_vi", False), ("*tail*", "install", False), ("*1*", "list", False),
        ("*corn*", "command", False), ("delete_*", "delet_x", False), ("tool_[0-9]", "tool_l", True),
        ("delete", "delete2", False), ("purge", "prune", False),
    ],
)  # fmt: skip
def test_what_looks_alike_in_ascii(entry: str, name: str, alike: bool) -> None:
    assert (ToolLists(None, [entry]).forbids(name) is not None) == alike


def test_a_name_that_the_operator_allows_by_name_looks_like_no_other() -> None:
    lists = ToolLists(["*", "tool_l"], ["tool_1"])
    assert lists.forbids("tool_l") is None
    assert lists.forbids("tool_I") is not None
    assert lists.forbids("tool_1") is not None


@pytest.mark.parametrize(
    ("name", "mixed"),
    [("purgе", True), ("xγ", True), ("отчёт", False), ("get_отчёт", False), ("get用户", False), ("größe", False),
     ("レポートx", False), ("αб", True), ("purge", False), ("x₁", False)],
)  # fmt: skip
def test_which_words_mix_scripts(name: str, mixed: bool) -> None:
    assert mixes_scripts(name) == mixed


def test_names_that_differ_in_case_are_two_until_an_entry_names_one() -> None:
    assert ambiguous(["Get", "get", "x"], []) == {}
    assert ambiguous(["Get", "get", "x"], ["GET"]).keys() == {"Get", "get"}
    assert ambiguous(["Get", "get", "x"], ["get"]).keys() == {"Get"}
    assert ambiguous(["Get", "get", "x"], ["get", "Get"]).keys() == set()
    assert ambiguous(["get", "gеt", "Get"], []).keys() == {"get", "gеt"}


def test_a_server_says_why_it_does_not_offer_a_tool() -> None:
    tools = {"a": Tool("s", "a", {"name": "a"}, "read", refused="because"), "b": Tool("s", "b", {"name": "b"}, "read")}
    server = Server("s", "connected", tools, deny_tools=("b",))
    assert server.forbids("a") == "because" and "lists exclude it" in (server.forbids("b") or "")
    assert server.offers("c") and not server.offers("B ")


CLASSES = st.sampled_from(["read", "write", "destructive"])
KEYS = st.sampled_from("abc")
ENTRIES = st.lists(st.tuples(CLASSES, KEYS), max_size=3).flatmap(
    lambda first: CLASSES.map(lambda last: [*(Override(one, lambda args, key=key: key in args) for one, key in first),
                                            Override(last)])
)  # fmt: skip


@given(st.lists(ENTRIES, min_size=1, max_size=4), st.dictionaries(KEYS, st.none()))
def test_of_several_overrides_the_highest_class_wins_for_every_call(several: list[list[Override]], args: dict) -> None:
    def tool(*overrides: list[Override]) -> Tool:
        return Tool("s", "t", {"name": "t"}, "read", overrides=tuple(map(tuple, overrides)))

    joined = tool(*several)
    each = [class_of(tool(entries), args)[0] for entries in several]
    assert class_of(joined, args) == (max(each, key=RANK.__getitem__), "override")
    most = [class_of(tool(entries), None)[0] for entries in several]
    assert class_of(joined, None)[0] == max(most, key=RANK.__getitem__)
