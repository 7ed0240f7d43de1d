from __future__ import annotations

import json
import re
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mcpproxy_py.cli.times import moment

pytestmark = pytest.mark.proves("ACT-4")

RECORD = {
    "id": "01ABC", "type": "tool_call", "source": "mcp", "server": "github", "tool": "delete_repo",
    "arguments": {"repo": "x"}, "response": None, "arguments_size": 12, "response_size": None, "status": "blocked",
    "error": {"code": "SERVER_MISMATCH", "message": "marked destructive"}, "duration_ms": 0.125,
    "timestamp": "2026-01-31T09:00:00.000000Z", "session_id": None, "request_id": "r1",
    "client": {"name": "cursor", "version": "1"}, "principal": "local",
    "metadata": {"intent": {"operation_type": "read", "reason": "tidy"}, "tool_variant": "call_tool_read"},
}  # fmt: skip


def test_a_record_is_one_line_with_what_was_meant_and_why_it_ended(run, gateway) -> None:
    gateway.answer("GET", "/activity", {"activities": [RECORD], "next_cursor": "c1"})
    ran = run("activity", "list")
    header, line = ran.out.splitlines()
    assert header.split() == ["TIME", "STATUS", "INTENT", "TOOL", "MS", "CLIENT", "ID", "WHY"]
    assert re.split(" {2,}", line) == ["2026-01-31T09:00:00.000000Z", "blocked", "read", "github:delete_repo", "0.125",
                                "cursor", "01ABC", "marked destructive"]  # fmt: skip
    assert ran.err == "More: add --cursor c1, or --all\n"


def test_who_erases_a_payload_is_told_that_it_is_gone_and_what_is_left(run, gateway) -> None:
    gateway.answer("DELETE", f"/activity/{RECORD['id']}/payload", RECORD)
    lines = run("activity", "erase", RECORD["id"], "--yes").out.splitlines()
    assert lines[0] == "Erased. What is left of the record:"
    assert any(RECORD["id"] in line for line in lines[1:])


def test_every_filter_of_the_interface_is_an_option(run, gateway) -> None:
    gateway.answer("GET", "/activity", {"activities": [], "next_cursor": None})
    options = {"--intent-type": "read", "--type": "tool_call", "--status": "blocked", "--server": "s", "--tool": "t",
               "--session-id": "1", "--request-id": "2", "--client": "c", "--principal": "admin",
               "--since": "2026-01-01T00:00:00Z", "--until": "2026-01-02T00:00:00+01:00", "--q": "a b&c",
               "--limit": "7", "--cursor": "cc"}  # fmt: skip
    assert run("activity", "list", *(word for pair in options.items() for word in pair)).status == 0
    assert gateway.seen[-1].query == {
        "intent_type": "read", "type": "tool_call", "status": "blocked", "server": "s", "tool": "t", "session_id": "1",
        "request_id": "2", "client": "c", "principal": "admin", "start_time": "2026-01-01T00:00:00Z",
        "end_time": "2026-01-02T00:00:00+01:00", "q": "a b&c", "limit": "7", "cursor": "cc",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("10m", "2026-01-10T11:50:00.000000Z"),
        ("2h", "2026-01-10T10:00:00.000000Z"),
        ("3d", "2026-01-07T12:00:00.000000Z"),
        ("90s", "2026-01-10T11:58:30.000000Z"),
        ("1w", "2026-01-03T12:00:00.000000Z"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        (None, None),
    ],
)
def test_an_age_becomes_a_time_and_what_is_rfc_3339_is_for_the_gateway_to_judge(given, meant) -> None:
    assert moment(given, datetime(2026, 1, 10, 12, tzinfo=UTC)) == meant


def test_an_age_beyond_the_calendar_is_wrong_usage(run, gateway) -> None:
    assert run("activity", "list", "--since", "999999w").status == 2
    assert gateway.seen == []


