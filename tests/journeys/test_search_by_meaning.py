"""Running gateways with the extra: tools are found by their words at once and by what they mean soon after."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mcpproxy_py import word_vectors
from tests.support.gateway import Running, gateway, python_server, until

pytestmark = [
    pytest.mark.proves("FIND-5"),
    pytest.mark.skipif(not word_vectors.installed() and not os.environ.get("CI"), reason="without the extra"),
]
TOOLS = [
    {"name": "send_message", "description": "Sends an e-mail to somebody", "annotations": {"readOnlyHint": True}},
    {"name": "trace", "description": "Records what a page does", "annotations": {"readOnlyHint": True}},
    {"name": "fetch", "description": "Gets what stands at an address", "annotations": {"readOnlyHint": True}},
]
QUERY = "reply to the sender"


def config(folder: Path) -> dict[str, Any]:
    listed = folder / "tools.json"
    listed.write_text(json.dumps([{"inputSchema": {"type": "object"}, **tool} for tool in TOOLS]))
    return {"mcpServers": {"s": python_server("plain.py", "--tools", str(listed))}}


def search(running: Running, **params: Any) -> dict[str, Any]:
    return running.get("/tools/search", server="s", **params)


def test_a_tool_is_found_by_what_it_means_and_so_it_is_after_a_restart(tmp_path: Path) -> None:
    said = config(tmp_path)
    data = tmp_path / "data"

    def best(running: Running) -> bool:
        found = search(running, query=QUERY, limit=1)["tools"]
        return bool(found) and found[0]["name"] == "s:send_message"

    with gateway(data, said) as running:
        assert search(running, query="send message", limit=1)["tools"][0]["name"] == "s:send_message"
        until(lambda: best(running), what="the vectors")
        first = search(running, query=QUERY, limit=3)["tools"]
        assert {"score", "confidence", "call_with"} <= set(first[0])
    with gateway(data) as running:
        running.wait_for("s")
        until(lambda: best(running), what="the vectors after a restart")
        again = search(running, query=QUERY, limit=3)["tools"]
        assert again[0]["name"] == first[0]["name"]
