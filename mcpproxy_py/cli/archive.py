"""A directory as one file: a tar of plain files, compressed, that begins with a manifest of their digests.

What is read may be of anybody. So there is no `tarfile` between: an archive is a row of headers of 512 bytes, and those
of anything but a plain file that the manifest lists, with its size, end the reading. Nothing is ever written outside of
the target, through a link, or beyond the sizes that the manifest announced.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.files import PRIVATE_DIRECTORY, PRIVATE_FILE, explained

MANIFEST: Final = "manifest.json"
FORMAT: Final = 1
BLOCK: Final = 512
CHUNK: Final = 1 << 20
LARGEST_MANIFEST: Final = 16 << 20
MOST_FILES: Final = 100_000
DEEPEST: Final = 16
Stream = IO[bytes] | gzip.GzipFile


def pack(folder: Path, target: Path, about: Mapping[str, Any]) -> dict[str, Any]:
    """Every file below `folder` in one private file, which appears when it is complete. The manifest is given back."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    files = [{"name": path.relative_to(folder).as_posix(), "size": path.stat().st_size, "sha256": _digest(path)}
             for path in paths]  # fmt: skip
    manifest = {"format": FORMAT, **about, "files": files}
    with _replaced(target) as raw, gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, filename="") as packed:
        text = json.dumps(manifest, indent=1).encode()
        _add(packed, MANIFEST, len(text), io.BytesIO(text))
        for path, said in zip(paths, files, strict=True):
            with path.open("rb") as file:
                _add(packed, str(said["name"]), int(said["size"]), file)
        packed.write(b"\0" * BLOCK * 2)
    return manifest


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _replaced(target: Path) -> Iterator[IO[bytes]]:
    with explained(target, "write"):
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _add(packed: Stream, name: str, size: int, file: IO[bytes]) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, PRIVATE_FILE
    try:
        packed.write(info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict"))
    except ValueError:  # a name or a size that a plain header has no room for
        raise GatewayError(Code.TOO_LARGE, f"{name} is too large, or its name too long, for an archive") from None
    shutil.copyfileobj(file, packed, CHUNK)
    packed.write(b"\0" * (-size % BLOCK))


def unpack(archive: Path, target: Path) -> dict[str, Any]:
    """Every file of the archive below `target`, an empty directory of ours, and the manifest. Raises `GatewayError` at
    the first thing that is not as the manifest says."""
    try:
        with archive.open("rb") as raw, gzip.GzipFile(fileobj=raw) as packed:
            members = _members(packed)
            manifest = _manifest(next(members, None))
            expected = _expected(manifest)
            _refuse_without_room(sum(size for size, _ in expected.values()), target)
            for name, size, chunks in members:
                if expected.pop(name, (-1, ""))[0] != size:
                    raise _bad(f"its manifest does not list {name!r} with this size, or it is there twice")
                _write(target / name, chunks)
            if expected:
                raise _bad(f"{next(iter(expected))!r} is missing")
    except (gzip.BadGzipFile, zlib.error, EOFError):
        raise _bad("it is cut short, damaged, or no backup") from None
    except OSError as error:
        raise GatewayError(Code.NOT_FOUND, f"{error.filename or archive} cannot be used: {error.strerror}") from None
    for said in manifest["files"]:
        if _digest(target / said["name"]) != said["sha256"]:
            raise _bad(f"{said['name']!r} is not what was backed up: its digest differs")
    return manifest


Member = tuple[str, int, Iterator[bytes]]


def _members(packed: Stream) -> Iterator[Member]:
    """Name, size and content of each file. The content is read before the next file is asked for."""
    while (header := packed.read(BLOCK)) != b"\0" * BLOCK:
        try:
            info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        except (tarfile.HeaderError, UnicodeError):
            raise _bad("it is cut short, damaged, or no backup") from None
        if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or info.linkname:
            raise _bad(f"{info.name!r} is no plain file")
        if not is_inside(info.name):
            raise _bad(f"{info.name!r} is no name of a file in it")
        yield info.name, info.size, _content(packed, info.size)


def is_inside(name: str) -> bool:
    """Whether this is the plain name of a file below a directory."""
    path = PurePosixPath(name)
    return (
        0 < len(path.parts) <= DEEPEST
        and name == path.as_posix()
        and not path.is_absolute()
        and not any(part in ("..", ".") for part in path.parts)
        and name.isprintable()
        and "\\" not in name
    )


def _content(packed: Stream, size: int) -> Iterator[bytes]:
    left = size
    while left:
        chunk = packed.read(min(left, CHUNK))
        if not chunk:
            raise EOFError
        left -= len(chunk)
        yield chunk
    packed.read(-size % BLOCK)


def _manifest(first: Member | None) -> dict[str, Any]:
    if first is None or first[0] != MANIFEST or first[1] > LARGEST_MANIFEST:
        raise _bad("it does not begin with a manifest")
    try:
        manifest = json.loads(b"".join(first[2]))
    except (ValueError, RecursionError):
        raise _bad("its manifest cannot be read") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise _bad("its manifest cannot be read")
    if manifest["format"] > FORMAT:
        raise _bad(f"it was made by a newer mcpproxy ({manifest.get('version')!s:.40}); restore it with that version")
    return manifest


def _expected(manifest: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
    files, found = manifest.get("files"), dict[str, tuple[int, str]]()
    for said in files if isinstance(files, list) and len(files) <= MOST_FILES else [None]:
        match said:
            case {"name": str(name), "size": int(size), "sha256": str(digest)} if is_inside(name) and size >= 0:
                found[name] = (size, digest)
            case _:
                raise _bad("its manifest cannot be read")
    return found


def _refuse_without_room(size: int, target: Path) -> None:
    free = shutil.disk_usage(target).free
    if size > free:
        raise GatewayError(
            Code.TOO_LARGE, f"There is no room for it in {target.parent}: it takes {size:,} bytes, {free:,} are free"
        )


def _write(path: Path, chunks: Iterator[bytes]) -> None:
    path.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, PRIVATE_FILE)
    with open(descriptor, "wb") as file:
        for chunk in chunks:
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())


def _bad(why: str) -> GatewayError:
    message = f"The backup cannot be restored: {why}. Nothing was changed"
    return GatewayError(Code.BAD_REQUEST, message, details={"remedy": "Use another backup."})
