"""What an answer of `retrieve_tools` costs in tokens, from question to call, for each `detail`, over ten real servers.

    python -m tests.bench.details [--words]

`python -m tests.bench.tool_lists` fetches the listings. The agent is an offline one: it asks each of the twenty tasks
once, and calls the right tool if that is among the five that it gets. Where the answer holds a signature and not the
schema, it calls by that if all that the tool requires is of a plain type, and otherwise asks for the tool by its name
first, which costs what that costs, and another turn. With `careful` it also asks where the description was cut, or
where the text of something required says more than a name does. The other way is to list all tools to the agent, once
for each task.
"""

from __future__ import annotations

import argparse
import json
import sys
from statistics import mean, median
from typing import Any, Final

import bpe_openai

from mcpproxy_py import word_vectors
from mcpproxy_py.core.policy.surface_tools import definitions
from mcpproxy_py.core.search.tool_search import COMPACT_DESCRIPTION, retrieve_tools
from mcpproxy_py.core.values import Policy, Server, Snapshot, Tool
from tests.bench.strangers import indexed
from tests.bench.tool_lists import LISTS

SERVERS: Final = {
    "github": "npm_modelcontextprotocol_server-github", "files": "npm_modelcontextprotocol_server-filesystem",
    "browser": "npm_playwright_mcp", "stripe": "npm_stripe_mcp", "slack": "npm_modelcontextprotocol_server-slack",
    "sentry": "npm_sentry_mcp-server", "git": "pypi_mcp-server-git", "k8s": "npm_mcp-server-kubernetes",
    "todo": "npm_doist_todoist-mcp", "maps": "npm_modelcontextprotocol_server-google-maps",
}  # fmt: skip
TASKS: Final = (
    ("open a ticket about the broken login in the repository", "github:create_issue"),
    ("merge the pull request that was approved", "github:merge_pull_request"),
    ("which files did this pull request change", "github:get_pull_request_files"),
    ("read the text of a file on disk", "files:read_text_file"),
    ("rename a file", "files:move_file"),
    ("make a new folder", "files:create_directory"),
    ("take a picture of the page", "browser:browser_take_screenshot"),
    ("open a website", "browser:browser_navigate"),
    ("give a customer their money back", "stripe:create_refund"),
    ("how much money is in the account", "stripe:retrieve_balance"),
    ("write to the team's channel", "slack:slack_post_message"),
    ("react with a thumbs up to a message", "slack:slack_add_reaction"),
    ("find the errors that crashed the app last night", "sentry:search_issues"),
    ("what did I change and not stage yet", "git:git_diff_unstaged"),
    ("save the staged changes with a message", "git:git_commit"),
    ("show the logs of a pod", "k8s:kubectl_logs"),
    ("run more replicas of a deployment", "k8s:kubectl_scale"),
    ("put something on my to-do list for tomorrow", "todo:add-tasks"),
    ("mark a task as done", "todo:complete-tasks"),
    ("how do I drive from here to the airport", "maps:maps_directions"),
)
WORDS: Final = 6
PLAIN: Final = frozenset(("string", "number", "integer", "boolean"))
_ENCODING: Final = bpe_openai.get_encoding("o200k_base")


def tokens(value: Any) -> int:
    return len(_ENCODING.encode(json.dumps(value, ensure_ascii=False)))


TURN: Final = tokens(definitions())
"""One more ask is one more turn, and on each turn an agent reads the tools of the gate again."""
NO_FILTER: Final = {"server": None, "read_only_only": False, "exclude_destructive": False, "limit": 5}


def listed() -> list[Tool]:
    found: list[Tool] = []
    for server, name in SERVERS.items():
        said = json.loads((LISTS / f"{name}.json").read_text("utf-8"))
        wires = said if isinstance(said, list) else said["tools"]
        found += [Tool(server, wire["name"], wire, "unknown") for wire in wires]
    return found


def callable_by_signature(tool: Tool, careful: bool) -> bool:
    schema = tool.wire.get("inputSchema") or {}
    properties = schema.get("properties") or {}
    required = [properties.get(name, {}) for name in schema.get("required") or ()]
    if careful and (len(tool.wire.get("description") or "") > COMPACT_DESCRIPTION or any(map(_told, required))):
        return False
    return all(each.get("type") in PLAIN for each in required)


def _told(parameter: dict[str, Any]) -> bool:
    """Whether its text may say more than its name."""
    return len(str(parameter.get("description") or "").split()) > WORDS or "pattern" in parameter


def run(snapshot: Snapshot, tools: dict[str, Tool], detail: str, careful: bool) -> tuple[list[int], int, int]:
    """What each task costs, how many end in a call, and how many of these by one search alone."""
    costs: list[int] = []
    called = at_once = 0
    for query, right in TASKS:
        answer = retrieve_tools(snapshot, {"query": query, "detail": detail, **NO_FILTER})
        cost = tokens({"query": query}) + tokens(answer)
        row = next((row for row in answer["tools"] if row["name"] == right), None)
        if row is not None:
            called += 1
            if "inputSchema" in row or callable_by_signature(tools[right], careful):
                at_once += 1
            else:
                again = retrieve_tools(snapshot, {"names": [right], **NO_FILTER})
                cost += tokens({"names": [right]}) + tokens(again) + TURN
        costs.append(cost)
    return costs, called, at_once


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", action="store_true", help="without the vectors of the extra")
    wanted = parser.parse_args()
    try:
        tools = listed()
    except OSError as why:
        sys.exit(f"{why}: run `python -m tests.bench.tool_lists` first; it needs npm and PyPI")
    by_server: dict[str, dict[str, Tool]] = {}
    for tool in tools:
        by_server.setdefault(tool.server, {})[tool.name] = tool
    servers = {name: Server(name, "connected", theirs) for name, theirs in by_server.items()}
    index = indexed(tools, by_meaning=word_vectors.installed() and not wanted.words)
    snapshot, named = Snapshot(Policy(), servers, index), {tool.full_name: tool for tool in tools}
    everything = tokens([dict(tool.wire) for tool in tools])
    print(f"{len(servers)} servers, {len(tools)} tools, {len(TASKS)} tasks; to list all of them: {everything} tokens")
    print(f"{'detail':<17} {'median':>7} {'mean':>7} {'called':>6} {'at once':>8} {'calls per 10,000 tokens':>23}")
    for detail, careful in (("full", False), ("auto", False), ("compact", False), ("auto", True), ("compact", True)):
        costs, called, at_once = run(snapshot, named, detail, careful)
        way, worth = f"{detail}, careful" if careful else detail, called / sum(costs) * 10_000
        print(f"{way:<17} {median(costs):>7.0f} {mean(costs):>7.0f} {called:>6} {at_once:>8} {worth:>23.1f}")


if __name__ == "__main__":
    main()
