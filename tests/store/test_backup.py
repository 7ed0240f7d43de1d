"""Backup and restore, step by step as `docs/howto/backup-and-restore.md` says (OPS-2)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store import backup
from mcpproxy_py.store.activity.reader import Filters
from mcpproxy_py.store.backup import back_up
from mcpproxy_py.store.store import Store, open_store
from tests.store.conftest import on_sqlite
from tests.support.gateway import until

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "howto" / "backup-and-restore.md"
COMMAND = "python -m mcpproxy_py.store.backup"

pytestmark = [on_sqlite, pytest.mark.proves("OPS-2"), pytest.mark.anyio]
Make = Callable[..., dict[str, Any]]
Open = Callable[[Path], Store]


def run_documented_command(*arguments: object) -> subprocess.CompletedProcess[str]:
    assert COMMAND in GUIDE.read_text()
    command = [sys.executable, *COMMAND.split()[1:], *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


async def ids(store: Store) -> set[str]:
    return {row["id"] for row in (await store.activities(Filters(limit=500))).activities}


async def test_a_backup_of_a_running_gateway_restores_everything_up_to_its_beginning(
    tmp_path: Path, opened: Open, asked: Make, finished: Make
) -> None:
    data, saved, restored = tmp_path / "data", tmp_path / "saved", tmp_path / "restored"
    store = opened(data)
    (data / "mcp_config.json").write_text('{"mcpServers": {}}')
    for number in range(300):
        store.append(asked(f"{number:04d}"), finished(f"{number:04d}"))
    await store.set_switch("freeze", True)
    done = run_documented_command(data, saved)
    assert done.returncode == 0, done.stderr
    store.append(asked("later"))

    shutil.copytree(saved, restored)
    again = opened(restored)
    assert await ids(again) == {f"{number:04d}" for number in range(300)}
    assert await again.switch("freeze") is True
    assert (restored / "mcp_config.json").read_text() == '{"mcpServers": {}}'


async def test_what_only_the_journal_holds_is_in_the_backup_and_a_switch_set_meanwhile_with_its_event(
    tmp_path: Path, opened: Open, asked: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row of a switch is in the database at once; its event is brought by the writer, which is stopped here."""
    store = open_store(tmp_path / "data", apart=True)
    until(lambda: store._writer.pid, what="the writer")
    assert await store.caught_up(30)
    os.kill(store._writer.pid, signal.SIGSTOP)
    copy_database = backup._copy_database

    def copy_later(*where: Path) -> None:
        anyio.from_thread.run(store.set_switch, "freeze", True)
        copy_database(*where)

    monkeypatch.setattr(backup, "_copy_database", copy_later)
    try:
        store.append(asked("in the journal"))
        await anyio.to_thread.run_sync(back_up, tmp_path / "data", tmp_path / "saved")
        assert not sqlite3.connect(tmp_path / "saved" / "activity.db").execute("SELECT * FROM events").fetchall()
    finally:
        os.kill(store._writer.pid, signal.SIGCONT)
        store.close()
    checked = [sys.executable, "-m", "mcpproxy_py.store.verify", str(tmp_path / "saved")]
    report = await anyio.run_process(checked, check=False)
    assert json.loads(report.stdout)["result"] == "intact", report.stdout
    again = opened(tmp_path / "saved")
    assert (await ids(again), await again.switch("freeze")) == ({"in the journal"}, True)


async def test_an_older_database_under_a_newer_journal_catches_up(
    tmp_path: Path, opened: Open, asked: Make, finished: Make
) -> None:
    store = opened(tmp_path / "data")
    store.append(asked("first"), finished("first"))
    assert await store.caught_up(30)
    back_up(tmp_path / "data", tmp_path / "saved")
    store.append(asked("second"), finished("second"))
    store.close()
    for path in (tmp_path / "data").glob("activity.db*"):
        path.unlink()
    shutil.copy(tmp_path / "saved" / "activity.db", tmp_path / "data" / "activity.db")
    assert await ids(opened(tmp_path / "data")) == {"first", "second"}


async def test_a_backup_is_as_private_as_what_it_was_made_of(tmp_path: Path, opened: Open, asked: Make) -> None:
    opened(tmp_path / "data").append(asked())
    back_up(tmp_path / "data", tmp_path / "saved")
    found = {path.relative_to(tmp_path / "saved").as_posix(): stat.S_IMODE(path.stat().st_mode)
             for path in (tmp_path / "saved").rglob("*")}  # fmt: skip
    assert found.pop("journal") == 0o700
    assert set(found) >= {"activity.db", "journal/0000000001.log", "chain.key"}
    assert "store.lock" not in found
    assert set(found.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / "saved").stat().st_mode) == 0o700


async def test_a_backup_overwrites_nothing_and_says_what_is_wrong(tmp_path: Path, opened: Open) -> None:
    opened(tmp_path / "data")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    with pytest.raises(StoreUnavailable, match="is not empty"):
        back_up(tmp_path / "data", tmp_path / "full")
    missing = run_documented_command(tmp_path / "nowhere", tmp_path / "saved")
    assert (missing.returncode, "no mcpproxy database" in missing.stderr) == (1, True)
    assert run_documented_command(tmp_path).returncode == 2
