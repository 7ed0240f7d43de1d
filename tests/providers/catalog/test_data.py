"""The data: that it is whole, that it fits its schemas, and that a person can lay their own over it."""

from __future__ import annotations

import json
import re
import shlex
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from mcpproxy_py.cli.main import loaded
from mcpproxy_py.providers.catalog.data_files import SHIPPED, DataError
from mcpproxy_py.providers.catalog.load import META, connect_command, load
from mcpproxy_py.providers.catalog.validate import STALE_AFTER, TOO_OLD_AFTER, validate

CATALOG = load()
CANONICAL = [
    "Agent Mode", "Sub-agents", "Code Generation", "Code Explanation", "Code Refactoring", "Debugging",
    "Documentation Generation", "Chat Assistance", "Multi-file Editing", "MCP Support", "Custom Instructions",
    "Multi-language Support", "Model Selection", "Extended Thinking", "Prompt and Context Inspector", "Debug Logging",
    "Usage Tracking", "Lifecycle Hooks", "Extension System", "Terminal CLI", "Vision", "Token Caching",
    "Google Search Grounding", "Code Completion", "Next Edit Suggestions", "Workspace Context", "Copilot Spaces",
    "Code Review",
]  # fmt: skip


def document(name: str) -> Any:
    return json.loads((SHIPPED / name).read_text(encoding="utf-8"))


def newest() -> date:
    dates = [
        date.fromisoformat(source.verified_date)
        for agent in CATALOG.agents.values()
        for record in agent.records.values()
        for source in record.sources
        if source.verified_date
    ]
    return max(dates)


@pytest.mark.proves("CAT-3")
def test_the_shipped_data_had_nothing_wrong_with_it_on_the_day_it_was_checked() -> None:
    assert validate(None, newest()) == []


@pytest.mark.proves("CAT-3")
def test_every_agent_covers_the_28_capabilities_under_their_own_category() -> None:
    assert [term.name for term in CATALOG.names.terms] == CANONICAL
    categories = {term.name: term.category for term in CATALOG.names.terms}
    assert list(CATALOG.agents) == ["claude-code", "copilot-cli", "gemini-cli", "vscode-copilot"]
    for agent in CATALOG.agents.values():
        assert list(agent.records) == CANONICAL
        assert all(record.category == categories[record.name] for record in agent.records.values())


@pytest.mark.proves("CAT-3")
def test_a_record_is_verified_exactly_when_a_dated_page_of_the_vendor_says_so() -> None:
    vendors = ("code.claude.com", "docs.github.com", "github.com/google-gemini", "code.visualstudio.com")
    for agent in CATALOG.agents.values():
        for record in agent.records.values():
            assert record.sources, f"{agent.id}: {record.name} names no page"
            assert all(any(vendor in source.url for vendor in vendors) for source in record.sources)
            dated = [source for source in record.sources if source.verified_date]
            assert bool(dated) is (record.status == "verified")
            assert all(re.search(r"copy of|repository of", source.description) for source in dated)


@pytest.mark.proves("CAT-3")
def test_what_is_available_says_how_to_begin() -> None:
    for agent in CATALOG.agents.values():
        for record in agent.records.values():
            if record.available:
                assert record.notes.start_url, f"{agent.id}: {record.name}"
                assert record.tier and record.maturity


@pytest.mark.proves("CAT-3")
def test_there_are_more_than_150_aliases_besides_the_documented_ones() -> None:
    assert len(document("aliases.json")["aliases"]) > 11 + 150


@pytest.mark.proves("CAT-3")
@pytest.mark.parametrize(
    ("days", "level"),
    [(0, None), (STALE_AFTER, None), (STALE_AFTER + 1, "warning"), (TOO_OLD_AFTER, "warning"),
     (TOO_OLD_AFTER + 1, "error"), (-1, "error")],
)  # fmt: skip
def test_facts_grow_stale_and_then_too_old(days: int, level: str | None) -> None:
    found = validate(None, newest() + timedelta(days=days))
    assert {finding.level for finding in found} == ({level} if level else set())


@pytest.mark.proves("CAT-5")
def test_there_are_at_least_100_servers_and_each_can_be_told_from_the_others() -> None:
    assert len(CATALOG.servers) >= 100
    assert len({entry.name for entry in CATALOG.servers.values()}) == len(CATALOG.servers)
    for entry in CATALOG.servers.values():
        assert entry.package or entry.url
        assert entry.transport in ("stdio", "streamable-http", "sse")
        assert len(entry.description) <= 100


@pytest.mark.proves("CAT-5")
def test_a_server_is_verified_only_where_the_check_is_on_record() -> None:
    for server in document("servers.json")["servers"]:
        meta = server["_meta"][META]
        assert meta["checked"]["how"]
        if meta["status"] == "verified":
            assert "found, version" in meta["checked"]["how"] or "url" in meta["checked"]
        for package in server.get("packages", ()):
            if package["registryType"] in ("npm", "pypi"):
                assert f"version {package['version']}" in meta["checked"]["how"]


