"""Names by meaning, with the optional extra."""

from __future__ import annotations

import os

import pytest

from mcpproxy_py.core.catalog.model import Catalog
from mcpproxy_py.core.catalog.resolve import Ambiguous, Term
from mcpproxy_py.providers.catalog import semantic
from mcpproxy_py.providers.catalog.load import load
from tests.bench.catalog_names import accuracy

pytestmark = pytest.mark.proves("CAT-9")

needs_extra = pytest.mark.skipif(
    not semantic.installed() and not os.environ.get("CI"), reason="needs the extra: pip install 'mcpproxy-py[semantic]'"
)


@pytest.fixture(scope="module")
def both() -> Catalog:
    return load(rank=semantic.ranker)


def test_the_shipped_vectors_are_those_of_the_shipped_capabilities() -> None:
    """Where this fails, run `python -m tests.bench.semantic_model`."""
    assert semantic.vectors_fit(load().names.terms)


def test_capabilities_of_ones_own_are_left_to_the_words() -> None:
    assert semantic.ranker([Term("Alpha", "x")]) is None


def test_without_the_extra_the_words_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(semantic, "NEEDED", (*semantic.NEEDED, "a_package_that_nobody_has"))
    assert semantic.installed() is False
    assert load(rank=semantic.ranker).names.resolve("mcp") == load().names.resolve("mcp")


@needs_extra
def test_the_embedder_gives_the_vectors_that_the_model_is_known_for() -> None:
    """The first numbers of "hello world" by the model's own library."""
    vector = semantic.Embedder()("hello world")
    assert vector.shape == (384,)
    assert [round(float(number), 4) for number in vector[:4]] == [-0.0345, 0.031, 0.0067, 0.0261]
    assert float(vector @ vector) == pytest.approx(1.0, abs=1e-5)


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
