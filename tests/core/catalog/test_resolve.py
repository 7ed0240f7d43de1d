"""From what somebody called a capability to the capability."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.core.catalog.resolve import BANDS, Ambiguous, Found, Names, Term
from mcpproxy_py.providers.catalog.load import load
from tests.bench.catalog_names import accuracy, phrasings

pytestmark = pytest.mark.proves("CAT-2")

NAMES = load().names
DOCUMENTED = {
    "mcp": "MCP Support",
    "model context protocol": "MCP Support",
    "tool integration": "MCP Support",
    "autocomplete": "Code Completion",
    "intellisense": "Code Completion",
    "inline suggestions": "Code Completion",
    "chat": "Chat Assistance",
    "agent": "Agent Mode",
    "agentic": "Agent Mode",
    "sub-agent": "Sub-agents",
    "subagent": "Sub-agents",
}


def found(query: str, names: Names = NAMES) -> Found:
    meant = names.resolve(query)
    assert isinstance(meant, Found), f"{query!r} is ambiguous: {meant.candidates}"
    return meant


def ambiguous(query: str, names: Names = NAMES) -> Ambiguous:
    meant = names.resolve(query)
    assert isinstance(meant, Ambiguous), f"{query!r} is {meant.term.name}"
    return meant


@pytest.mark.parametrize(("said", "meant"), DOCUMENTED.items())
def test_every_documented_alias_is_known(said: str, meant: str) -> None:
    assert found(said).term.name == meant


@pytest.mark.parametrize("term", NAMES.terms, ids=lambda term: term.name)
def test_an_exact_name_is_certain_whatever_its_case_spaces_and_hyphens(term: Term) -> None:
    for said in (term.name, term.name.upper(), f"  {term.name.lower()} ", term.name.replace(" ", "-")):
        meant = found(said)
        assert (meant.term, meant.rung, meant.confidence) == (term, "exact", 1.0)


@pytest.mark.parametrize(
    ("said", "meant"),
    [("MCPs", "MCP Support"), ("lifecycle hook", "Lifecycle Hooks"), ("sub agent", "Sub-agents"),
     ("code-reviews", "Code Review"), ("subagents", "Sub-agents"), ("codecompletion", "Code Completion"),
     ("plug-ins", "Extension System"), ("Model_Context_Protocol", "MCP Support")],
)  # fmt: skip
def test_plurals_hyphens_and_spaces_make_no_difference(said: str, meant: str) -> None:
    assert found(said).term.name == meant


@pytest.mark.parametrize(
    ("said", "meant"),
    [("debuging", "Debugging"), ("autocomplet", "Code Completion"), ("intelisense", "Code Completion"),
     ("vison", "Vision"), ("code reveiw", "Code Review"), ("token cacheing", "Token Caching")],
)  # fmt: skip
def test_a_slip_of_the_finger_is_forgiven(said: str, meant: str) -> None:
    assert found(said).term.name == meant


def test_an_alias_beats_a_substring() -> None:
    """`agent` lies inside Sub-agents, and `chat` inside nothing else but a longer alias."""
    assert (found("agent").term.name, found("agent").rung) == ("Agent Mode", "alias")
    names = Names([Term("Chat Rooms", "x"), Term("Talking", "x")], {"chat": "Talking"})
    assert found("chat", names).term.name == "Talking"


def test_an_exact_name_beats_an_alias() -> None:
    names = Names([Term("Agent", "x"), Term("Agent Mode", "x")], {"agent": "Agent Mode"})
    assert found("AGENT", names).term.name == "Agent"


def test_a_substring_of_one_name_is_that_name_and_of_several_is_ambiguous() -> None:
    assert found("context inspector").term.name == "Prompt and Context Inspector"
    names = Names([Term("Code Review", "x"), Term("Code Search", "x"), Term("Chat", "x")], {})
    assert found("revi", names).term.name == "Code Review"
    assert [one.term.name for one in ambiguous("code", names).candidates[:2]] == ["Code Review", "Code Search"]


def test_a_description_is_searched_where_no_name_holds_the_query() -> None:
    names = Names([Term("Alpha", "x", "Paints the shed green"), Term("Beta", "x", "Feeds the cat")], {})
    assert (found("shed green", names).term.name, found("shed green", names).rung) == ("Alpha", "substring")


def test_an_ambiguous_query_gives_three_with_comparable_confidences() -> None:
    rows = ambiguous("code").candidates
    assert len(rows) == 3
    confidences = [row.confidence for row in rows]
    assert confidences == sorted(confidences, reverse=True)
    assert all(0 <= confidence <= 1 for confidence in confidences)


@pytest.mark.parametrize("said", ["zzzz qqqq", "", "   ", "🦆", "\x00", "a" * 100_000])
def test_nothing_known_gives_the_nearest_three_and_says_so(said: str) -> None:
    meant = ambiguous(said)
    assert len(meant.candidates) == 3
    assert meant.known is False
    assert all(row.confidence <= BANDS["words"][1] for row in meant.candidates)


def test_the_bands_of_the_rungs_follow_each_other_without_overlap() -> None:
    bands = list(BANDS.values())
    for (low, high), (_, below) in pairwise(bands):
        assert low <= high
        assert below < low
    assert (bands[0][1], bands[-1][0]) == (1.0, 0.0)


ORDER = list(BANDS)


def test_no_rung_ever_scores_below_a_lower_one() -> None:
    """Over everything that people say: an exact name never below an alias, an alias never below a substring."""
    scores: dict[str, list[float]] = {rung: [] for rung in ORDER}
    said = [phrasing.said for phrasing in phrasings()] + list(DOCUMENTED) + [term.name for term in NAMES.terms]
    for query in said:
        meant = NAMES.resolve(query)
        for one in [meant] if isinstance(meant, Found) else meant.candidates:
            scores[one.rung].append(one.confidence)
    for higher, lower in pairwise(ORDER):
        assert min(scores[higher], default=1.0) > max(scores[lower], default=0.0)


@given(st.text(max_size=60))
def test_any_text_has_an_answer_and_always_the_same(text: str) -> None:
    meant = NAMES.resolve(text)
    assert meant == NAMES.resolve(text)
    confidences = [meant.confidence] if isinstance(meant, Found) else [one.confidence for one in meant.candidates]
    assert all(0 <= confidence <= 1 for confidence in confidences)


@pytest.mark.proves("CAT-9")
def test_a_semantic_ranker_joins_the_words_and_no_other_rung() -> None:
    terms = [Term("Alpha", "x"), Term("Beta", "x")]
    names = Names(terms, {"first": "Alpha"}, similar=lambda query: {"Beta": 0.9, "Alpha": 0.1, "Gone": 1.0})
    assert found("first", names).term.name == "Alpha"
    rows = ambiguous("something else", names).candidates
    assert [one.term.name for one in rows] == ["Beta", "Alpha"]
    assert all(one.confidence <= BANDS["words"][1] for one in rows)


@pytest.mark.parametrize("part", ["tuned", "held out"])
def test_the_first_choice_is_right_nine_times_of_ten(part: str) -> None:
    share, count, misses = accuracy(NAMES, part)
    assert count >= 60
    assert share >= 0.90, misses
