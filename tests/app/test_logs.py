"""The gateway's log file: private, of a bounded size, never in the way (OPS-1)."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mcpproxy_py.errors import StoreUnavailable

WRITER = """
import logging, os, sys
from pathlib import Path
from mcpproxy_py.app import logs
logs.LARGEST = 2000
logs.configure("info", "text")
logs.keep(Path(sys.argv[1]))
for number in range(100):
    logging.info("line %d", number)
print("a word on stdout", flush=True)
"""


def write(path: Path, how: str) -> subprocess.CompletedProcess[str]:
    if how == "detached":
        with path.open("ab") as file:
            path.chmod(0o600)
            return subprocess.run([sys.executable, "-c", WRITER, str(path)], stdout=file, stderr=file, timeout=60)
    return subprocess.run([sys.executable, "-c", WRITER, str(path)], capture_output=True, text=True, timeout=60)


@pytest.mark.proves("OPS-1")
@pytest.mark.parametrize("how", ["foreground", "detached"])
def test_the_file_and_the_one_before_it_are_bounded_and_private(tmp_path: Path, how: str) -> None:
    path, before = tmp_path / "gateway.log", tmp_path / "gateway.log.1"
    done = write(path, how)
    assert done.returncode == 0
    if how == "foreground":
        assert (done.stderr.count("line"), "a word" in done.stdout) == (100, True)
    assert "line 99" in path.read_text()
    assert ("a word on stdout" in path.read_text()) is (how == "detached")
    for each in (path, before):
        assert each.stat().st_size < 2200 and stat.S_IMODE(each.stat().st_mode) == 0o600
    assert {each.name for each in tmp_path.iterdir()} == {"gateway.log", "gateway.log.1"}


def test_a_link_that_somebody_put_there_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine\n")
    (tmp_path / "gateway.log").symlink_to(tmp_path / "precious")
    done = write(tmp_path / "gateway.log", "foreground")
    assert done.returncode != 0 and StoreUnavailable.__name__ in done.stderr
    assert (tmp_path / "precious").read_text() == "mine\n"