@pytest.mark.proves("CAT-5")
def test_no_secret_and_no_value_is_shipped_for_any_variable() -> None:
    for server in document("servers.json")["servers"]:
        for package in server.get("packages", ()):
            for variable in package.get("environmentVariables", ()):
                assert {"name", "isSecret"} <= set(variable) <= {"name", "isSecret", "isRequired"}


@pytest.mark.proves("CAT-6")
@pytest.mark.parametrize("entry", CATALOG.servers.values(), ids=lambda entry: entry.slug)
def test_the_command_that_would_connect_a_server_is_one_that_the_command_line_takes(entry: Any) -> None:
    command = connect_command(entry)
    assert command is not None
    program, group, *rest = shlex.split(command)
    assert (program, group) == ("mcpproxy", "upstream")
    add = loaded("upstream").commands[rest[0]]
    context = add.make_context("add", rest[1:], resilient_parsing=False)
    assert context.params["name"] == entry.slug


def own(tmp_path: Path, **files: Any) -> Path:
    for name, content in files.items():
        path = tmp_path / name.replace("__", "/")
        path = path.with_name(path.name + ".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return tmp_path


ENTRY = {
    "name": "com.example/wiki", "title": "Our wiki", "description": "Search our wiki",
    "remotes": [{"type": "streamable-http", "url": "https://wiki.example.com/mcp"}],
    "_meta": {META: {"slug": "wiki", "auth": "oauth", "status": "unknown"}},
}  # fmt: skip


@pytest.mark.proves("CAT-3", "CAT-5")
def test_ones_own_servers_and_aliases_are_laid_over_the_shipped_ones(tmp_path: Path) -> None:
    catalog = load(own(tmp_path, servers={"servers": [ENTRY]}, aliases={"aliases": {"robots": "Sub-agents"}}))
    assert catalog.servers["wiki"].url == "https://wiki.example.com/mcp"
    assert "notion" in catalog.servers
    assert catalog.names.resolve("robots").term.name == "Sub-agents"  # pyright: ignore
    assert catalog.names.resolve("mcp").term.name == "MCP Support"  # pyright: ignore


@pytest.mark.proves("CAT-3")
def test_ones_own_agent_file_takes_the_place_of_the_shipped_one_or_adds_an_agent(tmp_path: Path) -> None:
    record = {"name": "Vision", "category": "interaction", "available": True, "description": "Sees what it is shown",
              "status": "unknown", "tier": "free"}  # fmt: skip
    sheet = {"agent": "our-agent", "title": "Ours", "vendor": "Us", "capabilities": [record]}
    directory = own(
        tmp_path,
        **{
            "agents__our-agent__capabilities__current": sheet,
            "agents__gemini-cli__capabilities__current": {**sheet, "agent": "gemini-cli"},
        },
    )
    catalog = load(directory)
    assert list(catalog.agents["our-agent"].records) == ["Vision"]
    assert list(catalog.agents["gemini-cli"].records) == ["Vision"]
    assert len(catalog.agents["claude-code"].records) == 28
    assert any("is not covered" in finding.message for finding in validate(directory, newest()))


@pytest.mark.proves("CAT-3")
@pytest.mark.parametrize(
    ("files", "said"),
    [({"servers": "{"}, "not JSON"),
     ({"servers": "[" * 100_000}, "not JSON"),
     ({"servers": {"servers": [{**ENTRY, "name": "no slash"}]}}, "servers/0/name"),
     ({"servers": {"servers": [{**ENTRY, "remotes": [{"type": "streamable-http", "url": "http://x/mcp"}]}]}},
      "servers/0/remotes/0/url"),
     ({"servers": {"servers": [{**ENTRY, "remotes": [{"type": "sse", "url": "https://x/;rm -rf"}]}]}}, "remotes/0/url"),
     ({"aliases": {"aliases": {"robots": "Robots"}}}, "'robots' stands for 'Robots'"),
     ({"aliases": {"aliases": {"robots": 7}}}, "robots"),
     ({"capabilities": {"capabilities": []}}, "capabilities")],
)  # fmt: skip
def test_ones_own_wrong_file_is_named_with_what_is_wrong(tmp_path: Path, files: Any, said: str) -> None:
    directory = own(tmp_path, **files)
    with pytest.raises(DataError) as refused:
        load(directory)
    assert said in str(refused.value)
    assert any(finding.level == "error" for finding in validate(directory, newest()))


@pytest.mark.proves("CAT-5", "USE-5")
def test_the_examples_of_the_how_to_can_be_used_as_they_stand(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "howto" / "your-own-catalog-data.md").read_text(encoding="utf-8")
    server, package, aliases = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL))
    local = {**{key: ENTRY[key] for key in ("name", "title", "description", "_meta")}, **package}
    local["_meta"] = {META: {**ENTRY["_meta"][META], "slug": "local-wiki"}}
    both = {"servers": [*server["servers"], local]}
    catalog = load(own(tmp_path, servers=both, aliases=aliases))
    assert catalog.servers["wiki"].tags == ("documents", "search")
    assert connect_command(catalog.servers["local-wiki"]) == "mcpproxy upstream add local-wiki -- uvx our-wiki-mcp"
    assert catalog.names.resolve("robot crew").term.name == "Sub-agents"  # pyright: ignore
