"""The two browser servers that everybody has, from npm, with a real browser: two calls at once, one browser (UP-11)."""

from __future__ import annotations

import http.server
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.test_stdio_restart import Ide
from tests.support.chromium import QUIET, chromium
from tests.support.gateway import Running, gateway
from tests.support.node import environment, node, packages
from tests.support.wire import HANDSHAKE, MODERN

pytestmark = pytest.mark.proves("UP-11")

PROJECT = Path(__file__).parent / "npm_browsers"


class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        name = self.path.strip("/") or "start"
        body = f"<!doctype html><title>{name}</title><h1>This is {name}</h1>".encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture(scope="module")
def pages() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(60)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    browser, home = chromium(), tmp_path_factory.mktemp("browsers")
    there, env = packages(PROJECT), {"HOME": str(home), "PATH": environment()["PATH"]}
    settings = home / "playwright.json"
    options = {"executablePath": browser, "headless": True, "chromiumSandbox": False, "args": QUIET}
    settings.write_text(
        json.dumps({"browser": {"browserName": "chromium", "isolated": True, "launchOptions": options}})
    )
    flags = [f"--chromeArg={flag}" for flag in QUIET]
    chrome = ["--headless", "--isolated", "--executablePath", browser, "--no-usage-statistics", "--no-performance-crux"]
    common = {"command": node(), "env": env, "tools": {"*": "read"}, "connect_timeout": 60, "timeout": 120}
    devtools = there / "chrome-devtools-mcp" / "build" / "src" / "bin" / "chrome-devtools-mcp.js"
    servers = {
        "playwright": {**common, "args": [str(there / "@playwright" / "mcp" / "cli.js"), "--config", str(settings)]},
        "devtools": {**common, "args": [str(devtools), *chrome, *flags]},
    }
    with gateway(home / "data", {"mcpServers": servers}) as found:
        yield found


class Browser:
    """The same few things, as each server calls them."""

    def __init__(self, server: str, client: Ide) -> None:
        self.server, self.client = server, client
        self.page: dict[str, Any] = {}

    def ask(self, tool: str, **args: Any) -> int:
        intent = {"operation_type": "read"}
        arguments = {"name": f"{self.server}:{tool}", "args": args, "intent": intent}
        return self.client.ask("tools/call", {"name": "call_tool_read", "arguments": arguments})

    def said(self, request_id: int) -> str:
        result = self.client.answer(request_id)["result"]
        words = "\n".join(part.get("text", "") for part in result["content"])
        assert not result.get("isError"), words
        return words

    def open(self, url: str) -> int:
        if self.server == "playwright":
            return self.ask("browser_navigate", url=url)
        return self.ask("new_page", url=url)

    def look(self) -> int:
        """At what is open, which works before anything is."""
        return self.ask("browser_tabs", action="list") if self.server == "playwright" else self.ask("list_pages")

    def wait(self) -> int:
        if self.server == "playwright":
            return self.ask("browser_wait_for", time=25)
        return self.ask("wait_for", text=["never to be seen"], timeout=25_000, **self.selected())

    def selected(self) -> dict[str, int]:
        listed = self.said(self.look())
        return {"pageId": int(re.findall(r"^\s*(\d+): ", listed, re.MULTILINE)[-1])}

    def snapshot(self) -> int:
        if self.server == "playwright":
            return self.ask("browser_snapshot")
        return self.ask("take_snapshot", **self.selected())


@pytest.mark.parametrize("server", ["playwright", "devtools"])
def test_two_parallel_calls_work_and_see_the_same_browser(running: Running, pages: str, server: str) -> None:
    one = Browser(server, Ide(running.data_dir, HANDSHAKE, capabilities={"roots": {}}))
    other = Browser(server, Ide(running.data_dir, MODERN))
    first = [one.open(f"{pages}/one"), other.look()]  # the very first calls, while it starts its browser
    one.said(first[0])
    other.said(first[1])
    # Which tab is in front is the server's own race: a look at a browser that just starts may open an empty one.
    assert f"{pages}/one" in other.said(other.look()), "what one client opened, the other sees"

    both = [other.open(f"{pages}/two"), one.look(), other.look()]
    other.said(both[0])
    one.said(both[1])
    other.said(both[2])
    assert "This is two" in one.said(one.snapshot())

    cancelled = one.wait()
    busy = one.look() if server == "playwright" else None
    one.client.notify("notifications/cancelled", {"requestId": cancelled, "reason": "the person has seen enough"})
    assert "two" in other.said(other.look())
    assert "This is two" in other.said(other.snapshot())
    assert "This is two" in one.said(one.snapshot())
    assert busy is None or one.said(busy)
    assert cancelled not in one.client.answers

    [row] = [each for each in running.get("/servers")["servers"] if each["name"] == server]
    assert (row["sessions"], row["session_mode"], row["extra_sessions"]) == ("auto", "shared", 0)
    assert row["session_mode_reason"] == "automatic: shares one session"
    assert [each for each in running.activities() if each["status"] == "blocked"] == []
    for client in (one.client, other.client):
        client.close()
