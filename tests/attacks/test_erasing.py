"""A record that was erased: nothing that anybody wrote in it is left, in files, in rows and over REST (ACT-8).

Every part of a call holds a word that is nowhere else: arguments, results, reasons, errors, answers in mid-call, what a
person was shown, refused calls. Then the bytes of the data directory are searched for it, and the chain still holds.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.attacks.target import Target, accepts, ask, heard
from tests.support.gateway import Running, gateway, python_server, until
from tests.support.postgres import own_server
from tests.support.waiting import calling, decide, waiting
from tests.support.wire import HANDSHAKE, MODERN

pytestmark = [pytest.mark.anyio, pytest.mark.proves("ACT-8")]
WORD = "zanzibar"
"""Part of every word that has to go; none of them is a name of something."""
PATHS = ("/activity", "/activity/export", "/confirmations", "/activity/summary", "/requests", "/status")


def scripted(text: str, **outcome: Any) -> dict[str, Any]:
    """Arguments with which the server reports its progress, logs, and answers, all of it with this word."""
    log = {"level": "error", "data": f"{WORD} log {text}"}
    told = {"jsonrpc": "2.0", "method": "notifications/message", "params": log}
    done = {"jsonrpc": "2.0", "id": "$id", **outcome}
    return {"mark": f"{WORD}-{text}", "steps": [
        {"own": json.dumps(told)}, {"own": json.dumps(done).replace('"$id"', "$id")},
    ]}  # fmt: skip


def gated(tool: str, args: dict[str, Any], operation: str = "read", **more: Any) -> dict[str, Any]:
    intent = {"operation_type": operation, "reason": f"{WORD} reason of {tool}", **more.pop("intent", {})}
    return {"name": f"call_tool_{operation}", "arguments": {"name": tool, "args": args, "intent": intent, **more}}


async def calls(target: Target, era: str) -> None:
    """Every way in which somebody's words come into a record."""
    failed = {"result": {"isError": True, "content": [{"type": "text", "text": f"{WORD} failed"}]}}
    error = {"error": {"code": -32000, "message": f"{WORD} broke", "data": {"why": f"{WORD} data"}}}
    done = {"result": {"content": [{"type": "text", "text": f"{WORD} done"}], "structuredContent": {"of": WORD}}}
    async with target.client("gate", "free", era, accepts(f"{WORD} answer")) as peer:
        for text, outcome in {"done": done, "failed": failed, "error": error}.items():
            await ask(peer, gated("says:play", scripted(text, **outcome)))
        assert (await ask(peer, gated("free:look_ask", {"mark": f"{WORD}-asked"}))).ok
        assert (await ask(peer, gated("free:put_ask", {"mark": f"{WORD}-put", "rounds": 2}, "write"))).ok
        refused = [
            gated("free:look", {"mark": f"{WORD}-refused"}, "read", **{WORD: 1}),
            gated("free:wipe", {"mark": f"{WORD}-refused"}, "read"),
            gated("free:look", {"mark": 1, WORD: [1]}, "read"),
            gated("free:look", {}, "read", intent={"data_sensitivity": f"{WORD} odd"}),
            gated("free:look", {}, "read", intent={"operation_type": f"{WORD} odd"}),
            {"name": "retrieve_tools", "arguments": {"query": f"{WORD} tools", WORD: 1}},
        ]
        for each in refused:
            await ask(peer, each)
    async with target.client("direct", "free", era) as peer:
        await ask(peer, {"name": "free__look", "arguments": {"mark": f"{WORD}-direct", "intent": f"{WORD} passive"}})
    async with target.client("passthrough", "free", era) as peer:
        await ask(peer, {"name": "hello", "arguments": {"x": f"{WORD}-prompt"}}, "prompts/get")


def confirmed(target: Target, era: str) -> None:
    for step, notes in (("approve", f"{WORD} fine"), ("deny", f"{WORD} no")):
        word = f"{WORD}-{step}-{era}"
        with calling(target.running, word, era, reason=f"{WORD} to be {step}d") as call:
            assert decide(target.running, waiting(target.running, word), step, notes=notes).status_code == 200
            call.result(60)


def traces(running: Running) -> dict[str, str]:
    """Where the word is shown over REST."""
    found = {path: running.client.get(f"/api/v1{path}").text for path in PATHS}
    found |= {f"/activity/{row['id']}": json.dumps(running.get(f"/activity/{row['id']}")) for row in records(running)}
    rows = running.get("/confirmations")["confirmations"]
    found |= {f"/confirmations/{row['id']}": json.dumps(running.get(f"/confirmations/{row['id']}")) for row in rows}
    found["search"] = json.dumps(running.get("/activity", q=f"{WORD}*")["activities"])
    return {path: text for path, text in found.items() if WORD in text.lower()}


def records(running: Running) -> list[dict[str, Any]]:
    return running.activities()


def files(folder: Path) -> dict[str, int]:
    """How often each file of the data directory holds it."""
    paths = [each for each in folder.rglob("*") if each.is_file() and "logs" not in each.relative_to(folder).parts]
    found = {str(each.relative_to(folder)): each.read_bytes().lower().count(WORD.encode()) for each in paths}
    return {name: many for name, many in found.items() if many}


