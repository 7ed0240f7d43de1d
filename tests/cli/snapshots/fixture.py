"""A fixed record, written as a gateway writes it, and a real gateway that serves it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any, Final

from mcpproxy_py.core.record.events import IdMaker
from mcpproxy_py.store.store import Store, open_store
from tests.support.gateway import Running, gateway, python_server

ZONE: Final = "CET-1CEST,M3.5.0,M10.5.0/3"
"""Spelled out, for machines that have no names of zones."""
NOW: Final = datetime(2026, 11, 19, 15, 30, 12, tzinfo=timezone(timedelta(hours=1)))
SERVERS: Final = {
    "github": python_server("plain.py"),
    "files": python_server("plain.py", enabled=False),
    "broken": {"command": "mcpproxy-no-such-command"},
}
WIDE_NAME: Final = "デスクトップのファイル"
CALLS: Final[tuple[tuple[Any, ...], ...]] = (
    # minutes before now, server, tool, intent, status, milliseconds, reason, rule or error, client
    (0.1, "github", "search_issues", "read", "success", 182.4, "find the issue that the user means", None,
     "claude-code"),
    (1, "github", "delete_repo", "read", "blocked", 0.2, "tidy up the old fork", "class", "claude-code"),
    (3, "github", "create_issue", "write", "success", 611.0, "the user wants this on record", None, "cursor"),
    (4, "files", "read_file", "read", "error", 3.1, "look at the configuration before changing it", "ENOENT: no such "
     "file or directory, open '/home/ada/project/config/settings.production.local.yaml'", "cursor"),
    (9, "files", "write_file", "destructive", "success", 12.0, "重要な設定ファイルを書き換えます 🎉🎉 と言いました",
     None, "claude-code"),
    (12, "files", WIDE_NAME, "read", "success", 7.7, "a tool whose name is wide", None, "goose"),
    (15, "github", "get_file_contents_with_a_name_that_goes_on_and_on_for_ever", "read", "success", 95.2, "", None,
     "claude-code"),
    (21, "github", "merge_pull_request", "destructive", "timeout", 60_000.0, "all checks are green",
     "no answer within 60 seconds", "cursor"),
    (22, "github", "push_files", "write", "blocked", 0.1, "save the work of today", "freeze", "claude-code"),
    (25, "github", "list_commits", "read", "cancelled", 1400.0, "see who changed it", "the caller gave up", "goose"),
    (47, "files", "delete_file", "destructive", "interrupted", None, "remove the build \x1b[31mfolder\x1b[0m",
     "the gateway ended", "claude-code"),
    (200, "github", "search_issues", "read", "success", 240.9, "find duplicates", None, "claude-code"),
    (60 * 26, "github", "search_issues", "read", "success", 171.3, "look for what changed since the last release", None,
     "codex"),
    (60 * 24 * 400, "files", "read_file", "read", "success", 2.9, "the first thing that was ever asked", None, "goose"),
)  # fmt: skip

REFUSALS: Final = {
    "class": "Tool 'github:delete_repo' is marked destructive by its server; use call_tool_destructive.",
    "freeze": "The gateway is frozen: only reads run.",
}


def events() -> Iterator[dict[str, Any]]:
    """Oldest first. Every row but the one that is under way has an end."""
    new_id = IdMaker(Random(14).randbytes)
    for minutes, server, tool, intent, status, millis, reason, why, client in sorted(CALLS, reverse=True):
        at = (NOW - timedelta(minutes=minutes)).timestamp()
        decision = {"verdict": "refuse" if status == "blocked" else "allow", "mode": "strict", "class": intent,
                    "rule": why if status == "blocked" else "routed"}  # fmt: skip
        row_id = new_id(at)
        declared = {"operation_type": intent, **({"reason": reason} if reason else {}), "source": "declared"}
        yield {
            "kind": "asked", "id": row_id, "at": at, "type": "tool_call", "source": "mcp", "surface": "gate",
            "server": server, "tool": tool, "arguments": {"query": "login fails"}, "arguments_size": 24,
            "session_id": "s1", "request_id": "r1", "client": {"name": client, "version": "1.2.3"},
            "principal": "local", "metadata": {"intent": declared, "tool_variant": f"call_tool_{intent}",
                                               "decision": decision},
        }  # fmt: skip
        error = {"code": "UPSTREAM_ERROR", "message": why} if why else None
        if status == "blocked":
            error = {"code": "SERVER_MISMATCH" if why == "class" else "FROZEN", "message": REFUSALS[str(why)]}
        yield {
            "kind": "finished", "id": row_id, "at": at + (millis or 0) / 1000, "status": status, "error": error,
            "response": {"content": [{"type": "text", "text": "done"}]}, "response_size": 45, "duration_ms": millis,
            "metadata": {"refused_by": why} if status == "blocked" else {},
        }  # fmt: skip
    at = (NOW - timedelta(minutes=30)).timestamp()
    row_id = new_id(at)
    yield {
        "kind": "asked", "id": row_id, "at": at, "type": "server_request", "source": "internal",
        "surface": "passthrough", "server": "github", "tool": "roots/list", "arguments": {}, "arguments_size": 2,
        "client": {"name": "github", "version": ""}, "principal": "server", "metadata": {},
    }  # fmt: skip
    yield {
        "kind": "finished", "id": row_id, "at": at, "status": "blocked", "response": None, "response_size": 0,
        "error": {"code": "SERVER_MISMATCH", "message": "nobody can be asked"}, "duration_ms": 0.1, "metadata": {},
    }  # fmt: skip


def write(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    store: Store = open_store(data_dir)
    try:
        store.append(*events())
        assert asyncio.run(store.caught_up(60))
    finally:
        store.close()


@contextmanager
def recorded_gateway(data_dir: Path) -> Iterator[Running]:
    write(data_dir)
    with gateway(data_dir, {"mcpServers": SERVERS}, wait=False) as running:
        running.wait_for("github")
        running.wait_for("broken", state="failed")
        yield running
