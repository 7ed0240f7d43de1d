"""Several gateways on one PostgreSQL: together, dead, cut off, and without their database (ACT-6)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store.activity.reader import Filters
from mcpproxy_py.store.cluster import membership
from mcpproxy_py.store.cluster.event_bus import RESYNC, EventBus
from mcpproxy_py.store.database.postgres import Postgres
from mcpproxy_py.store.options import Options
from mcpproxy_py.store.projection.projector_client import ProjectorProcess
from mcpproxy_py.store.store import Store, open_store
from tests.store.conftest import on_postgres
from tests.support.postgres import Server, own_server

pytestmark = [pytest.mark.proves("ACT-6"), pytest.mark.anyio]
Make = Callable[..., dict[str, Any]]
Open = Callable[..., Store]


async def until(condition: Callable[[], Any], what: str, seconds: float = 60) -> None:
    with anyio.move_on_after(seconds):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.02)
        return
    raise AssertionError(f"{what} did not come true in {seconds} s")


async def all_listen(sql: Any, gateways: int) -> None:
    """What is said before that nobody has promised to hear."""
    listening = """SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND state = 'idle' AND query LIKE 'LISTEN %'"""
    await until(lambda: sql(listening) == [(gateways,)], "all of them to listen")


async def status_of(store: Store, row_id: str) -> str | None:
    row = await store.activity(row_id)
    return row["status"] if row else None


@on_postgres
async def test_what_one_records_all_can_read(opened: Open, tmp_path: Path, asked: Make, finished: Make) -> None:
    one, other = opened(tmp_path / "one"), opened(tmp_path / "other")
    for number in range(50):
        one.append(asked(f"one{number:02}"), finished(f"one{number:02}"))
        other.append(asked(f"other{number:02}"), finished(f"other{number:02}"))
    assert await one.caught_up(30)
    assert await other.caught_up(30)
    for store in (one, other):
        rows = [row["id"] async for batch in store.export(Filters()) for row in batch]
        assert len(rows) == 100
        assert (await store.summary(Filters()))["total"] == 100
    shutil.copy(tmp_path / "one" / "chain.key", tmp_path / "third.key")
    report = await one.verify()
    assert [chain["checked"] for chain in report["chains"]] == [True, False]
    assert report["findings"] == []


@on_postgres
@pytest.mark.proves("ACT-8")
async def test_gateways_that_share_a_key_can_verify_each_other(
    opened: Open, tmp_path: Path, asked: Make, finished: Make, sql: Any
) -> None:
    one = opened(tmp_path / "one")
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "one" / "chain.key", tmp_path / "other")
    other = opened(tmp_path / "other")
    for store, name in ((one, "a"), (other, "b")):
        store.append(asked(name), finished(name))
        assert await store.caught_up(30)
    report = await one.verify()
    assert ([chain["checked"] for chain in report["chains"]], report["rows"]) == ([True, True], 2)
    sql("UPDATE activity SET tool = 'x' WHERE id = 'b'")
    for store in (one, other):
        assert [found["id"] for found in (await store.verify())["findings"]] == ["b"]


@on_postgres
async def test_a_copied_data_directory_is_refused(
    opened: Open, tmp_path: Path, child: Callable[..., Any], options: Options
) -> None:
    process = child(DIES, tmp_path / "one", options.as_line())
    assert process.stdout.readline() == "there\n"
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    with pytest.raises(StoreUnavailable, match=r"writes as .* remove chain\.name from a copied one"):
        opened(tmp_path / "copy")


DIES = """
    import sys, time
    from pathlib import Path
    from mcpproxy_py.store.store import Options, open_store

    store = open_store(Path(sys.argv[1]), options=Options.from_line(sys.argv[2]))
    for name in ("pending", "done"):
        store.append({"kind": "asked", "id": name, "at": time.time(), "tool": "t"})
    store.append({"kind": "finished", "id": "done", "at": time.time(), "status": "success"})
    store._writer.wait_for(store._journal.end, 30)
    print("there", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def notice(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """To be called when somebody is dead: who is only slow must not be taken for it before."""
    monkeypatch.setattr(membership, "RENEWAL", 0.1)
    return lambda: monkeypatch.setattr(membership, "LAPSE", 1.0)


@on_postgres
async def test_what_a_dead_gateway_left_pending_is_closed_by_one_of_the_others(
    opened: Open,
    tmp_path: Path,
    child: Callable[..., Any],
    options: Options,
    recorded: Any,
    notice: Callable[[], None],
) -> None:
    process = child(DIES, tmp_path / "dead", options.as_line())
    assert process.stdout.readline() == "there\n"
    one, other = opened(tmp_path / "one"), opened(tmp_path / "other")
    process.kill()
    process.wait(30)
    notice()
    with anyio.fail_after(60):
        while await status_of(one, "pending") != "interrupted":  # noqa: ASYNC110
            await anyio.sleep(0.05)
    assert await status_of(one, "done") == "success"
    assert await one.caught_up(30)
    assert await other.caught_up(30)
    assert recorded(tmp_path).count(("pending", "finished")) == 1, "by one of them, once"
    assert (await one.verify())["findings"] == []
    again = await anyio.to_thread.run_sync(opened, tmp_path / "dead")
    assert await status_of(again, "pending") == "interrupted"
    assert (await again.verify())["findings"] == []


@on_postgres
async def test_a_gateway_that_was_only_cut_off_has_the_last_word(
    opened: Open, tmp_path: Path, asked: Make, finished: Make, notice: Callable[[], None]
) -> None:
    cut_off, other = opened(tmp_path / "cut-off"), opened(tmp_path / "other")
    cut_off.append(asked())
    assert await cut_off.caught_up(30)
    assert cut_off._heartbeat is not None
    cut_off._heartbeat.close()
    notice()
    with anyio.fail_after(60):
        while await status_of(other, "a1") != "interrupted":  # noqa: ASYNC110
            await anyio.sleep(0.05)
    cut_off.append(finished())
    assert await cut_off.caught_up(30)
    assert await status_of(other, "a1") == "success"
    assert (await other.summary(Filters()))["by_status"] == {"success": 1}


@on_postgres
async def test_who_is_taken_for_dead_after_it_was_done_changes_nothing(
    opened: Open, tmp_path: Path, asked: Make, finished: Make
) -> None:
    one, other = opened(tmp_path / "one"), opened(tmp_path / "other")
    one.append(asked(), finished())
    assert await one.caught_up(30)
    other.append(membership.interrupted("a1", 5.0))
    assert await other.caught_up(30)
    assert await status_of(other, "a1") == "success"


@on_postgres
async def test_an_announcement_reaches_every_gateway_once(opened: Open, tmp_path: Path, sql: Any) -> None:
    stores = [opened(tmp_path / name) for name in ("one", "two", "three")]
    heard: dict[int, list[Any]] = {number: [] for number in range(3)}
    for number, store in enumerate(stores):
        store.on_event(lambda kind, said, to=heard[number]: to.append((kind, said)) if kind == "list" else None)
    await all_listen(sql, 3)
    stores[0].publish("list", {"server": "github"})
    stores[1].publish("list", "ünicode")
    await until(lambda: all(len(told) == 2 for told in heard.values()), "everybody to hear both")
    await anyio.sleep(0.2)
    assert all(sorted(map(str, told)) == sorted(map(str, heard[0])) for told in heard.values())
    with pytest.raises(ValueError, match="hint"):
        stores[0].publish("list", "x" * 8000)


@on_postgres
@pytest.mark.proves("GATE-13")
async def test_a_switch_that_one_throws_is_announced_and_read_by_the_others(
    opened: Open, tmp_path: Path, sql: Any
) -> None:
    one, other = opened(tmp_path / "one"), opened(tmp_path / "other")
    heard: list[Any] = []
    other.on_event(lambda kind, said: heard.append(said) if kind == "switch" else None)
    await all_listen(sql, 2)
    await one.set_switch("frozen", True)
    await until(lambda: heard == ["frozen"], "the other to hear")
    assert await other.switch("frozen") is True


@on_postgres
async def test_who_streams_hears_of_what_another_gateway_records(
    opened: Open, tmp_path: Path, asked: Make, finished: Make, sql: Any
) -> None:
    one, other = opened(tmp_path / "one"), opened(tmp_path / "other")
    await all_listen(sql, 2)
    stream = one.events()
    assert (await anext(stream)).events[0].kind == "hello"  # type: ignore[union-attr]
    other.append(asked(), finished())
    told: list[tuple[str, str]] = []
    with anyio.fail_after(60):
        while len(told) < 2:
            batch = await anext(stream)
            told += [(event.kind, event.record["id"]) for event in (batch.events if batch else ()) if event.record]
    assert told == [("asked", "a1"), ("finished", "a1")]
    await stream.aclose()


async def test_within_one_process_an_announcement_is_heard_at_once() -> None:
    event_bus, heard = EventBus(), []
    end = event_bus.on_event(lambda kind, said: heard.append((kind, said)))
    event_bus.on_event(lambda kind, said: 1 / 0)
    event_bus.publish("approval", 7)
    end()
    event_bus.publish("approval", 8)
    assert heard == [("approval", 7)]


# -- without the database


@pytest.fixture
def server() -> Iterator[Server]:
    with own_server() as server:
        yield server


@pytest.mark.proves("ACT-5")
@pytest.mark.parametrize("apart", [False, True], ids=["thread", "apart"])
async def test_a_database_that_is_gone_for_a_while_costs_nothing(
    server: Server, tmp_path: Path, asked: Make, finished: Make, apart: bool
) -> None:
    url = server.database()
    store = open_store(tmp_path, options=Options(database_url=url), apart=apart)
    try:
        heard: list[str] = []
        store.on_event(lambda kind, said: heard.append(kind))
        store.append(asked("before"), finished("before"))
        assert await store.caught_up(60)
        for row in ("during", "later"):
            await anyio.to_thread.run_sync(server.kill)
            store.append(asked(row), finished(row))
            await store.synced()
            assert not await store.caught_up(0.5)
            health = store.health()
            assert (health["writable"], health["lag_bytes"] > 0) == (True, True)
            with pytest.raises(StoreUnavailable, match="cannot read postgresql://"):
                await store.activities(Filters())
            await anyio.to_thread.run_sync(server.start)
            assert await store.caught_up(60)
            assert await status_of(store, row) == "success"
        assert (await store.verify())["findings"] == []
        await until(lambda: RESYNC in heard, "everybody to be told to read anew")
    finally:
        store.close()


@pytest.mark.proves("ACT-5")
async def test_a_commit_whose_outcome_is_unknown_is_looked_up_before_it_is_done_again(
    options: Options, opened: Open, tmp_path: Path, asked: Make, finished: Make, monkeypatch: pytest.MonkeyPatch,
    recorded: Any
) -> None:  # fmt: skip
    """The connection breaks after the commit and before its answer: for the writer it looks like a failure."""
    from contextlib import contextmanager

    from sqlalchemy.exc import OperationalError

    store = opened(tmp_path)
    database, broken = store._database, []
    whole = database.writing

    @contextmanager
    def breaks_once() -> Any:
        with whole() as connection:
            yield connection
        if not broken:
            broken.append(True)
            raise OperationalError("COMMIT", {}, Exception("connection lost"))

    monkeypatch.setattr(database, "writing", breaks_once)
    store.append(asked(), finished())
    assert await store.caught_up(60)
    assert broken
    assert recorded(tmp_path) == [("a1", "asked"), ("a1", "finished")]
    assert (await store.summary(Filters()))["total"] == 1


@pytest.mark.proves("ACT-5")
async def test_a_connection_that_is_cut_in_the_middle_of_a_batch_is_made_up_for(
    opened: Open, tmp_path: Path, asked: Make, options: Options, postgres: Server
) -> None:
    if options.database_url is None:
        pytest.skip("SQLite has no connection to cut")
    store = opened(tmp_path)
    victim = Postgres(options.database_url)
    for round_ in range(5):
        for number in range(400):
            store.append(asked(f"{round_}-{number:03}"))
        store._writer.flush_soon()
        await anyio.sleep(0.01 * round_)
        with victim.writing() as connection:
            connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
    victim.close()
    assert await store.caught_up(60)
    assert (await store.summary(Filters()))["total"] == 2000
    assert (await store.verify())["findings"] == []


@pytest.mark.parametrize("url", [
    "postgresql://nobody:secret@127.0.0.1:1/x", "postgresql://127.0.0.1:1/x?password=secret",
])  # fmt: skip
async def test_a_database_that_cannot_be_reached_at_the_start_is_named_without_its_password(
    tmp_path: Path, url: str
) -> None:
    with pytest.raises(StoreUnavailable, match="cannot use the database postgresql://127") as caught:
        open_store(tmp_path, options=Options(database_url=url))
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(Options(database_url=url))


# -- what an answer waits for


async def test_an_answer_can_wait_for_the_database(opened: Open, tmp_path: Path, asked: Make, sql: Any) -> None:
    store = opened(tmp_path, ack="commit")
    async with anyio.create_task_group() as tasks:
        for number in range(50):

            async def one(row: str = f"r{number}") -> None:
                store.append(asked(row))
                await store.synced()
                await store.acknowledged()
                assert await store.activity(row) is not None

            tasks.start_soon(one)
    assert store.health()["unacknowledged"] == 0


async def test_while_the_database_is_away_nothing_above_read_begins_and_answers_are_counted(
    opened: Open, tmp_path: Path, asked: Make, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpproxy_py.store.store.COMMIT_TIMEOUT", 0.3)
    store = opened(tmp_path, ack="commit")
    sql("ALTER TABLE events RENAME TO hidden")
    store.append(asked())
    with pytest.raises(StoreUnavailable, match="does not take records"):
        await store.synced()
    await store.acknowledged()
    assert store.health()["unacknowledged"] == 1
    sql("ALTER TABLE hidden RENAME TO events")
    assert await store.caught_up(30)
    await store.acknowledged()
    assert store.health()["unacknowledged"] == 1


def test_ids_of_processes_are_checked_where_they_run() -> None:
    assert membership._lives(os.getpid())
    assert not membership._lives(2**22 + 1)


@on_postgres
@pytest.mark.proves("ACT-8")
async def test_an_ask_that_ends_at_another_gateway_than_it_began_at_is_one_row_and_verifies(
    opened: Open, tmp_path: Path, asked: Make, finished: Make
) -> None:
    """Its rounds went to different gateways, and the one that saw its end was first to reach the database."""
    one = opened(tmp_path / "one")
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "one" / "chain.key", tmp_path / "other")
    other = opened(tmp_path / "other")
    given_up = {"status": "timeout", "duration_ms": None, "response": None, "response_size": 0, "metadata": {}}
    for begins, ends, row in ((one, other, "a"), (other, one, "b")):
        ends.append(finished(row, metadata={}))
        assert await ends.caught_up(30)
        begins.append(asked(row), finished(row, at=1_700_000_301.5, **given_up))
        assert await begins.caught_up(30)
        assert await status_of(one, row) == "success"
    for store in (one, other):
        report = await store.verify()
        assert (report["findings"], report["rows"]) == ([], 2)
        assert (await store.summary(Filters()))["by_status"] == {"success": 2}


async def test_others_are_told_without_telling_oneself() -> None:
    event_bus, heard = EventBus(), []
    event_bus.on_event(lambda kind, said: heard.append((kind, said)))
    event_bus.publish_elsewhere("list_changed", ["github", "x"])
    assert heard == []
    with pytest.raises(ValueError, match="hint"):
        event_bus.publish_elsewhere("list_changed", "x" * 8000)


@pytest.mark.proves("ACT-5")
async def test_a_database_that_does_not_even_answer_is_waited_for_only_so_long(
    server: Server, tmp_path: Path, asked: Make, finished: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in its tracks, as behind a network that swallows everything: no error comes, and no end."""
    store = open_store(tmp_path, options=Options(database_url=server.database()))
    try:
        store.append(asked("before"), finished("before"))
        assert await store.caught_up(60)
        with server.silent(), monkeypatch.context() as hurry:
            hurry.setattr("mcpproxy_py.store.database.reader_threads.PATIENCE", 1.0)
            store.append(asked("during"), finished("during"))
            await store.synced()
            for read in (store.activities(Filters()), store.position(), store.switch("frozen"), anext(store.events())):
                with pytest.raises(StoreUnavailable, match="did not answer"):
                    await read
        assert await store.caught_up(60)
        assert {row["id"] for row in (await store.activities(Filters())).activities} == {"during", "before"}
    finally:
        store.close()


async def test_a_gateway_can_end_while_its_database_says_nothing(
    server: Server, tmp_path: Path, asked: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpproxy_py.store.store.CLOSE_TIMEOUT", 0.5)
    options = Options(database_url=server.database())
    store = open_store(tmp_path, options=options, apart=True)
    remote = store._writer
    assert isinstance(remote, ProjectorProcess)
    await until(lambda: remote.pid, "a process apart")
    with server.silent():
        store.append(asked("left"))
        with anyio.fail_after(60):
            await anyio.to_thread.run_sync(store.close)
    await until(lambda: remote.pid is None, "the end of what was killed")
    again = await anyio.to_thread.run_sync(lambda: open_store(tmp_path, options=options))
    assert await status_of(again, "left") == "interrupted"
    again.close()
