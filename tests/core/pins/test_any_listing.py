"""What holds of any two listings: nothing that differs is passed over, and nothing comes in force that nobody approved
(SEC-3)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpproxy_py.core.pins.canonical import canonical
from mcpproxy_py.core.pins.compare import compare
from mcpproxy_py.core.pins.hint_changes import class_move
from mcpproxy_py.core.pins.judge import approve, judge, reject
from mcpproxy_py.core.pins.listing import PinnedListing, listing_of
from mcpproxy_py.core.policy.tool_class import classify
from tests.core.pins.listings import JSON, LISTINGS, changed

pytestmark = pytest.mark.proves("SEC-3")
much = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


class Hidden(NamedTuple):
    blocks: bool = True


def listing(drawn: Mapping[str, Any]) -> PinnedListing:
    """As whatever came over the wire."""
    tools, prompts = drawn.get("tools"), drawn.get("prompts")
    said = drawn.get("instructions")
    return listing_of(
        tools if isinstance(tools, list) else [], said if isinstance(said, str) else None,
        prompts if isinstance(prompts, list) else [],
    )  # fmt: skip


PAIRS = st.one_of(
    st.tuples(LISTINGS, LISTINGS),
    st.builds(lambda drawn, seed: (drawn, changed(drawn, seed)), LISTINGS, st.integers(0, 10**9)),
    st.builds(lambda drawn, one, two: (drawn, changed(changed(drawn, one), two)), LISTINGS, st.integers(0, 10**9),
              st.integers(0, 10**9)),
)  # fmt: skip


@much
@given(PAIRS, st.booleans())
def test_what_differs_has_a_difference_and_what_is_equal_has_none(pair: tuple[Any, Any], trusted: bool) -> None:
    before, after = map(listing, pair)
    found = compare(before, after, trusted)
    subjects = {each.subject for each in found}
    for subject in {*before.subjects(), *after.subjects()}:
        assert (before.digest_of(subject) != after.digest_of(subject)) == (subject in subjects), subject
    assert bool(found) == (before.digest() != after.digest())
    assert all(each.text.isprintable() and len(each.text) < 1_000 for each in found)


@much
@given(LISTINGS)
def test_a_listing_written_differently_is_the_same(drawn: Any) -> None:
    before = listing(drawn)
    turned = {"instructions": before.instructions} | {
        key: [dict(reversed(list(wire.items()))) for wire in reversed(list(getattr(before, key).values()))]
        for key in ("tools", "prompts")
    }
    assert compare(before, listing(turned), True) == ()
    assert before.digest() == listing(turned).digest()


@much
@given(PAIRS, st.booleans(), st.booleans(), st.sets(st.sampled_from(("tool:save", "tool:x", "instructions"))))
def test_nothing_unapproved_is_in_force_and_judging_again_gives_the_same(
    pair: tuple[Any, Any], trusted: bool, manual: bool, hidden: set[str]
) -> None:
    approved, listed = map(listing, pair)
    findings = {subject: (Hidden(),) for subject in hidden}
    found = judge(approved, listed, manual=manual, trusted=trusted, findings=findings)
    kept = found.to_keep or approved
    for name, wire in found.in_force.tools.items():
        subject = f"tool:{name}"
        if name in approved.tools:
            assert found.in_force.digest_of(subject) == kept.digest_of(subject)
            old, now = (classify(each.get("annotations"), trusted) for each in (approved.tools[name], wire))
            assert class_move(old, now, trusted) != "lowers_risk"
            if name not in found.blocked:
                said = classify(listed.tools[name].get("annotations"), trusted)
                assert class_move(said, now, trusted) != "lowers_risk", "it is more of a risk than what is in force"
        elif name not in found.blocked:
            assert not manual and subject not in hidden
    assert list(found.in_force.tools) == list(listed.tools)
    assert set(found.blocked) <= set(found.in_force.tools)
    for subject in (hidden - {f"tool:{name}" for name in found.blocked}) & set(found.in_force.subjects()):
        assert approved.digest_of(subject) is not None, "what hides characters is approved by nobody"
    again = judge(kept, listed, manual=manual, trusted=trusted, findings=findings)
    assert again.to_keep is None
    assert again.in_force.digest() == found.in_force.digest()
    assert set(again.blocked) == set(found.blocked) and set(again.waiting) == set(found.waiting)


@much
@given(PAIRS, st.booleans())
def test_who_approves_all_that_waits_has_nothing_left_to_decide(pair: tuple[Any, Any], manual: bool) -> None:
    approved, listed = map(listing, pair)
    found = judge(approved, listed, manual=manual, trusted=True, findings={})
    said_yes = approve(found.to_keep or approved, listed, found.waiting)
    after = judge(said_yes, listed, manual=manual, trusted=True, findings={})
    assert not after.blocked and not after.waiting and after.to_keep is None
    assert after.in_force.digest() == listed.digest()


@much
@given(PAIRS, st.booleans())
def test_who_rejects_all_that_waits_is_asked_no_more_and_nothing_changes(pair: tuple[Any, Any], manual: bool) -> None:
    approved, listed = map(listing, pair)
    found = judge(approved, listed, manual=manual, trusted=True, findings={})
    said_no = reject(found.to_keep or approved, listed, found.waiting)
    after = judge(said_no, listed, manual=manual, trusted=True, findings={})
    assert not after.waiting and after.to_keep is None
    assert set(after.blocked) == set(found.blocked)
    assert after.in_force.digest() == found.in_force.digest()


@much
@given(JSON)
def test_a_canonical_text_is_the_same_whichever_way_it_is_written(value: Any) -> None:
    from mcpproxy_py.core.pins.canonical import _by_hand

    text = canonical(value)
    assert text.isascii()
    try:
        plain = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return
    if "." not in plain:
        assert text == plain == _by_hand(value)
