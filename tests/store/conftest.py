"""Events as `core.record` makes them, and stores that are closed again."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpproxy_py.store.store import Store, open_store

ROOT = Path(__file__).parents[2]
Event = dict[str, Any]


@pytest.fixture
def asked() -> Callable[..., Event]:
    def make(row_id: str = "a1", **changes: Any) -> Event:
        return {
            "kind": "asked", "id": row_id, "at": 1_700_000_000.25, "type": "tool_call", "source": "mcp",
            "surface": "gate", "server": "github", "tool": "create_issue", "arguments": {"title": "Broken"},
            "arguments_size": 18, "session_id": "s1", "request_id": "r1",
            "client": {"name": "cursor", "version": "1.2"}, "principal": "local",
            "metadata": {"intent": {"operation_type": "write", "reason": "The user asked"},
                         "tool_variant": "call_tool_write", "decision": {"rule": "matrix"}},
            **changes,
        }  # fmt: skip

    return make


@pytest.fixture
def finished() -> Callable[..., Event]:
    def make(row_id: str = "a1", **changes: Any) -> Event:
        return {
            "kind": "finished", "id": row_id, "at": 1_700_000_001.5, "status": "success", "error": None,
            "response": {"content": []}, "response_size": 14, "duration_ms": 1250.5, "metadata": {"attempts": 1},
            **changes,
        }  # fmt: skip

    return make


@pytest.fixture
def opened() -> Iterator[Callable[[Path], Store]]:
    """Opens stores, and closes at the end those that the test has not closed itself."""
    stores: list[Store] = []

    def open_one(data_dir: Path) -> Store:
        stores.append(open_store(data_dir))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def child() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Runs a script in a process of its own, killed at the end if it still runs then."""
    running: list[subprocess.Popen[str]] = []

    def run(script: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
        pipe = subprocess.PIPE
        running.append(subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.communicate(timeout=30)
