"""The tools that the conformance suite calls and that ask nobody anything."""

from __future__ import annotations

from typing import Any

import anyio
from mcp.shared.exceptions import MCPError

from .calls import Call, require, text
from .content import AUDIO, IMAGE, embedded
from .registry import schema, tool

DIALECT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


# First in the list on purpose: the suite calls whatever comes first with no arguments and wants a result.
@tool("Says one sentence")
async def test_simple_text(call: Call) -> dict[str, Any]:
    return text("One plain sentence, for whoever asked.")


@tool("Shows a picture")
async def test_image_content(call: Call) -> dict[str, Any]:
    return {"content": [IMAGE]}


@tool("Plays a sound")
async def test_audio_content(call: Call) -> dict[str, Any]:
    return {"content": [AUDIO]}


@tool("Hands over a document")
async def test_embedded_resource(call: Call) -> dict[str, Any]:
    return {"content": [embedded("test://embedded-resource", "The words of an embedded document.")]}


@tool("Words, a picture and a document at once")
async def test_multiple_content_types(call: Call) -> dict[str, Any]:
    document = embedded("test://mixed-content-resource", '{"test": "data", "value": 123}', "application/json")
    return {"content": [*text("Three kinds of content:")["content"], IMAGE, document]}


@tool("Logs three times while it works")
async def test_tool_with_logging(call: Call) -> dict[str, Any]:
    for step in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await call.log(step)
        await anyio.sleep(0.02)
    return text("Logged three times")


@tool("Logs once, for those who asked for logs")
async def test_logging_tool(call: Call) -> dict[str, Any]:
    await call.log("logged")
    return text("Logged once")


@tool("Reports progress: none, half, all")
async def test_tool_with_progress(call: Call) -> dict[str, Any]:
    for done in (0, 50, 100):
        await call.progress(done, 100, f"{done} of 100")
        await anyio.sleep(0.02)
    return text("All done")


@tool("Always fails")
async def test_error_handling(call: Call) -> dict[str, Any]:
    return text("This tool fails, as it was meant to", isError=True)


@tool("Hangs up on the client in mid-call and answers on the stream it comes back on")
async def test_reconnection(call: Call) -> dict[str, Any]:
    if call.ctx.close_sse_stream is not None:
        # The SDK writes a stream's first event in a task of its own, and what it has not written when the stream is
        # closed is lost. All of that runs in this loop, so it is done after some turns, however busy the machine is.
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
        await call.ctx.close_sse_stream()
        await anyio.sleep(0.1)
    return text("You came back")


@tool("Needs a client that can sample, and does nothing with it")
async def test_missing_capability(call: Call) -> dict[str, Any]:
    require(call, "sampling")
    return text("You can sample")


@tool("Takes a region, which must stand in a header too", schema(region={"type": "string", "x-mcp-header": "Region"}))
async def test_x_mcp_header(call: Call) -> dict[str, Any]:
    return text(f"region {call.arguments.get('region')}")


@tool("Has an input schema that uses all of JSON Schema 2020-12", DIALECT)
async def json_schema_2020_12_tool(call: Call) -> dict[str, Any]:
    return text("The schema is the point")


@tool("Fails as a protocol error, with code and data", schema(code="integer"))
async def protocol_error(call: Call) -> dict[str, Any]:
    raise MCPError(call.arguments.get("code", -32099), "As you wished", {"why": ["asked"], "extra": {"deep": 1}})


@tool(
    "Answers with things that no specification knows",
    outputSchema={"type": "object", "properties": {"large": {"type": "integer"}}},
    **{"x-vendor": {"colour": "green"}, "_meta": {"example.com/kept": True}},
)
async def oddities(call: Call) -> dict[str, Any]:
    strange = {"type": "hologram", "depth": 3}
    return {
        "content": [*text("Odd")["content"], strange],
        "structuredContent": {"large": 2**70, "small": -0.5, "nothing": None},
        "x-vendor": {"kept": [1, 2]},
        "_meta": {"example.com/trace": "abc"},
    }
