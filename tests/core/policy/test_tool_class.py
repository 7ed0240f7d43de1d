from __future__ import annotations

from typing import Any

import pytest

from mcpproxy_py.core.policy.tool_class import call_with, class_of, classify, effective
from mcpproxy_py.core.values import RANK, Override, Policy
from tests.core.example_snapshot import tool
from tests.core.matrix import ABSENT, CLASS_OF_HINTS


def hints_of(pair: tuple[object, object]) -> dict[str, object]:
    names = ("readOnlyHint", "destructiveHint")
    return {name: value for name, value in zip(names, pair, strict=True) if value is not ABSENT}


@pytest.mark.proves("GATE-3", "UP-10")
@pytest.mark.parametrize(("pair", "expected"), CLASS_OF_HINTS.items())
def test_hints_are_classed_as_the_specification_says(pair: tuple[object, object], expected: str) -> None:
    assert classify(hints_of(pair)) == expected
    noise = {"idempotentHint": True, "openWorldHint": False, "title": "x", "draftHint": {"a": 1}}
    assert classify({**hints_of(pair), **noise}) == expected


@pytest.mark.parametrize(
    "odd", [None, [], "x", 5, {"readOnlyHint": "true"}, {"readOnlyHint": 1}, {"read_only_hint": True}]
)
def test_only_a_json_boolean_in_an_object_is_a_declaration(odd: Any) -> None:
    assert classify(odd) == "unknown"


@pytest.mark.parametrize(("pair", "expected"), CLASS_OF_HINTS.items())
def test_hints_of_an_untrusted_server_may_raise_but_never_lower(pair: tuple[object, object], expected: str) -> None:
    assert classify(hints_of(pair), trusted=False) == ("unknown" if expected == "read" else expected)


@pytest.mark.parametrize("unannotated", ["allow", "write", "destructive"])
def test_an_untrusted_hint_never_gets_a_tool_below_what_unannotated_ones_are(unannotated: str) -> None:
    policy = Policy(unannotated=unannotated)  # pyright: ignore[reportArgumentType]
    bare = effective(tool("t"), "unknown", policy)
    for pair in CLASS_OF_HINTS:
        made = tool("t", hints_of(pair), trusted=False)  # pyright: ignore[reportArgumentType]
        assert RANK[effective(made, made.declared, policy)] >= RANK[bare]


@pytest.mark.proves("FIND-1", "GATE-8")
@pytest.mark.parametrize(
    ("hints", "overrides", "policy", "expected"),
    [
        ({"destructiveHint": True}, (), Policy(), "call_tool_destructive"),
        ({"readOnlyHint": True}, (), Policy(), "call_tool_read"),
        ({"readOnlyHint": False}, (), Policy(), "call_tool_write"),
        (None, (), Policy(), "call_tool_write"),
        (None, (), Policy(unannotated="destructive"), "call_tool_destructive"),
        ({"readOnlyHint": True}, (Override("read", lambda a: True), Override("destructive")), Policy(),
         "call_tool_destructive"),
    ],
)  # fmt: skip
def test_call_with_names_the_variant_for_the_highest_class_possible(
    hints: Any, overrides: Any, policy: Policy, expected: str
) -> None:
    assert call_with(tool("t", hints, overrides=overrides), policy) == expected


def test_a_class_says_where_it_comes_from() -> None:
    assert class_of(tool("t", {"readOnlyHint": True}), {}) == ("read", "server")
    assert class_of(tool("t"), {}) == ("unknown", "unannotated")
    assert class_of(tool("t", {"readOnlyHint": True}, trusted=False), {}) == ("unknown", "untrusted")
    assert class_of(tool("t", overrides=(Override("read"),)), {}) == ("read", "override")
