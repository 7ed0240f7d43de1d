"""No server silences the gateway: what is too much work is refused before it is read, with a sentence and on record."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.attacks.target import ALL_SURFACES, DOORS, ERAS
from tests.support.gateway import READY_TIMEOUT, SERVERS, Running, gateway, python_server, until
from tests.support.listening import listening
from tests.support.wire import MODERN, Wire, text

pytestmark = pytest.mark.proves("SEC-6", "SEC-5")
VALUES = 20_000
BYTES = 16_777_216
LONG_FLOOD = {"OVERWHELM_SECONDS": "120"}
TOO_MANY = f"it answered with more than {VALUES} keys and values in one message"
TOO_LONG = f"it answered with more than {BYTES} bytes"
TOO_DEEP = "it answered with JSON that is nested too deeply"
COMPRESSED = "it compressed its answer with 'gzip', which was not asked for"


@contextmanager
def overwhelm_over_http(*flags: str) -> Iterator[str]:
    """Its origin."""
    command = [sys.executable, str(SERVERS / "overwhelm.py"), "--http", "0", *flags]
    with listening(command) as origin:
        yield origin


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with ExitStack() as stack:
        web = stack.enter_context(overwhelm_over_http())
        servers = {
            "quiet": python_server("plain.py"),
            "pipe": python_server("overwhelm.py"),
            "floods": python_server("overwhelm.py", env=LONG_FLOOD, timeout=120),
            "web": {"url": f"{web}/mcp"},
        }
        config = {
            "surfaces": ALL_SURFACES,
            "mcpServers": servers,
            "limits": {"max_result_values": VALUES, "result_tokens": 0},
        }
        yield stack.enter_context(gateway(tmp_path_factory.mktemp("silence") / "data", config))


def ask(running: Running, door: str, server: str, mode: str, era: str = MODERN) -> dict[str, Any]:
    if door == "gate":
        return Wire(running.mcp, era).read(f"{server}:do", {"mode": mode})
    path, name = ("/direct", f"{server}__do") if door == "direct" else (f"/s/{server}", "do")
    return Wire(f"{running.mcp}{path}", era).call(name, {"mode": mode})


def row_of(running: Running, server: str) -> dict[str, Any]:
    return next(row for row in running.get("/servers")["servers"] if row["name"] == server)


def recorded(running: Running, server: str, mode: str) -> dict[str, Any]:
    rows = running.activities(server=server)
    return next(row for row in rows if row["arguments"] == {"mode": mode})


def refused(result: dict[str, Any], why: str) -> bool:
    return result.get("isError") is True and why in text(result)


@pytest.mark.parametrize("server", ["pipe", "web"])
@pytest.mark.parametrize(
    ("mode", "why"),
    [("lists-most", TOO_MANY), ("keys-most", TOO_MANY), ("objects-most", TOO_MANY), ("lists-15MB", TOO_MANY),
     ("many-numbers-of-4000-digits", TOO_MANY), ("text-40MB", TOO_LONG), ("deep", TOO_MANY)],
)  # fmt: skip
def test_an_answer_that_is_too_much_work_is_refused_unread(running: Running, server: str, mode: str, why: str) -> None:
    assert refused(ask(running, "gate", server, mode), why)
    row = recorded(running, server, mode)
    assert (row["status"], why in row["error"]["message"]) == ("error", True)
    assert text(Wire(running.mcp).read("quiet:echo", {"n": 1}))


@ERAS
@DOORS
def test_on_every_surface_and_in_both_eras(running: Running, era: str, door: str) -> None:
    assert refused(ask(running, door, "pipe", "lists-most", era), TOO_MANY)


@pytest.mark.parametrize("server", ["pipe", "web"])
@pytest.mark.parametrize("mode", ["text-15MB", "escapes-15MB", "text-not-ascii-15MB", "json-in-text-12MB"])
def test_what_is_long_and_no_more_than_that_passes_whole(running: Running, server: str, mode: str) -> None:
    """What looks like values inside a text is none."""
    result = ask(running, "gate", server, mode)
    assert not result.get("isError") and len(text(result)) > 5_000_000
    assert recorded(running, server, mode)["response_size"] > 5_000_000


@pytest.mark.parametrize("mode", ["gzip-json", "gzip-events"])
def test_a_compressed_answer_is_refused_unread(running: Running, mode: str) -> None:
    assert refused(ask(running, "gate", "web", mode), COMPRESSED)


@pytest.mark.parametrize("kind", ["empty", "gzip"])
def test_a_stream_of_the_older_transport_that_says_nothing_is_no_server(tmp_path: Path, kind: str) -> None:
    with overwhelm_over_http("--legacy", kind) as web:
        config = {"mcpServers": {"old": {"url": f"{web}/sse", "type": "sse", "connect_timeout": 2}}}
        with gateway(tmp_path / "data", config, wait=False) as running:
            until(lambda: row_of(running, "old")["error"], what="the reason")
            assert row_of(running, "old")["state"] != "connected"


def test_a_batch_of_a_hundred_thousand_is_dropped_whole_and_counted(running: Running) -> None:
    def ignored() -> int:
        return row_of(running, "pipe")["ignored"]["garbage"]

    before = ignored()
    assert not ask(running, "gate", "pipe", "batch-100000").get("isError")
    assert ignored() == before + 1


def test_what_came_before_a_server_ended_is_read_though_it_takes_turns(running: Running) -> None:
    result = ask(running, "gate", "pipe", "exits")
    assert not result.get("isError") and len(text(result)) > 15_000_000
    running.wait_for("pipe")


def test_the_text_of_an_error_is_cut_and_says_so(running: Running) -> None:
    result = ask(running, "gate", "pipe", "error-10MB")
    assert refused(result, f"… (cut, of {10 << 20} characters)")
    assert len(text(result)) < 10_000


@ERAS
@pytest.mark.parametrize(
    "mode",
    ["empty", "garbage", "progress", "log-messages", "list-changed", "pings", "elicitations", "answers-to-nobody",
     "batches-of-nothing-60KB", "large-answers", "stderr"],
)  # fmt: skip
def test_others_are_answered_while_a_flood_goes_on(running: Running, era: str, mode: str) -> None:
    """Twenty calls one after the other, all of them before the one that is flooded has its answer."""
    with ThreadPoolExecutor(1) as pool:
        flooded = pool.submit(ask, running, "gate", "floods", mode)
        until(lambda: in_flight(running, "floods"), what="the flood")
        wire = Wire(running.mcp, era)
        for number in range(20):
            assert text(wire.read("quiet:echo", {"n": number}))
        assert not flooded.done()
        running.post("/servers/floods/restart")
        flooded.result(READY_TIMEOUT)
        running.wait_for("floods")


def in_flight(running: Running, server: str) -> bool:
    lines = running.client.get("/metrics").text.splitlines()
    return f'mcpproxy_upstream_calls_in_flight{{server="{server}"}} 1.0' in lines


@pytest.mark.parametrize(
    ("mode", "why"),
    [("large-pages", "it is longer than 16777216 bytes"), ("endless", "its pages do not end after 1000")],
)
def test_a_list_without_end_is_cut_and_the_operator_is_told(tmp_path: Path, mode: str, why: str) -> None:
    config = {"mcpServers": {"quiet": python_server("plain.py")}}
    with gateway(tmp_path / "data", config) as running:
        before = psutil.Process(running.process.pid).memory_info().rss
        guest = python_server("overwhelm.py", "--list", mode)
        assert running.post("/servers", {"name": "guest", "config": guest}).status_code in (200, 201)
        running.wait_for("guest")
        rows = {row["name"]: row for row in running.get("/servers")["servers"]}
        assert list(rows["guest"]["left_out"].values()) == [why]
        assert rows["guest"]["tool_count"] >= 1
        assert "guest: its answer to tools/list is too long" in running.stderr()
        assert psutil.Process(running.process.pid).memory_info().rss - before < 300 << 20


def test_a_tool_of_two_megabytes_is_left_out(tmp_path: Path) -> None:
    config = {"mcpServers": {"guest": python_server("overwhelm.py", "--list", "large-tools")}}
    with gateway(tmp_path / "data", config) as running:
        row = row_of(running, "guest")
        assert set(row["left_out"].values()) == {"its definition is larger than 262144 bytes"}
        assert row["tool_count"] == 0


def test_a_list_with_too_many_values_is_a_server_that_says_why_it_is_not_connected(tmp_path: Path) -> None:
    config = {
        "mcpServers": {"guest": python_server("overwhelm.py", "--list", "many")}, "limits": {"max_result_values": 1000},
    }  # fmt: skip
    with gateway(tmp_path / "data", config, wait=False) as running:
        why = until(lambda: row_of(running, "guest")["error"], what="the reason")
        assert why == "it answered with more than 1000 keys and values in one message"
