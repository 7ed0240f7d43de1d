"""Things that people decided, kept as JSON and believed with a seal only: tokens of agents, pins of servers (ACT-10).

Each is known by its kind and its name, and counted: every change is a version. A change is an event of the chain first,
with the digest of the value, then a row with a seal over all of it (`seals`). What was put back, an old row with its
own good seal, shows by its version: each gateway keeps the last that it saw of each in a file of its own. Rows are
never deleted, so one that is gone was taken by somebody else.

A row that is not believed is named with the reason, and has no value here: whoever reads decides what is safe then.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, insert, select, update

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.files import explained
from mcpproxy_py.store import seals
from mcpproxy_py.store.chain_key import put_private
from mcpproxy_py.store.cluster.event_bus import RESYNC
from mcpproxy_py.store.codec import decode, encode
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.tables import events, sealed_records
from mcpproxy_py.store.seals import RECORD, OnRecord, Seals, UnbelievedRows, note_not_kept, noted_if_not_kept

if TYPE_CHECKING:
    from mcpproxy_py.store.cluster.membership import Membership
    from mcpproxy_py.store.saved_state import SavedState

RECORD_MEMORY: Final = "records.json"
LONGEST_NAME: Final = 512
LAST_EVENTS: Final = 200
"""A gateway that is killed within such a change has hardly recorded more after it."""
MOST_NAMED: Final = 100
"""Rows of a kind that are told as not believed, should somebody have written a million."""

Reason = Literal["changed", "put back", "missing"]
SAYS: Final[Mapping[Reason, str]] = {
    "changed": "carries no seal of a gateway: somebody else wrote or changed it",
    "put back": "is an older one, put back",
    "missing": "is gone from the database",
}


def tells_of(kind: str, hint: str, payload: Any) -> bool:
    """Whether a hint of the event bus is that records of this kind may have changed."""
    return hint == RESYNC or (hint == RECORD and isinstance(payload, list) and payload[:1] == [kind])


class SealedRecord(NamedTuple):
    """One that is believed. `at` is when it was last changed, in seconds."""

    name: str
    value: Any
    version: int
    at: float


class UnbelievedRecord(NamedTuple):
    """One that is not, and why. `version` is what a change of it has to expect."""

    name: str
    why: Reason
    version: int


class SealedRecords(NamedTuple):
    """All of a kind."""

    believed: Mapping[str, SealedRecord]
    unbelieved: Mapping[str, UnbelievedRecord]


class RecordConflict(Exception):
    """Another gateway was first; nothing was changed. `version` is how far it is now."""

    def __init__(self, kind: str, name: str, version: int) -> None:
        super().__init__(f"the {kind} '{name}' was changed meanwhile")
        self.version = version


class KnownVersion(NamedTuple):
    """What this gateway saw last."""

    version: int
    digest: str


_UNSEEN: Final = KnownVersion(0, "")


class RecordMemory:
    """The versions as this gateway last saw them, in its data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / RECORD_MEMORY
        self._turn = Lock()
        self._known: dict[str, dict[str, KnownVersion]] = {}
        try:
            if self._path.exists():
                with explained(self._path, "read"):
                    kept = json.loads(self._path.read_bytes())
                self._known = {
                    kind: {name: KnownVersion(int(version), str(digest)) for name, (version, digest) in names.items()}
                    for kind, names in kept.items()
                }
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise StoreUnavailable(
                f"{self._path} is damaged. Restore it from a backup, or write {{}} into it: what is sealed in the "
                "database counts then, also where it is an older one that was put back."
            ) from None

    def known(self, kind: str) -> Mapping[str, KnownVersion]:
        return dict(self._known.get(kind, {}))

    @property
    def kinds(self) -> list[str]:
        return list(self._known)

    def remember(self, kind: str, seen: Mapping[str, KnownVersion]) -> None:
        """Never an older one: two may come in another order than they were read."""
        with self._turn:
            there = self._known.setdefault(kind, {})
            news = {name: one for name, one in seen.items() if one.version > there.get(name, _UNSEEN).version}
            if news:
                there.update(news)
                with explained(self._path, "write"):
                    put_private(self._path, encode(self._known).decode() + "\n")


