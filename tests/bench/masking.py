"""Masking, how well and at what cost: `python -m tests.bench.masking` (ACT-9, PERF-5).

Well: precision and recall on both halves of the labelled corpus, and on both halves, by kind, of the one that is made
from templates. Cost: microseconds per KB of text, for making the
JSON text that is recorded and for finding out that it is clean; for text that has to be looked at closely; and for
text that is made to be slow. All in one process, round by round.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mcpproxy_py.gateway.masker import MASKER
from mcpproxy_py.settings.mask_patterns import MaskPatterns
from tests.bench.measure import figures, report, spread
from tests.core import secret_corpus
from tests.core.corpus import HALVES, samples, score

PROSE = "The quick brown fox jumps over the dog, and then there is more to say about managing projects. "
CODE = (
    "def area(width: int) -> int:\n    return width * 2  # done\nfor item in values:\n    print(item.name, item[0])\n"
)
NAMES = "The token expired; the api key must be rotated. password: required. See the authorization policy. "
ROWS = [{"id": n, "at": 1700000000000 + n, "sum": n / 7, "sha": f"{n * 7919:040x}"} for n in range(12)]
CLEAN = {"prose": {"text": PROSE * 11}, "code": {"text": CODE * 9}, "rows": {"rows": ROWS}}
CLOSE = {"names in prose": {"text": NAMES * 10}, "a secret": {"password": "hunter2", "text": PROSE * 11}}
EVERYTHING = " password=a1 ghp_" + "a1" * 20
"""So that nothing is passed over at the first look."""
HOSTILE = {
    pattern: {"text": (pattern * 65_536)[:65_536] + EVERYTHING}
    for pattern in (
        "password ", "password=", "a_", "a-b_", "://a:", "eyJaaaaaa.", "-eyJ", "Cookie: a=", "login ", "login -",
        "4111 ", "\\\"token\\\":", "token='", "-----BEGIN PRIVATE KEY-----", "<apiKey>", "key=", "key=\"a\" ", "?a",
        "bearer ", "basic ", "A" * 31 + "_", "authorization: ", "pass pass-", "sk-", "xoxb-", "ya29.", "curl -u ",
        "a.", "((",
    )
}  # fmt: skip


def micros_per_kb(act: Callable[[Any], object], value: Any, many: int) -> float:
    size = len(json.dumps(value)) / 1024
    started = time.thread_time()
    for _ in range(many):
        act(value)
    return (time.thread_time() - started) / many / size * 1e6


def recorded(value: Any) -> object:
    return MASKER.payload(value, 65_536 * 2)


def quality() -> dict[str, Any]:
    found = {}
    for half in HALVES:
        result = score([row for row in samples() if row.half == half], MASKER.mask)
        found[half] = {**vars(result), "precision": result.precision, "recall": result.recall}
        print(f"{half:<10} precision {result.precision:.3f}   recall {result.recall:.3f}   {result}")
    rows = secret_corpus.samples()
    for half in secret_corpus.HALVES:
        mine = [row for row in rows if row.half == half]
        result = score(mine, MASKER.mask)
        found[half] = {**vars(result), "precision": result.precision, "recall": result.recall}
        print(f"{half:<10} precision {result.precision:.3f}   recall {result.recall:.3f}   {result}")
        for kind in sorted({row.kind for row in mine}):
            verdicts = Counter(row.verdict(MASKER.mask) for row in mine if row.kind == kind)
            print(f"    {kind:<20} {', '.join(f'{many} {verdict}' for verdict, many in sorted(verdicts.items()))}")
    return found


def cost(rounds: int) -> dict[str, Any]:
    own = replace(
        MASKER, own=MaskPatterns([("a", r"\bEMP-\d{6}\b"), ("b", "(?i)acme[_-][a-z0-9]{24}"), ("c", "site-[0-9]+")])
    )
    works: list[tuple[str, Callable[[Any], object], Any, int]] = [
        *((f"encode only: {name}", MASKER.encode, value, 2000) for name, value in CLEAN.items()),
        *((f"clean: {name}", recorded, value, 2000) for name, value in CLEAN.items()),
        ("clean, 3 patterns of one's own", lambda value: own.payload(value, 65_536), CLEAN["prose"], 1000),
        *((f"looked at closely: {name}", recorded, value, 200) for name, value in CLOSE.items()),
        *((f"hostile: {name.strip()}", recorded, value, 1) for name, value in HOSTILE.items()),
    ]
    took: dict[str, list[float]] = {name: [] for name, *_ in works}
    for _ in range(rounds):
        for name, act, value, many in works:
            took[name].append(micros_per_kb(act, value, many))
    print(f"\n{'':<52} µs of CPU per KB")
    for name, values in took.items():
        print(f"{name:<52} {spread(values)}")
    return {name: figures(values) for name, values in took.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    wanted = parser.parse_args()
    report("masking", {"quality": quality(), "micros_per_kb": cost(wanted.rounds)})


if __name__ == "__main__":
    main()
