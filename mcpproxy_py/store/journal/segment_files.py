"""The journal's files on disk: how they are named, found, read and mended. No state of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

SUFFIX = ".log"


class JournalPosition(NamedTuple):
    """A point between two lines of the journal. Places compare in the order of the journal."""

    segment: int
    offset: int


def path_of(folder: Path, number: int, suffix: str = SUFFIX) -> Path:
    return folder / f"{number:010d}{suffix}"


def numbers(folder: Path, suffix: str = SUFFIX) -> list[int]:
    """The segments there are, oldest first. A file of any other name is not ours and is left alone."""
    stems = (path.stem for path in folder.glob(f"*{suffix}"))
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def size_of(folder: Path) -> int:
    """The bytes that all segments take. One may be deleted meanwhile, and then counts nothing."""
    total = 0
    for number in numbers(folder):
        try:
            total += path_of(folder, number).stat().st_size
        except FileNotFoundError:
            continue
    return total


def sync_folder(folder: Path) -> None:
    """Makes the names of new files last; without it a file that was synced can lose its name."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cut_torn_line(path: Path) -> int:
    """Takes off a last line that has no end, as a crash leaves it, and says how many bytes that were. What was reserved
    behind it goes too, and counts nothing.

    Such a line was never acknowledged: its append did not return.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        whole = _end_of_last_line(descriptor, size)
        rest = os.pread(descriptor, size - whole, whole)
        if rest:
            os.ftruncate(descriptor, whole)
        return len(rest.rstrip(b"\0"))
    finally:
        os.close(descriptor)


def _end_of_last_line(descriptor: int, size: int) -> int:
    block = 1 << 16
    for start in range((size - 1) // block * block, -1, -block):
        found = os.pread(descriptor, min(block, size - start), start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
    return 0


def read_lines(path: Path, start: int, stop: int, block: int = 1 << 20) -> tuple[list[bytes], int]:
    """Whole lines from `start`, about `block` bytes of them, never beyond `stop`; and the offset after them."""
    with open(path, "rb", buffering=0) as file:
        while True:
            text = os.pread(file.fileno(), min(block, stop - start), start)
            end = text.rfind(b"\n") + 1
            if end or len(text) < block:
                return text[:end].split(b"\n")[:-1], start + end
            block *= 2  # one line is longer than the block


def lines_from(folder: Path, place: JournalPosition) -> Iterator[bytes]:
    """All whole lines that are there now from this place on, and none that is appended while they are read."""
    there = [number for number in numbers(folder) if number >= place.segment]
    return _lines(folder, place, {number: path_of(folder, number).stat().st_size for number in there})


def _lines(folder: Path, place: JournalPosition, sizes: Mapping[int, int]) -> Iterator[bytes]:
    for number, size in sizes.items():
        start = place.offset if number == place.segment else 0
        while start < size:
            lines, after = read_lines(path_of(folder, number), start, size)
            if after == start:
                break  # what follows is no whole line
            yield from lines
            start = after
