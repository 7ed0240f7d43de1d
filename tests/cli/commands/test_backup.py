"""`mcpproxy backup` and `restore`, with real gateways and a real record (OPS-2, USE-6)."""

from __future__ import annotations

import json
import os
import pty
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Running, clean_environment, gateway, python_server

pytestmark = pytest.mark.proves("OPS-2", "USE-6")
CONFIG = {"mcpServers": {"s": python_server("plain.py")}}


def mcpproxy(data_dir: Path, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcpproxy_py", *words, "--data-dir", str(data_dir)],
        env=clean_environment(), capture_output=True, text=True, timeout=120, check=False,
        **{"stdin": subprocess.DEVNULL, **options},
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    """A gateway that ran, and a backup that was made while it was called."""
    base = tmp_path_factory.mktemp("site")
    with gateway(base / "data", CONFIG) as started:
        over = threading.Event()

        def busy() -> None:
            while not over.is_set():
                started.get("/tools/search", query="echo")

        caller = threading.Thread(target=busy)
        caller.start()
        try:
            for _ in range(20):
                started.get("/tools/search", query="before")
            done = mcpproxy(started.data_dir, "backup", str(base / "b.tar.gz"))
        finally:
            over.set()
            caller.join(60)
        assert done.returncode == 0, done.stderr
        assert "like a password" in done.stderr
        yield started, base / "b.tar.gz"


def test_a_backup_of_a_busy_gateway_restores_an_intact_record_that_a_new_gateway_goes_on_with(
    site: tuple[Running, Path], tmp_path: Path
) -> None:
    running, archive = site
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    done = mcpproxy(tmp_path / "new", "restore", str(archive), "--yes")
    assert (done.returncode, "Its record is intact." in done.stdout) == (0, True), done.stderr
    assert (tmp_path / "new" / "admin.key").read_text() == (running.data_dir / "admin.key").read_text()
    with gateway(tmp_path / "new") as again:
        searches = again.activities(q="before")  # by itself a page holds the last 500, and the other search goes on
        assert [row["arguments"]["query"] for row in searches] == ["before"] * 20
        assert again.get("/activity/verify")["result"] == "intact"


def test_what_was_there_is_kept_aside_and_is_no_part_of_the_next_backup(
    site: tuple[Running, Path], tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    (data_dir / "mcp_config.json").write_text('{"shutdown_timeout": 7}')
    done = mcpproxy(data_dir, "restore", str(site[1]), "--yes", "-o", "json")
    aside = Path(json.loads(done.stdout)["aside"])
    assert (aside / "mcp_config.json").read_text() == '{"shutdown_timeout": 7}'
    assert "plain.py" in (data_dir / "mcp_config.json").read_text()
    assert mcpproxy(data_dir, "backup", str(tmp_path / "next.tar.gz")).returncode == 0
    listed = subprocess.run(["tar", "tzf", str(tmp_path / "next.tar.gz")], capture_output=True, text=True, check=True)
    assert "before-restore" not in listed.stdout and "mcp_config.json" in listed.stdout


def test_a_running_gateway_is_not_restored_over(site: tuple[Running, Path]) -> None:
    done = mcpproxy(site[0].data_dir, "restore", str(site[1]), "--yes")
    assert (done.returncode, "mcpproxy stop" in done.stderr) == (1, True)


@pytest.mark.parametrize("typed", [None, b"n\n"], ids=["no terminal", "no"])
def test_nothing_is_replaced_without_a_yes(site: tuple[Running, Path], tmp_path: Path, typed: bytes | None) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    (data_dir / "mcp_config.json").write_text("{}")
    options: dict[str, Any] = {}
    ours, theirs = pty.openpty()
    if typed is not None:
        os.write(ours, typed)
        options["stdin"] = theirs
    done = mcpproxy(data_dir, "restore", str(site[1]), **options)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == (2 if typed is None else 1), done.stderr
    assert (data_dir / "mcp_config.json").read_text() == "{}"
    assert {path.name for path in data_dir.iterdir()} == {"mcp_config.json", "store.lock"}


def remade(archive: Path, tmp_path: Path, statement: str) -> Path:
    """The same backup with its database changed, and digests that fit."""
    from mcpproxy_py.cli.archive import pack, unpack

    folder = tmp_path / "folder"
    folder.mkdir()
    about = unpack(archive, folder)
    with closing(sqlite3.connect(folder / "activity.db")) as database:
        database.execute(statement)
        database.commit()
    pack(folder, tmp_path / "changed.tar.gz", {key: value for key, value in about.items() if key != "files"})
    return tmp_path / "changed.tar.gz"


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE alembic_version SET version_num = '9999'", "newer mcpproxy"),
        ("DELETE FROM events WHERE seq = (SELECT min(seq) + 1 FROM events)", "not what was written"),
    ],
)
def test_a_newer_database_and_a_record_that_was_changed_are_refused(
    site: tuple[Running, Path], tmp_path: Path, statement: str, why: str
) -> None:
    done = mcpproxy(tmp_path / "data", "restore", str(remade(site[1], tmp_path, statement)), "--yes")
    assert (done.returncode in (1, 3), why in done.stderr) == (True, True), done.stderr
    assert {path.name for path in (tmp_path / "data").iterdir()} == {"store.lock"}


def test_a_configuration_that_a_link_leads_to_is_in_the_backup(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    (tmp_path / "dotfiles.json").write_text('{"shutdown_timeout": 9}')
    (data_dir / "mcp_config.json").symlink_to(tmp_path / "dotfiles.json")
    assert mcpproxy(data_dir, "backup", str(tmp_path / "b.tar.gz")).returncode == 0
    assert mcpproxy(tmp_path / "new", "restore", str(tmp_path / "b.tar.gz"), "--yes").returncode == 0
    assert (tmp_path / "new" / "mcp_config.json").read_text() == '{"shutdown_timeout": 9}'


def test_with_postgresql_it_says_that_the_record_is_elsewhere(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    (data_dir / "mcp_config.json").write_text('{"activity": {"database_url": "postgresql://nobody@nowhere/x"}}')
    done = mcpproxy(data_dir, "backup", str(tmp_path / "b.tar.gz"))
    assert (done.returncode, "pg_dump" in done.stderr) == (0, True)
    done = mcpproxy(tmp_path / "new", "restore", str(tmp_path / "b.tar.gz"), "--yes")
    assert (done.returncode, "pg_dump" in done.stderr) == (0, True)


def test_a_place_that_is_wrong_or_taken_is_said(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    assert mcpproxy(tmp_path / "nothing", "backup", str(tmp_path / "b")).returncode == 1
    assert mcpproxy(data_dir, "backup", str(data_dir / "b")).returncode == 2
    assert mcpproxy(data_dir, "backup", str(tmp_path / "no" / "b")).returncode == 1
    assert mcpproxy(data_dir, "restore", str(tmp_path / "b")).returncode == 1
    (tmp_path / "b").write_text("mine")
    assert mcpproxy(data_dir, "backup", str(tmp_path / "b")).returncode == 2
    assert (tmp_path / "b").read_text() == "mine"
    assert mcpproxy(data_dir, "backup", str(tmp_path / "b"), "--yes").returncode == 0
    assert (tmp_path / "b").read_bytes()[:2] == b"\x1f\x8b"
