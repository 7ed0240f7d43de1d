from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpproxy_py.core.search.index import MOST_PARTS, PARTS, QUERY_TERMS, Index, ToolFilter, segment
from mcpproxy_py.core.search.packed_lanes import TOP
from mcpproxy_py.core.search.segments import PEAK
from mcpproxy_py.core.values import Tool

EVERYTHING = 1_000_000


def tool(name: str, description: Any = "", server: str = "s", parameters: Sequence[str] = (), **wire: Any) -> Tool:
    schema = {"type": "object", "properties": {key: {"type": "string"} for key in parameters}}
    return Tool(server, name, {"name": name, "description": description, "inputSchema": schema, **wire}, "unknown")


def index(*tools: Tool) -> Index:
    servers: dict[str, list[Tool]] = {}
    for each in tools:
        servers.setdefault(each.server, []).append(each)
    return Index({server: segment(theirs) for server, theirs in servers.items()})


def names(found: Index, query: str, limit: int = 50) -> list[str]:
    return [hit.tool.full_name for hit in found.rank(query, limit).hits]


OTHERS = [tool(f"other_{word}", f"Does {word} things") for word in ("alpha", "beta", "gamma", "delta", "epsilon")]


@pytest.mark.proves("FIND-3")
@pytest.mark.parametrize("written", ["create_issue", "createIssue", "CreateIssue", "create-issue"])
@pytest.mark.parametrize("query", ["creating issues", "create_issue", "createIssue", "new issue created"])
def test_however_a_name_is_written_a_query_finds_it(written: str, query: str) -> None:
    assert names(index(tool(written), *OTHERS), query)[0] == f"s:{written}"


@pytest.mark.proves("FIND-3")
def test_a_name_counts_more_than_a_description_and_that_more_than_a_parameter() -> None:
    found = index(
        tool("one", "Handles the invoice"), tool("two", "Handles it", parameters=["invoice"]), tool("invoice"), *OTHERS
    )
    assert names(found, "invoice") == ["s:invoice", "s:one", "s:two"]


def test_the_server_a_query_names_decides_between_equals() -> None:
    found = index(tool("list_issues", server="linear"), tool("list_issues", server="github"), *OTHERS)
    assert names(found, "list issues in linear")[0] == "linear:list_issues"
    assert names(found, "list issues on GitHub")[0] == "github:list_issues"


def test_a_rare_word_says_more_than_a_common_one() -> None:
    common = [tool(f"tool{number}", "file") for number in range(20)]
    assert names(index(*common, tool("z", "quota")), "file quota")[0] == "s:z"


def test_everyday_verbs_find_each_other_but_the_very_word_wins() -> None:
    found = index(tool("delete_note"), tool("remove_note"), *OTHERS)
    assert names(found, "remove note")[:2] == ["s:remove_note", "s:delete_note"]


@pytest.mark.proves("FIND-3")
def test_ties_are_broken_by_name_whatever_the_order_of_servers() -> None:
    tools = [tool("read_note", server=server) for server in ("c", "a", "b")]
    for order in (tools, tools[::-1]):
        assert names(index(*order), "read note") == ["a:read_note", "b:read_note", "c:read_note"]
        assert names(index(*order), "read note", limit=2) == ["a:read_note", "b:read_note"]


@pytest.mark.parametrize("query", ["", "   ", "?!", "florble wug", "what florble", "is wug.py", "\x00", "the of and"])
def test_a_query_that_says_nothing_known_finds_nothing(query: str) -> None:
    ranking = index(tool("show_file", "Shows a file"), *OTHERS).rank(query, 5)
    assert (ranking.hits, ranking.total) == ((), 0)


def test_an_index_without_tools_finds_nothing() -> None:
    assert Index({}).rank("anything", 5).total == 0
    assert Index({"empty": segment([])}).rank("anything", 5).total == 0


def test_no_room_for_hits_still_counts_the_matches() -> None:
    ranking = index(tool("read_note"), tool("read_file")).rank("read", 0)
    assert (ranking.hits, ranking.total) == ((), 2)


def test_a_word_that_no_tool_has_lowers_the_score_but_not_the_order() -> None:
    found = index(tool("read_note"), tool("note"), *OTHERS)
    full, half = found.rank("read note", 5), found.rank("read note florble", 5)
    assert [hit.tool.name for hit in full.hits] == [hit.tool.name for hit in half.hits]
    assert all(less.score < more.score for less, more in zip(half.hits, full.hits, strict=True))


