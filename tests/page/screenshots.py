"""The pictures of the page: `python -m tests.page.screenshots [--out FOLDER] [--only NAME]`.

Without `--out` it writes those that are kept: the one of the README into `docs/`, and the references that
`test_screenshots.py` compares with into `tests/page/references/`. The data, the clock of the browser, its zone and its
language stand still.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.page import story
from tests.support import chromium
from tests.support.chromium import Look, Visitor
from tests.support.gateway import Running, gateway

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

HERE: Final = Path(__file__).parent
README: Final = HERE.parents[1] / "docs" / "page.png"
REFERENCES: Final = HERE / "references"
LISTS: Final = re.compile(r"/api/v1/activity(/summary)?\?")
MOST_BYTES: Final = 200_000


class Picture(NamedTuple):
    name: str
    view: str
    look: Look
    opens: str | None = None
    """Text of a button that is clicked first."""

    @property
    def kept_at(self) -> Path:
        return README if self.name == "page" else REFERENCES / f"{self.name}.png"


PICTURES: Final = [
    Picture("page", "now", Look(1180, "light"), "github:delete_branch"),
    Picture("now-360-dark", "now", Look(360, "dark")),
    Picture("record-1280-dark", "record", Look(1280, "dark")),
    Picture("record-360-light", "record", Look(360, "light")),
]


@contextlib.contextmanager
def looked_at(folder: Path) -> Iterator[Running]:
    """A gateway with a day on record."""
    story.write(folder / "data")
    with gateway(folder / "data", {"mcpServers": {}}) as running:
        yield running


def take(browser: Browser, running: Running, picture: Picture) -> bytes:
    options = {"timezone_id": "Europe/Berlin", "locale": "en-GB"}
    with chromium.visitor(browser, running, picture.look, signed_in=False, **options) as there:
        there.page.clock.set_fixed_time(story.NOW)
        there.open()
        there.page.route(LISTS, _of_that_day)
        there.visit(picture.view)
        return _settled(there, picture)


def _of_that_day(route: Route) -> None:
    """That somebody looks at the page is on record too, at a time that does not stand still."""
    route.continue_(url=f"{route.request.url}&end_time={story.NOW:%Y-%m-%dT%H:%M:%SZ}")


def _settled(there: Visitor, picture: Picture) -> bytes:
    page = there.page
    page.locator(".sums .sum, details.charts[open] .chart-grid, details.charts:not([open])").first.wait_for()
    if picture.opens is not None:
        page.get_by_role("button", name=f"Open {picture.opens}").first.click()
        page.locator("dialog.drawer .record-detail").wait_for()
    page.evaluate("document.fonts.ready")
    page.mouse.move(0, 0)
    return page.screenshot(animations="disabled", caret="hide", scale="css")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="Write them all here instead, to look at")
    parser.add_argument("--only", help="Only those whose name holds this")
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, chromium.browser() as browser, looked_at(Path(home)) as running:
        for picture in PICTURES:
            if said.only and said.only not in picture.name:
                continue
            path = picture.kept_at if said.out is None else said.out / f"{picture.name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(taken := take(browser, running, picture))
            print(f"{path}: {len(taken):,} bytes{' TOO LARGE' if len(taken) > MOST_BYTES else ''}")


if __name__ == "__main__":
    main()
