"""A client that cannot be asked calls something destructive, and a person says yes elsewhere (SEC-10)."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Running, clean_environment, gateway, python_server, start, until
from tests.support.postgres import Server, own_server
from tests.support.readable import readable
from tests.support.replicas import SEALING_KEYS, TOKEN, documented, replicas, variables
from tests.support.waiting import calling, decide, params, reached, waiting
from tests.support.wire import HANDSHAKE, MODERN, RpcError, Wire, text

pytestmark = pytest.mark.proves("SEC-10")

CANCELLED = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
ERAS = pytest.mark.parametrize("era", [MODERN, HANDSHAKE])


def configuration(path: Path, **extra: Any) -> dict[str, Any]:
    return {
        "mcpServers": {"notes": python_server("plain.py", "--log", str(path / "calls"), confirm="destructive")},
        **extra,
    }


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("confirmations")
    with gateway(path / "data", configuration(path)) as found:
        yield found


def recorded(running: Running, call_id: str) -> dict[str, Any]:
    running.catch_up()
    return running.get(f"/activity/{call_id}")


@ERAS
def test_a_persons_yes_lets_it_run_and_the_record_says_who_and_how(running: Running, era: str) -> None:
    word = f"yes-{era}"
    with calling(running, word, era) as call:
        row = waiting(running, word)
        assert (row["tool"], row["operation"], row["server"]) == ("notes:delete_note", "destructive", "notes")
        assert row["reason"] == "the user wants it gone" and row["client"]["name"] == "test-client"
        assert not call.done() and reached(running, word) == 0
        answer = decide(running, row, "approve", name="ann", notes="go on", terminal=True)
        assert answer.status_code == 200, answer.text
        assert not call.result(60).get("isError")
    assert reached(running, word) == 1
    seen = running.get(f"/confirmations/{row['id']}")
    assert (seen["status"], seen["decided_by"]) == (
        "approved", {"principal": "admin", "name": "ann", "source": "api", "terminal": True},
    )  # fmt: skip
    record = recorded(running, row["activity_id"])
    assert record["status"] == "success"
    assert record["metadata"]["confirmed"]["by"]["name"] == "ann", record["metadata"]
    (done,) = [each for each in running.activities(type="approval") if row["id"] in json.dumps(each["arguments"])]
    assert (done["tool"], done["principal"], done["arguments"]["name"]) == ("approve_call", "admin", "ann")


@ERAS
def test_a_no_refuses_it(running: Running, era: str) -> None:
    word = f"no-{era}"
    with calling(running, word, era) as call:
        row = waiting(running, word)
        assert decide(running, row, "deny", notes="not on a Friday").status_code == 200
        result = call.result(60)
    assert result["isError"] and "a person said no: not on a Friday" in text(result)
    assert reached(running, word) == 0
    assert recorded(running, row["activity_id"])["error"]["code"] == "NOT_CONFIRMED"


def command(running: Running, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Without a terminal: nothing is asked."""
    whole = [sys.executable, "-m", "mcpproxy_py", "approvals", *words, "--data-dir", str(running.data_dir)]
    return subprocess.run(
        whole,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        env=clean_environment(**env),
        check=False,
    )


def test_the_command_line_says_yes_by_the_beginning_of_an_id(running: Running) -> None:
    with calling(running, "by-command") as call:
        row = waiting(running, "by-command")
        assert row["id"].startswith("call_")
        assert row["id"] in command(running, "list").stdout
        shown = command(running, "show", row["id"]).stdout
        assert "Allow this destructive call?" in shown and row["arguments_sha256"] in shown
        done = command(running, "approve", row["id"][:-4], "--notes", "fine")
        assert done.returncode == 0, done.stderr
        assert not call.result(60).get("isError")
    by = recorded(running, row["activity_id"])["metadata"]["confirmed"]["by"]
    assert (by["source"], by["terminal"]) == ("cli", False) and by["name"]


