"""Long texts of every shape."""

from __future__ import annotations

import base64
import json
import random
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
