"""Whether the record is still what was written (ACT-8, ACT-10):
`python -m mcpproxy_py.store.verify DATA_DIR [--anchor LINE]`.

Reads everything, some at a time, in a process of its own, so that no call waits for it. Of each chain: do the hashes
hold, one after the other, from its beginning or from a sealed checkpoint up to the head that was published? And of
each row (`verify_rows`): does it say what its events say?

Nothing is believed because the database says it. Our own chain must be there under its name and hold with our key; so
must every other that was verified here before. A chain that was never verified here is, if our key fits; if not, the
whole is not verifiable, and never intact.

Do the rows say what their events say? The events are folded once more, and what comes out is compared. And does what
is believed with a seal, switches and decisions, have its seal and its event (ACT-10)?
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import Connection, func, select

from mcpproxy_py.errors import EXIT_FAILED, EXIT_NOT_VERIFIABLE, EXIT_OK, EXIT_USAGE, StoreUnavailable
from mcpproxy_py.store.approvals import digest_of, request_holds
from mcpproxy_py.store.chain_key import Anchor, Identity, identity, published_head, put_private
from mcpproxy_py.store.codec import decode, encode
from mcpproxy_py.store.database.columns import at_of, first_of
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.migrate import revision
from mcpproxy_py.store.database.tables import HEAD, activity, approvals, checkpoints, events, gateways, switches
from mcpproxy_py.store.journal import segment_files
from mcpproxy_py.store.journal.chain import PAYLOADS, START, ChainHead, digest
from mcpproxy_py.store.journal.entries import UNREADABLE, JournalEntry, entry_of, last_head, read
from mcpproxy_py.store.journal.segment_files import JournalPosition
from mcpproxy_py.store.options import DATABASE, JOURNAL, Options
from mcpproxy_py.store.projection.apply import read_place
from mcpproxy_py.store.projection.rows import RowDraft
from mcpproxy_py.store.saved_state import switch_holds
from mcpproxy_py.store.seals import DECIDED, SWITCH, Seals, SwitchMemory

AT_ONCE: Final = 500
_ONE_MOMENT: Final = 1_000_000
"""A row's number may lie some steps after its time, where many were asked in one microsecond; and one whose end was
recorded before its ask has the time of its end."""


class _Open:
    """A record whose row does not match yet: it is unfinished, or there is more to come, or somebody changed it."""

    def __init__(self, entry: JournalEntry, gateway: int) -> None:
        self.draft = RowDraft(None, entry.at)
        self.gateway = gateway
        self.digests: dict[str, str | None] = {}

    def fold(self, entry: JournalEntry) -> None:
        columns = dict(self.draft.columns)
        self.draft.fold(entry)
        if entry.kind == "erased":
            self.digests = {}
        elif columns != self.draft.columns:  # one that changed nothing was about a gateway taken for dead
            self.digests[PAYLOADS[entry.kind]] = entry.event.get("payload")

    def difference(self, row: Any) -> str | None:
        """The first column that is not what it should be."""
        for column, value in self.draft.row().items():
            there = getattr(row, column)
            if column in PAYLOADS.values():
                same = (None if there is None else digest(there.encode())) == self.digests.get(column)
            else:
                same = _value(there) == _value(value) if column == "metadata" else there == value
            if not same:
                return column
        if not any(0 <= at_of(row.n) - at < _ONE_MOMENT for at in (self.draft.at, row.finished_at or 0)):
            return "timestamp"
        return None if row.gateway == self.gateway else "gateway"


class RowCheck:
    """`begin` a chain, `check` its events in order, `finish` when all chains were read."""

    def __init__(self, connection: Connection, found: Callable[..., None]) -> None:
        self._connection = connection
        self._found = found
        self._open: dict[str, _Open] = {}
        self._early: dict[str, list[JournalEntry]] = {}
        """Events of records whose ask was not seen yet: another gateway closed what this one left."""
        self._gateway = 0
        self._before = 0
        self._befores: dict[int, int] = {}
        self._seen: dict[int, int] = {}

    def begin(self, gateway: int, before: int) -> None:
        """Rows with numbers under `before` may be gone."""
        self._gateway = gateway
        self._befores[gateway] = before
        self._seen[gateway] = 0

    def check(self, entries: Sequence[JournalEntry]) -> None:
        touched = dict.fromkeys(self._fold(entry, entry.key) for entry in entries if entry.key is not None)
        for row in self._rows([key for key in touched if key in self._open]):
            record = self._open[row.id]
            if "status" in record.draft.columns and record.difference(row) is None:
                del self._open[row.id]

    def _fold(self, entry: JournalEntry, key: str) -> str:
        if entry.kind == "asked" and key not in self._open:
            self._open[key] = _Open(entry, self._gateway)
            self._seen[self._gateway] += 1
            for early in (entry, *self._early.pop(key, ())):
                self._open[key].fold(early)
        elif key in self._open:
            self._open[key].fold(entry)
        else:
            self._early.setdefault(key, []).append(entry)
        return key

    def finish(self, known: set[int]) -> int:
        """Reports what is left, and gives the number of rows that were looked at."""
        self._hear_others(known - set(self._befores))
        left = sorted(self._open)
        for start in range(0, len(left), AT_ONCE):
            some = left[start : start + AT_ONCE]
            rows = {row.id: row for row in self._rows(some)}
            for key in some:
                self._report(key, rows.get(key))
        for gateway in self._befores:
            self._report_strangers(gateway)
        for stranger in self._connection.execute(select(activity.c.gateway).distinct()).scalars():
            if stranger not in known:
                self._found("added", f"there are records of gateway {stranger}, which does not exist")
        return sum(self._seen.values())

    def _hear_others(self, unchecked: set[int]) -> None:
        """A gateway whose chain cannot be checked here may have closed what a dead one left. Its word is taken for
        how those ended, and for nothing else."""
        if not self._open:
            return
        for chain in sorted(unchecked):
            query = select(events.c.seq, events.c.head).where(events.c.chain == chain).order_by(events.c.seq)
            for seq, head in self._connection.execution_options(yield_per=AT_ONCE).execute(query):
                entry = entry_of(seq, head, b"", "", _object(head))
                if entry.kind != "asked" and entry.key in self._open:
                    self._open[entry.key].fold(entry)

    def _report(self, key: str, row: Any) -> None:
        record = self._open[key]
        if row is None:
            if record.draft.at >= at_of(self._befores[record.gateway]):
                self._seen[record.gateway] -= 1
                self._found("missing", f"record {key} is missing", id=key)
        elif (column := record.difference(row)) is not None:
            self._found("changed", f"record {key} does not say what was written: {column}", id=key, column=column)

    def _report_strangers(self, gateway: int) -> None:
        """Rows that no event tells of. They are counted first; to name them, all names have to be read."""
        mine = activity.c.gateway == gateway, activity.c.n >= self._befores[gateway]
        count = self._connection.execute(select(func.count()).select_from(activity).where(*mine)).scalar_one()
        if count <= self._seen[gateway]:
            return
        told = set(self._told(gateway))
        for key in self._connection.execute(select(activity.c.id).where(*mine).order_by(activity.c.n)).scalars():
            if key not in told:
                self._found("added", f"no event tells of record {key}", id=key)

    def _told(self, gateway: int) -> Iterator[str]:
        heads = select(events.c.head).where(events.c.chain == gateway)
        for head in self._connection.execute(heads).scalars():
            if (key := entry_of(0, head, b"", "", _object(head)).key) is not None:
                yield key

    def _rows(self, ids: list[str]) -> Sequence[Any]:
        found: list[Any] = []
        for start in range(0, len(ids), AT_ONCE):
            query = select(activity).where(activity.c.id.in_(ids[start : start + AT_ONCE]))
            found += self._connection.execute(query).all()
        return found


class StateCheck:
    """`begin` a chain, `check` its events, `finish` when all chains were read. Events count from chains that hold."""

    def __init__(
        self,
        connection: Connection,
        found: Callable[..., None],
        unchecked: Callable[[str], None],
        seals: Seals,
        memory: SwitchMemory | None,
        *,
        shared: bool,
    ) -> None:
        self._shared = shared
        self._connection = connection
        self._found = found
        self._unchecked = unchecked
        self._seals = seals
        self._known = memory.switches if memory is not None else {}
        self._set: dict[str, dict[Any, Mapping[str, Any]]] = {}
        """What was recorded of each switch, by the id of its event."""
        self._decided: dict[str, set[Any]] = {}
        self._before = 0
        self._all_checked = True

    def begin(self, before: int) -> None:
        """Events of before this row's time may be gone."""
        self._before = max(self._before, at_of(before))

    def check(self, entries: Sequence[JournalEntry]) -> None:
        for entry in entries:
            if entry.kind == SWITCH:
                self._set.setdefault(str(entry.event.get("name")), {})[entry.event.get("id")] = entry.event
            elif entry.kind == DECIDED:
                self._decided.setdefault(str(entry.event.get("id")), set()).add(entry.event.get("digest"))

    def finish(self, *, all_checked: bool) -> None:
        """Where not all chains could be, what is missing may be sealed, and on record, where we cannot look."""
        self._all_checked = all_checked
        rows = {row.name: row for row in self._connection.execute(select(switches))}
        for name in sorted({*rows, *self._known, *self._set}):
            self._check_switch(name, rows.get(name))
        for row in self._requests():
            self._check_request(row)
        for gone in sorted(self._decided):
            self._found("missing", f"request {gone} is gone, on which a decision is on record", id=gone)

    def _check_switch(self, name: str, row: Any) -> None:
        told, known = self._set.get(name, {}), self._known.get(name)
        if row is None:
            self._found("missing", f"switch {name} is gone, which was set", id=name)
        elif not switch_holds(self._seals, row):
            self._doubt("unsealed", f"switch {name} carries no seal of a gateway, and is not believed", name)
        elif known is not None and known.version > row.version:
            self._found("rolled_back", f"switch {name} is an older one, put back; it is not believed", id=name)
        else:
            self._check_told(name, row, told)

    def _check_told(self, name: str, row: Any, told: Mapping[Any, Mapping[str, Any]]) -> None:
        value, event = _value(row.value), told.get(row.event)
        if event is None:
            if row.at >= self._before:
                self._untold(f"no event tells of switch {name} as it is", name)
        elif (event.get("value"), event.get("version")) != (value, row.version):
            self._found("changed", f"switch {name} does not say what was written", id=name)
        if not value and any(each.get("value") and each.get("version", 0) > row.version for each in told.values()):
            self._found("rolled_back", f"switch {name} was set later than its row says", id=name)

    def _requests(self) -> Iterator[Any]:
        after = ""
        while rows := self._connection.execute(
            select(approvals).where(approvals.c.id > after).order_by(approvals.c.id).limit(AT_ONCE)
        ).all():
            yield from rows
            after = rows[-1].id

    def _check_request(self, row: Any) -> None:
        told = self._decided.pop(row.id, None)
        if not request_holds(self._seals, row):
            self._doubt("unsealed", f"request {row.id} carries no seal of a gateway, and is not believed", row.id)
        elif row.review is None and told is not None:
            self._found("changed", f"request {row.id} does not say what was decided; decide it again", id=row.id)
        elif row.review is not None and told is None:
            if decode(row.review)["at_ms"] * 1000 >= self._before:
                self._untold(f"no event tells of the decision on request {row.id}", row.id)
        elif told is not None and digest_of(row._mapping) not in told:
            self._found("changed", f"request {row.id} does not say what was decided", id=row.id)

    def _untold(self, message: str, what: str) -> None:
        """What is sealed and has no event. Where several gateways write, the one that sealed it may be behind."""
        if self._shared:
            self._unchecked(f"{message}: the gateway that sealed it may not have brought it yet")
        else:
            self._doubt("added", message, what)

    def _doubt(self, kind: str, message: str, what: str) -> None:
        if self._all_checked:
            self._found(kind, message, id=what)
        else:
            self._unchecked(message)


