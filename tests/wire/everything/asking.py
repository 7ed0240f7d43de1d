"""The tools that the conformance suite calls and that ask the client something."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .calls import Call, elicit, form, roots, sample, text, wanted
from .registry import schema, tool

DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Name", "default": "John Doe"},
        "age": {"type": "integer", "description": "Age", "default": 30},
        "score": {"type": "number", "description": "Score", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "description": "Verified", "default": True},
    },
    "required": [],
}
TITLED = [{"const": word, "title": word.capitalize()} for word in ("red", "green", "blue")]
ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["red", "green", "blue"]},
        "titledSingle": {"type": "string", "oneOf": TITLED},
        "legacyEnum": {"type": "string", "enum": ["r", "g", "b"], "enumNames": ["Red", "Green", "Blue"]},
        "untitledMulti": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {"type": "string", "enum": ["a", "b"]},
        },
        "titledMulti": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"anyOf": TITLED}},
    },
    "required": [],
}


async def _one_form(call: Call, request: Mapping[str, Any]) -> dict[str, Any]:
    if (answer := call.answers.get("form")) is None:
        return wanted({"form": request})
    return text(f"action {answer.get('action')}, content {json.dumps(answer.get('content') or {})}")


@tool("Asks the model of the client", schema(("prompt",), prompt="string"))
async def test_sampling(call: Call) -> dict[str, Any]:
    if (answer := call.answers.get("reply")) is None:
        return wanted({"reply": sample(str(call.arguments.get("prompt")))})
    return text(f"The model said: {_words(answer)}")


def _words(answer: Mapping[str, Any]) -> str:
    content = answer.get("content")
    return content.get("text", "") if isinstance(content, dict) else ""


@tool("Asks a person", schema(("message",), message="string"))
async def test_elicitation(call: Call) -> dict[str, Any]:
    return await _one_form(call, elicit(str(call.arguments.get("message")), username="string", email="string"))


@tool("Asks a person, with defaults for everything")
async def test_elicitation_sep1034_defaults(call: Call) -> dict[str, Any]:
    return await _one_form(call, elicit("Are these right?", DEFAULTS))


@tool("Asks a person to choose, in all five ways")
async def test_elicitation_sep1330_enums(call: Call) -> dict[str, Any]:
    return await _one_form(call, elicit("Choose", ENUMS))


@tool("Reports progress and then asks, without sending a request of its own on the stream of a modern client")
async def test_streaming_elicitation(call: Call) -> dict[str, Any]:
    await call.progress(1, 2, "about to ask")
    return await _one_form(call, elicit("Go on?", ok="boolean"))


@tool("Asks for a name")
async def test_input_required_result_elicitation(call: Call) -> dict[str, Any]:
    filled = form(call.answers.get("user_name"))
    if filled is None:
        return wanted({"user_name": elicit("What is your name?", name="string")})
    return text(f"Hello, {filled.get('name')}!")


@tool("Asks the model of the client about France")
async def test_input_required_result_sampling(call: Call) -> dict[str, Any]:
    if (answer := call.answers.get("capital_question")) is None:
        return wanted({"capital_question": sample("What is the capital of France?")})
    return text(_words(answer))


@tool("Asks for the roots")
async def test_input_required_result_list_roots(call: Call) -> dict[str, Any]:
    if (answer := call.answers.get("client_roots")) is None:
        return wanted({"client_roots": roots()})
    return text(*(str(root.get("uri")) for root in answer.get("roots", [])))


@tool("Asks for a yes and remembers that it asked")
async def test_input_required_result_request_state(call: Call) -> dict[str, Any]:
    if call.state != "asked" or "confirm" not in call.answers:
        return wanted({"confirm": elicit("Please confirm", ok="boolean")}, "asked")
    return text("state-ok")


@tool("Notices when its memory was changed on the way")
async def test_input_required_result_tampered_state(call: Call) -> dict[str, Any]:
    if call.state is None or "confirm" not in call.answers:
        return wanted({"confirm": elicit("Please confirm", ok="boolean")}, "sealed")
    return text("state-ok")


@tool("Asks a person, a model and for the roots, all at once")
async def test_input_required_result_multiple_inputs(call: Call) -> dict[str, Any]:
    questions = {
        "user_name": elicit("What is your name?", name="string"),
        "greeting": sample("Write a greeting", 50),
        "client_roots": roots(),
    }
    return wanted(questions, "three") if questions.keys() - call.answers.keys() else text("Three answers")


@tool("Asks twice, the second time knowing the first answer")
async def test_input_required_result_multi_round(call: Call) -> dict[str, Any]:
    state = call.state or {}
    if "step2" in call.answers and "name" in state:
        return text(f"{state['name']} likes {(form(call.answers['step2']) or {}).get('color')}")
    if (filled := form(call.answers.get("step1"))) is not None and state:
        return wanted(
            {"step2": elicit("Step 2: What is your favorite color?", color="string")}, {"name": filled.get("name")}
        )
    return wanted({"step1": elicit("Step 1: What is your name?", name="string")}, {"step": 1})


@tool("Asks only what the client says it can answer")
async def test_input_required_result_capabilities(call: Call) -> dict[str, Any]:
    questions: dict[str, Any] = {}
    if call.can("elicitation"):
        questions["ask"] = elicit("Anything?", value="string")
    if call.can("sampling"):
        questions["sample"] = sample("Say hello", 50)
    if call.answers or not questions:
        return text(f"answered: {', '.join(call.answers) or 'nobody could be asked'}")
    return wanted(questions, "asked")
