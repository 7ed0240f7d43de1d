"""Every input that the fuzzer kept, and every one that ever broke something, still holds."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from mcpproxy_py import jsonrpc
from tests.fuzz.engine import CORPUS, Fuzzer, Target, bounded, corpus_of
from tests.fuzz.targets import TARGETS

pytestmark = pytest.mark.proves("SEC-5")
NAMES = pytest.mark.parametrize("name", TARGETS)


@NAMES
def test_the_invariants_of_a_target_hold_for_its_whole_corpus(name: str) -> None:
    target = TARGETS[name]
    for kind, data in corpus_of(target):
        try:
            with bounded(60):
                target.check(data)
        except Exception as error:
            raise AssertionError(f"{name}: {kind} {data[:500]!r}") from error


def test_the_fuzzer_finds_a_fault_that_was_planted() -> None:
    def check(data: bytes) -> bool:
        with suppress(ValueError):
            value = json.loads(data)
            assert not (isinstance(value, dict) and value.get("limit") == -1)
            return True
        return False

    target = Target("planted", check, seeds=(b'{"limit": 10, "name": "x"}',), words=(b"limit",), is_json=True)
    tally = Fuzzer(target, seed=1).run(turns=20)
    assert len(tally.crashes) == 1


def test_the_fuzzer_keeps_what_reaches_new_lines() -> None:
    """And only that: the corpus grows with what is seen, not with what is tried."""
    target = Target("lines", lambda data: jsonrpc.is_id(data.decode("latin-1")), seeds=(b"x",))
    tally = Fuzzer(target, seed=1).run(turns=2)
    assert tally.executions > 500
    assert 0 < tally.lines < 50
    assert len(tally.fresh) < 10


def test_every_file_of_the_corpus_is_a_targets_and_of_one_shape() -> None:
    for path in CORPUS.iterdir():
        assert path.stem in TARGETS, f"nobody reads {path}"
        lines = path.read_text("utf-8").splitlines()
        assert lines == sorted(set(lines)), f"{path} is not sorted, or says something twice"
        assert all(json.loads(line)[0] in ("found", "crash") for line in lines)
