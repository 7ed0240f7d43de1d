"""Server objects of the `mcp` package, in the gateway's own process: in both eras, with all they have."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.support.gateway import Running, gateway, until
from tests.support.links import HttpLink
from tests.support.peer import connected
from tests.support.wire import HANDSHAKE, MODERN, RpcError, Wire, text

pytestmark = pytest.mark.proves("UP-13")

HIGH = '''
import asyncio
from mcp.server import MCPServer
from typing import Annotated
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("high", instructions="Adds up.")
CANCELLED = []

class Sure(BaseModel):
    sure: bool

@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

@server.tool(annotations=ToolAnnotations(destructiveHint=True))
async def erase(what: str, ctx: Context) -> str:
    """Erase something."""
    said = await ctx.elicit(f"Erase {what}?", Sure)
    return f"{said.action} {getattr(said, 'data', None) and said.data.sure}"

async def ask(what: str) -> Elicit[Sure]:
    return Elicit(f"Erase {what}?", Sure)

@server.tool(annotations=ToolAnnotations(destructiveHint=True))
async def wipe(what: str, sure: Annotated[Sure, Resolve(ask)]) -> str:
    """Wipe something, asked in a way that both eras have."""
    return f"accept {sure.sure}"

@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
async def steps(ctx: Context) -> str:
    """Tell how far it is."""
    for number in range(3):
        await ctx.report_progress(number, 3, f"step {number}")
    return "done"

@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
async def sleep() -> str:
    """Sleep for ever."""
    try:
        await asyncio.Event().wait()
    finally:
        CANCELLED.append(1)

@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def cancelled() -> int:
    """How many sleeps were cancelled."""
    return len(CANCELLED)

@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def fails() -> str:
    """Fail."""
    raise ValueError("a reason")

@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def huge() -> str:
    """More than fits."""
    return "x" * 3_000_000

@server.resource("note://today")
def today() -> str:
    """What is up."""
    return "sunny"

@server.prompt()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Say hello to {name}"
'''
LOW = """
from typing import Any
import mcp_types as types
from mcp.server import Server

async def listed(ctx: Any, params: Any) -> types.ListToolsResult:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "x-own": {"kept": 1}}
    tool = types.Tool(name="echo", description="Give it back.", input_schema=schema,
                      annotations=types.ToolAnnotations(read_only_hint=True), _meta={"own/key": [1, 2]})
    return types.ListToolsResult(tools=[tool])

