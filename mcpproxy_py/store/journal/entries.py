"""Lines of the journal, read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from mcpproxy_py.store.codec import decode
from mcpproxy_py.store.database.columns import clean, micros, name
from mcpproxy_py.store.journal import segment_files
from mcpproxy_py.store.journal.chain import START, ChainHead

UNREADABLE: Final = "unreadable"
ROUND_KINDS: Final = frozenset(("input_required", "answered", "confirmed", "sent_again"))
"""What went on between an ask and its end."""
ROW_KINDS: Final = ROUND_KINDS | {"asked", "finished", "erased"}
"""Kinds of events that make or change a row."""


class JournalEntry(NamedTuple):
    """One line. `event` is what its head says, `at` its time in microseconds."""

    seq: int
    head: str
    payload: bytes
    mac: str
    event: Mapping[str, Any]
    kind: Any
    at: int
    key: str | None
    """The row it is about; `None` for one that is about none, or of a kind that this version does not know."""


def entry_of(seq: int, head: str, payload: bytes, mac: str, event: Mapping[str, Any]) -> JournalEntry:
    kind, row_id = event.get("kind"), event.get("id")
    key = name(row_id) if type(row_id) is str and kind in ROW_KINDS else None
    return JournalEntry(seq, head, payload, mac, event, kind, micros(event.get("at")), key)


def read(line: bytes) -> JournalEntry | None:
    """`None` for a line that is not one of ours, or not any more."""
    try:
        head, payload, mac = line.split(b"\t")
        event = decode(head)
        seq = event["seq"]
        whole = type(seq) is int and ("payload" in event) == (payload != b"")
        return entry_of(seq, head.decode(), payload, mac.decode("ascii"), event) if whole else None
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None


def _damaged(seq: int, line: bytes) -> JournalEntry:
    """It keeps its number, so that it is missed by nobody; its hash is empty, so it is taken for good by nobody."""
    return entry_of(seq, clean(line.decode("utf-8", "replace")), b"", "", {"kind": UNREADABLE})


def entries(lines: Iterable[bytes], reads: Iterable[JournalEntry | None], after: int) -> list[JournalEntry]:
    """Every line, in order, as it was `read`. One that makes no sense is counted on from the one before, at first from
    `after`."""
    found: list[JournalEntry] = []
    for line, entry in zip(lines, reads, strict=True):
        if entry is not None:
            while found and found[-1].seq >= entry.seq and not found[-1].mac:
                found.pop()  # it stood between two that follow each other, and never had a number
        found.append(entry or _damaged((found[-1].seq if found else after) + 1, line))
    return found


def last_head(folder: Path) -> ChainHead:
    """How long the chain is that the journal holds; the start where it holds nothing."""
    for number in reversed(segment_files.numbers(folder)):
        lines = segment_files.path_of(folder, number).read_bytes().split(b"\n")[:-1]
        for damaged, line in enumerate(reversed(lines)):
            if (entry := read(line)) is not None:
                return ChainHead(entry.seq + damaged, entry.mac)
    return START
