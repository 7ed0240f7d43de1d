"""The texts behind the digests of pins: what a tool was when it was approved.

They carry no seal. The digests do, in the record that names them, and whoever reads a text holds it against its digest.
So a text that somebody changes or takes is one that is missing, and no more. Each is a row of its own, because a
listing may be sixteen megabytes: what is read and written at once holds up everybody else.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store.codec import decode, encode
from mcpproxy_py.store.database.engine import Database, plain
from mcpproxy_py.store.database.tables import pinned_texts

T = TypeVar("T")
AT_ONCE: Final = 500
KEPT: Final = 24 * 3600.0
"""Seconds that a text outlives the last pin that named it: another gateway may be about to name it."""


class TextReaderThread(Protocol):
    def __call__(self, work: Callable[[], T]) -> Awaitable[T]: ...


class PinnedTexts:
    """Raises `StoreUnavailable`."""

    def __init__(self, database: Database, in_thread: TextReaderThread) -> None:
        self._database = database
        self._in_thread = in_thread

    async def load(self, digests: Collection[str]) -> dict[str, Any]:
        """Those that are there and can be read."""
        return await self._in_thread(partial(self._load, digests)) if digests else {}

    async def save(self, values: Mapping[str, Any]) -> None:
        """By their digests. Whatever stands under one of them is written anew: it may not be what it should be."""
        if values:
            await self._in_thread(partial(self._write, values))

    async def forget(self, but: Collection[str]) -> None:
        """All that no pin names any more, and none has named for a while."""
        await self._in_thread(partial(self._forget, but))

    def _load(self, digests: Collection[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        with self._database.reading() as connection:
            for some in _some(digests):
                query = select(pinned_texts.c.digest, pinned_texts.c.value).where(pinned_texts.c.digest.in_(some))
                for digest, value in connection.execute(query):
                    try:
                        found[digest] = decode(value)
                    except (ValueError, RecursionError):
                        continue
        return found

    def _write(self, values: Mapping[str, Any]) -> None:
        at = round(time.time() * 1e6)
        rows = [{"digest": digest, "value": encode(value).decode(), "at": at} for digest, value in values.items()]
        try:
            for some in _some(rows):
                self._save(some)
        except SQLAlchemyError as error:
            raise StoreUnavailable(f"cannot write {self._database.label}: {plain(error)}.") from error

    def _save(self, rows: list[dict[str, Any]]) -> None:
        for _ in range(2):
            try:
                with self._database.writing() as connection:
                    connection.execute(
                        delete(pinned_texts).where(pinned_texts.c.digest.in_([row["digest"] for row in rows]))
                    )
                    connection.execute(insert(pinned_texts), rows)
                return
            except IntegrityError:  # another gateway has just written the same
                continue

    def _forget(self, but: Collection[str]) -> None:
        over, keep = round((time.time() - KEPT) * 1e6), frozenset(but)
        try:
            with self._database.writing() as connection:
                old = connection.execute(select(pinned_texts.c.digest).where(pinned_texts.c.at < over)).scalars()
                named, gone = [], []
                for digest in old:
                    (named if digest in keep else gone).append(digest)
                now = round(time.time() * 1e6)
                for some in _some(named):
                    connection.execute(update(pinned_texts).where(pinned_texts.c.digest.in_(some)).values(at=now))
                for some in _some(gone):
                    connection.execute(delete(pinned_texts).where(pinned_texts.c.digest.in_(some)))
        except SQLAlchemyError as error:
            raise StoreUnavailable(f"cannot write {self._database.label}: {plain(error)}.") from error


def _some(values: Iterable[Any]) -> Iterable[list[Any]]:
    left = iter(values)
    while some := list(islice(left, AT_ONCE)):
        yield some
