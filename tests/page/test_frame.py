"""The frame of the page in a real browser: the way to every view, by eye, keyboard and screen reader (USE-2)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import chromium
from tests.support.chromium import LOOKS, Look
from tests.support.gateway import Running

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.proves("USE-2")

VIEWS = ["now", "record", "waiting", "servers", "tools", "gaps", "agents", "settings", "health"]
THERE = [
    view for view in VIEWS if (Path(__file__).parents[2] / f"mcpproxy_py/serve/page/static/views/{view}.js").exists()
]


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_every_view_is_one_click_away_fits_the_window_and_can_be_read_to_somebody(
    browser: Browser, looked_at: Running, look: Look
) -> None:
    with chromium.visitor(browser, looked_at, look, excused=["404"] if THERE != VIEWS else []) as there:
        for view in VIEWS:
            there.page.get_by_role("navigation").get_by_role("link", name=view.capitalize()).click()
            there.page.locator(f"main .view.{view}:not([aria-busy])").wait_for()
            assert there.page.evaluate("document.activeElement.tagName") in ("H1", "A")
            assert there.overflow() == []
            assert there.problems(only_colours=look.scheme == "dark") == []


def test_without_a_session_the_page_says_how_to_get_one(browser: Browser, looked_at: Running) -> None:
    with chromium.visitor(browser, looked_at, signed_in=False) as there:
        there.page.goto(looked_at.url)
        assert there.page.url == f"{looked_at.url}/ui"
        there.page.get_by_role("alert").wait_for()
        assert "mcpproxy ui" in there.text()
        assert there.problems() == []


STATUS = "import('/ui/rest.js').then(({get}) => get('/status')).then(() => 200, (error) => error.status)"


def test_a_link_opens_the_page_and_leaves_neither_address_nor_history_with_its_code(
    browser: Browser, looked_at: Running
) -> None:
    with chromium.visitor(browser, looked_at, own_session=True) as there:
        assert there.page.url == f"{looked_at.url}/ui"
        assert there.page.evaluate("history.length") <= 2, "the empty page that a window begins with, and ours"
        assert there.page.evaluate(STATUS) == 200
        assert there.page.evaluate("document.cookie") == "", "no script can read its half"


@pytest.mark.parametrize("by", ["button", "command"])
def test_a_session_ends_on_the_page_and_from_the_command_line(browser: Browser, looked_at: Running, by: str) -> None:
    with chromium.visitor(browser, looked_at, own_session=True, excused=["401", "INCOMPLETE"]) as there:
        if by == "button":
            there.page.get_by_role("button", name="Log out").click()
            there.page.get_by_text("You have logged out").wait_for()
            assert there.page.evaluate("localStorage.length") == 0
        else:
            assert looked_at.client.delete("/api/v1/page/sessions").json()["ended"] >= 1
            chromium.forget_sessions(looked_at)
            assert there.page.evaluate(STATUS) == 401
            assert "This session has ended" in there.text()
        assert there.page.locator("nav a").count() == 0, "nothing of the gateway stays on the screen"
        assert there.problems() == []
