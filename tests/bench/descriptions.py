"""Texts of tools, harmless and poisoned, for `tests.bench.description_scan`: where they are, and their halves.

Poisoned ones and some harmless ones are our own and lie in `data/descriptions`. Harmless ones of published servers are
other people's texts, so the repository has only their digests (`published.json`, written by
`python -m tests.bench.descriptions --manifest` from the lists that `python -m tests.bench.tool_lists` fetched).

Halves were fixed before the first rule was written: our own texts by the digest of the text, published ones by the
digest of the package's name, so that no server's way of writing is in both. `tune` is what rules were made with,
`report` was looked at once, at the end.

`fresh_poisoned.jsonl` and `fresh_harmless.jsonl` are a second set. Its author wrote it before reading any rule,
and split it the same way.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.bench.tool_lists import LISTS

DATA: Final = Path(__file__).parent / "data" / "descriptions"
MANIFEST: Final = DATA / "published.json"
HALVES: Final = ("tune", "report")
PER_PACKAGE: Final = 6
"""So many tools of one server are in the corpus, those with the lowest digests: one server with 300 tools, which are
written alike, would be half of it."""


class Described(NamedTuple):
    """What a server says of itself: one of the three is given."""

    id: str
    half: str
    kind: str
    """The finding it should have; empty for harmless ones."""
    family: str
    tool: Mapping[str, Any] | None = None
    instructions: str | None = None
    prompt: Mapping[str, Any] | None = None


def digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode()).hexdigest()


def half_of(key: str) -> str:
    return HALVES[int(key[:2], 16) % 2]


def _own(file: str) -> Iterator[Described]:
    for line in (DATA / file).read_text(encoding="ascii").splitlines():
        entry = json.loads(line)
        what = {key: entry[key] for key in ("tool", "instructions", "prompt") if key in entry}
        yield Described(entry["id"], half_of(digest(what)), entry.get("kind", ""), entry.get("family", ""), **what)


def poisoned() -> list[Described]:
    return list(_own("poisoned.jsonl"))


def harmless() -> list[Described]:
    return list(_own("harmless.jsonl"))


def fresh_poisoned() -> list[Described]:
    """Attacks of the second set."""
    return list(_own("fresh_poisoned.jsonl"))


def fresh_harmless() -> list[Described]:
    """Hard negatives of the second set: they quote attacks, give orders to the model, or work with secrets."""
    return list(_own("fresh_harmless.jsonl"))


def others() -> dict[str, list[dict[str, Any]]]:
    """What else is behind the gateway that our own texts are served at, by server."""
    return json.loads((DATA / "others.json").read_bytes())


class PublishedServer(NamedTuple):
    package: str
    version: str
    half: str
    instructions: str | None
    tools: list[dict[str, Any]]
    chosen: frozenset[str]
    """Names of its tools in the corpus."""
    missing: int
    """How many that the manifest has are not in the list at hand: another version."""


def published() -> Iterator[PublishedServer]:
    for row in json.loads(MANIFEST.read_bytes())["packages"]:
        file = LISTS / row["list"]
        found: dict[str, Any] = json.loads(file.read_bytes()) if file.exists() else {"tools": []}
        named = {digest(tool): tool["name"] for tool in found["tools"]}
        chosen = frozenset(named[each] for each in row["tools"] if each in named)
        yield PublishedServer(
            row["package"], row["version"], row["half"], found.get("instructions"), found["tools"], chosen,
            len(row["tools"]) - len(chosen),
        )  # fmt: skip


def manifest() -> dict[str, Any]:
    packages = []
    for file in sorted(LISTS.glob("*.json")):
        listed = json.loads(file.read_bytes())
        half = half_of(sha256(listed["package"].encode()).hexdigest())
        packages.append({
            "package": listed["package"], "version": listed["version"], "list": file.name, "half": half,
            "label": "harmless", "of": len(listed["tools"]),
            "instructions": digest(listed["instructions"]) if listed.get("instructions") else None,
            "tools": sorted(digest(tool) for tool in listed["tools"])[:PER_PACKAGE],
        })  # fmt: skip
    return {"packages": packages}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--manifest", action="store_true", help="write the digests of the lists at hand")
    if options.parse_args().manifest:
        MANIFEST.write_text(json.dumps(manifest(), indent=1) + "\n", encoding="ascii")
    own = {"poisoned": poisoned(), "harmless, our own": harmless()}
    for name, texts in own.items():
        print(name, {half: sum(text.half == half for text in texts) for half in HALVES})
    if MANIFEST.exists():
        for half in HALVES:
            servers = [server for server in published() if server.half == half]
            chosen, tools = sum(len(s.chosen) for s in servers), sum(len(s.tools) for s in servers)
            print(f"published, {half}: {len(servers)} servers, {tools} tools, {chosen} of them in the corpus")


if __name__ == "__main__":
    main()
