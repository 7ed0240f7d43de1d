"""Secrets in every field that a client or a server can fill: they reach whom they were meant for, and are found in
nothing that leaves for the record, a log, REST, metrics, a trace or the command line (ACT-9)."""

from __future__ import annotations

import itertools
import json
import random
import string
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.target import ALL_SURFACES, DOORS, ERAS, Target, ask, fresh, params
from tests.support.collector import collector
from tests.support.gateway import clean_environment, gateway, python_server, until
from tests.support.wire import MODERN

pytestmark = [pytest.mark.anyio, pytest.mark.proves("ACT-9")]
KEY = "PRIVATE " + "KEY"


class Planted:
    """Secrets in use, each by the place where it was put. What is looked for is the part that nobody else writes."""

    def __init__(self) -> None:
        self.marks: dict[str, str] = {}
        self._chance = random.Random(13)

    def body(self, place: str, size: int = 30) -> str:
        made = "aQ7" + "".join(self._chance.choices(string.ascii_letters + string.digits, k=size - 3))
        self.marks[place] = made
        return made

    def token(self, place: str) -> str:
        return "ghp" + "_" + self.body(place, 36)

    def found_in(self, text: str) -> list[str]:
        return [place for place, mark in self.marks.items() if mark in text or mark[:16] in text]


def of_the_server(planted: Planted, name: str) -> dict[str, str]:
    """What a server lets out, by where it does."""
    lines = [planted.body(f"{name}: key line {number}", 60) for number in range(3)]
    return {
        "stderr at start": f"starting with --api-key {planted.body(f'{name}: stderr at start')} now",
        "key line by line": "\n".join([f"-----BEGIN {KEY}-----", *lines, f"-----END {KEY}-----"]),
        "last words": f"fatal: X-Auth-Token: {planted.body(f'{name}: last words')}",
        "tool error": f"Authorization: Bearer {planted.body(f'{name}: tool error')} was rejected",
        "error": f"mysql -uroot -p{planted.body(f'{name}: error')} failed",
        "garbage": f"not JSON, password={planted.body(f'{name}: garbage')}",
        "progress": f"using token {planted.body(f'{name}: progress')}",
        "log notification": f"password: >-\n  {planted.body(f'{name}: log notification')}\n",
        "server name": planted.token(f"{name}: server name"),
        "server version": f"1.0 {planted.token(f'{name}: server version')}",
        "server method": f"x/{planted.token(f'{name}: server method')}",
        "tool": f"look_{planted.token(f'{name}: tool')}",
        "listed prompt": planted.token(f"{name}: listed prompt"),
    }


def leaky(folder: Path, planted: Planted, name: str, *flags: str) -> dict[str, Any]:
    secrets = folder / f"{name}.secrets"
    secrets.write_text(json.dumps(of_the_server(planted, name)))
    return python_server("leaky.py", "--log", str(folder / f"{name}.heard"), "--secrets", str(secrets), *flags)


@pytest.fixture(scope="module")
def planted() -> Planted:
    return Planted()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, planted: Planted) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("secrets")
    servers = {"modern": leaky(folder, planted, "modern", "--modern"), "handshake": leaky(folder, planted, "handshake")}
    config = {"surfaces": ALL_SURFACES, "log": {"level": "debug"}, "mcpServers": servers}
    with collector() as spans:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": spans.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        with gateway(folder / "data", config, env=env) as running:
            yield Target(running, folder, servers)
        assert not planted.found_in(b"".join(spans.bodies).decode("latin-1"))


def leaves_nothing(target: Target, planted: Planted) -> None:
    for where, text in everything_that_left(target).items():
        assert not planted.found_in(text), f"{where} shows {planted.found_in(text)}"


def everything_that_left(target: Target) -> dict[str, str]:
    running = target.running
    running.catch_up()
    shown = {
        path: running.client.get(path).text
        for path in (
            "/metrics", "/api/v1/servers", "/api/v1/status", "/api/v1/activity?limit=500", "/api/v1/activity/summary",
            "/api/v1/activity/export?format=jsonl", "/api/v1/activity/export?format=csv", "/api/v1/gaps",
            "/api/v1/approvals", *(f"/api/v1/servers/{name}/logs?lines=1000" for name in target.servers),
        )
    }  # fmt: skip
    assert all(shown.values())
    files = [path for path in running.data_dir.rglob("*") if path.is_file() and path.name != "mcp_config.json"]
    shown |= {str(path): path.read_bytes().decode("latin-1") for path in files}
    shown["stderr"] = running.stderr()
    return shown


