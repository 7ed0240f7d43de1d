"""What is too old or too much goes, in the background, and what stays can still be verified (ACT-7)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpproxy_py.store.activity.reader import Filters
from mcpproxy_py.store.projection import retention
from mcpproxy_py.store.projection.projector import Projector
from mcpproxy_py.store.store import Store
from tests.store.conftest import on_sqlite

pytestmark = [pytest.mark.proves("ACT-7"), pytest.mark.anyio]
Make = Callable[..., dict[str, Any]]
Open = Callable[..., Store]
DAY = 86_400.0


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks often and deletes little at a time, so that much of both is seen."""
    monkeypatch.setattr(retention, "EVERY", 0.1)
    monkeypatch.setattr(retention, "ROWS_AT_ONCE", 20)
    monkeypatch.setattr(retention, "EVENTS_AT_ONCE", 30)
    monkeypatch.setattr("mcpproxy_py.store.projection.follower.TIDY_EVERY", 0.1)


async def fill(store: Store, asked: Make, finished: Make, many: int, ages: float, size: int = 10) -> None:
    """Records from `ages` days ago until now, oldest first."""
    now = time.time()
    for number in range(many):
        at = now - ages * DAY * (1 - number / many)
        row = f"r{number:05}"
        text = os.urandom(size // 2).hex()  # that no database can make smaller
        store.append(asked(row, at=at, arguments={"text": text}), finished(row, at=at + 1))
    assert await store.caught_up(60)


async def until_quiet(store: Store) -> list[str]:
    """The ids that are left once retention has deleted some, looked again, and found nothing more to do."""
    assert isinstance(store._writer, Projector) and store._writer._retention
    retention = store._writer._retention
    with anyio.fail_after(60):
        looks = 0
        while looks < 2:
            last = retention._next_look
            while retention._next_look == last:  # noqa: ASYNC110
                await anyio.sleep(0.02)
            looks = looks + 1 if retention.deleted and not retention.busy else 0
    return sorted([row["id"] async for batch in store.export(Filters()) for row in batch])


async def test_records_older_than_the_limit_go_and_the_chain_still_holds(
    opened: Open, tmp_path: Path, asked: Make, finished: Make, sql: Any
) -> None:
    store = opened(tmp_path)
    await fill(store, asked, finished, 400, ages=10)
    store.close()
    store = opened(tmp_path, retention_days=5)
    left = await until_quiet(store)
    assert left == [f"r{number:05}" for number in range(400 - len(left), 400)]
    assert 195 <= len(left) <= 205
    report = await store.verify()
    assert (report["findings"], report["rows"], report["chains"][0]["first"] > 350) == ([], len(left), True)
    assert (await store.summary(Filters()))["total"] == len(left)
    assert sql("SELECT count(*) FROM activity_words") == [(len(left),)]
    assert sql("SELECT count(*) FROM rollup WHERE many <= 0") == [(0,)]
    assert sql("SELECT count(*) FROM events")[0][0] <= 2 * len(left) + 2


async def test_what_is_wrong_after_a_checkpoint_is_still_found(
    opened: Open, tmp_path: Path, asked: Make, finished: Make, sql: Any
) -> None:
    store = opened(tmp_path, retention_days=5)
    await fill(store, asked, finished, 200, ages=10)
    await until_quiet(store)
    (first,) = sql("SELECT min(seq) FROM events")[0]
    sql("DELETE FROM events WHERE seq = :seq", seq=first)
    assert [f["kind"] for f in (await store.verify())["findings"]] == ["missing"]
    sql("UPDATE checkpoints SET seq = seq + 1")
    assert any("checkpoint is not what retention wrote" in f["message"] for f in (await store.verify())["findings"])
    sql("DELETE FROM checkpoints")
    assert any(f"events 1 to {first} are missing" in f["message"] for f in (await store.verify())["findings"])


async def test_the_oldest_go_when_all_of_them_take_too_much(
    opened: Open, tmp_path: Path, asked: Make, finished: Make
) -> None:
    store = opened(tmp_path, max_size_mb=2)
    await fill(store, asked, finished, 600, ages=1, size=8_000)
    with anyio.fail_after(60):
        while store._database.size() > 2_000_000:  # noqa: ASYNC110
            await anyio.sleep(0.05)
    left = await until_quiet(store)
    assert 0 < len(left) < 500
    assert left == [f"r{number:05}" for number in range(600 - len(left), 600)]
    assert store._database.size() <= 2_000_000
    assert (await store.verify())["findings"] == []


@on_sqlite
async def test_the_file_shrinks(opened: Open, tmp_path: Path, asked: Make, finished: Make) -> None:
    store = opened(tmp_path)
    await fill(store, asked, finished, 800, ages=10, size=8_000)
    store.close()
    before = (tmp_path / "activity.db").stat().st_size
    store = opened(tmp_path, retention_days=1)
    await until_quiet(store)
    with anyio.fail_after(30):
        while store._database.size() < 0.9 * _pages(store):  # noqa: ASYNC110
            await anyio.sleep(0.05)
    store.close()
    assert (tmp_path / "activity.db").stat().st_size < before / 3


def _pages(store: Store) -> int:
    with store._database.readers.connect() as connection:
        count, size = (
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in ("page_count", "page_size")
        )
    return count * size


async def test_new_records_are_taken_all_the_while(opened: Open, tmp_path: Path, asked: Make, finished: Make) -> None:
    store = opened(tmp_path)
    await fill(store, asked, finished, 1000, ages=10)
    store.close()
    store = opened(tmp_path, retention_days=5)
    for number in range(200):
        store.append(asked(f"new{number:03}", at=time.time()), finished(f"new{number:03}", at=time.time()))
        assert await store.caught_up(30)
    left = await until_quiet(store)
    assert [row for row in left if row.startswith("new")] == [f"new{number:03}" for number in range(200)]
    assert (await store.verify())["findings"] == []


async def test_without_a_limit_nothing_ever_goes(opened: Open, tmp_path: Path, asked: Make, finished: Make) -> None:
    store = opened(tmp_path)
    await fill(store, asked, finished, 50, ages=4000)
    await anyio.sleep(0.5)  # several looks
    assert store.health()["retention_deleted"] == 0
