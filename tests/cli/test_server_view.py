"""The list of servers, as it stands on a terminal of 40, 60, 80 and 120 columns; and on none."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpproxy_py.cli.servers.settle import remarks, result
from mcpproxy_py.cli.servers.view import lines

SNAPSHOTS = Path(__file__).parent / "snapshots" / "servers"
HINTED = {"read": 7, "write": 4, "destructive": 1, "unknown": 0}
BARE = {"read": 0, "write": 0, "destructive": 0, "unknown": 6}
ROWS = [
    {"name": "catalog", "state": "connected", "transport": "local", "tool_count": 7, "error": None,
     "tools_by_class": {"read": 6, "write": 1, "destructive": 0, "unknown": 0}, "session_mode": "shared"},
    {"name": "git", "state": "connected", "transport": "stdio", "tool_count": 12, "error": None,
     "tools_by_class": HINTED, "session_mode": "shared"},
    {"name": "sqlite", "state": "connected", "transport": "stdio", "tool_count": 6, "error": None,
     "tools_by_class": BARE, "unannotated_tools": ["a", "b", "c", "d", "e", "f"], "session_mode": "exclusive"},
    {"name": "github", "state": "failed", "transport": "stdio", "tool_count": 0,
     "error": "the environment variable GITHUB_TOKEN is not set (env.GITHUB_PERSONAL_ACCESS_TOKEN)"},
    {"name": "browser", "state": "failed", "transport": "stdio", "tool_count": 0, "session_mode": "shared",
     "error": "the command ended with exit status 1; it last wrote: chrome-devtools-mcp requires Node 22"},
    {"name": "tickets", "state": "connecting", "transport": "http", "tool_count": 0, "error": None},
    {"name": "old", "state": "disabled", "transport": "stdio", "tool_count": 0, "error": None},
    {"name": "lazy", "state": "sleeping", "transport": "stdio", "tool_count": 2, "error": None,
     "tools_by_class": {"read": 2, "write": 0, "destructive": 0, "unknown": 0}},
]  # fmt: skip


@pytest.mark.proves("USE-6")
@pytest.mark.parametrize("width", [40, 60, 80, 120, None])
def test_the_list_of_servers_looks_like_this(width: int | None) -> None:
    shown = [line for line, _ in lines(ROWS, width)]
    assert "\n".join(shown) + "\n" == (SNAPSHOTS / f"upstream-list-{width or 'pipe'}.txt").read_text(encoding="utf-8")
    assert width is None or all(len(line) <= width for line in shown)
    assert len(shown) == len(ROWS) + 1


@pytest.mark.proves("USE-6")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("git", "git: connected, 12 tools (7 read, 4 write, 1 destructive)"),
        ("sqlite", "sqlite: connected, 6 tools, 6 without hints"),
        ("tickets", "tickets: still connecting"),
        ("old", "old: disabled"),
        ("lazy", "lazy: sleeping until its first call, 2 tools (2 read)"),
    ],
)
def test_one_line_says_what_came_of_it(name: str, says: str) -> None:
    assert result(name, next(row for row in ROWS if row["name"] == name)) == says


def test_what_an_upstream_says_cannot_move_the_cursor() -> None:
    row = {"name": "x", "state": "failed", "tool_count": 0, "error": "\x1b[2Jgone\nand more"}
    assert result("x", row) == "x: failed: gone and more"
    assert all("\x1b" not in line and "\n" not in line for line, _ in lines([row], 80))


@pytest.mark.proves("USE-6")
def test_one_that_is_tried_again_is_not_taken_for_a_new_one_and_no_place_is_listed() -> None:
    row = {"name": "x", "state": "connecting", "tool_count": 0, "error": "command not found: x; looked in PATH (/bin)"}
    assert next(line for line, _ in lines([row], 80) if "x" in line.split()).split()[1:] == [
        "x", "retrying", "0", "command", "not", "found:", "x",
    ]  # fmt: skip


@pytest.mark.proves("USE-6")
def test_a_failure_names_the_next_steps_one_to_a_line_and_a_log_only_where_something_can_have_been_written() -> None:
    ended = {"state": "failed", "transport": "stdio", "error": "the command ended"}
    assert remarks("x", ended) == [
        "It stays configured. What you can do:",
        "  mcpproxy upstream logs x     see all that it wrote",
        "  mcpproxy upstream edit x     change it",
        "  mcpproxy upstream restart x  try again",
        "  mcpproxy upstream remove x   take it out",
    ]
    assert not any("logs" in line for line in remarks("x", {**ended, "error": "command not found: x"}))
    assert "mcpproxy doctor" in remarks("x", {**ended, "transport": "http"})[1]


@pytest.mark.proves("USE-9")
def test_tools_without_hints_come_with_the_command_that_gives_them_a_class() -> None:
    row = {"state": "connected", "tool_count": 2, "unannotated_tools": ["a", "b"], "unannotated_as": "allow"}
    assert remarks("x", row) == [
        "x: 2 tools have no hints; the read door lets them through. To give each a class: mcpproxy tools classify x"
    ]
