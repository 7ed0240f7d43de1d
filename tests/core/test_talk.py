"""What of a client's own words goes along upstream (GATE-15, SURF-10)."""

from __future__ import annotations

from typing import Any

import pytest

from mcpproxy_py.core.protocol.client_channel import forwarded_meta, is_served, served
from mcpproxy_py.core.protocol.request_state import LONGEST_ANSWERS, answers_problem

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LEVEL = "io.modelcontextprotocol/logLevel"
pytestmark = pytest.mark.proves("GATE-15", "SURF-10")


@pytest.mark.parametrize(
    ("said", "goes"),
    [
        (None, None),
        ({}, None),
        ({"traceparent": TRACE, LEVEL: "debug"}, ...),
        ({"traceparent": TRACE, "tracestate": "a=b", "baggage": "k=v"}, {"traceparent": TRACE}),
        ({"traceparent": TRACE.upper()}, None),
        ({"traceparent": f"{TRACE}-more"}, None),
        ({"traceparent": f"{TRACE}\n"}, None),
        ({"traceparent": f"cc{TRACE[2:]}"}, None),
        ({"traceparent": f"00-{'0' * 32}-{TRACE[36:]}"}, None),
        ({"traceparent": f"{TRACE[:36]}{'0' * 16}-01"}, None),
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


EXTENSIONS: dict[str, Any] = {
    "io.modelcontextprotocol/tasks": {},
    "io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]},
    "io.modelcontextprotocol/skills": {},
}


def test_passthrough_relays_the_extensions_whole_and_no_other_words() -> None:
    assert served({"extensions": EXTENSIONS, "roots": {}}, "passthrough") == {"extensions": EXTENSIONS, "roots": {}}
    odd = {name: {**settings, "words": ["free"]} for name, settings in EXTENSIONS.items()}
    odd["io.modelcontextprotocol/ui"]["mimeTypes"] = ["free/words", "text/html;profile=mcp-app", {"x": 1}]
    odd["example.com/own"] = {"words": "free"}
    assert served({"extensions": odd, "experimental": {"x": {}}}, "passthrough") == {"extensions": EXTENSIONS}


def test_answers_are_bounded_like_arguments() -> None:
    deep: Any = 1
    for _ in range(70):
        deep = [deep]
    assert answers_problem({"q": {"action": "accept"}}, 64) is None
    assert answers_problem({"q": deep}, 64)
    assert answers_problem([], 64)
    assert answers_problem({"q": "x" * LONGEST_ANSWERS}, 64)
