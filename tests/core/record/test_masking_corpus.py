"""How well masking tells secrets from what only looks like one, on the labelled corpus (ACT-9).

The floors lie a little under what `python -m tests.bench.masking` reports: they hold what was reached.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from mcpproxy_py.core.record.masking import PLAIN
from mcpproxy_py.gateway.masker import MASKER
from tests.core.corpus import HALVES, samples, score

pytestmark = pytest.mark.proves("ACT-9")
FLOORS = {"tuned": (0.99, 0.99), "held out": (0.95, 0.90)}
"""Precision and recall."""


def test_the_corpus_is_large_and_both_halves_have_every_kind() -> None:
    rows = samples()
    assert Counter(row.secret for row in rows)[True] >= 200
    assert Counter(row.secret for row in rows)[False] >= 200
    kinds = [{(row.kind, row.secret) for row in rows if row.half == half} for half in HALVES]
    assert kinds[0] == kinds[1]
    texts = [json.dumps(row.value) for row in rows]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("half", HALVES)
def test_secrets_are_found_and_the_rest_stays(half: str) -> None:
    found = score([row for row in samples() if row.half == half], MASKER.mask)
    precision, recall = FLOORS[half]
    assert found.precision >= precision, found
    assert found.recall >= recall, found


def test_the_quick_first_look_changes_nothing_about_what_is_found() -> None:
    for row in samples():
        assert MASKER.mask(row.value) == PLAIN.mask(row.value), row.value
        text, size = MASKER.payload(row.value, 100_000)
        assert json.loads(text) == PLAIN.mask(row.value)
        assert size == len(json.dumps(row.value, ensure_ascii=False, separators=(",", ":")).encode())


def test_masking_what_is_masked_changes_nothing_more() -> None:
    for row in samples():
        once = MASKER.mask(row.value)
        assert MASKER.mask(once) == once
