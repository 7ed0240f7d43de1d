"""Rows that are known by the digest of what they hold, and carry no seal: whoever reads one holds it against that.

What is read and written at once holds up everybody else, so it is done by some hundreds of rows.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from sqlalchemy import Table, delete, insert, select
from sqlalchemy.exc import IntegrityError

from mcpproxy_py.store.database.engine import Database

AT_ONCE: Final = 500


class DigestRows:
    """Blocking. `table` has the columns `digest`, `value` and `at`."""

    def __init__(self, database: Database, table: Table) -> None:
        self._database = database
        self._table = table

    def read(self, digests: Collection[str]) -> Iterator[tuple[str, Any]]:
        """Those that are there."""
        named = self._table.c.digest
        with self._database.reading() as connection:
            for some in in_batches(digests):
                query = select(named, self._table.c.value).where(named.in_(some))
                yield from ((digest, value) for digest, value in connection.execute(query))

    def write(self, values: Mapping[str, Any]) -> None:
        """Whatever stands under one of these digests is written anew."""
        at = round(time.time() * 1e6)
        for some in in_batches(values):
            self._write([{"digest": digest, "value": values[digest], "at": at} for digest in some])

    def _write(self, rows: list[dict[str, Any]]) -> None:
        named = self._table.c.digest.in_([row["digest"] for row in rows])
        for _ in range(2):
            try:
                with self._database.writing() as connection:
                    connection.execute(delete(self._table).where(named))
                    connection.execute(insert(self._table), rows)
                return
            except IntegrityError:  # another gateway has just written the same
                continue


def in_batches(values: Iterable[Any]) -> Iterator[list[Any]]:
    left = iter(values)
    while some := list(islice(left, AT_ONCE)):
        yield some
