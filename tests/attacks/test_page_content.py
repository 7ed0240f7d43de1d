"""What agents and servers write, on every view of the page in a real browser: HTML, script, bidirectional marks, what
nobody sees, and a megabyte. It is text, it is cut, and it fits the window (USE-2)."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support import chromium
from tests.support.chromium import LOOKS, Visitor
from tests.support.gateway import SERVERS, Running, gateway, until
from tests.support.wire import HANDSHAKE, Wire

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.proves("USE-2")
HOSTILE = (
    '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script><svg onload=window.pwned=1>'
    '</td></table></pre></bdi><a href="javascript:window.pwned=1">x</a>'
    " \u202edrowssap\u2066 \u200b\u00ad\U000e0041 {{7*7}} ${1}"
)
UNSEEN = "\u202e\u2066\u200b\u00ad\U000e0041"
MEGABYTE = "A" * 1_000_000
NAMED = "(document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent)"
CUT = "label-content-name-mismatch"
"""The name of a button is cut sooner than its text."""
VIEWS = ["now", "record", "waiting", "servers", "servers/s", "tools", "gaps", "agents", "settings", "health"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium.browser() as running:
        yield running


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("content")
    (home / "log").write_text(f"{HOSTILE}\n{MEGABYTE}\n{HOSTILE}\n")
    schema = {"type": "object", "description": HOSTILE, "properties": {"mark": {"type": "string", "title": HOSTILE}}}
    tools = [
        {"name": "look", "title": HOSTILE, "description": HOSTILE, "inputSchema": schema,
         "annotations": {"readOnlyHint": True, "title": HOSTILE}},
        {"name": "wipe", "description": f"{HOSTILE} {'long ' * 20_000}", "inputSchema": schema},
        {"name": HOSTILE, "description": "a name that nobody can mean", "inputSchema": schema},
        {"name": "w" * 128, "description": "W" * 5_000, "inputSchema": schema},
    ]  # fmt: skip
    (home / "says").write_text(json.dumps({"tools": tools, "instructions": HOSTILE}))
    words = [sys.executable, str(SERVERS / "heard.py"), "--log", str(home / "heard"), "--says", str(home / "says")]
    script = f"cat {shlex.quote(str(home / 'log'))} >&2; exec {shlex.join(words)}"
    config = {"mcpServers": {"s": {"command": "sh", "args": ["-c", script], "confirm": "destructive"},
                             "gone": {"command": "false", "args": [HOSTILE]}}}  # fmt: skip
    with gateway(home / "data", config, wait=False) as found:
        found.wait_for("s")
        ask(found)
        yield found


def ask(running: Running) -> None:
    """Everything that an agent can put somewhere."""
    agent = Wire(running.mcp, HANDSHAKE, name=HOSTILE[:100])
    said = {"operation_type": "read", "reason": HOSTILE}
    for mark in (HOSTILE, MEGABYTE):
        agent.call("call_tool_read", {"name": "s:look", "args": {"mark": mark}, "intent": said})
    agent.call("call_tool_read", {"name": f"s:{HOSTILE}", "args": {HOSTILE: HOSTILE}, "intent": said})
    agent.call("call_tool_read", {"name": "s:wipe", "args": {"mark": HOSTILE}, "intent": said})
    agent.call("retrieve_tools", {"query": HOSTILE})
    wish = {"agent_id": HOSTILE[:60], "mcp_name": "notion", "rationale": HOSTILE}
    assert running.client.post("/mcp/request-capability", json=wish).status_code < 500
    running.post("/tokens", {"name": "agent", "note": HOSTILE[:200]})
    running.catch_up()


def harmless(there: Visitor) -> None:
    """Nothing of it ran, became an element, or turns the text around."""
    assert there.page.evaluate("window.pwned") is None
    wrong = "img, script, iframe, object, table table table, a[href^='javascript' i], [onload], [onerror]"
    assert there.page.locator(f"main :is({wrong}), dialog :is({wrong})").count() == 0
    shown = there.page.evaluate("document.body.innerText")
    assert not any(each in shown for each in UNSEEN)
    assert len(shown) < 150_000, "a megabyte is cut"


def test_whatever_is_written_is_text_on_every_view_and_fits_the_window(browser: Browser, running: Running) -> None:
    """Each view is opened once, and then looked at in every way: what it costs is to have them drawn."""
    seen = ""
    with chromium.visitor(browser, running, LOOKS[0]) as there:
        there.page.on("dialog", lambda dialog: dialog.dismiss())
        for view in VIEWS:
            there.visit(view)
            if view == "now":
                there.page.get_by_text("s:look").first.wait_for()
            for look in LOOKS:
                there.looks(look)
                harmless(there)
                assert there.overflow() == [], (view, look)
                found = [
                    each for each in there.problems(only_colours=look.scheme == "dark") if not each.startswith(CUT)
                ]
                assert found == [], (view, look)
            seen += there.text()
    assert "\\u202e" in seen, "it is said that there is something"


def test_a_record_of_it_is_text_in_full_as_well(browser: Browser, running: Running) -> None:
    rows = until(lambda: running.activities(tool="look"), what="the records")
    with chromium.visitor(browser, running) as there:
        for row in rows:
            there.visit("record?server=s&tool=look")
            there.page.locator(f"tr[data-id='{row['id']}']").click()
            there.page.locator(".record-detail").first.wait_for()
            harmless(there)
            assert there.overflow() == []
            there.page.keyboard.press("Escape")
            there.page.get_by_role("dialog").wait_for(state="detached")


def test_from_the_link_to_an_approval_with_the_keyboard_alone(browser: Browser, running: Running) -> None:
    with chromium.visitor(browser, running, own_session=True) as there:
        keyboard = there.page.keyboard
        reach(there, "document.activeElement.matches('nav a[data-view=waiting]')")
        keyboard.press("Enter")
        there.page.locator("main .view.waiting:not([aria-busy])").wait_for()
        reach(there, f"/^approve/i.test({NAMED})")
        keyboard.press("Enter")
        there.page.get_by_role("dialog").wait_for()
        there.page.wait_for_timeout(400)  # it is deaf at first, for a click that began elsewhere
        reach(there, f"document.activeElement.closest('dialog') && /^(approve|yes)/i.test({NAMED})")
        keyboard.press("Enter")
        there.page.get_by_role("dialog").wait_for(state="detached")
    decided = until(lambda: [each for each in running.get("/approvals")["approvals"] if each["status"] == "approved"])
    assert decided[0]["reviewed_from"] == "ui"


def reach(there: Visitor, where: str) -> None:
    """Tab, until the focus is there."""
    for _ in range(80):
        there.page.keyboard.press("Tab")
        if there.page.evaluate(f"Boolean({where})"):
            return
    raise AssertionError(f"nobody gets there with Tab: {where}")
