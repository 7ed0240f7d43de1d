"""How often the first choice for what people say is right (CAT-2, CAT-9).

`python -m tests.bench.catalog_names` prints the three parts of the labelled set and every miss of the tuned one, by
words and, where the extra `semantic` is installed, with meaning too. The misses of the others are counted and not
shown, so that nobody tunes on them. With `--aliases` it asks for each alias with that alias left out, which is what the
semantic ranker was tuned on.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mcpproxy_py import word_vectors
from mcpproxy_py.core.catalog.resolve import Found, Names
from mcpproxy_py.providers.catalog import semantic
from mcpproxy_py.providers.catalog.data_files import SHIPPED
from mcpproxy_py.providers.catalog.load import Rank, load

HERE: Final = Path(__file__).parent
PARTS: Final = ("tuned", "held out", "after")
"""Half of the first file was tuned on; the second file was written when the alias table was finished."""


@dataclass(frozen=True)
class Phrasing:
    said: str
    meant: str
    part: str


def phrasings() -> Iterator[Phrasing]:
    for meant, said in _read("phrasings.json"):
        yield from (Phrasing(phrase, meant, PARTS[at % 2]) for at, phrase in enumerate(said))
    for meant, said in _read("phrasings_after.json"):
        yield from (Phrasing(phrase, meant, "after") for phrase in said)


def _read(name: str) -> Iterator[tuple[str, list[str]]]:
    document = json.loads((HERE / name).read_text(encoding="utf-8"))
    return ((meant, said) for meant, said in document.items() if meant != "//")


def choices(names: Names, said: str) -> list[str]:
    """What comes back: one name, or three with the likeliest first."""
    meant = names.resolve(said)
    return [meant.term.name] if isinstance(meant, Found) else [one.term.name for one in meant.candidates]


def accuracy(names: Names, part: str) -> tuple[float, int, list[tuple[Phrasing, str]]]:
    """The share of right first choices, of how many, and the misses with what was chosen."""
    asked = [phrasing for phrasing in phrasings() if phrasing.part == part]
    chosen = [(phrasing, choices(names, phrasing.said)[0]) for phrasing in asked]
    misses = [(phrasing, name) for phrasing, name in chosen if name != phrasing.meant]
    return 1 - len(misses) / len(asked), len(asked), misses


def report(title: str, names: Names) -> None:
    print(title)
    for part in PARTS:
        share, count, misses = accuracy(names, part)
        among = sum(one.meant in choices(names, one.said) for one in phrasings() if one.part == part) / count
        print(f"  {part:8}  first choice right: {share:.3f} of {count}, among what comes back: {among:.3f}")
        for phrasing, chosen in misses if part == "tuned" else []:
            print(f"            {phrasing.said!r} is {phrasing.meant}, not {chosen}")
    meant = {phrasing: names.resolve(phrasing.said) for phrasing in phrasings()}
    alone = {phrasing: one for phrasing, one in meant.items() if isinstance(one, Found)}
    wrong = sum(one.term.name != phrasing.meant for phrasing, one in alone.items())
    print(f"  one capability, not three: {len(alone)} of {len(meant)}, {wrong} of them wrong")


def aliases_left_out(title: str, rank: Rank | None) -> None:
    """Each alias as a query, in a catalog that does not know it. Takes a minute."""
    terms = load().names.terms
    aliases: dict[str, str] = json.loads((SHIPPED / "aliases.json").read_text(encoding="utf-8"))["aliases"]
    first = among = 0
    for said, meant in aliases.items():
        others = {phrase: name for phrase, name in aliases.items() if phrase != said}
        chosen = choices(Names(terms, others, rank(terms, others) if rank else None), said)
        first, among = first + (chosen[0] == meant), among + (meant in chosen)
    count = len(aliases)
    print(
        f"{title}: {count} aliases, first choice right: {first / count:.3f}, among what comes back: {among / count:.3f}"
    )


def main() -> None:
    rankers: dict[str, Rank | None] = {"words": None}
    if word_vectors.installed():
        rankers["words and meaning"] = semantic.ranker
    else:
        print("meaning: not installed")
    for title, rank in rankers.items():
        if "--aliases" in sys.argv:
            aliases_left_out(title, rank)
        else:
            report(title, load(rank=rank).names)


if __name__ == "__main__":
    main()
