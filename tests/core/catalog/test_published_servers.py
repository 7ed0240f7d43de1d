"""Who a configured server is: only what is fetched from a registry by name, and hosts, say it."""

from __future__ import annotations

from typing import Any

import pytest

from mcpproxy_py.core.catalog.published_servers import named, published_as

pytestmark = pytest.mark.proves("USE-9")

FILES = "npm:@modelcontextprotocol/server-filesystem"


def command(line: str, **other: Any) -> dict[str, Any]:
    program, *args = line.split()
    return {"command": program, "args": args, **other}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("npx -y @modelcontextprotocol/server-filesystem /tmp", FILES),
        ("npx --yes @modelcontextprotocol/server-filesystem@2026.8.31 /tmp", FILES),
        ("/usr/local/bin/npx -y @modelcontextprotocol/server-filesystem@latest", FILES),
        ("npx.cmd -y @modelcontextprotocol/server-filesystem", FILES),
        ("cmd /c npx -y @modelcontextprotocol/server-filesystem", FILES),
        ("npx -y -p @modelcontextprotocol/server-filesystem mcp-server-filesystem /tmp", FILES),
        ("npx --package=@modelcontextprotocol/server-filesystem x", FILES),
        ("npm exec -- @modelcontextprotocol/server-filesystem /tmp", FILES),
        ("bunx @modelcontextprotocol/server-filesystem", FILES),
        ("pnpm dlx @modelcontextprotocol/server-filesystem", FILES),
        ("uvx mcp-server-git", "pypi:mcp-server-git"),
        ("uvx mcp_server_git@2025.1.1 --repository /tmp", "pypi:mcp-server-git"),
        ("uvx --python 3.12 --from mcp-server-git[all]==1.2 mcp-server-git", "pypi:mcp-server-git"),
        ("uv tool run mcp-server-git", "pypi:mcp-server-git"),
        ("pipx run mcp-server-git", "pypi:mcp-server-git"),
        ("uvx --with mcp~=1.0 --with=fastmcp<3 mcp-server-git", "pypi:mcp-server-git"),
        ("uvx awslabs.aws-api-mcp-server@latest", "pypi:awslabs-aws-api-mcp-server"),
        ("docker run -i --rm -e TOKEN ghcr.io/github/github-mcp-server", "oci:ghcr.io/github/github-mcp-server"),
        ("docker run -i --rm --env=TOKEN=1 docker.io/mcp/time:1.0 x", "oci:mcp/time"),
    ],
)
def test_a_package_that_is_fetched_is_known(line: str, expected: str) -> None:
    assert published_as(command(line)) == expected


@pytest.mark.parametrize(
    "line",
    [
        "filesystem",
        "@modelcontextprotocol/server-filesystem",
        "node /tmp/@modelcontextprotocol/server-filesystem/index.js",
        "python -m mcp_server_git",
        "/tmp/evil/mcp-server-git",
        "mcp-server-git",
        "sh -c npx @modelcontextprotocol/server-filesystem",
        "npx",
        "npx -y",
        "npx ./@modelcontextprotocol/server-filesystem",
        "npx -c @modelcontextprotocol/server-filesystem",
        "npx --registry http://evil.example @modelcontextprotocol/server-filesystem",
        "npx --registry=http://evil.example @modelcontextprotocol/server-filesystem",
        "npx -p evil -p @modelcontextprotocol/server-filesystem mcp-server-filesystem",
        "npx @modelcontextprotocol/server-filesystem@npm:evil",
        "npx @modelcontextprotocol/server-filesystem@file:/tmp/evil",
        "npx github:evil/server-filesystem",
        "npx https://evil.example/server-filesystem.tgz",
        "uvx --index-url http://evil.example mcp-server-git",
        "uvx --with evil mcp-server-git",
        "uvx --with mcp@git+https://evil.example mcp-server-git",
        "uvx --from git+https://evil.example/mcp-server-git mcp-server-git",
        "uvx --from ./mcp-server-git mcp-server-git",
        "uvx mcp-server-git@git+https://evil.example",
        "uv run mcp-server-git",
        "docker run --entrypoint sh -i ghcr.io/github/github-mcp-server",
        "docker run -v /tmp/evil:/server ghcr.io/github/github-mcp-server",
        "docker exec -i ghcr.io/github/github-mcp-server",
    ],
)
def test_what_may_be_anything_else_is_nobody(line: str) -> None:
    found = published_as(command(line))
    assert found not in (FILES, "pypi:mcp-server-git", "oci:ghcr.io/github/github-mcp-server")


def test_another_package_is_that_other_package() -> None:
    assert published_as(command("npx -p evil @modelcontextprotocol/server-filesystem")) == "npm:evil"
    assert published_as(command("uvx --from evil mcp-server-git")) == "pypi:evil"
    assert published_as(command("npx evil @modelcontextprotocol/server-filesystem")) == "npm:evil"


@pytest.mark.parametrize(
    "name", ["npm_config_registry", "NPM_CONFIG_REGISTRY", "NODE_OPTIONS", "NODE_PATH", "PATH", "LD_PRELOAD"]
)
def test_a_variable_that_fetches_something_else_makes_it_nobody(name: str) -> None:
    line = "npx -y @modelcontextprotocol/server-filesystem"
    assert published_as(command(line, env={"API_KEY": "x"})) == FILES
    assert published_as(command(line, env={name: "x"})) is None


def test_a_folder_may_have_node_modules_of_its_own() -> None:
    assert published_as(command("npx -y @modelcontextprotocol/server-filesystem", cwd="/tmp")) is None
    assert published_as(command("uvx mcp-server-git", cwd="/tmp")) == "pypi:mcp-server-git"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://mcp.sentry.dev/mcp", "https:mcp.sentry.dev"),
        ("https://MCP.Sentry.dev", "https:mcp.sentry.dev"),
        ("https://mcp.sentry.dev:443/mcp?x=1", "https:mcp.sentry.dev"),
        ("http://mcp.sentry.dev/mcp", None),
        ("https://mcp.sentry.dev:8443/mcp", None),
        ("https://mcp.sentry.dev@evil.example/mcp", None),
        ("https://evil.example/https://mcp.sentry.dev", "https:evil.example"),
        ("https://mcp.sentry.dev.evil.example/", "https:mcp.sentry.dev.evil.example"),
        ("https://mcp.sentry.dev\\@evil.example/", None),
        ("https://mcp.sentry.dev%2eevil.example/", None),
        ("https://${env:HOST}/mcp", None),
    ],
)
def test_an_address_is_known_by_its_host_alone(url: str, expected: str | None) -> None:
    assert published_as({"url": url}) == expected


@pytest.mark.parametrize("entry", [{}, {"command": 1}, {"command": "npx", "args": [1]}, {"url": 1}, {"command": ""}])
def test_an_entry_of_another_shape_is_nobody(entry: dict[str, Any]) -> None:
    assert published_as(entry) is None


def test_names_are_compared_as_their_registry_compares_them() -> None:
    assert named("pypi", "MCP_Server.Git") == "pypi:mcp-server-git"
    assert named("npm", "../evil") is None
    assert named("oci", "Evil/..") is None
