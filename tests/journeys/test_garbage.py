"""A call leaves nothing behind that only the garbage collector can free.

What it leaves would stay until the next collection, and with it everything that belongs to it: memory that is always
new is slow memory.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import SERVERS, gateway, python_server, until
from tests.support.wire import HANDSHAKE, MODERN, Wire

pytestmark = pytest.mark.proves("PERF-6")

TIMES = 30
COUNTING = """
import gc, pathlib, signal, sys
from mcpproxy_py.cli.main import main

where = pathlib.Path(sys.argv.pop(1))

def begin(*_):
    gc.collect()
    gc.disable()
    where.write_text("begun")

def end(*_):
    where.write_text(str(gc.collect()))

signal.signal(signal.SIGUSR1, begin)
signal.signal(signal.SIGRTMIN, end)
main()
"""
"""A gateway that counts on request what nothing refers to any more."""


def asked(variant: str, server: str, **args: Any) -> tuple[str, dict[str, Any]]:
    return f"call_tool_{variant}", {"name": f"{server}:echo", "args": args, "intent": {"operation_type": variant}}


@pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
def test_calls_of_every_kind_leave_no_garbage(era: str, tmp_path: Path) -> None:
    count = tmp_path / "count"
    servers = {"plain": python_server("plain.py", tools={"echo": "read"}),
               "sdk": python_server("sdk.py", tools={"echo": "write"})}  # fmt: skip
    config = {"surfaces": ["gate", "direct", "passthrough"], "mcpServers": servers, "log": {"level": "error"}}
    with gateway(tmp_path / "data", config, program=("-c", COUNTING, str(count))) as running:
        gate, direct, through = (Wire(f"{running.url}/mcp{path}", era) for path in ("", "/direct", "/s/plain"))

        def everything() -> None:
            for name, arguments in (asked("read", "plain", text="hi"), asked("write", "sdk", text="hi"),
                                    asked("read", "sdk", text="refused"), asked("read", "nowhere"),
                                    ("retrieve_tools", {"query": "echo"})):  # fmt: skip
                gate.request("tools/call", {"name": name, "arguments": arguments})
            gate.request("tools/list")
            direct.request("tools/call", {"name": "plain__echo", "arguments": {"text": "hi"}})
            through.request("tools/call", {"name": "echo", "arguments": {"text": "hi"}})

        def counted() -> int:
            count.unlink(missing_ok=True)
            running.process.send_signal(signal.SIGUSR1)
            until(count.exists, what="counting to begin")
            for _ in range(TIMES):
                everything()
            running.process.send_signal(signal.SIGRTMIN)
            until(lambda: count.read_text() not in ("", "begun"), what="the count")
            return int(count.read_text())

        for _ in range(5):
            everything()
        running.get("/status")  # REST is there from now on
        found = [counted() for _ in range(3)]
        assert min(found) < TIMES, f"less than one object each time; what is made once is in one of {found}"


def test_the_servers_of_this_test_are_there() -> None:
    assert {"plain.py", "sdk.py"} <= {each.name for each in SERVERS.iterdir()}