@pytest.mark.proves("FIND-2")
def test_a_filter_applies_before_the_cut() -> None:
    good = [tool(f"issue{number}", "issue") for number in range(10)]
    poor = tool("zz", "An issue is mentioned in a long text about many other things and what they do", server="t")
    found = index(*good, poor)
    ranking = found.rank("issue", 1, found.mask(lambda server: server == "t"))
    assert [hit.tool.name for hit in ranking.hits] == ["zz"]
    assert ranking.total == 1


@pytest.mark.proves("PERF-4")
def test_a_refresh_of_one_server_keeps_the_segments_of_the_others() -> None:
    old = index(tool("a", "note", "one"), tool("b", "note", "two"), tool("c", "note", "three"))
    fresh = segment([tool("d", "note", "two")])
    new = old.with_segment("two", fresh)
    assert new.segments["one"] is old.segments["one"] and new.segments["three"] is old.segments["three"]
    assert names(new, "note") == ["one:a", "three:c", "two:d"]
    assert names(old, "note") == ["one:a", "three:c", "two:b"]


def test_a_server_that_goes_takes_its_words_along() -> None:
    found = index(tool("a", "quota", "one"), tool("b", "note", "two")).with_segment("one", None)
    assert found.rank("quota", 5).total == 0
    assert "one" not in found.segments
    assert found.with_segment("never-there", None).rank("note", 5).total == 1


NOISE: list[Any] = [None, 0, 1.5, True, [], ["x"], {}, {"x": "y"}, {1: 2}, "text", "\ud800", "\x00" * 50]


@pytest.mark.parametrize("noise", NOISE, ids=repr)
@pytest.mark.parametrize("key", ["title", "description", "inputSchema", "annotations", "name"])
def test_a_listing_of_the_wrong_types_is_indexed_by_what_is_left(key: str, noise: Any) -> None:
    hostile = Tool("s", "read_note", {"name": "read_note", "description": "d", key: noise}, "unknown")
    assert names(index(hostile), "note") == ["s:read_note"]
    nested = Tool("s", "read_note", {"inputSchema": {"properties": noise}, "annotations": {"title": noise}}, "unknown")
    assert names(index(nested), "note") == ["s:read_note"]


def test_a_huge_description_is_indexed_by_its_beginning() -> None:
    found = index(tool("x", "quota " + "filler " * 200_000 + "invoice"), *OTHERS)
    assert names(found, "quota") == ["s:x"]
    assert names(found, "invoice") == []


def test_a_schema_of_endless_depth_or_width_is_no_burden() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"type": "object", "properties": {"child": deep}}
    wide = {"properties": {f"quota{number}": {} for number in range(100_000)}}
    found = index(tool("x", inputSchema=deep), tool("y", inputSchema=wide))
    assert names(found, "child") == ["s:x"]
    assert len(found.segments["s"].impacts) < 500


def test_a_huge_query_is_answered_from_its_beginning() -> None:
    found = index(tool("read_note"), *OTHERS)
    assert names(found, "note " + "word " * 500_000) == ["s:read_note"]


WORDS = ["read", "note", "issue", "delete", "file", "list", "user", "mail", "create", "quota"]
texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
tools = st.builds(
    tool,
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map("_".join),
    texts,
    st.sampled_from(["one", "two", "three", "four"]),
    st.lists(st.sampled_from(WORDS), max_size=3),
)
listings = st.lists(tools, max_size=40, unique_by=lambda each: each.full_name)


