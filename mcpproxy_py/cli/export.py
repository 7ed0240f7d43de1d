"""A long answer written to a file or to stdout, whole or not at all where that can be promised."""

from __future__ import annotations

import codecs
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcpproxy_py.cli.output import clean, note
from mcpproxy_py.errors import Code, GatewayError


def save(chunks: Iterable[bytes], out: Path) -> None:
    """Write every chunk. A file appears only when complete, readable by its owner alone."""
    if str(out) == "-":
        _to_stdout(chunks)
        return
    try:
        with _target(out) as file:
            size = _copy(chunks, file.write)
    except OSError as error:
        raise GatewayError(Code.NOT_FOUND, f"Cannot write {out}: {error.strerror or error}") from None
    note(f"Wrote {size} bytes to {out}")


def _to_stdout(chunks: Iterable[bytes]) -> None:
    if not sys.stdout.isatty():
        _copy(chunks, sys.stdout.buffer.write)
        return
    # On a terminal even an export must not drive the terminal.
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    for chunk in chunks:
        sys.stdout.write(clean(decode(chunk)))


@contextmanager
def _target(out: Path) -> Iterator[Any]:
    """A temporary file beside the target that takes its place at the end; a pipe or device is written directly."""
    if out.exists() and not out.is_file():
        with out.open("wb") as file:
            yield file
        return
    handle, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.replace(name, out)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _copy(chunks: Iterable[bytes], write: Any) -> int:
    size = 0
    with _progress() as advance:
        for chunk in chunks:
            write(chunk)
            size += len(chunk)
            advance(len(chunk))
    return size


@contextmanager
def _progress() -> Iterator[Any]:
    """Bytes so far, on stderr, where somebody watches."""
    if not sys.stderr.isatty():
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, SpinnerColumn, TransferSpeedColumn

    with Progress(SpinnerColumn(), DownloadColumn(), TransferSpeedColumn(), console=Console(stderr=True),
                  transient=True) as progress:  # fmt: skip
        task = progress.add_task("export", total=None)
        yield lambda size: progress.advance(task, size)
