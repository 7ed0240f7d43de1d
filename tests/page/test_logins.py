"""A person at the page logs in to a server: by its link, by handing over an address, for one permission more (UP-9).

The authorization server is a real one, of the test, which says yes to everybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.page.test_views import say_yes
from tests.support import chromium
from tests.support.authserver import AuthServer, auth_server
from tests.support.browser import visit
from tests.support.chromium import Visitor
from tests.support.gateway import Running, gateway, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.proves("USE-2", "UP-9")
NAME = "guarded"


@pytest.fixture
def site() -> Iterator[AuthServer]:
    with auth_server() as found:
        yield found


@pytest.fixture
def guarded(site: AuthServer, tmp_path: Path) -> Iterator[Running]:
    with gateway(tmp_path / "data", site.config, wait=False) as running:
        running.wait_for(NAME, state="needs_login")
        yield running


def call(running: Running, tool: str, operation: str) -> dict[str, Any]:
    body = {"variant": operation, "name": f"{NAME}:{tool}", "args": {}, "intent": {"operation_type": operation}}
    return running.post("/call", body).json()


def log_in(there: Visitor) -> str:
    """By the link, in a window of its own. What that says at the end."""
    there.page.get_by_role("button", name="Log in").click()
    with there.page.expect_popup() as opened:
        there.page.get_by_role("link", name="Open the login page of this server").click()
    window = opened.value
    window.wait_for_url("**/callback?**")
    window.wait_for_load_state()
    said = window.inner_text("body")
    window.close()
    there.page.get_by_text(f"Logged in to {NAME}").wait_for()
    return said


def test_a_server_is_logged_in_to_used_and_logged_out_of(browser: Browser, guarded: Running, site: AuthServer) -> None:
    with chromium.visitor(browser, guarded) as there:
        there.visit("servers")
        there.page.get_by_role("link", name="Log in", exact=True).click()
        assert "go back" in log_in(there)
        guarded.wait_for(NAME)
        there.page.get_by_role("button", name="Log out").nth(1).wait_for()
        assert "did look" in str(call(guarded, "look", "read"))
        assert not any(secret in there.page.content() for secret in site.secrets)
        there.page.locator("main").get_by_role("button", name="Log out").click()
        assert "refused until somebody logs in again" in say_yes(there, "Log out")
        guarded.wait_for(NAME, state="needs_login")
        there.page.locator("main").get_by_role("button", name="Log in").wait_for()
    assert site.counts["authorize"] == 1


def test_the_address_is_handed_over_where_the_browser_does_not_reach_the_gateway(
    browser: Browser, guarded: Running
) -> None:
    with chromium.visitor(browser, guarded, excused=["400"]) as there:
        there.visit("waiting")
        there.page.get_by_role("button", name="Log in").click()
        link = there.page.get_by_role("link", name="Open the login page of this server")
        address = visit(str(link.get_attribute("href")), goes_home=False)
        there.page.get_by_text("Your browser cannot reach the gateway?").click()
        field = there.page.get_by_label("The whole address that it was sent to")
        field.fill(address.replace("state=", "state=x"))
        there.page.get_by_role("button", name="Hand it over").click()
        there.page.get_by_role("alert").get_by_text("not one to this login").wait_for()
        field.fill(address)
        there.page.get_by_role("button", name="Hand it over").click()
        there.page.get_by_text(f"Logged in to {NAME}").first.wait_for()
        there.page.get_by_text("No server wants a login.").wait_for()
    guarded.wait_for(NAME)


def test_a_permission_more_waits_for_a_person_while_other_calls_go_on(
    browser: Browser, guarded: Running, site: AuthServer
) -> None:
    site.needs["change"] = "write"
    visit(guarded.post(f"/servers/{NAME}/login", {}).json()["authorization_url"])
    guarded.wait_for(NAME)
    assert "one more permission (write)" in str(call(guarded, "change", "write"))
    with chromium.visitor(browser, guarded) as there:
        there.visit("servers")
        there.page.get_by_role("link", name="Log in for one permission more").wait_for()
        there.visit("waiting")
        there.page.get_by_text("It turned a call away for one permission more: write").wait_for()
        assert there.problems() == []
        assert "did look" in str(call(guarded, "look", "read"))
        log_in(there)
        there.page.get_by_text("No server wants a login.").wait_for()
    until(lambda: "did change" in str(call(guarded, "change", "write")))