@pytest.mark.proves("CLI-2")
def test_a_filter_value_the_gateway_turns_down_is_wrong_usage(run, gateway) -> None:
    gateway.refuse("GET", "/activity", 400, "BAD_REQUEST", "status must be one of …")
    ran = run("activity", "list", "--status", "fine")
    assert (ran.status, ran.err.splitlines()[0]) == (2, "Error: status must be one of …")


def test_all_follows_the_pages_and_asks_for_large_ones(run, gateway) -> None:
    gateway.answer("GET", "/activity", {"activities": [RECORD], "next_cursor": "c"},
                   {"activities": [RECORD], "next_cursor": None})  # fmt: skip
    answer = run("activity", "list", "--all", "--status", "blocked", "-o", "json").json
    assert answer == {"activities": [RECORD, RECORD], "next_cursor": None}
    assert gateway.seen[-1].query == {"limit": "500", "status": "blocked", "cursor": "c"}


@pytest.mark.proves("USE-6")
def test_what_servers_do_themselves_is_left_out_for_people_and_counted(run, gateway) -> None:
    rows = [{**RECORD, "timestamp": f"2026-01-31T09:00:0{second}.000000Z"} for second in (9, 5)]
    gateway.answer("GET", "/activity", {"activities": rows, "next_cursor": "c"})
    gateway.answer("GET", "/activity/summary", {"total": 3})
    ran = run("activity", "list", "--limit", "2", "--server", "github")
    assert "Hidden: 3 that servers did themselves; --all shows them\n" in ran.err
    assert gateway.seen[0].query == {"limit": "2", "server": "github", "exclude_type": "server_request"}
    assert gateway.seen[1].query == {
        "server": "github", "type": "server_request", "start_time": "2026-01-31T09:00:05.000000Z",
    }  # fmt: skip
    run("activity", "list", "--limit", "2", "--cursor", "c")
    assert gateway.seen[-1].query["end_time"] == "2026-01-31T09:00:09.000000Z"


@pytest.mark.proves("USE-6")
@pytest.mark.parametrize("words", [["--all"], ["--type", "tool_call"], ["-o", "json"], ["-o", "yaml"]])
def test_nothing_is_left_out_for_programs_or_where_it_is_asked_for(run, gateway, words: list[str]) -> None:
    gateway.answer("GET", "/activity", {"activities": [RECORD], "next_cursor": None})
    gateway.answer("GET", "/activity/summary", {"total": 3})
    for command in ("list", "summary"):
        ran = run("activity", command, *words)
        assert (ran.status, ran.err) == (0, "")
    assert all("exclude_type" not in seen.query for seen in gateway.seen)
    assert len(gateway.seen) == 2


@pytest.mark.proves("USE-6")
def test_an_id_that_several_have_is_wrong_usage_that_lists_them(run, gateway) -> None:
    candidates = [
        {"id": "01ABC", "timestamp": "2026-01-31T09:00:00Z", "server": None, "tool": "t\x1b[1m", "status": "error"}
    ]
    gateway.refuse("GET", "/activity/01AB", 400, "BAD_REQUEST", "'01AB' can be 2 ids", candidates=candidates,
                   remedy="Say more of the id.")  # fmt: skip
    ran = run("activity", "show", "01AB")
    assert (ran.status, ran.err.splitlines()) == (2, [
        "Error: '01AB' can be 2 ids", "  Say more of the id.", "  01ABC  2026-01-31T09:00:00Z  t  error",
    ])  # fmt: skip


def test_show_prints_the_payloads_as_json(run, gateway) -> None:
    gateway.answer("GET", "/activity/01ABC", RECORD)
    out = run("activity", "show", "01ABC").out
    assert "error.message   marked destructive\n" in out
    assert '\narguments:\n{\n  "repo": "x"\n}\n' in out
    assert run("activity", "show", "01ABC", "-o", "json").json == RECORD


