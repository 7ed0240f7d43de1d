"""The model drivers against a server that speaks each API's own wire format (CAT-8)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from mcpproxy_py.bench.models import APIS, Answered, DriverError, ModelDriver, ModelTurn, Usage
from mcpproxy_py.bench.suite import BenchTarget, Prompt, Step, Suite, run
from tests.support.models import KEY, Models, Says, model_server

pytestmark = [pytest.mark.proves("CAT-8"), pytest.mark.anyio]
every_api = pytest.mark.parametrize("api", list(APIS))
SCHEMA = {"type": "object", "properties": {"agent": {"type": "string"}}, "additionalProperties": False}
TOOLS = [{"name": "list_capabilities", "description": "Lists.", "inputSchema": SCHEMA}]
CALL = Says(calls=[("list_capabilities", {"agent": "gemini-cli"})])
LISTED = {"agent": "gemini-cli", "capabilities": []}
PROMPT = Prompt("What can Gemini CLI do?", Step("list_capabilities", {"agent": "gemini-cli"}))


def driver(api: str, models: Models) -> ModelDriver:
    return APIS[api].driver("m", models.environ(), first_pause=0.001)


async def first_turn(api: str, models: Models) -> ModelTurn:
    asking = driver(api, models)
    try:
        return await asking.begin("What can Gemini CLI do?", TOOLS).turn()
    finally:
        await asking.aclose()


async def call(tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"content": [{"type": "text", "text": json.dumps(LISTED)}], "structuredContent": LISTED}


@every_api
async def test_a_tool_call_is_read_and_its_result_is_given_back(api: str) -> None:
    with model_server(CALL, Says(text="It can do this.")) as models:
        asking = driver(api, models)
        dialogue = asking.begin("What can Gemini CLI do?", TOOLS)
        first = await dialogue.turn()
        assert [(one.tool, one.arguments) for one in first.calls] == [("list_capabilities", {"agent": "gemini-cli"})]
        assert first.usage == Usage(100, 10)
        second = await dialogue.turn([Answered(first.calls[0], "the list", False)])
        assert (second.calls, second.trouble) == ((), None)
        assert "the list" in json.dumps(models.seen[1])
        assert SCHEMA in [value for tool in _tools(models.seen[0]) for value in tool.values()]
        await asking.aclose()


def _tools(body: Any) -> list[Any]:
    tools = body["tools"]
    return tools[0].get("functionDeclarations", tools)


@every_api
async def test_several_calls_in_one_turn_are_all_made(api: str) -> None:
    two = Says(calls=[("list_capabilities", {"agent": agent}) for agent in ("gemini-cli", "claude-code")])
    with model_server(two, Says(text="done")) as models:
        asking = driver(api, models)
        found = await run(asking, BenchTarget(TOOLS, call), Suite((PROMPT,), ()))
        await asking.aclose()
    (outcome,) = found.prompts
    assert len(outcome.played.made) == 2
    assert outcome.right_tool and outcome.right_arguments and not outcome.played.retried
    assert outcome.played.usage == Usage(200, 20)


@every_api
async def test_a_refusal_is_told_and_costs_only_its_prompt(api: str) -> None:
    with model_server(Says(refuses=True), CALL) as models:
        asking = driver(api, models)
        found = await run(asking, BenchTarget(TOOLS, call), Suite((PROMPT, PROMPT), ()))
        await asking.aclose()
    refused, answered = found.prompts
    assert (refused.played.trouble or "").startswith("refused")
    assert not refused.right_tool
    assert answered.right_arguments


@every_api
async def test_an_answer_that_was_cut_off_is_told(api: str) -> None:
    with model_server(Says(text="I will", cut=True)) as models:
        assert (await first_turn(api, models)).trouble == "cut off"


@every_api
@pytest.mark.parametrize("status", [429, 500, 503, 529])
async def test_a_busy_api_is_asked_again_until_it_answers(api: str, status: int) -> None:
    busy = [
        Says(status=status),
        Says(status=status, headers={"retry-after": "0"}),
        Says(status=status, headers={"retry-after": "soon"}),
    ]
    with model_server(*busy, CALL) as models:
        assert len((await first_turn(api, models)).calls) == 1
        assert len(models.seen) == 4
        assert all(body == models.seen[0] for body in models.seen)


@every_api
async def test_limits_that_do_not_lift_end_the_run_with_a_reason(api: str) -> None:
    with model_server(*[Says(status=429)] * 20) as models:
        with pytest.raises(DriverError, match="no answer in 6 attempts: status 429"):
            await first_turn(api, models)
        assert len(models.seen) == 6


@every_api
@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_what_trying_again_cannot_mend_ends_the_run_at_once_and_shows_no_key(api: str, status: int) -> None:
    with model_server(Says(status=status)) as models:
        with pytest.raises(DriverError, match=f"status {status}: slow down") as refused:
            await first_turn(api, models)
        assert KEY not in str(refused.value)
        assert len(models.seen) == 1


NONSENSE: list[dict[str, Any]] = [
    {"content": 3, "output": 3, "candidates": 3},
    {"content": [3], "output": [3], "candidates": [3]},
    {"content": [{}], "output": [{}], "candidates": []},
    {
        "content": [{"type": "tool_use"}],
        "output": [{"type": "function_call"}],
        "candidates": [{"content": {"parts": [{"functionCall": {}}]}}],
    },
    {
        "content": [{"type": "tool_use", "name": ["x"], "input": {}, "id": "1"}],
        "output": [{"type": "function_call", "name": ["x"], "arguments": "{}", "call_id": "1"}],
        "candidates": [{"content": {"parts": [{"functionCall": {"name": ["x"]}}]}}],
    },
    {"content": [], "output": [], "candidates": [{}], "usage": {"input_tokens": "many"},
     "usageMetadata": {"promptTokenCount": "many"}},
]  # fmt: skip
MALFORMED = [b"", b"<html>", b"[]", b"{}", b'"x"', b"\xff\xfe", *(json.dumps(one).encode() for one in NONSENSE)]


@every_api
@pytest.mark.parametrize("raw", MALFORMED)
async def test_a_malformed_answer_costs_its_prompt_and_not_the_run(api: str, raw: bytes) -> None:
    with model_server(Says(raw=raw)) as models:
        turn = await first_turn(api, models)
    assert turn.calls == ()
    assert (turn.trouble or "").startswith("malformed")


async def test_arguments_that_are_no_json_are_malformed() -> None:
    with model_server(Says(calls=[("list_capabilities", "{agent:")])) as models:
        assert "malformed" in ((await first_turn("openai", models)).trouble or "")


@every_api
@pytest.mark.parametrize("wanted", [("no_such_tool", {}), ("list_capabilities", ["gemini-cli"])], ids=str)
async def test_a_call_that_cannot_be_made_is_an_error_the_model_gets_to_see(api: str, wanted: Any) -> None:
    with model_server(Says(calls=[wanted]), CALL, Says(text="done")) as models:
        asking = driver(api, models)
        (outcome,) = (await run(asking, BenchTarget(TOOLS, call), Suite((PROMPT,), ()))).prompts
        await asking.aclose()
    assert outcome.played.retried
    assert len(outcome.played.made) == 2


@every_api
async def test_a_model_that_never_stops_calling_is_stopped(api: str) -> None:
    with model_server(*[CALL] * 50) as models:
        asking = driver(api, models)
        (outcome,) = (await run(asking, BenchTarget(TOOLS, call), Suite((PROMPT,), ()))).prompts
        await asking.aclose()
    assert outcome.played.trouble == "not done after 6 turns"


async def test_an_api_that_is_not_there_is_a_reason_and_not_a_crash() -> None:
    nowhere = Models(url="http://127.0.0.1:9")
    with pytest.raises(DriverError, match="ConnectError"):
        await first_turn("anthropic", nowhere)


@every_api
def test_without_a_key_the_driver_names_the_variable(api: str) -> None:
    with pytest.raises(DriverError, match=f"{APIS[api].keys[0]}.* is not set"):
        APIS[api].driver("m", {})
