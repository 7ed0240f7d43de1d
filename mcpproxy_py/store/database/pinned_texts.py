"""The texts behind the digests of pins: what a tool was when it was approved.

They carry no seal. The digests do, in the record that names them, and whoever reads a text holds it against its digest.
So a text that somebody changes or takes is one that is missing, and no more. Each is a row of its own, because a
listing may be sixteen megabytes.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from sqlalchemy import delete, select, update

from mcpproxy_py.store.codec import decode, encode
from mcpproxy_py.store.database.digest_rows import DigestRows, in_batches
from mcpproxy_py.store.database.engine import Database, UsesThread
from mcpproxy_py.store.database.tables import pinned_texts

KEPT: Final = 24 * 3600.0
"""Seconds that a text outlives the last pin that named it: another gateway may be about to name it."""


class PinnedTexts:
    """Raises `StoreUnavailable`."""

    def __init__(self, database: Database, in_thread: UsesThread) -> None:
        self._database = database
        self._rows = DigestRows(database, pinned_texts)
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
        for digest, value in self._rows.read(digests):
            with suppress(ValueError, RecursionError):
                found[digest] = decode(value)
        return found

    def _write(self, values: Mapping[str, Any]) -> None:
        written = {digest: encode(value).decode() for digest, value in values.items()}
        with self._database.explained():
            self._rows.write(written)

    def _forget(self, but: Collection[str]) -> None:
        over, keep = round((time.time() - KEPT) * 1e6), frozenset(but)
        with self._database.explained(), self._database.writing() as connection:
            old = connection.execute(select(pinned_texts.c.digest).where(pinned_texts.c.at < over)).scalars()
            named, gone = [], []
            for digest in old:
                (named if digest in keep else gone).append(digest)
            now = round(time.time() * 1e6)
            for some in in_batches(named):
                connection.execute(update(pinned_texts).where(pinned_texts.c.digest.in_(some)).values(at=now))
            for some in in_batches(gone):
                connection.execute(delete(pinned_texts).where(pinned_texts.c.digest.in_(some)))
