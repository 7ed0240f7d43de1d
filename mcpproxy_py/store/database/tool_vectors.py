"""What tools mean, as vectors by the digest of the text that each was made of.

Making one takes twenty times as long as reading it, and every gateway of a database needs the same. A row that somebody
else wrote can change the order of results and no more, and whoever reads it looks whether it is a vector. How many
there can be is bounded, since servers may list other tools every few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final

from sqlalchemy import delete, func, insert, select
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store.database.engine import Database, plain
from mcpproxy_py.store.database.pinned_texts import TextReaderThread
from mcpproxy_py.store.database.tables import tool_vectors

AT_ONCE: Final = 500
MOST: Final = 50_000
"""Of half a kilobyte each. The oldest go first."""


class StoredToolVectors:
    """Raises `StoreUnavailable`."""

    def __init__(self, database: Database, in_thread: TextReaderThread, *, most: int = MOST) -> None:
        self._database = database
        self._in_thread = in_thread
        self._most = most

    async def load(self, digests: Collection[str]) -> dict[str, bytes]:
        """Those that are there."""
        return await self._in_thread(partial(self._load, digests)) if digests else {}

    async def save(self, values: Mapping[str, bytes]) -> None:
        if values:
            await self._in_thread(partial(self._write, values))

    def _load(self, digests: Collection[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        with self._database.reading() as connection:
            for some in _some(digests):
                query = select(tool_vectors.c.digest, tool_vectors.c.value).where(tool_vectors.c.digest.in_(some))
                found.update((digest, bytes(value)) for digest, value in connection.execute(query))
        return found

    def _write(self, values: Mapping[str, bytes]) -> None:
        at = round(time.time() * 1e6)
        try:
            for some in _some(values):
                self._save([{"digest": digest, "value": values[digest], "at": at} for digest in some])
            self._forget()
        except SQLAlchemyError as error:
            raise StoreUnavailable(f"cannot write {self._database.label}: {plain(error)}.") from error

    def _save(self, rows: list[dict[str, Any]]) -> None:
        for _ in range(2):
            try:
                with self._database.writing() as connection:
                    named = tool_vectors.c.digest.in_([row["digest"] for row in rows])
                    connection.execute(delete(tool_vectors).where(named))
                    connection.execute(insert(tool_vectors), rows)
                return
            except IntegrityError:  # another gateway has just written the same
                continue

    def _forget(self) -> None:
        with self._database.writing() as connection:
            over = connection.execute(select(func.count()).select_from(tool_vectors)).scalar_one() - self._most
            if over > 0:
                oldest = select(tool_vectors.c.digest).order_by(tool_vectors.c.at, tool_vectors.c.digest).limit(over)
                connection.execute(delete(tool_vectors).where(tool_vectors.c.digest.in_(oldest)))


def _some(values: Iterable[Any]) -> Iterable[list[Any]]:
    left = iter(values)
    while some := list(islice(left, AT_ONCE)):
        yield some
