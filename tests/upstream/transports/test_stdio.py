"""What a child process gets, says and hears."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from mcpproxy_py.errors import Code, UpstreamFailure
from mcpproxy_py.upstream.processes.command import ServerLog, child_environment
from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.transports.stdio import LAST_WORDS, StdioConnection
from tests.upstream.helpers import LONG, command_of, connected, running, stdio, text_of, until

pytestmark = pytest.mark.anyio


@pytest.mark.proves("UP-1")
async def test_a_child_gets_a_short_list_of_variables_and_none_of_our_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MCPPROXY_API_KEY", "DATABASE_URL", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH", "PGPASSWORD"):
        monkeypatch.setenv(name, "s3cret")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    async with running(tmp_path, stdio("s", "plain.py", env={"MINE": "yes"})) as supervisor:
        await connected(supervisor, "s")
        env = json.loads(text_of(await supervisor.call_tool("s", "environment", {})))
    assert "s3cret" not in env.values()
    assert (env["MINE"], env["PATH"], env["LC_TIME"]) == ("yes", os.environ["PATH"], "C")
    assert env["https_proxy"] == "http://127.0.0.1:1"
    assert env["MCP_GATEWAY_RUN"].endswith(":s")


@pytest.mark.proves("UP-1")
def test_what_the_operator_gives_a_server_is_given_but_cannot_replace_its_mark() -> None:
    spec = UpstreamSpec("s", env={"PATH": "/x", "MCP_GATEWAY_RUN": "none", "MCPPROXY_OWN": "asked for"})
    env = child_environment(spec, {"PATH": "/bin", "SECRET": "1"}, {"MCP_GATEWAY_RUN": "abc:s"})
    assert env == {"PATH": "/x", "MCP_GATEWAY_RUN": "abc:s", "MCPPROXY_OWN": "asked for"}


@pytest.mark.proves("UP-1")
@pytest.mark.parametrize(
    ("own", "given"),
    [
        ("http://user:s3cret@proxy:3128", "http://proxy:3128"),
        ("http://user:s3c://r@t@proxy:3128/", "http://proxy:3128/"),
        ("user:s3cret@proxy:3128", "proxy:3128"),
        ("s3cret@proxy", "proxy"),
        ("socks5h://proxy:1080", "socks5h://proxy:1080"),
        ("http://[::1]:3128", "http://[::1]:3128"),
    ],
)
@pytest.mark.parametrize("name", ["HTTPS_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
async def test_a_child_is_told_a_proxy_without_the_password_for_it_unless_it_was_given_it(
    name: str, own: str, given: str
) -> None:
    assert child_environment(UpstreamSpec("s"), {name: own}, {}) == {name: given}
    assert child_environment(UpstreamSpec("s", env={name: own}), {name: "http://x"}, {}) == {name: own}


@pytest.mark.proves("UP-1")
async def test_no_password_of_a_proxy_reaches_a_running_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "http_proxy", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.setenv(name, "http://me:s3cret@127.0.0.1:1")
    async with running(tmp_path, stdio("s", "plain.py")) as supervisor:
        await connected(supervisor, "s")
        env = json.loads(text_of(await supervisor.call_tool("s", "environment", {})))
    assert env["HTTPS_PROXY"] == "http://127.0.0.1:1"
    assert not any("s3cret" in value for value in env.values())


@pytest.mark.proves("UP-1")
async def test_a_relative_command_is_found_from_its_working_directory(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    program = place / "serve"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {stdio('x', 'plain.py').args[0]}\n")
    spec = UpstreamSpec("s", command="./serve", cwd=str(place))
    async with running(tmp_path, spec) as supervisor:
        await until(lambda: "not executable" in (supervisor.describe()[0]["error"] or ""))
        program.chmod(0o755)
        await connected(supervisor, "s")


@pytest.mark.proves("UP-7", "UP-5")
async def test_a_call_that_times_out_or_is_cancelled_is_cancelled_upstream_at_once(tmp_path: Path) -> None:
    cancels = tmp_path / "cancels"
    async with running(tmp_path, stdio("s", "plain.py", "--cancel-log", str(cancels), timeout=1)) as supervisor:
        await connected(supervisor, "s")
        with pytest.raises(UpstreamFailure) as caught:
            await supervisor.call_tool("s", "never", {})
        assert caught.value.code is Code.TIMEOUT
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(supervisor.call_tool, "s", "never", {})
            await anyio.wait_all_tasks_blocked()  # it has left
            tasks.cancel_scope.cancel()
        await until(lambda: cancels.exists() and len(cancels.read_text().splitlines()) == 2)
    reasons = [json.loads(line) for line in cancels.read_text().splitlines()]
    assert reasons[0]["reason"].startswith("no answer to tools/call within ")
    assert reasons[1]["reason"] == "the caller cancelled"
    assert reasons[0]["requestId"] != reasons[1]["requestId"]


@pytest.mark.proves("UP-7")
async def test_a_late_answer_is_dropped(tmp_path: Path) -> None:
    spec = stdio("s", "plain.py", timeout=0.2)
    async with running(tmp_path, spec) as supervisor:
        await connected(supervisor, "s")
        with pytest.raises(UpstreamFailure):
            await supervisor.call_tool("s", "slow", {"seconds": 0.5})
        await until(lambda: supervisor.describe()[0]["ignored"]["unmatched"] == 1)
        await supervisor.apply({"s": replace(spec, timeout=LONG)})
        assert text_of(await supervisor.call_tool("s", "echo", {})) == "{}"


@pytest.mark.proves("UP-7")
async def test_a_call_that_was_given_up_before_it_left_never_leaves(tmp_path: Path) -> None:
    """The server reads nothing, so its pipe is full; what waits behind that was not sent, and says so."""
    spec = stdio("s", "plain.py", "--log", str(tmp_path / "calls"), timeout=0.5)
    async with running(tmp_path, spec) as supervisor:
        await connected(supervisor, "s")
        pid = next(int(p) for p in os.listdir("/proc") if p.isdigit() and str(tmp_path / "calls") in command_of(int(p)))
        os.kill(pid, 19)
        failures: list[UpstreamFailure] = []

        async def call(text: str) -> None:
            try:
                await supervisor.call_tool("s", "echo", {"text": text})
            except UpstreamFailure as failure:
                failures.append(failure)

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(call, "x" * 1_000_000)
                await anyio.sleep(0.01)
            tasks.start_soon(call, "unsent")
        os.kill(pid, 18)
        await supervisor.apply({"s": replace(spec, timeout=LONG)})
        assert text_of(await supervisor.call_tool("s", "echo", {"text": "after"})) == '{"text": "after"}'
    assert failures[-1].sent is False
    assert "unsent" not in (tmp_path / "calls").read_text()


@pytest.mark.proves("UP-7")
async def test_a_flood_of_junk_on_stdout_delays_no_other_server(tmp_path: Path) -> None:
    enough = tmp_path / "enough"
    async with running(tmp_path, stdio("s", "plain.py"), stdio("other", "plain.py")) as supervisor:
        await connected(supervisor, "s", "other")

        async def flood() -> None:
            lines = int(text_of(await supervisor.call_tool("s", "flood", {"until": str(enough)})))
            assert supervisor.describe()[0]["ignored"]["garbage"] == lines

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flood)
            await until(lambda: supervisor.describe()[0]["ignored"]["garbage"] > 1000)
            for _ in range(20):
                await supervisor.call_tool("other", "echo", {})
            enough.touch()


@pytest.mark.proves("UP-5")
async def test_a_server_that_asks_is_answered(tmp_path: Path) -> None:
    async with running(tmp_path, stdio("s", "plain.py")) as supervisor:
        await connected(supervisor, "s")
        pong = json.loads(text_of(await supervisor.call_tool("s", "ask", {"method": "ping"})))
        refusal = json.loads(text_of(await supervisor.call_tool("s", "ask", {"method": "sampling/createMessage"})))
    assert pong[0]["result"] == {}
    assert refusal[0]["error"]["code"] == -32601
    assert "sampling/createMessage" in refusal[0]["error"]["message"]


async def test_what_a_server_said_last_is_read_also_where_the_gateway_stood_still_as_it_ended(tmp_path: Path) -> None:
    connection = StdioConnection(1000, ServerLog(tmp_path / "s.log"))
    connection.end("stdout")
    time.sleep(3 * LAST_WORDS)  # noqa: ASYNC251 (that is the point)
    await anyio.lowlevel.checkpoint()
    connection.read(2, b"this is why\n")
    connection.end("stderr")
    connection.end("process", 3)
    assert connection.why == "the command ended with exit status 3; it last wrote: this is why"


@pytest.mark.proves("UP-3")
async def test_a_server_that_floods_its_stderr_works_and_its_log_stays_small_and_private(tmp_path: Path) -> None:
    async with running(tmp_path / "logs", stdio("s", "floods.py", "--megabytes", "5")) as supervisor:
        await connected(supervisor, "s")
        path = supervisor.log_path("s")
        assert path == tmp_path / "logs" / "s.log"
    rolled = path.with_name("s.log.1")
    assert path.stat().st_size <= 1024 * 1024
    assert rolled.stat().st_size <= 1024 * 1024
    assert {stat.S_IMODE(each.stat().st_mode) for each in (path, rolled)} == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.proves("UP-3")
def test_a_log_that_cannot_be_written_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    log = ServerLog(tmp_path / "file" / "s.log")
    log.write(b"first\n\x1b[31mlast\x00 words\n\n")
    assert log.last_words == "; it last wrote: [31mlast words"


@pytest.mark.proves("UP-3")
def test_a_log_is_never_written_through_a_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    (tmp_path / "s.log").symlink_to(target)
    ServerLog(tmp_path / "s.log").write(b"words\n")
    assert not target.exists()


async def test_junk_before_the_handshake_is_skipped(tmp_path: Path) -> None:
    async with running(tmp_path, stdio("s", "garbage.py")) as supervisor:
        await connected(supervisor, "s")
        assert supervisor.describe()[0]["ignored"]["garbage"] >= 3


PINGS = 1000
PINGS_THEN_ANSWERS = f"""
import json, sys
say = lambda message: sys.stdout.write(json.dumps({{"jsonrpc": "2.0", **message}}) + "\\n")
calls, pongs = [], 0
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        say({{"id": message["id"], "result": {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}},
             "serverInfo": {{"name": "pings", "version": "1"}}}}}})
    elif method == "tools/list":
        say({{"id": message["id"], "result": {{"tools": [{{"name": "t", "inputSchema": {{"type": "object"}}}}]}}}})
    elif method == "tools/call":
        calls.append(message["id"])
        if len(calls) == 2:
            for number in range({PINGS}):
                say({{"id": f"ping-{{number}}", "method": "ping"}})
    elif method is None and str(message["id"]).startswith("ping-"):
        pongs += 1
        if pongs == {PINGS}:
            for each in calls:
                say({{"id": each, "result": {{"content": [{{"type": "text", "text": "all of them"}}]}}}})
    elif "id" in message:
        say({{"id": message["id"], "error": {{"code": -32601, "message": "unknown"}}}})
    sys.stdout.flush()
"""


async def test_a_server_that_reads_gets_every_answer_however_many_it_asks_for_at_once(tmp_path: Path) -> None:
    spec = UpstreamSpec("s", command=sys.executable, args=("-c", PINGS_THEN_ANSWERS), connect_timeout=LONG)
    said: list[str] = []

    async with running(tmp_path, spec) as supervisor:
        await connected(supervisor, "s")

        async def call() -> None:
            said.append(text_of(await supervisor.call_tool("s", "t", {})))

        with anyio.fail_after(LONG):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                tasks.start_soon(call)
    assert said == ["all of them"] * 2
