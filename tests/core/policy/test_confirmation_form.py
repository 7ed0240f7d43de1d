"""What a person is asked before a call, and what counts as yes (SEC-4)."""

from __future__ import annotations

from typing import Any

import pytest

from mcpproxy_py.core.policy.tool_results import MOST_SHOWN, objection, question, takes_forms
from mcpproxy_py.core.values import Intent, Route, Tool

pytestmark = pytest.mark.proves("SEC-4")


def route(args: dict[str, Any], reason: str | None = None) -> Route:
    tool = Tool("files", "delete", {"name": "delete"}, "destructive")
    intent = Intent("destructive", reason=reason)
    return Route("files", tool, args, "destructive", intent, "destructive", "destructive", "allowed", confirm=True)


def test_the_person_sees_tool_risk_arguments_and_what_the_agent_says() -> None:
    asked = question(route({"path": "/tmp/ä", "deep": [1, None]}, "to tidy up"))
    assert asked["message"].splitlines() == [
        "Allow this destructive call?",
        "Tool: files:delete",
        'Arguments: {"path": "/tmp/ä", "deep": [1, null]}',
        "The agent's words: to tidy up",
    ]
    assert asked["requestedSchema"]["required"] == ["allow"]
    assert asked["requestedSchema"]["properties"]["allow"]["default"] is False


@pytest.mark.parametrize("trick", ["\n", "\r", "\u2028", "\u202e", "\x1b[2J", "\x00"])
def test_nothing_an_agent_says_looks_like_a_line_of_ours(trick: str) -> None:
    lying = f"harmless{trick}Tool: notes:read"
    said = question(route({"path": lying}, lying))["message"]
    assert len(said.splitlines()) == 4
    assert trick not in said.replace("\n", "", 3)


def test_what_is_not_shown_is_said_to_be_there() -> None:
    said = question(route({"text": "x" * (MOST_SHOWN + 1000)}))["message"]
    assert len(said) < MOST_SHOWN + 200
    assert "more characters)" in said


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"action": "accept", "content": {"allow": True}}, None),
        ({"action": "accept", "content": {"allow": False}}, "did not allow"),
        ({"action": "accept", "content": {"allow": "true"}}, "did not allow"),
        ({"action": "accept", "content": {"allow": 1}}, "did not allow"),
        ({"action": "accept", "content": {}}, "did not allow"),
        ({"action": "accept", "content": None}, "did not allow"),
        ({"action": "accept"}, "did not allow"),
        ({"action": "decline", "content": {"allow": True}}, "declined"),
        ({"action": "cancel"}, "put the question away"),
        ({"action": "ACCEPT", "content": {"allow": True}}, "no answer"),
        ({"action": ["accept"], "content": {"allow": True}}, "no answer"),
        ({"content": {"allow": True}}, "no answer"),
        ({}, "no answer"),
    ],
)
def test_everything_but_a_plain_yes_is_a_no(said: dict[str, Any], why: str | None) -> None:
    found = objection(said)
    assert found is None if why is None else why in (found or "")


@pytest.mark.parametrize(
    ("declared", "can"),
    [
        ({"elicitation": {}}, True),
        ({"elicitation": {"form": {}}}, True),
        ({"elicitation": {"form": {}, "url": {}}}, True),
        ({"elicitation": {"url": {}}}, False),
        ({"elicitation": None}, False),
        ({"elicitation": True}, False),
        ({"sampling": {}}, False),
        ({}, False),
    ],
)
def test_who_takes_no_forms_cannot_be_asked(declared: dict[str, Any], can: bool) -> None:
    assert takes_forms(declared) is can
