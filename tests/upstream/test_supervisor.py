"""Many servers side by side: started, lost, changed and removed, and none of it at another's cost."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpproxy_py.core.policy.tool_class import by_class
from mcpproxy_py.core.protocol.client_channel import UpstreamCallContext
from mcpproxy_py.core.values import Policy
from mcpproxy_py.errors import Code, UpstreamFailure
from mcpproxy_py.upstream.calls.scheduler import CallSlots
from mcpproxy_py.upstream.spec import UpstreamSpec
from tests.upstream.helpers import LONG, Upstreams, alive, connected, numbers, running, stdio, text_of, until

pytestmark = pytest.mark.anyio


class Kept:
    """A store of listings, in memory."""

    def __init__(self, **listings: list[dict[str, Any]]) -> None:
        self.listings: dict[str, list[dict[str, Any]]] = dict(listings)

    async def load(self, server: str) -> list[dict[str, Any]] | None:
        return self.listings.get(server)

    async def save(self, server: str, tools: list[dict[str, Any]]) -> None:
        self.listings[server] = tools


class Broken:
    async def load(self, server: str) -> list[dict[str, Any]] | None:
        raise OSError("the disk is gone")

    async def save(self, server: str, tools: list[dict[str, Any]]) -> None:
        raise OSError("the disk is gone")


class Inside:
    """A built-in upstream."""

    async def list_tools(self) -> list[dict[str, Any]]:
        return [{"name": "shout", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}]

    async def call_tool(self, name: str, args: dict[str, Any], context: UpstreamCallContext) -> dict[str, Any]:
        if name == "boom":
            raise ValueError("a secret in here")
        if name == "hang":
            await anyio.sleep_forever()
        return {"content": [{"type": "text", "text": args["text"].upper()}]}


def state(supervisor: Upstreams, name: str) -> str:
    return supervisor.snapshot.servers[name].state


def row(supervisor: Upstreams, name: str) -> dict[str, Any]:
    return next(each for each in supervisor.describe() if each["name"] == name)


async def refused(supervisor: Upstreams, server: str, tool: str = "echo") -> UpstreamFailure:
    with pytest.raises(UpstreamFailure) as caught:
        await supervisor.call_tool(server, tool, {})
    return caught.value


@pytest.mark.proves("UP-2")
async def test_a_slow_or_dead_server_delays_nobody(tmp_path: Path) -> None:
    bad = [stdio(f"hangs-{n}", "hangs.py") for n in range(3)]
    bad += [stdio("dies", "dies.py"), UpstreamSpec("missing", command="no-such-command-here"),
            UpstreamSpec("nowhere", "http", url="http://127.0.0.1:9/mcp")]  # fmt: skip
    async with running(tmp_path, *bad, stdio("good", "plain.py")) as supervisor:
        assert list(supervisor.snapshot.servers) == [*(spec.name for spec in bad), "good"]
        await connected(supervisor, "good")
        assert text_of(await supervisor.call_tool("good", "echo", {})) == "{}"
        assert {state(supervisor, spec.name) for spec in bad} <= {"connecting", "failed"}


@pytest.mark.proves("UP-2")
async def test_a_failure_says_why(tmp_path: Path) -> None:
    specs = [
        stdio("dies", "dies.py"),
        UpstreamSpec("missing", command="no-such-command-here"),
        UpstreamSpec("npx", command="npx", env={"PATH": str(tmp_path)}),
        UpstreamSpec("placeless", command="python3", cwd="/no/such/place"),
        UpstreamSpec("nowhere", "http", url="http://127.0.0.1:9/mcp?key=s3cret"),
        UpstreamSpec("nowhere-sse", "sse", url="http://127.0.0.1:9/sse?key=s3cret"),
        stdio("hangs", "hangs.py", connect_timeout=0.2),
    ]
    expected = {
        "dies": "the command ended with exit status 7; it last wrote: cannot go on: no database",
        "missing": "command not found: no-such-command-here (install it, or give its full path); looked in PATH (",
        "npx": "command not found: npx (install Node.js: https://nodejs.org); looked only in the PATH that its `env`",
        "placeless": "the working directory does not exist: /no/such/place",
        "hangs": "it did not finish connecting within 1.2 s",
    }
    async with running(tmp_path, *specs) as supervisor:
        for name, why in expected.items():
            await until(
                lambda name=name, why=why: (row(supervisor, name)["error"] or "").startswith(why), supervisor.describe
            )
        for name in ("nowhere", "nowhere-sse"):
            await until(lambda name=name: row(supervisor, name)["error"], supervisor.describe)
            error = row(supervisor, name)["error"]
            assert error.startswith("cannot connect: ")
            assert "s3cret" not in error
        assert (await refused(supervisor, "dies")).code is Code.SERVER_UNAVAILABLE


@pytest.mark.proves("UP-2")
async def test_a_server_that_dies_is_connected_again_and_keeps_its_tools_meanwhile(tmp_path: Path) -> None:
    pids, tools = tmp_path / "pids", []
    async with running(tmp_path, stdio("s", "plain.py", "--pid-file", str(pids))) as supervisor:
        for life in range(1, 4):
            await until(lambda life=life: len(numbers(pids)) == life and state(supervisor, "s") == "connected")
            os.kill(numbers(pids)[-1], signal.SIGKILL)
            await until(lambda: state(supervisor, "s") != "connected")
            assert "echo" in supervisor.snapshot.servers["s"].tools
            tools.append(supervisor.snapshot.servers["s"].tools)
        await connected(supervisor, "s")
        assert text_of(await supervisor.call_tool("s", "echo", {})) == "{}"
        assert row(supervisor, "s")["restarts"] == 3
        assert all(each is tools[0] for each in tools)  # the same list is not compiled again, nor told as news


@pytest.mark.proves("UP-2")
async def test_a_call_whose_server_dies_is_told_that_it_may_have_acted(tmp_path: Path) -> None:
    async with running(tmp_path, stdio("s", "plain.py")) as supervisor:
        await connected(supervisor, "s")
        failure = await refused(supervisor, "s", "die")
        assert failure.code is Code.SERVER_UNAVAILABLE
        assert failure.sent
        assert "exit status 3; it last wrote: dying as I was told" in failure.message
        assert "may have acted" in failure.message


@pytest.mark.proves("UP-2")
async def test_ready_waits_for_a_server_that_connects_and_not_for_one_that_failed(tmp_path: Path) -> None:
    slow = stdio("hangs", "hangs.py", connect_timeout=0.4)
    async with running(tmp_path, stdio("s", "plain.py"), stdio("dies", "dies.py"), slow) as supervisor:
        await supervisor.ready("s")
        assert state(supervisor, "s") == "connected"
        await supervisor.ready("dies")
        await supervisor.ready("hangs")
        await supervisor.ready("unknown")
        assert state(supervisor, "hangs") in ("connecting", "failed")


@pytest.mark.proves("UP-2")
async def test_a_lazy_server_sleeps_until_its_first_use_and_is_known_from_its_last_listing(tmp_path: Path) -> None:
    pids, kept = tmp_path / "pids", Kept()
    spec = stdio("s", "plain.py", "--pid-file", str(pids), lazy=True)
    async with running(tmp_path, spec, known=kept) as supervisor:
        # Nobody could find the tools of a server that was never listed, so its first time it starts by itself.
        await connected(supervisor, "s")
        await until(lambda: "s" in kept.listings)
    assert len(numbers(pids)) == 1
    async with running(tmp_path, spec, known=kept) as supervisor:
        await until(lambda: "echo" in supervisor.snapshot.servers["s"].tools)
        assert state(supervisor, "s") == "sleeping"
        assert [hit.tool.name for hit in supervisor.snapshot.index.rank("echo", 1).hits] == ["echo"]
        assert (await refused(supervisor, "s")).message == "s is not connected: it is sleeping"
        assert len(numbers(pids)) == 1
        await supervisor.ready("s")
        assert text_of(await supervisor.call_tool("s", "echo", {})) == "{}"


async def test_a_broken_store_of_listings_stops_no_server(tmp_path: Path) -> None:
    async with running(tmp_path, stdio("s", "plain.py"), known=Broken()) as supervisor:
        await connected(supervisor, "s")


@pytest.mark.proves("UP-7")
async def test_a_full_server_queues_as_many_again_and_refuses_the_rest_at_once(tmp_path: Path) -> None:
    spec = stdio("s", "plain.py", max_concurrency=2, timeout=30)
    failures: list[UpstreamFailure] = []
    async with running(tmp_path, spec, stdio("other", "plain.py")) as supervisor:
        await connected(supervisor, "s", "other")

        async def call() -> None:
            try:
                await supervisor.call_tool("s", "never", {})
            except UpstreamFailure as failure:
                failures.append(failure)

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(call)
            await until(lambda: failures)
            assert row(supervisor, "s")["in_flight"] == 2
            assert [(failure.code, failure.sent) for failure in failures] == [(Code.OVERLOADED, False)]
            assert text_of(await supervisor.call_tool("other", "echo", {})) == "{}"
            tasks.cancel_scope.cancel()
        assert row(supervisor, "s")["in_flight"] == 0
        assert text_of(await supervisor.call_tool("s", "echo", {})) == "{}"


@pytest.mark.proves("UP-7")
async def test_places_in_the_lane_are_neither_lost_nor_doubled_when_callers_give_up() -> None:
    slots = CallSlots(2)
    done: list[int] = []

    async def use(number: int, give_up_after: float) -> None:
        with anyio.move_on_after(give_up_after):
            async with slots.place(5):
                assert slots.in_flight <= 2
                await anyio.sleep(0.001)
                done.append(number)

    for round_ in range(30):
        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(use, number, 0.0005 * ((number + round_) % 5))
        assert slots.in_flight == 0
    async with slots.place(1), slots.place(1):
        assert slots.in_flight == 2


@pytest.mark.proves("SEC-7")
async def test_one_principal_takes_four_fifths_of_the_slots_and_of_the_queue() -> None:
    slots = CallSlots(10)
    assert [slots.acquire("greedy") for _ in range(9)] == [True] * 8 + [False]
    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(slots.wait, 60, "greedy")
        await until(lambda: slots.waiting == 8)
        with pytest.raises(UpstreamFailure, match="'greedy' has 8 calls in flight and 8 waiting, which is its quota"):
            await slots.wait(60, "greedy")
        assert slots.acquire("modest") and slots.acquire("modest")
        for name in ("modest", "another", "third"):  # one of each may always wait
            tasks.start_soon(slots.wait, 60, name)
        await until(lambda: slots.waiting == 11)
        for _ in range(2):
            slots.release("modest")
            slots.release("greedy")
        assert slots.waiting == 7, "of those with the fewest, each that waited has a slot"
        for _ in range(7):
            slots.release("greedy")
        await until(lambda: not slots.waiting)


@pytest.mark.proves("UP-7")
async def test_a_place_that_does_not_become_free_in_time_is_a_refusal() -> None:
    slots = CallSlots(1)
    async with slots.place(1):
        with pytest.raises(UpstreamFailure) as caught:
            async with slots.place(0.05):
                pass
    assert (caught.value.code, caught.value.sent) == (Code.OVERLOADED, False)
    assert slots.in_flight == 0


@pytest.mark.proves("UP-8")
async def test_a_change_of_policy_takes_effect_without_a_new_connection(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    spec = stdio("s", "plain.py", "--pid-file", str(pids))
    async with running(tmp_path, spec) as supervisor:
        await connected(supervisor, "s")
        changed = replace(spec, deny_tools=("echo",), confirm="write", trust_annotations=False, max_concurrency=3,
                          overrides={"hint_n_n": (("read", None),)})  # fmt: skip
        await supervisor.apply({"s": changed})
        server = supervisor.snapshot.servers["s"]
        assert (server.state, server.confirm, server.offers("echo")) == ("connected", "write", False)
        assert [entry.tool_class for (entry,) in server.tools["hint_n_n"].overrides] == ["read"]
        assert server.tools["hint_t_n"].declared == "unknown"
        assert text_of(await supervisor.call_tool("s", "write_note", {})) == "{}"
    assert len(numbers(pids)) == 1


@pytest.mark.proves("UP-8")
async def test_only_what_changed_is_connected_again(tmp_path: Path) -> None:
    pids = {name: tmp_path / name for name in ("kept", "changed", "added")}
    specs = {name: stdio(name, "plain.py", "--pid-file", str(path)) for name, path in pids.items()}
    async with running(tmp_path, specs["kept"], specs["changed"]) as supervisor:
        await connected(supervisor, "kept", "changed")
        assert "extra_1" not in supervisor.snapshot.servers["changed"].tools
        more = replace(specs["changed"], args=(*specs["changed"].args, "--extra", "2"))
        await supervisor.apply({**specs, "changed": more})
        await until(lambda: "extra_1" in supervisor.snapshot.servers["changed"].tools)
        await connected(supervisor, "added", "changed", "kept")
        assert [len(numbers(path)) for path in pids.values()] == [1, 2, 1]
        assert not alive(numbers(pids["changed"])[0])
        await supervisor.apply({"added": specs["added"]})
        assert list(supervisor.snapshot.servers) == ["added"]
        assert {hit.tool.server for hit in supervisor.snapshot.index.rank("echo", 50).hits} == {"added"}
        assert not alive(numbers(pids["kept"])[0])
        assert (await refused(supervisor, "kept")).message == "there is no server 'kept'"


@pytest.mark.proves("UP-8")
async def test_a_server_can_be_disabled_and_enabled_and_keeps_its_tools(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    spec = stdio("s", "plain.py", "--pid-file", str(pids))
    async with running(tmp_path, spec) as supervisor:
        await connected(supervisor, "s")
        await supervisor.apply({"s": replace(spec, enabled=False)})
        assert state(supervisor, "s") == "disabled"
        await until(lambda: not alive(numbers(pids)[0]))
        assert "echo" in supervisor.snapshot.servers["s"].tools
        await supervisor.ready("s")
        assert state(supervisor, "s") == "disabled"
        await supervisor.apply({"s": spec})
        await connected(supervisor, "s")


async def test_a_removed_server_can_come_back_at_once(tmp_path: Path) -> None:
    spec = stdio("s", "plain.py")
    async with running(tmp_path, spec) as supervisor:
        for _ in range(3):
            await connected(supervisor, "s")
            await supervisor.apply({})
            assert dict(supervisor.snapshot.servers) == {}
            await supervisor.apply({"s": spec})
        await connected(supervisor, "s")


async def test_restart_starts_a_new_process(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    async with running(tmp_path, stdio("s", "plain.py", "--pid-file", str(pids))) as supervisor:
        await connected(supervisor, "s")
        await supervisor.restart("s")
        assert state(supervisor, "s") == "connecting"
        await supervisor.ready("s")
        assert state(supervisor, "s") == "connected"
        assert [alive(pid) for pid in numbers(pids)] == [False, True]
        with pytest.raises(UpstreamFailure):
            await supervisor.restart("unknown")


@pytest.mark.proves("UP-4")
@pytest.mark.parametrize("program", ["plain.py", "sdk.py"])
async def test_a_changed_list_of_tools_refreshes_the_snapshot(program: str, tmp_path: Path) -> None:
    """In the handshake era it is a notification, in the modern one (the SDK's server) a subscription."""
    told: list[str] = []
    tell = lambda server, method, params: told.append(method)  # noqa: E731
    async with running(tmp_path, stdio("s", program), on_notification=tell) as supervisor:
        await connected(supervisor, "s")
        before = supervisor.snapshot
        await supervisor.call_tool("s", "add_tool" if program == "plain.py" else "grow", {"name": "newcomer"})
        await until(lambda: "newcomer" in supervisor.snapshot.servers["s"].tools)
        assert "newcomer" not in before.servers["s"].tools
        assert "newcomer" in {hit.tool.name for hit in supervisor.snapshot.index.rank("newcomer", 5).hits}
        assert "notifications/tools/list_changed" in told


async def test_the_policy_stays_when_servers_change(tmp_path: Path) -> None:
    changes: list[int] = []
    async with running(tmp_path, stdio("s", "plain.py"), on_change=lambda: changes.append(1)) as supervisor:
        supervisor.set_policy(Policy(strict=False, frozen=True))
        await connected(supervisor, "s")
        assert supervisor.snapshot.policy == Policy(strict=False, frozen=True)
        assert len(changes) >= 3


@pytest.mark.proves("UP-6")
async def test_pages_are_followed_to_the_end(tmp_path: Path) -> None:
    async with running(tmp_path, stdio("s", "plain.py", "--page", "7", "--extra", "40")) as supervisor:
        await connected(supervisor, "s")
        assert {f"extra_{n}" for n in range(40)} <= supervisor.snapshot.servers["s"].tools.keys()


async def test_a_built_in_server_is_like_any_other(tmp_path: Path) -> None:
    spec = UpstreamSpec("catalog", "local", timeout=0.3)
    async with running(tmp_path, spec, local={"catalog": Inside(), "unnamed": Inside()}) as supervisor:
        await connected(supervisor, "catalog", "unnamed")
        assert supervisor.snapshot.servers["catalog"].tools["shout"].declared == "read"
        assert text_of(await supervisor.call_tool("catalog", "shout", {"text": "hey"})) == "HEY"
        failure = await refused(supervisor, "catalog", "boom")
        assert (failure.code, "secret" in failure.message) == (Code.UPSTREAM_ERROR, False)
        assert (await refused(supervisor, "catalog", "hang")).code is Code.TIMEOUT
        with pytest.raises(UpstreamFailure):
            await supervisor.request("catalog", "resources/list", {})


async def test_describe_tells_what_people_want_to_know(tmp_path: Path) -> None:
    async with running(tmp_path, stdio("s", "plain.py"), clock=lambda: 1000.5) as supervisor:
        await connected(supervisor, "s")
        tools = supervisor.snapshot.servers["s"].tools
        assert row(supervisor, "s") == {
            "name": "s", "transport": "stdio", "state": "connected", "enabled": True, "lazy": False, "error": None,
            "tool_count": len(supervisor.snapshot.servers["s"].tools), "protocol_version": "2025-11-25",
            "tools_by_class": by_class(supervisor.snapshot.servers["s"].tools.values()),
            "server_info": {"name": "plain", "version": "1"}, "since": 1000.5, "in_flight": 0,
            "sessions": "auto", "session_mode": "shared", "session_mode_reason": "automatic: shares one session",
            "extra_sessions": 0, "restarts": 0, "left_out": {}, "unmatched_entries": [],
            "unannotated_tools": [name for name, tool in tools.items() if tool.declared == "unknown"],
            "pins": {},
            "unannotated_as": "allow",
            "ignored": {"garbage": 0, "unmatched": 0, "oversize": 0, "unattributed": 0},
        }  # fmt: skip
        handshake = supervisor.handshake("s")
        assert handshake is not None
        assert handshake.instructions == "Be plain."
        assert handshake.capabilities == {"tools": {"listChanged": True}, "experimental": {"x": {}}}


async def test_other_requests_pass_with_the_same_limits(tmp_path: Path) -> None:
    async with running(tmp_path, stdio("s", "plain.py")) as supervisor:
        await connected(supervisor, "s")
        assert await supervisor.request("s", "ping", {}) == {}
        with pytest.raises(UpstreamFailure) as caught:
            await supervisor.request("s", "resources/list", {})
        assert caught.value.data["code"] == -32601


async def test_every_server_is_in_the_snapshot_before_anything_was_waited_for(tmp_path: Path) -> None:
    specs: Mapping[str, UpstreamSpec] = {f"s{n}": stdio(f"s{n}", "hangs.py", connect_timeout=3600) for n in range(5)}
    with anyio.fail_after(LONG):  # each would be waited for an hour
        async with running(tmp_path, *specs.values()) as supervisor:
            assert {server.state for server in supervisor.snapshot.servers.values()} == {"connecting"}
