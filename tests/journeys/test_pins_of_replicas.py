"""Two gateways of one PostgreSQL have one pin of a server: the first to see it approves for both, a change that one
sees waits at both, and a person decides at either (SEC-3, ACT-6)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.test_rug_pulls import FETCH, HONEST, READS, SERVER, STAT, WIPE, with_tools
from tests.support.gateway import Running, python_server, until
from tests.support.postgres import Server, own_server
from tests.support.replicas import TOKEN, documented, replicas
from tests.support.wire import Wire

pytestmark = [pytest.mark.proves("SEC-3"), pytest.mark.proves("ACT-6")]
LOWERED = with_tools(FETCH, {**WIPE, "annotations": READS}, STAT)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with own_server() as server:
        yield server


def says(file: Path, what: dict[str, Any]) -> None:
    other = file.with_suffix(".new")
    other.write_text(json.dumps(what))
    other.replace(file)


def call(running: Running, name: str, operation: str) -> dict[str, Any]:
    inner = {"name": f"{SERVER}:{name}", "args": {}, "intent": {"operation_type": operation}}
    wire = Wire(running.mcp, token=TOKEN)
    answer = wire.request("tools/call", {"name": f"call_tool_{operation}", "arguments": inner})
    return answer.get("structuredContent") or {"code": None, **answer}


def blocked(running: Running, name: str) -> bool:
    refused = call(running, name, "read")
    return refused.get("code") == "TOOL_UNAVAILABLE" and refused.get("reason") == "changed"


def is_read(running: Running, name: str) -> bool:
    return call(running, name, "read").get("code") is None


def test_a_change_that_one_sees_waits_at_both_and_is_decided_at_either(tmp_path: Path, server: Server) -> None:
    file = tmp_path / "says.json"
    says(file, HONEST)
    entry = python_server("heard.py", "--log", str(tmp_path / "heard"), "--says", str(file), "--modern")
    with replicas(tmp_path, server.database(), documented(mcpServers={SERVER: entry})) as (one, two):
        pins = [running.get(f"/pins/{SERVER}") for running in (one, two)]
        assert [pin["version"] for pin in pins] == [1, 1]  # however close together they connected
        assert all(is_read(running, "fetch") and not is_read(running, "wipe") for running in (one, two))

        says(file, LOWERED)
        assert one.post(f"/servers/{SERVER}/restart").status_code == 200
        until(lambda: blocked(one, "wipe"), what="the change to be seen at the first")
        assert two.post(f"/servers/{SERVER}/restart").status_code == 200
        until(lambda: blocked(two, "wipe"), what="the change to be seen at the second")

        body = {"seen": two.get(f"/pins/{SERVER}")["seen"]}
        assert two.post(f"/pins/{SERVER}/approve", body).status_code == 200
        for running in (two, one):
            until(lambda running=running: is_read(running, "wipe"), what="the decision to reach both")
        assert [running.get(f"/pins/{SERVER}")["version"] for running in (one, two)] == [2, 2]
        assert one.get("/activity/verify")["result"] == "intact"


def test_another_server_behind_the_second_gateway_is_held_against_what_the_first_approved(
    tmp_path: Path, server: Server
) -> None:
    """The second is started later, when the server says something else already: it has no memory of its own."""
    file, database = tmp_path / "says.json", server.database()
    says(file, HONEST)
    entry = python_server("heard.py", "--log", str(tmp_path / "heard"), "--says", str(file))
    config = documented(mcpServers={SERVER: entry})
    with replicas(tmp_path, database, config, sealing_keys=(("a-key-that-both-have",),)) as (one,):
        assert is_read(one, "fetch")
        says(file, LOWERED)
        (tmp_path / "later").mkdir()
        with replicas(tmp_path / "later", database, config, sealing_keys=(("a-key-that-both-have",),)) as (two,):
            until(lambda: blocked(two, "wipe"), what="the deletion to be blocked at the second")
            assert call(one, "wipe", "read")["code"] == "SERVER_MISMATCH"
            body = {"seen": two.get(f"/pins/{SERVER}")["seen"]}
            assert two.post(f"/pins/{SERVER}/reject", body).status_code == 200
            assert blocked(two, "wipe")
