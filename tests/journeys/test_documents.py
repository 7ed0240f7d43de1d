"""Every shell block of the README, the tutorials and the how-tos works word for word, or says why not (USE-8)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.house.markdown import SHELL, Page
from tests.journeys.documents import end_processes_of, pages, reader, why_not

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


WRONG = """<!-- no gateway -->
```bash
true
```

<!-- fails: 3 -->
```console
$ (exit 3)
what it prints
$ true
```

```bash
(exit 4)
```

<!-- answers: y
y -->
```bash
read -r given && echo "given $given"
```

```bash
echo "and on"
```
"""


@pytest.mark.proves("USE-8")
def test_a_command_that_fails_otherwise_than_the_page_says_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(WRONG)
    with reader(Page(page), tmp_path / "scratch") as somebody:
        steps = somebody.read()
    assert [step.wrong for step in steps] == ["", "", "failed with (4,), meant were ()", "", ""]
    assert [step.output.strip() for step in steps[3:]] == ["given y", "and on"]


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="only Linux shows the environment of a process")
@pytest.mark.proves("USE-8")
def test_what_a_page_leaves_running_is_ended_and_named(tmp_path: Path) -> None:
    left = subprocess.Popen(["sleep", "600"], env={"HOME": str(tmp_path)})
    try:
        assert end_processes_of(tmp_path, patience=0) == [f"{left.pid}: sleep 600"]
        assert left.wait(60) < 0
    finally:
        left.kill()
