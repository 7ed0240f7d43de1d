"""Raw MCP over HTTP in either era: what a client sends and gets, with nothing in between."""

from __future__ import annotations

import itertools
import json
from typing import Any

import httpx

MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
NAMED = {
    "tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId",
    "tasks/update": "taskId", "tasks/cancel": "taskId",
}  # fmt: skip
"""Which parameter the `Mcp-Name` header repeats."""
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


def messages(answer: httpx.Response) -> list[dict[str, Any]]:
    """Every JSON-RPC message of an answer, whichever way it was framed."""
    if not answer.headers.get("content-type", "").startswith("text/event-stream"):
        return [answer.json()]
    lines = answer.text.splitlines()
    return [json.loads(line[5:]) for line in lines if line.startswith("data:") and line[5:].strip()]


class RpcError(Exception):
    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code = error["code"]
        self.data = error.get("data")


class Wire:
    """One client. Stateless and modern, or with a session after a handshake."""

    def __init__(self, url: str, era: str = MODERN, *, token: str | None = None, name: str = "test-client") -> None:
        self.url = url
        self.era = era
        self.info = {"name": name, "version": "1.2.3"}
        self.http = httpx.Client(
            timeout=60, trust_env=False, verify=False
        )  # loading certificates takes longer than a call
        self.ids = itertools.count(1)
        self.headers: dict[str, str] = {**ACCEPT, **({"authorization": f"Bearer {token}"} if token else {})}
        if era != MODERN:
            self._shake_hands()

    def _shake_hands(self) -> None:
        params = {"protocolVersion": self.era, "capabilities": {}, "clientInfo": self.info}
        answer = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        assert answer.status_code == 200, answer.text
        self.welcome = messages(answer)[-1]["result"]
        self.headers |= {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": self.era}
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def post(self, body: Any, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.http.post(self.url, content=content, headers={**self.headers, **headers})

    def send(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> list[dict[str, Any]]:
        """Every message that comes back for one request."""
        params = {**(params or {})}
        headers: dict[str, str] = {}
        if self.era == MODERN:
            meta = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientInfo": self.info,
                "io.modelcontextprotocol/clientCapabilities": {},
                **meta,
            }
            headers = {"mcp-protocol-version": MODERN, "mcp-method": method}
            if method in NAMED:
                headers["mcp-name"] = params[NAMED[method]]
        if meta:
            params["_meta"] = meta
        body = {"jsonrpc": "2.0", "id": next(self.ids), "method": method, "params": params}
        return messages(self.post(body, **headers))

    def request(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
        found = self.send(method, params, **meta)[-1]
        if "error" in found:
            raise RpcError(found["error"])
        return found["result"]

    def call(self, tool: str, arguments: Any = None, **meta: Any) -> dict[str, Any]:
        params: dict[str, Any] = {"name": tool}
        if arguments is not None:
            params["arguments"] = arguments
        return self.request("tools/call", params, **meta)

    def read(self, name: str, args: Any = None, **more: Any) -> dict[str, Any]:
        return self.via("read", name, args, **more)

    def via(self, variant: str, name: str, args: Any = None, **more: Any) -> dict[str, Any]:
        """A well-formed gated call."""
        params = {"name": name, "intent": {"operation_type": variant}, **more}
        return self.call(f"call_tool_{variant}", {**params, "args": args} if args is not None else params)


def text(result: dict[str, Any]) -> str:
    return "".join(item.get("text", "") for item in result["content"])
