"""Small durable things beside the activity: the last known listing of each server, switches like freeze, and which
states of later rounds were used."""

from __future__ import annotations

import secrets
import time
from typing import Any, Final

from sqlalchemy import Column, Connection, Table, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from mcpproxy_py.store.codec import decode, encode
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.tables import listings, spent_states, switches
from mcpproxy_py.store.seals import (
    SWITCH,
    OnRecord,
    Seals,
    SwitchMemory,
    SwitchState,
    UnbelievedRows,
    noted_if_not_kept,
)

KEPT_SPENT: Final = 3600.0
"""Seconds that a used state is remembered after its time, for gateways whose clocks differ."""

_NEVER: Final = SwitchState(0, None)


class SavedState:
    """Blocking. Raises `StoreUnavailable` when the database cannot be read or written."""

    def __init__(
        self, database: Database, seals: Seals, memory: SwitchMemory, on_record: OnRecord, doubts: UnbelievedRows
    ) -> None:
        self._database = database
        self._seals = seals
        self._memory = memory
        self._on_record = on_record
        self._doubts = doubts

    def listing(self, server: str) -> list[dict[str, Any]] | None:
        return self._read(listings, listings.c.server, listings.c.tools, server)

    def save_listing(self, server: str, tools: list[dict[str, Any]]) -> None:
        """Not synced: a listing that is lost is asked for again."""
        with self._database.explained(), self._database.writing() as connection:
            _put(connection, listings, listings.c.server, server, {"tools": _encoded(tools), "at": _now()})

    def switch(self, name: str) -> Any:
        """`None` for one that was never set.

        What is set, as a freeze is, counts whoever wrote it. What lifts it counts with a seal that holds, and only if
        it is not older than what this gateway knew last; else all stays as that was, and set where nothing was known.
        """
        with self._database.reading() as connection:
            row = connection.execute(select(switches).where(switches.c.name == name)).first()
        known = self._memory.known(name)
        if row is None and known is None:
            return None
        if row is not None and switch_holds(self._seals, row) and (known is None or row.version >= known.version):
            value = decode(row.value)
            self._memory.remember(name, row.version, value)
            self._doubts.settled(name)
            return value
        self._doubts.found(name, f"the database says of the switch '{name}' what no gateway sealed, or what is out of "
                                 "date; it is not believed. `mcpproxy activity verify` tells more; to set it anew, "
                                 "freeze or unfreeze")  # fmt: skip
        return self._unbelieved(name, _value(row), known)

    def _unbelieved(self, name: str, claimed: Any, known: SwitchState | None) -> Any:
        if not claimed:
            return True if known is None else known.value
        if known is None or not known.value:  # from now on it takes more than what stood there before to lift it
            self._memory.remember(name, 1 + (known or _NEVER).version, claimed)
        return claimed

    def set_switch(self, name: str, value: Any) -> None:
        """In the chain first, then in the database; on the disk, in both, when it returns."""
        database = self._database
        with (
            database.explained(),
            noted_if_not_kept(self._on_record) as told,
            database.writing_for_good() as connection,
        ):
            database.lock_for_changes(connection)  # one gateway at a time counts on
            version = 1 + self._version(connection, name)
            self._put_switch(connection, name, encode(value).decode(), version, told)
        self._memory.remember(name, version, value)
        self._doubts.settled(name)

    def version(self, name: str) -> int:
        with self._database.reading() as connection:
            return self._version(connection, name)

    def _version(self, connection: Connection, name: str) -> int:
        """The last that counts, whether or not its row is still there."""
        row = connection.execute(select(switches).where(switches.c.name == name)).first()
        last = row.version if row is not None and switch_holds(self._seals, row) else 0
        return max(last, (self._memory.known(name) or _NEVER).version)

    def _put_switch(
        self, connection: Connection, name: str, text: str, version: int, told: list[str], **more: Any
    ) -> None:
        event, at = secrets.token_hex(8), _now()
        self._on_record({"kind": SWITCH, "id": event, "at": at / 1e6, "name": name, "value": decode(text),
                         "version": version, **more})  # fmt: skip
        told.append(event)
        seal = self._seals.seal(SWITCH, name, text, version, event, at)
        values = {"value": text, "at": at, "version": version, "event": event, "seal": seal}
        _put(connection, switches, switches.c.name, name, values)

    def adopt(self) -> int:
        """Switches of a version that did not seal, as they are: once, at this directory's first start with one that
        does. That they were taken over is on record."""
        database = self._database
        with (
            database.explained(),
            noted_if_not_kept(self._on_record) as told,
            database.writing_for_good() as connection,
        ):
            rows = connection.execute(select(switches).where(switches.c.seal.is_(None))).all()
            for row in rows:
                self._put_switch(connection, row.name, row.value, 1, told, adopted=True)
        return len(rows)

    def seal_again(self) -> None:
        """With the keys of today, what holds by one of them."""
        with self._database.explained(), self._database.writing_for_good() as connection:
            for row in connection.execute(select(switches)).all():
                if switch_holds(self._seals, row):
                    seal = self._seals.seal(SWITCH, row.name, row.value, row.version, row.event, row.at)
                    connection.execute(update(switches).where(switches.c.name == row.name).values(seal=seal))

    def spend(self, key: str, expires: float) -> bool:
        """Whether this is the first time that somebody comes with this key. On the disk when it returns."""
        row = {"key": key, "expires_at": round(expires * 1e6)}
        over = round((time.time() - KEPT_SPENT) * 1e6)
        with self._database.explained():
            try:
                with self._database.writing_for_good() as connection:
                    connection.execute(delete(spent_states).where(spent_states.c.expires_at < over))
                    connection.execute(insert(spent_states), [row])
            except IntegrityError:
                return False
        return True

    def _read(self, table: Table, key: Column[Any], column: Column[Any], wanted: str) -> Any:
        with self._database.reading() as connection:
            text = connection.execute(select(column).select_from(table).where(key == wanted)).scalar()
        return None if text is None else decode(text)


def switch_holds(seals: Seals, row: Any) -> bool:
    return seals.holds(row.seal, SWITCH, row.name, row.value, row.version, row.event, row.at)


def _value(row: Any) -> Any:
    """What an unsealed row claims; what cannot even be read claims nothing."""
    try:
        return None if row is None else decode(row.value)
    except (ValueError, RecursionError):
        return None


def _now() -> int:
    return round(time.time() * 1e6)


def _encoded(tools: list[dict[str, Any]]) -> str:
    """One by one: an encoder does not let go of the interpreter before it is through."""
    return f"[{','.join(encode(tool).decode() for tool in tools)}]"


def _put(connection: Connection, table: Table, key: Column[Any], wanted: str, values: dict[str, Any]) -> None:
    changed = connection.execute(update(table).where(key == wanted).values(values))
    if changed.rowcount == 0:
        connection.execute(insert(table), [{key.name: wanted, **values}])
