"""What of a snapshot is in which scope (SEC-2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpproxy_py.core.policy import decide
from mcpproxy_py.core.policy.scope import NOTHING_IN_SCOPE, Access, Scope, narrowed
from mcpproxy_py.core.search.index import Index, segment
from mcpproxy_py.core.search.tool_search import retrieve_tools
from mcpproxy_py.core.values import Ask, Override, Policy, Refusal, Route, Server, Snapshot, Tool
from mcpproxy_py.errors import Code
from tests.core.example_snapshot import tool

HINTS: dict[str, dict[str, Any]] = {
    "read": {"readOnlyHint": True},
    "write": {"readOnlyHint": False},
    "destructive": {"destructiveHint": True},
}
SEARCH = {
    "query": "list issues", "limit": 20, "detail": "full", "read_only_only": False, "exclude_destructive": False,
    "server": None,
}  # fmt: skip


def snapshot(*tools: Tool, policy: Policy | None = None, states: Mapping[str, Any] | None = None) -> Snapshot:
    by_server: dict[str, list[Tool]] = {name: [] for name in states or {}}
    for each in tools:
        by_server.setdefault(each.server, []).append(each)
    servers = {
        name: Server(name, (states or {}).get(name, "connected"), {each.name: each for each in theirs})
        for name, theirs in by_server.items()
    }
    return Snapshot(policy or Policy(), servers, Index({name: segment(theirs) for name, theirs in by_server.items()}))


def everywhere() -> Snapshot:
    return snapshot(*(
        tool(name, HINTS[hint], server=server, wire={"description": f"{name} of {server}"})
        for server in ("hub", "wiki", "bank")
        for name, hint in (("list_issues", "read"), ("create_issue", "write"), ("delete_issue", "destructive"))
    ))  # fmt: skip


def names(view: Snapshot) -> set[str]:
    return {each.full_name for server in view.servers.values() for each in server.tools.values()}


def call(view: Snapshot, name: str, operation: str = "read") -> decide.Decision:
    params = {"name": name, "args": {}, "intent": {"operation_type": operation}}
    return decide.decide(Ask("id", 0.0, f"call_tool_{operation}", params), view)


@pytest.mark.proves("SEC-2")
@pytest.mark.parametrize(
    ("scope", "left"),
    [
        (Scope(servers=(("hub",),)), {"hub:list_issues", "hub:create_issue", "hub:delete_issue"}),
        (Scope(servers=(("hub", "wiki"), ("wiki",)), ceiling="read"), {"wiki:list_issues"}),
        (Scope(tools=(("hub:list_*", "wiki:*"),)), {"hub:list_issues", "wiki:list_issues", "wiki:create_issue",
                                                    "wiki:delete_issue"}),
        (Scope(tools=(("list_*",), ("hub:*",))), {"hub:list_issues"}),
        (Scope(tools=(("LIST_ISSUES",),), servers=(("bank",),)), {"bank:list_issues"}),
        (Scope(servers=(("hub",),), ceiling="write"), {"hub:list_issues", "hub:create_issue"}),
        (Scope(servers=(("nobody",),)), set[str]()),
        (NOTHING_IN_SCOPE, set[str]()),
    ],
)  # fmt: skip
def test_there_is_what_is_in_all_lists_and_below_the_ceiling(scope: Scope, left: set[str]) -> None:
    view = narrowed(everywhere(), scope)
    assert names(view) == left
    assert {row["name"] for row in retrieve_tools(view, SEARCH)["tools"]} == left
    for name in names(everywhere()):
        server, _, inner = name.partition(":")
        there = view.servers.get(server)
        assert (there is not None and inner in there.tools) is (name in left)
        assert (there is not None and there.tools.get(inner) is not None) is (name in left)


@pytest.mark.proves("SEC-2")
@pytest.mark.parametrize("state", ["connected", "connecting", "sleeping", "failed", "disabled"])
def test_a_server_out_of_scope_is_answered_like_one_that_does_not_exist_whatever_its_state(state: str) -> None:
    """Also nobody waits for it, nor wakes it."""
    whole = snapshot(
        tool("t", HINTS["read"], server="hid"), tool("u", HINTS["read"], server="hub"), states={"hid": state}
    )
    view = narrowed(whole, Scope(servers=(("hub",),)))
    hid, none = call(view, "hid:t"), call(view, "nix:t")
    assert isinstance(hid, Refusal) and isinstance(none, Refusal)
    assert hid.code is Code.TOOL_NOT_FOUND and hid.awaits is None and hid.tool is None
    assert hid.message.replace("hid", "nix") == none.message and hid.details == none.details


@pytest.mark.proves("SEC-2", "GATE-12")
def test_a_tool_above_the_ceiling_is_not_there_and_its_variant_is_an_unknown_tool() -> None:
    view = narrowed(everywhere(), Scope(ceiling="write"))
    there = call(view, "hub:delete_issue", "write")
    assert isinstance(there, Refusal) and there.code is Code.TOOL_NOT_FOUND
    variant = call(view, "hub:list_issues", "destructive")
    assert isinstance(variant, Refusal) and variant.message == "Unknown tool: call_tool_destructive"
    assert isinstance(call(view, "hub:create_issue", "write"), Route)


@pytest.mark.proves("SEC-2", "GATE-12")
def test_no_override_and_no_permissive_mode_goes_past_the_ceiling() -> None:
    by_args = tool(
        "act", HINTS["destructive"], overrides=(Override("read", lambda args: not args), Override("destructive"))
    )
    whole = snapshot(by_args, policy=Policy(strict=False))
    view = narrowed(whole, Scope(ceiling="read"))
    params = {"name": "s:act", "intent": {"operation_type": "read"}}
    assert isinstance(decide.decide(Ask("id", 0.0, "call_tool_read", {**params, "args": {}}), view), Route)
    above = decide.decide(Ask("id", 0.0, "call_tool_read", {**params, "args": {"all": 1}}), view)
    assert isinstance(above, Refusal) and above.rule == "ceiling"
    assert retrieve_tools(view, {**SEARCH, "query": "act"})["tools"][0]["call_with"] == "call_tool_read"


@pytest.mark.proves("SEC-2")
def test_a_method_that_nobody_knows_is_refused_to_who_may_not_do_everything_there() -> None:
    """It may be a tool by another name, so it is held against the same globs, and counts as destructive."""
    whole = everywhere()
    for scope in (Scope(tools=(("hub:list_*",),)), Scope(ceiling="write")):
        ask = Ask("id", 0.0, "x/act", {"name": "delete_issue"}, surface="passthrough", server="hub", method="x/act")
        refused = decide.decide(ask, narrowed(whole, scope))
        assert isinstance(refused, Refusal) and refused.code is Code.TOOL_UNAVAILABLE
        same = decide.decide(ask._replace(params={"name": "nothing_like_it"}), narrowed(whole, scope))
        assert isinstance(same, Refusal)
        assert refused.message == same.message


WORDS = ("issue", "page", "list", "create", "branch", "isue", "repo", "user", "wiki", "merge")
TOOLS = st.lists(
    st.tuples(st.sampled_from(("hub", "wiki", "bank")), st.lists(st.sampled_from(WORDS), min_size=1, max_size=3)),
    min_size=1, max_size=12, unique_by=lambda row: (row[0], "_".join(row[1])),
)  # fmt: skip


@pytest.mark.proves("SEC-2", "FIND-3")
@settings(max_examples=200, deadline=None)
@given(TOOLS, st.lists(st.sampled_from(WORDS), max_size=3), st.sampled_from((
    Scope(servers=(("hub", "bank"),)), Scope(tools=(("*issue*", "bank:*"),)), Scope(ceiling="read"),
)))  # fmt: skip
def test_a_search_in_scope_is_that_of_a_gateway_that_has_nothing_else(
    rows: list[tuple[str, list[str]]], query: list[str], scope: Scope
) -> None:
    """Scores, totals and all: how common a word is elsewhere must not be told by them."""
    tools = [
        tool("_".join(words), HINTS["read" if len(words) % 2 else "write"], server=server, wire={"title": words[0]})
        for server, words in rows
    ]
    view = narrowed(snapshot(*tools), scope)
    alone = snapshot(*(each for each in tools if each.full_name in names(view)))
    asked = {**SEARCH, "query": " ".join(query)}
    assert retrieve_tools(view, asked) == retrieve_tools(alone, asked)


@pytest.mark.proves("SEC-2")
def test_an_access_whose_scope_ends_sees_nothing_from_the_next_look_on() -> None:
    whole, scope = everywhere(), Scope(servers=(("hub",),))
    held = [scope]
    access = Access("token:a", lambda: held[0])
    assert access.view(whole) is access.view(whole)
    assert access.view(whole).servers
    held[0] = NOTHING_IN_SCOPE
    assert not access.view(whole).servers
    assert Access("local").view(whole) is whole


@pytest.mark.proves("SEC-2")
def test_what_is_asked_in_a_scope_holds_no_older_snapshot() -> None:
    """Hundreds of principals that are idle must not keep a world each."""
    access = Access("token:a", lambda: Scope(servers=(("hub",),)))
    assert all(whole.narrowed for whole in [everywhere()] if access.view(whole))
    slots: set[str] = set(Access.__slots__)
    assert not any(isinstance(getattr(access, slot), Snapshot) for slot in slots)
