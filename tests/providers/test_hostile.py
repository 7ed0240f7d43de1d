"""Providers that misbehave hold up their own call and nothing else."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import pytest

from mcpproxy_py.errors import GatewayError
from mcpproxy_py.providers import Context, ProviderUpstream, Replay, ToolProvider, ToolSpec
from mcpproxy_py.providers.runner import Runner
from tests.providers.helpers import Tools, of, served, text

pytestmark = [pytest.mark.proves("PROV-3"), pytest.mark.anyio]


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration(), asyncio.CancelledError(), RecursionError()],
    ids=repr,
)
async def test_whatever_is_raised_ends_in_a_tool_error(error: BaseException) -> None:
    def sync() -> None:
        raise error

    async def on_the_loop() -> None:
        raise error

    made = await of(sync, on_the_loop)
    for name in ("sync", "on_the_loop"):
        assert (await made.call(name, {}))["isError"]
        assert (await made.call(name, {}, Replay()))["isError"]


async def test_a_synchronous_function_that_blocks_does_not_block_the_loop() -> None:
    go, on = threading.Event(), threading.Event()

    def blocks() -> str:
        on.set()
        assert go.wait(30)
        return threading.current_thread().name

    async def lets_go() -> None:
        assert on.is_set()
        go.set()

    made = await of(blocks, lets_go)
    call = asyncio.create_task(made.call_tool("blocks", {}))
    assert await asyncio.to_thread(on.wait, 30)
    await made.call_tool("lets_go", {})
    assert text(await call) == "provider"


async def test_a_function_that_hangs_is_given_up_and_too_many_are_turned_away() -> None:
    go = threading.Event()
    runner = Runner(most=2)
    try:
        for _ in range(2):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await runner.run(go.wait)
        with pytest.raises(Exception, match="2 calls of this provider are still running"):
            await runner.run(go.wait)
    finally:
        go.set()
    async with asyncio.timeout(30):
        while True:  # once they end, there is room again
            try:
                assert await runner.run(lambda: 3) == 3
                return
            except Exception as error:
                assert "still running" in str(error)
                await asyncio.sleep(0.01)


async def test_cancelling_a_call_cancels_the_function_in_either_way_of_asking() -> None:
    for asking in (None, Replay()):
        began, ended = asyncio.Event(), asyncio.Event()

        async def waits(began: Any = began, ended: Any = ended) -> None:
            began.set()
            try:
                await asyncio.sleep(3600)
            finally:
                ended.set()

        spec = ToolSpec("waits", lambda waits=waits: waits(), input_schema={"type": "object"})
        made = await served(Asks(spec))
        call = asyncio.create_task(made.call("waits", {}, asking))
        async with asyncio.timeout(30):
            await began.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await ended.wait()


class Asks(Tools):
    def capabilities(self) -> Any:
        return ["elicitation"]


async def test_an_unknown_tool_is_a_tool_error() -> None:
    assert "no tool 'x'" in text(await (await of()).call_tool("x", {}))


class Refuses(ToolProvider):
    """Answers one tool itself, and leaves the others to their functions."""

    def tools(self) -> Any:
        yield ToolSpec("own", input_schema={"type": "object", "required": ["a"]})
        yield ToolSpec("left", lambda a=1: a)
        yield ToolSpec("nobody")

    async def tool_call(self, name: str, arguments: dict[str, Any], ctx: Context) -> Any:
        return f"{name} {arguments['a']}" if name == "own" else NotImplemented


@pytest.mark.proves("PROV-1")
async def test_tool_call_answers_or_falls_back_tool_by_tool() -> None:
    made = await served(Refuses())
    assert text(await made.call_tool("own", {"a": 3})) == "own 3"
    assert "Invalid arguments" in text(await made.call_tool("own", {}))
    assert text(await made.call_tool("left", {"a": 2})) == "2"
    assert "does not answer it" in text(await made.call_tool("nobody", {}))


@pytest.mark.proves("PROV-1")
async def test_everything_of_a_provider_may_be_asynchronous_and_only_tools_is_required() -> None:
    class Provider:
        async def capabilities(self) -> list[str]:
            return ["elicitation"]

        async def tools(self) -> list[ToolSpec]:
            return [ToolSpec("f", lambda ctx: 1, input_schema={"type": "object"}), ToolSpec("can")]

        async def can(self, ctx: Context) -> str:
            return str(ctx.can_elicit)

    made = await served(Provider())
    assert text(await made.call("can", {}, Replay())) == "True"  # type: ignore[arg-type]
    assert [tool["name"] for tool in await (await served(Tools(ToolSpec("f", print_nothing)))).list_tools()] == ["f"]


def print_nothing() -> None: ...


@pytest.mark.proves("PROV-5")
@pytest.mark.parametrize(
    ("specs", "words"),
    [
        ([ToolSpec("a b", print_nothing)], "name is 1 to 128"),
        ([ToolSpec(3, print_nothing)], "name is 1 to 128"),  # type: ignore[arg-type]
        (["f"], "gave str"),
        ([ToolSpec("f", print_nothing)] * 2, "two tools named 'f'"),
        ([ToolSpec("f")], "it has no function"),
        ([ToolSpec("tools")], "it has no function"),
        ([ToolSpec("f", print)], "tool 'f'"),
        ([ToolSpec("f", print_nothing, input_schema={})], '"type": "object"'),
        ([ToolSpec("f", print_nothing, output_schema={"type": "object", "properties": 3})], "does not compile"),
        ([ToolSpec("f", print_nothing, annotations={"read_only_hint": True})], "did you mean readOnlyHint?"),
        ([ToolSpec("f", print_nothing, annotations={"readOnlyHint": "yes"})], "true or false"),
        ([ToolSpec("f", print_nothing, annotations=["readOnlyHint"])], "has to be an object"),  # type: ignore[arg-type]
    ],
)
async def test_a_provider_that_cannot_be_served_says_what_to_change(specs: Any, words: str) -> None:
    with pytest.raises(GatewayError) as refused:
        await served(Tools(*specs))
    assert words in refused.value.message


async def test_a_provider_that_fails_to_load_tells_its_kind_and_logs_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    def make() -> Any:
        raise RuntimeError("password hunter2")

    with pytest.raises(GatewayError, match="RuntimeError") as refused:
        await ProviderUpstream("p", make).list_tools()
    assert "hunter2" not in refused.value.message
    assert "hunter2" in caplog.text


async def test_a_list_of_tools_without_end_is_refused() -> None:
    class Endless:
        def tools(self) -> Any:
            return (ToolSpec(f"t{number}", input_schema={"type": "object"}) for number in itertools.count())

        def tool_call(self, *args: Any) -> None: ...

    with pytest.raises(GatewayError, match="more than 10000 tools"):
        await served(Endless())


async def test_hints_may_come_as_the_sdks_own_model() -> None:
    from mcp_types import ToolAnnotations

    spec = ToolSpec("f", print_nothing, annotations=ToolAnnotations(read_only_hint=True))  # type: ignore[arg-type]
    (tool,) = await (await served(Tools(spec))).list_tools()
    assert tool["annotations"] == {"readOnlyHint": True}
