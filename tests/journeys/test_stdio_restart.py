"""`mcpproxy stdio` goes on when its gateway ends and another one runs (USE-7)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.journeys.test_stdio import Pipes
from tests.support.gateway import Running, clean_environment, gateway, python_server, start, until
from tests.support.wire import HANDSHAKE, MODERN
from tests.upstream.helpers import alive

pytestmark = pytest.mark.proves("USE-7")

WAIT = 120
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "ide", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Ide:
    """Raw lines in one era, sorted as they come: answers by id, and what nobody asked for in order."""

    def __init__(self, data: Path, era: str, *args: str, capabilities: dict[str, Any] | None = None) -> None:
        self.era = era
        self.pipes = Pipes(data, *args)
        self.answers: dict[Any, dict[str, Any]] = {}
        self.heard: list[dict[str, Any]] = []
        self.changed = threading.Condition()
        self.next_id = 0
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if era == HANDSHAKE:
            client = {
                "protocolVersion": era,
                "capabilities": capabilities or {},
                "clientInfo": {"name": "i", "version": "1"},
            }
            assert self.result("initialize", client)["protocolVersion"] == era
            self.notify("notifications/initialized")

    def _read(self) -> None:
        assert self.pipes.process.stdout
        for line in self.pipes.process.stdout:
            message = json.loads(line)
            with self.changed:
                if message.get("method") == "roots/list":
                    self.pipes.send({"jsonrpc": "2.0", "id": message["id"], "result": {"roots": []}})
                elif "method" in message:
                    self.heard.append(message)
                else:
                    assert message["id"] not in self.answers, "nothing is answered twice"
                    self.answers[message["id"]] = message
                self.changed.notify_all()

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        self.pipes.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def ask(self, method: str, params: dict[str, Any] | None = None) -> int:
        self.next_id += 1
        meta = {"_meta": META} if self.era == MODERN else {}
        self.pipes.send({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": {**(params or {}), **meta}})
        return self.next_id

    def call(self, tool: str, args: dict[str, Any] | None = None, variant: str = "read") -> int:
        intent = {"operation_type": variant}
        arguments = {"name": f"s:{tool}", "args": args or {}, "intent": intent}
        return self.ask("tools/call", {"name": f"call_tool_{variant}", "arguments": arguments})

    def answer(self, request_id: int) -> dict[str, Any]:
        with self.changed:
            assert self.changed.wait_for(lambda: request_id in self.answers, WAIT), request_id
            return self.answers[request_id]

    def result(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return self.answer(self.ask(method, params))["result"]

    def hears(self, method: str, count: int = 1) -> list[dict[str, Any]]:
        def found() -> list[dict[str, Any]]:
            return [each for each in self.heard if each["method"] == method]

        with self.changed:
            assert self.changed.wait_for(lambda: len(found()) >= count, WAIT), (method, self.heard)
            return found()

    def close(self) -> None:
        assert self.pipes.process.stdin
        self.pipes.process.stdin.close()
        assert self.pipes.process.wait(WAIT) == 0
        self.reader.join(WAIT)
        for pipe in (self.pipes.process.stdout, self.pipes.process.stderr):
            assert pipe
            pipe.close()


CONFIG = {"mcpServers": {"s": python_server("plain.py")}}
ASKS = {"mcpServers": {"s": python_server("asks.py")}, "surfaces": ["gate", "passthrough"]}


@contextlib.contextmanager
def ide(data: Path, era: str, *args: str, **options: Any) -> Iterator[Ide]:
    opened = Ide(data, era, *args, **options)
    try:
        yield opened
    finally:
        if opened.pipes.process.poll() is None and sys.exc_info()[0] is not None:
            opened.pipes.process.kill()
        else:
            opened.close()


def restarted(before: Running, how: int, config: dict[str, Any] | None = None) -> Running:
    before.process.send_signal(how)
    before.process.wait(WAIT)
    before.client.close()
    return start(before.data_dir, CONFIG if config is None else config)


def ended(running: Running) -> None:
    if running.process.poll() is None:
        running.stop()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
def test_only_calls_in_flight_fail_when_the_gateway_ends_and_another_one_starts(
    tmp_path: Path, era: str, how: int
) -> None:
    log = tmp_path / "calls"
    config = {"mcpServers": {"s": python_server("plain.py", "--log", str(log))}, "shutdown_timeout": 0.2}
    running = start(tmp_path / "data", config)
    try:
        with ide(tmp_path / "data", era) as client:
            for turn in range(1, 3):
                assert "result" in client.answer(client.call("echo", {"text": f"before {turn}"}))
                reading = client.call("never")
                until(lambda at=turn: log.read_text().count('"never"') == at, what="the call at its server")
                running = restarted(running, how, config)
                lost = client.answer(reading)
                if "error" in lost:  # after SIGTERM a gateway may still say so itself
                    assert lost["error"]["code"] == -32000
                    assert lost["error"]["data"] == {"code": "INTERRUPTED", "may_have_acted": False}
                    assert "it may be sent again" in lost["error"]["message"]
                else:
                    assert how == signal.SIGTERM
                    assert lost["result"]["isError"]
                after = client.answer(client.call("echo", {"text": f"after {turn}"}))
                assert f"after {turn}" in json.dumps(after["result"])
                if era == HANDSHAKE:
                    client.hears("notifications/tools/list_changed", turn)
        sent = [json.loads(line)["name"] for line in log.read_text().splitlines()]
        assert (sent.count("never"), sent.count("echo")) == (2, 4), "nothing was sent twice"
    finally:
        ended(running)


def test_a_write_in_flight_may_have_acted_and_is_not_sent_again(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    config = {"mcpServers": {"s": python_server("plain.py", "--log", str(log), tools={"never": "write"})}}
    running = start(tmp_path / "data", config)
    try:
        with ide(tmp_path / "data", MODERN) as client:
            writing = client.call("never", variant="write")
            until(lambda: log.exists() and log.read_text().count('"never"') == 1, what="the call at its server")
            running = restarted(running, signal.SIGKILL, config)
            lost = client.answer(writing)["error"]
            assert lost["data"] == {"code": "INTERRUPTED", "may_have_acted": True}
            assert "may have acted" in lost["message"]
            assert "result" in client.answer(client.call("echo"))
        assert log.read_text().count('"never"') == 1
        assert running.activities(tool="never")[0]["status"] == "interrupted"
    finally:
        ended(running)


def test_with_none_running_the_first_request_has_one_started_after_a_while_and_waits_for_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "mcp_config.json").write_text(json.dumps({**CONFIG, "listen": "127.0.0.1:0"}))
    pids: list[int] = []
    cancelled = 0
    try:
        with ide(data, HANDSHAKE) as client, ide(data, MODERN) as other:
            for _ in range(2):
                assert "result" in client.answer(client.call("echo"))
                pids.append(json.loads((data / "gateway.json").read_text())["pid"])
                os.kill(pids[-1], signal.SIGKILL)
                until(lambda: not _listens(data), what="its end")
                waiting = [each.call("echo") for each in (client, other)]
                cancelled = client.call("echo")
                client.notify("notifications/cancelled", {"requestId": cancelled})
                for each, request_id in zip((client, other), waiting, strict=True):
                    assert "result" in each.answer(request_id)
            assert "result" in client.answer(client.call("echo"))
            assert cancelled not in client.answers or "error" in client.answers[cancelled]
            pids.append(json.loads((data / "gateway.json").read_text())["pid"])
        assert len(set(pids)) == 3, "each time one for both"
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        until(lambda: not any(alive(pid) for pid in pids), what="the end of all")


def test_a_gateway_that_ends_while_a_client_attaches_for_the_first_time_is_followed_by_the_next(
    tmp_path: Path,
) -> None:
    """It takes the connection, and is gone before it has said anything."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "mcp_config.json").write_text(json.dumps({**CONFIG, "listen": "127.0.0.1:0"}))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dying:
        dying.bind(path := str(tmp_path / "s"))
        dying.listen()
        (data / "gateway.json").write_text(json.dumps({"socket": path}))

        def ends() -> None:
            taken, _ = dying.accept()
            dying.shutdown(socket.SHUT_RDWR)
            dying.close()
            taken.close()

        end = threading.Thread(target=ends, daemon=True)
        end.start()
        pid = 0
        try:
            with ide(data, MODERN) as client:
                assert "result" in client.answer(client.call("echo"))
                pid = json.loads((data / "gateway.json").read_text())["pid"]
            end.join(WAIT)
            assert not end.is_alive(), "it was asked first"
        finally:
            if pid:
                os.kill(pid, signal.SIGTERM)
                until(lambda: not alive(pid), what="its end")


