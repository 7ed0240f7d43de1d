"""`mcpproxy call` on a terminal asks the person, and REST is no way around the question (SEC-4)."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from mcpproxy_py.core.policy.confirmation import arguments_digest
from mcpproxy_py.store.journal.entries import read
from tests.support.gateway import Running, clean_environment, gateway, python_server
from tests.support.links import HttpLink
from tests.support.peer import connected
from tests.support.readable import readable
from tests.support.wire import MODERN

pytestmark = pytest.mark.proves("SEC-4", "USE-6")

ARGS = {"id": "7", "text": "old\x1b[2Jnotes"}
TOKEN = "b4b6f5e2a7c3d9018e"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("confirm")
    servers = {
        "notes": python_server("plain.py", "--log", str(path / "calls"), confirm="destructive"),
        "other": python_server("plain.py", "--log", str(path / "calls"), confirm="destructive"),
    }
    with gateway(path / "data", {"mcp_token": TOKEN, "mcpServers": servers}) as found:
        yield found


def calls(site: Running) -> list[str]:
    path = site.data_dir.parent / "calls"
    return path.read_text().splitlines() if path.exists() else []


def typed(site: Running, text: bytes, *words: str) -> tuple[int, str]:
    """The command on a terminal, where somebody types as soon as they are asked. Its exit status and the screen."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "mcpproxy_py", "call", *words, "--json_args", json.dumps(ARGS), "--data-dir",
         str(site.data_dir)], stdin=theirs, stdout=theirs, stderr=theirs, env=clean_environment(TERM="xterm"),
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    seen, answered, deadline = b"", False, time.monotonic() + 60
    while readable([ours], deadline - time.monotonic()):
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # how Linux says that the other side is closed
            break
        seen += chunk
        if not answered and b"Allow it? [y/N]" in seen:
            os.write(ours, text)
            answered = True
    os.close(ours)
    return process.wait(60), seen.decode()


def last(site: Running) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The newest tool call on record, and the events of its rounds."""
    row = next(row for row in site.activities() if row["type"] == "tool_call")
    paths = sorted((site.data_dir / "journal").glob("*.log"))
    lines = [line for path in paths for line in path.read_bytes().split(b"\n")]
    events = [entry.event for line in lines if (entry := read(line)) is not None]
    return row, [event for event in events if event["id"] == row["id"] and event["kind"] in ("answered", "confirmed")]


def test_a_yes_on_the_terminal_is_for_the_call_that_was_shown_and_is_recorded_before_it(site: Running) -> None:
    before = len(calls(site))
    status, screen = typed(site, b"y\n", "tool-destructive", "notes:delete_note", "--reason", "tidy up")
    assert status == 0, screen
    assert "Allow this destructive call?" in screen and "Tool: notes:delete_note" in screen
    assert f"SHA-256 {arguments_digest(ARGS)}" in screen
    assert "\x1b[2J" not in screen and "\\u001b[2J" in screen
    assert len(calls(site)) == before + 1
    row, events = last(site)
    assert (row["status"], row["source"]) == ("success", "cli")
    assert [event["kind"] for event in events] == ["answered", "confirmed"]
    said = json.dumps(events[0])
    assert '"terminal": true' in said and '"source": "cli"' in said and '"accept"' in said


@pytest.mark.parametrize("text", [b"n\n", b"\n", b"\x04"], ids=["no", "return", "end"])
def test_anything_but_a_yes_is_a_no_and_on_record(site: Running, text: bytes) -> None:
    before = len(calls(site))
    status, screen = typed(site, text, "tool-destructive", "notes:delete_note")
    assert (status, "the person declined" in screen, "Nothing was called." in screen) == (3, True, True)
    assert len(calls(site)) == before
    row, events = last(site)
    assert (row["status"], row["error"]["code"]) == ("blocked", "NOT_CONFIRMED")
    assert [event["kind"] for event in events] == ["answered"]


def test_nobody_is_asked_where_nothing_has_to_be_confirmed(site: Running) -> None:
    status, screen = typed(site, b"", "tool-read", "notes:echo")
    assert (status, "Allow" in screen) == (0, False), screen


def test_without_a_terminal_it_is_refused_and_says_where_it_would_be_asked(site: Running) -> None:
    before = len(calls(site))
    done = subprocess.run(
        [sys.executable, "-m", "mcpproxy_py", "call", "tool-destructive", "notes:delete_note", "--data-dir",
         str(site.data_dir)], env=clean_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, "on a terminal" in done.stderr) == (3, True)
    assert len(calls(site)) == before


def body(tool: str = "notes:delete_note", args: Mapping[str, Any] = ARGS, **more: Any) -> dict[str, Any]:
    return {
        "variant": "destructive",
        "name": tool,
        "args": dict(args),
        "intent": {"operation_type": "destructive"},
        **more,
    }


def shown(site: Running, **options: Any) -> dict[str, Any]:
    answer = site.post("/call/question", body(**options))
    assert answer.status_code == 200, answer.text
    return answer.json()


def yes(token: str, **more: Any) -> dict[str, Any]:
    return {"token": token, "allow": True, "terminal": True, **more}


def refused(site: Running, **options: Any) -> str:
    before = len(calls(site))
    answer = site.post("/call", body(**options))
    assert (answer.status_code, len(calls(site))) == (403, before), answer.text
    assert answer.json()["error"]["code"] == "NOT_CONFIRMED"
    return answer.json()["error"]["message"]


def test_a_yes_counts_once(site: Running) -> None:
    said = yes(shown(site)["token"])
    assert site.post("/call", body(confirmation=said)).status_code == 200
    assert "no question that waits" in refused(site, confirmation=said)


@pytest.mark.parametrize(
    "other", [{"args": {"id": "8"}}, {"args": {}}, {"tool": "other:delete_note"},
              {"intent": {"operation_type": "destructive", "reason": "another"}}], ids=json.dumps,
)  # fmt: skip
def test_a_yes_is_for_nothing_else(site: Running, other: dict[str, Any]) -> None:
    assert "not the one that was shown" in refused(site, **other, confirmation=yes(shown(site)["token"]))


def test_a_yes_to_no_question_is_none(site: Running) -> None:
    assert "no question that waits" in refused(site, confirmation=yes("0" * 32))
    assert "nobody can be asked" in refused(site)
    no = {**yes(shown(site)["token"]), "allow": False}
    assert "the person declined" in refused(site, confirmation=no)


@pytest.mark.parametrize("path", ["/call/question", "/call"])
def test_an_agent_with_its_token_gets_to_neither(site: Running, path: str) -> None:
    headers = {"X-API-Key": TOKEN, "Authorization": f"Bearer {TOKEN}"}
    answer = site.client.post(f"/api/v1{path}", json=body(confirmation=yes("0" * 32)), headers=headers)
    assert answer.status_code == 401


@pytest.mark.anyio
async def test_the_terminal_shows_what_elicitation_shows(site: Running) -> None:
    asked: list[str] = []

    async def person(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.append(params["message"])
        return {"action": "decline"}

    link = HttpLink(f"{site.url}/mcp", token=TOKEN)
    async with connected(link, MODERN, person) as peer:
        params = {"name": "notes:delete_note", "args": ARGS, "intent": {"operation_type": "destructive"}}
        await peer.call("call_tool_destructive", params)
    assert asked == [shown(site)["question"]]
