"""What a profile or a token says only ever takes something away, whatever the configuration is (SURF-12, SEC-2)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpproxy_py.core.policy import decide
from mcpproxy_py.core.policy.scope import Scope, narrowed
from mcpproxy_py.core.search.index import Index, segment
from mcpproxy_py.core.values import RANK, Ask, Override, Policy, Route, Server, Snapshot, Tool
from tests.core.example_snapshot import tool

pytestmark = pytest.mark.proves("SURF-12", "SEC-2")
SERVERS = ("hub", "wiki")
TOOLS = ("get_x", "put_x", "drop")
OPERATIONS = ("read", "write", "destructive")
NAMED = st.lists(st.sampled_from(SERVERS), max_size=2).map(tuple)
GLOBS = st.lists(st.sampled_from(("get_*", "hub:*", "*", "wiki:put_x", "*_x", "zz:*")), max_size=2).map(tuple)
SCOPES = st.builds(
    Scope,
    servers=st.lists(NAMED, max_size=2).map(tuple),
    tools=st.lists(GLOBS, max_size=2).map(tuple),
    ceiling=st.sampled_from(OPERATIONS),
    strict=st.booleans(),
    unannotated=st.sampled_from(("allow", "write", "destructive")),
    confirm=st.sampled_from(("none", "write", "destructive")),
    token_ceiling=st.sampled_from(OPERATIONS),
)
HINTS = st.fixed_dictionaries({}, optional={"readOnlyHint": st.booleans(), "destructiveHint": st.booleans()})
OVERRIDES = st.sampled_from(((), (Override("read", None),), (Override("destructive", None),)))


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    policy = Policy(
        strict=draw(st.booleans()),
        unannotated=draw(st.sampled_from(("allow", "write", "destructive"))),
        missing_intent=draw(st.sampled_from(("refuse", "infer"))),
        frozen=draw(st.sampled_from((False, False, True))),
    )
    servers: dict[str, Server] = {}
    for name in SERVERS:
        tools = {
            each: tool(each, draw(HINTS), server=name, overrides=draw(OVERRIDES), trusted=draw(st.booleans()))
            for each in TOOLS
        }
        confirm = draw(st.sampled_from(("none", "write", "destructive")))
        deny = draw(st.sampled_from(((), ("drop",))))
        servers[name] = Server(name, "connected", tools, confirm=confirm, deny_tools=deny)
    return Snapshot(policy, servers, Index({name: segment(each.tools.values()) for name, each in servers.items()}))


def permits(decision: decide.Decision) -> tuple[int, int]:
    """How much: nothing, after a person was asked, or at once; and at which risk, of which more is asked."""
    if not isinstance(decision, Route):
        return 0, 0
    return (1 if decision.confirm else 2), -RANK[decision.risk]


def asks() -> list[tuple[str, Any]]:
    named = [f"{server}:{name}" for server in SERVERS for name in TOOLS]
    return [
        (f"call_tool_{variant}", {"name": name, "args": {}, "intent": {"operation_type": variant}})
        for name in named
        for variant in OPERATIONS
    ]


def tools_of(view: Snapshot) -> dict[str, Tool]:
    return {each.full_name: each for server in view.servers.values() for each in server.tools.values()}


@settings(max_examples=250, deadline=None)
@given(snapshots(), SCOPES, SCOPES)
def test_a_scope_within_another_decides_at_most_as_permissively(snapshot: Snapshot, one: Scope, other: Scope) -> None:
    wider = (snapshot, narrowed(snapshot, one), narrowed(snapshot, other))
    inner = narrowed(snapshot, one.within(other))
    for outer in (wider[1], wider[2]):
        for name, params in asks():
            ask = Ask("id", 0.0, name, params)
            inside, outside = permits(decide.decide(ask, inner)), permits(decide.decide(ask, outer))
            assert inside[0] <= outside[0], (name, params, one, other)
            assert not inside[0] or inside[1] <= outside[1], "what is left counts as at least as risky"
    for view in wider[1:]:
        for name, params in asks():
            ask = Ask("id", 0.0, name, params)
            assert permits(decide.decide(ask, view))[0] <= permits(decide.decide(ask, snapshot))[0]
    assert tools_of(inner).keys() <= tools_of(wider[1]).keys() & tools_of(wider[2]).keys()


@given(SCOPES, SCOPES, SCOPES)
def test_in_which_order_scopes_are_put_together_does_not_matter(one: Scope, two: Scope, three: Scope) -> None:
    left, right = one.within(two).within(three), one.within(two.within(three))
    assert left == right
    swapped = two.within(one)
    together = one.within(two)
    assert (swapped.ceiling, swapped.token_ceiling, swapped.strict, swapped.unannotated, swapped.confirm) == (
        together.ceiling, together.token_ceiling, together.strict, together.unannotated, together.confirm,
    )  # fmt: skip
    assert one.within(one) == Scope(
        tuple(dict.fromkeys(one.servers)), tuple(dict.fromkeys(one.tools)), one.ceiling, one.strict, one.unannotated,
        one.confirm, token_ceiling=one.token_ceiling,
    )  # fmt: skip
