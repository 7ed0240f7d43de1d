"""The tools of the four-cell journey: one for each thing that a gateway between two eras gets wrong."""

from __future__ import annotations

import os
from typing import Any

import anyio

from .calls import Call, elicit, form, roots, sample, text, wanted
from .notebook import note, noted
from .registry import schema, tool

WHO = schema(("who",), who="string", aside="boolean")


@tool("Asks a person one thing and says what they said; `aside` asks outside the stream of the call", WHO)
async def ask(call: Call) -> dict[str, Any]:
    who = str(call.arguments.get("who"))
    if (answer := call.answers.get("form")) is None:
        return wanted({"form": elicit(f"What says {who}?", answer="string")}, who)
    note(f"asked {who} {answer.get('action')}")
    if (filled := form(answer)) is None:
        return text(f"{who} would not say: {answer.get('action')}", isError=True)
    return text(f"{who} says {filled.get('answer')}")


@tool("Sends a person to a web page", WHO)
async def ask_by_url(call: Call) -> dict[str, Any]:
    who = str(call.arguments.get("who"))
    if (answer := call.answers.get("page")) is None:
        params = {"mode": "url", "message": f"Go, {who}", "url": "https://example.com/go", "elicitationId": f"id-{who}"}
        return wanted({"page": {"method": "elicitation/create", "params": params}})
    return text(f"{who}: {answer.get('action')}")


@tool("Asks a person twice; the second question needs the first answer", WHO)
async def interview(call: Call) -> dict[str, Any]:
    who = str(call.arguments.get("who"))
    if (filled := form(call.answers.get("colour"))) is not None:
        return text(f"{who}, {call.state['name']}, {filled.get('answer')}")
    if (filled := form(call.answers.get("name"))) is not None:
        name = filled.get("answer")
        return wanted({"colour": elicit(f"{name}, which colour? ({who})", answer="string")}, {"name": name})
    return wanted({"name": elicit(f"Which name? ({who})", answer="string")}, {"name": None})


@tool("Asks the model of the client", schema(("prompt",), prompt="string", aside="boolean"))
async def sampled(call: Call) -> dict[str, Any]:
    if (answer := call.answers.get("reply")) is None:
        return wanted({"reply": sample(str(call.arguments.get("prompt")))})
    content = answer.get("content")
    return text(f"{answer.get('model')}: {content.get('text') if isinstance(content, dict) else content}")


@tool("Lists the roots of the client")
async def list_roots(call: Call) -> dict[str, Any]:
    if (answer := call.answers.get("roots")) is None:
        return wanted({"roots": roots()})
    return text(*(str(root.get("uri")) for root in answer.get("roots", [])))


@tool("Reports progress step by step", schema(("who", "count"), who="string", count="integer"))
async def steps(call: Call) -> dict[str, Any]:
    who, count = str(call.arguments.get("who")), int(call.arguments.get("count", 1))
    for step in range(1, count + 1):
        await call.progress(step, count, f"{who} {step}")
        await anyio.sleep(0.01)
    return text(f"{who} took {count} steps")


@tool("Never answers; notes that it started, and its cancellation is noted as that of every call", WHO)
async def hang(call: Call) -> dict[str, Any]:
    note(f"started {call.arguments.get('who')}")
    await anyio.sleep_forever()
    raise AssertionError("it slept for ever")


@tool("Everything that was noted, by this process or by another one of this server")
async def notes(call: Call) -> dict[str, Any]:
    return text(*noted())


@tool("Says which process this is")
async def process(call: Call) -> dict[str, Any]:
    return text(str(os.getpid()))


@tool("Logs a line", schema(("line",), line="string", level="string"))
async def say(call: Call) -> dict[str, Any]:
    await call.log(str(call.arguments.get("line")), call.arguments.get("level", "warning"))
    return text("said")
