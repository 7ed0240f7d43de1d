"""The next batch is read while the one before it is committed; whatever becomes of that one, each event is applied
once and in order (ACT-5)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mcpproxy_py.store.activity.reader import Filters
from mcpproxy_py.store.projection import projector
from mcpproxy_py.store.projection.projector import BatchPrefetch
from mcpproxy_py.store.store import Store

pytestmark = [pytest.mark.proves("ACT-5"), pytest.mark.anyio]
Make = Callable[..., dict[str, Any]]
Open = Callable[[Path], Store]

MANY = 60


@pytest.fixture
def read_ahead(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Batches of a few events, and the places that were read ahead."""
    places: list[Any] = []
    begin = BatchPrefetch.__init__

    def noted(self: BatchPrefetch, place: Any, batch_at: Any) -> None:
        places.append(place)
        begin(self, place, batch_at)

    monkeypatch.setattr(BatchPrefetch, "__init__", noted)
    monkeypatch.setattr(projector, "BATCH_BYTES", 3000)
    return places


async def fill(store: Store, asked: Make, finished: Make) -> None:
    """While the database is not written, so that a backlog grows."""
    store._writer.halt()
    store._journal._segment_bytes = 8000
    for number in range(MANY):
        store.append(asked(f"{number:04d}", at=1000.0 + number), finished(f"{number:04d}", at=1000.5 + number))


def drain_in_spite_of(trouble: type[Exception], store: Store, tries: int) -> None:
    for _ in range(tries):
        with suppress(trouble):
            store._writer.drain()  # type: ignore[attr-defined]


def expected() -> list[tuple[str, str]]:
    return [(f"{number:04d}", kind) for number in range(MANY) for kind in ("asked", "finished")]


async def test_a_backlog_is_read_ahead_and_applied_once_and_in_order(
    tmp_path: Path, opened: Open, asked: Make, finished: Make, recorded: Any, read_ahead: list[Any]
) -> None:
    store = opened(tmp_path)
    await fill(store, asked, finished)
    store._writer.drain()  # type: ignore[attr-defined]
    rows = [row async for batch in store.export(Filters()) for row in batch]
    assert [row["status"] for row in rows] == ["success"] * MANY
    store.close()
    assert recorded(tmp_path) == expected()
    assert len(read_ahead) > 5


async def test_what_was_read_ahead_of_a_batch_that_failed_changes_nothing(
    tmp_path: Path, opened: Open, asked: Make, finished: Make, recorded: Any, read_ahead: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    store = opened(tmp_path)
    await fill(store, asked, finished)
    failures = iter([False, True, False, False, True, True])
    ring = store._database.publish_recorded

    def failing(connection: Any, number: int) -> None:
        ring(connection, number)
        if next(failures, False):
            raise OSError("the disk had a bad moment")

    monkeypatch.setattr(store._database, "publish_recorded", failing)
    drain_in_spite_of(OSError, store, tries=4)
    store.close()
    assert recorded(tmp_path) == expected()


async def test_trouble_with_reading_ahead_is_trouble_with_that_batch_and_is_tried_again(
    tmp_path: Path, opened: Open, asked: Make, finished: Make, recorded: Any, read_ahead: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    store = opened(tmp_path)
    await fill(store, asked, finished)
    read, troubles = projector.read, iter([True, True])

    def failing(line: bytes) -> Any:
        if threading.current_thread().name == "mcpproxy-ahead" and next(troubles, False):
            raise MemoryError
        return read(line)

    monkeypatch.setattr(projector, "read", failing)
    drain_in_spite_of(MemoryError, store, tries=3)
    store.close()
    assert recorded(tmp_path) == expected()