def rows_of(url: str) -> list[str]:
    with psycopg.connect(url, autocommit=True) as database:
        names = database.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        return [
            f"{name}: {row[0]}"
            for (name,) in names
            for row in database.execute(f'SELECT t::text FROM "{name}" t WHERE t::text ILIKE %s', (f"%{WORD}%",))  # type: ignore[arg-type]
        ]


@contextmanager
def attacked(folder: Path, database: str) -> Iterator[tuple[Target, str]]:
    servers = {
        "free": heard(folder, "free", "--modern"),
        "says": python_server("scripted.py", "--log", str(folder / "says.heard"), "--modern"),
        "notes": python_server("plain.py", "--log", str(folder / "calls"), confirm="destructive"),
    }
    config: dict[str, Any] = {"surfaces": ["gate", "direct", "passthrough"], "mcpServers": servers}
    if database == "sqlite":
        with gateway(folder / "data", config) as running:
            yield Target(running, folder, servers), ""
    else:
        with own_server() as server:
            url = server.database()
            with gateway(folder / "data", {**config, "activity": {"database_url": url}}) as running:
                yield Target(running, folder, servers), url


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_nothing_that_anybody_wrote_is_left_of_an_erased_record(tmp_path: Path, database: str) -> None:
    with attacked(tmp_path, database) as (target, url):
        running = target.running
        running.wait_for(*target.servers)
        for era in (MODERN, HANDSHAKE):
            await calls(target, era)
            confirmed(target, era)
        shown = traces(running)
        assert {"/activity", "/activity/export", "/confirmations", "search"} <= shown.keys()
        assert url or files(running.data_dir), "so it would be found"
        before = running.get("/activity/summary")
        ended = until(lambda: all(row["status"] != "pending" for row in records(running)), what="the ends on record")
        assert ended
        for row in records(running):
            if WORD in json.dumps(running.get(f"/activity/{row['id']}")).lower() or row["type"] == "tool_call":
                erased = running.client.delete(f"/api/v1/activity/{row['id']}/payload")
                assert erased.status_code == 200, erased.text
                assert (erased.json()["status"], erased.json()["tool"]) == (row["status"], row["tool"])
        assert traces(running) == {}
        assert files(running.data_dir) == {}
        assert not url or rows_of(url) == []
        found = running.get("/activity/verify")
        assert found["result"] == "intact", found
        after = running.get("/activity/summary")
        assert after["total"] == before["total"], "that the calls were made stays"
    assert files(tmp_path / "data") == {}, "nor when it has ended"


async def test_a_call_that_goes_on_is_not_erased_by_half(tmp_path: Path) -> None:
    with attacked(tmp_path, "sqlite") as (target, _):
        with calling(target.running, f"{WORD}-waits") as call:
            row = waiting(target.running, f"{WORD}-waits")
            erased = target.running.client.delete(f"/api/v1/activity/{row['activity_id']}/payload")
            assert erased.status_code == 409 and "goes on" in erased.text
            assert decide(target.running, row, "deny").status_code == 200
            call.result(60)
        assert target.ended(f"{WORD}-waits")


@pytest.mark.parametrize("how", ["another event", "other words", "another seal", "unsealed"])
async def test_only_a_gateway_takes_words_out_of_the_chain(tmp_path: Path, how: str) -> None:
    """Who writes the database may pretend that a record was erased, or change what is left of one."""
    with attacked(tmp_path, "sqlite") as (target, _):
        running = target.running
        async with target.client("gate", "free", MODERN) as peer:
            for number in range(2):
                await ask(peer, gated("free:look", {"mark": f"{WORD}-{number}"}))
        first, second = (target.ended(f"{WORD}-{number}")[0]["id"] for number in range(2))
        assert running.client.delete(f"/api/v1/activity/{first}/payload").status_code == 200
        assert running.get("/activity/verify")["result"] == "intact"
        with closing(sqlite3.connect(running.data_dir / "activity.db", isolation_level=None)) as database:
            heads = database.execute("SELECT seq, head FROM events WHERE head LIKE '%\"asked\"%'").fetchall()
            (erased,) = [(seq, head) for seq, head in heads if first in head and "redacted" in head]
            (kept,) = [(seq, head) for seq, head in heads if second in head]
            head = {
                "another event": (kept[0], erased[1].replace(first, second)),
                "other words": (erased[0], erased[1].replace("look", "wipe")),
                "another seal": (erased[0], erased[1][:-20] + "0" * 17 + erased[1][-3:]),
                "unsealed": (kept[0], json.dumps({**json.loads(kept[1]), "tool": "wipe", "redacted": {"by": 1}})),
            }[how]
            database.execute("UPDATE events SET head = ? WHERE seq = ?", (head[1], head[0]))
        found = running.get("/activity/verify")
        assert found["result"] == "broken" and any(
            each["seq"] == head[0] for each in found["findings"] if "seq" in each
        )
