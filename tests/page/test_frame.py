"""The frame of the page in a real browser: the way to every view, by eye, keyboard and screen reader (USE-2)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import chromium
from tests.support.chromium import LOOKS, Look, Visitor
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
            assert there.problems() == []


def test_without_a_session_the_page_says_how_to_get_one(browser: Browser, looked_at: Running) -> None:
    with chromium.visitor(browser, looked_at, signed_in=False) as there:
        there.page.goto(looked_at.url)
        assert there.page.url == f"{looked_at.url}/ui"
        there.page.get_by_role("alert").wait_for()
        assert "mcpproxy ui" in there.text()
        assert there.problems() == []


def test_a_session_that_the_gateway_does_not_know_is_over(visitor: Visitor) -> None:
    visitor.page.set_extra_http_headers({})
    said = visitor.page.evaluate("import('/ui/rest.js').then(({get}) => get('/status')).catch((error) => error.status)")
    assert said == 401
    assert "This session has ended" in visitor.text()
    assert visitor.page.locator("nav a").count() == 0
    visitor.wrong.clear()