def test_watch_shows_new_ones_as_they_come_and_rings_the_bell_on_a_terminal(running: Running) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "mcpproxy_py", "approvals", "watch", "--data-dir", str(running.data_dir)],
        stdin=theirs, stdout=theirs, stderr=theirs, env=clean_environment(TERM="xterm"), start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        with calling(running, "watched") as call:
            row = waiting(running, "watched")
            seen, deadline = b"", time.monotonic() + 60
            while row["id"].encode() not in seen and readable([ours], deadline - time.monotonic()):
                seen += os.read(ours, 65536)
            assert b"\a" in seen and row["id"].encode() in seen, seen
            assert decide(running, row, "deny").status_code == 200
            assert call.result(60)["isError"]
    finally:
        process.kill()
        process.wait(60)
        os.close(ours)


def test_of_two_people_one_is_first_and_the_other_is_told(running: Running) -> None:
    with calling(running, "two-people") as call, ThreadPoolExecutor(2) as people:
        row = waiting(running, "two-people")
        said = [people.submit(decide, running, row, step) for step in ("approve", "deny")]
        statuses = sorted(each.result(60).status_code for each in said)
        assert statuses == [200, 409], [each.result().text for each in said]
        winner = running.get(f"/confirmations/{row['id']}")["status"]
        assert bool(call.result(60).get("isError")) == (winner == "denied")
    assert reached(running, "two-people") == (winner == "approved")


@ERAS
def test_what_was_frozen_meanwhile_is_refused_in_spite_of_the_yes(running: Running, era: str) -> None:
    word = f"frozen-{era}"
    with calling(running, word, era) as call:
        row = waiting(running, word)
        try:
            assert running.post("/freeze").status_code == 200
            assert decide(running, row, "approve").status_code == 200
            result = call.result(60)
        finally:
            assert running.post("/unfreeze").status_code == 200
    assert result["isError"] and "frozen" in text(result)
    assert reached(running, word) == 0


@ERAS
def test_a_client_that_gives_up_leaves_no_yes_behind(running: Running, era: str) -> None:
    """A modern one hangs up; one with a session says so."""
    word = f"gone-{era}"
    peer = Wire(running.mcp, era)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(peer.request, "tools/call", params(word))
        row = waiting(running, word)
        if era == MODERN:
            peer.http.close()
        else:
            other = httpx.post(
                running.mcp,
                json={**CANCELLED, "params": {"requestId": next(peer.ids) - 1}},
                headers=peer.headers, timeout=60,
            )  # fmt: skip
            assert other.status_code == 202, other.text
        until(lambda: running.get(f"/confirmations/{row['id']}")["status"] == "cancelled", what="the call to be gone")
        call.exception(60)
    assert decide(running, row, "approve").status_code == 409
    assert reached(running, word) == 0
    assert recorded(running, row["activity_id"])["status"] == "cancelled"


def test_one_of_the_handshake_era_hears_progress_while_it_waits(running: Running) -> None:
    with ThreadPoolExecutor(1) as pool:
        peer = Wire(running.mcp, HANDSHAKE)
        call = pool.submit(peer.send, "tools/call", params("progress"), progressToken="mine")
        row = waiting(running, "progress")
        assert decide(running, row, "approve").status_code == 200
        *before, last = call.result(60)
    told = [each["params"] for each in before if each.get("method") == "notifications/progress"]
    assert told and told[0]["progressToken"] == "mine" and row["id"] in told[0]["message"]
    assert not last["result"].get("isError")


def test_rest_keeps_its_own_question(running: Running) -> None:
    body = {"variant": "destructive", **params("by-rest")["arguments"]}
    answer = running.post("/call", body)
    assert answer.status_code == 403 and answer.json()["error"]["code"] == "NOT_CONFIRMED"


@ERAS
def test_silence_is_a_no(tmp_path: Path, era: str) -> None:
    with gateway(tmp_path / "data", configuration(tmp_path, limits={"input_timeout": 1})) as running:
        with calling(running, "unheard", era) as call:
            result = rounds(running, "unheard", call.result(60))
        assert result["isError"] and "nobody answered within 1 s" in text(result)
        rows = running.get("/confirmations")["confirmations"]
        until(lambda: running.get("/confirmations")["confirmations"][0]["status"] == "expired", what="it to expire")
        assert decide(running, rows[0], "approve").status_code == 409
        assert reached(running, "unheard") == 0


def rounds(running: Running, word: str, result: dict[str, Any]) -> dict[str, Any]:
    """A modern client comes back with the state as long as there is nothing but that."""
    for _ in range(20):
        if result.get("resultType") != "input_required":
            return result
        assert "inputRequests" not in result
        result = Wire(running.mcp).request("tools/call", {**params(word), "requestState": result["requestState"]})
    raise AssertionError("more rounds than a client follows")


