"""What an operator adds to what is masked: it works everywhere, and what would be slow or wrong is refused."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import pytest

from mcpproxy_py.core.record.masking import Masker
from mcpproxy_py.gateway.masker import MASKER
from mcpproxy_py.settings import validate_text
from mcpproxy_py.settings.mask_patterns import MaskPatterns

pytestmark = pytest.mark.proves("ACT-9", "CONF-1")


def masker(*patterns: str) -> Masker:
    return replace(MASKER, own=MaskPatterns((f"own-{number}", pattern) for number, pattern in enumerate(patterns)))


def recorded(value: Any, *patterns: str) -> Any:
    return json.loads(masker(*patterns).payload(value, 10_000)[0])


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        (r"\bEMP-\d{6}\b", {"who": "EMP-123456", "n": 1}, {"who": "***own-0***", "n": 1}),
        (r"\bEMP-\d{6}\b", ["see EMP-123456, EMP-654321."], ["see ***own-0***, ***own-0***."]),
        (r"\bEMP-\d{6}\b", {"EMP-123456": {"deep": [[1]]}}, {"***own-0***": {"deep": [[1]]}}),
        (r"case (?P<secret>\w+) is", {"a": "the case K7 is open"}, {"a": "the case ***own-0*** is open"}),
        (r"^internal: .+$", ["internal: x", "not internal: y"], ["***own-0***", "not internal: y"]),
        (r"begin\n.*\nend", {"a": "x\nbegin\nsecret\nend"}, {"a": "x\n***own-0***"}),
        (r'say "[a-z]+"', {"a": 'they say "friend" there'}, {"a": "they ***own-0*** there"}),
        (r"größe \d+", ["Größe 5, größe 6"], ["Größe 5, ***own-0***"]),
        (r"C:\\keys\\\w+", [r"open C:\keys\main now"], ["open ***own-0*** now"]),
    ],
)
def test_an_operators_pattern_is_masked_wherever_it_stands(pattern: str, value: Any, expected: Any) -> None:
    assert recorded(value, pattern) == expected
    assert masker(pattern).mask(value) == expected


def test_several_patterns_and_the_built_in_rules_work_side_by_side() -> None:
    value = {"password": "hunter2", "note": "EMP-123456 at site-77", "kept": "visible"}
    shown = recorded(value, r"EMP-\d{6}", r"site-\d+")
    assert shown == {"password": "***password***", "note": "***own-0*** at ***own-1***", "kept": "visible"}


def test_what_no_pattern_finds_is_recorded_as_it_came() -> None:
    value = {"note": "nothing\nhere", "n": [1, 2.5, None, True]}
    assert recorded(value, r"EMP-\d{6}") == value


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"name": "x", "pattern": "(?=a)b"}, "no lookaround and no references (invalid perl operator: (?="),
        ({"name": "x", "pattern": r"(a)\1"}, "no lookaround and no references (invalid escape sequence"),
        ({"name": "x", "pattern": "(a"}, "a pattern of RE2, which has no lookaround and no references (missing )"),
        ({"name": "x", "pattern": "a*"}, "expected a pattern that does not match the empty text"),
        ({"name": "x", "pattern": ""}, "expected text that is not empty"),
        ({"name": "x", "pattern": "a" * 1001}, "expected at most 1000 characters"),
        ({"name": "x", "pattern": "[ab]*a[ab]{300}c"}, "expected a pattern that is quick on every text"),
        ({"name": "X y", "pattern": "a"}, "activity.mask_patterns.0.name: 'X y' is not valid; expected a name of"),
        ({"name": "x"}, "activity.mask_patterns.0.pattern is missing"),
        ({"name": "x", "patern": "a"}, "did you mean `pattern`?"),
        ("EMP", "activity.mask_patterns.0: text is not valid; expected an object"),
    ],
)  # fmt: skip
def test_a_pattern_that_cannot_be_used_is_refused_with_the_reason(entry: Any, expected: str) -> None:
    problems = validate_text(json.dumps({"activity": {"mask_patterns": [entry]}}), origin="f.json")
    assert expected in "\n".join(problems)


def test_nested_repetition_which_ruins_other_engines_is_no_trouble() -> None:
    text = json.dumps({"activity": {"mask_patterns": [{"name": "x", "pattern": r"(a+)+!"}]}})
    assert validate_text(text, origin="f.json") == []
    assert recorded({"a": "a" * 5000 + "?"}, r"(a+)+!") == {"a": "a" * 5000 + "?"}


def test_without_the_library_the_setting_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    text = json.dumps({"activity": {"mask_patterns": [{"name": "x", "pattern": "EMP"}]}})
    assert "pip install 'mcpproxy-py[patterns]'" in "\n".join(validate_text(text, origin="f.json"))
