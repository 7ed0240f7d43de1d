"""What comes out of an archive is what went in, or nothing: archives may be of anybody (OPS-2)."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcpproxy_py.cli.archive import is_inside, pack, unpack
from mcpproxy_py.errors import GatewayError

pytestmark = pytest.mark.proves("OPS-2")


def target(tmp_path: Path) -> Path:
    made = tmp_path / "target"
    made.mkdir()
    return made


def test_every_file_comes_back_private_and_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "journal").mkdir(parents=True)
    for name, content in {"a": b"", "journal/1.log": b"x" * 3_000_000, "übung": b"\0\1"}.items():
        (folder / name).write_bytes(content)
    (folder / "link").symlink_to("/etc/passwd")
    made = pack(folder, tmp_path / "b.tar.gz", {"version": "1"})
    assert stat.S_IMODE((tmp_path / "b.tar.gz").stat().st_mode) == 0o600
    into = target(tmp_path)
    assert unpack(tmp_path / "b.tar.gz", into) == made
    assert {path.relative_to(into).as_posix() for path in into.rglob("*") if path.is_file()} == {
        "a",
        "journal/1.log",
        "übung",
    }
    assert all((into / name).read_bytes() == (folder / name).read_bytes() for name in ("a", "journal/1.log", "übung"))
    assert stat.S_IMODE((into / "journal" / "1.log").stat().st_mode) == 0o600
    with tarfile.open(tmp_path / "b.tar.gz") as ordinary:
        assert ordinary.getnames()[0] == "manifest.json"


def test_a_file_that_cannot_be_written_leaves_the_one_before_it(tmp_path: Path) -> None:
    folder, archive = target(tmp_path), tmp_path / "b.tar.gz"
    (folder / "a").write_bytes(b"1")
    archive.write_bytes(b"the one before")
    (folder / ("n" * 200)).write_bytes(b"a name that a plain header has no room for")
    with pytest.raises(GatewayError, match="too long"):
        pack(folder, archive, {})
    assert archive.read_bytes() == b"the one before"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def entry(name: str, content: bytes = b"", **how: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = how.pop("size", len(content))
    for key, value in how.items():
        setattr(info, key, value)
    return info, content


def archive(
    tmp_path: Path, *entries: tuple[tarfile.TarInfo, bytes], manifest: Any = None, form: int = tarfile.GNU_FORMAT
) -> Path:
    """As somebody makes it who means harm; without a manifest of his own, one that lists everything honestly."""
    files = [
        {"name": info.name, "size": info.size, "sha256": hashlib.sha256(content).hexdigest()}
        for info, content in entries
    ]
    said = json.dumps({"format": 1, "files": files} if manifest is None else manifest).encode()
    path = tmp_path / "bad.tar.gz"
    with gzip.open(path, "wb") as packed:
        for info, content in (entry("manifest.json", said), *entries):
            packed.write(info.tobuf(form, "utf-8", "surrogateescape"))
            packed.write(content + b"\0" * (-len(content) % 512))
        packed.write(b"\0" * 1024)
    return path


OUTSIDE = ["/etc/cron.d/x", "../x", "a/../../x", "a//b", "./a", "a/./b", "a\\..\\x", "a\nb", "/".join("a" * 17), "."]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    assert not is_inside(name)
    with pytest.raises(GatewayError, match="Nothing was changed"):
        unpack(archive(tmp_path, entry(name, b"x")), target(tmp_path))
    assert {path.name for path in tmp_path.rglob("*")} == {"bad.tar.gz", "target"}


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE,
             tarfile.GNUTYPE_SPARSE, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME],
)  # fmt: skip
def test_whatever_is_no_plain_file_is_refused(tmp_path: Path, kind: bytes) -> None:
    bad = archive(tmp_path, entry("a", b"x"), entry("b", type=kind, linkname="a" if kind in b"12" else ""))
    into = target(tmp_path)
    with pytest.raises(GatewayError, match="no plain file"):
        unpack(bad, into)
    assert {path.name for path in into.iterdir()} <= {"a"}


LISTED = {"name": "a", "size": 1, "sha256": hashlib.sha256(b"x").hexdigest()}


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ([LISTED], "does not list 'b'"),
        ([{**LISTED, "size": 2}, {**LISTED, "name": "b"}], "does not list 'a'"),
        ([LISTED, {**LISTED, "name": "b"}, {**LISTED, "name": "c"}], "'c' is missing"),
        ([{**LISTED, "sha256": "0"}, {**LISTED, "name": "b"}], "digest differs"),
        ([{**LISTED, "size": 1 << 60}, {**LISTED, "name": "b"}], "no room"),
        ([{**LISTED, "size": -1}], "manifest cannot be read"),
        ([{**LISTED, "name": "../a"}], "manifest cannot be read"),
        ([3], "manifest cannot be read"),
        ("files", "manifest cannot be read"),
    ],
)
def test_what_the_manifest_does_not_say_is_refused(tmp_path: Path, files: Any, why: str) -> None:
    bad = archive(tmp_path, entry("a", b"x"), entry("b", b"x"), manifest={"format": 1, "files": files})
    with pytest.raises(GatewayError, match=why):
        unpack(bad, target(tmp_path))


def test_a_file_that_comes_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GatewayError, match="twice"):
        unpack(archive(tmp_path, entry("a", b"x"), entry("a", b"x")), target(tmp_path))


@pytest.mark.parametrize("manifest", [[], {}, {"format": "1"}, {"format": 1}, 3], ids=json.dumps)
def test_a_manifest_that_is_none_is_refused(tmp_path: Path, manifest: Any) -> None:
    with pytest.raises(GatewayError, match="manifest cannot be read"):
        unpack(archive(tmp_path, manifest=manifest), target(tmp_path))


def test_an_archive_of_a_newer_format_says_which_version_reads_it(tmp_path: Path) -> None:
    newer = archive(tmp_path, manifest={"format": 2, "version": "9.1", "files": []})
    with pytest.raises(GatewayError, match=r"newer mcpproxy \(9\.1\)"):
        unpack(newer, target(tmp_path))


def cut(whole: bytes) -> bytes:
    return whole[: len(whole) // 2]


def flipped(whole: bytes) -> bytes:
    return whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:]


def not_compressed(whole: bytes) -> bytes:
    return gzip.decompress(whole)


def without_manifest(whole: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz"):
        pass
    return out.getvalue()


@pytest.mark.parametrize("damage", [cut, flipped, not_compressed, without_manifest, lambda whole: b""])
def test_a_damaged_archive_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").write_bytes(bytes(range(256)) * 40)
    pack(folder, tmp_path / "b.tar.gz", {})
    (tmp_path / "b.tar.gz").write_bytes(damage((tmp_path / "b.tar.gz").read_bytes()))
    with pytest.raises(GatewayError, match="Nothing was changed"):
        unpack(tmp_path / "b.tar.gz", target(tmp_path))
