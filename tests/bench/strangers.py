"""How often the ranking finds the right tool for other people's queries, by words alone and with meaning (FIND-5).

    python -m tests.bench.strangers [--half tune|kept|all] [--set MetaTool] [--mirrors DIRECTORY] [--out FILE]
    python -m tests.bench.strangers --confidence      what `confidence` and `fits` come to, on the half for tuning

`tests.bench.search_sets` says what the sets are and where they come from. Whoever changes the ranking looks at `tune`;
`kept` is for the figures in docs/explanation/ranking.md. A set that cannot be had from here is left out, and said so.

The rule by which a change is taken, written down before any was tried: what it has to choose is chosen on four fifths of
the half for tuning, and judged on the fifth that is left, for each fifth in turn. It is taken if recall@5 on MetaTool
rises by 0.01 or more by that, the other three sets together lose nothing of their MRR, and on no set is recall@1, @3
or @5 below that of words alone. Of changes that are within 0.005 of the best, the simplest is taken. Then `kept` is
looked at, once more, and whatever it says is written down.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from mcpproxy_py import word_vectors
from mcpproxy_py.core.search import fusion
from mcpproxy_py.core.search.index import Index, IndexSegment, segment
from mcpproxy_py.core.values import Tool
from tests.bench.search_sets import SETS, Query, SearchSet, Unreachable, reader

ROOT: Final = Path(__file__).resolve().parents[2]
CUTS: Final = (1, 3, 5)
LOOKED_AT: Final = 50


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
    results: dict[str, Any] = {}
    print(f"{'set':<16} {'tools':>5} {'queries':>7} {'ranking':<18} {'@1':>6} {'@3':>6} {'@5':>6} {'MRR':>6}")
    for name, (tools, queries) in found.items():
        chosen = [query for query in queries if wanted.half in ("all", query.half)]
        for way, by_meaning in ways.items():
            row = measured(indexed(tools, by_meaning=by_meaning), chosen)
            results.setdefault(name, {})[way] = row
            figures = " ".join(f"{row[key]:>6.3f}" for key in ("recall@1", "recall@3", "recall@5", "mrr"))
            print(f"{name:<16} {len(tools):>5} {len(chosen):>7} {way:<18} {figures}")
    wanted.out.parent.mkdir(parents=True, exist_ok=True)
    wanted.out.write_text(json.dumps({"half": wanted.half, "sets": results}, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
