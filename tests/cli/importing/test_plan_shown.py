"""The plan on a terminal: within its width, and with the whole command."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpproxy_py.cli.importing.convert import converted
from mcpproxy_py.cli.importing.plan import PresentServers, planned
from mcpproxy_py.cli.importing.plan_shown import counted, plan_lines
from mcpproxy_py.cli.importing.reading import ForeignServer
from mcpproxy_py.cli.importing.variables import ImportPlace

ENTRIES = {
    "GitHub Enterprise": {
        "command": "npx", "args": ["-y", "@modelcontextprotocol/server-github", "--token", "ghp_" + "a1B2" * 9],
        "env": {"API_KEY": "k3y-Secret-1", "HOST": "${env:GH_HOST}"}, "cwd": "/work/app", "autoApprove": ["x"],
    },
    "developer": {"type": "builtin"},
}  # fmt: skip
AT_60 = """\
          github-enterprise  (cursor, there: GitHub
          Enterprise)
          npx -y @modelcontextprotocol/server-github --token
          ***
          - starts in /work/app
          - sets API_KEY, HOST from ${env:GH_HOST}
          - autoApprove (tools it runs without asking) is
            not taken over: here a tool's class decides.
            `mcpproxy tools classify` proposes classes
          - the variable 'GH_HOST' is not set here
          - plain secrets: env.API_KEY, args.3
          developer  (cursor)
          - it is built into the client, so there is nothing
            that a gateway could start or reach
Servers: 1 to take, 1 that cannot be taken."""


def shown(width: int) -> list[str]:
    place = ImportPlace("/home/me", {})
    pairs = [
        (ForeignServer("cursor", Path("/home/me/.cursor/mcp.json"), ("mcpServers", name), raw),
         converted("cursor", name, raw, place))
        for name, raw in ENTRIES.items()
    ]  # fmt: skip
    rows = planned(pairs, PresentServers({}))
    return [*(line for row in rows for line in plan_lines(row, width)), counted(rows)]


def test_the_plan_at_60_columns() -> None:
    assert "\n".join(shown(60)) == AT_60


@pytest.mark.parametrize("width", [30, 40, 80, 120])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_lost(width: int) -> None:
    lines = shown(width)
    assert all(len(line) <= width for line in lines[:-1])
    assert "".join("".join(lines).split()) == "".join(AT_60.split())
