"""`mcpproxy stdio` in a profile: one that a person names, and those of the project where its client works (SURF-12)."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.test_live_surfaces import Live
from tests.journeys.test_stdio import Pipes
from tests.support.gateway import READY_TIMEOUT, gateway, python_server, start, until
from tests.support.wire import HANDSHAKE, MODERN

pytestmark = pytest.mark.proves("SURF-12", "SURF-5")
ERAS = (MODERN, HANDSHAKE)
PROFILES: dict[str, Any] = {
    "frontend": {"servers": ["a"]},
    "backend": {"servers": ["b"]},
    "both": {"servers": ["a", "b"]},
    "reading": {"servers": ["a", "b"], "operations": ["read"]},
}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    config: dict[str, Any] = {
        "surfaces": ["gate", "direct", "passthrough"],
        "profiles": PROFILES,
        "mcpServers": {name: python_server("plain.py") for name in "ab"},
    }
    with gateway(tmp_path_factory.mktemp("project") / "data", config) as running:
        running.wait_for("catalog")
        yield Live(running, config)


class Ide(Pipes):
    """Tells its roots, and keeps what it hears beside its answers."""

    def __init__(self, *args: Any, roots: Any = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.roots = roots
        self.heard: list[dict[str, Any]] = []
        self.questions: list[Any] = []

    def begin(self) -> None:
        capabilities = {} if self.roots is None else {"roots": {"listChanged": True}}
        client = {
            "protocolVersion": HANDSHAKE,
            "capabilities": capabilities,
            "clientInfo": {"name": "i", "version": "1"},
        }
        self.request("initialize", client, HANDSHAKE)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def tell_roots(self, *roots: Any) -> None:
        """Answer the question for them, which comes after the handshake."""
        self.answer({"roots": [{"uri": each} for each in roots]})

    def answer(self, result: Any, key: str = "result") -> None:
        while not self.questions:
            self.receive()
        self.send({"jsonrpc": "2.0", "id": self.questions.pop(0), key: result})

    def receive(self) -> dict[str, Any]:
        found = super().receive()
        if "id" not in found:
            self.heard.append(found)
        elif found.get("method") == "roots/list":
            self.questions.append(found["id"])
        return found

    def error(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        self.next_id += 1
        self.send({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": dict(params or {})})
        while (found := self.receive()).get("id") != self.next_id:
            pass
        return found["error"]

    def reads(self, server: str, era: str) -> bool:
        call = {"name": f"{server}:echo", "args": {"text": "x"}, "intent": {"operation_type": "read"}}
        result = self.request("tools/call", {"name": "call_tool_read", "arguments": call}, era)
        if not result.get("isError"):
            return True
        assert result["_meta"]["mcpproxy/refusal"]["code"] == "TOOL_NOT_FOUND"
        return False

    def reach(self, era: str = HANDSHAKE) -> str:
        return "".join(name for name in "ab" if self.reads(name, era))

    def complaint(self) -> str:
        """What it wrote to its stderr until it ended."""
        assert self.process.stdin
        assert self.process.stderr
        self.process.stdin.close()
        self.process.wait(60)
        return self.process.stderr.read().decode()


@contextmanager
def ide(live: Live, *args: str, **more: Any) -> Iterator[Ide]:
    made = Ide(live.running.data_dir, *args, **more)
    enough = threading.Timer(READY_TIMEOUT, made.process.kill)
    enough.start()
    try:
        yield made
    finally:
        enough.cancel()
        made.process.kill()
        made.close() if not made.process.stdin or not made.process.stdin.closed else made.process.wait(60)


def project(path: Path, name: str | None = None) -> Path:
    (path / ".git").mkdir(parents=True, exist_ok=True)
    if name is not None:
        (path / ".mcpproxy.json").write_text(json.dumps({"profile": name}))
    return path


@pytest.mark.parametrize("era", ERAS)
def test_a_profile_that_a_person_names(live: Live, era: str) -> None:
    with ide(live, "--profile", "frontend") as client:
        if era == HANDSHAKE:
            client.begin()
        assert client.reach(era) == "a"
    with ide(live, "--profile", "frontend", "--surface", "direct") as client:
        names = {tool["name"].partition("__")[0] for tool in client.request("tools/list")["tools"]}
        assert names <= {"a", "request_capability"}
    with ide(live, "--profile", "backend", "--server", "b") as client:
        assert "echo" in {tool["name"] for tool in client.request("tools/list")["tools"]}
    with ide(live, "--profile", "frontend", "--server", "b") as client:
        client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})
        assert "error" in client.receive()


@pytest.mark.parametrize("era", ERAS)
def test_the_file_in_the_project_where_it_is_started_counts_and_a_person_narrows_besides(
    live: Live, era: str, tmp_path: Path
) -> None:
    inside = project(tmp_path / "shop", "frontend") / "src" / "deep"
    inside.mkdir(parents=True)
    with ide(live, cwd=inside) as client:
        if era == HANDSHAKE:
            client.begin()
        assert client.reach(era) == "a"
    for name, reach in (("both", "a"), ("backend", "")):
        with ide(live, "--profile", name, cwd=inside) as client:
            if era == HANDSHAKE:
                client.begin()
            assert client.reach(era) == reach


def test_one_that_there_is_not_is_an_error_with_the_next_step_and_nothing_is_reached(
    live: Live, tmp_path: Path
) -> None:
    place = project(tmp_path / "shop", "nobody")
    for args, cwd in ((("--profile", "nobody"), tmp_path), ((), place)):
        with ide(live, *args, cwd=cwd) as client:
            said = client.error("initialize", {"protocolVersion": HANDSHAKE, "capabilities": {}})
            assert "there is no profile 'nobody' (" in said["message"]
            assert "mcpproxy profiles list" in said["message"]
            assert "no profile 'nobody'" in client.complaint()
            assert client.process.returncode == 1


@pytest.mark.parametrize("wrong", ["link", "huge", "json", "key", "fifo"])
def test_a_file_that_cannot_be_believed_leaves_nothing(live: Live, tmp_path: Path, wrong: str) -> None:
    place = project(tmp_path / "shop")
    file = place / ".mcpproxy.json"
    (tmp_path / "outside.json").write_text('{"profile": "both"}')
    match wrong:
        case "link":
            file.symlink_to(tmp_path / "outside.json")
        case "fifo":
            os.mkfifo(file)
        case "huge":
            file.write_text('{"profile": "both"}' + " " * 5000)
        case "json":
            file.write_text('{"profile": both}')
        case _:
            file.write_text('{"profile": "both", "servers": ["a"]}')
    with ide(live, cwd=place) as client:
        message = client.error("tools/list")["message"]
        assert str(file) in message
        assert "or remove it" in message
        assert str(file) in client.complaint()


# The client's roots.


def test_roots_narrow_from_when_they_are_told_and_the_client_hears_of_it(live: Live, tmp_path: Path) -> None:
    place = project(tmp_path / "shop", "frontend")
    with ide(live, cwd=project(tmp_path / "elsewhere", "both"), roots=True) as client:
        client.begin()
        client.tell_roots(place.as_uri())
        assert client.reach() == "a"
        until(lambda: client.request("ping", era=HANDSHAKE) == {} and client.heard)
        assert "notifications/tools/list_changed" in {each["method"] for each in client.heard}


def test_until_they_are_told_the_directory_counts_and_later_ones_never_widen(live: Live, tmp_path: Path) -> None:
    shop, other = project(tmp_path / "shop", "frontend"), project(tmp_path / "other", "both")
    with ide(live, cwd=other, roots=True) as client:
        client.begin()
        call = {"name": "a:echo", "args": {"text": "x"}, "intent": {"operation_type": "read"}}
        client.send({"jsonrpc": "2.0", "id": "early", "method": "tools/call",
                     "params": {"name": "call_tool_read", "arguments": {**call, "name": "b:echo"}}})  # fmt: skip
        while (early := client.receive()).get("id") != "early":
            pass
        assert not early["result"].get("isError"), "that of its directory lets it"
        client.answer({"roots": [{"uri": shop.as_uri()}, {"uri": "https://example.com"}, {}, "x"]})
        assert client.reach() == "a"
        client.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
        client.tell_roots(other.as_uri())
        assert client.reach() == "a", "what it was narrowed by stays"


@pytest.mark.parametrize("wrong", ["unknown", "link", "answer"])
def test_roots_that_cannot_be_believed_leave_nothing(live: Live, tmp_path: Path, wrong: str) -> None:
    place = project(tmp_path / "shop", "nobody" if wrong == "unknown" else None)
    if wrong == "link":
        (place / ".mcpproxy.json").symlink_to("/etc/hostname")
    with ide(live, cwd=tmp_path, roots=True) as client:
        client.begin()
        client.answer({"roots": "none"} if wrong == "answer" else {"roots": [{"uri": place.as_uri()}]})
        call = {"name": "a:echo", "args": {"text": "x"}, "intent": {"operation_type": "read"}}
        refusals: list[str] = []

        def refused() -> bool:
            client.next_id += 1
            params = {"name": "call_tool_read", "arguments": call}
            client.send({"jsonrpc": "2.0", "id": client.next_id, "method": "tools/call", "params": params})
            while (found := client.receive()).get("id") != client.next_id:
                pass
            assert "error" in found or found["result"]["_meta"]["mcpproxy/refusal"]["code"] == "TOOL_NOT_FOUND"
            refusals.append(found.get("error", {}).get("message", ""))
            return "error" in found

        until(refused)
        expected = {"unknown": "there is no profile 'nobody'", "link": "no regular file", "answer": "no list of roots"}
        assert expected[wrong] in refusals[-1]


def test_a_client_that_does_not_answer_keeps_what_its_directory_says(live: Live, tmp_path: Path) -> None:
    with ide(live, cwd=project(tmp_path / "shop", "frontend"), roots=True) as client:
        client.begin()
        assert client.reach() == "a"
        client.answer({"code": -32601, "message": "no"}, "error")
        assert client.reach() == "a"


# From one gateway to the next, and with another configuration.


def test_what_narrowed_it_goes_with_it_to_the_next_gateway_and_one_that_is_gone_ends_it(tmp_path: Path) -> None:
    config: dict[str, Any] = {"profiles": PROFILES, "mcpServers": {name: python_server("plain.py") for name in "ab"}}
    running = start(tmp_path / "data", config)
    running.wait_for("catalog")
    again = None
    client = Ide(tmp_path / "data", cwd=tmp_path, roots=True)
    try:
        client.begin()
        client.tell_roots(project(tmp_path / "shop", "frontend").as_uri())
        assert client.reach() == "a"
        running.process.send_signal(signal.SIGTERM)
        running.process.wait(60)
        again = start(tmp_path / "data", config)
        assert client.reach() == "a"
        live = Live(again, config)
        live.edit(profiles={"both": PROFILES["both"]})
        assert client.process.wait(60) == 1, "its profile has gone"
        assert client.process.stderr
        assert "there is no profile 'frontend'" in client.process.stderr.read().decode()
    finally:
        client.process.kill()
        client.close()
        running.stop()
        if again is not None:
            again.stop()
