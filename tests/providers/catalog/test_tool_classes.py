"""The curated classes: whole, with a source, and given to nobody who only has the name."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from mcpproxy_py.core.catalog.published_servers import named
from mcpproxy_py.core.values import RANK
from mcpproxy_py.providers.catalog.data_files import SHIPPED, DataError, problems
from mcpproxy_py.providers.catalog.tool_classes import KIND, curated_classes
from mcpproxy_py.providers.catalog.validate import validate

pytestmark = pytest.mark.proves("USE-9", "CAT-3")

DOCUMENT: dict[str, Any] = json.loads((SHIPPED / f"{KIND}.json").read_text(encoding="utf-8"))
SERVERS: list[dict[str, Any]] = DOCUMENT["servers"]


def entry(line: str) -> dict[str, Any]:
    program, *args = line.split()
    return {"command": program, "args": args}


def test_forty_servers_and_more_have_classes_that_fit_their_schema() -> None:
    assert len(SERVERS) >= 40
    assert list(problems(KIND, DOCUMENT)) == []


def test_no_class_is_lower_than_its_server_publishes() -> None:
    lower = [
        (server["title"], name)
        for server in SERVERS
        for name, tool in server["tools"].items()
        if tool["published"] != "unknown" and RANK[tool["class"]] < RANK[tool["published"]]
    ]
    assert lower == []


def test_every_server_is_one_of_the_package_that_it_was_judged_by() -> None:
    """Or its source is a repository at a commit."""
    for server in SERVERS:
        source = server["source"]
        if source.startswith("github:"):
            continue
        package = source.rpartition("@")[0].lower()
        kind, _, name = package.partition(":")
        wanted = f"{kind}:{re.sub(r'[-_.]+', '-', name)}" if kind == "pypi" else package
        assert wanted in server["identities"], source


@pytest.mark.parametrize(
    ("line", "tool", "expected"),
    [
        ("npx -y @modelcontextprotocol/server-postgres postgresql://x", "query", "destructive"),
        ("uvx mcp-server-sqlite", "read_query", "read"),
        ("uvx mcp-server-sqlite", "write_query", "destructive"),
        ("npx @supabase/mcp-server-supabase", "execute_sql", "destructive"),
        ("npx @neondatabase/mcp-server-neon", "run_sql", "destructive"),
        ("uvx mcp-server-git", "git_log", "read"),
    ],
)
def test_a_known_server_has_them(line: str, tool: str, expected: str) -> None:
    found = curated_classes(entry(line))[tool]
    assert found.tool_class == expected
    assert found.reason
    assert found.source


def test_by_its_host_too() -> None:
    assert curated_classes({"url": "https://api.githubcopilot.com/mcp/"})["delete_file"].tool_class == "destructive"


@pytest.mark.parametrize(
    "config",
    [
        {"command": "python", "args": ["filesystem.py"]},
        {"command": "filesystem"},
        {"command": "npx", "args": ["-y", "evil-server-filesystem"]},
        {"url": "https://api.githubcopilot.com.evil.example/mcp"},
        {"url": "http://127.0.0.1:9/mcp"},
    ],
)
def test_one_that_runs_something_else_has_none(config: dict[str, Any]) -> None:
    assert curated_classes(config) == {}


def test_what_runs_sql_or_a_command_is_never_less_than_destructive() -> None:
    harmless = [
        (server["title"], name)
        for server in SERVERS
        for name, tool in server["tools"].items()
        if re.search(r"execute_sql|run_sql|run_query|exec_in|evaluate|start_process|call_aws", name)
        and tool["class"] != "destructive"
    ]
    assert harmless == []


def test_a_persons_own_file_goes_before_the_shipped_one(tmp_path: Path) -> None:
    own = {"servers": [{
        "title": "Mine", "identities": ["pypi:mcp-server-git"], "source": "pypi:mcp-server-git@1",
        "tools": {"git_log": {"class": "write", "reason": "because", "published": "unknown"}},
    }]}  # fmt: skip
    (tmp_path / f"{KIND}.json").write_text(json.dumps(own))
    assert curated_classes(entry("uvx mcp-server-git"), tmp_path)["git_log"].tool_class == "write"
    assert curated_classes(entry("uvx mcp-server-git"), tmp_path)["git_reset"].tool_class == "destructive"


def test_a_bad_one_of_a_person_is_told(tmp_path: Path) -> None:
    (tmp_path / f"{KIND}.json").write_text('{"servers": [{"title": "x"}]}')
    with pytest.raises(DataError, match=KIND):
        curated_classes(entry("uvx mcp-server-git"), tmp_path)
    assert {found.level for found in validate(tmp_path, date(2026, 11, 19)) if KIND in found.where} == {"error"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda servers: servers.append(servers[0]), "is in two entries"),
        (lambda servers: servers[0]["tools"].update(x={"class": "read", "reason": "why", "published": "destructive"}),
         "its server publishes destructive"),
    ],
)  # fmt: skip
def test_the_check_finds_what_no_schema_can(tmp_path: Path, change: Any, says: str) -> None:
    servers = json.loads(json.dumps(SERVERS))
    change(servers)
    (tmp_path / f"{KIND}.json").write_text(json.dumps({"servers": servers}))
    assert any(says in found.message for found in validate(tmp_path, date(2026, 11, 19)))


def test_most_of_them_are_in_the_server_catalog() -> None:
    """What has classes and is not listed there is a package that was superseded."""
    listed = json.loads((SHIPPED / "servers.json").read_text(encoding="utf-8"))["servers"]
    packages = [package for server in listed for package in server.get("packages", ())]
    known = {named(package["registryType"], package["identifier"]) for package in packages
             if package["registryType"] in ("npm", "pypi", "oci")}  # fmt: skip
    found = [server["title"] for server in SERVERS if known & set(server["identities"])]
    assert len(found) >= 40
