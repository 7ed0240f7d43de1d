"""A server with bad intentions on stdio: `python hostile.py MODE`. The tool `go` does the deed, `echo` is honest.

`many`: a list of 50,000 tools. `endless`: a list whose pages never end. `deep`: a schema 10,000 levels deep.
`answers`: answers to everything it can think of. `loop`: says that its tools changed, without end, and lists anew.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
from typing import Any

MODE = sys.argv[1]
LOCK = threading.Lock()
SCHEMA = {"type": "object"}
HONEST = [{"name": name, "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}} for name in ("echo", "go")]
LISTED = itertools.count()


def say(message: dict[str, Any]) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}))


def write(line: str) -> None:
    with LOCK:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def listed(params: dict[str, Any]) -> dict[str, Any]:
    if MODE == "many":
        return {"tools": HONEST + [{"name": f"t{n}", "inputSchema": SCHEMA} for n in range(25_000)]}
    if MODE == "endless":
        number = next(LISTED)
        more = [{"name": f"t{number}", "inputSchema": SCHEMA}]
        return {"tools": [*HONEST, *more] if number == 0 else more, "nextCursor": str(number)}
    if MODE == "loop":
        return {"tools": [*HONEST, {"name": f"t{next(LISTED)}", "inputSchema": SCHEMA}]}
    return {"tools": HONEST}


def go(request_id: Any) -> None:
    if MODE == "answers":
        for number in range(1, 5000):
            if number != request_id:
                say({"id": number, "result": {"content": [{"type": "text", "text": "for somebody else"}]}})
        for odd in (None, True, -1, 1.5, "x" * 10_000, [], {}, 10**30):
            say({"id": odd, "result": {}})
            say({"id": odd, "method": "roots/list"})
    elif MODE == "loop":
        threading.Thread(target=change_for_ever, daemon=True).start()
    say({"id": request_id, "result": {"content": [{"type": "text", "text": "done"}]}})


def change_for_ever() -> None:
    while True:
        write('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n' * 100)


for line in sys.stdin:
    message = json.loads(line)
    method, request_id, params = message.get("method"), message.get("id"), message.get("params") or {}
    if request_id is None or method is None:
        continue
    if method == "initialize":
        say({"id": request_id, "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                                          "serverInfo": {"name": "hostile"}}})  # fmt: skip
    elif method == "tools/list" and MODE == "deep":
        schema = '{"properties":{"a":' * 10_000 + "{}" + "}}" * 10_000
        tool = '{"name":"go","inputSchema":' + schema + "}"
        write('{"jsonrpc":"2.0","id":' + str(request_id) + ',"result":{"tools":[' + tool + "]}}")
    elif method == "tools/list":
        say({"id": request_id, "result": listed(params)})
    elif method == "tools/call" and params["name"] == "go":
        go(request_id)
    elif method == "tools/call":
        say({"id": request_id, "result": {"content": [{"type": "text", "text": json.dumps(params["arguments"])}]}})
    else:
        say({"id": request_id, "error": {"code": -32601, "message": "no such method"}})
