"""The writer in a process of its own: killed, orphaned, hurried, hindered (ACT-5, OPS-2)."""

from __future__ import annotations

import json
import os
import signal
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store.activity.reader import Filters
from mcpproxy_py.store.options import Options
from mcpproxy_py.store.projection.projector_client import ProjectorProcess
from mcpproxy_py.store.store import Store, open_store
from tests.support.gateway import until
from tests.upstream.helpers import command_of

pytestmark = [pytest.mark.proves("ACT-5"), pytest.mark.anyio]
Make = Callable[..., dict[str, Any]]
Open = Callable[[Path], Store]
Recorded = Callable[[Path], list[tuple[str, str]]]
Child = Callable[..., Any]

WRITES_APART_UNTIL_KILLED = """
    import json, sys, time
    from pathlib import Path
    from mcpproxy_py.store.store import Options, open_store

    store = open_store(Path(sys.argv[1]), options=Options.from_line(sys.argv[2]), apart=True)
    while store._writer.pid is None:
        time.sleep(0.01)
    print(store._writer.pid, flush=True)
    number = 0
    while True:
        row = f"{number:08d}"
        store.append({"kind": "asked", "id": row, "at": time.time(), "tool": "t", "pad": "x" * (number * 37 % 9000)})
        store.append({"kind": "finished", "id": row, "at": time.time(), "status": "success"})
        print(row, flush=True)
        number += 1
        if number % 50 == 0:
            store._writer.flush_soon()
"""


@pytest.fixture
def apart(options: Options) -> Iterator[Open]:
    """Opens stores whose writer is apart, and closes at the end those that the test has not closed itself."""
    stores: list[Store] = []

    def open_one(data_dir: Path) -> Store:
        stores.append(open_store(data_dir, options=options, apart=True))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


def pid_of(store: Store) -> int | None:
    remote = store._writer
    assert isinstance(remote, ProjectorProcess)
    return remote.pid


def writer_of(store: Store) -> psutil.Process:
    return psutil.Process(until(lambda: pid_of(store), what="a process apart"))


async def test_what_is_appended_is_written_by_another_process(
    tmp_path: Path, apart: Open, asked: Make, finished: Make
) -> None:
    store = apart(tmp_path)
    store.append(asked(), finished())
    assert await store.caught_up(30)
    row = await store.activity("a1")
    assert row is not None
    assert row["status"] == "success"
    process = writer_of(store)
    assert process.ppid() == os.getpid()
    health = store.health()
    assert (health["lag_bytes"], health["projection_failures"], health["last_error"]) == (0, 0, None)


async def test_what_nobody_waits_for_is_written_all_the_same(
    tmp_path: Path, apart: Open, asked: Make, recorded: Recorded
) -> None:
    store = apart(tmp_path)
    store.append(asked())
    until(lambda: store.health()["lag_bytes"] == 0, what="the projection")
    assert recorded(tmp_path) == [("a1", "asked")]


async def test_who_waits_for_many_events_one_after_the_other_gets_each(
    tmp_path: Path, apart: Open, asked: Make
) -> None:
    store = apart(tmp_path)
    for number in range(50):
        store.append(asked(f"r{number}"))
        assert await store.caught_up(30)
        assert await store.activity(f"r{number}") is not None


async def test_a_writer_that_is_killed_is_replaced_and_nothing_is_lost_or_doubled(
    tmp_path: Path, apart: Open, asked: Make, finished: Make, recorded: Recorded
) -> None:
    store = apart(tmp_path)
    expected: list[tuple[str, str]] = []
    for life in range(3):
        process = writer_of(store)
        for number in range(1000):
            row_id = f"{life}-{number}"
            store.append(asked(row_id), finished(row_id))
            expected += [(row_id, "asked"), (row_id, "finished")]
            if number == 500:
                store._writer.flush_soon()
        process.kill()
        until(lambda dead=process.pid: pid_of(store) not in (None, dead), what="another writer")
    assert await store.caught_up(30)
    assert recorded(tmp_path) == expected
    until(lambda: store.health()["last_error"] is None, what="a word from the last of them")
    health = store.health()
    assert (health["projection_failures"], health["lag_bytes"], health["last_error"]) == (3, 0, None)
    assert health["writable"]


