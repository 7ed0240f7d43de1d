"""Every server of the catalog becomes an entry that a configuration takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpproxy_py.core.catalog.model import ServerEntry
from mcpproxy_py.core.catalog.published_servers import published_as
from mcpproxy_py.providers.catalog.load import META, connect_command, load_servers, server_entry
from mcpproxy_py.providers.catalog.recipe import recipe
from mcpproxy_py.settings import validate_text

SERVERS = load_servers()


@pytest.mark.proves("USE-6", "CAT-6")
@pytest.mark.parametrize("entry", SERVERS.values(), ids=lambda entry: entry.slug)
def test_every_server_of_the_catalog_becomes_a_valid_entry(entry: ServerEntry) -> None:
    plan = recipe(entry)
    assert plan is not None
    config = dict(plan.config)
    for question in plan.questions:
        key = {"env": "env", "header": "headers"}.get(question.kind)
        if key is None:
            config["args"] = [*config["args"], "value"]
        else:
            config[key] = {**config.get(key, {}), question.name: f"${{env:{question.name.replace('-', '_')}}}"}
    text = json.dumps({"mcpServers": {entry.slug[:32].strip("-"): config}})
    assert validate_text(text, origin=entry.slug) == []
    assert all(question.secret for question in plan.questions if question.kind == "header")


def made(**changed: object) -> ServerEntry:
    wire = {
        "name": "a.b/c", "title": "C", "description": "c",
        "_meta": {META: {"slug": "c", "auth": "oauth-or-key", "status": "unknown", **changed}},
        "packages": [{"registryType": "oci", "identifier": "ghcr.io/a/c", "transport": {"type": "stdio"},
                      "environmentVariables": [{"name": "K", "isSecret": True}, {"name": "O", "isRequired": False}]}],
        "remotes": [{"type": "sse", "url": "https://c.example/mcp"}],
    }  # fmt: skip
    return server_entry(wire)


@pytest.mark.proves("USE-6")
def test_a_package_goes_before_an_address_with_a_login_and_either_can_be_chosen() -> None:
    plan = recipe(made())
    assert plan is not None
    args = ["run", "-i", "--rm", "-e", "K", "-e", "O", "ghcr.io/a/c"]
    assert plan.config == {"command": "docker", "args": args}
    assert [(each.name, each.secret, each.required) for each in plan.questions] == [
        ("K", True, True), ("O", False, False),
    ]  # fmt: skip
    remote = recipe(made(), "sse")
    assert remote is not None and remote.config == {"url": "https://c.example/mcp", "transport": "sse"}
    assert [(each.kind, each.name, each.required) for each in remote.questions] == [("header", "Authorization", False)]
    public = recipe(made(auth="none"))
    assert public is not None and public.config["url"] == "https://c.example/mcp" and not public.questions


@pytest.mark.proves("USE-6", "UP-11")
@pytest.mark.parametrize("said", ["exclusive", {"mode": "exclusive", "why": "one browser"}])
def test_a_mode_of_sessions_that_the_catalog_recommends_is_taken(said: object) -> None:
    plan = recipe(made(sessions=said))
    assert plan is not None and plan.config["sessions"] == "exclusive"


@pytest.mark.proves("USE-6")
def test_an_entry_without_a_package_that_can_be_started_has_no_recipe(tmp_path: Path) -> None:
    wire = {**made().wire, "remotes": (), "packages": [{"registryType": "mcpb", "identifier": "x",
            "transport": {"type": "stdio"}}]}  # fmt: skip
    assert recipe(server_entry(wire)) is None


@pytest.mark.proves("USE-6")
@pytest.mark.parametrize("slug", ["sqlite", "qdrant", "chroma"])
def test_a_server_written_for_an_older_library_is_started_with_that_one_and_still_known(slug: str) -> None:
    plan = recipe(SERVERS[slug])
    assert plan is not None
    package = SERVERS[slug].wire["packages"][0]["identifier"]
    assert plan.config["args"][:2] == ["--with", "mcp~=1.0"]
    assert plan.config["args"][-1] == package
    assert published_as(plan.config) == f"pypi:{package}"
    assert "uvx --with mcp~=1.0 " in (connect_command(SERVERS[slug]) or "")
