"""First calls on fresh sessions whose server asks at once, under load: `python -m tests.bench.first_calls`.

The server asks beside the stream of the call, and drops what it sends while no such stream is open, as the SDKs'
servers do. Every client is new, with an upstream session of its own. A call is lost if it does not end with the
client's answer. As many processes as there are processors keep the machine busy.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from tests.support.gateway import SERVERS, gateway
from tests.support.links import HttpLink
from tests.support.listening import listening
from tests.support.peer import connected
from tests.support.wire import HANDSHAKE, RpcError, text

CALL_TIMEOUT = 20
ASK = {"method": "elicitation/create", "outside": True,
       "params": {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}}  # fmt: skip


async def answers(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"said": "here"}


async def first_call(url: str, outcomes: Counter[str]) -> None:
    async with connected(HttpLink(url), HANDSHAKE, answers) as peer:
        try:
            result = await peer.call("late__ask", ASK)
        except (RpcError, TimeoutError) as error:
            outcomes[f"lost: {str(error)[:60]}"] += 1
            return
    outcomes["answered" if '"here"' in text(result) else f"lost: {text(result)[:60]}"] += 1


async def calls(url: str, many: int, at_a_time: int) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    limiter = anyio.CapacityLimiter(at_a_time)

    async def one() -> None:
        async with limiter:
            await first_call(url, outcomes)

    async with anyio.create_task_group() as tasks:
        for _ in range(many):
            tasks.start_soon(one)
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.first_calls", description=__doc__)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--at-a-time", type=int, default=16)
    parser.add_argument("--late", default="0", help="seconds after which the server opens its stream")
    given = parser.parse_args()
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    server = [sys.executable, str(SERVERS / "asks.py"), "--http", "0", "--late-stream", given.late]
    try:
        with tempfile.TemporaryDirectory() as folder, listening(server) as origin:
            entry = {"url": f"{origin}/mcp", "sessions": "per_client", "timeout": CALL_TIMEOUT}
            config = {"surfaces": ["direct"], "mcpServers": {"late": entry}}
            with gateway(Path(folder) / "data", config) as running:
                running.wait_for("late")
                began = time.monotonic()
                outcomes = anyio.run(calls, f"{running.mcp}/direct", given.calls, given.at_a_time)
                took = time.monotonic() - began
    finally:
        for each in burners:
            each.kill()
            each.wait()
    print(f"{outcomes.total()} first calls in {took:.0f} s:", *(f"  {many} {how}" for how, many in outcomes.items()),
          sep="\n")  # fmt: skip
    return 1 if outcomes["answered"] < given.calls else 0


if __name__ == "__main__":
    sys.exit(main())