def cli(target: Target, *arguments: str) -> str:
    command = [sys.executable, "-m", "mcpproxy_py", *arguments, "--data-dir", str(target.running.data_dir)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, env=clean_environment(), check=False)
    assert ran.stdout, ran.stderr
    return ran.stdout + ran.stderr


def heard_by(target: Target, server: str, *words: str) -> bool:
    log = target.log(server).path.read_text()
    return all(word in log for word in words)


SERVERS = pytest.mark.parametrize("server", ["modern", "handshake"])


@ERAS
@DOORS
@SERVERS
async def test_what_a_client_says_reaches_its_server_and_is_in_nothing_else(
    target: Target, planted: Planted, era: str, door: str, server: str
) -> None:
    here = f"{era} {door} {server}"
    mark = fresh("secret")
    arguments = {
        "note": f"log in with password={planted.body(f'{here}: argument')}",
        "headers": [["X-Auth-Token", planted.body(f"{here}: header pair")]],
        "url": f"https://ann:{planted.body(f'{here}: url')}@host.example/a?pass={planted.body(f'{here}: query')}",
        "args": ["mysql", f"-p{planted.body(f'{here}: flag')}"],
        "pw": planted.body(f"{here}: pw"),
    }
    asked = params(door, server, "look", mark, **arguments)
    if door == "gate":
        reason = f"The token is {planted.token(f'{here}: reason')}"
        asked["arguments"]["intent"]["reason"] = reason
    async with target.client(door, server, era, name=f"agent {planted.token(f'{here}: client name')}") as peer:
        peer.info["version"] = planted.token(f"{here}: client version")
        peer.ids = itertools.chain([planted.token(f"{here}: request id")], itertools.count(1))  # type: ignore[assignment]
        assert (await ask(peer, asked)).ok
        missing = params(door, server, "look", mark)
        missing["name" if door != "gate" else "arguments"] = (
            f"{server}__{planted.token(f'{here}: tool')}"
            if door == "direct"
            else planted.token(f"{here}: tool")
            if door == "passthrough"
            else {"name": f"{server}:{planted.token(f'{here}: tool')}", "intent": {"operation_type": "read"}}
        )
        refused = await ask(peer, missing)
        assert not refused.ok
        assert not planted.found_in(refused.words)
        uri = f"https://ann:{planted.body(f'{here}: uri')}@host.example/x?token={planted.body(f'{here}: uri query')}"
        await ask(peer, {"uri": uri}, "resources/read")
        await ask(peer, {"name": planted.token(f"{here}: prompt")}, "prompts/get")
        await ask(peer, {"x": planted.token(f"{here}: parameter")}, f"x/{planted.token(f'{here}: method')}")
    meant = [f"{here}: {what}" for what in ("argument", "header pair", "url", "query", "pw")]
    assert heard_by(target, server, *(planted.marks[place] for place in meant))
    if door == "passthrough":
        assert heard_by(target, server, planted.marks[f"{here}: uri"], planted.marks[f"{here}: prompt"])
    rows = target.ended(mark)
    assert rows
    leaves_nothing(target, planted)


@ERAS
@SERVERS
async def test_what_a_server_says_reaches_its_client_where_it_is_an_answer_and_is_in_nothing_else(
    target: Target, planted: Planted, era: str, server: str
) -> None:
    mark = fresh("secret")
    async with target.client("gate", server, era) as peer:
        failed = await ask(peer, params("gate", server, "look", mark, act="fail"))
        assert planted.marks[f"{server}: tool error"] in failed.words, "what a tool answers is passed on"
        error = await ask(peer, params("gate", server, "look", mark, act="error"))
        assert not error.ok
        assert not planted.found_in(error.words), "our words about an error are not"
        assert (await ask(peer, params("gate", server, "look", mark, act="garbage"))).ok
        assert (await ask(peer, params("gate", server, "look", mark, act="progress"), progressToken="p")).ok
        named = next(each for each in of_this(target, server) if each.startswith("look_ghp"))
        asked = params("gate", server, "look", mark)
        asked["arguments"]["name"] = f"{server}:{named}"
        assert (await ask(peer, asked)).ok
    target.ended(mark)
    leaves_nothing(target, planted)


