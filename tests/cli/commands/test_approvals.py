"""`mcpproxy approvals` and `mcpproxy gaps`: what is sent, what is shown, and when a person is asked first."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from typing import Any

import pytest

pytestmark = pytest.mark.proves("CAT-7")

REQUEST: dict[str, Any] = {
    "approval_id": "apr_1", "request_type": "capability_request", "requested_by": {"kind": "agent"},
    "target_resource": {"type": "agent", "id": "self_operator"}, "rationale": "for\nthe report \x1b[31m",
    "context": {"mcp_name": "notion"}, "status": "pending", "expires_at_ms": 1_800_000_000_000, "reviewed_by": None,
    "reviewed_at_ms": None, "review_notes": None, "principal": "local", "created_at_ms": 1_799_000_000_000,
    "reviewed_from": None, "reviewed_on_terminal": None, "connect_command": "mcpproxy upstream add notion --url https://x",
}  # fmt: skip
APPROVED = {**REQUEST, "status": "approved", "reviewed_by": "admin (ada)"}
GAP = {
    "capability": "export PDF", "count": 3, "kinds": {"request": 2, "unmet_search": 1},
    "examples": [{"text": "export PDF", "kind": "request", "id": "r1"}],
    "first_seen": "2026-01-01T00:00:00Z", "last_seen": "2026-01-02T00:00:00Z",
}  # fmt: skip


def test_the_list_shows_all_pages_of_requests(run, gateway) -> None:
    gateway.answer("GET", "/approvals", {"approvals": [REQUEST], "next_cursor": "c"},
                   {"approvals": [{**REQUEST, "approval_id": "apr_0"}], "next_cursor": None})  # fmt: skip
    lines = run("approvals", "list", "--status", "pending").out.splitlines()
    assert lines[0].split() == ["ID", "STATUS", "SERVER", "AGENT", "EXPIRES", "RATIONALE"]
    assert lines[1].split(maxsplit=5) == [
        "apr_1", "pending", "notion", "self_operator", "2027-01-15T08:00Z", "for the report",
    ]  # fmt: skip
    assert lines[2].startswith("apr_0")
    asked = [seen.query for seen in gateway.seen if seen.path.endswith("/approvals")]
    assert asked == [{"status": "pending"}, {"status": "pending", "cursor": "c"}]


def test_one_request_is_shown_whole(run, gateway) -> None:
    gateway.answer("GET", "/approvals/apr_1", REQUEST)
    assert run("approvals", "show", "apr_1", "-o", "json").json == REQUEST
    shown = run("approvals", "show", "apr_1").out
    assert "connect_command" in shown
    assert "2027-01-15T08:00Z" in shown and "_ms" not in shown, "times are for people"
    assert "reviewed_by" not in shown, "what is not so yet is left out"


def test_where_nobody_can_be_asked_a_decision_is_made_at_once_and_says_so(run, gateway) -> None:
    gateway.answer("POST", "/approvals/apr_1/approve", APPROVED)
    ran = run("approvals", "approve", "apr_1", "--notes", "fine", env={"LOGNAME": "ada"})
    assert (ran.status, ran.out) == (0, "apr_1 is approved.\n")
    assert ran.err == (
        "An approval changes nothing by itself. To connect the server: mcpproxy upstream add notion --url https://x\n"
    )
    (seen,) = gateway.seen
    assert seen.body == {"terminal": False, "name": "ada", "notes": "fine"}
    assert seen.headers["x-mcpproxy-client"].startswith("cli/")


def test_a_denial_suggests_nothing(run, gateway) -> None:
    gateway.answer("POST", "/approvals/apr_1/deny", {**REQUEST, "status": "denied"})
    ran = run("approvals", "deny", "apr_1")
    assert (ran.status, ran.out, ran.err) == (0, "apr_1 is denied.\n", "")


def test_what_was_decided_before_is_a_failure_with_the_way_on(run, gateway) -> None:
    gateway.refuse(
        "POST", "/approvals/apr_1/deny", 409, "CONFLICT", "apr_1 is approved and stays so", remedy="ask anew"
    )
    ran = run("approvals", "deny", "apr_1")
    assert (ran.status, ran.err) == (1, "Error: apr_1 is approved and stays so\n  ask anew\n")


@pytest.mark.parametrize(("typed", "status", "sent"), [(b"y\n", 0, 1), (b"n\n", 1, 0)])
def test_on_a_terminal_the_request_is_shown_and_a_person_asked(command, gateway, typed, status, sent) -> None:
    gateway.answer("GET", "/approvals/apr_1", REQUEST)
    gateway.answer("POST", "/approvals/apr_1/approve", APPROVED)
    person, terminal = pty.openpty()
    try:
        process: subprocess.Popen[bytes] = command("approvals", "approve", "apr_1", stdin=terminal)
        os.write(person, typed)
        out, err = process.communicate(timeout=60)
    finally:
        os.close(person)
        os.close(terminal)
    assert process.returncode == status, err
    assert b"for the report" in out
    assert b"Approve apr_1?" in err
    posts = [seen for seen in gateway.seen if seen.method == "POST"]
    assert [seen.body["terminal"] for seen in posts] == [True] * sent


@pytest.mark.proves("MISS-3")
def test_the_report_of_gaps_is_a_table_with_a_record_to_look_at(run, gateway) -> None:
    gateway.answer("GET", "/gaps", {"gaps": [GAP], "total": 2, "since": "…", "approximate": [], "cut": ["request"]})
    ran = run("gaps", "report", "--limit", "1", "--since", "2026-01-01T00:00:00Z")
    assert ran.out.splitlines() == [
        "CAPABILITY  COUNT  KINDS                      LAST SEEN             EXAMPLE",
        "export PDF  3      request 2, unmet_search 1  2026-01-02T00:00:00Z  r1",
    ]
    assert ran.err == "1 more: add --limit\nOnly the newest records were read of: request\n"
    assert gateway.seen[-1].query == {"limit": "1", "since": "2026-01-01T00:00:00Z"}
    assert json.loads(run("gaps", "report", "-o", "json").out)["total"] == 2


@pytest.mark.proves("MISS-3")
def test_where_nothing_was_missing_the_report_says_so(run, gateway) -> None:
    gateway.answer("GET", "/gaps", {"gaps": [], "total": 0, "since": "…", "approximate": [], "cut": []})
    assert run("gaps", "report").err == "Nothing was missing.\n"
