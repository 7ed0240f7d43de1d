"""What is written of an ask is what `asked` and `finished` say of it, whoever made up the names in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.core.policy.decide import decide
from mcpproxy_py.core.record import events
from mcpproxy_py.core.record.masking import PLAIN, Masker
from mcpproxy_py.core.values import Ask, ClientInfo, Override, Policy, Refusal, Route, Server, Snapshot, Tool
from mcpproxy_py.gateway.masker import MASKER

LIMIT = 2000
NASTY = st.sampled_from([
    '"', "\\", '","id":"forged', '"},"seq":1,"payload":"x"}\n{', "\n", "\t", "\0", "\x7f", "\u2028",
    "\u202e", "\ud800", "\udfff", "é", "😀", "%b%s{}", "password=hunter2abc", "null", "",
])  # fmt: skip
TEXT = st.lists(NASTY | st.text(st.characters(exclude_categories=[]), max_size=6), max_size=4).map("".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OWN_ID = st.uuids().map(str)
"""Of asks and of sessions: the gateway makes them, and no client can say one."""
DOORS = st.sampled_from(["gate", "rest", "direct", "passthrough"])
MASKERS = st.sampled_from([MASKER, PLAIN])


def written(event: events.EventText) -> dict[str, Any]:
    """The event as whoever reads the journal has it, its payload where the dict has it."""
    for part in (event.head, event.payload or b""):
        assert not any(byte in part for byte in b"\t\n\0"), "a line of the journal has tabs between its columns"
    head = json.loads(event.head, object_pairs_hook=once)
    assert "arguments" not in head and "response" not in head and "seq" not in head and "payload" not in head
    if event.payload:
        head["arguments" if head["kind"] == "asked" else "response"] = json.loads(event.payload)
    return head


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """No key stands twice: the second would be the one that counts."""
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), keys
    return dict(pairs)


def said(event: Mapping[str, Any]) -> dict[str, Any]:
    """The dict as JSON has it, without what is null."""
    plain = json.loads(events._json({key: value for key, value in event.items() if key not in PAYLOADS}, MASKER.encode))
    plain = {key: value for key, value in plain.items() if value is not None}
    return plain | {key: json.loads(event[key]) for key in PAYLOADS if event.get(key) is not None}


PAYLOADS = ("arguments", "response")


@st.composite
def asks(draw: st.DrawFn) -> tuple[Ask, Snapshot]:
    """Mostly calls that are allowed, with everything that others name made up by the worst of them."""
    name, door = draw(TEXT.filter(bool)), draw(DOORS)
    hints = draw(st.sampled_from([{"readOnlyHint": True}, {}, {"destructiveHint": True}])) | draw(
        st.dictionaries(TEXT, JSON, max_size=2)
    )
    overrides = draw(st.sampled_from([
        (), ((Override("read"),),), ((Override("write", lambda args: len(args) > 1), Override("read")),),
        ((Override("read"),), (Override("write", lambda args: len(args) > 1), Override("read"))),
    ]))  # fmt: skip
    declared = "read" if hints.get("readOnlyHint") is True else "unknown"
    tool = Tool("s", name, {"annotations": hints}, declared, draw(st.booleans()), overrides)
    policy = Policy(strict=draw(st.booleans()), unannotated=draw(st.sampled_from(["allow", "write"])))
    here = Snapshot(policy, {"s": Server("s", "connected", {name: tool})})
    args = draw(st.dictionaries(TEXT, JSON, max_size=3))
    intent = draw(st.fixed_dictionaries(
        {"operation_type": st.sampled_from(["read", "write"])},
        optional={"data_sensitivity": st.sampled_from(["private", None]), "reason": TEXT | st.none()},
    ))  # fmt: skip
    variant = f"call_tool_{draw(st.sampled_from([intent['operation_type'], 'destructive']))}"
    outer, params = {
        "direct": (tool.direct_name, args | draw(st.sampled_from([{}, {"intent": "because"}]))),
        "passthrough": (name, args),
    }.get(door, (variant, {"name": f"s:{name}", "args": args, "intent": intent}))
    return Ask(
        draw(OWN_ID), draw(st.floats(0, 4e9)), outer, params,
        draw(st.sampled_from(["mcp", "cli", "api", "internal"])), door, draw(TEXT),
        ClientInfo(draw(TEXT), draw(TEXT)), draw(st.none() | OWN_ID), draw(st.none() | TEXT),
        "s" if door == "passthrough" else None,
    ), here  # fmt: skip


@pytest.mark.proves("ACT-1", "ACT-2", "PERF-5")
@given(asks(), MASKERS, st.booleans())
def test_the_text_of_an_ask_says_what_the_dict_says(made: tuple[Ask, Snapshot], masker: Masker, relaxed: bool) -> None:
    ask, here = made
    policy = Policy(strict=not relaxed)
    for _ in range(2):  # the second time with what the first has left behind
        decision = decide(ask, here)
        oracle = events.asked(ask, decision, policy, LIMIT, masker)
        assert written(events.asked_text(ask, decision, policy, LIMIT, masker)) == said(oracle)


@pytest.mark.proves("ACT-1", "ACT-2")
def test_the_short_way_is_the_one_that_was_tested() -> None:
    """An allowed call leaves its part behind in its view, and each way to call it a part of its own."""
    tool = Tool("s", "t", {"annotations": {"title": 'a "quoted" one'}}, "read")
    here = Snapshot(Policy(), {"s": Server("s", "connected", {"t": tool})})
    seen: dict[bytes, Ask] = {}
    for source in ("mcp", "cli"):
        for variant in ("read", "write"):
            ask = Ask("i", 1.0, f"call_tool_{variant}", {"name": "s:t", "intent": {"operation_type": variant}}, source)
            decision = decide(ask, here)
            assert isinstance(decision, Route) and decision.view is not None
            for _ in range(2):
                event = events.asked_text(ask, decision, here.policy, LIMIT, MASKER)
                assert written(event) == said(events.asked(ask, decision, here.policy, LIMIT, MASKER))
            assert event.head not in seen
            seen[event.head] = ask
    assert len(here.views["gate", None, "s:t"].on_record) == 4


@pytest.mark.proves("ACT-9")
@pytest.mark.parametrize("masker", [MASKER, PLAIN])
def test_secrets_do_not_get_into_the_text_by_the_short_way(masker: Masker) -> None:
    tool = Tool("s", "t", {}, "read")
    here = Snapshot(Policy(), {"s": Server("s", "connected", {"t": tool})})
    secret = "hunter2-and-more"
    for reason in (f"log in with password={secret}", f"log in with password={secret} \ud800"):
        intent = {"operation_type": "read", "reason": reason}
        ask = Ask("i", 1.0, "call_tool_read", {"name": "s:t", "args": {"password": secret}, "intent": intent})
        event = events.asked_text(ask, decide(ask, here), here.policy, LIMIT, masker)
        assert secret.encode() not in event.head + event.payload
    done = events.Outcome("error", {"text": f"password={secret}"}, {"code": "X", "message": f"password={secret}"})
    event = events.finished_text("i", 1.0, done, 1.0, LIMIT, masker)
    assert secret.encode() not in event.head + event.payload


@pytest.mark.proves("ACT-1", "PERF-5")
@given(
    TEXT, st.floats(0, 4e9), st.none() | st.dictionaries(TEXT, JSON, max_size=3),
    st.none() | st.fixed_dictionaries({"code": TEXT, "message": TEXT}), st.none() | st.floats(0, 1e9),
    st.dictionaries(TEXT, TEXT, max_size=1), MASKERS,
)  # fmt: skip
def test_the_text_of_an_end_says_what_the_dict_says(
    ask_id: str, at: float, result: dict[str, Any] | None, error: dict[str, Any] | None, took: float | None,
    metadata: dict[str, str], masker: Masker,
) -> None:  # fmt: skip
    outcome = events.Outcome("error" if error else "success", result, error, metadata)
    event = events.finished_text(ask_id, at, outcome, took, LIMIT, masker)
    assert written(event) == said(events.finished(ask_id, at, outcome, took, LIMIT, masker))


@pytest.mark.proves("ACT-2")
def test_a_refusal_and_what_is_no_tool_call_are_written_as_they_always_were() -> None:
    here = Snapshot(Policy(), {"s": Server("s", "connected", {})})
    for ask in (
        Ask("i", 1.0, "call_tool_read", {"name": "s:none", "intent": {"operation_type": "read"}}),
        Ask("i", 1.0, "call_tool_read", None),
        Ask("i", 1.0, "retrieve_tools", {"query": "x"}),
        Ask("i", 1.0, "file:///x", {"uri": "file:///x"}, surface="passthrough", server="s", method="resources/read"),
    ):
        decision = decide(ask, here)
        assert isinstance(decision, Refusal) or not isinstance(decision, Route)
        event = events.asked_text(ask, decision, here.policy, LIMIT, MASKER)
        assert written(event) == said(events.asked(ask, decision, here.policy, LIMIT, MASKER))
