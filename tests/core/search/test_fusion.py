"""Ranking by words and meaning: what it comes to for each tool, in the order of scoring every one of them."""

from __future__ import annotations

import os
from typing import Any

import pytest

from mcpproxy_py import word_vectors
from mcpproxy_py.core.policy.scope import Scope, narrowed
from mcpproxy_py.core.results.tokens import at_once
from mcpproxy_py.core.search import fusion
from mcpproxy_py.core.search.confidence import SCORES, confidence
from mcpproxy_py.core.search.index import Index, IndexSegment, segment
from mcpproxy_py.core.values import Policy, Server, Snapshot, Tool

pytestmark = [
    pytest.mark.proves("FIND-5"),
    pytest.mark.skipif(not word_vectors.installed() and not os.environ.get("CI"), reason="without the extra"),
]

TOOLS = {
    "web": {"fetch": "Gets the content of a URL", "trace": "Records a performance trace of the page"},
    "mail": {"send_message": "Sends an e-mail to somebody", "list_folders": "The folders of the mailbox"},
    "shop": {"create_refund": "Pays a customer back", "list_orders": "Orders of a customer", "gone": ""},
    "code": {"open_pull_request": "Proposes changes to a repository", "run_tests": "Runs the unit tests"},
}
QUERIES = ["write a letter to my boss", "download a website", "give the money back", "propose my patch", "orders", "?!"]


def tools(server: str) -> list[Tool]:
    return [Tool(server, name, {"name": name, "description": text}, "unknown") for name, text in TOOLS[server].items()]


def given(part: IndexSegment) -> IndexSegment:
    from mcpproxy_py.word_vectors.nearness import ListingVectors, stored

    words = word_vectors.load()
    part.give(ListingVectors.of(words, [stored(words.embed(fusion.meaning_of(each))) for each in part.tools]))
    return part


def index(*servers: str, meaning: tuple[str, ...] = tuple(TOOLS)) -> Index:
    parts = {name: segment(tools(name)) for name in servers or TOOLS}
    return Index({name: given(part) if name in meaning else part for name, part in parts.items()})


def rows(found: Any) -> list[tuple[str, float]]:
    return [(hit.tool.full_name, hit.score) for hit in found.hits]


def test_meaning_finds_what_no_word_of_the_query_names() -> None:
    words = word_vectors.load()
    assert words is word_vectors.load()
    hit = index().rank("compose a letter", 1).hits[0]
    assert hit.tool.full_name == "mail:send_message"


@pytest.mark.parametrize("query", QUERIES)
def test_the_best_few_are_the_first_of_all(query: str) -> None:
    whole = rows(index().rank(query, 100))
    for limit in (1, 2, 3, 5):
        found = index().rank(query, limit)
        assert rows(found) == whole[:limit]
        assert found.total == len(whole)


@pytest.mark.parametrize("query", QUERIES)
def test_a_score_is_that_of_the_words_and_that_of_the_meaning_as_one(query: str) -> None:
    by_words = dict(rows(index(meaning=()).rank(query, 100)))
    both = index()
    vectors = next(iter(both.segments.values())).vectors
    assert vectors is not None
    near = vectors.nearness(query, [(part.vectors, len(part.tools)) for part in both.segments.values()])
    names = [tool.full_name for part in both.segments.values() for tool in part.tools]
    for name, score in rows(both.rank(query, 100)):
        close = near.closeness([names.index(name)])[0] if near is not None else None
        assert score == pytest.approx(fusion.fused(by_words.get(name, 0.0), close))


def test_without_vectors_the_order_and_the_scores_are_those_of_words() -> None:
    for query in QUERIES:
        plain = index(meaning=())
        assert rows(plain.rank(query, 100)) == rows(Index(plain.segments).rank(query, 100))
        assert not plain.rank(query, 5).by_meaning


def test_a_tool_whose_vector_is_not_there_yet_is_found_by_its_words() -> None:
    half = index(meaning=("web",))
    assert half.rank("refund a customer", 1).hits[0].tool.full_name == "shop:create_refund"
    by_words = dict(rows(index(meaning=()).rank("refund a customer", 5)))
    assert dict(rows(half.rank("refund a customer", 5)))["shop:create_refund"] == by_words["shop:create_refund"]


def test_a_scope_ranks_among_its_own_tools_as_if_there_were_no_others() -> None:
    whole = index()
    servers = {name: Server(name, "connected", {each.name: each for each in tools(name)}) for name in TOOLS}
    view = narrowed(Snapshot(Policy(), servers, whole), Scope(servers=(("shop", "mail"),), tools=(("*_*",),)))
    alone = {name: [each for each in tools(name) if "_" in each.name] for name in ("mail", "shop")}
    apart = Index({name: given(segment(theirs)) for name, theirs in alone.items()})
    for query in QUERIES:
        assert rows(view.index.rank(query, 5)) == rows(apart.rank(query, 5))


def test_the_part_of_a_listing_has_its_vectors_when_the_whole_gets_them() -> None:
    whole = segment(tools("shop"))
    part = at_once(whole.only("some", lambda each: each.name != "create_refund"))
    assert part.vectors is None
    given(whole)
    assert part.vectors is not None
    assert rows(Index({"shop": part}).rank("give the money back", 5))
    assert "shop:create_refund" not in dict(rows(Index({"shop": part}).rank("give the money back", 5)))


@pytest.mark.parametrize("query", ["x" * 4000, "a", "在图书馆里找一本书", "\x00\x01\x1b[0m", "\ud800", " ", "ж" * 1000])
def test_whatever_is_asked_gets_an_answer(query: str) -> None:
    found = index().rank(query, 5)
    assert all(0 <= hit.score <= 1 for hit in found.hits)
    assert len(found.hits) <= found.total


def test_a_description_of_a_megabyte_is_read_by_its_beginning() -> None:
    long = Tool("big", "x", {"name": "x", "description": "Sends an e-mail. " + "word " * 200_000}, "unknown")
    assert len(fusion.meaning_of(long)) < 700
    both = Index({"big": given(segment([long])), "web": given(segment(tools("web")))})
    assert both.rank("send an e-mail", 1).hits[0].tool.full_name == "big:x"


def test_ten_thousand_tools_of_one_name_are_answered_in_the_order_of_their_servers() -> None:
    parts = {
        f"s{number:03}": segment([
            Tool(f"s{number:03}", "send", {"name": "send", "description": "Sends"}, "unknown") for _ in range(100)
        ])
        for number in range(100)
    }  # fmt: skip
    found = Index(parts).rank("send", 5)
    assert found.total == 10_000
    assert [hit.tool.server for hit in found.hits] == ["s000"] * 5


def test_confidence_rises_with_the_score_and_never_with_the_place() -> None:
    for by_meaning in (False, True):
        sure = [confidence(score, 0, by_meaning=by_meaning) for score in (*SCORES, 0.07, 0.33)]
        assert sure[: len(SCORES)] == sorted(sure[: len(SCORES)])
        assert all(0 <= each <= 1 for each in sure)
        for score in SCORES:
            assert confidence(score, 1, by_meaning=by_meaning) <= confidence(score, 0, by_meaning=by_meaning)