def test_a_client_of_the_handshake_era_keeps_its_log_level_and_what_it_subscribed_to(tmp_path: Path) -> None:
    running = start(tmp_path / "data", ASKS)
    try:
        with ide(tmp_path / "data", HANDSHAKE, "--server", "s") as client:
            client.result("logging/setLevel", {"level": "error"})
            client.result("resources/subscribe", {"uri": "note://1"})
            client.result("resources/subscribe", {"uri": "note://2"})
            client.result("resources/unsubscribe", {"uri": "note://2"})
            running = restarted(running, signal.SIGKILL, ASKS)
            client.hears("notifications/tools/list_changed")
            assert [each["params"]["uri"] for each in client.hears("notifications/resources/updated")] == ["note://1"]
            until(lambda: _subscribed(client) == ["note://1"], what="the subscription")
            client.result("tools/call", {"name": "touch", "arguments": {"uri": "note://1"}})
            client.hears("notifications/resources/updated", 2)
            client.result("tools/call", {"name": "log", "arguments": {"text": "x"}})
            assert not [each for each in client.heard if each["method"] == "notifications/message"], "info is too quiet"
            assert set(client.answers) == set(range(1, client.next_id + 1)), "what was replayed is not its business"
    finally:
        ended(running)


def _listens(data: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as end:
        return end.connect_ex(json.loads((data / "gateway.json").read_text())["socket"]) == 0


def _subscribed(client: Ide) -> Any:
    told = client.result("tools/call", {"name": "touch", "arguments": {"uri": "note://none"}})
    return json.loads(told["content"][0]["text"])


def test_a_modern_client_goes_on_listening(tmp_path: Path) -> None:
    config = {**CONFIG, "surfaces": ["gate", "direct"]}
    running = start(tmp_path / "data", config)
    try:
        with ide(tmp_path / "data", MODERN, "--surface", "direct") as client:
            kept = client.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            ended_before = client.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            client.hears("notifications/subscriptions/acknowledged", 2)
            client.notify("notifications/cancelled", {"requestId": ended_before})
            client.result("tools/list")
            running = restarted(running, signal.SIGKILL, config)
            client.hears("notifications/tools/list_changed")
            assert running.post("/servers/s/disable").status_code == 200
            news = client.hears("notifications/tools/list_changed", 2)
            ids = {each["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] for each in news}
            assert ids == {kept}, "the one that was cancelled is not opened again"
            assert len(client.hears("notifications/subscriptions/acknowledged")) == 2
            assert kept not in client.answers
    finally:
        ended(running)


def test_an_answer_to_the_old_gateway_never_answers_the_new_one(tmp_path: Path) -> None:
    """The person said yes to a question of before; what is asked now has to be answered anew."""
    running = start(tmp_path / "data", ASKS)
    try:
        with ide(tmp_path / "data", HANDSHAKE, capabilities={"elicitation": {}}) as client:
            question = {
                "method": "elicitation/create",
                "params": {"message": "sure?", "requestedSchema": {"type": "object"}},
            }
            asking = client.call("ask", question)
            [old] = client.hears("elicitation/create")
            running = restarted(running, signal.SIGKILL, ASKS)
            assert client.answer(asking)["error"]["data"]["code"] == "INTERRUPTED"
            withdrawn = client.hears("notifications/cancelled")
            assert [each["params"]["requestId"] for each in withdrawn] == [old["id"]]
            again = client.call("ask", question)
            new = client.hears("elicitation/create", 2)[1]
            assert new["id"] != old["id"]
            yes, no = {"action": "accept", "content": {}}, {"action": "decline"}
            client.pipes.send({"jsonrpc": "2.0", "id": old["id"], "result": yes})
            client.pipes.send({"jsonrpc": "2.0", "id": new["id"], "result": no})
            assert "decline" in json.dumps(client.answer(again)["result"])
    finally:
        ended(running)


@pytest.mark.anyio
async def test_the_sdks_client_goes_on_under_calls_through_several_restarts(tmp_path: Path) -> None:
    data = tmp_path / "data"
    running = start(data, CONFIG)
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "mcpproxy_py", "stdio", "--data-dir", str(data)], env=clean_environment()
    )
    done, failed = 0, 0
    told = anyio.Event()
    stopping = anyio.Event()
    arguments = {"name": "s:echo", "args": {"text": "x"}, "intent": {"operation_type": "read"}}

    async def call(session: ClientSession) -> None:
        nonlocal done, failed
        while not stopping.is_set():
            try:
                result = await session.call_tool("call_tool_read", arguments)
            except Exception:
                failed += 1
                continue
            done, failed = (done, failed + 1) if result.is_error else (done + 1, failed)
            told.set()

    async def some_more() -> None:
        nonlocal told
        enough = done + 20
        while done < enough:
            told = anyio.Event()
            await told.wait()

    try:
        async with stdio_client(command) as streams, ClientSession(*streams) as session:
            with anyio.fail_after(WAIT):
                await session.initialize()
                async with anyio.create_task_group() as tasks:
                    for _ in range(4):
                        tasks.start_soon(call, session)
                    for how in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
                        await some_more()
                        running = await anyio.to_thread.run_sync(restarted, running, how)
                    await some_more()
                    stopping.set()
                assert len((await session.list_tools()).tools) == 6
        assert failed <= 3 * 4, "at most what was in flight"
    finally:
        ended(running)


def test_another_surface_than_before_ends_it_with_a_reason(tmp_path: Path) -> None:
    running = start(tmp_path / "data", ASKS)
    try:
        client = Ide(tmp_path / "data", MODERN, "--server", "s")
        assert client.result("tools/list")["tools"]
        running = restarted(running, signal.SIGKILL, {"mcpServers": {}, "surfaces": ["gate", "passthrough"]})
        waiting = client.ask("tools/list")
        assert "error" in client.answer(waiting)
        assert client.pipes.process.wait(WAIT) == 1
        client.reader.join(WAIT)
        assert client.pipes.process.stderr
        assert "'s'" in client.pipes.process.stderr.read().decode()
        client.pipes.close()
    finally:
        ended(running)


def test_an_ide_that_leaves_while_no_gateway_runs_ends_well(tmp_path: Path) -> None:
    with gateway(tmp_path / "data", CONFIG) as running, ide(tmp_path / "data", MODERN) as client:
        assert client.result("tools/list")["tools"]
        running.kill()
