"""`heard.py` that lets secrets out wherever a server can say something.

    python leaky.py --log FILE --secrets FILE [the options of heard.py]

The second file says, as JSON, what it says where. `look` does what its argument `act` says.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from heard import LISTS, Heard, Send, over_stdio
from plain import error, text


class Leaky(Heard):
    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__(args)
        self.secrets: dict[str, str] = json.loads(Path(args.secrets).read_text())
        say(self.secrets["stderr at start"])
        for line in self.secrets["key line by line"].splitlines():
            say(line)
        first = self.tools[0]
        self.tools.append({**first, "name": self.secrets["tool"]})

    def answer(self, request_id: Any, method: str, params: dict[str, Any], send: Send) -> None:
        if method in ("initialize", "server/discover"):
            super().answer(request_id, method, params, lambda said: send(self.with_name(said)))
        elif method == "prompts/list":
            prompt = {"name": self.secrets["listed prompt"]}
            send(self.done(request_id, {"prompts": [*LISTS[method]["prompts"], prompt]}))
        else:
            super().answer(request_id, method, params, send)

    def with_name(self, said: dict[str, Any]) -> dict[str, Any]:
        info = {"name": self.secrets["server name"], "version": self.secrets["server version"]}
        return {**said, "result": {**said["result"], "serverInfo": info}} if "result" in said else said

    def call(self, request_id: Any, params: dict[str, Any], send: Send) -> None:
        act = (params.get("arguments") or {}).get("act")
        if act == "fail":
            send(self.done(request_id, text(self.secrets["tool error"], isError=True)))
        elif act == "error":
            send(error(request_id, -32001, self.secrets["error"]))
        elif act == "garbage":
            sys.stdout.buffer.write(self.secrets["garbage"].encode() + b"\n")
            super().call(request_id, params, send)
        elif act == "progress":
            token = (params.get("_meta") or {}).get("progressToken", "none")
            told = {"progressToken": token, "progress": 1, "message": self.secrets["progress"]}
            send({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})
            log = {"level": "error", "data": self.secrets["log notification"]}
            send({"jsonrpc": "2.0", "method": "notifications/message", "params": log})
            send({"jsonrpc": "2.0", "id": "q1", "method": self.secrets["server method"], "params": {}})
            super().call(request_id, params, send)
        elif act == "die":
            say(self.secrets["last words"])
            os._exit(7)
        else:
            super().call(request_id, params, send)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", required=True)
    parser.add_argument("--secrets", required=True)
    parser.add_argument("--modern", action="store_true")
    args = parser.parse_args()
    args.outside, args.hello, args.tools, args.listing, args.schemas, args.says = False, None, 0, None, None, None
    over_stdio(Leaky(args))


if __name__ == "__main__":
    main()
