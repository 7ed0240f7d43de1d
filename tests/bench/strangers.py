"""How often the ranking finds the right tool for other people's queries, by words alone and with meaning (FIND-5).

    python -m tests.bench.strangers [--half tune|kept|all] [--set MetaTool] [--mirrors DIRECTORY] [--out FILE]
    python -m tests.bench.strangers --confidence      what `confidence` and `fits` come to, on the half for tuning

`tests.bench.search_sets` says what the sets are and where they come from. Whoever changes the ranking looks at `tune`;
`kept` is for the figures in docs/explanation/ranking.md. A set that cannot be had from here is left out, and said so.

The rule by which a change is taken, written down before any was tried: what it has to choose is chosen on four fifths
of the half for tuning, and judged on the fifth that is left, for each fifth in turn. It is taken if recall@5 on
MetaTool rises by 0.01 or more by that, the other three sets together lose nothing of their MRR, and on no set is
recall@1, @3 or @5 below that of words alone. Of changes that are within 0.005 of the best, the simplest is taken.
Then `kept` is looked at, once more, and whatever it says is written down. Added after the first run, and not before:
figures are compared as they are shown, to three digits.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any, Final, NamedTuple

from mcpproxy_py import word_vectors
from mcpproxy_py.core.search import fusion
from mcpproxy_py.core.search.confidence import FITS, confidence
from mcpproxy_py.core.search.index import Index, IndexSegment, segment
from mcpproxy_py.core.values import Tool
from tests.bench.search_sets import SETS, Query, SearchSet, Unreachable, half_of, needless, reader

ROOT: Final = Path(__file__).resolve().parents[2]
CUTS: Final = (1, 3, 5)
LOOKED_AT: Final = 50
SHOWN: Final = 5
STEPS: Final = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.01)


def indexed(tools: Iterable[Tool], *, by_meaning: bool) -> Index:
    by_server: dict[str, list[Tool]] = {}
    for tool in tools:
        by_server.setdefault(tool.server, []).append(tool)
    parts = {server: segment(theirs) for server, theirs in by_server.items()}
    if by_meaning:
        for part in parts.values():
            give_vectors(part)
    return Index(parts)


def give_vectors(part: IndexSegment) -> None:
    """As `app.tool_meanings` does."""
    from mcpproxy_py.word_vectors.nearness import ListingVectors, stored

    words = word_vectors.load()
    part.give(ListingVectors.of(words, [stored(words.embed(fusion.meaning_of(tool))) for tool in part.tools]))


def place(index: Index, query: Query) -> int | None:
    names = [hit.tool.full_name for hit in index.rank(query.text, LOOKED_AT).hits]
    return min((names.index(name) + 1 for name in query.right if name in names), default=None)


def measured(index: Index, queries: list[Query]) -> dict[str, float]:
    places = [place(index, query) for query in queries]
    found = [at for at in places if at is not None]
    recall = {f"recall@{cut}": sum(at <= cut for at in found) / len(places) for cut in CUTS}
    return {"queries": len(places), **recall, "mrr": sum(1 / at for at in found) / len(places)}


def sets(names: Iterable[str], mirrors: Path | None) -> dict[str, SearchSet]:
    found: dict[str, SearchSet] = {}
    for name in names:
        try:
            found[name] = SETS[name](reader(mirrors))
        except Unreachable as why:
            print(f"{name} is left out: {why}", file=sys.stderr)
    return found


class Result(NamedTuple):
    """Of a query: its place, counted from 0, how sure it was said to be, and whether it was right."""

    place: int
    sure: float
    right: bool


def results(index: Index, queries: Iterable[Query]) -> Iterator[list[Result]]:
    for query in queries:
        found = index.rank(query.text, SHOWN)
        sure = [confidence(hit.score, at, by_meaning=found.by_meaning) for at, hit in enumerate(found.hits)]
        yield [
            Result(at, sure[at], hit.tool.full_name in query.right) for at, hit in enumerate(found.hits)
        ]  # fmt: skip


def show_confidence(found: dict[str, SearchSet], mirrors: Path | None, by_meaning: bool) -> None:
    """Of the results with each figure, what share was right; and how often `fits` was false."""
    asked = {name: [query for query in those.queries if query.half == "tune"] for name, those in found.items()}
    indexes = {name: indexed(those.tools, by_meaning=by_meaning) for name, those in found.items()}
    rows = {name: [*results(indexes[name], asked[name])] for name in found}
    if "MetaTool" in found:
        none = [Query(text, frozenset(), half_of(text)) for text in needless(reader(mirrors))]
        rows["no tool"] = [*results(indexes["MetaTool"], [query for query in none if query.half == "tune"])]
    every = [result for those in rows.values() for listed in those for result in listed]
    for where in ("first", "later"):
        those = [result for result in every if (result.place == 0) == (where == "first")]
        for low, high in pairwise(STEPS):
            some = [result for result in those if low <= result.sure < high]
            if some:
                said, right = mean(result.sure for result in some), mean(result.right for result in some)
                print(f"{where:<6} {low:.1f} to {min(high, 1.0):.1f} {len(some):>6} said {said:.2f} right {right:.2f}")
    for name, those in rows.items():
        helped = [listed for listed in those if name == "no tool" or any(result.right for result in listed)]
        unfit = mean(not listed or listed[0].sure < FITS for listed in helped)
        print(
            f"{name:<16} {len(helped):>4} {'asked' if name == 'no tool' else 'found'}, of these {unfit:.3f} do not fit"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("tune", "kept", "all"), default="tune")
    parser.add_argument("--set", dest="names", action="append", choices=list(SETS))
    parser.add_argument("--mirrors", type=Path)
    parser.add_argument("--confidence", action="store_true")
    parser.add_argument("--out", type=Path, default=ROOT / "bench-results" / "strangers.json")
    wanted = parser.parse_args()
    found = sets(wanted.names or SETS, wanted.mirrors)
    ways = {"words": False, "words and meaning": True} if word_vectors.installed() else {"words": False}
    if wanted.confidence:
        for way, by_meaning in ways.items():
            print(way)
            show_confidence(found, wanted.mirrors, by_meaning)
        return
    rows: dict[str, Any] = {}
    print(f"{'set':<16} {'tools':>5} {'queries':>7} {'ranking':<18} {'@1':>6} {'@3':>6} {'@5':>6} {'MRR':>6}")
    for name, (tools, queries) in found.items():
        chosen = [query for query in queries if wanted.half in ("all", query.half)]
        for way, by_meaning in ways.items():
            row = measured(indexed(tools, by_meaning=by_meaning), chosen)
            rows.setdefault(name, {})[way] = row
            figures = " ".join(f"{row[key]:>6.3f}" for key in ("recall@1", "recall@3", "recall@5", "mrr"))
            print(f"{name:<16} {len(tools):>5} {len(chosen):>7} {way:<18} {figures}")
    wanted.out.parent.mkdir(parents=True, exist_ok=True)
    wanted.out.write_text(json.dumps({"half": wanted.half, "sets": rows}, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
