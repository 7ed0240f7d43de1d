"""Small durable things beside the activity: the last known listing of each server, switches like freeze, and which
states of later rounds were used."""

from __future__ import annotations

import time
from typing import Any, Final

from sqlalchemy import Column, Connection, Table, delete, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from mcpproxy_py.store.codec import decode, encode
from mcpproxy_py.store.database import Database, plain
from mcpproxy_py.store.failure import StoreUnavailable
from mcpproxy_py.store.tables import listings, spent_states, switches

KEPT_SPENT: Final = 3600.0
"""Seconds that a used state is remembered after its time, for gateways whose clocks differ."""


class Shelf:
    """Blocking. Raises `StoreUnavailable` when the database cannot be read or written."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def listing(self, server: str) -> list[dict[str, Any]] | None:
        return self._read(listings, listings.c.server, listings.c.tools, server)

    def save_listing(self, server: str, tools: list[dict[str, Any]]) -> None:
        """Not synced: a listing that is lost is asked for again."""
        self._write(listings, listings.c.server, server, {"tools": encode(tools).decode()}, for_good=False)

    def switch(self, name: str) -> Any:
        return self._read(switches, switches.c.name, switches.c.value, name)

    def set_switch(self, name: str, value: Any) -> None:
        """On the disk when it returns."""
        self._write(switches, switches.c.name, name, {"value": encode(value).decode()}, for_good=True)

    def spend(self, key: str, expires: float) -> bool:
        """Whether this is the first time that somebody comes with this key. On the disk when it returns."""
        row = {"key": key, "expires_at": round(expires * 1e6)}
        over = round((time.time() - KEPT_SPENT) * 1e6)
        try:
            with self._database.writing_for_good() as connection:
                connection.execute(delete(spent_states).where(spent_states.c.expires_at < over))
                connection.execute(insert(spent_states), [row])
        except IntegrityError:
            return False
        except SQLAlchemyError as error:
            raise StoreUnavailable(f"cannot write {self._database.label}: {plain(error)}.") from error
        return True

    def _read(self, table: Table, key: Column[Any], column: Column[Any], wanted: str) -> Any:
        with self._database.reading() as connection:
            text = connection.execute(select(column).select_from(table).where(key == wanted)).scalar()
        return None if text is None else decode(text)

    def _write(self, table: Table, key: Column[Any], wanted: str, values: dict[str, Any], *, for_good: bool) -> None:
        transaction = self._database.writing_for_good if for_good else self._database.writing
        try:
            with transaction() as connection:
                _put(connection, table, key, wanted, {**values, "at": round(time.time() * 1e6)})
        except SQLAlchemyError as error:
            raise StoreUnavailable(f"cannot write {self._database.label}: {plain(error)}.") from error


def _put(connection: Connection, table: Table, key: Column[Any], wanted: str, values: dict[str, Any]) -> None:
    changed = connection.execute(update(table).where(key == wanted).values(values))
    if changed.rowcount == 0:
        connection.execute(insert(table), [{key.name: wanted, **values}])
