"""Lines of the journal, read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from mcpproxy_py.store import segments
from mcpproxy_py.store.chain import START, Head
from mcpproxy_py.store.codec import decode

UNREADABLE: Final = "unreadable"


class Entry(NamedTuple):
    """One line. `event` is what its head says."""

    seq: int
    head: bytes
    payload: bytes
    mac: str
    event: Mapping[str, Any]


def read(line: bytes) -> Entry | None:
    """`None` for a line that is not one of ours, or not any more."""
    columns = line.split(b"\t")
    if len(columns) != 3:
        return None
    head, payload, mac = columns
    try:
        event = decode(head)
        return Entry(event["seq"], head, payload, mac.decode("ascii"), event) if _whole(event, payload) else None
    except (ValueError, RecursionError, KeyError, TypeError):
        return None


def _whole(event: Mapping[str, Any], payload: bytes) -> bool:
    return type(event["seq"]) is int and ("payload" in event) == bool(payload)


def entries(lines: Iterable[bytes], after: int) -> list[Entry]:
    """Every line, in order. One that makes no sense keeps its number, counted on from `after`, so that it is
    missed by nobody; its hash is empty, so that it is taken for good by nobody either."""
    found: list[Entry] = []
    for line in lines:
        entry = read(line)
        while entry is not None and found and found[-1].seq >= entry.seq and not found[-1].mac:
            found.pop()  # what made no sense stood between two that follow each other, and never had a number
        found.append(entry or Entry((found[-1].seq if found else after) + 1, line, b"", "", {"kind": UNREADABLE}))
    return found


def last_head(folder: Path) -> Head:
    """How long the chain is that the journal holds; the start where it holds nothing."""
    for number in reversed(segments.numbers(folder)):
        lines = segments.path_of(folder, number).read_bytes().split(b"\n")[:-1]
        for damaged, line in enumerate(reversed(lines)):
            if (entry := read(line)) is not None:
                return Head(entry.seq + damaged, entry.mac)
    return START


def first_after(folder: Path, place: segments.Place) -> int | None:
    """The number of the first event that the database does not have; `None` where it has all."""
    for number in segments.numbers(folder):
        if number >= place.segment:
            text = segments.path_of(folder, number).read_bytes()[place.offset if number == place.segment else 0 :]
            for line in text.split(b"\n")[:-1]:
                if (entry := read(line)) is not None:
                    return entry.seq
    return None