class SealedRecordTable:
    """Blocking. Raises `StoreUnavailable` when the database cannot be read or written."""

    def __init__(
        self, database: Database, seals: Seals, memory: RecordMemory, on_record: OnRecord, doubts: UnbelievedRows
    ) -> None:
        self._database = database
        self._seals = seals
        self._memory = memory
        self._on_record = on_record
        self._doubts = doubts
        self._doubted: dict[str, set[str]] = {}

    def all(self, kind: str) -> SealedRecords:
        return self._doubt(kind, self._judged(kind, self._memory.known(kind), sealed_records.c.kind == kind))

    def one(self, kind: str, name: str) -> SealedRecord | UnbelievedRecord | None:
        """`None` for one that never was."""
        known = {each: version for each, version in self._memory.known(kind).items() if each == name}
        found = self._judged(kind, known, sealed_records.c.kind == kind, sealed_records.c.name == name)
        return found.believed.get(name) or found.unbelieved.get(name)

    def put(self, kind: str, name: str, value: Any, expected: int | None, details: Mapping[str, Any]) -> SealedRecord:
        """In the chain first, then in the database; on the disk, in both, when it returns.

        `expected` is the version that this change was decided on, 0 for one that must not be there yet; `None` takes
        whatever is there. Raises `RecordConflict`. `details` go into the event beside the digest of the value.
        """
        if not name or len(name) > LONGEST_NAME:
            raise ValueError(f"the name of a record has 1 to {LONGEST_NAME} characters")
        text, database = encode(value).decode(), self._database
        with (
            database.explained(),
            noted_if_not_kept(self._on_record) as told,
            database.writing_for_good() as connection,
        ):
            self._database.lock_for_changes(connection)  # one gateway at a time counts on
            last = self._version(connection, kind, name)
            if expected is not None and expected != last:
                raise RecordConflict(kind, name, last)
            version, event, at = last + 1, secrets.token_hex(8), _now()
            self._on_record({"kind": RECORD, "id": event, "at": at / 1e6, "of": kind, "name": name,
                             "digest": digest_of_value(text), "version": version, "details": details})  # fmt: skip
            told.append(event)
            seal = self._seals.seal(RECORD, kind, name, text, version, event, at)
            row = {"value": text, "version": version, "event": event, "seal": seal, "at": at}
            _put_row(connection, kind, name, row)
        self._memory.remember(kind, {name: KnownVersion(version, digest_of_value(text))})
        self._doubts.settled(f"{kind} {name}")
        return SealedRecord(name, decode(text), version, at / 1e6)

    def seal_again(self) -> None:
        """With the keys of today, what holds by one of them."""
        with self._database.explained(), self._database.writing_for_good() as connection:
            for row in connection.execute(select(sealed_records)).all():
                if record_holds(self._seals, row):
                    seal = self._seals.seal(*_sealed(row))
                    here = sealed_records.c.kind == row.kind, sealed_records.c.name == row.name
                    connection.execute(update(sealed_records).where(*here).values(seal=seal))

    def note_not_kept(self, event: str) -> None:
        note_not_kept(self._on_record, event)

    def version(self, kind: str, name: str) -> int:
        with self._database.reading() as connection:
            return self._version(connection, kind, name)

    def _version(self, connection: Connection, kind: str, name: str) -> int:
        """The last that counts, whether or not its row is still there."""
        here = sealed_records.c.kind == kind, sealed_records.c.name == name
        row = connection.execute(select(sealed_records).where(*here)).first()
        last = row.version if row is not None and record_holds(self._seals, row) else 0
        return max(last, self._memory.known(kind).get(name, _UNSEEN).version)

    def _judged(self, kind: str, known: Mapping[str, KnownVersion], *where: ColumnElement[bool]) -> SealedRecords:
        with self._database.reading() as connection:
            rows = connection.execute(select(sealed_records).where(*where).order_by(sealed_records.c.name)).all()
        believed: dict[str, SealedRecord] = {}
        unbelieved: dict[str, UnbelievedRecord] = {}
        seen: dict[str, KnownVersion] = {}
        for row in rows:
            last = known.get(row.name, _UNSEEN)
            why = doubt_of(self._seals, row, last)
            if why is None:
                believed[row.name] = SealedRecord(row.name, decode(row.value), row.version, row.at / 1e6)
                seen[row.name] = KnownVersion(row.version, digest_of_value(row.value))
            else:
                unbelieved[row.name] = UnbelievedRecord(row.name, why, last.version)
        for name in known.keys() - believed.keys() - unbelieved.keys():
            unbelieved[name] = UnbelievedRecord(name, "missing", known[name].version)
        self._memory.remember(kind, seen)
        return SealedRecords(believed, unbelieved)

    def _doubt(self, kind: str, found: SealedRecords) -> SealedRecords:
        """Whoever looks after the gateway hears of what is not believed, and no more of what was mended."""
        for name in self._doubted.pop(kind, set()) | found.believed.keys():
            if name not in found.unbelieved:
                self._doubts.settled(f"{kind} {name}")
        for name, (_, why, _) in [*found.unbelieved.items()][:MOST_NAMED]:
            self._doubted.setdefault(kind, set()).add(name)
            self._doubts.found(f"{kind} {name}", f"the {kind} '{name[:80]}' {SAYS[why]}; it is not believed. `mcpproxy "
                                                 "activity verify` tells more")  # fmt: skip
        return found


