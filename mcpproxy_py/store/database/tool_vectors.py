"""What tools mean, as vectors by the digest of the text that each was made of.

Making one takes twenty times as long as reading it, and every gateway of a database needs the same. A row that somebody
else wrote can change the order of results and no more, and whoever reads it looks whether it is a vector. How many
there can be is bounded, since servers may list other tools every few seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

from sqlalchemy import delete, func, select

from mcpproxy_py.store.database.digest_rows import DigestRows
from mcpproxy_py.store.database.engine import Database, UsesThread
from mcpproxy_py.store.database.tables import tool_vectors

MOST: Final = 50_000
"""Of half a kilobyte each. The oldest go first."""


class StoredToolVectors:
    """Raises `StoreUnavailable`."""

    def __init__(self, database: Database, in_thread: UsesThread, *, most: int = MOST) -> None:
        self._database = database
        self._rows = DigestRows(database, tool_vectors)
        self._in_thread = in_thread
        self._most = most

    async def load(self, digests: Collection[str]) -> dict[str, bytes]:
        """Those that are there."""
        return await self._in_thread(partial(self._load, digests)) if digests else {}

    async def save(self, values: Mapping[str, bytes]) -> None:
        if values:
            await self._in_thread(partial(self._write, values))

    def _load(self, digests: Collection[str]) -> dict[str, bytes]:
        return {digest: bytes(value) for digest, value in self._rows.read(digests)}

    def _write(self, values: Mapping[str, bytes]) -> None:
        with self._database.explained():
            self._rows.write(values)
            self._forget()

    def _forget(self) -> None:
        with self._database.writing() as connection:
            over = connection.execute(select(func.count()).select_from(tool_vectors)).scalar_one() - self._most
            if over > 0:
                oldest = select(tool_vectors.c.digest).order_by(tool_vectors.c.at, tool_vectors.c.digest).limit(over)
                connection.execute(delete(tool_vectors).where(tool_vectors.c.digest.in_(oldest)))
