"""The whole matrix again, over real HTTP against a real stdio upstream, in both wire eras."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.core.matrix import CELLS, Cell
from tests.support.gateway import Running, gateway, python_server
from tests.support.wire import HANDSHAKE, MODERN, Wire, text

POLICIES = [(strict, unannotated) for strict in (True, False) for unannotated in ("allow", "write", "destructive")]


def seen_by(upstream: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in upstream.read_text().splitlines()] if upstream.exists() else []


@pytest.mark.proves("GATE-1", "GATE-2", "GATE-3", "GATE-4", "GATE-5", "GATE-10", "SURF-6", "ACT-1", "ACT-2", "UP-10")
@pytest.mark.parametrize(("strict", "unannotated"), POLICIES)
def test_every_cell_over_the_wire(tmp_path: Path, strict: bool, unannotated: str) -> None:
    calls = tmp_path / "calls.jsonl"
    config = {
        "intent_declaration": {"strict_server_validation": strict, "unannotated": unannotated},
        "mcpServers": {"s": python_server("plain.py", "--log", str(calls))},
    }
    cells = [cell for cell in CELLS if (cell.strict, cell.unannotated) == (strict, unannotated)]
    assert len(cells) == 135
    with gateway(tmp_path / "data", config) as running:
        # Half of the cells in each era: the decision knows nothing of eras, the wire around it does.
        wires = [Wire(running.mcp, MODERN), Wire(running.mcp, HANDSHAKE)]
        expected = [check(cell, wires[number % 2], number) for number, cell in enumerate(cells)]
        assert [json.loads(line)["arguments"] for line in calls.read_text().splitlines()] == [
            {"cell": number} for number, allowed in enumerate(expected) if allowed
        ]
        check_records(running, cells)
    if not strict:
        assert "use call_tool_destructive" in running.stderr(), "permissive mode warns on stderr"


def check(cell: Cell, wire: Wire, number: int) -> bool:
    """One call; whether it should have reached the upstream."""
    verdict, code, message = cell.expected()
    result = wire.call(f"call_tool_{cell.variant}", {**cell.params, "args": {"cell": number}})
    if verdict == "refuse":
        assert result["isError"] is True, cell
        assert text(result) == message
        details = result["structuredContent"]
        assert set(details) >= {"code", "message", "tool", "variant", "rule", "remedy"}
        assert (details["code"], details["message"]) == (code, message)
        assert details["variant"] == f"call_tool_{cell.variant}"
        return False
    assert not result.get("isError"), (cell, result)
    assert result.get("_meta", {}).get("mcpproxy/warning") == message
    return True


def check_records(running: Running, cells: list[Cell]) -> None:
    rows = list(reversed(running.activities(type="tool_call")))
    assert len(rows) == len(cells)
    for row, cell in zip(rows, cells, strict=True):
        verdict, code, message = cell.expected()
        assert row["tool"] == cell.tool
        assert row["status"] == ("blocked" if verdict == "refuse" else "success")
        assert row["metadata"]["tool_variant"] == f"call_tool_{cell.variant}"
        assert row["metadata"]["decision"]["verdict"] == verdict
        assert row["metadata"]["decision"]["mode"] == ("strict" if cell.strict else "permissive")
        if verdict == "refuse":
            assert row["error"] == {"code": code, "message": message}
        elif verdict == "warn":
            assert row["metadata"]["decision"]["warning"] == message
        if cell.intent != "missing":
            declared = "delete-ish" if cell.intent == "nonsense" else cell.intent
            assert row["metadata"]["intent"]["operation_type"] == declared
