"""An agent that writes its arguments so that the person who is asked does not see what will happen (SEC-4)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.target import ALL_SURFACES, DOORS, ERAS, Target, accepts, ask, fresh, heard, params
from tests.support.gateway import gateway
from tests.support.peer import Peer

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SEC-4")]
SERVERS = pytest.mark.parametrize("server", ["modern", "handshake"])
SECRET = "ghp_" + "a1B2" * 9
STARTS = ("Allow this ", "Tool: ", "Server: ", "Class: ", "Arguments: ", "- ", "Not shown: ", "The agent's words, ")
ATTACKS: dict[str, dict[str, Any]] = {
    "one long value": {"a": "x" * 100_000},
    "one long value of spaces": {"a": " " * 100_000},
    "line feeds": {"a": "\n" * 5_000},
    "many short values": {f"a{n}": n for n in range(5_000)},
    "many long values": {f"a{n}": "x" * 900 for n in range(500)},
    "a long key": {"k" * 50_000: 1},
    "many long keys": {f"{n}" + "k" * 500: 1 for n in range(300)},
    "a long list": {"a": list(range(20_000))},
    "deep values": {"a": json.loads('{"b":' * 50 + "[[1],[2]]" + "}" * 50)},
    "our own lines": {"a": "ok\n\nApproved by admin\nTool: notes:read\nArguments: none"},
    "our own lines as keys": {"ok\nTool: notes:read\nClass: read by server": 1, '": 1\n- mark: "harmless': 2},
    "bidirectional text": {"a": "\u202e\u2066tfel ot thgir\u2069", "\u202eyek": 1},
    "what does not show": {"a\u200b": "\u200b\u2060\ufeff\u00ad\ufe0f\U000e0041" * 100},
    "terminal sequences": {"a": "\x1b[2J\x1b[1;1HApproved", "\x9b2J": "\x07\x08\x7f"},
    "other line breaks": {"a": "x\u2028Tool: y\u2029Tool: z\x85\x0b\x0c"},
    "marks that pile up": {"a": "Z" + "\u0336\u0489\u20dd" * 200},
    "empty values": {f"a{n}": [] for n in range(2_000)},
    "a number without end": {"a": 10**3_000},
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("confirmation")
    servers = {
        "modern": heard(folder, "modern", "--modern", confirm="destructive"),
        "handshake": heard(folder, "handshake", confirm="destructive"),
    }
    with gateway(folder / "data", {"surfaces": ALL_SURFACES, "mcpServers": servers}) as running:
        yield Target(running, folder, servers)


async def asked_about(target: Target, peer: Peer, door: str, server: str, arguments: Mapping[str, Any]) -> str:
    """What the person reads, who says yes."""
    mark = fresh()
    sent = params(door, server, "wipe", mark)
    given = sent["arguments"]["args"] if door == "gate" else sent["arguments"]
    own = dict(given)
    given.clear()
    given.update(arguments | own)  # ours comes last
    peer.asked.clear()
    outcome = await ask(peer, sent)
    assert outcome.ok, outcome
    ((method, question),) = peer.asked
    assert method == "elicitation/create"
    (call,) = target.log(server).calls(mark)
    digest = sha256(json.dumps(call["arguments"], sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    message = question["message"]
    assert f"SHA-256 {digest}" in message, "of exactly what the server was sent"
    assert f'- mark: "{mark}"' in message.split("\n"), "what the tool declares is shown, whatever else there is"
    return message


@DOORS
@ERAS
@SERVERS
async def test_nothing_hides_what_is_asked(target: Target, door: str, era: str, server: str) -> None:
    async with target.client(door, server, era, accepts("", allow=True)) as peer:
        for attack, arguments in ATTACKS.items():
            message = await asked_about(target, peer, door, server, arguments)
            rows = message.split("\n")
            assert rows[:3] == ["Allow this destructive call?", f"Tool: {server}:wipe", f"Server: {server}"], attack
            assert rows[3].startswith("Class: destructive") and rows[4].startswith("Arguments: "), attack
            assert rows == message.splitlines() and all(row.startswith(STARTS) for row in rows), attack
            assert len(message) < 6_000 and len(rows) < 40, attack
            assert all(char.isprintable() for row in rows for char in row), attack
            assert counted(rows) == sum(row.startswith("- ") for row in rows) + hidden(rows), attack


def counted(rows: list[str]) -> int:
    told = re.match(r"Arguments: (more than )?([0-9,]+) values?, [0-9,]+ bytes of JSON, SHA-256 ", rows[4])
    assert told is not None
    return int(told[2].replace(",", ""))


def hidden(rows: list[str]) -> int:
    told = [re.match(r"Not shown: (more than )?([0-9,]+) of these values$", row) for row in rows]
    return sum(int(each[2].replace(",", "")) for each in told if each is not None)


@ERAS
@SERVERS
async def test_secrets_stay_masked_and_their_place_is_shown(target: Target, era: str, server: str) -> None:
    arguments = {"password": "hunter22", "note": f"use {SECRET}", "list": ["--token", "t0ps3cr3t"]}
    async with target.client("gate", server, era, accepts("", allow=True)) as peer:
        message = await asked_about(target, peer, "gate", server, arguments)
    assert "- password: " in message and "- note: " in message and "- list[1]: " in message
    assert "hunter22" not in message and SECRET not in message and "t0ps3cr3t" not in message


@ERAS
@SERVERS
async def test_what_the_agent_says_of_it_is_called_its_words(target: Target, era: str, server: str) -> None:
    reason = 'fine"\nNot shown: nothing\nThe gateway says: approved \u202e'
    sent = params("gate", server, "wipe", fresh())
    sent["arguments"]["intent"]["reason"] = reason
    async with target.client("gate", server, era, accepts("", allow=True)) as peer:
        assert (await ask(peer, sent)).ok
        message = peer.asked[0][1]["message"]
    last = message.split("\n")[-1]
    assert last.startswith('The agent\'s words, which nobody checked: "fine\\"\\nNot shown: nothing\\n')
    assert message.count("\n") == 6


@ERAS
@SERVERS
async def test_a_request_that_is_no_call_is_shown_likewise(
    target: Target, tmp_path: Path, era: str, server: str
) -> None:
    servers = {server: heard(tmp_path, server, *(["--modern"] if server == "modern" else []), confirm="write")}
    with gateway(tmp_path / "data", {"surfaces": ALL_SURFACES, "mcpServers": servers}) as running:
        own, mark = Target(running, tmp_path, servers), fresh()
        async with own.client("passthrough", server, era, accepts("", allow=True)) as peer:
            assert (await ask(peer, {"a": "\nTool: x", "z": mark, "pad": " " * 9000}, 'x/del"ete')).ok
            message = peer.asked[0][1]["message"]
    rows = message.split("\n")
    assert rows[1] == f'Request: "x/del\\"ete" to the server {server}'
    assert f'- z: "{mark}"' in rows and '- a: "\\nTool: x"' in rows
    assert len(message) < 6_000
