"""Out of a profile: by paths, by other sessions, by what a client says on its own line, by waiting (SURF-12)."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from tests.attacks.target import ERAS, eventually, fresh
from tests.support.gateway import Running, gateway, python_server, until
from tests.support.links import HttpLink
from tests.support.peer import connected
from tests.support.wire import HANDSHAKE, MODERN, RpcError, Wire

pytestmark = pytest.mark.proves("SURF-12")
WAIT = 60.0
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "attacker", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class House:
    def __init__(self, running: Running, log: Path, config: dict[str, Any]) -> None:
        self.running, self.log, self.config = running, log, config

    def heard(self, word: str) -> bool:
        return self.log.exists() and word in self.log.read_text()

    def edit(self, **changes: Any) -> None:
        self.config = {**self.config, **changes}
        new = self.running.data_dir / "new.json"
        new.write_text(json.dumps(self.config))
        os.replace(new, self.running.data_dir / "mcp_config.json")

    def attach(self, wish: Any) -> tuple[dict[str, Any], socket.socket]:
        """What the gateway's own socket answers to this first line."""
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.settimeout(WAIT)
        line.connect(json.loads((self.running.data_dir / "gateway.json").read_text())["socket"])
        line.sendall((wish if isinstance(wish, bytes) else json.dumps(wish).encode()) + b"\n")
        return read(line), line


def read(line: socket.socket) -> dict[str, Any]:
    answer = b""
    while not answer.endswith(b"\n"):
        more = line.recv(1)
        assert more, "it was cut off"
        answer += more
    return json.loads(answer)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    log = tmp_path / "log"
    config: dict[str, Any] = {
        "surfaces": ["gate", "direct", "passthrough"],
        "profiles": {"small": {"servers": ["a"], "operations": ["read"]}, "asking": {"servers": ["a", "b"],
                     "confirm": "write"}},
        "mcpServers": {"a": python_server("plain.py"), "b": python_server("plain.py", "--log", str(log))},
    }  # fmt: skip
    with gateway(tmp_path / "data", config) as running:
        running.wait_for("catalog")
        yield House(running, log, config)


def call(server: str, mark: str, variant: str = "read") -> dict[str, Any]:
    tool = {"read": "echo", "write": "write_note"}[variant]
    arguments = {"name": f"{server}:{tool}", "args": {"text": mark}, "intent": {"operation_type": variant}}
    return {"name": f"call_tool_{variant}", "arguments": arguments}


def test_no_spelling_of_a_path_leads_out_of_it(house: House) -> None:
    mark = fresh()
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**call("b", mark), "_meta": META}}
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json",
               "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "call_tool_read"}  # fmt: skip
    address = httpx.URL(house.running.url)
    for path in (
        "/mcp/p/small", "/mcp/p/small/", "/mcp/p/small?profile=asking", "/mcp/p/SMALL", "/mcp/p/small/..",
        "/mcp/p/small/../asking", "/mcp/p/%2e%2e/asking", "/mcp/p//asking", "/mcp/p/small%2f..%2fasking",
        "/mcp/p/small/s/b", "/mcp/p/small;asking", "/mcp/p/small#asking", "/mcp/p/small/direct", "/mcp/p/", "/mcp/p",
    ):  # fmt: skip
        with socket.create_connection((address.host, address.port or 80), WAIT) as line:
            text = json.dumps(body).encode()
            lines = [f"POST {path} HTTP/1.1", f"host: {address.host}:{address.port}", "connection: close"]
            lines += [f"content-length: {len(text)}", *(f"{name}: {value}" for name, value in headers.items())]
            line.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + text)
            answer = b""
            while more := line.recv(65536):
                answer += more
        assert mark.encode() not in answer, path
    assert not house.heard(mark)


