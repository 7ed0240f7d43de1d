"""Whether the record is still what was written (ACT-8): `python -m mcpproxy_py.store.verify DATA_DIR`.

Reads everything, some at a time, in a process of its own, so that no call waits for it. Of each chain: do the hashes
hold, one after the other, from its beginning or from a sealed checkpoint up to the head that was published? And of
each row (`verify_rows`): does it say what its events say?
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, select

from mcpproxy_py.errors import EXIT_FAILED, EXIT_OK
from mcpproxy_py.store.chain import START, Head
from mcpproxy_py.store.codec import decode
from mcpproxy_py.store.database import Database
from mcpproxy_py.store.entry import UNREADABLE, Entry, entry_of, first_after
from mcpproxy_py.store.failure import StoreUnavailable
from mcpproxy_py.store.identity import Identity, identity, published_head
from mcpproxy_py.store.ledger import read_place
from mcpproxy_py.store.numbers import first_of
from mcpproxy_py.store.options import JOURNAL, Options
from mcpproxy_py.store.segments import Place
from mcpproxy_py.store.tables import checkpoints, events, gateways
from mcpproxy_py.store.verify_rows import RowCheck

AT_ONCE: Final = 500
MOST_FINDINGS: Final = 100


@dataclass
class Report:
    """`findings` name what is wrong, up to a hundred; `wrong` counts all of it."""

    events: int = 0
    rows: int = 0
    wrong: int = 0
    findings: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    chains: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def found(self, kind: str, message: str, **where: Any) -> None:
        self.wrong += 1
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append({"kind": kind, "message": message, **where})

    def as_json(self) -> dict[str, Any]:
        return {"intact": self.wrong == 0, "events": self.events, "rows": self.rows, "wrong": self.wrong,
                "chains": self.chains, "findings": self.findings}  # fmt: skip


def verify(database: Database, who: Identity, published: Head = START) -> Report:
    """`published` is the head of our own chain as it was last seen outside of the database. Chains that were sealed
    with a key we do not have are listed and not checked."""
    report = Report()
    with database.reading() as connection:
        known = connection.execute(select(gateways).order_by(gateways.c.number)).all()
        rows = RowCheck(connection, report.found)
        for gateway in known:
            if gateway.key_id == who.key_id:
                chain = _Chain(connection, report, rows, gateway, who, known)
                chain.check(published if gateway.name == who.name else START)
            else:
                report.chains.append({"name": gateway.name, "checked": False, "reason": "sealed with another key"})
        report.rows = rows.finish({gateway.number for gateway in known})
    return report


class _Chain:
    """One chain, from its beginning to its end."""

    def __init__(self, connection: Connection, report: Report, rows: RowCheck, gateway: Any, who: Identity,
                 known: Sequence[Any]) -> None:  # fmt: skip
        self._connection = connection
        self._report = report
        self._rows = rows
        self._number = gateway.number
        self._name = gateway.name
        self._sealer = who.sealer(gateway.name)
        self._sealers = {peer.number: who.sealer(peer.name) for peer in known if peer.key_id == who.key_id}

    def check(self, published: Head) -> None:
        begin, before = self._beginning()
        self._rows.begin(self._number, before)
        end, count = begin, 0
        for batch in self._batches(begin.seq):
            entries = [entry_of(row.seq, row.head, b"", row.mac, _event(row.head)) for row in batch]
            for row, entry in zip(batch, entries, strict=True):
                end = self._check_event(row, entry, end)
            self._rows.check(entries)
            count += len(batch)
        self._check_end(end, published)
        self._report.events += count
        shown = {"name": self._name, "checked": True, "events": count, "first": begin.seq + 1, "head": str(end)}
        self._report.chains.append(shown)

    def _batches(self, after: int) -> Iterator[Sequence[Any]]:
        query = select(events).where(events.c.chain == self._number).order_by(events.c.seq).limit(AT_ONCE)
        while batch := self._connection.execute(query.where(events.c.seq > after)).all():
            yield batch
            after = batch[-1].seq

    def _beginning(self) -> tuple[Head, int]:
        """Where the chain begins, and the lowest number of a row that must still be there."""
        row = self._connection.execute(select(checkpoints).where(checkpoints.c.chain == self._number)).first()
        if row is None:
            return START, 0
        sealer = self._sealers.get(row.sealed_by)
        if sealer is None or sealer.seal("checkpoint", row.chain, row.seq, row.mac, row.before) != row.seal:
            self._found("changed", row.seq, "its checkpoint is not what retention wrote")
            return START, 0
        return Head(row.seq, row.mac), first_of(row.before)

    def _check_event(self, row: Any, entry: Entry, end: Head) -> Head:
        if row.seq != end.seq + 1:
            gone = f"event {end.seq + 1} is" if row.seq == end.seq + 2 else f"events {end.seq + 1} to {row.seq - 1} are"
            self._found("missing", end.seq + 1, f"{gone} missing")
        elif not row.mac:
            self._found("damaged", row.seq, f"event {row.seq} was damaged before it reached the database")
        elif self._sealer.mac(end.mac, row.head.encode()) != row.mac or row.at != entry.at:
            self._found(*_difference(row.seq, entry.event.get("seq")))
        return Head(row.seq, row.mac)

    def _check_end(self, end: Head, published: Head) -> None:
        if end.seq < published.seq:
            self._found("cut", end.seq + 1, f"its end is gone: events {end.seq + 1} to {published.seq}")
        elif end.seq == published.seq and published.mac not in ("", end.mac):
            self._found("changed", end.seq, f"event {end.seq} is not the one whose hash was published")

    def _found(self, kind: str, seq: int, message: str) -> None:
        self._report.found(kind, f"chain {self._name}: {message}", chain=self._name, seq=seq)


def _difference(seq: int, said: Any) -> tuple[str, int, str]:
    if said != seq:
        return "swapped", seq, f"event {seq} is not in its place: it is event {said}"
    return "changed", seq, f"event {seq} is not what was written"


def _event(head: str) -> Mapping[str, Any]:
    try:
        event = decode(head)
    except (ValueError, RecursionError):
        event = None
    return event if isinstance(event, dict) else {"kind": UNREADABLE}


def _published(folder: Path, database: Database, who: Identity) -> Head:
    """What was published, less what a gateway that was killed has left in its journal; its next start brings that."""
    published, place = published_head(folder, who.name), read_place(database, who.name) or Place(0, 0)
    waiting = first_after(folder / JOURNAL, place)
    return published if waiting is None or waiting > published.seq else Head(waiting - 1, "")


def main(data_dir: str) -> int:
    """Options are the first line of stdin, where there is one: an address with a password has no business in a list
    of processes."""
    folder = Path(data_dir).expanduser()
    options, head = ("", "") if sys.stdin.isatty() else (sys.stdin.readline(), sys.stdin.readline())
    try:
        database, who = (
            (Options.from_line(options) if options.strip() else Options()).database(folder),
            identity(folder),
        )
        published = Head.read(head) if head.strip() else _published(folder, database, who)
        report = verify(database, who, published)
    except StoreUnavailable as error:
        print(error.message, file=sys.stderr)
        return EXIT_FAILED
    print(json.dumps(report.as_json()))
    return EXIT_OK if report.wrong == 0 else EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
