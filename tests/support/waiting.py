"""Calls that wait for a person's yes outside of their clients, as clients and people come to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx

from tests.support.gateway import Running, until
from tests.support.wire import MODERN, Wire


def params(word: str, reason: str = "the user wants it gone", **args: Any) -> dict[str, Any]:
    intent = {"operation_type": "destructive", "reason": reason}
    inner = {"name": "notes:delete_note", "args": {"text": word, **args}, "intent": intent}
    return {"name": "call_tool_destructive", "arguments": inner}


@contextmanager
def calling(
    running: Running, word: str, era: str = MODERN, *, reason: str = "the user wants it gone", **options: Any
) -> Iterator[Future[dict[str, Any]]]:
    """Somebody who calls it, and waits."""
    with ThreadPoolExecutor(1) as pool:
        peer = Wire(running.mcp, era, **options)
        yield pool.submit(peer.request, "tools/call", params(word, reason))


def waiting(running: Running, word: str) -> dict[str, Any]:
    """The call with this word, once it waits."""

    def found() -> dict[str, Any] | None:
        rows = running.get("/confirmations", status="waiting")["confirmations"]
        return next((row for row in rows if word in json.dumps(row["arguments"])), None)

    return until(found, what=f"the call {word} to wait")


def decide(running: Running, row: dict[str, Any], step: str, **said: Any) -> httpx.Response:
    return running.post(f"/confirmations/{row['id']}/{step}", {"arguments_sha256": row["arguments_sha256"], **said})


def reached(running: Running, word: str) -> int:
    """How many calls with this word the server saw."""
    calls = running.data_dir.parent / "calls"
    return calls.read_text().count(word) if calls.exists() else 0
