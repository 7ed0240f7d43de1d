from __future__ import annotations

from typing import Any

import pytest

from mcpproxy_py.settings.changes import loosened, needs_restart
from mcpproxy_py.settings.models import Settings

STRICT: dict[str, Any] = {
    "intent_declaration": {"unannotated": "destructive"},
    "mcpServers": {
        "s": {
            "command": "x", "trust_annotations": False, "confirm": "write", "deny_tools": ["drop"],
            "allow_tools": ["a"], "tools": {"t": "destructive"},
        }
    },
}  # fmt: skip


def made(values: dict[str, Any]) -> Settings:
    return Settings.model_validate(values)


def changed(**server: Any) -> dict[str, Any]:
    return {**STRICT, "mcpServers": {"s": {**STRICT["mcpServers"]["s"], **server}}}


@pytest.mark.proves("UP-8")
@pytest.mark.parametrize(
    ("after", "words"),
    [
        ({**STRICT, "intent_declaration": {"strict_server_validation": False, "unannotated": "destructive"}}, "is off"),
        ({**STRICT, "intent_declaration": {"unannotated": "write"}}, "unannotated went from destructive to write"),
        ({**STRICT, "intent_declaration": {"unannotated": "destructive", "missing": "infer"}}, "missing went from"),
        ({**STRICT, "surfaces": ["gate", "direct"]}, "surface direct was opened"),
        (changed(trust_annotations=True), "s: its annotations are trusted now"),
        (changed(confirm="destructive"), "s: confirm went from write to destructive"),
        (changed(confirm="none"), "s: confirm went from write to none"),
        (changed(deny_tools=[]), "s: drop is no longer denied"),
        (changed(allow_tools=["a", "b"]), "s: more tools are allowed"),
        (changed(allow_tools=None), "s: more tools are allowed"),
        (changed(tools={"t": "read"}), "can class it read, before destructive"),
        (changed(tools={}), "the override of t (destructive) is gone"),
        (changed(tools={"t": "destructive", "u": "read"}), "u can class it read, before as its server says"),
    ],
)
def test_whatever_a_change_permits_is_said(after: dict[str, Any], words: str) -> None:
    said = loosened(made(STRICT), made(after))
    assert len(said) == 1
    assert words in said[0]
    assert loosened(made(STRICT), made(STRICT)) == []


@pytest.mark.proves("UP-8")
def test_tightening_and_new_servers_are_no_loosening() -> None:
    lax = {"mcpServers": {"s": {"command": "x"}}}
    assert (
        loosened(made(lax), made({"mcpServers": {"s": {"command": "x", "deny_tools": ["a"]}, "n": {"command": "y"}}}))
        == []
    )


@pytest.mark.proves("UP-8", "PROV-5")
def test_what_a_provider_is_permitted_is_said_like_that_of_a_server() -> None:
    before, after = ({"providers": {"p": {"object": "m:p", "deny_tools": denied}}} for denied in (["drop"], []))
    assert loosened(made(before), made(after)) == ["p: drop is no longer denied"]


@pytest.mark.proves("UP-8")
def test_what_cannot_change_while_running_is_named() -> None:
    assert needs_restart(made({}), made({"limits": {"max_in_flight": 5}, "listen": "127.0.0.1:1"})) == [
        "listen",
        "limits",
    ]
