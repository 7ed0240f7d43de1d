"""Queries of other people's with the tool that each needs: what `tests.bench.strangers` measures the ranking on.

They are read from the public repositories below, as they were at the commits below, and lie in `.cache/` afterwards;
nothing of their texts is ours to keep here. Where a repository lies already as a git directory, `--mirrors DIRECTORY`
names where (`OWNER+NAME/repo`).

- `MetaTool` (balanced): five queries for each of 199 plugins, which have a name and a sentence each.
- `LiveMCPBench`: the steps of tasks whose annotators wrote down as many steps as tools, each with its tool; 527 tools
  of 70 servers. Where a step's tool is one of several of that name, each of them is right.
- `MCPToolBench++`: the calls of one step; 49 tools of five servers.
- `own`: our labelled set, of which `fresh` is always in the half that is kept.

A digest of the query decides in which half it is. `tune` is for whoever changes the ranking; `kept` is looked at once.
"""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from mcpproxy_py.core.values import Tool

CACHE: Final = Path(__file__).resolve().parents[2] / ".cache" / "search-sets"
DATA: Final = Path(__file__).parent / "data"
SECONDS: Final = 60
COMMITS: Final = {
    "HowieHwong/MetaTool": "35e81bb7576826e980c80fed8f8c0a2b4a1e6fbb",
    "icip-cas/LiveMCPBench": "a928e57d1ee7a25579b9a7036030faffff72d15b",
    "mcp-tool-bench/MCPToolBenchPP": "323725c417b43a02bea5a1421662e299dbadeb77",
}
CALLS: Final = (
    "browser/browser_0724_single_v3.json", "file_system/filesystem_0723_single.json",
    "finance/finance_0724_single_v3.json", "search/search_0725_single_v2.json",
)  # fmt: skip


class Unreachable(Exception):
    """The repository is neither here nor can be had from here."""


class Query(NamedTuple):
    text: str
    right: frozenset[str]
    """Full names of the tools that answer it."""
    half: str


class SearchSet(NamedTuple):
    tools: list[Tool]
    queries: list[Query]


Read = Callable[[str, str], bytes]


def read(repository: str, path: str, mirrors: Path | None = None) -> bytes:
    """One file. Raises `Unreachable`."""
    commit = COMMITS[repository]
    kept = CACHE / f"{sha256(f'{repository}@{commit}:{path}'.encode()).hexdigest()}.txt"
    if kept.exists():
        return kept.read_bytes()
    content = _from(repository, commit, path, mirrors)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(content)
    return content


def _from(repository: str, commit: str, path: str, mirrors: Path | None) -> bytes:
    mirror = mirrors and mirrors / repository.replace("/", "+") / "repo"
    if mirror and mirror.exists():
        shown = subprocess.run(["git", "-C", str(mirror), "show", f"{commit}:{path}"], capture_output=True, check=False)
        if shown.returncode == 0:
            return shown.stdout
    try:
        url = f"https://raw.githubusercontent.com/{repository}/{commit}/{path}"
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            return answer.read()
    except (OSError, urllib.error.URLError) as error:
        raise Unreachable(f"{repository} is not in {CACHE} and cannot be had from here: {error}") from error


def metatool(read: Read, each: int = 5) -> SearchSet:
    """Balanced: of each plugin's queries the same number, those with the lowest digests."""
    about = json.loads(read("HowieHwong/MetaTool", "dataset/plugin_des.json"))
    table = read("HowieHwong/MetaTool", "dataset/data/all_clean_data.csv").decode("utf-8", "replace")
    said: dict[str, set[str]] = {}
    for row in csv.DictReader(io.StringIO(table)):
        said.setdefault(row["Tool"], set()).add(row["Query"])
    tools = [_tool("plugins", name, text) for name, text in about.items()]
    queries = [
        _query(text, [f"plugins:{name}"])
        for name in about
        for text in sorted(said[name], key=lambda text: sha256(text.encode()).digest())[:each]
    ]
    return SearchSet(tools, queries)


def needless(read: Read) -> list[str]:
    """MetaTool's questions that need no tool at all."""
    rows = json.loads(read("HowieHwong/MetaTool", "dataset/tmp_dataset/Task1.json"))
    return sorted({row["query"] for row in rows if row.get("label", row.get("answer")) == "negative"})


def livemcp(read: Read) -> SearchSet:
    servers = json.loads(read("icip-cas/LiveMCPBench", "tools/LiveMCPTool/tools.json"))
    tasks = json.loads(read("icip-cas/LiveMCPBench", "annotated_data/all_annotations.json"))
    wires = [(name, wire) for row in servers for name, said in row["tools"].items() for wire in said["tools"]]
    tools = [Tool(server, wire["name"], wire, "unknown") for server, wire in wires]
    named: dict[str, list[str]] = {}
    for tool in tools:
        named.setdefault(tool.name, []).append(tool.full_name)
    queries: list[Query] = []
    for task in tasks:
        steps, wanted = (_numbered(task["Annotator Metadata"][key]) for key in ("Steps", "Tools"))
        if len(steps) == len(wanted):
            queries += [_query(step, named[name]) for step, name in zip(steps, wanted, strict=True) if name in named]
    return SearchSet(tools, queries)


def _numbered(text: str) -> list[str]:
    return [re.sub(r"^\s*\d+[.)]\s*", "", line).strip() for line in text.splitlines() if line.strip()]


def toolbench(read: Read) -> SearchSet:
    tools: dict[str, Tool] = {}
    queries: list[Query] = []
    for path in CALLS:
        for row in json.loads(read("mcp-tool-bench/MCPToolBenchPP", f"data/{path}")):
            server_of = {tool: server for server, theirs in row["mcp_tools_dict"].items() for tool in theirs}
            for wire in row["tools"]:
                tool = _tool(server_of[wire["name"]], wire["name"], wire["description"], wire["input_schema"])
                tools[tool.full_name] = tool
            call = row["function_call_label"][0]
            alike = [call, *call.get("similar_tools", ())]
            queries.append(_query(row["query"], [f"{each['mcp_server']}:{each['name']}" for each in alike]))
    return SearchSet([*tools.values()], queries)


def own(_: Read) -> SearchSet:
    rows = json.loads((DATA / "search_tools.json").read_text("utf-8"))
    tools = [Tool(row["server"], row["wire"]["name"], row["wire"], "unknown") for row in rows]
    queries = [
        Query(row["query"], frozenset(row["tools"]), "kept" if row["half"] == "fresh" else "tune")
        for name in ("search_queries.json", "search_fresh.json")
        for row in json.loads((DATA / name).read_text("utf-8"))
    ]
    return SearchSet(tools, queries)


SETS: Final[dict[str, Callable[[Read], SearchSet]]] = {
    "MetaTool": metatool,
    "LiveMCPBench": livemcp,
    "MCPToolBench++": toolbench,
    "own": own,
}


def _tool(server: str, name: str, about: str, schema: dict[str, Any] | None = None) -> Tool:
    wire = {"name": name, "description": about, "inputSchema": schema or {"type": "object"}}
    return Tool(server, name, wire, "unknown")


def _query(text: str, right: Iterable[str]) -> Query:
    return Query(text, frozenset(right), half_of(text))


def half_of(text: str) -> str:
    return "kept" if sha256(text.encode()).digest()[-1] % 2 else "tune"


def reader(mirrors: Path | None) -> Read:
    return partial(read, mirrors=mirrors)
