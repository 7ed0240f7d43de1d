"""What fuzzing found (`tests/fuzz`) and a running gateway shows: edits of the record at which its check broke or that
it did not see, a cursor that was taken in two spellings, and a secret that what makes masking quick let through.

The rest of what was found is in the corpus: `tests/fuzz/test_corpus.py` replays it.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.attacks.target import Log, fresh, heard
from tests.support.gateway import Running, gateway, start, until
from tests.support.wire import Wire


def verified(data_dir: Path) -> tuple[int, str, str]:
    """Exit status, what is printed, and what is complained of."""
    program = [sys.executable, "-m", "mcpproxy_py.store.verify", str(data_dir)]
    done = subprocess.run(program, input="\n\n\n", capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def database_of(data_dir: Path) -> Path:
    (found,) = [path for path in data_dir.iterdir() if path.suffix in (".db", ".sqlite", ".sqlite3")]
    return found


def edit(data_dir: Path, statement: str) -> None:
    with closing(sqlite3.connect(database_of(data_dir))) as connection, connection:
        assert connection.execute(statement).rowcount > 0, statement


OF_ANOTHER_TYPE = {
    "a number is a text": "UPDATE events SET seq = 'two' WHERE seq = 2",
    "a head is bytes": "UPDATE events SET head = CAST(head AS BLOB) WHERE seq = 2",
    "arguments are bytes": "UPDATE activity SET arguments = x'ff00fe' WHERE arguments IS NOT NULL",
    "a gateway is a text": "UPDATE activity SET gateway = 'me'",
    "a key id is bytes": "UPDATE gateways SET key_id = CAST(key_id AS BLOB)",
}


@pytest.mark.proves("ACT-8", "ACT-10")
def test_a_record_with_values_of_another_type_is_broken_and_breaks_no_check_of_it(tmp_path: Path) -> None:
    """SQLite keeps any value in any column. The check ended with an exception, and said nothing of the record."""
    with gateway(tmp_path / "data", {"mcpServers": {"h": heard(tmp_path, "h")}}) as running:
        Wire(running.mcp).read("h:look", {"mark": fresh()})
        running.catch_up()
        assert running.get("/activity/verify")["result"] == "intact"
    for name, statement in OF_ANOTHER_TYPE.items():
        copy = tmp_path / "copy"
        shutil.copytree(running.data_dir, copy)
        edit(copy, statement)
        status, said, complaint = verified(copy)
        assert (status, json.loads(said)["result"]) == (1, "broken"), (name, said, complaint)
        assert "Traceback" not in complaint, name
        shutil.rmtree(copy)
    assert verified(running.data_dir)[0] == 0


@pytest.mark.proves("ACT-8", "ACT-10")
def test_a_payload_that_was_changed_before_the_database_had_it_is_found(tmp_path: Path) -> None:
    """What a killed gateway left in its journal is part of the record, arguments and answers too."""
    config = {"mcpServers": {"h": heard(tmp_path, "h")}}
    data_dir, before = tmp_path / "data", tmp_path / "before"
    with gateway(data_dir, config):
        pass
    shutil.copyfile(database_of(data_dir), before)
    mark = fresh()
    running = start(data_dir, config)
    try:
        Wire(running.mcp).read("h:look", {"mark": mark})
    finally:
        children = psutil.Process(running.process.pid).children(recursive=True)
        running.kill()
        until(lambda: not any(each.is_running() and each.status() != "zombie" for each in children), what="the end")
    for left in data_dir.glob(f"{database_of(data_dir).name}-*"):
        left.unlink()
    shutil.copyfile(before, database_of(data_dir))
    assert verified(data_dir)[0] == 0, verified(data_dir)
    segments = [path for path in (data_dir / "journal").iterdir() if mark.encode() in path.read_bytes()]
    for path in segments:
        path.write_bytes(path.read_bytes().replace(mark.encode(), mark[:-1].encode() + b"X"))
    assert segments, "the journal has what the database has not"
    status, said, _ = verified(data_dir)
    assert (status, json.loads(said)["result"]) == (1, "broken"), said


@pytest.fixture
def running(tmp_path: Path):
    with gateway(tmp_path / "data", {"mcpServers": {"h": heard(tmp_path, "h")}}) as running:
        yield running


@pytest.mark.proves("API-1")
def test_a_cursor_is_taken_in_the_one_spelling_in_which_it_was_given(running: Running) -> None:
    cursor = running.get("/tools", limit=1)["next_cursor"]
    assert running.get("/tools", limit=1, cursor=cursor)["tools"]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = alphabet[(alphabet.index(cursor[-1]) ^ 1) % 64]
    for other in (
        f"{cursor}=",
        f"{cursor}==",
        f" {cursor}",
        cursor[:-1] + last,
        cursor[:-1],
        f"{cursor}A",
        cursor.swapcase(),
    ):
        answer = running.client.get("/api/v1/tools", params={"limit": 1, "cursor": other})
        assert answer.status_code == 400, (other, answer.text)


@pytest.mark.proves("ACT-9")
def test_a_key_in_an_address_is_no_secret_that_is_kept(running: Running) -> None:
    mark, key = fresh(), "AbC9eFgHi0123JkLmNoPqR"
    Wire(running.mcp).read("h:look", {"mark": mark, "page": f"https://maps.example/api?v=3&key={key}"})
    rows = [row for row in running.activities() if mark in json.dumps(row["arguments"])]
    assert rows and key not in json.dumps(rows)
    assert key not in "".join(path.read_text() for path in (running.data_dir / "journal").iterdir())
    assert Log(running.data_dir.parent / "h.heard").has(key), "the server is told all of it"
