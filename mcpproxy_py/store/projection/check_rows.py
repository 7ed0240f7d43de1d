"""Do the rows say what their events say? The events are folded once more, and what comes out is compared. And does what
is believed with a seal, switches, decisions and sealed records, have its seal and its event (ACT-10)?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Float, Integer, LargeBinary, func, or_, select

from mcpproxy_py.core.json_values import same
from mcpproxy_py.store.approvals import digest_of, request_holds
from mcpproxy_py.store.codec import decode
from mcpproxy_py.store.database.columns import at_of
from mcpproxy_py.store.database.tables import activity, approvals, events, metadata, sealed_records, switches
from mcpproxy_py.store.journal.chain import PAYLOADS, digest
from mcpproxy_py.store.journal.entries import JournalEntry, entry_of
from mcpproxy_py.store.projection.rows import RowDraft
from mcpproxy_py.store.saved_state import switch_holds
from mcpproxy_py.store.sealed_records import (
    SAYS,
    KnownVersion,
    RecordMemory,
    digest_of_value,
    doubt_of,
)
from mcpproxy_py.store.seals import DECIDED, NOT_KEPT, RECORD, SWITCH, Seals, SwitchMemory

AT_ONCE: Final = 500
_ONE_MOMENT: Final = 1_000_000
"""A row's number may lie some steps after its time, where many were asked in one microsecond; and one whose end was
recorded before its ask has the time of its end."""


def misfits(connection: Connection) -> Iterator[str]:
    """Columns that hold a value of another type than theirs, which SQLite lets a writer store. We never do, and nothing
    that is read as a number could be relied on then."""
    if connection.dialect.name != "sqlite":
        return
    for table in metadata.sorted_tables:
        wrong = {column.name: func.typeof(column).not_in(_stored(column.type)) for column in table.columns}
        row = connection.execute(
            select(*wrong.values()).select_from(table).where(or_(*wrong.values())).limit(1)
        ).first()
        if row is not None:
            yield next(f"{table.name}.{column}" for column, is_wrong in zip(wrong, row, strict=True) if is_wrong)


def _stored(declared: Any) -> tuple[str, ...]:
    if isinstance(declared, Float):
        return "real", "integer", "null"
    if isinstance(declared, LargeBinary):
        return "blob", "null"
    return ("integer" if isinstance(declared, Integer) else "text"), "null"


class _Open:
    """A record whose row does not match yet: it is unfinished, or there is more to come, or somebody changed it."""

    def __init__(self, entry: JournalEntry, gateway: int) -> None:
        self.draft = RowDraft(None, entry.at)
        self.gateway = gateway
        self.digests: dict[str, str | None] = {}

    def fold(self, entry: JournalEntry) -> None:
        columns = dict(self.draft.columns)
        self.draft.fold(entry)
        if self.draft.erased:
            self.digests = {}
        elif columns != self.draft.columns:  # one that changed nothing was about a gateway taken for dead
            self.digests[PAYLOADS[entry.kind]] = entry.event.get("payload")

    def difference(self, row: Any) -> str | None:
        """The first column that is not what it should be."""
        for column, value in self.draft.row().items():
            there = getattr(row, column)
            if column in PAYLOADS.values():
                equal = (None if there is None else digest(there.encode())) == self.digests.get(column)
            else:
                equal = same(_value(there), _value(value)) if column == "metadata" else there == value
            if not equal:
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
        records: RecordMemory | None,
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
        self._records = records
        self._kept: dict[tuple[str, str], dict[Any, Mapping[str, Any]]] = {}
        """What was recorded of each sealed record, by kind and name and by the id of its event."""
        self._not_kept: set[Any] = set()
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
            elif entry.kind == RECORD:
                place = str(entry.event.get("of")), str(entry.event.get("name"))
                self._kept.setdefault(place, {})[entry.event.get("id")] = entry.event
            elif entry.kind == NOT_KEPT:
                self._not_kept.add(entry.event.get("id"))

    def finish(self, *, all_checked: bool) -> None:
        """Where not all chains could be, what is missing may be sealed, and on record, where we cannot look."""
        self._all_checked = all_checked
        rows = {row.name: row for row in self._connection.execute(select(switches))}
        for name in sorted({*rows, *self._known, *self._set}):
            self._check_switch(name, rows.get(name))
        for row in self._requests():
            self._check_request(row)
        self._check_records()
        for gone in sorted(self._decided):
            self._found("missing", f"request {gone} is gone, on which a decision is on record", id=gone)

    def _check_switch(self, name: str, row: Any) -> None:
        told, known = self._set.get(name, {}), self._known.get(name)
        if row is None:
            if known is not None or told.keys() - self._not_kept:
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
        elif event.get("version") != row.version or not same(event.get("value"), value):
            self._found("changed", f"switch {name} does not say what was written", id=name)
        later = (each for which, each in told.items() if which not in self._not_kept)
        if not value and any(each.get("value") and each.get("version", 0) > row.version for each in later):
            self._found("rolled_back", f"switch {name} was set later than its row says", id=name)

    def _check_records(self) -> None:
        records = self._records
        known = {(kind, name): last for kind in records.kinds for name, last in records.known(kind).items()} if (
            records is not None) else {}  # fmt: skip
        due = {place for place, told in self._kept.items() if told.keys() - self._not_kept} | known.keys()
        for row in self._sealed_records():
            place = str(row.kind), str(row.name)
            due.discard(place)
            self._check_record(row, f"{row.kind} {row.name}", known.get(place), self._kept.get(place, {}))
        for kind, name in sorted(due):
            self._found("missing", f"{kind} {name} is gone, which was set", id=name)

    def _sealed_records(self) -> Iterator[Any]:
        """Some at a time: a value may be megabytes."""
        places = self._connection.execute(select(sealed_records.c.kind, sealed_records.c.name)).all()
        for kind, name in sorted(places):
            here = sealed_records.c.kind == kind, sealed_records.c.name == name
            yield from self._connection.execute(select(sealed_records).where(*here))

    def _check_record(
        self, row: Any, what: str, known: KnownVersion | None, told: Mapping[Any, Mapping[str, Any]]
    ) -> None:
        event, doubt = told.get(row.event), doubt_of(self._seals, row, known or KnownVersion(0, ""))
        if doubt == "changed":
            self._doubt("unsealed", f"{what} {SAYS[doubt]}, and is not believed", row.name)
        elif doubt is not None or any(
            each.get("version", 0) > row.version and which not in self._not_kept for which, each in told.items()
        ):
            self._found("rolled_back", f"{what} is an older one, put back; it is not believed", id=row.name)
        elif event is None:
            if row.at >= self._before:
                self._untold(f"no event tells of {what} as it is", row.name)
        elif (event.get("digest"), event.get("version")) != (digest_of_value(row.value), row.version):
            self._found("changed", f"{what} does not say what was written", id=row.name)

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
