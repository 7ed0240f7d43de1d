"""Upstreams that hang, die, flood and talk nonsense, beside healthy ones."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support.gateway import gateway, python_server, until
from tests.support.links import HttpLink
from tests.support.peer import connected
from tests.support.wire import Wire, text

HEALTHY = [f"well{number}" for number in range(6)]


@pytest.mark.proves("UP-2", "UP-7", "FIND-2")
def test_ten_upstreams_of_which_four_misbehave_and_the_rest_answer(tmp_path: Path) -> None:
    config = {
        "mcpServers": {
            **{name: python_server("plain.py", timeout=20) for name in HEALTHY},
            "hangs": python_server("hangs.py"),
            "dies": python_server("dies.py"),
            "floods": python_server("floods.py"),
            "garbage": python_server("garbage.py"),
        }
    }
    with gateway(tmp_path / "data", config, wait=False) as running:
        wire = Wire(running.mcp)
        assert "tools" in wire.call("retrieve_tools", {"query": "echo"})["structuredContent"], "it never waits"
        running.wait_for(*HEALTHY, "floods", "garbage")
        states = {row["name"]: row for row in running.get("/servers")["servers"]}
        assert states["hangs"]["state"] in ("connecting", "failed"), "still hanging when the healthy ones are up"
        until(lambda: {row["name"]: row["error"] for row in running.get("/servers")["servers"]}["dies"], what="its end")
        found = wire.call("retrieve_tools", {"query": "echo", "limit": 50})["structuredContent"]
        assert {row["server"] for row in found["tools"]} == {*HEALTHY, "floods", "garbage"}
        for name in (*HEALTHY, "floods", "garbage"):
            assert not wire.via("write", f"{name}:echo", {"text": name}).get("isError")
        gone = wire.via("write", "dies:echo", {})
        assert gone["structuredContent"]["code"] in ("SERVER_UNAVAILABLE", "TOOL_NOT_FOUND")


BAD_ANSWERS: list[tuple[str, dict[str, Any], str]] = [
    ("s:error", {}, "UPSTREAM_ERROR"),
    ("hasty:wrong_id", {}, "TIMEOUT"),
    ("hasty:never", {}, "TIMEOUT"),
    ("s:garbage", {}, ""),
    ("s:twice", {}, ""),
    ("s:huge", {"bytes": 50_000_000}, "UPSTREAM_ERROR"),
]


@pytest.mark.proves("UP-7", "GATE-4", "ACT-1")
def test_an_upstream_that_answers_badly_gets_its_own_error_and_the_next_call_works(tmp_path: Path) -> None:
    config = {"mcpServers": {"s": python_server("plain.py"), "hasty": python_server("plain.py", timeout=1.5)}}
    with gateway(tmp_path / "data", config) as running:
        wire = Wire(running.mcp)

        def works(server: str) -> bool:
            return not wire.via("write", f"{server}:echo", {"text": "still here"}).get("isError")

        for name, args, code in BAD_ANSWERS:
            result = wire.via("destructive", name, args)
            found = result.get("structuredContent", {}).get("code", "") if result.get("isError") else ""
            assert found == code, (name, text(result)[:500])
            row = running.activities(tool=name.partition(":")[2], limit=1)[0]
            expected = {"": "success", "TIMEOUT": "timeout", "UPSTREAM_ERROR": "error"}[code]
            assert row["status"] == expected
            # On a busy machine an innocent call, too, may take longer than the hasty one's second and a half.
            assert works("s")
            until(lambda: works("hasty"), what="an answer in time")
        said = wire.via("write", "s:fail", {})
        assert said["isError"] is True
        assert "structuredContent" not in said or "rule" not in said["structuredContent"], "the tool's own error"


@pytest.mark.proves("UP-7")
def test_a_slow_tool_of_one_server_does_not_delay_another(tmp_path: Path) -> None:
    config = {"mcpServers": {"slow": python_server("plain.py"), "quick": python_server("plain.py")}}
    enough = tmp_path / "enough"
    with gateway(tmp_path / "data", config) as running, ThreadPoolExecutor(1) as pool:
        slow = {"seconds": 50, "until": str(enough)}
        waiting = pool.submit(Wire(running.mcp).via, "destructive", "slow:slow", slow)
        until(lambda: running.get("/status")["in_flight"] == 1, what="the slow call in flight")
        for _ in range(20):
            assert not Wire(running.mcp).via("write", "quick:echo", {}).get("isError")
        assert running.get("/status")["in_flight"] == 1, "twenty quick calls went by while the slow one ran"
        enough.touch()
        assert not waiting.result(60).get("isError")


@pytest.mark.anyio
@pytest.mark.proves("ACT-1", "OPS-1")
async def test_a_client_that_hangs_up_leaves_a_cancelled_record(tmp_path: Path) -> None:
    config = {"mcpServers": {"s": python_server("plain.py")}}
    with gateway(tmp_path / "data", config) as running:
        async with connected(HttpLink(running.mcp)) as peer:
            slow = {"name": "s:slow", "args": {"seconds": 50}, "intent": {"operation_type": "destructive"}}
            call = await peer.begin("tools/call", {"name": "call_tool_destructive", "arguments": slow})
            with anyio.fail_after(60):
                while not running.get("/status")["in_flight"]:  # noqa: ASYNC110 (the gateway tells nobody)
                    await anyio.sleep(0.02)
            await peer.cancel(call)
        row = until(
            lambda: [r for r in running.activities(tool="slow") if r["status"] == "cancelled"], what="cancelled"
        )
        assert len(row) == 1
        assert not Wire(running.mcp).via("write", "s:echo", {}).get("isError")
