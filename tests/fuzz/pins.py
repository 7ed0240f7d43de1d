"""Listings held against what was approved: the comparison, its judgement, and what is stored of it."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import Any, Final, NamedTuple

from mcpproxy_py.core.pins.compare import compare
from mcpproxy_py.core.pins.hint_changes import class_move
from mcpproxy_py.core.pins.judge import approve, judge, reject
from mcpproxy_py.core.pins.listing import PinnedListing, listing_of
from mcpproxy_py.core.pins.shown import shown
from mcpproxy_py.core.policy.tool_class import classify

LONGEST: Final = 30_000


class _Hidden(NamedTuple):
    blocks: bool = True


def judge_listings(data: bytes) -> Hashable:
    """Whatever is listed after whatever was approved: every subject that differs is named, and no other; nothing is in
    force that nobody approved or that is less of a risk than the server says; and to judge it again changes nothing."""
    if len(data) > LONGEST:
        return "long"
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return "none"
    if not isinstance(value, dict):
        return "none"
    trusted, manual = value.get("trusted") is not False, value.get("manual") is True
    approved, listed = _listing(value.get("before")), _listing(value.get("after"))
    _are_named(approved, listed, trusted)
    findings = {each: (_Hidden(),) for each in value["hidden"]} if _is_texts(value.get("hidden")) else {}
    found = judge(approved, listed, manual=manual, trusted=trusted, findings=findings)
    kept = found.to_keep or approved
    for name, wire in found.in_force.tools.items():
        _is_approved(name, wire, found.blocked, approved, kept, listed, trusted)
    assert set(found.blocked) <= set(found.in_force.tools) == set(listed.tools)
    again = judge(kept, listed, manual=manual, trusted=trusted, findings=findings)
    assert again.to_keep is None and again.in_force.digest() == found.in_force.digest()
    assert set(again.blocked) == set(found.blocked) and set(again.waiting) == set(found.waiting)
    assert not judge(reject(kept, listed, found.waiting), listed, manual=manual, trusted=trusted, findings={}).waiting
    after = judge(approve(kept, listed, found.waiting), listed, manual=manual, trusted=trusted, findings={})
    assert not after.blocked and not after.waiting and after.in_force.digest() == listed.digest()
    judgements = {each.judgement for some in found.waiting.values() for each in some}
    return tuple(sorted(judgements)), bool(found.blocked), found.to_keep is None


def _listing(drawn: Any) -> PinnedListing:
    said: Mapping[str, Any] = drawn if isinstance(drawn, dict) else {}
    tools, prompts = (each if isinstance(each, list) else [] for each in (said.get("tools"), said.get("prompts")))
    instructions = said.get("instructions")
    return listing_of(tools, instructions if isinstance(instructions, str) else None, prompts)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _are_named(approved: PinnedListing, listed: PinnedListing, trusted: bool) -> None:
    found = compare(approved, listed, trusted)
    subjects = {each.subject for each in found}
    for subject in {*approved.subjects(), *listed.subjects()}:
        assert (approved.digest_of(subject) != listed.digest_of(subject)) == (subject in subjects), subject
    for each in found[:50]:
        lines = shown(each)
        assert all(text.isprintable() for text in (lines.text, lines.part, lines.subject))
        assert all(line.text.isprintable() for line in lines.lines)


def _is_approved(
    name: str, wire: Mapping[str, Any], blocked: Mapping[str, str], approved: PinnedListing, kept: PinnedListing,
    listed: PinnedListing, trusted: bool,
) -> None:  # fmt: skip
    if name not in approved.tools:
        if name in blocked:
            assert set(wire) == {"name", "inputSchema"}, "more than its name is in force"
        return
    again = PinnedListing({name: wire})
    assert again.digest_of(f"tool:{name}") == kept.digest_of(f"tool:{name}"), "what is in force is not what is kept"
    old, said, now = (
        classify(each.get("annotations"), trusted) for each in (approved.tools[name], listed.tools[name], wire)
    )
    assert class_move(old, now, trusted) != "lowers_risk", "it is less of a risk than what was approved"
    assert name in blocked or class_move(said, now, trusted) != "lowers_risk", "it is less of a risk than it says"
