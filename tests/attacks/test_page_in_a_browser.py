"""The page in a real browser, with other sites beside it: they post, frame, fetch, listen, navigate and take cookies
(USE-2)."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support import chromium
from tests.support.gateway import Running, gateway, python_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.proves("USE-2")
EXCUSED = ["Failed to load", "CORS", "Refused to", "frame", "EventSource", "Content Security Policy", "ERR_"]
"""What a browser says of attempts that come to nothing."""


class SecondSite:
    """A server that means harm: it serves what a test writes, and remembers what browsers send it."""

    def __init__(self) -> None:
        self.heard: list[dict[str, str]] = []
        self.page = ""
        site = self

        class Answers(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.heard.append({"path": self.path, **{name.lower(): value for name, value in self.headers.items()}})
                body = site.page.encode()
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                return

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium.browser() as running:
        yield running


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("second-sites")
    with gateway(home / "data", {"mcpServers": {"s": python_server("plain.py")}}) as found:
        yield found


@pytest.fixture
def site() -> Iterator[SecondSite]:
    found = SecondSite()
    yield found
    found.close()


TRIES = """async ([url]) => {
  const tried = {};
  const attempt = async (name, act) => { try { tried[name] = await act(); } catch (error) { tried[name] = 'failed'; } };
  const page = { 'X-Mcpproxy-Page': localStorage.getItem('mcpproxy.page') ?? 'x', 'Content-Type': 'application/json' };
  const options = { credentials: 'include', method: 'POST', body: '{}' };
  await attempt('fetch', async () => (await fetch(url + '/api/v1/freeze', { ...options, headers: page })).status);
  await attempt('text', async () => (await fetch(url + '/api/v1/freeze', { ...options })).status);
  await attempt('blind', async () => (await fetch(url + '/api/v1/freeze', { ...options, mode: 'no-cors' })).type);
  await attempt('read', async () => (await fetch(url + '/api/v1/activity', { credentials: 'include' })).status);
  await attempt('key', async () => (await fetch(url + '/api/v1/status', { headers: { 'X-API-Key': 'x' } })).status);
  await attempt('module', async () => Object.keys(await import(url + '/ui/rest.js')).length);
  await attempt('events', () => new Promise((done) => {
    const source = new EventSource(url + '/api/v1/events', { withCredentials: true });
    source.onopen = () => done('open');
    source.onerror = () => (source.close(), done('failed'));
  }));
  await attempt('beacon', async () => (navigator.sendBeacon(url + '/api/v1/freeze', '{}'), 'sent'));
  return tried;
}"""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_second_site_gets_nothing_of_the_page_by_fetching_posting_or_listening(
    browser: Browser, running: Running, site: SecondSite, host: str
) -> None:
    with chromium.visitor(browser, running, excused=EXCUSED) as there:
        second = there.page.context.new_page()
        second.goto(f"http://{host}:{site.port}/")
        tried = second.evaluate(TRIES, [running.url])
        assert tried.pop("blind") in ("opaque", "failed")
        assert tried.pop("beacon") == "sent"
        assert set(tried.values()) == {"failed"}, tried
        second.set_content(f"<form method=post action='{running.url}/api/v1/freeze'><button>x</button></form>")
        second.get_by_role("button").click()
        second.wait_for_load_state()
        assert "FOREIGN_ORIGIN" in second.content()
    assert running.get("/status")["frozen"] is False


@pytest.mark.parametrize("way", ["frame", "object", "navigate", "open"])
def test_a_second_site_neither_frames_the_page_nor_leads_to_it(
    browser: Browser, running: Running, site: SecondSite, way: str
) -> None:
    address = f"{running.url}/ui#settings"
    site.page = {
        "frame": f"<iframe src='{address}'></iframe>",
        "object": f"<object data='{address}' type='text/html'></object>",
        "navigate": f"<a href='{address}'>look</a>",
        "open": f"<button onclick=\"window.open('{address}')\">look</button>",
    }[way]
    with chromium.visitor(browser, running, excused=EXCUSED) as there:
        second = there.page.context.new_page()
        second.goto(f"http://127.0.0.1:{site.port}/")
        if way == "navigate":
            second.get_by_role("link").click()
            second.wait_for_load_state()
            assert "FOREIGN_ORIGIN" in second.content()
        elif way == "open":
            with second.context.expect_page() as popup:
                second.get_by_role("button").click()
            popup.value.wait_for_load_state()
            assert "FOREIGN_ORIGIN" in popup.value.content()
        else:
            second.wait_for_load_state("networkidle")
            assert not any("views" in frame.content() for frame in second.frames[1:])


def test_what_another_port_of_this_machine_is_sent_opens_nothing(
    browser: Browser, running: Running, site: SecondSite
) -> None:
    """Cookies do not know ports: browsers send it there, and there it is half of nothing."""
    with chromium.visitor(browser, running, own_session=True, excused=EXCUSED) as there:
        there.page.goto(f"http://127.0.0.1:{site.port}/api/v1/status")
        there.page.goto(f"http://127.0.0.1:{site.port}/")
        assert there.page.evaluate("localStorage.length") == 0
    taken = [heard["cookie"] for heard in site.heard if "cookie" in heard]
    assert [heard["path"] for heard in site.heard if "cookie" in heard] == ["/api/v1/status"]
    for header in ({}, {"x-mcpproxy-page": "x"}, {"x-mcpproxy-page": taken[0].partition("=")[2]}):
        answer = httpx.get(f"{running.url}/api/v1/status", headers={"cookie": taken[0], **header}, trust_env=False)
        assert answer.status_code == 401


def test_the_code_of_a_link_is_in_no_request_line_no_referrer_and_no_log(
    browser: Browser, running: Running, site: SecondSite
) -> None:
    url = chromium.link(running)
    code = url.partition("#open=")[2]
    sent: list[str] = []
    with chromium.visitor(browser, running, signed_in=False, excused=EXCUSED) as there:
        there.page.on("request", lambda each: sent.append(each.url.partition("#")[0] + json.dumps(each.headers)))
        there.page.goto(url)
        there.page.get_by_role("navigation").get_by_role("link").first.wait_for()
        assert code not in there.page.url
        there.page.evaluate(f"location.href = 'http://127.0.0.1:{site.port}/next'")
        there.page.wait_for_url("**/next")
        there.page.go_back()
        assert code not in there.page.url
    assert sent and not any(code in each for each in sent)
    assert not any(running.url in heard.get("referer", "") for heard in site.heard)
    assert code not in running.stderr()


def test_a_link_that_was_used_says_so_and_how_to_get_another(browser: Browser, running: Running) -> None:
    url = chromium.link(running)
    with chromium.visitor(browser, running, signed_in=False) as there:
        there.page.goto(url)
        there.page.get_by_role("navigation").get_by_role("link").first.wait_for()
    with chromium.visitor(browser, running, signed_in=False, excused=["401"]) as there:
        there.page.goto(url)
        there.page.get_by_role("alert").get_by_text("This link was used already").wait_for()
        assert "mcpproxy ui" in there.text()
