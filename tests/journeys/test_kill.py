"""`kill -9` of the gateway: nothing is left running, and nothing that was answered is missing."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from tests.support.gateway import gateway, python_server, start, until
from tests.support.wire import Wire


@pytest.mark.proves("UP-3")
def test_kill_9_of_the_gateway_leaves_no_upstream_process_three_deep(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    config = {
        "mcpServers": {
            "family": python_server("process_tree.py", "--pid-file", str(pids)),
            "s": python_server("plain.py"),
        }
    }
    running = start(tmp_path / "data", config)
    try:
        until(lambda: pids.exists() and len(pids.read_text().split()) == 3, what="a family of three")
    except BaseException:
        running.stop()
        raise
    family = [int(pid) for pid in pids.read_text().split()]
    everyone = [*psutil.Process(running.process.pid).children(recursive=True), *(psutil.Process(p) for p in family)]
    running.kill()
    running.client.close()
    _, alive = psutil.wait_procs(everyone, timeout=60)
    assert not alive


@pytest.mark.proves("ACT-5", "ACT-1", "GATE-12")
def test_kill_9_under_load_loses_no_answer_and_no_call_above_read(tmp_path: Path) -> None:
    seen = tmp_path / "calls.jsonl"
    config = {"mcpServers": {"s": python_server("plain.py", "--log", str(seen))}}
    running = start(tmp_path / "data", config)
    answered: dict[str, str] = {}
    lock, stop = threading.Lock(), threading.Event()

    def hammer(worker: int) -> None:
        wire = Wire(running.mcp, name=f"w{worker}")
        for number in range(10_000):
            marker = f"{worker}-{number}"
            variant = ("read", "write", "destructive")[number % 3]
            tool = {"read": "s:hint_t_f", "write": "s:hint_f_f", "destructive": "s:hint_f_t"}[variant]
            try:
                answer = wire.via(variant, tool, {"marker": marker})
            except (httpx.HTTPError, ValueError, IndexError):
                return
            with lock:
                answered[marker] = "blocked" if answer.get("isError") else "success"
            if stop.is_set():
                return

    with ThreadPoolExecutor(8) as pool:
        done = [pool.submit(hammer, worker) for worker in range(8)]
        until(lambda: len(answered) > 300, 120, what="300 answers")
        running.kill()
        stop.set()
        for future in done:
            future.result(60)
    running.client.close()

    with gateway(tmp_path / "data", config) as again:
        rows = []
        cursor = None
        while True:
            page = again.get("/activity", limit=500, **({"cursor": cursor} if cursor else {}))
            rows += page["activities"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        by_marker = {row["arguments"]["marker"]: row for row in rows if "marker" in (row["arguments"] or {})}
        assert len(by_marker) == len([row for row in rows if "marker" in (row["arguments"] or {})]), "each once"
        for marker, status in answered.items():
            assert by_marker[marker]["status"] == status, "an answer that a client received is on record"
        for line in seen.read_text().splitlines():
            call = json.loads(line)
            if call["name"] != "hint_t_f":
                assert call["arguments"]["marker"] in by_marker, "a call that an upstream saw is on record"
        assert not [row for row in rows if row["status"] == "pending"]
        for row in rows:
            if row["status"] == "interrupted":
                assert "may have acted" in row["error"]["message"]
