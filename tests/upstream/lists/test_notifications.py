"""What servers say unasked, what is kept of what they list, and what is watched: in both eras, across reconnects."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread
import pytest

from mcpproxy_py.errors import Code, UpstreamFailure
from mcpproxy_py.upstream.session.throttle import BURST, PERIOD, PROGRESS, ChangeCoalescer, NotificationThrottle
from mcpproxy_py.upstream.spec import UpstreamSpec
from tests.upstream.helpers import LONG, Chat, Upstreams, connected, numbers, running, stdio, text_of, until, web_server

pytestmark = pytest.mark.anyio
CELLS = ("stdio", "http", "stdio-modern", "http-modern")
UPDATED = ("notifications/resources/updated", {"uri": "note://1"})


class House:
    def __init__(self, supervisor: Upstreams, told: list[tuple[str, Any]], path: Path) -> None:
        self.supervisor = supervisor
        self.told = told
        self.path = path

    async def call(self, tool: str, **args: Any) -> Any:
        return json.loads(text_of(await self.supervisor.call_tool("s", tool, args)))

    async def listed(self) -> list[str]:
        return [each["name"] for each in await self.supervisor.listed("s", "prompts/list")]

    async def watch(self, uri: str) -> Any:
        return await self.supervisor.request("s", "resources/subscribe", {"uri": uri})

    async def unwatch(self, uri: str) -> Any:
        return await self.supervisor.request("s", "resources/unsubscribe", {"uri": uri})

    async def keeps(self) -> None:
        """Until a listing is answered from what is kept. The first may not be: what was read before anybody listened
        is read once more, when we begin to and when the server says that it has."""
        reads = -1
        while (now := len(received(self.path, "prompts/list"))) != reads:
            reads = now
            assert await self.listed() == ["prompt_0"]
        assert reads <= 3

    async def hears(self, tool: str, expected: tuple[str, Any], **args: Any) -> None:
        """Until it is told; a stream may still be opening when the first change is made. What was told before is not
        what this is about."""
        before = len(self.told)
        for _ in range(150):
            await self.call(tool, **args)
            with anyio.move_on_after(0.4):
                await until(lambda: expected in self.told[before:])
                return
        raise AssertionError(f"never told {expected}, only {self.told}")


@pytest.fixture(params=CELLS)
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[UpstreamSpec]:
    transport, _, era = request.param.partition("-")
    options = ["--log", str(tmp_path / "log"), "--pid-file", str(tmp_path / "pids"), *([f"--{era}"] if era else [])]
    if transport == "stdio":
        yield stdio("s", "asks.py", *options, timeout=LONG)
    else:
        with web_server("asks.py", "--http", "0", *options) as origin:
            yield UpstreamSpec("s", "http", url=f"{origin}/mcp", timeout=LONG)


@asynccontextmanager
async def opened(tmp_path: Path, spec: UpstreamSpec) -> AsyncIterator[House]:
    told: list[tuple[str, Any]] = []
    tell = lambda server, method, params: told.append((method, params))  # noqa: E731
    async with running(tmp_path, spec, on_notification=tell) as supervisor:
        await connected(supervisor, "s")
        yield House(supervisor, told, tmp_path)


def received(tmp_path: Path, method: str) -> list[dict[str, Any]]:
    messages = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    return [message for message in messages if message.get("method") == method]


@pytest.mark.proves("UP-4", "UP-6")
async def test_a_listing_is_read_whole_kept_and_read_again_when_it_changed(spec: UpstreamSpec, tmp_path: Path) -> None:
    async with opened(tmp_path, spec) as house:
        assert await house.supervisor.listed("s", "prompts/list") == [{"name": "prompt_0", "draft": True}]
        await house.keeps()
        await house.hears("grow", ("notifications/prompts/list_changed", {}))
        assert (await house.listed())[:2] == ["prompt_0", "prompt_1"]
        assert [each["uri"] for each in await house.supervisor.listed("s", "resources/list")] == ["note://1"]
        assert await house.supervisor.listed("s", "resources/templates/list") == []
        with pytest.raises(UpstreamFailure):
            await house.supervisor.listed("s", "tools/list")


@pytest.mark.proves("UP-4")
async def test_a_listing_asked_for_by_many_at_once_is_read_once(tmp_path: Path) -> None:
    spec = stdio("s", "asks.py", "--log", str(tmp_path / "log"))
    async with opened(tmp_path, spec) as house:
        await house.keeps()
        await house.call("grow")  # on a pipe the news comes before the answer
        before = len(received(tmp_path, "prompts/list"))
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(house.listed)
        assert len(received(tmp_path, "prompts/list")) == before + 2  # its pages


async def test_a_server_without_prompts_lists_none(tmp_path: Path) -> None:
    async with opened(tmp_path, stdio("s", "plain.py")) as house:
        assert await house.listed() == []


@pytest.mark.proves("UP-6")
async def test_what_a_list_of_tools_says_beside_them_is_kept(spec: UpstreamSpec, tmp_path: Path) -> None:
    async with opened(tmp_path, spec) as house:
        assert house.supervisor.snapshot.servers["s"].listing_extras == {"_meta": {"draft": 1}, "ttlMs": 5000}


@pytest.mark.proves("UP-4")
@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell != "stdio"])
async def test_a_change_before_anybody_listened_is_found_all_the_same(cell: str, tmp_path: Path) -> None:
    transport, _, era = cell.partition("-")
    options = ["--slow-to-tell", *([f"--{era}"] if era else [])]
    with web_server("asks.py", "--http", "0", *options) as origin:
        web, pipe = UpstreamSpec("s", "http", url=f"{origin}/mcp"), stdio("s", "asks.py", *options)
        async with opened(tmp_path, web if transport == "http" else pipe) as house:
            await house.call("sprout")
            await until(lambda: "sprouted" in house.supervisor.snapshot.servers["s"].tools)
            await until(lambda: ("notifications/tools/list_changed", {}) in house.told)


@pytest.mark.proves("UP-4")
async def test_a_subscription_made_before_anybody_listened_hides_no_change(tmp_path: Path) -> None:
    spec = stdio("s", "asks.py", "--modern", "--slow-to-tell", "--log", str(tmp_path / "log"))
    async with opened(tmp_path, spec) as house, anyio.create_task_group() as tasks:
        await until(lambda: len(received(tmp_path, "subscriptions/listen")) == 1)
        tasks.start_soon(house.watch, "note://1")
        await until(lambda: len(received(tmp_path, "subscriptions/listen")) == 2)
        await house.call("sprout")
        await until(lambda: "sprouted" in house.supervisor.snapshot.servers["s"].tools)


@pytest.mark.proves("UP-4")
async def test_a_watched_resource_that_changes_is_told_of(spec: UpstreamSpec, tmp_path: Path) -> None:
    async with opened(tmp_path, spec) as house:
        assert await house.watch("note://1") == {}
        await house.call("touch", uri="note://1")  # once, so that no second one can come late
        await until(lambda: UPDATED in house.told)
        await house.watch("note://1")
        await house.unwatch("note://1")
        house.told.clear()
        await house.call("touch", uri="note://1")
        await until(lambda: UPDATED in house.told)
        await house.unwatch("note://1")
        house.told.clear()
        await house.call("touch", uri="note://1")
        await house.hears("grow", ("notifications/prompts/list_changed", {}))
        assert UPDATED not in house.told
    if "--modern" not in spec.args and "modern" not in str(spec.url):
        counts = [len(received(tmp_path, f"resources/{verb}")) for verb in ("subscribe", "unsubscribe")]
        assert counts in ([1, 1], [0, 0])


@pytest.mark.proves("UP-4")
async def test_a_server_that_will_not_tell_of_a_resource_fails_the_subscriber(
    spec: UpstreamSpec, tmp_path: Path
) -> None:
    async with opened(tmp_path, spec) as house:
        await house.watch("note://1")
        with pytest.raises(UpstreamFailure) as caught:
            await house.watch("secret://1")
        assert caught.value.data["code"] in (-32601, -32602)
        await house.hears("touch", UPDATED, uri="note://1")


@pytest.mark.proves("UP-2", "UP-4")
async def test_what_was_watched_is_watched_again_after_the_server_came_back(spec: UpstreamSpec, tmp_path: Path) -> None:
    async with opened(tmp_path, spec) as house:
        await house.watch("note://1")
        await house.keeps()
        await lose(house, spec, tmp_path)
        await house.hears("touch", UPDATED, uri="note://1")
        # Nobody told us of changes meanwhile, so whoever saw the list should look again.
        await until(lambda: ("notifications/prompts/list_changed", {}) in house.told)


async def lose(house: House, spec: UpstreamSpec, tmp_path: Path) -> None:
    """End the session in the way of its transport, and wait until there is another."""
    restarts = house.supervisor.describe()[0]["restarts"]
    if spec.transport == "stdio":
        os.kill(numbers(tmp_path / "pids")[0], signal.SIGKILL)
    else:
        await house.supervisor.restart("s")
    await until(lambda: house.supervisor.describe()[0]["restarts"] > restarts)
    await connected(house.supervisor, "s")


@pytest.mark.proves("UP-2")
async def test_a_forgotten_session_is_replaced_at_once(tmp_path: Path) -> None:
    with web_server("asks.py", "--http", "0") as origin:
        async with opened(tmp_path, UpstreamSpec("s", "http", url=f"{origin}/mcp")) as house:
            states: list[str] = []
            for _ in range(2):
                forget = urllib.request.Request(f"{origin}/forget", data=b"", method="POST")
                await anyio.to_thread.run_sync(lambda forget=forget: urllib.request.urlopen(forget).close())
                with pytest.raises(UpstreamFailure) as caught:
                    await house.call("whoami")
                assert (caught.value.code, caught.value.sent) == (Code.SERVER_UNAVAILABLE, True), (
                    "a server may act and say 404"
                )
                states.append(house.supervisor.snapshot.servers["s"].state)
                await house.supervisor.ready("s")
                await connected(house.supervisor, "s")
                assert (await house.call("whoami"))["session"]
            assert states[0] == "connecting"


@pytest.mark.proves("UP-5")
async def test_a_log_level_holds_for_every_session_and_after_a_reconnect(tmp_path: Path) -> None:
    spec = stdio("s", "asks.py", "--log", str(tmp_path / "log"), "--pid-file", str(tmp_path / "pids"),
                 sessions="exclusive")  # fmt: skip
    async with opened(tmp_path, spec) as house:
        assert await house.supervisor.request("s", "logging/setLevel", {"level": "debug"}) == {}
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(lambda: house.call("wait", seconds=0.5))
        assert len(received(tmp_path, "logging/setLevel")) == 2
        await lose(house, UpstreamSpec("s"), tmp_path)
        assert len(received(tmp_path, "logging/setLevel")) == 3


@pytest.mark.proves("UP-4", "SEC-5")
async def test_ten_thousand_changes_are_told_a_few_times(spec: UpstreamSpec, tmp_path: Path) -> None:
    async with opened(tmp_path, spec) as house:
        await house.hears("grow", ("notifications/prompts/list_changed", {}))
        house.told.clear()
        await house.call("changed", what="resources", n=10_000)
        await until(lambda: house.told)
        assert await house.call("wait", seconds=0.3) == "waited"
        assert 1 <= len(house.told) < 500
        assert (await house.call("whoami"))["session"]


@pytest.mark.proves("SEC-5")
async def test_changes_of_more_things_than_there_can_be_are_not_all_remembered() -> None:
    told: list[str] = []
    changes = ChangeCoalescer(lambda method, params: told.append(params["uri"]))
    for number in range(20_000):
        changes.put("notifications/resources/updated", {"uri": f"note://{number}"})
        changes.put("notifications/resources/updated", {"uri": "note://0"})
    assert len(told) == 5_000
    await until(lambda: told.count("note://0") == 2)


async def test_a_timer_that_is_late_lets_no_second_burst_pass() -> None:
    now, timers = [0.0], []

    class Late:
        """A loop whose timers come when they are told to."""

        time = staticmethod(lambda: now[0])

        def call_at(self, when: float, act: Any) -> Any:
            timers.append(asyncio.get_running_loop().call_later(3600, act))
            return timers[-1]

    told: list[int] = []
    flow = NotificationThrottle(cast(Any, Late()), lambda method, params: told.append(params["progress"]))
    for step in range(3 * BURST):
        flow.put(PROGRESS, {"progress": step})
        if step == BURST:  # one too many, which waits for the period to end
            now[0] += PERIOD
    assert len(told) == 2 * BURST + 1
    assert [timer.cancelled() for timer in timers] == [True, False]
    flow.close()


@pytest.mark.proves("UP-5", "SURF-6")
async def test_a_modern_server_sees_the_capabilities_and_the_words_of_the_caller(tmp_path: Path) -> None:
    meta = {"traceparent": "00-1", "io.modelcontextprotocol/logLevel": "debug", "x/y": [1], "progressToken": "theirs",
            "io.modelcontextprotocol/clientInfo": {"name": "theirs"}}  # fmt: skip
    async with opened(tmp_path, stdio("s", "asks.py", "--modern")) as house:
        chat = Chat(capabilities={"elicitation": {"url": {}}, "x": 1})
        result = await house.supervisor.call_tool("s", "whoami", {}, channel=chat, meta=meta)
        seen = json.loads(text_of(result))["meta"]
        bare = (await house.call("whoami"))["meta"]
    prefix = "io.modelcontextprotocol/"
    assert seen[f"{prefix}clientCapabilities"] == {"elicitation": {"url": {}}, "x": 1}
    assert bare[f"{prefix}clientCapabilities"] == {}
    assert seen[f"{prefix}clientInfo"]["name"] == "mcpproxy"
    assert (seen["traceparent"], seen["x/y"], seen[f"{prefix}logLevel"]) == ("00-1", [1], "debug")
    assert isinstance(seen["progressToken"], int)
    assert "progressToken" not in bare


@pytest.mark.proves("SURF-6")
async def test_a_modern_server_asks_in_rounds_that_pass_through_raw(tmp_path: Path) -> None:
    async with opened(tmp_path, stdio("s", "asks.py", "--modern")) as house:
        asked = await house.supervisor.call_tool("s", "ask", {"method": "roots/list"})
        assert asked["inputRequests"] == {"one": {"method": "roots/list", "params": {}}}
        again = {"name": "ask", "arguments": {"method": "roots/list"}, "inputResponses": {"one": {"roots": []}},
                 "requestState": asked["requestState"]}  # fmt: skip
        result = await house.supervisor.request("s", "tools/call", again)
        assert json.loads(text_of(result)) == {"responses": {"one": {"roots": []}}, "state": "sealed"}
