"""The view *Now* in a real browser: asks as they happen, and everything about one (USE-2)."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import pytest

from tests.support import chromium
from tests.support.chromium import LOOKS, Look, Visitor
from tests.support.gateway import Running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

pytestmark = pytest.mark.proves("USE-2")

numbers = itertools.count()
HOSTILE = "</td><img src=x onerror=alert(1)>\u202egnp.exe\u200b"


def call(
    gateway: Running, tool: str = "echo", variant: str = "read", reason: str = "to see it", **more: object
) -> None:
    body = {"variant": variant, "name": f"s:{tool}", "intent": {"operation_type": variant, "reason": reason}, **more}
    gateway.post("/call", body)


def row_of(there: Visitor, reason: str) -> Locator:
    return there.page.locator("tbody tr", has_text=reason)


def new_reason() -> str:
    return f"purpose{next(numbers)}x"


def live(there: Visitor, fragment: str = "now") -> None:
    """The view, when it hears what happens: what was asked before that would be read with the page."""
    with there.page.expect_response(re.compile("/api/v1/events")):
        there.visit(fragment)


def test_an_ask_appears_as_it_happens_with_what_was_declared_and_decided(visitor: Visitor, looked_at: Running) -> None:
    live(visitor)
    passed, refused = new_reason(), new_reason()
    call(looked_at, "hint_t_f", reason=passed)
    row_of(visitor, passed).get_by_text("success").wait_for()
    assert "read" in row_of(visitor, passed).inner_text()
    call(looked_at, "hint_f_t", reason=refused)
    row_of(visitor, refused).get_by_text("blocked").wait_for()
    said = row_of(visitor, refused).inner_text()
    assert "s:hint_f_t" in said
    assert "refused by class" in said
    first = visitor.page.locator("tbody tr").first
    assert refused in first.inner_text(), "the newest stands first"


def test_a_click_and_enter_open_everything_about_one_and_escape_leads_back(
    visitor: Visitor, looked_at: Running
) -> None:
    live(visitor)
    reason = new_reason()
    call(looked_at, "hint_f_t", reason=reason, args={"big": 2**70})
    opener = row_of(visitor, reason).get_by_role("button", name="Open s:hint_f_t")
    opener.wait_for()
    opener.focus()
    visitor.page.keyboard.press("Enter")
    drawer = visitor.page.get_by_role("dialog", name="s:hint_f_t")
    drawer.locator(".record-detail").wait_for()
    said = drawer.inner_text()
    for part in (reason, "call_tool_read", "refused by class", "destructive", str(2**70), "9 passed before it"):
        assert part in said, part
    rungs = drawer.locator("ol li")
    assert rungs.count() == 13
    shown = [rungs.nth(at).locator("svg[role=img]").get_attribute("aria-label") for at in range(13)]
    assert shown == ["passed"] * 9 + ["refused here"] + ["not reached"] * 3
    assert visitor.problems() == []
    visitor.page.keyboard.press("Escape")
    drawer.wait_for(state="detached")
    assert visitor.page.evaluate("document.activeElement.getAttribute('aria-label')") == "Open s:hint_f_t"
    row_of(visitor, reason).click()
    drawer.get_by_role("link", name="s", exact=True).wait_for()
    assert drawer.get_by_role("link", name="s", exact=True).get_attribute("href") == "#servers/s"
    drawer.get_by_role("link", name="its calls").click()
    visitor.page.wait_for_url("**/ui#record?server=s&tool=hint_f_t")
    assert visitor.page.get_by_role("dialog").count() == 0


def test_while_paused_nothing_moves_and_going_on_shows_what_came(visitor: Visitor, looked_at: Running) -> None:
    live(visitor)
    reason = new_reason()
    visitor.page.get_by_role("button", name="Pause").click()
    call(looked_at, "hint_t_f", reason=reason)
    go_on = visitor.page.get_by_role("button", name="Go on (1 new)")
    go_on.wait_for()
    assert row_of(visitor, reason).count() == 0
    go_on.click()
    row_of(visitor, reason).wait_for()
    assert visitor.page.get_by_role("button", name="Pause").get_attribute("aria-pressed") == "false"


def test_a_filter_holds_for_what_was_and_what_comes_and_stands_in_the_address(
    visitor: Visitor, looked_at: Running
) -> None:
    before, after = new_reason(), new_reason()
    call(looked_at, "hint_t_f", reason=before)
    call(looked_at, "hint_f_t", reason=before)
    live(visitor)
    visitor.page.get_by_label("Status").select_option("blocked")
    visitor.page.wait_for_url("**/ui#now?status=blocked")
    row_of(visitor, before).wait_for()
    visitor.page.wait_for_function("() => !document.querySelector('tbody').innerText.includes('success')")
    call(looked_at, "hint_t_f", reason=after)
    call(looked_at, "hint_f_t", reason=after)
    row_of(visitor, after).wait_for()
    assert "success" not in visitor.text("tbody")
    visitor.page.get_by_role("button", name="Clear").click()
    visitor.page.wait_for_url("**/ui#now")
    visitor.page.wait_for_function("() => document.querySelector('tbody').innerText.includes('success')")


def test_what_an_agent_writes_is_only_ever_text(visitor: Visitor, looked_at: Running) -> None:
    live(visitor)
    mark = new_reason()
    call(looked_at, "hint_f_t", reason=mark + HOSTILE, args={"x": HOSTILE})
    row_of(visitor, mark).wait_for()
    assert visitor.page.locator("main img").count() == 0
    shown = row_of(visitor, mark).inner_text()
    assert "\\u202e" in shown
    assert "\u202e" not in shown
    row_of(visitor, mark).get_by_role("button").first.click()
    visitor.page.locator(".record-detail pre").first.wait_for()
    assert visitor.page.locator("dialog img").count() == 0
    assert "\u202e" not in visitor.text("dialog")


def test_a_burst_leaves_a_bounded_number_of_rows(visitor: Visitor, looked_at: Running) -> None:
    live(visitor)
    last = new_reason()
    for _ in range(130):
        call(looked_at, "hint_f_t", reason="burst")
    call(looked_at, "hint_f_t", reason=last)
    row_of(visitor, last).wait_for()
    assert visitor.page.locator("tbody tr").count() <= 100


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_it_fits_the_window_and_reads_well(browser: Browser, looked_at: Running, look: Look) -> None:
    reason = new_reason()
    call(looked_at, "hint_f_t", reason=f"{reason} {'x' * 300}", args={"long": "y" * 5000})
    with chromium.visitor(browser, looked_at, look) as there:
        there.visit("now")
        row_of(there, reason).wait_for()
        there.page.locator(".sum").first.wait_for()
        assert there.overflow() == []
        assert there.problems(only_colours=look.scheme == "dark") == []
        row_of(there, reason).get_by_role("button").first.click()
        there.page.locator(".record-detail").wait_for()
        assert there.page.evaluate(
            "(({scrollWidth, clientWidth}) => scrollWidth <= clientWidth)(document.querySelector('dialog'))"
        )
        assert there.overflow() == []
        assert there.problems(only_colours=look.scheme == "dark") == []
