"""What the suite starts to test a client: `python -m tests.wire.as_client URL`, with a gateway that runs already.

The gateway is the client. It gets the suite's server as an upstream, connects and lists on its own, and is
made to call every tool through its gate.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import httpx

from tests.support.gateway import until
from tests.support.wire import Wire

GATEWAY, KEY = "MCPPROXY_TEST_GATEWAY", "MCPPROXY_TEST_KEY"
SAMPLES: dict[str, Any] = {"number": 2, "integer": 3, "boolean": True, "array": [], "object": {}}


def main() -> None:
    rest = httpx.Client(
        base_url=f"{os.environ[GATEWAY]}/api/v1", headers={"X-API-Key": os.environ[KEY]}, timeout=60, trust_env=False
    )
    name = os.environ["MCP_CONFORMANCE_SCENARIO"].lower().replace("/", "-")[:32]
    answer = rest.post("/servers", json={"name": name, "config": {"url": sys.argv[-1]}, "replace": True})
    assert answer.status_code == 201, answer.text
    try:
        until(lambda: _connected(rest, name), what=f"{name} connected")
        call_everything(rest, name)
    finally:
        rest.delete(f"/servers/{name}")


def _connected(rest: httpx.Client, name: str) -> bool:
    return any(row["name"] == name and row["state"] == "connected" for row in rest.get("/servers").json()["servers"])


def call_everything(rest: httpx.Client, server: str) -> None:
    """With the arguments the scenario wants, or with some that fit the schema."""
    gate = Wire(f"{os.environ[GATEWAY]}/mcp")
    wanted = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")).get("toolCalls")
    names = [tool["name"] for tool in rest.get("/tools", params={"server": server}).json()["tools"]]
    shown = {name: rest.get(f"/tools/{name}").json()["inputSchema"] for name in names}
    calls = wanted or [{"name": name.split(":", 1)[1], "arguments": _arguments(name, shown)} for name in names]
    for call in calls:
        print(call, gate.via("destructive", f"{server}:{call['name']}", call.get("arguments") or {}))


def _arguments(name: str, schemas: dict[str, Any]) -> dict[str, Any]:
    if name.endswith(":json_schema_echo"):
        return {"schema": next(schema for other, schema in schemas.items() if other != name)}
    properties = schemas[name].get("properties", {})
    required = schemas[name].get("required", properties)
    return {key: SAMPLES.get(properties[key].get("type"), "x") for key in required if key in properties}


if __name__ == "__main__":
    main()