def test_a_modern_client_comes_back_for_the_answer(tmp_path: Path) -> None:
    with gateway(tmp_path / "data", configuration(tmp_path, limits={"input_timeout": 16})) as running:
        with calling(running, "later") as call:
            first = call.result(60)
            assert (first["resultType"], "inputRequests" in first) == ("input_required", False)
            with ThreadPoolExecutor(1) as pool:
                rest = pool.submit(rounds, running, "later", first)
                assert decide(running, waiting(running, "later"), "approve").status_code == 200
                result = rest.result(60)
        assert not result.get("isError"), result
        assert reached(running, "later") == 1
        with pytest.raises(RpcError):
            Wire(running.mcp).request("tools/call", {**params("later"), "requestState": first["requestState"]})
        assert reached(running, "later") == 1


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_after_a_restart_it_is_cancelled(tmp_path: Path, how: str) -> None:
    running = start(tmp_path / "data", configuration(tmp_path))
    try:
        with calling(running, "restarted") as call:
            row = waiting(running, "restarted")
            running.stop() if how == "stopped" else running.kill()
            call.exception(60)
        running = start(tmp_path / "data")
        seen = running.get(f"/confirmations/{row['id']}")
        assert seen["status"] == "cancelled"
        assert decide(running, row, "approve").status_code == 409
        assert reached(running, "restarted") == 0
        assert running.get("/status")["store"]["unbelieved"] == []
    finally:
        running.stop()


# Two gateways of one database.


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with own_server() as server:
        yield server


def test_a_person_at_another_replica_says_yes_or_no(tmp_path: Path, server: Server) -> None:
    config = documented(**configuration(tmp_path))
    with replicas(tmp_path, server.database(), config) as (one, two):
        for word, step in (("far-yes", "approve"), ("far-no", "deny")):
            with calling(one, word, token=TOKEN) as call:
                row = waiting(two, word)
                assert row == waiting(one, word)
                assert decide(two, row, step, name="ann").status_code == 200
                assert bool(call.result(60).get("isError")) == (step == "deny")
            assert reached(one, word) == (step == "approve")
        with calling(one, "far-race", token=TOKEN) as call, ThreadPoolExecutor(2) as people:
            row = waiting(two, "far-race")
            until(lambda: waiting(one, "far-race"), what="it to be seen at both")
            said = [people.submit(decide, each, row, "approve") for each in (one, two)]
            assert sorted(each.result(60).status_code for each in said) == [200, 409]
            assert not call.result(60).get("isError")
        assert reached(one, "far-race") == 1

        peer = Wire(one.mcp, token=TOKEN)
        with ThreadPoolExecutor(1) as pool:
            given_up = pool.submit(peer.request, "tools/call", params("far-gone"))
            row = waiting(two, "far-gone")
            peer.http.close()
            given_up.exception(60)
        until(lambda: two.get(f"/confirmations/{row['id']}")["status"] == "cancelled", what="it to go at the other too")
        assert decide(two, row, "approve").status_code == 409
        assert reached(one, "far-gone") == 0
        assert one.get("/activity/verify")["result"] == "intact"


def forgotten(url: str, running: Running) -> None:
    """As if it had died a minute ago: the others wait half of one before they believe it."""
    import psycopg

    name = (running.data_dir / "chain.name").read_text().strip()
    with psycopg.connect(url, autocommit=True) as database:
        changed = database.execute("UPDATE gateways SET seen_at = seen_at - 60000000 WHERE name = %s", [name])
        assert changed.rowcount == 1


