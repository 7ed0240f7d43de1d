"""What the catalog recommends for a command, however its package is named there."""

from __future__ import annotations

import pytest

from mcpproxy_py.app.builtin_upstreams import server_specs
from mcpproxy_py.providers.catalog.recommended_sessions import recommended_sessions
from mcpproxy_py.settings import Settings

pytestmark = pytest.mark.proves("UP-11")


@pytest.mark.parametrize(
    ("command", "args", "mode"),
    [
        ("npx", ["-y", "@playwright/mcp@latest", "--headless"], "shared"),
        ("npx", ["@playwright/mcp"], "shared"),
        ("/usr/bin/npx", ["-y", "chrome-devtools-mcp@1.2.3"], "shared"),
        ("npx.cmd", ["-y", "chrome-devtools-mcp"], "shared"),
        ("node", ["/x/node_modules/@playwright/mcp/cli.js"], "shared"),
        ("node", ["C:\\x\\node_modules\\chrome-devtools-mcp\\build\\index.js"], "shared"),
        ("uvx", ["serena-agent==1.0"], "per_client"),
        ("uvx", ["serena-agent[all]"], "per_client"),
        ("npx", ["-y", "@modelcontextprotocol/server-everything"], None),
        ("npx", ["-y", "@playwright/test"], None),
        ("npx", [], None),
        ("uvx", ["@playwright/mcp"], None),
        ("cat", ["@playwright/mcp"], None),
        (None, [], None),
    ],
)  # fmt: skip
def test_a_command_is_recognized_by_its_package(command: str | None, args: list[str], mode: str | None) -> None:
    found = recommended_sessions(command, args)
    assert (found[0] if found else None) == mode
    assert found is None or found[1]


def test_the_reason_is_given_only_where_the_configuration_says_the_same() -> None:
    browser = {"command": "npx", "args": ["-y", "@playwright/mcp"]}
    servers = {"a": {**browser, "sessions": "shared"}, "b": {**browser, "sessions": "exclusive"}, "c": browser}
    specs = server_specs(Settings.model_validate({"mcpServers": servers}))
    assert [bool(specs[name].sessions_why) for name in "abc"] == [True, False, False]
