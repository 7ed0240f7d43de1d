"""How often the first choice for what people say is right (CAT-2, CAT-9).

`python -m tests.bench.catalog_names` prints both halves of the labelled set and every miss of the tuned half, by words
and, where the extra `semantic` is installed, with meaning too. The held-out half is counted and not shown, so that
nobody tunes on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mcpproxy_py.core.catalog.resolve import Found, Names
from mcpproxy_py.providers.catalog import semantic
from mcpproxy_py.providers.catalog.load import load

SET: Final = Path(__file__).with_name("phrasings.json")


@dataclass(frozen=True)
class Phrasing:
    said: str
    meant: str
    held_out: bool


def phrasings() -> Iterator[Phrasing]:
    for meant, said in json.loads(SET.read_text(encoding="utf-8")).items():
        if meant != "//":
            yield from (Phrasing(phrase, meant, at % 2 == 1) for at, phrase in enumerate(said))


def first_choice(names: Names, said: str) -> str:
    meant = names.resolve(said)
    return meant.term.name if isinstance(meant, Found) else meant.candidates[0].term.name


def accuracy(names: Names, *, held_out: bool) -> tuple[float, int, list[tuple[Phrasing, str]]]:
    """The share of right first choices, of how many, and the misses with what was chosen."""
    asked = [phrasing for phrasing in phrasings() if phrasing.held_out is held_out]
    chosen = [(phrasing, first_choice(names, phrasing.said)) for phrasing in asked]
    misses = [(phrasing, name) for phrasing, name in chosen if name != phrasing.meant]
    return 1 - len(misses) / len(asked), len(asked), misses


def report(title: str, names: Names) -> None:
    print(title)
    for held_out in (False, True):
        share, count, misses = accuracy(names, held_out=held_out)
        print(f"  {'held out' if held_out else 'tuned':8}  first choice right: {share:.3f} of {count}")
        for phrasing, chosen in [] if held_out else misses:
            print(f"            {phrasing.said!r} is {phrasing.meant}, not {chosen}")
    meant = {phrasing: names.resolve(phrasing.said) for phrasing in phrasings()}
    alone = {phrasing: one for phrasing, one in meant.items() if isinstance(one, Found)}
    wrong = sum(one.term.name != phrasing.meant for phrasing, one in alone.items())
    print(f"  one capability, not three: {len(alone)} of {len(meant)}, {wrong} of them wrong")


def main() -> None:
    report("words", load().names)
    if semantic.installed():
        report("words and meaning", load(rank=semantic.ranker).names)
    else:
        print("meaning: not installed")


if __name__ == "__main__":
    main()
