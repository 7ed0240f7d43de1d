"""Built-in upstreams: they ask like any server, at once or in rounds, and get no shortcut."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpproxy_py.core.protocol.client_channel import UpstreamCallContext
from mcpproxy_py.errors import Code, RpcError, UpstreamFailure
from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.transports import in_process
from tests.upstream.helpers import Chat, Upstreams, connected, running, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.proves("UP-5")]
QUESTION: Mapping[str, Any] = {"method": "elicitation/create", "params": {"message": "Sure?"}}


class Inquirer:
    """Asks the live caller at once, and everybody else in rounds."""

    async def list_tools(self) -> list[dict[str, Any]]:
        return [{"name": name, "inputSchema": {"type": "object"}} for name in ("ask", "refuse", "tell", "both")]

    async def call_tool(self, name: str, args: dict[str, Any], context: UpstreamCallContext) -> dict[str, Any]:
        channel = context.channel
        if name == "refuse":
            raise RpcError(-32021, "it needs elicitation", {"requiredCapabilities": {"elicitation": {}}})
        if name == "tell":
            channel.notify("notifications/progress", {"progress": 1})
            return said(sorted(channel.capabilities))
        if name == "both":
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(channel.request, QUESTION["method"], {"message": "one"})
                tasks.start_soon(channel.request, QUESTION["method"], {"message": "two"})
            return said("both")
        if context.input_responses is not None:
            return said([context.input_responses["sure"], context.request_state])
        if channel.live:
            return said(await channel.request(QUESTION["method"], QUESTION["params"]))
        return {"resultType": "input_required", "inputRequests": {"sure": dict(QUESTION)}, "requestState": "mine"}


def said(value: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(value)}]}


async def slowly(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    await anyio.sleep(2.5)
    return {"action": "accept"}


def inside(tmp_path: Path, **more: Any) -> Any:
    return running(tmp_path, UpstreamSpec("inside", "local", **more), local={"inside": Inquirer()})


async def failure_of(supervisor: Upstreams, tool: str, chat: Chat) -> UpstreamFailure:
    with pytest.raises(UpstreamFailure) as caught:
        await supervisor.call_tool("inside", tool, {}, channel=chat)
    return caught.value


async def test_a_live_caller_is_asked_at_once_and_the_time_stands_still(tmp_path: Path) -> None:
    async def ask(tool: str, questions: int) -> None:
        chat = Chat(slowly)
        assert text_of(await supervisor.call_tool("inside", tool, {}, channel=chat))
        assert len(chat.asked) == questions

    async with inside(tmp_path, timeout=2) as supervisor, anyio.create_task_group() as tasks:
        await connected(supervisor, "inside")
        tasks.start_soon(ask, "ask", 1)
        tasks.start_soon(ask, "both", 2)


async def test_a_caller_that_is_not_live_is_asked_in_rounds(tmp_path: Path) -> None:
    async with inside(tmp_path) as supervisor:
        await connected(supervisor, "inside")
        first = await supervisor.call_tool("inside", "ask", {})
        assert (first["inputRequests"], first["requestState"]) == ({"sure": QUESTION}, "mine")
        again = {
            "name": "ask",
            "arguments": {},
            "inputResponses": {"sure": {"action": "decline"}},
            "requestState": "mine",
        }
        assert text_of(await supervisor.request("inside", "tools/call", again)) == "[{'action': 'decline'}, 'mine']"


async def test_it_sees_the_callers_capabilities_and_can_tell_of_progress(tmp_path: Path) -> None:
    async with inside(tmp_path) as supervisor:
        await connected(supervisor, "inside")
        chat = Chat(capabilities={"roots": {}, "elicitation": {}})
        assert text_of(await supervisor.call_tool("inside", "tell", {}, channel=chat)) == "['elicitation', 'roots']"
        assert chat.progress == [{"progress": 1}]
        assert supervisor.snapshot.servers["inside"].protocol_version == "2026-07-28"


async def test_its_errors_keep_their_code_and_data(tmp_path: Path) -> None:
    async with inside(tmp_path) as supervisor:
        await connected(supervisor, "inside")
        failure = await failure_of(supervisor, "refuse", Chat())
        assert failure.data == {"code": -32021, "data": {"requiredCapabilities": {"elicitation": {}}}}


async def test_a_client_that_never_answers_and_one_that_refuses_end_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        raise RpcError(-1, "no")

    monkeypatch.setattr(in_process, "INPUT_TIMEOUT", 0.1)
    async with inside(tmp_path) as supervisor:
        await connected(supervisor, "inside")
        silent = Chat()
        assert (await failure_of(supervisor, "ask", silent)).data["code"] == -32001
        assert silent.withdrawn == ["elicitation/create"]
        failure = await failure_of(supervisor, "ask", Chat(no))
        assert (failure.code, failure.data["code"]) == (Code.UPSTREAM_ERROR, -1)