async def called(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    said = types.TextContent(type="text", text=str(params.arguments))
    return types.CallToolResult(content=[said], structured_content=params.arguments)

def make() -> Server:
    return Server("low", version="3.1", on_list_tools=listed, on_call_tool=called)
"""
BROKEN = "import mcp.server\nserver = object()\n"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    data = tmp_path_factory.mktemp("sdk") / "data"
    data.mkdir(mode=0o700)
    for name, source in (("high", HIGH), ("low", LOW), ("broken", BROKEN)):
        (data / f"sdk_{name}.py").write_text(source)
    config = {
        "providers": {"high": {"object": "sdk_high:server", "timeout": 20}, "low": "sdk_low:make",
                      "broken": "sdk_broken:server"},
        "surfaces": ["gate", "direct", "passthrough"],
        "limits": {"max_result_bytes": 2_000_000},
    }  # fmt: skip
    with gateway(data, config) as found:
        found.wait_for("high", "low")
        yield found


@pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
def test_it_is_found_and_called_through_the_gate_and_on_record(running: Running, era: str) -> None:
    client = Wire(running.mcp, era)
    found = client.call("retrieve_tools", {"query": "add two numbers"})["structuredContent"]["tools"]
    assert (found[0]["name"], found[0]["call_with"]) == ("high:add", "call_tool_read")
    assert client.read("high:add", {"a": 2, "b": 3})["structuredContent"] == {"result": 5}
    assert client.read("high:erase", {"what": "it"})["structuredContent"]["code"] == "SERVER_MISMATCH"
    assert client.read("high:add", {"a": "two", "b": 3})["structuredContent"]["code"] == "INVALID_ARGUMENTS"
    failed = client.read("high:fails")
    assert failed["isError"] and text(failed) == "Error executing tool fails", "the SDK hides the reason itself"
    seen = {(row["tool"], row["status"]) for row in running.activities(server="high")}
    assert seen >= {("add", "success"), ("add", "blocked"), ("erase", "blocked"), ("fails", "error")}


@pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
def test_raw_objects_and_everything_beside_tools_come_through_its_own_surface(running: Running, era: str) -> None:
    low = Wire(f"{running.url}/mcp/s/low", era)
    (tool,) = low.request("tools/list")["tools"]
    assert tool["inputSchema"]["x-own"] == {"kept": 1} and tool["_meta"] == {"own/key": [1, 2]}
    big = {"n": 2**70}
    assert json.loads(json.dumps(low.call("echo", big)["structuredContent"])) == big
    high = Wire(f"{running.url}/mcp/s/high", era)
    assert high.request("resources/read", {"uri": "note://today"})["contents"][0]["text"] == "sunny"
    greeting = high.request("prompts/get", {"name": "greet", "arguments": {"name": "Ann"}})
    assert greeting["messages"][0]["content"]["text"] == "Say hello to Ann"
    with pytest.raises(RpcError):
        high.request("resources/read", {"uri": "note://never"})


@pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
def test_progress_reaches_who_asked(running: Running, era: str) -> None:
    client = Wire(f"{running.url}/mcp/s/high", era)
    heard = client.send("tools/call", {"name": "steps", "arguments": {}}, progressToken="p")
    told = [each["params"]["message"] for each in heard if each.get("method") == "notifications/progress"]
    assert told == ["step 0", "step 1", "step 2"]


def test_a_client_that_leaves_cancels_what_it_called(running: Running) -> None:
    client = Wire(running.mcp)
    before = client.read("high:cancelled")["structuredContent"]["result"]
    leaving = Wire(running.mcp)
    leaving.http.timeout = 0.5
    with pytest.raises(Exception, match="timed out"):
        leaving.read("high:sleep")
    until(lambda: client.read("high:cancelled")["structuredContent"]["result"] > before)


def test_an_answer_that_is_too_large_fails_its_own_call_only(running: Running) -> None:
    client = Wire(running.mcp)
    assert client.read("high:huge")["isError"]
    assert client.read("high:add", {"a": 1, "b": 1})["structuredContent"] == {"result": 2}


def test_what_is_no_server_says_what_would_be_one(running: Running) -> None:
    (row,) = [each for each in running.get("/servers")["servers"] if each["name"] == "broken"]
    assert row["state"] == "failed" or row["error"]
    assert "no server object of the mcp package" in row["error"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("era", "tool"), [(HANDSHAKE, "erase"), (HANDSHAKE, "wipe"), (MODERN, "wipe")], ids=["live", "either", "rounds"]
)
async def test_it_may_ask_the_person_in_the_middle_of_a_call(running: Running, era: str, tool: str) -> None:
    """`ctx.elicit` needs a live session, here as everywhere; the SDK's resolvers ask in either era."""

    async def answer(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        assert (method, params["message"]) == ("elicitation/create", "Erase the moon?")
        return {"action": "accept", "content": {"sure": True}}

    intent = {"operation_type": "destructive"}
    params = {
        "name": "call_tool_destructive",
        "arguments": {"name": f"high:{tool}", "args": {"what": "the moon"}, "intent": intent},
    }
    async with connected(HttpLink(running.mcp), era, answer) as peer:
        assert text(await peer.request("tools/call", params)) == "accept True"


def test_loading_it_leaves_the_gateways_log_as_it_was(running: Running) -> None:
    """The SDK sets up logging for the whole process when a server object is made."""
    said = running.stderr()
    assert "high" in said or "is ready" in said
    assert "\x1b[" not in said and "Processing request of type" not in said
