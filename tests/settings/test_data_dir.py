"""The data directory and the admin key are their owner's alone, or there is an error that says how to mend it."""

from __future__ import annotations

import logging
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.settings import ensure_data_dir, load_or_create_key, rotate_key

pytestmark = pytest.mark.proves("OPS-2")

ROOT = Path(__file__).parents[2]
NOBODY = 65_534
# Root may write anywhere, so the child becomes somebody else once it has read the program.
ENSURE = """
import os, sys
from pathlib import Path
from mcpproxy_py.errors import GatewayError
from mcpproxy_py.settings import ensure_data_dir
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(int(sys.argv[2]))
    os.setuid(int(sys.argv[2]))
try:
    ensure_data_dir(Path(sys.argv[1]))
except GatewayError as error:
    sys.exit(f"{error.code}: {error.message}")
"""

MAKE_KEY = """
import sys
from pathlib import Path
from mcpproxy_py.settings import load_or_create_key
print(load_or_create_key(Path(sys.argv[1])))
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def refused_dir(path: Path) -> str:
    with pytest.raises(GatewayError) as caught:
        ensure_data_dir(path)
    assert caught.value.code is Code.CONFIG_INVALID
    assert str(path) in caught.value.message
    assert "choose another with --data-dir" in caught.value.message
    return caught.value.message


@pytest.mark.proves("CONF-2")
def test_a_missing_directory_is_made_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    ensure_data_dir(path)
    assert (mode(path), list(path.iterdir())) == (0o700, [])
    ensure_data_dir(path)


@pytest.mark.parametrize("held", [None, "mcp_config.json", "admin.key"])
def test_a_directory_that_is_ours_is_closed_to_others(tmp_path: Path, held: str | None) -> None:
    path = tmp_path / "d"
    path.mkdir()
    path.chmod(0o755)
    if held:
        (path / held).write_text("{}")
    ensure_data_dir(path)
    assert mode(path) == 0o700


def test_a_directory_that_may_be_somebody_elses_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "d"
    path.mkdir()
    path.chmod(0o755)
    (path / "thesis.txt").write_text("")
    assert f"is open to other users; close it with `chmod 700 {path}`" in refused_dir(path)
    assert mode(path) == 0o755


def test_something_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    assert "cannot be written: " in refused_dir(path)
    assert "Not a directory" in refused_dir(path / "below")


@pytest.mark.proves("CONF-1")
@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("missing", [False, True], ids=["read-only itself", "below a read-only one"])
def test_a_read_only_directory_is_an_error_that_names_it_and_the_fix(missing: bool) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "data"
        path.mkdir()
        Path(directory).chmod(0o755)
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)
        path.chmod(0o500)
        target = path / "deeper" if missing else path
        command = [sys.executable, "-c", ENSURE, str(target), str(NOBODY)]
        found = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
        path.chmod(0o700)
    assert found.returncode == 1
    message = f"CONFIG_INVALID: the data directory {target} cannot be written: Permission denied; open it for yourself"
    assert message in found.stderr
    assert f"`chmod u+rwx {target}`" in found.stderr


@pytest.mark.proves("API-2")
def test_the_admin_key_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    key = load_or_create_key(tmp_path)
    assert re.fullmatch(r"mcpk_[A-Za-z0-9_-]{43}", key)
    assert mode(tmp_path / "admin.key") == 0o600
    assert load_or_create_key(tmp_path) == key
    assert [path.name for path in tmp_path.iterdir()] == ["admin.key"]


@pytest.mark.proves("API-2")
def test_a_rotated_key_replaces_the_old_one(tmp_path: Path) -> None:
    old = load_or_create_key(tmp_path)
    new = rotate_key(tmp_path)
    assert new != old
    assert load_or_create_key(tmp_path) == new
    assert mode(tmp_path / "admin.key") == 0o600


@pytest.mark.proves("API-2")
def test_gateways_that_start_at_once_get_the_same_key(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAKE_KEY, str(tmp_path)]
    starts = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    keys = {start.communicate(timeout=60)[0].strip() for start in starts}
    assert keys == {load_or_create_key(tmp_path)}


@pytest.mark.proves("API-2")
def test_a_key_that_others_could_read_is_closed_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = load_or_create_key(tmp_path)
    path = tmp_path / "admin.key"
    path.chmod(0o644)
    with caplog.at_level(logging.WARNING, "mcpproxy.settings"):
        assert load_or_create_key(tmp_path) == key
    assert mode(path) == 0o600
    assert str(path) in caplog.text and "mcpproxy key rotate" in caplog.text
    assert key not in caplog.text


@pytest.mark.proves("API-2")
@pytest.mark.parametrize("content", ["", "\n", "short", "has a space in the middle", "ключ-ключ-ключ-ключ"])
def test_a_key_file_without_a_key_is_refused_and_not_repeated(tmp_path: Path, content: str) -> None:
    (tmp_path / "admin.key").write_text(content, encoding="utf-8")
    (tmp_path / "admin.key").chmod(0o600)
    with pytest.raises(GatewayError, match=r"admin\.key holds no key; remove it to have a new one made") as caught:
        load_or_create_key(tmp_path)
    assert not content.strip() or content not in caught.value.message


@pytest.mark.proves("API-2")
@pytest.mark.parametrize("target", ["elsewhere", "missing", "directory"])
def test_a_key_file_that_leads_elsewhere_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "elsewhere").write_text("mcpk_" + "x" * 43)
    (tmp_path / "directory").mkdir()
    (tmp_path / "admin.key").symlink_to(tmp_path / target)
    with pytest.raises(GatewayError, match=r"admin\.key cannot be read"):
        load_or_create_key(tmp_path)


@pytest.mark.proves("API-2")
def test_a_key_that_is_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "admin.key").mkdir()
    with pytest.raises(GatewayError, match=r"the admin key file .* is not a file|cannot be read"):
        load_or_create_key(tmp_path)


def test_a_key_cannot_be_made_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(GatewayError, match="cannot be written: No such file or directory"):
        load_or_create_key(tmp_path / "missing")
