"""What of a listing is pinned, its digest, and its stored form (SEC-3)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpproxy_py.core.pins.compare import compare
from mcpproxy_py.core.pins.listing import PinnedListing, listing_of
from tests.core.pins.cases import prompt, tool

pytestmark = pytest.mark.proves("SEC-3")
LISTED = listing_of([tool(_meta={"ui": {"resourceUri": "ui://a"}, "build": 7})], "Use it well.", [prompt()])


def digest(wire: dict[str, Any]) -> str:
    return listing_of([wire]).digest()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"name": "a", "inputSchema": {}, "x": 1.0}', '{"x": 1, "inputSchema": {}, "name": "a"}'),
        ('{"name": "a", "inputSchema": {}, "x": 1e2}', '{"name": "a", "inputSchema": {}, "x": 100}'),
        ('{"name": "a", "inputSchema": {}, "x": -0.0}', '{"name": "a", "inputSchema": {}, "x": 0}'),
        ('{"name": "a", "inputSchema": {}, "x": "\\u00e9"}', '{"name": "a", "inputSchema": {}, "x": "é"}'),
        ('{"name": "a", "inputSchema": {}, "title": null}', '{"name": "a", "inputSchema": {}}'),
        ('{"name": "a", "inputSchema": {}, "_meta": {"v": 1}}', '{"name": "a", "inputSchema": {}, "_meta": {"v": 2}}'),
    ],
)
def test_how_a_tool_is_written_does_not_matter(one: str, other: str) -> None:
    assert digest(json.loads(one)) == digest(json.loads(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [(True, 1), (False, 0), (1, "1"), (None, "null"), ("é", "e\u0301"), ([], {}), ([1, 2], [2, 1]), (0.1, 0.2),
     (10**400, 10**400 + 1), (float("inf"), 1e308), ("\ud800", "\ud801")],
)  # fmt: skip
def test_what_is_not_the_same_has_another_digest(one: Any, other: Any) -> None:
    assert digest(tool(annotations={"x": one})) != digest(tool(annotations={"x": other}))


def test_a_digest_of_absurd_depth_is_made_all_the_same() -> None:
    deep: Any = {}
    for _ in range(5_000):
        deep = {"not": deep}
    assert digest(tool(inputSchema=deep)) != digest(tool(inputSchema={"not": deep}))
    found = compare(listing_of([tool(inputSchema=deep)]), listing_of([tool(inputSchema={"not": deep})]), True)
    assert {each.judgement for each in found} == {"breaks_callers"}


def test_of_two_tools_with_one_name_the_first_that_is_a_tool_counts() -> None:
    assert listing_of([{"name": "a"}, tool("a", title="1"), tool("a", title="2")]).tools["a"]["title"] == "1"


NO_TOOLS = (
    5, {}, {"name": 5}, {"name": "a"}, {"name": "", "inputSchema": {}}, {"name": "a" * 300, "inputSchema": {}},
    {"name": "a\u200b\n", "inputSchema": {}},
)  # fmt: skip


@pytest.mark.parametrize("wire", NO_TOOLS)
def test_what_is_no_tool_for_the_gateway_is_not_pinned(wire: Any) -> None:
    assert not listing_of([wire]).tools


def test_only_what_is_pinned_is_stored() -> None:
    stored = LISTED.as_json()
    assert stored["tools"][0]["_meta"] == {"ui": {"resourceUri": "ui://a"}}


def test_a_description_of_a_megabyte_is_pinned_and_compared() -> None:
    text = "All work and no play. " * 50_000
    before, after = (listing_of([tool(description=each)]) for each in (text, text + "!"))
    assert [each.judgement for each in compare(before, after, True)] == ["rewords"]


def test_fifty_thousand_tools_are_compared_and_the_one_that_changed_is_found() -> None:
    many = [tool(f"t{n}") for n in range(50_000)]
    before = listing_of(many)
    after = listing_of([*many[:-1], tool("t49999", annotations={"readOnlyHint": True})])
    assert {each.subject for each in compare(before, after, True)} == {"tool:t49999"}


def test_tools_that_all_have_other_names_are_compared_and_all_are_renames() -> None:
    before = listing_of([tool(f"t{n}", description=f"Does {n}.", inputSchema={"type": "object"}) for n in range(5_000)])
    after = listing_of([tool(f"u{n}", description=f"Does {n}.", inputSchema={"type": "object"}) for n in range(5_000)])
    found = [each.judgement for each in compare(before, after, True)]
    assert found.count("renames") == 5_000 and found.count("removes") == 5_000


def test_a_listing_has_no_digest_of_what_is_not_in_it() -> None:
    assert PinnedListing().digest_of("tool:x") is None and PinnedListing().digest_of("x") is None
