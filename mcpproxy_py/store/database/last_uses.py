"""When things were last used, for people who tidy up: written now and then, and nothing is decided by it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from sqlalchemy import Connection, insert, select, update

from mcpproxy_py.store.database.engine import Database, UsesThread
from mcpproxy_py.store.database.tables import last_uses


class LastUses:
    """By kind and name, in seconds since 1970. Everything raises `StoreUnavailable`."""

    def __init__(self, database: Database, in_thread: UsesThread) -> None:
        self._database = database
        self._in_thread = in_thread

    async def read(self, kind: str) -> Mapping[str, float]:
        return await self._in_thread(partial(self._read, kind))

    async def note(self, kind: str, uses: Mapping[str, float]) -> None:
        """Never an older one than stands there: several gateways write this."""
        await self._in_thread(partial(self._note, kind, uses))

    def _read(self, kind: str) -> dict[str, float]:
        with self._database.reading() as connection:
            return {name: at / 1e6 for name, at in _uses_in(connection, kind).items()}

    def _note(self, kind: str, uses: Mapping[str, float]) -> None:
        with self._database.explained(), self._database.writing() as connection:
            self._database.lock_for_changes(connection)
            there = _uses_in(connection, kind)
            for name, used in uses.items():
                at = round(used * 1e6)
                if name not in there:
                    connection.execute(insert(last_uses), [{"kind": kind, "name": name, "at": at}])
                elif there[name] < at:
                    here = last_uses.c.kind == kind, last_uses.c.name == name
                    connection.execute(update(last_uses).where(*here).values(at=at))


def _uses_in(connection: Connection, kind: str) -> dict[str, int]:
    """A value that is no number was written by somebody else."""
    rows = connection.execute(select(last_uses.c.name, last_uses.c.at).where(last_uses.c.kind == kind))
    return {row.name: row.at for row in rows if isinstance(row.at, int) and 0 <= row.at < 1 << 53}
