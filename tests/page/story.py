"""A day at a gateway that is the same each time: what pictures of the page show.

The records are written by the store itself, as a gateway writes them, at times that stand still.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from mcpproxy_py.store.store import open_store

NOW: Final = datetime(2026, 3, 12, 16, 42, 30, tzinfo=UTC)
"""What the clock of the browser says meanwhile."""
Event = dict[str, Any]

READ, WRITE, DESTRUCTIVE = "read", "write", "destructive"
# server, tool, class, arguments, what an agent would say it is for, usual milliseconds
TOOLS: Final = [
    ("github", "search_issues", READ, {"query": "label:bug is:open"}, "find open bugs before the release", 180),
    ("github", "get_pull_request", READ, {"owner": "acme", "repo": "shop", "number": 412}, "review the change", 140),
    (
        "github",
        "create_issue",
        WRITE,
        {"repo": "shop", "title": "Cart loses items on reload"},
        "file what QA found",
        320,
    ),
    (
        "github",
        "delete_branch",
        DESTRUCTIVE,
        {"repo": "shop", "branch": "old-checkout"},
        "clean up merged branches",
        210,
    ),
    ("postgres", "query", READ, {"sql": "select count(*) from orders where day = current_date"}, "orders of today", 24),
    ("postgres", "execute", DESTRUCTIVE, {"sql": "delete from carts where age(updated) > '90 days'"}, "old carts", 95),
    ("files", "read_file", READ, {"path": "src/checkout/cart.ts"}, "understand how the cart is kept", 3),
    ("files", "write_file", WRITE, {"path": "src/checkout/cart.ts", "content": "…"}, "keep the cart over a reload", 6),
    ("linear", "list_issues", READ, {"team": "SHOP", "state": "started"}, "see what is in progress", 260),
    ("slack", "post_message", WRITE, {"channel": "#shop", "text": "Fix is in review."}, "tell the team", 150),
]
OFTEN: Final = (9, 7, 3, 1, 8, 1, 12, 4, 5, 2)
CLIENTS: Final = ("claude-code", "claude-code", "cursor", "vscode")
RUNGS: Final = {"two_keys": "INTENT_MISMATCH", "class": "SERVER_MISMATCH", "freeze": "FROZEN"}

MARKED: Final = {WRITE: "not read-only", DESTRUCTIVE: "destructive"}
HINTS: Final = {READ: {"readOnlyHint": True}, WRITE: {"readOnlyHint": False}, DESTRUCTIVE: {"destructiveHint": True}}


def events(many: int = 420) -> Iterator[tuple[Event, Event]]:
    """Asks and their ends, more of them in the hours in which people work."""
    choose = random.Random(11)
    ages = sorted((choose.triangular(0, 30 * 3600, 2 * 3600) for _ in range(many)), reverse=True)
    for number, age in enumerate(ages):
        entry = choose.choices(TOOLS, OFTEN)[0]
        refused = choose.choice([*RUNGS] * 2) if number % 13 == 7 else None
        yield ask(number, NOW.timestamp() - 1 - age, entry, choose, refused, failed=number % 41 == 5)
    seconds = NOW.timestamp()
    last = [
        (TOOLS[0], None),
        (TOOLS[6], None),
        (TOOLS[3], "class"),
        (TOOLS[4], None),
        (TOOLS[7], None),
        (TOOLS[1], None),
    ]
    for step, (entry, refused) in enumerate(last):
        yield ask(many + step, seconds - 55 + 9 * step, entry, choose, refused)


def ask(
    number: int, at: float, entry: Any, choose: random.Random, refused: str | None, failed: bool = False
) -> tuple[Event, Event]:
    server, tool, kind, arguments, reason, usual = entry
    said = {"two_keys": READ, "class": READ}.get(refused or "", kind)
    variant = WRITE if refused == "two_keys" else said
    message = {
        "two_keys": "Intent mismatch: tool is call_tool_write but intent declares read",
        "class": f"Tool '{server}:{tool}' is marked {MARKED.get(kind)} by server, use call_tool_{kind}",
        "freeze": "The gateway is frozen: nothing above read runs until it is lifted",
    }.get(refused or "")  # fmt: skip
    if refused in ("class", "freeze") and kind == READ:
        refused = message = None
    verdict = "refuse" if refused else "allow"
    decision = {"verdict": verdict, "rule": refused or "allowed", "mode": "strict", "class": kind,
                "class_origin": "server", "annotations": HINTS[kind]}  # fmt: skip
    took = 0.4 if refused else usual * choose.lognormvariate(0, 0.5)
    error = {"code": RUNGS[refused], "message": message} if refused else None
    if failed and not refused:
        error = {"code": "TOOL_ERROR", "message": "502 from the server behind it"}
    status = "blocked" if refused else "error" if error else "success"
    row = f"{int(at * 1000):012x}"
    row = f"{row[:8]}-{row[8:]}-7000-8000-{number:012x}"
    intent = {"operation_type": said, "reason": reason, "source": "declared"}
    asked = {
        "kind": "asked", "id": row, "at": at, "type": "tool_call", "source": "mcp", "surface": "gate", "server": server,
        "tool": tool, "arguments": arguments, "arguments_size": 96, "session_id": f"session-{number // 40:04}",
        "request_id": f"req-{number:05}", "client": {"name": choose.choice(CLIENTS), "version": "2.1"},
        "principal": "admin",
        "metadata": {"intent": intent, "tool_variant": f"call_tool_{variant}", "decision": decision},
    }  # fmt: skip
    text = "ok" if not error else error["message"]
    finished = {
        "kind": "finished", "id": row, "at": at + took / 1000, "status": status, "error": error,
        "response": {"content": [{"type": "text", "text": text}]}, "response_size": 64, "duration_ms": round(took, 3),
        "metadata": {"refused_by": refused} if refused else {},
    }  # fmt: skip
    return asked, finished


def write(data_dir: Path, many: int = 420) -> None:
    """Before a gateway begins there."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = open_store(data_dir)
    for asked, finished in events(many):
        store.append(asked, finished)
    store._writer.drain()  # pyright: ignore[reportPrivateUsage]
    store.close()