def _object(head: str) -> Mapping[str, Any]:
    event = _value(head)
    return event if isinstance(event, dict) else {}


def _value(text: Any) -> Mapping[str, Any] | Any:
    try:
        return decode(text)
    except (ValueError, RecursionError, TypeError):
        return text


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
    waiting: Iterable[JournalEntry | None] = ()
    """Our own events that the journal holds and the database may not have yet; `None` for a line that is damaged."""
    peers: Mapping[str, ChainHead] = {}
    anchor: Anchor | None = None
    seals: Seals | None = None
    memory: SwitchMemory | None = None


class _PinnedHead(NamedTuple):
    """An event that must be part of a chain, with this hash."""

    head: ChainHead
    kind: Literal["published", "seen", "anchor"]
    at: str = ""


def verify(database: Database, known: TrustedState) -> Report:
    report = Report()
    who = known.who
    with database.reading() as connection:
        there = connection.execute(select(gateways).order_by(gateways.c.number)).all()
        rows = RowCheck(connection, report.found)
        seals = known.seals or Seals([who.key])
        state = StateCheck(connection, report.found, report.unchecked, seals, known.memory, shared=database.shared)
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
            chain.check(_marks(known, gateway.name), known.waiting if own else ())
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
        elif self._sealer.mac(end.mac, row.head.encode()) != row.mac or row.at != entry.at:
            self._found(*_difference(row.seq, entry.event.get("seq")))
        return ChainHead(row.seq, row.mac)

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


