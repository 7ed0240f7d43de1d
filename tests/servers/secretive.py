"""A server whose every word says whose it is, so that a test finds what reached somebody who must not have it.

    python secretive.py --name NAME [--log FILE]

It speaks the handshake era over stdio. All that it lists, answers and tells holds `secret-NAME`. `--log` gets one
synced JSON line for each message. Each tool takes `mark`, which says whose call it is, and tells its progress and
writes a log line with that mark before it answers:
    note (read)      names the resource `secret-NAME://MARK`     wait (read)  answers when the file `until` is there
    put (write)      wipe (destructive)
    renew (read)     lists one more tool from now on, and says so; of its prompts and resources too
    touch (read)     says that `secret-NAME://1` changed
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from plain import background, error, record, result

HINTS: dict[str, dict[str, bool]] = {
    **{name: {"readOnlyHint": True} for name in ("note", "wait", "renew", "touch")},
    "put": {"readOnlyHint": False, "destructiveHint": False},
    "wipe": {"readOnlyHint": False, "destructiveHint": True},
}
SCHEMA = {"type": "object", "properties": {"mark": {"type": "string"}, "until": {"type": "string"}}}
LISTS = ("tools", "prompts", "resources")


class Secretive:
    def __init__(self, args: argparse.Namespace) -> None:
        self.name = args.name
        self.secret = f"secret-{args.name}"
        self.log = args.log
        self.more = 0
        self.lock = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        with self.lock:
            sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
            sys.stdout.buffer.flush()

    def say(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params})

    def hear(self, message: dict[str, Any]) -> None:
        record(self.log, message)
        request_id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if request_id is None or method is None:
            return
        if method == "tools/call" and params.get("name") == "wait":
            background(lambda: self.send(result(request_id, self.call(params))))
        elif (answer := self.answer(method, params)) is None:
            self.send(error(request_id, -32601, f"{self.secret} has no such method"))
        else:
            self.send(result(request_id, answer))

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        uri = f"{self.secret}://1"
        match method:
            case "initialize":
                can: dict[str, Any] = {kind: {"listChanged": True, "subscribe": True} for kind in LISTS}
                info = {"name": self.secret, "version": "1"}
                about = {"serverInfo": info, "instructions": f"This is {self.secret}."}
                return {"protocolVersion": params["protocolVersion"],
                        "capabilities": {**can, "logging": {}, "completions": {}}, **about}  # fmt: skip
            case "tools/list":
                return {"tools": self.tools()}
            case "prompts/list":
                return {"prompts": [{"name": "hello", "description": self.secret}]}
            case "prompts/get":
                said = {"role": "user", "content": {"type": "text", "text": f"hello of {self.secret}"}}
                return {"messages": [said]}
            case "resources/list":
                return {"resources": [{"uri": uri, "name": self.secret}]}
            case "resources/templates/list":
                return {"resourceTemplates": [{"uriTemplate": f"{self.secret}://{{n}}", "name": self.secret}]}
            case "resources/read":
                return {"contents": [{"uri": params["uri"], "text": self.secret}]}
            case "completion/complete":
                return {"completion": {"values": [f"completed by {self.secret}"]}}
            case "tools/call":
                return self.call(params)
            case "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe":
                return {}
        return None

    def tools(self) -> list[dict[str, Any]]:
        names = [*HINTS, f"{self.name}_only", *(f"more_{number}" for number in range(self.more))]
        about = {"description": f"Of {self.secret}: keeps notes about {self.name}", "inputSchema": SCHEMA}
        return [{"name": each, **about, "annotations": HINTS.get(each, HINTS["note"])} for each in names]

    def call(self, params: dict[str, Any]) -> dict[str, Any]:
        name, args = params.get("name"), params.get("arguments") or {}
        mark = args.get("mark")
        if (token := (params.get("_meta") or {}).get("progressToken")) is not None:
            self.say("progress", progressToken=token, progress=1, message=f"{self.secret} works on {mark}")
        self.say("message", level="info", data=f"{self.secret} does {name} for {mark}")
        if name == "renew":
            self.more += 1
            for kind in LISTS:
                self.say(f"{kind}/list_changed")
        elif name == "touch":
            self.say("resources/updated", uri=f"{self.secret}://1")
        elif name == "wait":
            while not os.path.exists(args["until"]):
                time.sleep(0.01)
        link = {"type": "resource_link", "uri": f"{self.secret}://{mark}", "name": self.secret}
        return {"content": [{"type": "text", "text": f"{self.secret} did {name} for {mark}"}, link]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--log")
    server = Secretive(parser.parse_args())
    for line in sys.stdin:
        server.hear(json.loads(line))


if __name__ == "__main__":
    main()
