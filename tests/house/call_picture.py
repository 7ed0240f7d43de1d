"""The picture of one call's way, drawn from the way itself: `python -m tests.house.call_picture` writes it.

What is drawn is what `tests/bench/walk.py` saw of a gated read: the modules in the order in which the call came to them
first, the neighbours of one package together, which of them wait for the answer, and where the permit is asked for.
What stands beside each is the first sentence of its docstring. Nothing of it is written by hand, so what is in the page
is what the code does; a test compares the two.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from tests.bench.walk import Step, walks

ROOT: Final = Path(__file__).parents[2]
WHERE: Final = ROOT / "docs" / "explanation" / "one-call.svg"
KIND: Final = "read"
WIDTH: Final = 960
LEFT, TOP, ROW, LANE_GAP = 24, 92, 38, 14
NAME_AT, SAYS_AT = 150, 350
LONGEST: Final = 84
"""Characters of a module's sentence."""
STYLE: Final = """
  svg { --paper: #ffffff; --ink: #1b1f24; --quiet: #57606a; --line: #8c959f; --lane: #f3f5f7; --gate: #0a58ca; }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #0d1117; --ink: #e6edf3; --quiet: #9da7b1; --line: #6e7681; --lane: #161b22; --gate: #79b8ff; }
  }
  .paper { fill: var(--paper) } .lane { fill: var(--lane) }
  text { font: 13px system-ui, sans-serif; fill: var(--ink) }
  .title { font-size: 18px; font-weight: 600 } .package { font-weight: 600; fill: var(--quiet) }
  .module { font-family: ui-monospace, monospace; font-size: 13px } .says { fill: var(--quiet); font-size: 12px }
  .way, .stop { stroke: var(--line); stroke-width: 1.5; fill: none } .stop { fill: var(--paper) }
  .permit .stop { fill: var(--gate); stroke: var(--gate) } .permit .module { fill: var(--gate); font-weight: 600 }
  .head { fill: var(--line) }
"""
PERMIT: Final = "CallPermit"


class Stop(NamedTuple):
    """A module on the way, or the permit, which is a stop of its own: it is where the message leaves."""

    module: str
    part: str
    resumed: bool
    """Whether it waits here, and goes on when the answer comes."""

    @property
    def package(self) -> str:
        return self.module.partition(".")[0] if "." in self.module else ""

    @property
    def name(self) -> str:
        name = self.module.partition(".")[2] or self.module
        return f"{name}.{self.part}" if self.part else name


def stops(steps: Sequence[Step]) -> list[Stop]:
    """In the order in which the call comes to them."""
    there: dict[tuple[str, str], bool] = {}
    for step in steps:
        key = step.module, PERMIT if step.function.startswith(f"{PERMIT}.__call__") else ""
        there[key] = there.get(key, False) or step.resumed
    return [Stop(module, part, resumed) for (module, part), resumed in there.items()]


def says(stop: Stop) -> str:
    """The first sentence of its docstring, cut to one line."""
    text = (ROOT / "mcpproxy_py" / f"{stop.module.replace('.', '/')}.py").read_text("utf-8")
    node: ast.Module | ast.ClassDef = ast.parse(text)
    if stop.part:
        node = next(each for each in node.body if isinstance(each, ast.ClassDef) and each.name == stop.part)
    doc = re.sub(r"\s+", " ", ast.get_docstring(node) or "").replace("`", "")
    sentence = re.sub(r" \((?:[A-Z]+-\d+(?:, )?)+\)", "", re.split(r"(?<=\.)\s", doc, maxsplit=1)[0].rstrip(".:"))
    return textwrap.shorten(sentence, LONGEST, placeholder=" …")


def lanes(way: Sequence[Stop]) -> list[list[Stop]]:
    """Neighbours of one package together."""
    found: list[list[Stop]] = []
    for stop in way:
        if found and found[-1][0].package == stop.package:
            found[-1].append(stop)
        else:
            found.append([stop])
    return found


def drawn(steps: Sequence[Step]) -> str:
    way = stops(steps)
    title = "One call's way through the gateway"
    waits = [stop.module for stop in way if stop.resumed]
    order = ", ".join(f"{stop.package} {stop.name}".strip() for stop in way)
    described = (
        f"A gated read from a modern client to a server on a pipe. It comes to {len({stop.module for stop in way})} "
        f"modules, in this order: {order}. It waits in {', '.join(waits)}, and goes on there when the server has "
        "answered. CallPermit is where the message leaves: by it, and by nothing else."
    )
    behind: list[str] = []
    body: list[str] = []
    y = TOP
    first = last = 0
    for lane in lanes(way):
        height = len(lane) * ROW
        behind.append(f'<rect class="lane" x="{LEFT}" y="{y}" width="{WIDTH - 2 * LEFT}" height="{height}" rx="6"/>')
        body.append(f'<text class="package" x="{LEFT + 12}" y="{y + 24}">{lane[0].package or "(top)"}</text>')
        for stop in lane:
            middle = y + ROW // 2
            first, last = first or middle, middle
            mark = f'<circle class="stop" cx="{NAME_AT - 22}" cy="{middle}" r="{7 if stop.part else 5}"/>'
            again = " ↩" if stop.resumed else ""
            body.append('<g class="permit">' if stop.part else "<g>")
            body.append(mark)
            body.append(f'<text class="module" x="{NAME_AT}" y="{middle + 4}">{escape(stop.name)}{again}</text>')
            body.append(f'<text class="says" x="{SAYS_AT}" y="{middle + 4}">{escape(says(stop))}</text></g>')
            y += ROW
        y += LANE_GAP
    height = y + 58
    x = NAME_AT - 22
    line = [
        f'<path class="way" d="M{x} {TOP - 16}V{last + 30}"/>',
        f'<path class="head" d="M{x - 5} {last + 28}h10l-5 9z"/>',
    ]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" aria-labelledby="title desc">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="desc">{escape(described)}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
        f'<text class="title" x="{LEFT}" y="36">{escape(title)}</text>',
        f'<text class="says" x="{LEFT}" y="60">A gated read, as tests/bench/walk saw it: each module where the call '
        "comes to it first. ↩ waits, and goes on when the server has answered.</text>",
        *behind, *line, *body,
        f'<text class="says" x="{NAME_AT}" y="{last + 36}">and back to the client</text>',
        "</svg>", "",
    ])  # fmt: skip


def picture() -> str:
    return drawn(walks([KIND])[KIND].steps)


def main() -> None:
    WHERE.write_text(picture(), "utf-8")
    print(f"written to {WHERE}", file=sys.stderr)


if __name__ == "__main__":
    main()
