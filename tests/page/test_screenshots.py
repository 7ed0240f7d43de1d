"""The pictures that are kept are those that the page gives now, but for how letters are drawn (USE-2)."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.page import screenshots
from tests.page.screenshots import MOST_BYTES, PICTURES, Picture
from tests.support.gateway import Running

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.proves("USE-2")

MOST_APART = 0.04
"""Of all points so many may be of another colour: fonts differ from machine to machine, and so does their smoothing."""
COMPARE = """async ([one, other]) => {
  const points = async (data) => {
    const drawn = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
    const canvas = new OffscreenCanvas(drawn.width, drawn.height);
    const context = canvas.getContext("2d");
    context.drawImage(drawn, 0, 0);
    return { size: `${drawn.width}x${drawn.height}`, data: context.getImageData(0, 0, drawn.width, drawn.height).data };
  };
  const [a, b] = [await points(one), await points(other)];
  if (a.size !== b.size) return `sizes ${a.size} and ${b.size}`;
  let apart = 0;
  for (let at = 0; at < a.data.length; at += 4) {
    const far = (of) => Math.abs(a.data[at + of] - b.data[at + of]);
    if (Math.max(far(0), far(1), far(2)) > 48) apart += 1;
  }
  return apart / (a.data.length / 4);
}"""


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with screenshots.looked_at(tmp_path_factory.mktemp("pictures")) as running:
        yield running


def apart(browser: Browser, one: bytes, other: bytes) -> float:
    page = browser.new_page()
    try:
        found = page.evaluate(COMPARE, [base64.b64encode(each).decode() for each in (one, other)])
    finally:
        page.close()
    assert not isinstance(found, str), found
    return found


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_that_is_kept_shows_the_page_as_it_is(
    browser: Browser, looked_at: Running, picture: Picture, tmp_path: Path
) -> None:
    now, kept = screenshots.take(browser, looked_at, picture), picture.kept_at.read_bytes()
    assert len(kept) <= MOST_BYTES
    if (far := apart(browser, now, kept)) > MOST_APART:
        seen = tmp_path / f"{picture.name}.png"
        seen.write_bytes(now)
        pytest.fail(f"{far:.1%} is different: look at {seen}; python -m tests.page.screenshots keeps it")


def test_pictures_that_show_something_else_are_told_apart(browser: Browser) -> None:
    light, dark = (each.kept_at.read_bytes() for each in PICTURES if each.look.width == 360)
    assert apart(browser, light, light) == 0
    assert apart(browser, light, dark) > 5 * MOST_APART
