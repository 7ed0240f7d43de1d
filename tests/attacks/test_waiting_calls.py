"""Calls that wait for a person: approved by those who may not, about other arguments, twice, too late, in the database,
by the thousand, and with words that mean harm to whoever reads them (SEC-10)."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.support.gateway import Running, gateway, python_server, start, until
from tests.support.postgres import own_server
from tests.support.replicas import TOKEN, documented, replicas
from tests.support.waiting import calling, decide, params, reached, waiting
from tests.support.wire import HANDSHAKE, MODERN, Wire, text

pytestmark = pytest.mark.proves("SEC-10")
OTHER = "0" * 64


def servers(folder: Path, **extra: Any) -> dict[str, Any]:
    return {"notes": python_server("plain.py", "--log", str(folder / "calls"), confirm="destructive", **extra)}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("waiting")
    with gateway(folder / "data", {"mcpServers": servers(folder)}) as found:
        yield found


def status(running: Running, row: dict[str, Any]) -> str:
    return running.get(f"/confirmations/{row['id']}")["status"]


def test_a_yes_with_another_digest_is_none(running: Running) -> None:
    with calling(running, "digest-one") as one, calling(running, "digest-two") as two:
        first, second = waiting(running, "digest-one"), waiting(running, "digest-two")
        for wrong in (OTHER, second["arguments_sha256"]):
            said = running.post(f"/confirmations/{first['id']}/approve", {"arguments_sha256": wrong})
            assert said.status_code == 409, said.text
        for body in ({}, {"arguments_sha256": None}, {"arguments_sha256": first["arguments_sha256"].upper() + " "}):
            assert running.post(f"/confirmations/{first['id']}/approve", body).status_code == 400
        assert status(running, first) == "waiting" and not one.done()
        for row, call in ((first, one), (second, two)):
            assert decide(running, row, "deny").status_code == 200
            assert call.result(60)["isError"]
    assert reached(running, "digest-") == 0


def test_a_yes_is_used_once_and_a_decision_is_final(running: Running) -> None:
    with calling(running, "once-only") as call:
        row = waiting(running, "once-only")
        assert decide(running, row, "approve").status_code == 200
        assert not call.result(60).get("isError")
    for step in ("approve", "deny", "approve"):
        assert decide(running, row, step).status_code == 409
    with calling(running, "once-only") as again:  # the same arguments, to the letter
        other = waiting(running, "once-only")
        assert other["id"] != row["id"] and other["arguments_sha256"] == row["arguments_sha256"]
        assert decide(running, row, "approve").status_code == 409
        assert not again.done() and status(running, other) == "waiting"
        assert decide(running, other, "deny").status_code == 200
        assert again.result(60)["isError"]
    assert reached(running, "once-only") == 1


def test_no_agent_decides_not_even_about_its_own_call(running: Running) -> None:
    answer = running.post("/tokens", {"name": "agent"})
    assert answer.status_code == 201, answer.text
    secret = answer.json()["token"]
    with calling(running, "own-call", token=secret) as call:
        row = waiting(running, "own-call")
        assert row["principal"] == "agent:agent"
        body = {"arguments_sha256": row["arguments_sha256"], "name": "admin"}
        claims = [{"authorization": f"Bearer {secret}"}, {"x-api-key": secret}, {}, {"x-mcpproxy-client": "ui"},
                  {"authorization": f"Bearer {secret}", "x-mcpproxy-client": "cli", "origin": running.url}]  # fmt: skip
        with httpx.Client(base_url=running.url, timeout=60, trust_env=False) as thief:
            for headers in claims:
                for path in ("", f"/{row['id']}", "?mine", f"/{row['id']}?mine"):
                    said = thief.get(f"/api/v1/confirmations{path}", headers=headers)
                    assert said.status_code in (400, 401, 403), (path, headers, said.text)
                for step in ("approve", "deny"):
                    for method in ("POST", "GET", "PUT"):
                        said = thief.request(
                            method, f"/api/v1/confirmations/{row['id']}/{step}", json=body, headers=headers
                        )
                        assert said.status_code in (401, 403, 405), (method, headers, said.text)
        assert status(running, row) == "waiting" and not call.done()
        assert running.post("/tokens/agent/revoke").status_code == 200
        with pytest.raises(Exception):  # noqa: B017 (however it hears of that: its connection ends)
            assert call.result(60).get("isError")
            raise RuntimeError
    until(lambda: status(running, row) == "cancelled", what="the call to go with the token")
    assert decide(running, row, "approve").status_code == 409
    assert reached(running, "own-call") == 0


CHANGES: dict[str, dict[str, Any]] = {
    "denied": {"deny_tools": ["delete_note"]},
    "elsewhere": {"confirm_by": "client"},
    "disabled": {"enabled": False},
}


@pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_while_it_waited_counts_more_than_the_yes(tmp_path: Path, change: str, era: str) -> None:
    config = {"mcpServers": servers(tmp_path)}
    with gateway(tmp_path / "data", config) as running, calling(running, "changed", era) as call:
        row = waiting(running, "changed")
        new = {"name": "notes", "config": servers(tmp_path, **CHANGES[change])["notes"], "replace": True}
        answer = running.post("/servers", new)
        assert answer.status_code in (200, 201), answer.text
        assert decide(running, row, "approve").status_code == 200
        assert call.result(60)["isError"]
        assert reached(running, "changed") == 0


def rows_of(running: Running) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(running.data_dir / "activity.db", timeout=60)) as connection:
        return connection.execute("SELECT name, value FROM sealed_records WHERE kind = 'confirmation'").fetchall()


def test_a_row_that_somebody_wrote_is_no_yes_and_shows(tmp_path: Path) -> None:
    """Here nothing reads it before the next start."""
    running = start(tmp_path / "data", {"mcpServers": servers(tmp_path)})
    try:
        with calling(running, "forged") as call:
            row = waiting(running, "forged")
            ((name, value),) = rows_of(running)
            with closing(sqlite3.connect(running.data_dir / "activity.db", timeout=60)) as connection, connection:
                connection.execute("UPDATE sealed_records SET value = ? WHERE name = ?", (forge(value), name))
            assert not call.done() and status(running, row) == "waiting"
            running.kill()
            call.exception(60)
        running = start(tmp_path / "data")
        assert "forged" not in running.client.get("/api/v1/confirmations").text
        assert running.get("/activity/verify")["result"] == "broken"
        assert reached(running, "forged") == 0
    finally:
        running.stop()


def forge(value: str) -> str:
    return json.dumps({**json.loads(value), "status": "approved", "decided_by": {"principal": "admin"}})


@pytest.mark.parametrize("how", ["forged", "another's yes"])
def test_a_row_that_the_other_gateway_never_wrote_is_no_yes(tmp_path: Path, how: str) -> None:
    """Whoever writes the database can tell the gateways to look at once."""
    with own_server() as server:
        url = server.database()
        with replicas(tmp_path, url, documented(mcpServers=servers(tmp_path))) as (one, two):
            with calling(one, "let-through", token=TOKEN) as call:
                first = waiting(two, "let-through")
                assert decide(two, first, "approve").status_code == 200
                assert not call.result(60).get("isError")
            with calling(one, "not-let-through", token=TOKEN) as call, psycopg.connect(url, autocommit=True) as db:
                row = waiting(two, "not-let-through")
                found = db.execute("SELECT name, value FROM sealed_records WHERE kind = 'confirmation'").fetchall()
                (name,) = [name for name, value in found if row["id"] in value]
                (other,) = [name for name, value in found if first["id"] in value]
                kept = db.execute("SELECT value, version, seal FROM sealed_records WHERE name = %s", (name,)).fetchone()
                assert kept is not None
                if how == "forged":
                    db.execute("UPDATE sealed_records SET value = %s WHERE name = %s", (forge(kept[0]), name))
                else:
                    db.execute(
                        "UPDATE sealed_records SET (value, version, event, seal, at) = (SELECT value, version, event, "
                        "seal, at FROM sealed_records WHERE name = %s) WHERE name = %s", (other, name),
                    )  # fmt: skip
                hint = json.dumps(["somebody", "record", ["confirmation", name]])
                db.execute("SELECT pg_notify('mcpproxy', %s)", (hint,))
                until(lambda: name in json.dumps(one.get("/status")["store"]["unbelieved"]), what="the row to be read")
                assert not call.done() and reached(one, "not-let-through") == 0
                assert decide(two, row, "deny").status_code in (200, 409, 503)
                put_back = "UPDATE sealed_records SET value = %s, version = %s, seal = %s WHERE name = %s"
                db.execute(put_back, (*kept, name))
                one.post("/freeze")
                call.cancel()
                decide(one, row, "deny")
                call.result(60)
            assert reached(one, "not-let-through") == 0


def test_one_principal_has_its_share_and_the_others_theirs(tmp_path: Path) -> None:
    config = {
        "mcpServers": servers(tmp_path),
        "limits": {"per_principal": {"questions": 5}},
    }
    with gateway(tmp_path / "data", config) as running, ThreadPoolExecutor(60) as crowd:
        secret = running.post("/tokens", {"name": "greedy"}).json()["token"]
        peers = [Wire(running.mcp, token=secret) for _ in range(60)]
        calls = [crowd.submit(peer.request, "tools/call", params(f"crowd-{n}")) for n, peer in enumerate(peers)]
        until(lambda: sum(call.done() for call in calls) == 55, what="all but its share to be refused")
        assert all("OVERLOADED" in json.dumps(call.result()) or "share" in text(call.result())
                   for call in calls if call.done())  # fmt: skip
        until(lambda: len(running.get("/confirmations", status="waiting")["confirmations"]) == 5, what="its share")
        other = running.post("/tokens", {"name": "modest"}).json()["token"]
        with calling(running, "modest", token=other) as call:
            assert decide(running, waiting(running, "modest"), "approve").status_code == 200
            assert not call.result(60).get("isError")
        for row in running.get("/confirmations", status="waiting")["confirmations"]:
            assert decide(running, row, "deny").status_code == 200
        assert all(call.result(60)["isError"] for call in calls)
        assert reached(running, "crowd-") == 0


SECRET = "ghp_" + "A1b2C3d4E5f6" * 3
HARM: dict[str, Callable[[], tuple[str, dict[str, Any]]]] = {
    "html": lambda: ("<script>alert(1)</script><img src=x onerror=alert(1)>", {"html": "</script><b onclick=x>"}),
    "bidi": lambda: ("safe \u202etxt.exe\u2066 \u200b\x1b[2J", {"\u202eevil": "\u2067 \x1b]0;x\x07"}),
    "megabyte": lambda: ("long " * 100, {"blob": "x" * 1_000_000}),
    "secret": lambda: (f"the token is {SECRET}", {"token": SECRET, "nested": {"password": "hunter2hunter2"}}),
}


@pytest.mark.parametrize("kind", HARM)
def test_what_an_agent_writes_harms_nobody_who_reads_it(running: Running, kind: str) -> None:
    reason, args = HARM[kind]()
    with ThreadPoolExecutor(1) as pool:
        peer = Wire(running.mcp)
        call = pool.submit(peer.request, "tools/call", params(f"harm-{kind}", reason, **args))
        if kind == "megabyte":
            row = until(lambda: next(iter(running.get("/confirmations", status="waiting")["confirmations"]), None))
        else:
            row = waiting(running, f"harm-{kind}")
        listed = running.client.get("/api/v1/confirmations", params={"status": "waiting"})
        assert listed.headers["content-type"] == "application/json" and len(listed.content) < 64_000
        whole = json.dumps({"text": f"harm-{kind}", **args}, sort_keys=True, separators=(",", ":")).encode()
        assert row["arguments_sha256"] == hashlib.sha256(whole).hexdigest()
        assert decide(running, row, "deny", notes=f"no, {SECRET}").status_code == 200
        assert call.result(60)["isError"]
    shown = running.client.get(f"/api/v1/confirmations/{row['id']}").text
    for where in (listed.text, json.dumps(rows_of(running)), shown):
        assert SECRET not in where and "hunter2hunter2" not in where
    assert not any(ord(char) < 32 or char in "\u202e\u2066\u2067\u200b" for char in row["question"].replace("\n", ""))
    assert reached(running, "harm-") == 0
