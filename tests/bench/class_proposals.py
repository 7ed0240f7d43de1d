"""How often a proposed class is what a server's author published, on tool lists of servers that publish hints.

`python -m tests.bench.class_proposals` prints both halves, and each tool that was proposed lower than it is published;
`--half first` one of them, `--higher` those above too. The lists are those of `python -m tests.bench.tool_lists`. They
were split by the digest of the package's name before anybody looked at them: the tables were made with the first half
alone, so the second one says what they are worth; but for two rules that came after it was looked at, and that only
raise: `NOUNS_TOO`, and that `snapshot` makes something.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple

from mcpproxy_py.core.policy.class_proposals import Proposal, propose
from mcpproxy_py.core.policy.tool_class import classify
from mcpproxy_py.core.values import RANK
from tests.bench.tool_lists import LISTS

HALVES: Final = ("first", "second")


class Compared(NamedTuple):
    package: str
    tool: str
    published: str
    proposed: Proposal

    @property
    def direction(self) -> Literal["lower", "equal", "higher"]:
        difference = RANK[self.proposed.tool_class] - RANK[self.published]  # type: ignore[index]
        return "lower" if difference < 0 else "higher" if difference > 0 else "equal"


def half_of(package: str) -> str:
    return HALVES[sha256(package.encode()).digest()[0] % 2]


def compared(half: str) -> Iterator[Compared]:
    for file in sorted(LISTS.glob("*.json")):
        listed: dict[str, Any] = json.loads(file.read_bytes())
        if half_of(listed["package"]) != half:
            continue
        for tool in listed["tools"]:
            published = classify(tool.get("annotations"))
            if published != "unknown":
                proposed = propose(tool["name"], tool.get("description"), tool.get("inputSchema"))
                yield Compared(listed["package"], tool["name"], published, proposed)


def report(half: str, shown: tuple[str, ...]) -> None:
    rows = list(compared(half))
    counts = Counter(row.direction for row in rows)
    servers = len({row.package for row in rows})
    print(f"{half} half: {len(rows)} tools with hints of {servers} servers")
    for direction in ("equal", "higher", "lower"):
        print(f"  {direction:7}{counts[direction]:5}  {100 * counts[direction] / max(len(rows), 1):5.1f} %")
    for published in ("read", "write", "destructive"):
        of = Counter(row.proposed.tool_class for row in rows if row.published == published)
        print(f"  published {published:12} proposed: " + ", ".join(f"{name} {of[name]}" for name in RANK if of[name]))
    for row in rows:
        if row.direction in shown:
            said = f"{row.published}, proposed {row.proposed.tool_class}: {row.proposed.why}"
            print(f"  {row.direction}: {row.package} {row.tool}: published {said}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--half", choices=HALVES)
    options.add_argument("--higher", action="store_true")
    given = options.parse_args()
    for half in [given.half] if given.half else HALVES:
        report(half, ("lower", "higher") if given.higher else ("lower",))


if __name__ == "__main__":
    main()
