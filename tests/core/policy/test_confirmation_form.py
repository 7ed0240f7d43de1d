"""What a person is asked before a call, and what counts as yes (SEC-4)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpproxy_py.core.policy.confirmation import (
    HEAD,
    MOST_LINES,
    MOST_SHOWN,
    TAIL,
    arguments_digest,
    objection,
    question,
    takes_forms,
)
from mcpproxy_py.core.policy.confusables import is_invisible
from mcpproxy_py.core.values import Intent, Route, Tool
from mcpproxy_py.gateway.masker import MASKER

pytestmark = pytest.mark.proves("SEC-4")


def route(args: dict[str, Any], reason: str | None = None) -> Route:
    schema = {"properties": {"path": {}, "force": {}, "files": {}, "command": {}}}
    tool = Tool("files", "delete", {"name": "delete", "inputSchema": schema}, "destructive")
    intent = Intent("destructive", reason=reason)
    return Route("files", tool, args, "destructive", intent, "destructive", "destructive", "allowed", confirm=True)


def test_the_person_sees_tool_risk_arguments_and_what_the_agent_says() -> None:
    asked = question(route({"path": "/tmp/ä", "deep": [1, None]}, "to tidy up"))
    assert asked["message"].splitlines() == [
        "Allow this destructive call?",
        "Tool: files:delete",
        "Server: files",
        "Class: destructive by server",
        f"Arguments: 3 values, 38 bytes of JSON, SHA-256 {arguments_digest({'deep': [1, None], 'path': '/tmp/ä'})}",
        '- path: "/tmp/ä"',
        "- deep[0]: 1",
        "- deep[1]: null",
        'The agent\'s words, which nobody checked: "to tidy up"',
    ]
    assert asked["requestedSchema"]["required"] == ["allow"]
    assert asked["requestedSchema"]["properties"]["allow"]["default"] is False


@pytest.mark.parametrize("trick", ["\n", "\r", "\u2028", "\u202e", "\x1b[2J", "\x00"])
def test_nothing_an_agent_says_looks_like_a_line_of_ours(trick: str) -> None:
    lying = f"harmless{trick}Tool: notes:read"
    said = question(route({"path": lying}, lying))["message"]
    assert len(said.splitlines()) == 7
    assert trick not in said.replace("\n", "", 6)
    assert all(line.startswith(STARTS) for line in said.splitlines())


STARTS = ("Allow this ", "Tool: ", "Server: ", "Class: ", "Arguments: ", "- ", "Not shown: ", "The agent's words, ")


def test_what_is_not_shown_is_said_to_be_there() -> None:
    said = question(route({"text": "x" * (MOST_SHOWN + 1000)}))["message"]
    assert len(said) < MOST_SHOWN + 200
    assert f"{MOST_SHOWN + 1000 - HEAD - TAIL:,} more characters" in said


def lines(args: dict[str, Any], **other: Any) -> list[str]:
    return [line for line in question(route(args, **other))["message"].splitlines() if line.startswith("- ")]


def test_padding_does_not_hide_what_the_tool_declares() -> None:
    padding: dict[str, Any] = {f"a{n}": n for n in range(30_000)}
    shown = lines({**padding, "files": ["x"] * 5000, "path": "/etc", "command": "rm " * 1000})
    assert shown[0] == '- files[0]: "x"'
    assert '- path: "/etc"' in shown
    assert shown[-1].startswith('- command: "rm rm')
    assert len(shown) == MOST_LINES


def test_the_end_of_a_long_value_is_shown_too() -> None:
    (shown,) = lines({"command": "echo " + " " * 5000 + "; rm -rf /"})
    assert "echo" in shown and shown.endswith('; rm -rf /"')


def test_a_secret_is_masked_and_its_place_is_shown() -> None:
    token = "ghp_" + "a1B2" * 9
    for padding in ("", "x" * 100_000):
        args = {"password": "hunter2", "text": f"use {token} {padding}", "all": {"cookie": [1, "abc"]}}
        asked = question(route(args), MASKER.mask)["message"]
        assert "- password: " in asked and "hunter2" not in asked
        assert "- text: " in asked and token not in asked
        assert "- all.cookie[1]: " in asked and "abc" not in asked.partition("SHA-256")[2][65:]


HOSTILE = st.text(st.sampled_from('ab"\\ \n\r\t\x1b\x00\u202e\u2066\u200b\u2028\u0336\ufe0f\U000e0041äж'), max_size=40)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | HOSTILE | HOSTILE.map(lambda t: t * 99)
)
VALUES = st.recursive(SCALARS, lambda more: st.lists(more, max_size=5) | st.dictionaries(HOSTILE, more, max_size=5))
WORDS = st.sampled_from(["path", "force", "extra", "Tool: x", "a.b", "[0]"])
ARGUMENTS = st.dictionaries(WORDS | HOSTILE, VALUES, max_size=60)


def count(value: Any) -> int:
    below = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return sum(map(count, below)) if below else 1


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(args=ARGUMENTS, reason=HOSTILE.filter(bool), pad=st.integers(0, 200))
def test_whatever_the_arguments_are_each_value_is_shown_or_counted(args: dict[str, Any], reason: str, pad: int) -> None:
    args = {**{f"pad{n}": "x" for n in range(pad)}, **args}
    said = question(route(args, reason), MASKER.mask)["message"]
    rows = said.split("\n")
    assert rows == said.splitlines(), "nothing else breaks a line"
    assert all(row.startswith(STARTS) for row in rows)
    assert [row.partition(" ")[0] for row in rows[:5]] == ["Allow", "Tool:", "Server:", "Class:", "Arguments:"]
    assert len(said) < MOST_SHOWN + 2000
    assert not [char for char in said if char != "\n" and (not char.isprintable() or is_invisible(char))]
    shown = [row for row in rows if row.startswith("- ")]
    left = [row for row in rows if row.startswith("Not shown: ")]
    every = sum(map(count, args.values()))
    if args:
        assert f"Arguments: {every:,} value" in said and arguments_digest(args) in said
        assert len(shown) + (int(left[0].split()[2].replace(",", "")) if left else 0) == every
    declared = [key for key in ("path", "force") if key in args]
    assert sum(row.startswith(tuple(f"- {key}" for key in declared)) for row in shown) >= len(declared)


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
