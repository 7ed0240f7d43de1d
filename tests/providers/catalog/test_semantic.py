"""Names by meaning, with the optional extra."""

from __future__ import annotations

import os

import pytest

from mcpproxy_py import word_vectors
from mcpproxy_py.core.catalog.model import Catalog
from mcpproxy_py.core.catalog.resolve import Ambiguous, Term
from mcpproxy_py.providers.catalog import semantic
from mcpproxy_py.providers.catalog.load import load
from tests.bench.catalog_names import accuracy

pytestmark = pytest.mark.proves("CAT-9")

needs_extra = pytest.mark.skipif(
    not word_vectors.installed() and not os.environ.get("CI"),
    reason="needs the extra: pip install 'mcpproxy-py[semantic]'",
)


@pytest.fixture(scope="module")
def both() -> Catalog:
    return load(rank=semantic.ranker)


def test_without_the_extra_the_words_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_vectors, "NEEDED", (*word_vectors.NEEDED, "a_package_that_nobody_has"))
    assert word_vectors.installed() is False
    assert semantic.ranker([Term("Alpha", "x")], {}) is None
    assert load(rank=semantic.ranker).names.resolve("mcp") == load().names.resolve("mcp")


@needs_extra
def test_vectors_that_cannot_be_read_leave_the_words_and_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(word_vectors, "TABLE", word_vectors.TOKENIZER)
    word_vectors.load.cache_clear()
    with caplog.at_level("WARNING"):
        assert semantic.ranker([Term("Alpha", "x")], {}) is None
    assert "wordllama cannot be used" in caplog.text
    word_vectors.load.cache_clear()


@needs_extra
def test_capabilities_of_ones_own_have_meanings_too() -> None:
    terms = [
        Term("Duck Pond", "x", "Feeds birds that swim in water"),
        Term("Ledger", "x", "Adds up money and invoices"),
    ]
    likeness = semantic.ranker(terms, {"cash book": "Ledger"})
    assert likeness is not None
    for query, meant in (("geese on the lake", "Duck Pond"), ("what do we pay our suppliers", "Ledger")):
        found = likeness(query)
        assert max(found, key=found.__getitem__) == meant


@needs_extra
@pytest.mark.parametrize("part", ["tuned", "held out", "after"])
def test_meaning_helps_and_never_takes_away_from_the_words(both: Catalog, part: str) -> None:
    with_meaning, _, misses = accuracy(both.names, part)
    words_alone, _, _ = accuracy(load().names, part)
    assert with_meaning >= words_alone, misses


@needs_extra
def test_a_query_without_a_common_word_is_understood_by_its_meaning(both: Catalog) -> None:
    meant = both.names.resolve("ponder the riddle at greater depth")
    assert isinstance(meant, Ambiguous) and meant.known
    assert meant.candidates[0].term.name == "Extended Thinking"
    assert all(one.confidence <= 0.5 for one in meant.candidates)


@needs_extra
@pytest.mark.parametrize("said", ["", "🦆" * 300, "word " * 1000, "\x00\x01"])
def test_odd_text_has_an_answer_like_any_other(both: Catalog, said: str) -> None:
    assert both.names.resolve(said) == both.names.resolve(said)