def of_this(target: Target, server: str) -> list[str]:
    rows = target.running.get("/tools", server=server, limit=500)["tools"]
    return [row["name"].partition(":")[2] for row in rows]


@SERVERS
@ERAS
async def test_the_last_words_of_a_server_are_told_without_its_secrets(
    target: Target, planted: Planted, server: str, era: str
) -> None:
    before = target.running.get("/servers")["servers"]
    restarts = next(row["since"] for row in before if row["name"] == server)
    async with target.client("gate", server, era) as peer:
        died = await ask(peer, params("gate", server, "look", fresh("secret"), act="die"))
        assert not died.ok
        assert "it last wrote: fatal: X-Auth-Token: ***" in died.words
        assert not planted.found_in(died.words)
    leaves_nothing(target, planted)

    def back() -> bool:
        rows = target.running.get("/servers")["servers"]
        return any(row["name"] == server and row["state"] == "connected" and row["since"] != restarts for row in rows)

    until(back, what="the server to be back")
    leaves_nothing(target, planted)


async def test_requests_for_a_capability_and_decisions_are_kept_without_secrets(
    target: Target, planted: Planted
) -> None:
    running = target.running
    wish = {
        "agent_id": f"agent {planted.token('wish: agent')}",
        "mcp_name": f"notion {planted.token('wish: name')}",
        "rationale": f"log in with password={planted.body('wish: rationale')}",
        "requested_tools": [f"read {planted.token('wish: tool')}"],
        "context": {"client_secret": planted.body("wish: context"), "note": f"pw: {planted.body('wish: note')}"},
    }
    answer = running.client.post("/mcp/request-capability", json=wish)
    assert answer.status_code == 200, answer.text
    approval = running.get("/approvals")["approvals"][0]
    decided = running.post(
        f"/approvals/{approval['approval_id']}/deny",
        {"name": f"ann {planted.token('wish: reviewer')}", "notes": f"token={planted.body('wish: notes')}"},
    )
    assert decided.status_code == 200, decided.text
    assert not planted.found_in(decided.text)
    leaves_nothing(target, planted)


async def test_rest_says_nothing_back(target: Target, planted: Planted) -> None:
    running = target.running
    running.client.headers["user-agent"] = f"tool-{planted.token('rest: client')}"
    running.client.headers["x-request-id"] = planted.token("rest: request id")
    call = {
        "variant": "read",
        "name": f"modern:{planted.token('rest: tool')}",
        "args": {"pw": planted.body("rest: pw")},
    }
    config = {"command": "x", "env": {"API_KEY": planted.body("rest: env")}, "unknown": 1}
    answers = [
        running.post("/call", {**call, "intent": {"operation_type": "read"}}),
        running.post("/explain", call),
        running.client.get(f"/api/v1/tools/modern:{planted.token('rest: tool path')}"),
        running.client.get("/api/v1/activity", params={"cursor": planted.token("rest: cursor")}),
        running.client.get(f"/api/v1/{planted.token('rest: path')}"),
        running.client.delete(f"/api/v1/servers/{planted.token('rest: server')}"),
        running.post("/servers", {"name": "new", "config": config}),
    ]
    for answer in answers:
        assert not planted.found_in(answer.text), answer.text
    found = running.client.get("/api/v1/tools/search", params={"query": f"token {planted.token('rest: query')}"})
    assert planted.marks["rest: query"] not in found.text  # tools have the names that their servers gave them
    leaves_nothing(target, planted)


@SERVERS
async def test_the_command_line_shows_none(target: Target, planted: Planted, server: str) -> None:
    async with target.client("gate", server, MODERN, name=f"agent {planted.token(f'cli {server}: client')}") as peer:
        asked = params("gate", server, "look", fresh("secret"), act="die", pw=planted.body(f"cli {server}: pw"))
        assert not (await ask(peer, asked)).ok
    target.running.catch_up()
    for command in (["activity", "list", "--limit", "500"], ["upstream", "list"], ["doctor"]):
        shown = cli(target, *command, "-o", "json")
        assert server in shown
        assert not planted.found_in(shown)
