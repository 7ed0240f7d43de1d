"""Whoever can write the configuration can have a command started as us: a file that everybody can write is not read."""

from __future__ import annotations

import grp
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


def test_so_is_one_whose_link_everybody_can_replace_or_whose_directory_is_in_such_a_one(tmp_path: Path) -> None:
    inner = tmp_path / "open" / "inner"
    inner.mkdir(parents=True)
    path, link, second = written(tmp_path / "c.json", 0o600), inner.parent / "link.json", tmp_path / "second.json"
    link.symlink_to(path)
    second.symlink_to(link)
    inside = written(inner / "c.json", 0o600)
    inner.parent.chmod(0o777)
    for asked in (link, second, inside):
        with pytest.raises(GatewayError) as caught:
            load(config=asked, environ={})
        assert caught.value.message.endswith(f"close it with `chmod go-w {inner.parent}`")
    inner.parent.chmod(0o755)
    assert all(load(config=asked, environ={}).exists for asked in (link, second, inside))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another group")
def test_so_is_one_that_a_group_of_several_can_write_or_replace(tmp_path: Path) -> None:
    several = next(group.gr_gid for group in grp.getgrall() if group.gr_gid != 0)
    path = written(tmp_path / "c.json", 0o660)
    os.chown(path, 0, several)
    with pytest.raises(GatewayError, match=r"others of its group can write .* close it with `chmod go-w"):
        load(config=path, environ={})
    path.chmod(0o640)
    assert load(config=path, environ={}).warnings == ()
    tmp_path.chmod(0o770)
    os.chown(tmp_path, 0, several)
    with pytest.raises(GatewayError, match="others of its group can put another file in the place of"):
        load(config=path, environ={})
    tmp_path.chmod(0o750)
    # A user that is none of this machine's, as in a container, with a group of the same number.
    for number, is_read in ((4_242_424, True), (4_242_425, False)):
        path.chmod(0o660)
        os.chown(path, 4_242_424, number)
        if is_read:
            assert "chmod go-w" in load(config=path, environ={}).warnings[0]
        else:
            with pytest.raises(GatewayError, match="others of its group"):
                load(config=path, environ={})


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
