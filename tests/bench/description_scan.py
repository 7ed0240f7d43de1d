"""How well the scan of descriptions does: precision and recall on both halves, with 95 percent intervals (Wilson).

`python -m tests.bench.description_scan` prints both halves, `--half tune` one of them, `--show` what was missed and
what was found in harmless texts. The corpus is that of `tests.bench.descriptions`; published tools need the lists that
`python -m tests.bench.tool_lists` fetches.

A poisoned text counts as found if there is any finding in it, a harmless one as a false alarm likewise. Every published
tool is counted as harmless. Each is scanned at a gateway that has all other servers of its half.

`--theirs DIRECTORY` scans poisoned texts of other people's too: one JSON object to a line, with `tool`, made by
`python -m tests.bench.published_attacks`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from mcpproxy_py.core.pins.text_scan import Finding, OtherTools, scan_prompt, scan_text, scan_tool
from tests.bench.descriptions import (
    DATA,
    HALVES,
    Described,
    PublishedServer,
    fresh_harmless,
    fresh_poisoned,
    harmless,
    others,
    poisoned,
    published,
)

EXPECTED: Final = DATA / "expected.json"


class Scanned(NamedTuple):
    name: str
    kind: str
    """The finding it should have; empty for a harmless one."""
    findings: tuple[Finding, ...]
    in_corpus: bool = True

    @property
    def kinds(self) -> set[str]:
        return {each.kind for each in self.findings}


def scanned(text: Described) -> Scanned:
    beside = OtherTools(others(), [text.tool["name"]] if text.tool else [])
    if text.tool is not None:
        found = scan_tool(text.tool, beside)
    elif text.prompt is not None:
        found = scan_prompt(text.prompt, beside)
    else:
        found = scan_text(text.instructions or "", "instructions", beside)
    return Scanned(text.id, text.kind, found)


def found_by_id() -> dict[str, list[str]]:
    """Of each text of our own the kinds of its findings; what a test compares."""
    texts = {"poisoned": poisoned(), "harmless": harmless()}
    return {f"{label} {each.id}": sorted(scanned(each).kinds) for label, own in texts.items() for each in own}


def report_fresh(half: str, show: bool) -> None:
    bad = [scanned(text) for text in fresh_poisoned() if text.half == half]
    good = [scanned(text) for text in fresh_harmless() if text.half == half]
    print(f"{half}, second set: {len(bad)} poisoned; {len(good)} hard negatives")
    print(f"  recall                         {share(sum(bool(each.findings) for each in bad), len(bad))}")
    print(f"  false alarms                   {share(sum(bool(each.findings) for each in good), len(good))}")
    if show:
        for each in bad:
            if not each.findings:
                print(f"  missed: {each.name} ({each.kind})")
        for each in good:
            for finding in each.findings:
                print(f"  {each.name}: {finding.kind} at {finding.where}: {finding.excerpt}")


def of_servers(servers: Sequence[PublishedServer]) -> Iterator[Scanned]:
    listings = {server.package: server.tools for server in servers}
    for server in servers:
        rest = {package: tools for package, tools in listings.items() if package != server.package}
        beside = OtherTools(rest, [tool["name"] for tool in server.tools])
        if server.instructions:
            found = scan_text(server.instructions, "instructions", beside)
            yield Scanned(f"{server.package} instructions", "", found)
        for tool in server.tools:
            found = scan_tool(tool, beside)
            yield Scanned(f"{server.package} {tool['name']}", "", found, tool["name"] in server.chosen)


def share(hits: int, of: int) -> str:
    """A share with its interval, by Wilson's formula."""
    if not of:
        return "none"
    z, p = 1.96, hits / of
    middle, wide = p + z * z / (2 * of), z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    low, high = (middle - wide) / (1 + z * z / of), (middle + wide) / (1 + z * z / of)
    return f"{p:.3f} ({hits} of {of}; {max(0.0, low):.3f} to {min(1.0, high):.3f})"


def report(half: str, show: bool) -> None:
    bad = [scanned(text) for text in poisoned() if text.half == half]
    servers = [server for server in published() if server.half == half]
    listed = list(of_servers(servers))
    good = [each for each in listed if each.in_corpus]
    own = [scanned(text) for text in harmless() if text.half == half]
    hits, alarms = sum(bool(each.findings) for each in bad), sum(bool(each.findings) for each in good)
    print(f"{half}: {len(bad)} poisoned; {len(good)} of {len(servers)} published servers; {len(own)} harmless, our own")
    print(f"  precision                      {share(hits, hits + alarms)}")
    print(f"  recall                         {share(hits, len(bad))}")
    print(f"  false alarms, corpus           {share(alarms, len(good))}")
    print(f"  false alarms, all they list    {share(sum(bool(each.findings) for each in listed), len(listed))}")
    print(f"  false alarms, harmless of ours {share(sum(bool(each.findings) for each in own), len(own))}")
    print("  by kind: found as that kind, found at all; false alarms of that kind in all they list")
    noise = Counter(kind for each in listed for kind in each.kinds)
    for kind in sorted({each.kind for each in bad}):
        of = [each for each in bad if each.kind == kind]
        as_kind, at_all = sum(kind in each.kinds for each in of), sum(bool(each.findings) for each in of)
        print(f"    {kind:18} {share(as_kind, len(of))}, {at_all} at all; {noise[kind]}")
    if show:
        for each in bad:
            if not each.findings:
                print(f"  missed: {each.name} ({each.kind})")
        for each in (*own, *listed):
            for finding in each.findings:
                print(f"  {each.name}: {finding.kind} at {finding.where}: {finding.excerpt}")
    missing = sum(server.missing for server in servers)
    if missing:
        print(f"  {missing} tools of the corpus are not in the lists at hand: fetch them with tests.bench.tool_lists")


def theirs(file: Path, show: bool) -> None:
    rows: list[dict[str, Any]] = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    found = [(row, scan_tool(row["tool"], OtherTools(others()))) for row in rows]
    for label in sorted({row["label"] for row in rows}):
        of = [findings for row, findings in found if row["label"] == label]
        print(f"published by others, {label}: with a finding {share(sum(map(bool, of)), len(of))}")
    if show:
        for row, findings in found:
            print(f"  {row['label']} {row['id']}: {sorted({each.kind for each in findings})}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--half", choices=HALVES)
    options.add_argument("--show", action="store_true")
    options.add_argument("--theirs", type=Path)
    options.add_argument("--expected", action="store_true", help="write down what is found in our own texts")
    given = options.parse_args()
    if given.expected:
        rows = [f"{json.dumps(name)}: {json.dumps(kinds)}" for name, kinds in found_by_id().items()]
        EXPECTED.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="ascii")
        return
    for half in [given.half] if given.half else HALVES:
        report(half, given.show)
        report_fresh(half, given.show)
    if given.theirs:
        theirs(given.theirs, given.show)


if __name__ == "__main__":
    main()
