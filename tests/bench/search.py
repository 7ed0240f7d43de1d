"""How good and how fast tool ranking is. Run as a script; the table goes to stdout, the numbers to JSON.

    python tests/bench/search.py [--rounds 5] [--no-fresh] [--by-meaning] [--out bench-results/search.json]

Quality comes from the labelled set beside this file. Its queries were split into halves before anything was
tuned; `held_out` was never tuned on. `fresh` was written afterwards, from the tools alone, by somebody who had
seen neither the ranking nor the other queries. Speed comes from generated tools, with the sizes interleaved in every
round, so that a busy machine shows as spread and not as a difference between the sizes.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from mcpproxy_py.core.search.index import Index, IndexSegment, segment  # noqa: E402
from mcpproxy_py.core.search.tool_search import found  # noqa: E402
from mcpproxy_py.core.values import Server, ServerState, Snapshot, Tool  # noqa: E402
from tests.bench.strangers import give_vectors  # noqa: E402

DATA = Path(__file__).parent / "data"
TRIES = 5
NO_FILTER = {"server": None, "read_only_only": False, "exclude_destructive": False}
SIZES = {"1,000": (10, 100), "10,000": (100, 100)}
TARGET_MS = {"1,000": 0.2, "10,000": 2.0}

_VERBS = """
get list create update delete search read write send fetch add remove set run start stop export import sync
validate archive restore merge move copy rename publish schedule cancel approve assign invite upload download query
describe count convert render analyze subscribe watch rotate enable disable tag link split compare resolve
"""
_NOUNS = """
issue repository branch commit file folder page database table row column index message channel thread user
team project ticket sprint board label comment review release deployment pod node cluster namespace secret volume
bucket object queue topic event calendar meeting contact account invoice payment refund customer subscription coupon
order product cart shipment address email attachment draft template campaign form survey response report dashboard
chart metric alert incident monitor trace log span certificate domain record zone firewall rule policy role group
permission token session key webhook workflow job task pipeline build artifact image container registry package
dependency license vulnerability scan document sheet cell slide note tag bookmark playlist track video caption
transcript recording forecast station route place map coordinate flight hotel booking article feed currency rate
portfolio trade transaction balance ledger budget expense employee payroll candidate course lesson grade patient
appointment prescription device sensor scene light thermostat camera door model dataset experiment notebook
embedding prompt completion agent memory entity relation graph translation glossary
"""
_ADJECTIVES = """
new existing recent active pending archived shared private public remote local default custom related
single multiple nested raw compressed encrypted scheduled failed open closed stale
"""
_PHRASES = """
by its identifier|with optional filters and pagination|in the current workspace|for the authenticated user
|within a date range|sorted by creation time|in JSON format|and return the result|if it does not exist yet|as markdown
|across all projects|including metadata and permissions|matching a pattern|before a deadline|and notify subscribers
|using the provider's native syntax|without confirmation|in bulk|up to a maximum|from the given source
"""
_PARAMETERS = """
id name query limit cursor owner path title body labels state since until format sort order include
exclude dry_run force parent_id user_id project_id timezone amount currency tags filter fields
"""

VERBS, NOUNS, ADJECTIVES, PARAMETERS = (text.split() for text in (_VERBS, _NOUNS, _ADJECTIVES, _PARAMETERS))
PHRASES = [" ".join(phrase.split()) for phrase in _PHRASES.split("|")]


def labelled(fresh: bool = True) -> tuple[Index, list[dict[str, Any]]]:
    """The labelled tools as an index, and the queries; those of the fresh half only if it may be looked at."""
    rows = json.loads((DATA / "search_tools.json").read_text("utf-8"))
    tools: dict[str, list[Tool]] = {}
    for row in rows:
        tools.setdefault(row["server"], []).append(Tool(row["server"], row["wire"]["name"], row["wire"], "unknown"))
    index = Index({server: segment(theirs) for server, theirs in tools.items()})
    files = ("search_queries.json", *(["search_fresh.json"] if fresh else []))
    return index, [query for name in files for query in json.loads((DATA / name).read_text("utf-8"))]


def place(index: Index, query: dict[str, Any]) -> int | None:
    """The rank of the best acceptable tool, counted from one, or `None` if it was not found at all."""
    names = [hit.tool.full_name for hit in index.rank(query["query"], 1_000).hits]
    return min((names.index(name) + 1 for name in query["tools"] if name in names), default=None)


def quality(index: Index, queries: list[dict[str, Any]], half: str) -> dict[str, float]:
    places = [place(index, query) for query in queries if query["half"] == half]
    found = [at for at in places if at is not None]
    recall = {f"recall@{k}": sum(at <= k for at in found) / len(places) for k in (1, 3, 5)}
    return {"queries": len(places), **recall, "mrr": sum(1 / at for at in found) / len(places)}


def generated(server: int, count: int, chance: random.Random) -> list[Tool]:
    return [_tool(f"server{server}", number, chance) for number in range(count)]


def _tool(server: str, number: int, chance: random.Random) -> Tool:
    verb, noun, adjective = chance.choice(VERBS), chance.choice(NOUNS), chance.choice(ADJECTIVES)
    name = chance.choice((f"{verb}_{noun}", f"{verb}_{adjective}_{noun}", f"{verb}{noun.title()}")) + f"_{number}"
    phrases = " ".join(chance.sample(PHRASES, chance.randint(1, 4)))
    about = f"{verb.title()} {adjective} {noun}s {phrases}. Works with {' and '.join(chance.sample(NOUNS, 2))}."
    names = chance.sample(PARAMETERS, chance.randint(1, 6))
    schema = {"type": "object", "properties": {key: {"type": "string"} for key in names}, "required": names[:1]}
    return Tool(server, name, {"name": name, "description": about, "inputSchema": schema}, "unknown")


def spoken(chance: random.Random, count: int) -> list[str]:
    """Queries of three to six words, as an agent would put them."""
    words = [VERBS, ADJECTIVES, NOUNS, NOUNS, PARAMETERS, NOUNS]
    return [" ".join(chance.choice(kind) for kind in words[: chance.randint(3, 6)]) for _ in range(count)]


class Timing(NamedTuple):
    """Milliseconds by the clock, of processor time, and by the clock where each query has its best of some tries: what
    is left when other programs take the processor away, or half of it."""

    p50: float
    p99: float
    cpu_p99: float
    least_p99: float


def milliseconds(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return (time.perf_counter() - started) * 1000


def percentiles(samples: Sequence[float]) -> tuple[float, float]:
    cuts = quantiles(samples, n=100, method="inclusive")
    return cuts[49], cuts[98]


def spread(values: list[float]) -> dict[str, float]:
    return {"median": median(values), "min": min(values), "max": max(values)}


def speed(rounds: int, by_meaning: bool) -> dict[str, Any]:
    chance = random.Random(20)
    tools = {size: [generated(at, each, chance) for at in range(servers)] for size, (servers, each) in SIZES.items()}
    built: dict[str, list[float]] = {size: [] for size in SIZES}
    refreshed: dict[str, list[float]] = {size: [] for size in SIZES}
    ranked: dict[str, list[Timing]] = {size: [] for size in SIZES}
    filtered: dict[str, list[Timing]] = {size: [] for size in SIZES}
    first: dict[str, list[float]] = {size: [] for size in SIZES}
    queries = spoken(chance, 1_000)
    gc.collect()
    gc.freeze()  # as `serve` does once it has started
    for _ in range(rounds):
        for size, listings in tools.items():
            started = time.perf_counter()
            index = Index(_segments(listings))
            if by_meaning:
                for part in index.segments.values():
                    give_vectors(part)
            built[size].append((time.perf_counter() - started) * 1000)
            started = time.perf_counter()
            index = index.with_segment("server0", segment(listings[0]))
            refreshed[size].append((time.perf_counter() - started) * 1000)
            first[size].append(median(_fresh(index, query) for query in queries[:20]))
            _sampled(index, queries[:300], None)
            ranked[size].append(_sampled(index, queries, None))
            filtered[size].append(_sampled(index, queries, Snapshot(servers=_servers(listings), index=index)))
    return {
        size: {
            "rank_p50_ms": spread([found.p50 for found in ranked[size]]),
            "rank_p99_ms": spread([found.p99 for found in ranked[size]]),
            "rank_p99_cpu_ms": spread([found.cpu_p99 for found in ranked[size]]),
            "rank_p99_least_ms": spread([found.least_p99 for found in ranked[size]]),
            "filtered_p99_ms": spread([found.p99 for found in filtered[size]]),
            "filtered_p99_cpu_ms": spread([found.cpu_p99 for found in filtered[size]]),
            "filtered_p99_least_ms": spread([found.least_p99 for found in filtered[size]]),
            "first_query_after_refresh_ms": spread(first[size]),
            "build_ms": spread(built[size]),
            "refresh_one_server_ms": spread(refreshed[size]),
            "target_p99_ms": TARGET_MS[size],
        }
        for size in SIZES
    }


def _segments(listings: list[list[Tool]]) -> dict[str, IndexSegment]:
    return {tools[0].server: segment(tools) for tools in listings}


def _fresh(index: Index, query: str) -> float:
    """One query on an index that nobody has asked anything yet: its words are joined over all segments first."""
    untouched = Index(index.segments)
    return milliseconds(lambda: untouched.rank(query, 5))


def _servers(listings: list[list[Tool]]) -> dict[str, Server]:
    """One in ten is away and one in ten has a tool that is denied, so that there is something to filter out."""
    states: dict[int, ServerState] = {3: "failed"}
    names = [(number, tools[0].server, tools) for number, tools in enumerate(listings)]
    return {
        name: Server(name, states.get(number % 10, "connected"), {tool.name: tool for tool in tools},
                     deny_tools=(tools[0].name,) if number % 10 == 7 else ())
        for number, name, tools in names
    }  # fmt: skip


def _sampled(index: Index, queries: list[str], snapshot: Snapshot | None) -> Timing:
    tries = [[_timed(index, query, snapshot) for _ in range(TRIES)] for query in queries]
    wall, cpu = zip(*(timed for those in tries for timed in those), strict=True)
    least = [min(took for took, _ in those) for those in tries]
    return Timing(*percentiles(wall), percentiles(cpu)[1], percentiles(least)[1])


def _timed(index: Index, query: str, snapshot: Snapshot | None) -> tuple[float, float]:
    """Of ranking everything, or all that `retrieve_tools` does to find out and count what can be called."""
    busy, started = time.thread_time(), time.perf_counter()
    if snapshot is None:
        index.rank(query, 5)
    else:
        found(snapshot, {"query": query, "limit": 5, **NO_FILTER})
    return (time.perf_counter() - started) * 1000, (time.thread_time() - busy) * 1000


def show(results: dict[str, Any]) -> None:
    print(f"{'half':<10} {'queries':>7} {'recall@1':>9} {'recall@3':>9} {'recall@5':>9} {'MRR':>6}")
    for half, row in results["quality"].items():
        recalls = " ".join(f"{row[f'recall@{k}']:>9.3f}" for k in (1, 3, 5))
        print(f"{half:<10} {row['queries']:>7} {recalls} {row['mrr']:>6.3f}")
    print(f"\n{'tools':<8} {'measure':<28} {'median':>9} {'min':>9} {'max':>9}   milliseconds over the rounds")
    for size, rows in results["speed"].items():
        for measure, row in rows.items():
            if isinstance(row, dict):
                print(f"{size:<8} {measure:<28} {row['median']:>9.3f} {row['min']:>9.3f} {row['max']:>9.3f}")
        print(f"{size:<8} {'target_p99_ms':<28} {rows['target_p99_ms']:>9.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "bench-results" / "search.json")
    parser.add_argument(
        "--no-fresh", action="store_true", help="leave out the fresh half, while ranking is being tuned"
    )
    parser.add_argument("--by-meaning", action="store_true", help="time ranking by words and meaning")
    wanted = parser.parse_args()
    index, queries = labelled(fresh=not wanted.no_fresh)
    halves = ("tune", "held_out") if wanted.no_fresh else ("tune", "held_out", "fresh")
    results = {
        "quality": {half: quality(index, queries, half) for half in halves},
        "speed": speed(max(wanted.rounds, 1), wanted.by_meaning),
    }
    wanted.out.parent.mkdir(parents=True, exist_ok=True)
    wanted.out.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
    show(results)


if __name__ == "__main__":
    main()
