"""Each kind of change against its judgement, and what comes of it (SEC-3)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from mcpproxy_py.core.pins.compare import Difference, compare
from mcpproxy_py.core.pins.hint_changes import class_move
from mcpproxy_py.core.pins.judge import BLOCKS, JudgedListing, judge
from mcpproxy_py.core.pins.listing import PinnedListing, listing_of
from mcpproxy_py.core.pins.schema_changes import WorkBudget, schema_changes
from mcpproxy_py.core.policy import decide
from mcpproxy_py.core.values import VARIANT_OF, Ask, Policy, Route, Server, Snapshot, Tool
from tests.core.pins.cases import CASES, Case, SchemaCase, schema_cases, tool

pytestmark = pytest.mark.proves("SEC-3")

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)


def judged(before: PinnedListing | None, after: PinnedListing, trusted: bool = True) -> JudgedListing:
    return judge(before, after, manual=False, trusted=trusted, findings={}, server="s")


def outcome(case: Case) -> str:
    """What became of the subject."""
    found = judged(case.before, case.after, case.trusted)
    kind, _, name = case.subject.partition(":")
    before = case.before.digest_of(case.subject)
    if case.after.digest_of(case.subject) is None:
        return "gone"
    if name in found.blocked or (kind == "prompt" and name not in found.in_force.prompts):
        assert case.subject in found.waiting
        return "blocked"
    if case.subject in found.waiting:
        return "waits"
    if before is None:
        return "new"
    return "none" if found.to_keep is None else "at once"


@every_case
def test_a_change_is_named_part_by_part_and_judged_as_the_table_says(case: Case) -> None:
    found = [each for each in compare(case.before, case.after, case.trusted) if each.subject == case.subject]
    assert {each.part: each.judgement for each in found} == case.judged
    assert all(each.text for each in found)


@every_case
def test_what_comes_of_a_change_is_what_the_table_says(case: Case) -> None:
    assert outcome(case) == case.outcome


@every_case
def test_nothing_gets_in_force_that_was_not_approved(case: Case) -> None:
    found = judged(case.before, case.after, case.trusted)
    approved = found.to_keep or case.before
    for name in found.in_force.tools:
        bare = listing_of([{"name": name, "inputSchema": {"type": "object"}}])
        digests = {each.digest_of(f"tool:{name}") for each in (approved, bare)}
        assert found.in_force.digest_of(f"tool:{name}") in digests
    for name in found.in_force.prompts:
        assert found.in_force.digest_of(f"prompt:{name}") == approved.digest_of(f"prompt:{name}")
    assert found.in_force.instructions in (None, approved.instructions)


@every_case
def test_the_same_listing_again_changes_nothing_more(case: Case) -> None:
    first = judged(case.before, case.after, case.trusted)
    again = judged(first.to_keep or case.before, case.after, case.trusted)
    assert again.to_keep is None
    assert again.in_force == first.in_force and again.blocked == first.blocked
    assert set(again.waiting) == set(first.waiting)


# Schemas.

WEIGHT = {"rewords": 0, "widens_input": 1, "breaks_callers": 2}


def worst(found: list[Any]) -> str:
    return max((each.judgement for each in found), key=lambda each: WEIGHT[each])


@pytest.mark.parametrize("case", schema_cases(), ids=lambda case: case.what)
def test_a_keyword_is_judged_for_who_calls_and_for_who_reads(case: SchemaCase) -> None:
    for key, expected in (("inputSchema", case.given), ("outputSchema", case.got)):
        for whole in (lambda schema: schema, lambda schema: {"type": "object", "properties": {"p": schema}}):
            before, after = (listing_of([tool(**{key: whole(schema)})]) for schema in (case.before, case.after))
            found = list(compare(before, after, trusted=True))
            assert all(each.part.startswith(key) for each in found)
            assert worst(found) == expected, found
            if "$defs" in case.what and "refers" not in case.what:
                break  # references point at the top


def test_every_keyword_with_a_row_is_in_the_table() -> None:
    from mcpproxy_py.core.pins import schema_changes as nested
    from mcpproxy_py.core.pins import schema_values as leaves

    told = " ".join(case.what for case in schema_cases()) + " `properties` property unevaluatedItems definitions"
    for key in (*nested._NESTED, *leaves._WAYS, *leaves.TEXTS - {"example", "markdownDescription"}):
        assert key in told, key


# The class of a tool, held against the gate itself.


def let_through(tool_class: Any, trusted: bool, policy: Policy) -> tuple[int, bool]:
    """How many of the variants a tool of this class may be called with, and whether all of it counts as a read."""
    made = Tool("s", "t", {"name": "t", "inputSchema": {}}, tool_class, trusted)
    snapshot = Snapshot(policy, {"s": Server("s", "connected", {"t": made})})
    routes = [
        decision
        for operation, variant in VARIANT_OF.items()
        if isinstance(decision := decide.decide(
            Ask("x", 0.0, variant, {"name": "s:t", "intent": {"operation_type": operation}}), snapshot), Route)
    ]  # fmt: skip
    return len(routes), any(route.risk == "read" for route in routes)


CLASSES = ("read", "unknown", "write", "destructive")


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(("before", "after"), list(itertools.product(CLASSES, CLASSES)))
def test_a_class_lowers_where_the_gate_would_let_more_through_under_any_setting(
    before: Any, after: Any, trusted: bool
) -> None:
    pairs = [
        (let_through(before, trusted, policy), let_through(after, trusted, policy))
        for policy in (Policy(unannotated="allow"), Policy(unannotated="write"), Policy(unannotated="destructive"))
    ]
    lowers = any(new > old for old, new in pairs)
    expected = "lowers_risk" if lowers else "rewords" if all(new == old for old, new in pairs) else "raises_risk"
    assert class_move(before, after, trusted) == expected


HINT_VALUES = (True, False, None, "true", 1, "absent")


def hints(read_only: Any, destructive: Any) -> dict[str, Any]:
    said = {"readOnlyHint": read_only, "destructiveHint": destructive}
    return {key: value for key, value in said.items() if value != "absent"}


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("before", list(itertools.product(HINT_VALUES, HINT_VALUES)), ids=str)
def test_of_every_pair_of_hints_the_class_in_force_is_never_below_the_one_listed_nor_the_one_approved(
    before: tuple[Any, Any], trusted: bool
) -> None:
    from mcpproxy_py.core.policy.tool_class import classify

    for after in itertools.product(HINT_VALUES, HINT_VALUES):
        old, new = hints(*before), hints(*after)
        found = judged(listing_of([tool(annotations=old)]), listing_of([tool(annotations=new)]), trusted)
        if "save_note" in found.blocked:
            continue
        now = classify(found.in_force.tools["save_note"].get("annotations"), trusted)
        for other in (old, new):
            assert class_move(classify(other, trusted), now, trusted) != "lowers_risk", (old, new, now)


def test_what_blocks_wins_over_what_waits_and_what_applies() -> None:
    for case in CASES:
        if any(each in BLOCKS for each in case.judged.values()):
            assert case.outcome == "blocked", case.what


def test_a_schema_that_is_too_large_breaks_callers_and_is_said_to_be_too_large() -> None:
    wide = {"properties": {f"p{n}": {"type": "string"} for n in range(30_000)}}
    found = schema_changes(wide, {"properties": {}}, "inputSchema", "input", WorkBudget(1_000_000))
    assert found[-1].accepts == "either" and "too large" in found[-1].text
    assert len(found) <= 201


def test_a_comparison_of_all_that_changed_is_bounded_and_nothing_is_left_out() -> None:
    many = [tool(f"t{n}", inputSchema={"properties": {"a": {"type": "string"}}}) for n in range(300)]
    other = [tool(f"t{n}", inputSchema={"properties": {"a": {}}}) for n in range(300)]
    found = compare(listing_of(many), listing_of(other), True)
    assert {each.subject for each in found} == {f"tool:t{n}" for n in range(300)}


def test_a_difference_says_what_was_and_what_is() -> None:
    before, after = listing_of([tool(title="a")]), listing_of([tool(title="b")])
    assert compare(before, after, True) == (
        Difference("tool:save_note", "title", "rewords", "a", "b", "title is reworded"),
    )
