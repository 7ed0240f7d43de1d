"""A gateway as far as this room goes, in a process of its own that a test can kill: `owner.py LOG_DIR SPECS_JSON`.

Prints `READY <warden pid>` once every server is connected.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import anyio

from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.supervisor import Supervisor


async def main(log_dir: Path, servers: dict[str, list[str]]) -> None:
    specs = {
        name: UpstreamSpec(name, command=argv[0], args=tuple(argv[1:]), connect_timeout=60)
        for name, argv in servers.items()
    }
    supervisor = Supervisor(log_dir=log_dir)
    async with anyio.create_task_group() as tasks:
        await tasks.start(supervisor.run, specs)
        for name in specs:
            await supervisor.ready(name)
        states: dict[str, Any] = {name: server.state for name, server in supervisor.snapshot.servers.items()}
        assert set(states.values()) == {"connected"}, supervisor.describe()
        print(f"READY {supervisor.reaper_pid}", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), json.loads(sys.argv[2])))