def note_last_not_kept(database: Database, me: Membership, switches: SavedState, records: SealedRecordTable) -> None:
    """After this gateway was killed: what it put on record last, and whose row it could not keep any more. A row that
    was kept and is put back is not excused: its version is remembered outside of the database."""
    if not me.after_death:
        return
    latest = select(events.c.head).where(events.c.chain == me.number).order_by(events.c.seq.desc()).limit(LAST_EVENTS)
    with database.reading() as connection:
        heads = connection.execute(latest).scalars().all()
    known = set[str]()
    for each in map(_event, heads):
        match each:
            case {"kind": seals.NOT_KEPT, "id": str(event)}:
                known.add(event)
                continue
            case {"kind": seals.SWITCH, "id": str(event), "name": str(name), "version": int(version)}:
                kept = switches.version(name)
            case {"kind": seals.RECORD, "id": str(event), "of": str(kind), "name": str(name), "version": int(version)}:
                kept = records.version(kind, name)
            case _:
                continue
        if version > kept and event not in known:
            records.note_not_kept(event)


def _event(head: str) -> Any:
    try:
        return decode(head)
    except (ValueError, RecursionError):  # `verify` names it
        return None


def doubt_of(seals: Seals, row: Any, known: KnownVersion) -> Reason | None:
    """Why this row is not believed by a gateway that saw `known` last."""
    if not record_holds(seals, row):
        return "changed"
    if row.version < known.version or (row.version == known.version and known.digest != digest_of_value(row.value)):
        return "put back"
    return None


def record_holds(seals: Seals, row: Any) -> bool:
    return seals.holds(row.seal, *_sealed(row))


def digest_of_value(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()


def _sealed(row: Any) -> tuple[Any, ...]:
    return RECORD, row.kind, row.name, row.value, row.version, row.event, row.at


def _put_row(connection: Connection, kind: str, name: str, row: Mapping[str, Any]) -> None:
    here = sealed_records.c.kind == kind, sealed_records.c.name == name
    if connection.execute(update(sealed_records).where(*here).values(row)).rowcount == 0:
        connection.execute(insert(sealed_records), [{"kind": kind, "name": name, **row}])


def _now() -> int:
    return round(time.time() * 1e6)
