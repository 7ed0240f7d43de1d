"""Whoever can write the configuration can have a command started as us: a file that everybody can write is not read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.settings import load

pytestmark = [pytest.mark.proves("CONF-1"), pytest.mark.skipif(os.name != "posix", reason="other permissions")]


def written(path: Path, mode: int) -> Path:
    path.write_text('{"mcpServers": {"x": {"command": "true"}}}')
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o666, 0o602, 0o777, 0o622])
def test_a_file_that_everybody_can_write_is_refused_with_the_line_that_closes_it(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path / "c.json", mode)
    with pytest.raises(GatewayError) as caught:
        load(config=path, environ={})
    assert caught.value.code is Code.CONFIG_INVALID
    assert caught.value.message.endswith(f"so it is not read; close it with `chmod go-w {path}`")
    subprocess.run(["chmod", "go-w", str(path)], check=True)
    assert "x" in load(config=path, environ={}).settings.servers


def test_so_is_one_in_a_directory_where_everybody_can_replace_it_and_one_behind_a_link(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    path, link = written(place / "c.json", 0o600), tmp_path / "link.json"
    link.symlink_to(path)
    for mode, is_read in ((0o777, False), (0o1777, True), (0o755, True)):
        place.chmod(mode)
        for asked in (path, link):
            if is_read:
                assert load(config=asked, environ={}).exists
            else:
                with pytest.raises(GatewayError, match="everybody can put another file in the place of"):
                    load(config=asked, environ={})
    path.chmod(0o602)
    with pytest.raises(GatewayError, match="everybody can write"):
        load(config=link, environ={})


def test_a_group_is_warned_about(tmp_path: Path) -> None:
    (warning,) = load(config=written(tmp_path / "c.json", 0o664), environ={}).warnings
    assert "chmod go-w" in warning
    for mode in (0o600, 0o644, 0o400):
        assert load(config=written(tmp_path / f"{mode}.json", mode), environ={}).warnings == ()


def test_a_gateway_does_not_start_with_it(tmp_path: Path) -> None:
    path = written(tmp_path / "c.json", 0o666)
    ran = subprocess.run(
        [sys.executable, "-m", "mcpproxy_py", "serve", "--config", str(path), "--data-dir", str(tmp_path / "d")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, "chmod go-w" in ran.stderr) == (2, True)
