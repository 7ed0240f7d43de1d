"""Debian's Chromium, driven by Playwright: a person at the page of a gateway.

A message on the console that says something went wrong fails the test at its end, and so does a script that raises.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tests.support.gateway import Running
from tests.support.node import lacking, packages

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync")  # fmt: skip
"""What root needs, and what keeps it from looking for the rest of the internet."""
AXE = Path(__file__).parents[1] / "page" / "npm"
COLOURS = ["color-contrast", "link-in-text-block"]
"""What axe-core finds by colours: the rest is the same in light and dark, at one width."""
HEIGHT = 800
TIMEOUT_MS = 30_000
"""Nobody waits longer than it takes: the machine runs many tests at once."""


class Look(NamedTuple):
    """How a person has it: the width of the window, and light or dark."""

    width: int = 1280
    scheme: str = "light"


WIDE = Look()
LOOKS = [Look(width, scheme) for width in (360, 1280) for scheme in ("light", "dark")]


def _scheme(look: Look) -> Literal["dark", "light"]:
    return "dark" if look.scheme == "dark" else "light"


def chromium() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        lacking("no Chromium on this machine: apt-get install chromium")
    return found


@contextlib.contextmanager
def browser(*arguments: str) -> Iterator[Browser]:
    """One process. Start it once for a module."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        lacking("Playwright is not installed: pip install -e '.[dev]' brings it")
    program = chromium()
    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=program, args=[*QUIET, *arguments])
        try:
            yield running
        finally:
            running.close()


@dataclass
class Visitor:
    """Somebody in front of the page. `page` is Playwright's."""

    gateway: Running
    page: Page
    wrong: list[str] = field(default_factory=list)
    """What the console said that is an error; the end of the visit fails for it."""

    def open(self) -> None:
        """A session, as `mcpproxy ui` opens one."""
        self.page.goto(link(self.gateway))
        self.page.get_by_role("navigation").get_by_role("link").first.wait_for()

    def heard(self, said: ConsoleMessage) -> None:
        self.wrong.append(f"{said.text} {said.location.get('url', '')}")

    def visit(self, fragment: str) -> None:
        """`visit("record?status=blocked")`, until the view says that it is there."""
        view = fragment.partition("?")[0].partition("/")[0]
        self.page.goto(f"{self.gateway.url}/ui#{fragment}")
        self.page.locator(f"main .view.{view}:not([aria-busy])").wait_for()

    def looks(self, look: Look) -> None:
        """From now on in such a window; what is shown stays, and is laid out anew."""
        self.page.set_viewport_size({"width": look.width, "height": HEIGHT})
        self.page.emulate_media(color_scheme=_scheme(look))

    def text(self, selector: str = "main") -> str:
        return self.page.locator(selector).inner_text()

    def overflow(self) -> list[str]:
        """What reaches over the edge of the window, which nobody should have to scroll sideways for."""
        return self.page.evaluate(
            """() => document.documentElement.scrollWidth <= innerWidth ? [] :
            [...document.querySelectorAll('body *')]
            .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
            .map((each) => each.outerHTML.slice(0, 120))"""
        )

    def problems(self, *, only_colours: bool = False) -> list[str]:
        """What axe-core finds that is serious or worse. `only_colours`: for what was seen in others already."""
        if not self.page.evaluate("'axe' in window"):  # half a megabyte, which stays until the page is loaded anew
            self.page.evaluate((packages(AXE) / "axe-core" / "axe.min.js").read_text())
        options = {"resultTypes": ["violations"], **({"runOnly": COLOURS} if only_colours else {})}
        found = self.page.evaluate("options => axe.run(document, options)", options)
        return [
            f"{each['id']} ({each['help']}): {node['html'][:200]} {node.get('failureSummary', '')[:300]}"
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]


def link(gateway: Running, **body: Any) -> str:
    """One that opens the page once, as `mcpproxy ui --print` prints it."""
    answer = gateway.post("/page/links", body)
    assert answer.status_code == 201, answer.text
    return answer.json()["url"]


_SESSIONS: dict[str, Any] = {}
"""What a browser holds of the session at each gateway: there is one for all visits."""


def forget_sessions(gateway: Running) -> None:
    """They were ended."""
    _SESSIONS.pop(gateway.url, None)


@contextlib.contextmanager
def visitor(
    running: Browser, gateway: Running, look: Look = WIDE, *, signed_in: bool = True, own_session: bool = False,
    excused: Sequence[str] = (), **options: Any,
) -> Iterator[Visitor]:  # fmt: skip
    """`own_session` for whoever is going to end it. `excused`: parts of messages of the console that belong to what a
    test does."""
    if signed_in and not own_session:
        options["storage_state"] = _SESSIONS.get(gateway.url)
    context = running.new_context(
        viewport={"width": look.width, "height": HEIGHT},
        color_scheme=_scheme(look),
        **{"reduced_motion": "reduce", "locale": "en-GB", **options},
    )
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    there = Visitor(gateway, page)
    page.on("console", lambda said: there.heard(said) if said.type == "error" else None)
    page.on("pageerror", lambda error: there.wrong.append(str(error)))
    try:
        if signed_in and options.get("storage_state") is not None:
            page.goto(f"{gateway.url}/ui")
        elif signed_in:
            there.open()
            if not own_session:
                _SESSIONS[gateway.url] = context.storage_state()
        yield there
        wrong = [said for said in there.wrong if not any(part in said for part in excused)]
        assert not wrong, f"the browser's console said {wrong}"
    finally:
        context.close()