@given(listings, texts, st.integers(1, 12))
def test_scores_are_shares_that_never_rise_and_the_total_is_consistent(given: list[Tool], query: str, n: int) -> None:
    ranking = index(*given).rank(query, n)
    scores = [hit.score for hit in ranking.hits]
    assert all(0 < score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == min(n, ranking.total)
    assert ranking.total <= len(given)


@given(listings, texts, st.integers(1, 12))
def test_a_short_list_is_the_beginning_of_the_long_one(given: list[Tool], query: str, n: int) -> None:
    """Leaving tools out early, which only a small limit does, must not change what is found."""
    found = index(*given)
    everything = found.rank(query, EVERYTHING)
    assert found.rank(query, n).hits == everything.hits[:n]
    assert everything.total == len(everything.hits)


@given(listings, texts, st.integers(1, 12), st.sampled_from(WORDS))
def test_filtering_first_equals_filtering_everything_afterwards(
    given: list[Tool], query: str, n: int, word: str
) -> None:
    found = index(*given)
    kept = tuple(hit for hit in found.rank(query, EVERYTHING).hits if word in hit.tool.name)
    ranking = found.rank(query, n, found.mask(lambda _: ToolFilter(word, lambda each: word in each.name)))
    assert ranking.hits == kept[:n]
    assert ranking.total == len(kept)


@pytest.mark.proves("PERF-4")
def test_the_longest_query_of_the_rarest_words_stays_within_what_a_bound_can_hold() -> None:
    tools = [tool(f"zq{number:05}", server=f"s{number % 7}") for number in range(3_000)]
    found = index(*tools)
    query = " ".join(each.name for each in tools[: QUERY_TERMS + 5]) + " what is 3pm $5 a@b #x AB-1 a.py www.x.com"
    asked = found._asked(query)
    assert QUERY_TERMS < len(asked) <= MOST_PARTS
    assert sum(part.most for part in asked) <= TOP
    steps = (found._steps * PEAK * found._rarity(1) + 1) * MOST_PARTS
    assert steps <= TOP, "whatever the query"


@given(listings, texts, st.randoms(use_true_random=False))
def test_the_order_of_servers_and_tools_changes_nothing(given: list[Tool], query: str, chance: Any) -> None:
    shuffled = list(given)
    chance.shuffle(shuffled)
    assert index(*given).rank(query, 5) == index(*shuffled).rank(query, 5)


@settings(max_examples=50)
@given(listings, listings, texts)
def test_replacing_segments_one_by_one_equals_building_anew(before: list[Tool], after: list[Tool], query: str) -> None:
    old, new = index(*before), index(*after)
    for server in {*old.segments, *new.segments}:
        old.rank(query, 3)
        old = old.with_segment(server, new.segments.get(server))
    assert old.rank(query, 5) == new.rank(query, 5)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
keys = st.sampled_from(["title", "description", "inputSchema", "annotations", "name", "properties"])


@given(st.dictionaries(keys, json_values), st.text(max_size=40))
def test_no_listing_and_no_query_can_break_the_index(wire: Mapping[str, Any], query: str) -> None:
    ranking = index(Tool("s", "x", wire, "unknown")).rank(query, 5)
    assert ranking.total == len(ranking.hits) <= 1


def test_synonyms_and_phrases_find_what_shares_no_word_with_them() -> None:
    found = index(tool("create_refund"), tool("list_pods"), tool("reset_changes"), *OTHERS)
    assert names(found, "give them their money back")[0] == "s:create_refund"
    assert names(found, "which containers are there")[0] == "s:list_pods"
    assert names(found, "undo it")[0] == "s:reset_changes"


def test_the_very_word_outweighs_any_number_of_its_synonyms() -> None:
    found = index(tool("erase_note", "Remove, drop, purge, discard or wipe a note"), tool("delete_note"), *OTHERS)
    assert names(found, "delete note")[0] == "s:delete_note"


def test_a_misspelled_or_unfinished_word_still_finds_its_tool_and_counts_less() -> None:
    found = index(tool("list_wallpapers"), *OTHERS)
    assert names(found, "walpapers") == names(found, "wallpa") == ["s:list_wallpapers"]
    assert found.rank("walpapers", 5).hits[0].score < found.rank("wallpapers", 5).hits[0].score


def test_two_words_find_the_name_that_writes_them_as_one() -> None:
    assert names(index(tool("set_wallpaper"), *OTHERS), "wall paper") == ["s:set_wallpaper"]


def test_a_word_of_the_same_trade_finds_something_when_nothing_better_is_known() -> None:
    assert names(index(tool("list_commits"), *OTHERS), "rebase") == ["s:list_commits"]


def test_an_index_does_not_remember_every_word_it_was_ever_asked() -> None:
    found = index(tool("read_note"), *OTHERS)
    before = found.rank("read note", 5)
    for number in range(200):
        found.rank(" ".join(f"florble{number}x{part}" for part in range(40)), 5)
    assert len(found._parts) <= PARTS
    assert found.rank("read note", 5) == before