def test_a_yes_that_the_gateway_of_the_call_did_not_live_to_take_is_told_as_one(tmp_path: Path, server: Server) -> None:
    config = documented(**configuration(tmp_path))
    url = server.database()
    with replicas(tmp_path, url, config) as (one, two):
        with calling(one, "far-taken", token=TOKEN) as call:
            row = waiting(two, "far-taken")
            assert decide(two, row, "approve").json()["status"] == "approved"
            assert not call.result(60).get("isError")
        until(lambda: two.get(f"/confirmations/{row['id']}")["delivered"], what="the gateway to say that it has it")

        with calling(one, "orphan-yes", token=TOKEN) as yes, calling(one, "orphan-cli", token=TOKEN) as cli, \
             calling(one, "orphan-late", token=TOKEN) as late:  # fmt: skip
            rows = [waiting(two, word) for word in ("orphan-yes", "orphan-cli", "orphan-late")]
            one.kill()
            for each in (yes, cli, late):
                each.exception(60)
        said = decide(two, rows[0], "approve")
        assert (said.status_code, said.json()["status"], said.json()["delivered"]) == (200, "approved", False)
        by_command = command(two, "approve", rows[1]["id"], **variables(url, SEALING_KEYS))
        assert by_command.returncode == 0 and "has not taken that up" in by_command.stderr, by_command
        assert two.get(f"/confirmations/{rows[1]['id']}")["delivered"] is False

        forgotten(url, one)
        for row in rows:
            until(lambda row=row: two.get(f"/confirmations/{row['id']}")["status"] == "cancelled", what="it to be gone")
        assert two.get("/confirmations", status="waiting")["confirmations"] == []
        late_yes = decide(two, rows[2], "approve")
        assert late_yes.status_code == 409 and "is cancelled" in late_yes.text

        again = start(one.data_dir, env=variables(url, SEALING_KEYS))
        try:
            for each in (again, two):
                for row in rows:
                    until(lambda e=each, r=row: e.get(f"/confirmations/{r['id']}")["status"] == "cancelled")
            assert again.get("/activity/verify")["result"] == "intact"
        finally:
            again.stop()
        assert [reached(one, word) for word in ("far-taken", "orphan")] == [1, 0]


def test_of_a_gateway_that_died_they_expire(tmp_path: Path, server: Server) -> None:
    config = documented(**configuration(tmp_path, limits={"input_timeout": 5}))
    with replicas(tmp_path, server.database(), config) as (one, two):
        with calling(one, "orphan", token=TOKEN) as call:
            row = waiting(two, "orphan")
            one.kill()
            call.exception(60)
        until(lambda: two.get(f"/confirmations/{row['id']}")["status"] == "expired", what="it to expire")
        assert decide(two, row, "approve").status_code == 409


def test_a_notification_on_the_desktop_says_nothing_that_an_agent_said(tmp_path: Path) -> None:
    told = tmp_path / "told"
    config = configuration(tmp_path, notify_desktop=True)
    with (
        gateway(tmp_path / "data", config, env=noticing(tmp_path / "bin", told)) as running,
        calling(running, "$(touch harm)", reason="<b>`touch harm`</b>") as call,
    ):
        until(told.exists, what="a notification")
        assert decide(running, waiting(running, "touch harm"), "deny").status_code == 200
        assert call.result(60)["isError"]
    assert told.read_text().splitlines() == NOTICE


NOTICE = ["--app-name=mcpproxy", "--", "A call waits for your yes",
          "At the server notes. See: mcpproxy approvals list"]  # fmt: skip


def noticing(programs: Path, told: Path) -> dict[str, str]:
    """The variables of a gateway that has a `notify-send`, which writes into a file."""
    programs.mkdir()
    notify = programs / "notify-send"
    notify.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {told}.new && mv {told}.new {told}\n')
    notify.chmod(0o755)
    return {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.proves("UP-8")
def test_notifications_are_switched_on_and_off_while_the_gateway_runs(tmp_path: Path) -> None:
    told = tmp_path / "told"

    def switch(on: bool) -> None:
        changed = running.post("/settings", {"settings": {"notify_desktop": on}})
        assert changed.status_code == 200, changed.text
        assert running.get("/settings")["awaits_restart"] == []

    with gateway(tmp_path / "data", configuration(tmp_path), env=noticing(tmp_path / "bin", told)) as running:
        with calling(running, "while off") as call:
            assert decide(running, waiting(running, "while off"), "deny").status_code == 200
            assert call.result(60)["isError"]
        assert not told.exists()
        switch(True)
        with calling(running, "while on") as call:
            row = waiting(running, "while on")
            until(told.exists, what="a notification")
            assert decide(running, row, "deny").status_code == 200
            assert call.result(60)["isError"]
        assert told.read_text().splitlines() == NOTICE, "of this call and no other"
        switch(False)
