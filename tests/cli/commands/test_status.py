"""`mcpproxy status`: what a person wants to know, in about ten lines (USE-6)."""

from __future__ import annotations

from typing import Any

import pytest

from mcpproxy_py.cli.commands.status import lines_of
from mcpproxy_py.cli.output import cell

pytestmark = pytest.mark.proves("USE-6")

STATUS: dict[str, Any] = {
    "version": "1.2.3", "pid": 7, "url": "http://127.0.0.1:8080", "data_dir": "/home/ada/.mcpproxy",
    "surfaces": ["gate"], "mode": "strict", "unannotated": "allow", "frozen": False, "draining": False,
    "uptime_seconds": 3_700.0, "config_error": None, "in_flight": 0, "unrecorded": 0,
    "store": {"writable": True, "last_error": None},
}  # fmt: skip
GIT = {"name": "git", "state": "connected", "transport": "stdio", "tool_count": 12, "error": None}
OURS = {"name": "catalog", "state": "connected", "transport": "local", "tool_count": 7, "error": None}


def told(gateway: Any, servers: list[dict[str, Any]], **changes: Any) -> None:
    gateway.answer("GET", "/status", {**STATUS, **changes})
    gateway.answer("GET", "/servers", {"servers": servers})
    gateway.answer("GET", "/activity/summary", {"total": 5, "by_status": {"success": 2, "blocked": 1, "timeout": 2}})
    gateway.answer("GET", "/approvals", {"approvals": [], "next_cursor": None})


def shown(run: Any) -> list[str]:
    """The lines of a terminal; the snapshots have them as they are laid out."""
    return [f"{line.label:<10}  {cell(line.says)}" for line in lines_of(run("status", "-o", "json").json)]


def said(run: Any) -> dict[str, str]:
    return {line[:10].strip(): line[12:] for line in shown(run)}


def test_a_healthy_gateway_is_about_ten_lines(run, gateway) -> None:
    told(gateway, [OURS, GIT])
    assert said(run) == {
        "mcpproxy": "1.2.3, up 1 h 1 min, process 7",
        "address": "http://127.0.0.1:8080 (gate)",
        "mode": "strict: a call must be declared as what the tool is",
        "servers": "1 of 1 up",
        "tools": "12",
        "asks today": "5, 1 refused, 2 failed",
        "data": "/home/ada/.mcpproxy",
        "log": "on stderr of the process",
    }
    (summary,) = (seen for seen in gateway.seen if seen.path.endswith("summary"))
    assert summary.query["exclude_type"] == "server_request"


def test_what_is_down_says_why_and_what_is_off_is_counted_apart(run, gateway) -> None:
    down = [
        {**GIT, "name": f"s{number}", "state": "failed", "error": "spawn\nuvx \x1b[31mENOENT"} for number in range(7)
    ]
    told(gateway, [GIT, *down, {**GIT, "name": "off", "state": "disabled"}, {**GIT, "name": "z", "state": "sleeping"}])
    lines = shown(run)
    at = next(number for number, line in enumerate(lines) if line.startswith("servers"))
    assert lines[at] == "servers     2 of 9 up, 1 disabled"
    assert lines[at + 1] == "            s0 failed: spawn uvx ENOENT"
    assert lines[at + 6] == "            and 2 more: mcpproxy upstream list"


def test_what_a_person_has_to_know_stands_out(run, gateway) -> None:
    told(gateway, [], mode="permissive", frozen=True, in_flight=2, config_error="mcpServers.x: no command",
         unrecorded=3, store={"writable": False, "last_error": "disk full"})  # fmt: skip
    gateway.answer("GET", "/approvals", {"approvals": [{}, {}], "next_cursor": "c"})
    lines = shown(run)
    for line in (
        "problem     the configuration cannot be used, so the old one applies: mcpServers.x: no command",
        "mode        permissive: a tool may be called with a weaker declaration",
        "frozen      only reads run, until `mcpproxy unfreeze`",
        "servers     none yet; add one with `mcpproxy upstream add`",
        "asks today  5, 1 refused, 2 failed, 2 under way",
        "waiting     2 or more requests for a server: mcpproxy approvals list",
        "problem     nothing can be recorded: disk full",
        "problem     3 calls could not be recorded since the start",
    ):
        assert line in lines


@pytest.mark.proves("GATE-8")
def test_tools_without_hints_are_counted_where_the_gateway_says_so(run, gateway) -> None:
    classes = {"read": 7, "write": 4, "destructive": 1, "unknown": 0}
    told(gateway, [{**GIT, "tools_by_class": classes, "unannotated_tools": ["a", "b"]}])
    wanted = "12 (7 read, 4 write, 1 destructive); 2 without hints: the read door lets them through"
    assert said(run)["tools"] == wanted


def test_a_record_that_cannot_be_read_hides_nothing_else(run, gateway) -> None:
    told(gateway, [GIT])
    for path in ("/activity/summary", "/approvals"):
        gateway.refuse("GET", path, 503, "STORE_UNAVAILABLE", "disk full")
    found = said(run)
    assert (found["asks today"], found["servers"]) == ("unknown: the record cannot be read", "1 of 1 up")


@pytest.mark.proves("CLI-2")
def test_programs_get_all_of_it(run, gateway) -> None:
    told(gateway, [GIT])
    answer = run("status", "-o", "json").json
    assert {key: answer[key] for key in STATUS} == STATUS
    assert answer["servers"] == [GIT]
    assert (answer["today"]["total"], answer["waiting"]) == (5, {"count": 0, "more": False})
