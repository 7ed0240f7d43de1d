"""Servers that take the question which era they speak badly: `python eras.py MODE`.

`crash`: dies of `server/discover`. `late`: as well, and is slow to read it. `silent`: never answers it.
`future`: speaks only a revision nobody knows. `ancient`: `initialize` agrees on a revision nobody knows. `stuck`:
took the probe silently and is modern ever since, so that it refuses `initialize`, naming its version. `advertises`:
knows discover, but only speaks the old revisions. `bare`: an old server without tools.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

MODE = sys.argv[1]
MODERN = "2026-07-28"
TOOL = {"name": "only", "inputSchema": {"type": "object"}}
seen: list[str] = []


def unsupported(versions: list[str]) -> dict[str, Any]:
    data = {"supported": versions, "requested": "?"}
    return {"error": {"code": -32022, "message": "Unsupported protocol version", "data": data}}


def discover() -> dict[str, Any] | None:
    if MODE in ("crash", "late"):
        sys.exit("what is server/discover?")
    if MODE == "silent" or (MODE == "stuck" and seen.count("server/discover") == 1):
        return None
    if MODE == "future":
        return unsupported(["2031-01-01"])
    if MODE in ("advertises", "stuck"):
        versions = [MODERN] if MODE == "stuck" else ["2025-06-18"]
        return {"result": {"supportedVersions": versions, "capabilities": {"tools": {}}}}
    return {"error": {"code": -32601, "message": "Method not found"}}


def initialize() -> dict[str, Any]:
    if MODE == "stuck":
        return unsupported([MODERN])
    version = "1999-01-01" if MODE == "ancient" else "2025-06-18"
    capabilities = {} if MODE == "bare" else {"tools": {}}
    return {"result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": {"name": MODE}}}


def answer(method: str) -> dict[str, Any] | None:
    seen.append(method)
    if method == "server/discover":
        return discover()
    if method == "initialize":
        return initialize()
    if method == "tools/list" and MODE != "bare":
        return {"result": {"tools": [TOOL]}}
    return {"error": {"code": -32601, "message": "Method not found"}}


if MODE == "late":
    time.sleep(1)
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and (said := answer(message["method"])) is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)