def test_a_session_of_elsewhere_is_none_in_it_and_one_of_it_is_none_elsewhere(house: House) -> None:
    wires = {path: Wire(f"{house.running.url}{path}", HANDSHAKE) for path in ("/mcp", "/mcp/p/small", "/mcp/p/asking")}
    for mine, wire in wires.items():
        for path in wires.keys() - {mine}:
            wire.url = f"{house.running.url}{path}"
            answer = wire.post({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": call("b", fresh())})
            assert answer.status_code == 404, (mine, path)


@pytest.mark.parametrize(
    "profiles",
    [["nobody"], ["small", "nobody"], "asking", 7, {"asking": 1}, [7], [None], [["asking"]], ["ASKING"], ["asking "],
     ["asking"] * 1000, ["__class__"], [""]],
)  # fmt: skip
def test_the_first_line_of_a_stream_cannot_ask_for_what_is_no_profile(house: House, profiles: Any) -> None:
    answer, line = house.attach({"surface": "gate", "profiles": profiles, "narrow": "word"})
    line.close()
    assert "error" in answer
    assert "ok" not in answer


def test_a_client_that_says_what_only_the_bridge_says_gets_nothing_by_it(house: House) -> None:
    answer, line = house.attach({"surface": "gate", "profiles": ["small"], "narrow": "w" * 32})
    assert answer["profiles"] == ["small"]
    with line:
        for said in (
            {"narrow": "x" * 32, "profile": "asking"}, {"narrow": "w" * 31, "profile": "asking"},
            {"profiles": ["asking"], "narrow": "w" * 32}, {"surface": "gate", "profiles": []},
            {"narrowed": "w" * 32}, {"ending": "w" * 32},
        ):  # fmt: skip
            line.sendall(json.dumps(said, separators=(",", ":")).encode() + b"\n")
            assert "error" in read(line)
        mark = fresh()
        line.sendall(json.dumps({"narrow": "w" * 32, "profile": "asking"}, separators=(",", ":")).encode() + b"\n")
        assert read(line) == {"narrowed": "w" * 32}, "even who knows the word only narrows"
        params = {**call("b", mark), "_meta": META}
        line.sendall(json.dumps({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params}).encode() + b"\n")
        while (found := read(line)).get("id") != 9:
            pass
        assert found["result"]["isError"]
    assert not house.heard(mark)


@pytest.mark.anyio
@ERAS
async def test_a_call_that_waits_for_a_person_is_not_sent_once_the_profile_lost_it(house: House, era: str) -> None:
    asked, go_on = anyio.Event(), anyio.Event()
    mark = fresh()

    async def person(method: str, params: Any) -> dict[str, Any]:
        asked.set()
        with anyio.fail_after(WAIT):
            await go_on.wait()
        answers = {key: _yes(said) for key, said in params["requestedSchema"]["properties"].items()}
        return {"action": "accept", "content": answers}

    async with connected(HttpLink(f"{house.running.url}/mcp/p/asking"), era, person) as peer:
        results: list[dict[str, Any]] = []

        async def act() -> None:
            wish = call("b", mark, "write")
            try:
                results.append(await peer.call(wish["name"], wish["arguments"]))
            except RpcError as refused:
                results.append({"isError": True, "said": str(refused)})

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(act)
            with anyio.fail_after(WAIT):
                await asked.wait()
            house.edit(profiles={**house.config["profiles"], "asking": {"servers": ["a"]}})
            other = Wire(f"{house.running.url}/mcp/p/asking")
            await eventually(lambda: other.read("b:echo", {"text": "x"}).get("isError"), "the profile without it")
            go_on.set()
    assert results[0].get("isError")
    assert not house.heard(mark)


def _yes(said: dict[str, Any]) -> Any:
    return said.get("enum", [True])[0] if said.get("type") != "boolean" else True


def test_while_it_is_edited_again_and_again_nothing_out_of_both_is_sent(house: House) -> None:
    """The profile goes between two versions, of which neither has the tool that is asked for."""
    versions = [{"servers": ["a"], "operations": ["read"]}, {"servers": ["b"], "tools": ["get_*"]}]
    marks: list[str] = []
    over = threading.Event()

    def attack() -> None:
        wire = Wire(f"{house.running.url}/mcp/p/small")
        while not over.is_set():
            marks.append(fresh())
            assert wire.read("b:echo", {"text": marks[-1]})["isError"]

    attackers = [threading.Thread(target=attack) for _ in range(4)]
    for each in attackers:
        each.start()
    wire = Wire(f"{house.running.url}/mcp/p/small")
    try:
        for number in range(1, 4):
            house.edit(profiles={**house.config["profiles"], "small": versions[number % 2]})
            until(lambda number=number: wire.read("a:echo", {"text": "x"}).get("isError", False) is (number % 2 == 1))
    finally:
        over.set()
        for each in attackers:
            each.join(WAIT)
    assert marks
    assert not any(house.heard(mark) for mark in marks)