def _waiting(folder: Path, place: JournalPosition) -> Iterator[JournalEntry | None]:
    """What the journal holds from there on: what a gateway that was killed has left, its next start brings. That there
    is nothing more before it, the chain itself tells."""
    for number in segment_files.numbers(folder):
        path, start = segment_files.path_of(folder, number), place.offset if number == place.segment else 0
        size = path.stat().st_size if number >= place.segment else 0
        while start < size:
            lines, after = segment_files.read_lines(path, start, size)
            if after == start:
                break  # what follows is no whole line
            yield from map(read, lines)
            start = after


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


def _known(folder: Path, database: Database, options: Options, head: str, anchor: Anchor | None) -> TrustedState:
    """`head` is said by a gateway that runs, and then the database has all that the journal has."""
    who = identity(folder, make=False)
    waiting: Iterable[JournalEntry | None] = ()
    published: ChainHead | None = ChainHead.read(head) if head else None
    if published is None:
        waiting = _waiting(folder / JOURNAL, read_place(database, who.name) or JournalPosition(0, 0))
        last = max(published_head(folder, who.name), last_head(folder / JOURNAL))
        published = None if last == START else last
    memory = SwitchMemory(folder)
    return TrustedState(who, published, waiting, _peers(folder, who.key_id), anchor, Seals.of(who, options), memory)


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
        known = _known(folder, database, options, told[1], anchor)
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
