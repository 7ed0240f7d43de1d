"""What of a client's own words goes along upstream (GATE-15, SURF-10)."""

from __future__ import annotations

from typing import Any

import pytest

from mcpproxy_py.core.protocol.client_channel import forwarded_meta, is_served, relayed_capabilities, served
from mcpproxy_py.core.protocol.request_state import LONGEST_ANSWERS, answers_problem

LEVEL = "io.modelcontextprotocol/logLevel"
pytestmark = pytest.mark.proves("GATE-15", "SURF-10")


@pytest.mark.parametrize(
    ("said", "goes"),
    [
        (None, None),
        ({}, None),
        ({"traceparent": "00-1", "tracestate": "a=b", "baggage": "k=v", LEVEL: "debug"}, ...),
        ({"progressToken": "theirs", "x/y": {"deep": [1]}, "io.modelcontextprotocol/clientInfo": {}}, None),
        ({"traceparent": "x" * 513, "baggage": ["no", "text"], "tracestate": None}, None),
        ({LEVEL: "everything"}, None),
        ({LEVEL: ["debug"]}, None),
        ({LEVEL: "error", "and": "more"}, {LEVEL: "error"}),
    ],
)
def test_of_meta_only_what_the_protocol_defines_goes_along(said: Any, goes: Any) -> None:
    assert forwarded_meta(said) == (said if goes is ... else goes)


@pytest.mark.parametrize(
    ("declared", "kept"),
    [
        ({}, {}),
        ({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {"listChanged": True}}, ...),
        ({"elicitation": {}}, ...),
        ({"elicitation": {"form": {"x": [1]}, "more": {}}}, {"elicitation": {"form": {}}}),
        ({"extensions": {"io.modelcontextprotocol/tasks": {}}, "tasks": {}, "experimental": {"x": 1}}, {}),
        ({"roots": [], "sampling": None}, {"roots": {}, "sampling": {}}),
    ],
)
def test_a_server_hears_only_of_capabilities_that_can_be_served(declared: Any, kept: Any) -> None:
    assert is_served(declared) is (kept is ... or declared == kept)
    assert served(declared) == (declared if kept is ... else kept)


def test_passthrough_relays_them_whole_unless_they_are_no_honest_declaration() -> None:
    whole = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html"]}}, "roots": {}}
    deep: Any = {}
    for _ in range(40):
        deep = {"x": deep}
    assert relayed_capabilities(whole) is whole
    assert relayed_capabilities({"extensions": deep, "roots": {}}) == {"roots": {}}
    assert relayed_capabilities({"extensions": {"x": "y" * 20_000}, "roots": {}}) == {"roots": {}}


def test_answers_are_bounded_like_arguments() -> None:
    deep: Any = 1
    for _ in range(70):
        deep = [deep]
    assert answers_problem({"q": {"action": "accept"}}, 64) is None
    assert answers_problem({"q": deep}, 64)
    assert answers_problem([], 64)
    assert answers_problem({"q": "x" * LONGEST_ANSWERS}, 64)
