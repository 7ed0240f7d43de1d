"""What a stranger does in the first hour, and how long each step takes: `python -m tests.bench.first_hour` (USE-8).

The first blocks of the README, then the first minute and the first hour, word for word, in one fresh home, with one
gateway and real servers. `uvx` and `npx` keep packages in the home, so they download each; pip does with `--cold`. A
step that does not end as its page says is marked, and the exit status is then 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from tests.house.markdown import ROOT, SHELL, Fence, Page
from tests.journeys.documents import Step, reader, serves

README_BLOCKS = 2
"""Starting it, and the first success."""
TUTORIALS = ("first-minute.md", "first-hour.md")
WIDTH = 66


class Hour(Page):
    """The pages as one. Only the first start of a gateway is done: the others find one that runs."""

    @cached_property
    def fences(self) -> list[Fence]:
        return [fence for _, fence in blocks()]


def blocks() -> Iterator[tuple[str, Fence]]:
    """Each with the name of its page."""
    readme = [fence for fence in Page(ROOT / "README.md").fences if fence.language in SHELL]
    yield from (("README.md", fence) for fence in readme[:README_BLOCKS])
    for name in TUTORIALS:
        for fence in Page(ROOT / "docs" / "tutorial" / name).fences:
            if not serves(fence):
                yield name, fence


def run(cold: bool) -> list[Step]:
    page = Hour(ROOT / "docs" / "tutorial" / TUTORIALS[-1])
    with tempfile.TemporaryDirectory(prefix="mcpproxy-first-hour-") as folder, reader(page, Path(folder)) as somebody:
        if cold:
            somebody.environment["PIP_CACHE_DIR"] = str(Path(folder) / "pip-cache")
        return somebody.read()


def table(steps: list[Step]) -> Iterator[str]:
    yield f"{'SECONDS':>7}     STEP"
    for step in steps:
        lines = [line for line in step.block.splitlines() if line.strip()]
        for number, line in enumerate(lines):
            took = f"{step.seconds:7.1f}  {'✗' if step.wrong else '✓'}" if number == 0 else " " * 10
            yield f"{took}  {line if len(line) <= WIDTH else line[: WIDTH - 1] + '…'}"
        if step.wrong:
            yield f"{'':10}  {step.wrong}"
    wrong = sum(bool(step.wrong) for step in steps)
    total = sum(step.seconds for step in steps)
    yield f"{total:7.1f}     in all: {len(steps)} steps, {wrong} wrong"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cold", action="store_true", help="with an empty cache of pip")
    parser.add_argument("--output", action="store_true", help="print what a person sees as well")
    given = parser.parse_args()
    steps = run(given.cold)
    if given.output:
        for step in steps:
            print(f"=== {step.block.rstrip()}\n---\n{step.output.rstrip()}\n")
    print("\n".join(table(steps)))
    for step in steps:
        if step.wrong:
            print(f"\n{step.block}\n{step.output[-2000:]}")
    sys.exit(any(step.wrong for step in steps))


if __name__ == "__main__":
    main()
