"""Vectors of tools by the digest of their text: what every gateway of a database reads, within a bound."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mcpproxy_py.store.database import digest_rows
from mcpproxy_py.store.database.tool_vectors import StoredToolVectors
from mcpproxy_py.store.store import Store

pytestmark = [pytest.mark.proves("FIND-5"), pytest.mark.anyio]


async def test_what_was_kept_is_read_and_what_was_not_is_not_there(
    opened: Callable[..., Store], tmp_path: Path
) -> None:
    vectors = opened(tmp_path).tool_vectors
    many = {f"digest{number}": bytes([number % 256, 0]) for number in range(1_100)}
    await vectors.save(many)
    await vectors.save({"digest1": b"new"})
    await vectors.save({})
    assert await vectors.load([*many, "another"]) == {**many, "digest1": b"new"}
    assert await vectors.load([]) == {}


async def test_the_oldest_go_when_there_are_too_many(
    opened: Callable[..., Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(tmp_path)
    few = StoredToolVectors(store._database, store._in_thread, most=3)  # pyright: ignore[reportPrivateUsage]
    for number in range(5):
        now = 1_700_000_000.0 + number
        monkeypatch.setattr(digest_rows.time, "time", lambda now=now: now)
        await few.save({f"digest{number}": b"v"})
    assert set(await few.load([f"digest{number}" for number in range(5)])) == {"digest2", "digest3", "digest4"}
