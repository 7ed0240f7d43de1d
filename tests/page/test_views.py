"""The views of the page in a real browser, and what a person does in them: servers, tools, agents, settings (USE-2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import chromium
from tests.support.chromium import LOOKS, Look, Visitor
from tests.support.gateway import Running, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

pytestmark = pytest.mark.proves("USE-2")

HERE = [
    "waiting", "servers", "servers/s", "servers?add=catalog&query=git", "servers?add=catalog&slug=github",
    "servers?add=command", "servers?add=url", "tools", "tools?q=write a note", "tools/s:write_note", "gaps", "agents",
    "settings", "health",
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def something_to_see(looked_at: Running) -> Iterator[None]:
    for variant in ("read", "write", "destructive"):
        body = {"variant": variant, "name": "s:write_note", "args": {"text": "x"}}
        looked_at.post("/call", {**body, "intent": {"operation_type": variant}})
    looked_at.client.post("/mcp/request-capability", json=wish("zulip"))
    looked_at.catch_up()
    yield


def wish(name: str) -> dict[str, str]:
    return {"agent_id": "claude", "mcp_name": name, "rationale": "the weekly report"}


def question(there: Visitor) -> Locator:
    """The dialog that asks before something changes. Its buttons wait until it has been there for a moment."""
    shown = there.page.locator("dialog[open]")
    shown.wait_for()
    there.page.wait_for_timeout(350)
    return shown


def say_yes(there: Visitor, label: str) -> str:
    """What the question said."""
    shown = question(there)
    said = shown.inner_text()
    shown.get_by_role("button", name=label, exact=True).click()
    shown.wait_for(state="detached")
    return said


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_every_view_fits_the_window_and_can_be_read_to_somebody(
    browser: Browser, looked_at: Running, look: Look
) -> None:
    with chromium.visitor(browser, looked_at, look) as there:
        for fragment in HERE:
            there.visit(fragment)
            assert there.page.locator("main .problem").count() == 0, fragment
            assert there.overflow() == [], fragment
            assert there.problems(only_colours=look.scheme == "dark") == [], fragment


def test_what_fails_at_the_gateway_is_said_with_the_next_step(visitor: Visitor) -> None:
    visitor.visit("tools/s:no_such_tool")
    assert "There is no tool" in visitor.page.get_by_role("alert").inner_text()
    visitor.visit("servers/no-such-server")
    assert "There is no server" in visitor.page.get_by_role("alert").inner_text()
    visitor.wrong.clear()  # the browser writes down each 404


# Tools.


def test_the_search_of_agents_stands_beside_what_they_are_given(visitor: Visitor) -> None:
    visitor.visit("tools")
    visitor.page.get_by_label("Search").fill("write a note")
    visitor.page.keyboard.press("Enter")
    visitor.page.get_by_text("What an agent finds").wait_for()
    assert "s:write_note" in visitor.text(".beside table")
    assert '"usage_instructions"' in visitor.text(".beside pre")


@pytest.mark.proves("USE-9")
def test_another_class_says_what_it_would_have_done_to_past_calls_before_it_is_set(
    visitor: Visitor, looked_at: Running
) -> None:
    visitor.visit("tools/s:write_note")
    visitor.page.get_by_label("Destructive").check()
    visitor.page.get_by_text("of the last 3 calls would have been refused").wait_for()
    visitor.page.get_by_role("button", name="Set the class").click()
    said = say_yes(visitor, "Set it to destructive")
    assert "s:write_note goes from write to destructive." in said
    assert "1 of the last 3 calls would have been refused" in said
    until(lambda: looked_at.get("/tools/s:write_note")["class"] == "destructive")
    visitor.page.get_by_text("says your override").wait_for()
    visitor.page.get_by_label("As its server says").check()
    visitor.page.get_by_role("button", name="Set the class").click()
    assert "lower than now" in say_yes(visitor, "Take the override out")
    until(lambda: looked_at.get("/tools/s:write_note")["class"] == "write")


# Servers.


def test_a_server_is_added_by_a_command_restarted_disabled_edited_and_removed(
    visitor: Visitor, looked_at: Running
) -> None:
    entry = looked_at.get("/servers/s")["config"]
    visitor.visit("servers?add=command")
    visitor.page.get_by_label("Name here").fill("second")
    line = " ".join(f"'{word}'" for word in [entry["command"], *entry["args"]])
    visitor.page.get_by_label("Command", exact=False).first.fill(line)
    visitor.page.get_by_role("button", name="See what it changes").click()
    said = say_yes(visitor, "Add")
    assert "on the gateway's machine" in said
    visitor.page.get_by_role("button", name="Restart").wait_for()
    looked_at.wait_for("second")
    assert looked_at.get("/servers/second")["config"]["args"] == entry["args"]

    visitor.page.get_by_role("button", name="Restart").click()
    assert "made anew" in say_yes(visitor, "Restart")
    looked_at.wait_for("second")
    visitor.page.get_by_text("Its entry").click()
    field = visitor.page.get_by_label("The entry", exact=True)
    field.fill(field.input_value().replace("{", '{"timeout": 7,', 1))
    visitor.page.get_by_role("button", name="Save").click()
    say_yes(visitor, "Save")
    until(lambda: looked_at.get("/servers/second")["config"].get("timeout") == 7)

    visitor.page.get_by_role("button", name="Disable").click()
    assert "can no longer be found or called" in say_yes(visitor, "Disable")
    until(lambda: looked_at.get("/servers/second")["server"]["state"] == "disabled")
    visitor.page.get_by_role("button", name="Enable").click()
    say_yes(visitor, "Enable")
    looked_at.wait_for("second")
    visitor.page.get_by_role("button", name="Remove this server").click()
    assert "Its entry goes from the configuration file" in say_yes(visitor, "Remove")
    until(lambda: "second" not in {row["name"] for row in looked_at.get("/servers")["servers"]})
    visitor.page.get_by_role("link", name="Add a command").wait_for()


def test_cancel_and_a_wrong_entry_change_nothing(visitor: Visitor, looked_at: Running) -> None:
    before = (Path(looked_at.data_dir) / "mcp_config.json").read_text()
    visitor.visit("servers?add=url")
    visitor.page.get_by_label("Name here").fill("web")
    visitor.page.get_by_label("Address", exact=False).first.fill("https://user:secret@example.com/mcp?token=abc")
    visitor.page.get_by_label("Headers for it").fill("Authorization: Bearer secretsecret")
    visitor.page.get_by_role("button", name="See what it changes").click()
    shown = question(visitor)
    assert "It connects to example.com" in shown.inner_text()
    assert "secret" not in shown.inner_text()
    visitor.page.keyboard.press("Escape")
    shown.wait_for(state="detached")
    visitor.page.get_by_label("Name here").fill("Bad Name")
    visitor.page.get_by_role("button", name="See what it changes").click()
    assert "is not valid" in visitor.page.locator("form [role=alert]").inner_text()
    assert (Path(looked_at.data_dir) / "mcp_config.json").read_text() == before
    visitor.wrong.clear()  # the refusal


def test_a_server_of_the_catalog_asks_for_what_it_needs(visitor: Visitor) -> None:
    visitor.visit("servers?add=catalog&query=github")
    visitor.page.get_by_role("link", name="GitHub", exact=True).click()
    field = visitor.page.get_by_label("GITHUB_PERSONAL_ACCESS_TOKEN")
    assert field.input_value() == "${env:GITHUB_PERSONAL_ACCESS_TOKEN}"


# Agents.


@pytest.mark.proves("SEC-2")
def test_a_token_is_made_shown_once_rotated_and_revoked(visitor: Visitor, looked_at: Running) -> None:
    visitor.visit("agents")
    visitor.page.get_by_text("Create a token").click()
    visitor.page.get_by_label("Name", exact=False).first.fill("claude-laptop")
    visitor.page.get_by_label("It may").select_option("read")
    visitor.page.get_by_role("button", name="Create the token").click()
    secret = visitor.page.get_by_label("The token", exact=True)
    first = secret.input_value()
    assert first and secret.is_visible()
    visitor.page.get_by_role("button", name="I have it").click()
    visitor.page.get_by_role("button", name="Rotate claude-laptop").wait_for()
    assert first not in visitor.page.content()
    made = looked_at.get("/tokens/claude-laptop")
    assert (made["operations"], made["state"]) == (["read"], "active")
    visitor.page.get_by_role("button", name="Rotate claude-laptop").click()
    say_yes(visitor, "Rotate")
    assert secret.input_value() not in ("", first)
    visitor.page.get_by_role("button", name="I have it").click()
    visitor.page.get_by_role("button", name="Revoke claude-laptop").click()
    assert "shut out at once" in say_yes(visitor, "Revoke")
    until(lambda: looked_at.get("/tokens/claude-laptop")["state"] == "revoked")


# Settings and the freeze.


@pytest.mark.proves("GATE-13")
def test_freeze_is_one_large_button_that_says_what_it_does(visitor: Visitor, looked_at: Running) -> None:
    visitor.visit("settings")
    visitor.page.get_by_role("button", name="Freeze: refuse everything above read").click()
    assert "Reads go on" in say_yes(visitor, "Freeze")
    visitor.page.get_by_text("The gateway is frozen.").wait_for()
    assert looked_at.get("/status")["frozen"] is True
    visitor.page.get_by_role("button", name="Lift the freeze").click()
    say_yes(visitor, "Lift the freeze")
    visitor.page.get_by_text("The gateway is not frozen.").wait_for()
    assert looked_at.get("/status")["frozen"] is False


@pytest.mark.proves("GATE-3", "ACT-7")
def test_a_setting_is_saved_after_it_was_said_what_it_loosens(visitor: Visitor, looked_at: Running) -> None:
    visitor.visit("settings")
    visitor.page.get_by_label("strict").uncheck()
    visitor.page.get_by_role("button", name="Save").first.click()
    assert "contradictions warn instead of refusing" in say_yes(visitor, "Save")
    until(lambda: looked_at.get("/status")["mode"] == "permissive")
    changed = next(each for each in looked_at.activities(type="config_change") if each["tool"] == "change_settings")
    assert changed["principal"] == "admin"
    assert changed["arguments"]["settings"] == {"intent_declaration.strict_server_validation": False}
    visitor.page.get_by_label("strict").check()
    visitor.page.get_by_role("button", name="Save").first.click()
    assert "contradictions are refused" in say_yes(visitor, "Save")
    until(lambda: looked_at.get("/status")["mode"] == "strict")
    visitor.page.get_by_label("Keep records for this many days").fill("30")
    visitor.page.get_by_role("button", name="Save").nth(1).click()
    assert "Takes effect at the next start" in say_yes(visitor, "Save")
    until(lambda: "activity" in looked_at.get("/settings")["awaits_restart"])
    visitor.visit("health")
    assert "in force after" in visitor.text()


def test_what_says_who_comes_in_is_shown_and_cannot_be_changed(visitor: Visitor) -> None:
    visitor.visit("settings")
    visitor.page.get_by_text("Not from here").click()
    assert "listen" in visitor.text() and "who can reach the gateway" in visitor.text()


# Requests for servers.


@pytest.mark.proves("CAT-7")
def test_a_request_for_a_server_is_decided_with_a_note_by_the_keyboard_alone(
    visitor: Visitor, looked_at: Running
) -> None:
    looked_at.client.post("/mcp/request-capability", json=wish("notion"))
    visitor.visit("waiting")
    deny = visitor.page.get_by_role("button", name="Deny the request for notion")
    for _ in range(200):
        if deny.evaluate("node => node === document.activeElement"):
            break
        visitor.page.keyboard.press("Tab")
    visitor.page.keyboard.press("Enter")
    question(visitor)
    visitor.page.keyboard.type("not this quarter")
    visitor.page.keyboard.press("Tab")
    visitor.page.keyboard.press("Tab")
    visitor.page.keyboard.press("Enter")
    visitor.page.locator("section", has_text="Decided").get_by_text("not this quarter").wait_for()
    request = next(each for each in looked_at.get("/approvals")["approvals"] if each["context"]["mcp_name"] == "notion")
    assert (request["status"], request["review_notes"]) == ("denied", "not this quarter")


def test_a_request_that_comes_while_somebody_looks_is_shown(visitor: Visitor, looked_at: Running) -> None:
    visitor.visit("waiting")
    looked_at.client.post("/mcp/request-capability", json=wish("linear"))
    visitor.page.get_by_text("An agent asks for linear").wait_for()


# Gaps and health.


def test_gaps_lead_to_a_server_and_health_says_what_doctor_says(visitor: Visitor, looked_at: Running) -> None:
    visitor.visit("gaps")
    assert "zulip" in visitor.text()
    visitor.page.get_by_role("link", name="Look for a server").first.click()
    visitor.page.get_by_role("heading", name="Add a server").wait_for()
    visitor.visit("health")
    visitor.page.get_by_role("button", name="Check again").click()
    found = looked_at.get("/health")
    assert found["healthy"] and "Nothing" in visitor.text("main [role=status]")
