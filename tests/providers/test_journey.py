"""A provider of the user's own in a real gateway: found by search, called through the gate, on record."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.markdown import ROOT, Page
from tests.support.gateway import Running, gateway, python_server, until
from tests.support.wire import HANDSHAKE, MODERN, Wire, text

TUTORIAL = Page(ROOT / "docs" / "tutorial" / "your-own-provider.md")
ODD = """
import sys
import threading
from mcpproxy_py.providers import Context, ToolProvider, ToolSpec

class Odd(ToolProvider):
    def tools(self):
        for name in ("raises", "hangs", "leaves", "garbage", "huge", "asks"):
            yield ToolSpec(name, annotations={"readOnlyHint": True})
    def capabilities(self): return ["elicitation"]
    def raises(self): raise RuntimeError("hunter2")
    def hangs(self): threading.Event().wait()
    def leaves(self): sys.exit(3)
    def garbage(self): return object()
    def huge(self): return "x" * 20_000_000
    async def asks(self, ctx: Context): await ctx.elicit("Sure?")
"""


def code(language: str) -> str:
    return next(fence.text for fence in TUTORIAL.fences if fence.language == language)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    data = tmp_path_factory.mktemp("providers") / "data"
    data.mkdir(mode=0o700)
    (data / "dice.py").write_text(code("python"))
    (data / "odd.py").write_text(ODD)
    config = {
        "mcpServers": {"s": python_server("plain.py")},
        "providers": {**json.loads(code("json"))["providers"], "odd": {"object": "odd:Odd", "timeout": 0.5},
                      "lost": "no_such_module:p"},
        "limits": {"max_result_bytes": 10_000_000},
    }  # fmt: skip
    with gateway(data, config) as found:
        found.wait_for("dice", "odd")
        yield found


def test_the_provider_of_the_tutorial_is_twenty_lines() -> None:
    written = [line for line in code("python").splitlines() if line.strip()]
    assert len(written) <= 20
    ast.parse(code("python"))


@pytest.mark.proves("PROV-5", "FIND-4")
@pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
def test_the_tutorials_provider_is_found_and_called_through_the_gate(running: Running, era: str) -> None:
    client = Wire(running.mcp, era)
    found = client.call("retrieve_tools", {"query": "roll some dice"})["structuredContent"]["tools"]
    assert (found[0]["name"], found[0]["call_with"]) == ("dice:roll", "call_tool_read")
    assert found[0]["inputSchema"]["properties"]["sides"]["description"] == "How many sides each die has."

    rolled = client.read("dice:roll", {"count": 3, "sides": 2})
    assert len(rolled["structuredContent"]["result"]) == 3
    refused = client.read("dice:forget")
    assert refused["structuredContent"]["code"] == "SERVER_MISMATCH"
    assert text(client.via("destructive", "dice:forget")) == "Success"
    wrong = client.read("dice:roll", {"sides": "six"})
    assert wrong["structuredContent"]["code"] == "INVALID_ARGUMENTS"

    seen = {(row["tool"], row["status"]) for row in running.activities(server="dice")}
    assert seen >= {("roll", "success"), ("roll", "blocked"), ("forget", "blocked"), ("forget", "success")}


@pytest.mark.proves("PROV-3", "UP-7")
def test_a_provider_that_misbehaves_fails_its_own_calls_only(running: Running) -> None:
    client = Wire(running.mcp)
    for name in ("raises", "leaves", "garbage", "huge", "asks"):
        result = client.read(f"odd:{name}")
        assert result["isError"] is True, name
        assert "hunter2" not in json.dumps(result)
    assert client.read("odd:hangs")["structuredContent"]["code"] == "TIMEOUT"
    assert "isError" not in client.read("dice:roll")


@pytest.mark.proves("PROV-5")
def test_a_provider_that_cannot_be_loaded_is_shown_as_failed_and_delays_nobody(running: Running) -> None:
    running.wait_for("lost", state="failed")
    rows = {row["name"]: row for row in running.get("/servers")["servers"]}
    assert "there is no module 'no_such_module'" in rows["lost"]["error"]
    assert rows["dice"]["transport"] == "local"


@pytest.mark.proves("PROV-5", "UP-8")
def test_providers_come_and_go_with_the_configuration(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "dice.py").write_text(code("python"))
    path = data / "mcp_config.json"
    with gateway(data, {}) as running:
        client = Wire(running.mcp)

        def refusal() -> str | None:
            return client.read("dice:roll").get("structuredContent", {}).get("code")

        assert refusal() == "TOOL_NOT_FOUND"
        path.write_text(json.dumps({"providers": {"dice": "dice:Dice"}}))
        until(lambda: refusal() is None, what="the provider is there")
        path.write_text(json.dumps({"providers": {"dice": {"object": "dice:Dice", "deny_tools": ["roll"]}}}))
        until(lambda: refusal() == "TOOL_UNAVAILABLE", what="its tool is denied")
        path.write_text(json.dumps({}))
        until(lambda: refusal() == "TOOL_NOT_FOUND", what="the provider is gone")
