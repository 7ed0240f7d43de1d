"""Every shell block of the README, the tutorials and the how-tos works word for word, or says why not (USE-8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.markdown import SHELL, Page
from tests.journeys.documents import pages, reader, why_not

RUN = [page for page in pages() if any(why_not(fence) is None for fence in page.fences if fence.language in SHELL)]


@pytest.mark.proves("USE-8", "USE-5")
@pytest.mark.parametrize("page", RUN, ids=str)
def test_what_a_page_says_to_type_works_as_it_stands(page: Page, tmp_path: Path) -> None:
    with reader(page, tmp_path) as somebody:
        steps = somebody.read()
    assert steps
    wrong = [f"{step.wrong}:\n{step.block}\n{step.output}" for step in steps if step.wrong]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.proves("USE-8")
def test_more_blocks_are_run_than_not_and_those_that_are_not_say_why() -> None:
    blocks = [fence for page in pages() for fence in page.fences if fence.language in SHELL]
    reasons = [why for fence in blocks if (why := why_not(fence)) is not None]
    assert all(len(why) > 10 for why in reasons)
    assert len(blocks) > 40
    assert len(reasons) < len(blocks) / 3