async def test_lines_that_the_gateway_may_still_take_back_are_not_written(
    tmp_path: Path, apart: Open, asked: Make, recorded: Recorded
) -> None:
    """As when a disk is full after half of a record: whole lines are there for a moment, and were never accepted."""
    store = apart(tmp_path)
    store.append(asked("kept"))
    journal = store._journal
    segment = journal._segment
    os.pwrite(segment._descriptor, journal._chain.link([asked("refused")])[0], segment.size)
    assert await store.caught_up(30)
    writer_of(store).kill()
    assert await anyio.to_thread.run_sync(store._writer.wait_for, journal.end, 30)
    segment.trim()
    store.append(asked("next"))
    assert await store.caught_up(30)
    assert recorded(tmp_path) == [("kept", "asked"), ("next", "asked")]


async def test_events_that_cannot_be_read_are_counted_wherever_they_were_read(
    tmp_path: Path, apart: Open, asked: Make
) -> None:
    store = apart(tmp_path)
    store._journal._segment.write(b"not json\n")
    store.append(asked())
    assert await store.caught_up(30)
    assert store.health()["unreadable_events"] == 1


async def test_a_writer_that_reads_nothing_for_a_while_is_told_when_it_does(
    tmp_path: Path, apart: Open, asked: Make, recorded: Recorded
) -> None:
    store = apart(tmp_path)
    process = writer_of(store)
    process.suspend()
    remote = store._writer
    assert isinstance(remote, ProjectorProcess) and remote._process and remote._process.stdin
    for size in (4096, 4):  # until not even a line more fits into the pipe
        while remote._process.stdin.write(b"0 0\n" * (size // 4)):
            pass
    store.append(asked())
    assert not await store.caught_up(1)
    process.resume()
    until(lambda: store.health()["lag_bytes"] == 0, what="the projection, though nobody hurries")
    assert recorded(tmp_path) == [("a1", "asked")]


async def test_a_database_that_fails_is_reported_from_the_other_process_and_made_up_for(
    tmp_path: Path, apart: Open, asked: Make, recorded: Recorded, sql: Any
) -> None:
    store = apart(tmp_path)
    sql("ALTER TABLE events RENAME TO hidden")
    store.append(asked())
    assert not await store.caught_up(0.3)
    until(lambda: "events" in (store.health()["last_error"] or ""), what="the reason")
    until(lambda: store.health()["projection_failures"] > 0, what="its number")
    assert store.health()["writable"], "the journal takes events whatever the database does"
    sql("ALTER TABLE hidden RENAME TO events")
    assert await store.caught_up(30)
    assert store.health()["last_error"] is None
    assert recorded(tmp_path) == [("a1", "asked")]


async def test_a_writer_that_cannot_even_begin_says_why_and_is_tried_again(
    tmp_path: Path, apart: Open, asked: Make, recorded: Recorded, sql: Any
) -> None:
    store = apart(tmp_path)
    process = writer_of(store)
    sql("ALTER TABLE journal_position RENAME TO hidden")
    process.kill()
    store.append(asked())
    until(lambda: "status 1: cannot read" in (store.health()["last_error"] or ""), what="the reason")
    sql("ALTER TABLE hidden RENAME TO journal_position")
    assert await store.caught_up(30)
    assert recorded(tmp_path) == [("a1", "asked")]


async def test_closing_drains_ends_the_writer_and_lets_go_of_the_folder(
    tmp_path: Path, apart: Open, opened: Open, asked: Make, finished: Make, recorded: Recorded
) -> None:
    store = apart(tmp_path)
    process = writer_of(store)
    for number in range(2000):
        store.append(asked(f"r{number}"), finished(f"r{number}"))
    store.close()
    assert not process.is_running()
    assert len(recorded(tmp_path)) == 4000
    left = {"journal", "store.lock", "chain.key", "chain.name", "chain.head", "switches.json"}
    assert set(os.listdir(tmp_path)) - {"activity.db"} == left
    opened(tmp_path)


async def test_closing_at_once_is_no_harm(tmp_path: Path, apart: Open, asked: Make, recorded: Recorded) -> None:
    for number in range(3):
        store = apart(tmp_path)
        store.append(asked(f"r{number}"))
        store.close()
    kinds = [kind for _, kind in recorded(tmp_path)]
    assert kinds.count("asked") == 3


async def test_a_writer_that_hangs_does_not_hold_up_the_end_for_ever(
    tmp_path: Path, apart: Open, asked: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpproxy_py.store.store.CLOSE_TIMEOUT", 0.3)
    store = apart(tmp_path)
    process = writer_of(store)
    assert await store.caught_up(30)
    process.suspend()
    store.append(asked())
    store.close()
    until(lambda: not process.is_running(), what="the end of what was killed")
    again = apart(tmp_path)
    assert [row["id"] async for batch in again.export(Filters()) for row in batch] == ["a1"]


async def test_signals_that_are_meant_for_the_gateway_do_not_end_its_writer(
    tmp_path: Path, apart: Open, asked: Make
) -> None:
    store = apart(tmp_path)
    store.append(asked("before"))
    assert await store.caught_up(30), "it has begun"
    process = writer_of(store)
    for number in (signal.SIGINT, signal.SIGTERM):
        process.send_signal(number)
    assert os.getsid(process.pid) != os.getsid(0), "a terminal's Ctrl-C does not even reach it"
    store.append(asked("after"))
    assert await store.caught_up(30)
    assert writer_of(store).pid == process.pid


@pytest.mark.parametrize("acknowledged", [20, 1500])
async def test_a_killed_gateway_takes_its_writer_along_and_the_next_one_starts_at_once(
    tmp_path: Path, child: Child, apart: Open, acknowledged: int, recorded: Recorded, options: Options
) -> None:
    gateway = child(WRITES_APART_UNTIL_KILLED, tmp_path, options.as_line())
    process = psutil.Process(int(gateway.stdout.readline()))
    said = [gateway.stdout.readline().strip() for _ in range(acknowledged)]
    gateway.kill()
    gateway.wait(30)
    store = apart(tmp_path)
    # A process that ends lets go of its memory, then of its locks, and is gone some time later.
    assert command_of(process.pid) == "", "two never write at the same time"
    assert store.health()["lag_bytes"] == 0
    found = recorded(tmp_path)
    assert len(set(found)) == len(found), "nothing is written twice"
    assert {(row, kind) for row in said for kind in ("asked", "finished")} <= set(found), "nothing is lost"
    store.append({"kind": "asked", "id": "new", "at": time.time(), "tool": "t"})
    assert await store.caught_up(30)


@pytest.mark.proves("OPS-2")
async def test_a_killed_gateway_whose_writer_still_writes_keeps_the_next_one_waiting(
    tmp_path: Path, child: Child, apart: Open, recorded: Recorded, options: Options
) -> None:
    gateway = child(WRITES_APART_UNTIL_KILLED, tmp_path, options.as_line())
    process = psutil.Process(int(gateway.stdout.readline()))
    gateway.stdout.readline()
    process.suspend()
    gateway.kill()
    gateway.wait(30)
    opened: list[Store] = []
    async with anyio.create_task_group() as group:

        async def open_next() -> None:
            opened.append(await anyio.to_thread.run_sync(apart, tmp_path))

        group.start_soon(open_next)
        with anyio.move_on_after(0.5):
            while not opened:  # noqa: ASYNC110
                await anyio.sleep(0.02)
        assert not opened, "the other still holds the lock"
        process.resume()
    assert opened
    found = recorded(tmp_path)
    assert len(set(found)) == len(found)


@pytest.mark.proves("OPS-2")
async def test_a_second_gateway_is_refused_at_once_while_the_first_one_lives(tmp_path: Path, apart: Open) -> None:
    apart(tmp_path)
    with pytest.raises(StoreUnavailable, match=f"another mcpproxy \\(pid {os.getpid()}\\)"):
        apart(tmp_path)


@pytest.mark.proves("OPS-2")
async def test_the_writer_gets_none_of_the_gateways_secrets_and_makes_private_files(
    tmp_path: Path, apart: Open, asked: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPPROXY_MCP_TOKEN", "sesame")
    before = os.umask(0)
    try:
        store = apart(tmp_path / "data")
        store.append(asked())
        assert await store.caught_up(30)
    finally:
        os.umask(before)
    process = writer_of(store)
    assert "sesame" not in json.dumps([process.environ(), process.cmdline()])
    assert process.cwd() == os.sep, "it finds its modules in no folder that others fill"
    modes = {oct(stat.S_IMODE(path.stat().st_mode)) for path in (tmp_path / "data").rglob("*") if path.is_file()}
    assert modes == {"0o600"}