@pytest.mark.proves("USE-2")
def test_summary_prints_a_table_of_what_one_asks_for(run, gateway) -> None:
    hour = "2026-01-31T09:00:00Z"
    gateway.answer("GET", "/activity/summary", {
        "total": 3, "by_hour": {hour: 3}, "by_hour_and_intent_type": {hour: {"read": 2, "none": 1}},
        "by_server": {"github": 2}, "duration_ms_by_server": {"github": {"p50": 1.5, "p95": 9}},
        "by_rule": {"class": 1},
    })  # fmt: skip
    assert run("activity", "summary", "--by", "hour").out.splitlines()[-1].split() == [hour, "3", "2", "0", "0", "1"]
    assert run("activity", "summary", "--by", "server").out.splitlines()[-1].split() == ["github", "2", "1.5", "9"]
    assert run("activity", "summary", "--by", "rule").out.splitlines()[-1].split() == ["class", "1"]
    assert "No records." in run("activity", "summary", "--by", "client").err
    assert run("activity", "summary", "--by", "moon").status == 2


def test_show_tells_how_far_an_ask_came_on_the_ladder(run, gateway) -> None:
    rungs = [{"number": 1, "rule": "shape", "outcome": "passed"}, {"number": 2, "rule": "name", "outcome": "failed"},
             {"number": 3, "rule": "intent", "outcome": "not reached"}]  # fmt: skip
    gateway.answer("GET", "/activity/01ABC", {**RECORD, "rungs": rungs})
    assert "1 passed (shape); name refused; not reached: intent\n" in run("activity", "show", "01ABC").out
    after = [rungs[0], {"number": None, "rule": "not_confirmed", "outcome": "failed"}]
    gateway.answer("GET", "/activity/01ABC", {**RECORD, "rungs": after})
    assert "all 1 passed; then refused by not_confirmed\n" in run("activity", "show", "01ABC").out


def test_summary_prints_every_count_by_its_dotted_name(run, gateway) -> None:
    gateway.answer("GET", "/activity/summary", {"total": 3, "by_status": {"success": 2, "error": 1}, "by_server": {}})
    assert run("activity", "summary", "--since", "1d").out.splitlines() == [
        "total              3",
        "by_status.success  2",
        "by_status.error    1",
        "by_server          -",
    ]
    assert "start_time" in gateway.seen[-1].query


def test_export_goes_to_stdout_or_to_a_file_only_its_owner_can_read(run, gateway, tmp_path: Path) -> None:
    lines = "".join(json.dumps({**RECORD, "id": str(n)}) + "\n" for n in range(500)).encode()
    gateway.answer("GET", "/activity/export", lines)
    assert run("activity", "export").out.encode() == lines
    out = tmp_path / "record.csv"
    ran = run("activity", "export", "--format", "csv", "--out", str(out), "--server", "github")
    assert (ran.status, ran.out, ran.err) == (0, "", f"Wrote {len(lines)} bytes to {out}\n")
    assert out.read_bytes() == lines
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert gateway.seen[-1].query == {"format": "csv", "server": "github"}


def test_an_export_that_breaks_off_leaves_the_older_file_and_nothing_else(run, gateway, tmp_path: Path) -> None:
    out = tmp_path / "there" / "record.jsonl"
    out.parent.mkdir()
    out.write_text("older")
    gateway.answer("GET", "/activity/export", "cut short")
    ran = run("activity", "export", "--out", str(out))
    assert ran.status == 4
    assert [(path.name, path.read_text()) for path in out.parent.iterdir()] == [("record.jsonl", "older")]


def test_an_export_to_where_nothing_can_be_written_fails(run, gateway, tmp_path: Path) -> None:
    gateway.answer("GET", "/activity/export", b"{}\n")
    ran = run("activity", "export", "--out", str(tmp_path / "no" / "such" / "file"))
    assert (ran.status, "No such file or directory" in ran.err) == (1, True)
