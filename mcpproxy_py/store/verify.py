"""Whether the record is still what was written (ACT-8, ACT-10):
`python -m mcpproxy_py.store.verify DATA_DIR [--anchor LINE]`.

Reads everything, some at a time, in a process of its own, so that no call waits for it. Of each chain: do the hashes
hold, one after the other, from its beginning or from a sealed checkpoint up to the head that was published? And of
each row (`projection/check_rows`): does it say what its events say?

Nothing is believed because the database says it. Our own chain must be there under its name and hold with our key; so
must every other that was verified here before. A chain that was never verified here is, if our key fits; if not, the
whole is not verifiable, and never intact.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import Connection, select

from mcpproxy_py.errors import EXIT_FAILED, EXIT_NOT_VERIFIABLE, EXIT_OK, EXIT_USAGE, StoreUnavailable
from mcpproxy_py.store.chain_key import Anchor, Identity, identity, published_head, put_private
from mcpproxy_py.store.codec import decode, encode
from mcpproxy_py.store.database.columns import first_of, part
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.migrate import revision
from mcpproxy_py.store.database.tables import HEAD, checkpoints, events, gateways
from mcpproxy_py.store.journal import segment_files
from mcpproxy_py.store.journal.chain import START, ChainHead, digest
from mcpproxy_py.store.journal.entries import UNREADABLE, JournalEntry, entry_of, last_head, read
from mcpproxy_py.store.journal.segment_files import JournalPosition
from mcpproxy_py.store.options import DATABASE, JOURNAL, Options
from mcpproxy_py.store.projection.apply import REDACTED, place_in
from mcpproxy_py.store.projection.check_rows import AT_ONCE, RowCheck, StateCheck, misfits
from mcpproxy_py.store.projection.rows import ERASED
from mcpproxy_py.store.sealed_records import RecordMemory
from mcpproxy_py.store.seals import Seals, SwitchMemory

MOST_FINDINGS: Final = 100
PEERS: Final = "chain.peers"
"""The chains of other gateways that were verified here, each with its head then."""

Result = Literal["intact", "broken", "not_verifiable"]
EXITS: Final[Mapping[Result, int]] = {
    "intact": EXIT_OK, "broken": EXIT_FAILED, "not_verifiable": EXIT_NOT_VERIFIABLE,
}  # fmt: skip


@dataclass
class Report:
    """`findings` name what is wrong, up to a hundred; `wrong` counts all of it. `unverified` names what could not be
    checked."""

    events: int = 0
    rows: int = 0
    wrong: int = 0
    findings: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    chains: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    unverified: list[str] = field(default_factory=list[str])

    def found(self, kind: str, message: str, **where: Any) -> None:
        self.wrong += 1
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append({"kind": kind, "message": message, **where})

    def unchecked(self, message: str) -> None:
        if len(self.unverified) < MOST_FINDINGS:
            self.unverified.append(message)

    @property
    def result(self) -> Result:
        if self.wrong:
            return "broken"
        return "not_verifiable" if self.unverified else "intact"

    def as_json(self) -> dict[str, Any]:
        return {"result": self.result, "intact": self.result == "intact", "events": self.events, "rows": self.rows,
                "wrong": self.wrong, "chains": self.chains, "findings": self.findings,
                "unverified": self.unverified}  # fmt: skip


class TrustedState(NamedTuple):
    """What is known outside of the database."""

    who: Identity
    published: ChainHead | None
    """Of our own chain; `None` where that was never written down."""
    waiting: Callable[[Connection], Iterable[JournalEntry | None]] = lambda _: ()
    """Our own events that the journal holds and this view of the database may not have yet; `None` for a line that is
    damaged."""
    peers: Mapping[str, ChainHead] = {}
    anchor: Anchor | None = None
    seals: Seals | None = None
    memory: SwitchMemory | None = None
    records: RecordMemory | None = None


class _PinnedHead(NamedTuple):
    """An event that must be part of a chain, with this hash."""

    head: ChainHead
    kind: Literal["published", "seen", "anchor"]
    at: str = ""


def verify(database: Database, known: TrustedState) -> Report:
    report = Report()
    who = known.who
    with database.reading_between_changes(known.waiting) as (connection, waiting):
        for place in misfits(connection):
            report.found("changed", f"{place} holds a value of another type than is ever written there")
        if report.wrong:
            return report
        there = connection.execute(select(gateways).order_by(gateways.c.number)).all()
        rows = RowCheck(connection, report.found)
        seals = known.seals or Seals([who.key])
        state = StateCheck(
            connection, report.found, report.unchecked, seals, known.memory, known.records, shared=database.shared
        )
        for gateway in there:
            chain = _Chain(connection, report, (rows, state), gateway, there, who, shared=database.shared)
            own = gateway.name == who.name
            if gateway.key_id != who.key_id and (own or chain.is_ours(gateway.name in known.peers)):
                report.found("changed", f"chain {gateway.name}: the database says that it was sealed with another key",
                             chain=gateway.name)  # fmt: skip
            elif gateway.key_id != who.key_id:
                reason = "sealed with another key"
                report.chains.append({"name": gateway.name, "checked": False, "reason": reason})
                report.unchecked(f"chain {gateway.name}: {reason}")
                continue
            chain.check(_marks(known, gateway.name), waiting if own else ())
        _must_be_there(report, known, {gateway.name for gateway in there})
        report.rows = rows.finish({gateway.number for gateway in there})
        state.finish(all_checked=all(chain["checked"] for chain in report.chains))
    return report


def _marks(known: TrustedState, name: str) -> list[_PinnedHead]:
    found: list[_PinnedHead] = []
    if name == known.who.name and known.published is not None:
        found.append(_PinnedHead(known.published, "published"))
    if name in known.peers:
        found.append(_PinnedHead(known.peers[name], "seen"))
    if known.anchor is not None and known.anchor.chain == name:
        found.append(_PinnedHead(known.anchor.head, "anchor", known.anchor.at))
    return [mark for mark in found if mark.head.seq > 0]


def _must_be_there(report: Report, known: TrustedState, names: set[str]) -> None:
    """What the database does not even name."""
    own = known.who.name
    due = {own: known.published or START, **known.peers}
    for name, head in due.items():
        if name not in names and head.seq > 0:
            report.found("missing", f"chain {name} is gone, with its {head.seq} events", chain=name)
    if own not in names and known.published is None:
        report.unchecked(f"chain {own}: there is none of this name in the database")
    checked = {chain["name"] for chain in report.chains if chain["checked"]}
    if known.published is None and own in checked:
        report.unchecked(f"chain {own}: no head of it is kept in the data directory, so its end may have been cut off")
    if known.anchor is not None and known.anchor.chain not in checked:
        report.unchecked(f"the anchor is of chain {known.anchor.chain}, which cannot be verified here")


class _Chain:
    """One chain, from its beginning to its end."""

    def __init__(self, connection: Connection, report: Report, folds: tuple[RowCheck, StateCheck], gateway: Any,
                 there: Sequence[Any], who: Identity, *, shared: bool) -> None:  # fmt: skip
        self._connection = connection
        self._report = report
        self._folds = folds
        self._number = gateway.number
        self._name = gateway.name
        self._sealer = who.sealer(gateway.name)
        self._names = {peer.number: peer.name for peer in there}
        self._who = who
        self._shared = shared

    def is_ours(self, was_before: bool) -> bool:
        """Whether our key seals this chain, whatever the database says: it did before, or it does the first event."""
        row = self._connection.execute(
            select(events).where(events.c.chain == self._number).order_by(events.c.seq).limit(1)
        ).first()
        if was_before or row is None:
            return was_before
        mark = select(checkpoints.c.mac).where(checkpoints.c.chain == self._number)
        before = START.mac if row.seq == 1 else self._connection.execute(mark).scalar()
        return before is not None and self._sealer.mac(before, row.head.encode()) == row.mac

    def check(self, marks: Sequence[_PinnedHead], waiting: Iterable[JournalEntry | None]) -> None:
        wanted = {mark.head.seq: "" for mark in marks}
        begin, before = self._beginning()
        rows, state = self._folds
        rows.begin(self._number, before)
        state.begin(before)
        end, count = begin, 0
        for batch in self._batches(begin.seq):
            entries = [entry_of(row.seq, row.head, b"", row.mac, _event(row.head)) for row in batch]
            for row, entry in zip(batch, entries, strict=True):
                end = self._check_event(row, entry, end)
                if end.seq in wanted:
                    wanted[end.seq] = end.mac
            rows.check(entries)
            state.check(entries)
            count += len(batch)
        for entry in waiting:
            if entry is None:
                self._found("damaged", end.seq + 1, "a line of its journal that waits for the database is damaged")
            elif entry.seq > end.seq:
                if entry.payload and digest(entry.payload) != entry.event.get("payload"):
                    self._found("changed", entry.seq, f"the payload of event {entry.seq} is not what was written")
                end = self._check_event(entry, entry, end)
                state.check([entry])
                if end.seq in wanted:
                    wanted[end.seq] = end.mac
        for mark in marks:
            self._check_mark(mark, wanted[mark.head.seq], begin, end)
        self._report.events += count
        shown = {"name": self._name, "checked": True, "events": count, "first": begin.seq + 1, "head": str(end)}
        self._report.chains.append(shown)

    def _batches(self, after: int) -> Iterator[Sequence[Any]]:
        query = select(events).where(events.c.chain == self._number).order_by(events.c.seq).limit(AT_ONCE)
        while batch := self._connection.execute(query.where(events.c.seq > after)).all():
            yield batch
            after = batch[-1].seq

    def _beginning(self) -> tuple[ChainHead, int]:
        """Where the chain begins, and the lowest number of a row that must still be there."""
        row = self._connection.execute(select(checkpoints).where(checkpoints.c.chain == self._number)).first()
        if row is None:
            return START, 0
        by = self._names.get(row.sealed_by, "")
        seal = self._who.sealer(by).seal("checkpoint", row.chain, row.seq, row.mac, row.before) if by else None
        if seal == row.seal:
            return ChainHead(row.seq, row.mac), first_of(row.before)
        if self._shared and by not in ("", self._who.name):
            self._report.unchecked(f"chain {self._name}: gateway {by}, whose key is not here, says that everything up "
                                   f"to event {row.seq} was deleted for its age")  # fmt: skip
            return ChainHead(row.seq, row.mac), first_of(row.before)
        self._found("changed", row.seq, "its checkpoint is not what retention wrote")
        return START, 0

    def _check_event(self, row: Any, entry: JournalEntry, end: ChainHead) -> ChainHead:
        if row.seq != end.seq + 1:
            gone = f"event {end.seq + 1} is" if row.seq == end.seq + 2 else f"events {end.seq + 1} to {row.seq - 1} are"
            self._found("missing", end.seq + 1, f"{gone} missing")
        elif not row.mac:
            self._found("damaged", row.seq, f"event {row.seq} was damaged before it reached the database")
        elif row.at != entry.at or not self._is_written(row, entry, end):
            self._found(*_difference(row.seq, entry.event.get("seq")))
        return ChainHead(row.seq, row.mac)

    def _is_written(self, row: Any, entry: JournalEntry, end: ChainHead) -> bool:
        """Whether its hash holds, or the gateway that erased its record has written its head anew."""
        if self._sealer.mac(end.mac, row.head.encode()) == row.mac:
            return True
        said, head = entry.event.get("redacted"), row.head.rpartition(REDACTED)[0] + "}"
        if type(by := part(said, "by")) is not int or by not in self._names:
            return False
        sealer = self._who.sealer(self._names[by])
        if sealer.seal(ERASED, self._number, row.seq, row.mac, head) == part(said, "seal"):
            return True
        if by_another := self._shared and self._names[by] != self._who.name:
            who = f"gateway {self._names[by]}, whose key is not here,"
            self._report.unchecked(f"chain {self._name}: {who} says that it erased words of event {row.seq}")
        return by_another

    def _check_mark(self, mark: _PinnedHead, there: str, begin: ChainHead, end: ChainHead) -> None:
        seq, mac = mark.head
        if seq == begin.seq:
            there = begin.mac
        if seq < begin.seq:
            if mark.kind == "anchor":
                self._report.unchecked(f"chain {self._name}: event {seq}, which the anchor names, was deleted for its "
                                       f"age; take an anchor of later than event {begin.seq}")  # fmt: skip
        elif seq > end.seq and mark.kind == "anchor":
            self._found("rolled_back", end.seq + 1, f"it ends at event {end.seq}, and had {seq} when the anchor was "
                                                    f"taken at {mark.at}: an older copy was put back")  # fmt: skip
        elif seq > end.seq:
            self._found("cut", end.seq + 1, f"its end is gone: events {end.seq + 1} to {seq}")
        elif there != mac and mac and there:
            named = {"published": "whose hash was published", "seen": "that was verified here before",
                     "anchor": f"that the anchor of {mark.at} names"}[mark.kind]  # fmt: skip
            self._found(
                "rolled_back" if mark.kind == "anchor" else "changed", seq, f"event {seq} is not the one {named}"
            )

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


# -- what is known outside of the database


def _peers(folder: Path, key_id: str) -> dict[str, ChainHead]:
    """Those that held with the key of today."""
    path = folder / PEERS
    if not path.exists():
        return {}
    try:
        kept = json.loads(path.read_bytes())
        return {str(name): ChainHead.read(head) for name, head in kept["chains"].items() if kept["key"] == key_id}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise StoreUnavailable(
            f"{path} is damaged. Restore it from a backup, or remove it to forget the chains of other gateways."
        ) from None


def _remember(folder: Path, known: TrustedState, report: Report) -> None:
    """What was verified of others must be there from now on. Nothing is learnt from a record with anything wrong."""
    if report.wrong:
        return
    seen = {chain["name"]: chain["head"] for chain in report.chains if chain["checked"]}
    seen.pop(known.who.name, None)
    if seen and seen != {name: str(head) for name, head in known.peers.items()}:
        with suppress(OSError):
            kept = {"key": known.who.key_id, "chains": seen}
            put_private(folder / PEERS, encode(kept).decode() + "\n")


def _opened(folder: Path, options: Options) -> Database:
    if options.database_url is None and not (folder / DATABASE).is_file():
        raise StoreUnavailable(f"there is no database {folder / DATABASE}, so nothing can be verified.")
    database = options.database(folder)
    with database.reading() as connection:
        if (found := revision(connection)) != HEAD:
            raise StoreUnavailable(f"the tables of {database.label} are of revision {found}, and this version's are "
                                   f"{HEAD}, so nothing can be verified. A start of the gateway changes "
                                   "older ones.")  # fmt: skip
    return database


def _known(folder: Path, options: Options, head: str, anchor: Anchor | None) -> TrustedState:
    """What a gateway that was killed has left in its journal, its next start brings. `head` is said by one that runs:
    the little that its database may not have yet is read at once, because it takes files of its journal away."""
    who, journal = identity(folder, make=False), folder / JOURNAL

    def waiting(view: Connection) -> Iterable[JournalEntry | None]:
        found = map(read, segment_files.lines_from(journal, place_in(view, who.name) or JournalPosition(0, 0)))
        return list(found) if head else found

    published: ChainHead | None = ChainHead.read(head) if head else None
    if published is None:
        last = max(published_head(folder, who.name), last_head(journal))
        published = None if last == START else last
    memory, records = SwitchMemory(folder), RecordMemory(folder)
    return TrustedState(
        who, published, waiting, _peers(folder, who.key_id), anchor, Seals.of(who, options), memory, records
    )


def main(arguments: Sequence[str]) -> int:
    """Options are the first line of stdin, where there is one: an address with a password has no business in a list
    of processes. A gateway that runs says its head in the second, and the anchor in the third."""
    told = ["", "", ""] if sys.stdin.isatty() else [sys.stdin.readline().strip() for _ in range(3)]
    try:
        data_dir, anchor = _arguments(arguments, told[2])
    except (ValueError, OSError) as error:
        print(f"{error}\nusage: python -m mcpproxy_py.store.verify DATA_DIR [--anchor LINE|@FILE]", file=sys.stderr)
        return EXIT_USAGE
    folder = Path(data_dir).expanduser()
    try:
        options = Options.from_line(told[0]) if told[0] else Options()
        database = _opened(folder, options)
        known = _known(folder, options, told[1], anchor)
        report = verify(database, known)
        _remember(folder, known, report)
    except (StoreUnavailable, OSError) as error:
        print(getattr(error, "message", error), file=sys.stderr)
        return EXIT_NOT_VERIFIABLE
    print(json.dumps(report.as_json()))
    return EXITS[report.result]


def _arguments(given: Sequence[str], told: str) -> tuple[str, Anchor | None]:
    """Raises `ValueError` for what was not meant, and `OSError` for a file that is not there."""
    match list(given):
        case [data_dir]:
            return data_dir, Anchor.read(told) if told else None
        case [data_dir, "--anchor", line]:
            return data_dir, Anchor.read(Path(line[1:]).expanduser().read_text("utf-8") if line[:1] == "@" else line)
        case _:
            raise ValueError("a data directory is needed, and perhaps an anchor")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
