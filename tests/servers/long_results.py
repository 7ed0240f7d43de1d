"""A server whose answers are long: `{"shape": ..., "size": bytes, "as": text | structured | both, "mark": word}`.

    python long_results.py        over stdio

The mark stands in every line and row, so that whoever gets somebody else's answer sees it.
"""

from __future__ import annotations

import base64
import json
import random
import sys
from collections.abc import Callable
from typing import Any


def rows(number: int) -> list[dict[str, Any]]:
    return [
        {"id": n, "name": f"item {n}", "note": 'a "quote", a \\ and [brackets]', "tags": ["é", "漢"]}
        for n in range(number)
    ]


def nested(depth: int, width: int) -> Any:
    if not depth:
        return "leaf"
    return {f"k{n}": nested(depth - 1, width) for n in range(width)}


def deep(levels: int) -> str:
    return '{"a":[' * levels + "1" + "]}" * levels


SHAPES: dict[str, Callable[[int], str]] = {
    "one line": lambda size: "x" * size,
    "words": lambda size: "some words and more " * (size // 20),
    "lines": lambda size: "".join(f"line {n}: nothing happened\n" for n in range(size // 28)),
    "log that begins like JSON": lambda size: "".join(f"[INFO] {n} started\n" for n in range(size // 18)),
    "rows": lambda size: json.dumps(rows(size // 100), separators=(",", ":"), ensure_ascii=False),
    "rows, indented": lambda size: json.dumps(rows(size // 180), indent=2),
    "rows under a key": lambda size: json.dumps({"count": 1, "rows": rows(size // 110), "next": "abc"}),
    "JSON lines": lambda size: "".join(json.dumps(each) + "\n" for each in rows(size // 100)),
    "deep": lambda size: deep(size // 10),
    "deep and wide": lambda size: json.dumps(nested(max(1, len(str(size)) - 1), 8)),
    "members": lambda size: json.dumps({f"key{n}": n for n in range(size // 18)}),
    "base64": lambda size: base64.b64encode(random.Random(1).randbytes(size * 3 // 4)).decode(),
    "base64 in JSON": lambda size: json.dumps(
        {"name": "f", "data": base64.b64encode(random.Random(1).randbytes(size * 3 // 4)).decode(), "end": True}
    ),
    "escapes in JSON": lambda size: json.dumps({"text": '\n"\\é😀' * (size // 25)}),
    "not ASCII": lambda size: "é漢😀 " * (size // 10),
    "numbers": lambda size: json.dumps([n / 7 for n in range(size // 20)]),
    "one number": lambda size: "[" + "9" * size + "]",
    "blank": lambda size: " " * size,
    "brackets": lambda size: "[" * size,
    "quotes": lambda size: '["' * (size // 2),
    "backslashes": lambda size: '["' + "\\" * size,
}


def marked(shape: str, size: int, mark: str) -> str:
    """A text of this shape, whose every part says whose it is."""
    if shape == "one line":
        return f"{mark}." * (size // (len(mark) + 1))
    if shape == "a million lines":
        return "".join(f"{n} {mark}\n" for n in range(1_000_000))
    if shape == "a million rows":
        return json.dumps([f"{mark}{n}" for n in range(1_000_000)], separators=(",", ":"))
    if shape == "rows":
        return json.dumps(
            {"rows": [{"id": n, "mark": mark, "text": "x" * 380} for n in range(size // 420)], "end": mark}
        )
    if shape == "deep":
        return f'{{"{mark}":[' * 30 + json.dumps([f"{mark}-{n}" for n in range(size // 14)]) + "]}" * 30
    if shape == "base64":
        return base64.b64encode(random.Random(mark).randbytes(size * 3 // 4)).decode()
    return SHAPES[shape](size)


def answer(arguments: dict[str, Any]) -> dict[str, Any]:
    text, form = marked(arguments["shape"], arguments["size"], arguments.get("mark", "m")), arguments.get("as", "text")
    content = [{"type": "text", "text": text if form != "structured" else "see structuredContent"}]
    for kind in arguments.get("beside", []):
        content.append({"type": kind, "data": "QUJD" * (arguments["size"] // 4), "mimeType": f"{kind}/x"})
    result: dict[str, Any] = {"content": content, "isError": arguments.get("error", False)}
    return result if form == "text" else {**result, "structuredContent": json.loads(text)}


TOOLS = [
    {"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": name != "put"}}
    for name in ("get", "get_other", "put")
]


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        said: dict[str, Any] = {}
        if message["method"] == "initialize":
            said = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "long", "version": "1"},
            }
        elif message["method"] == "tools/list":
            said = {"tools": TOOLS}
        elif message["method"] == "tools/call":
            said = answer(message["params"]["arguments"])
        elif message["method"] != "ping":
            error = {"code": -32601, "message": "no"}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
            continue
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": said}), flush=True)


if __name__ == "__main__":
    main()
