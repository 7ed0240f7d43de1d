"""A whole store: killed, reopened, full, shared, ailing, closed (ACT-5, OPS-2)."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store.activity.reader import Filters
from mcpproxy_py.store.journal import segment_files
from mcpproxy_py.store.options import Options
from mcpproxy_py.store.store import Store
from tests.store.conftest import on_sqlite
from tests.support.gateway import until

pytestmark = [pytest.mark.proves("ACT-5"), pytest.mark.anyio]
Make = Callable[..., dict[str, Any]]
Open = Callable[[Path], Store]
Child = Callable[..., Any]

WRITES_UNTIL_KILLED = """
    import sys, time
    from pathlib import Path
    from mcpproxy_py.store.store import Options, open_store

    store = open_store(Path(sys.argv[1]), options=Options.from_line(sys.argv[2]))
    number = 0
    while True:
        row = f"{number:08d}"
        store.append({"kind": "asked", "id": row, "at": time.time(), "tool": "t", "pad": "x" * (number * 37 % 9000)})
        print("asked", row, flush=True)
        if number % 2:
            store.append({"kind": "finished", "id": row, "at": time.time(), "status": "success"})
            print("finished", row, flush=True)
        number += 1
"""


async def everything(store: Store, **filters: Any) -> list[dict[str, Any]]:
    return [row async for batch in store.export(Filters(**filters)) for row in batch]


def remove_database(data_dir: Path) -> None:
    for path in data_dir.glob("activity.db*"):
        path.unlink()


@pytest.fixture
def readable_folder() -> Iterator[Path]:
    """One that everybody can find, unlike those of pytest, and nobody can write."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


@pytest.mark.parametrize("acknowledged", [1, 150, 1500])
async def test_nothing_acknowledged_is_lost_when_the_gateway_is_killed(
    tmp_path: Path, child: Child, opened: Open, options: Options, acknowledged: int
) -> None:
    process = child(WRITES_UNTIL_KILLED, tmp_path, options.as_line())
    said = [process.stdout.readline() for _ in range(acknowledged)]
    process.kill()
    rest, err = process.stdout.read(), process.stderr.read()  # communicate does not know what readline holds back
    process.wait(30)
    lines = [line.split() for line in (*said, *rest.splitlines(keepends=True)) if line.endswith("\n")]
    assert len(lines) >= acknowledged, err

    rows = {row["id"]: row for row in await everything(opened(tmp_path))}
    for kind, row_id in lines:
        assert rows[row_id]["status"] == "success" if kind == "finished" else row_id in rows
    assert {row["status"] for row in rows.values()} <= {"success", "interrupted"}
    assert all(row["status"] == "interrupted" for row in rows.values() if int(row["id"]) % 2 == 0)


async def test_a_call_that_was_pending_when_the_gateway_died_becomes_interrupted(
    tmp_path: Path, child: Child, opened: Open, options: Options
) -> None:
    process = child(WRITES_UNTIL_KILLED, tmp_path, options.as_line())
    process.stdout.readline()
    process.kill()
    process.communicate(timeout=30)
    first = opened(tmp_path)
    row = await first.activity("00000000")
    assert row is not None
    assert (row["status"], row["error"]) == (
        "interrupted",
        {"code": "INTERRUPTED", "message": "the gateway ended before this call did; the upstream may have acted"},
    )
    first.close()
    assert await opened(tmp_path).activity("00000000") == row


async def test_a_torn_last_line_is_set_aside_at_the_next_start(tmp_path: Path, opened: Open, asked: Make) -> None:
    first = opened(tmp_path)
    first.append(asked())
    first.close()
    (segment,) = (tmp_path / "journal").iterdir()
    with segment.open("ab") as file:
        file.write(b'{"kind":"finished","id":"a1"')
    second = opened(tmp_path)
    assert second.health()["torn_bytes"] == 28
    assert [row["status"] for row in await everything(second)] == ["interrupted"]


async def test_what_the_journal_holds_is_applied_once_however_often_it_is_opened(
    tmp_path: Path, opened: Open, asked: Make, finished: Make, recorded: Any
) -> None:
    for number in range(3):
        store = opened(tmp_path)
        store.append(asked(f"r{number}"), finished(f"r{number}"))
        store.close()
    store = opened(tmp_path)
    assert len(await everything(store)) == 3
    assert len(segment_files.numbers(tmp_path / "journal")) == 1, "segments that are in the database are deleted"
    assert len(recorded(tmp_path)) == 6


@on_sqlite
async def test_a_journal_without_its_database_is_all_that_is_needed(
    tmp_path: Path, opened: Open, asked: Make, finished: Make
) -> None:
    first = opened(tmp_path)
    first.append(asked(), finished())
    first.close()
    remove_database(tmp_path)
    assert [row["status"] for row in await everything(opened(tmp_path))] == ["success"]


async def test_a_database_whose_journal_is_gone_goes_on(tmp_path: Path, opened: Open, asked: Make) -> None:
    first = opened(tmp_path)
    first.append(asked("a"))
    first.close()
    shutil.rmtree(tmp_path / "journal")
    second = opened(tmp_path)
    second.append(asked("b"))
    assert await second.caught_up(30)
    assert {row["id"] for row in await everything(second)} == {"a", "b"}


@pytest.mark.proves("OPS-2")
async def test_a_second_gateway_is_refused_with_the_first_ones_pid(
    tmp_path: Path, opened: Open, child: Child, options: Options
) -> None:
    store = opened(tmp_path)
    _, err = child(WRITES_UNTIL_KILLED, tmp_path, options.as_line()).communicate(timeout=60)
    assert f"another mcpproxy (pid {os.getpid()}) uses {tmp_path}" in err
    with pytest.raises(StoreUnavailable, match="another mcpproxy"):
        opened(tmp_path)
    store.close()
    opened(tmp_path)


@on_sqlite
@pytest.mark.proves("OPS-2")
async def test_everything_in_the_data_directory_is_private(tmp_path: Path, opened: Open, asked: Make) -> None:
    before = os.umask(0)
    try:
        store = opened(tmp_path / "data")
        store.append(asked())
        assert await store.caught_up(30)
        await store.set_switch("freeze", True)
    finally:
        os.umask(before)
    modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in (tmp_path / "data").rglob("*")}
    assert {"activity.db", "activity.db-wal", "activity.db-shm", "store.lock", "journal", "chain.key"} <= set(modes)
    assert modes.pop("journal") == "0o700"
    assert set(modes.values()) == {"0o600"}
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


@on_sqlite
@pytest.mark.proves("OPS-2")
async def test_a_data_directory_that_others_could_read_is_closed_to_them(tmp_path: Path, opened: Open) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    (data / "activity.db").touch(mode=0o644)
    opened(data)
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert stat.S_IMODE((data / "activity.db").stat().st_mode) == 0o600


AS_NOBODY = """
    import os, sys
    from pathlib import Path
    from mcpproxy_py.errors import StoreUnavailable
    from mcpproxy_py.store.store import open_store

    if os.getuid() == 0:
        os.setresuid(65534, 65534, 65534)
    try:
        open_store(Path(sys.argv[1]))
    except StoreUnavailable as error:
        print(error.message)
"""


@pytest.mark.parametrize("place", ["", "new"])
async def test_a_data_directory_that_cannot_be_written_is_named_with_the_remedy(
    readable_folder: Path, child: Child, place: str
) -> None:
    out, err = child(AS_NOBODY, readable_folder / place).communicate(timeout=60)
    assert str(readable_folder) in out, err
    assert "write access" in out
    assert "--data-dir" in out


FULL_DISK = """
    import json, os, sys
    from pathlib import Path
    import anyio
    from mcpproxy_py.store.activity.reader import Filters
    from mcpproxy_py.errors import StoreUnavailable
    from mcpproxy_py.store.store import open_store

    async def main():
        folder = Path(sys.argv[1])
        store = open_store(folder, apart=sys.argv[2] == "apart")
        kept = refused = 0
        while refused < 20:
            try:
                store.append({"kind": "asked", "id": f"{kept:06d}", "at": 1.0, "tool": "t", "arguments": "x" * 3000})
                kept += 1
            except StoreUnavailable:
                refused += 1
        ill = store.health()
        (folder / "ballast").unlink()
        well = None
        with anyio.move_on_after(30):
            while not (well := store.health())["writable"]:
                await anyio.sleep(0.05)
        store.append({"kind": "asked", "id": "after", "at": 2.0, "tool": "t"})
        await store.synced()
        caught = await store.caught_up(30)
        rows = [row["id"] async for batch in store.export(Filters()) for row in batch]
        store.close()
        print(json.dumps({"ill": ill["writable"], "failures": ill["append_failures"], "well": well["writable"],
                          "caught": caught, "rows": sorted(rows) == [f"{n:06d}" for n in range(kept)] + ["after"]}))
    anyio.run(main)
"""


@pytest.fixture
def small_disk() -> Iterator[Path]:
    folder = tempfile.mkdtemp()
    if os.system(f"mount -t tmpfs -o size=16m,mode=0700 tmpfs {folder} 2>/dev/null") != 0:
        os.rmdir(folder)
        pytest.skip("a small disk of our own needs the right to mount one")
    yield Path(folder)
    os.system(f"umount {folder}")
    os.rmdir(folder)


@pytest.mark.parametrize("where", ["thread", "apart"])
async def test_a_full_disk_refuses_and_an_emptied_one_is_noticed(small_disk: Path, child: Child, where: str) -> None:
    (small_disk / "ballast").write_bytes(b"x" * 15_000_000)
    out, err = child(FULL_DISK, small_disk, where).communicate(timeout=120)
    assert json.loads(out or "null") == {"ill": False, "failures": 20, "well": True, "caught": True, "rows": True}, err


async def test_a_database_that_fails_holds_nothing_up_and_is_made_up_for(
    tmp_path: Path, opened: Open, asked: Make, sql: Any
) -> None:
    store = opened(tmp_path)
    store.append(asked("before"))
    assert await store.caught_up(30)
    sql("ALTER TABLE events RENAME TO hidden")
    store.append(asked())
    await store.synced()
    assert not await store.caught_up(0.5)
    until(lambda: store.health()["last_error"], what="the first failure")
    until(lambda: store.health()["lag_seconds"], what="how long ago what waits was appended")
    health = store.health()
    assert health["writable"], "the journal takes events whatever the database does"
    assert health["projection_failures"] > 0
    assert health["lag_bytes"] > 0
    assert "events" in health["last_error"]
    sql("ALTER TABLE hidden RENAME TO events")
    assert await store.caught_up(30)
    assert (store.health()["lag_bytes"], store.health()["last_error"]) == (0, None)
    assert len(await everything(store)) == 2


async def test_reading_goes_on_while_much_is_written(tmp_path: Path, opened: Open, asked: Make, finished: Make) -> None:
    store = opened(tmp_path)
    seen: list[int] = []

    async def read() -> None:
        for _ in range(10):
            rows = await everything(store, type="tool_call")
            keys = [row["id"] for row in rows]
            assert keys == sorted(keys, reverse=True), "one reading sees one order"
            seen.append(len(rows))
            await store.summary(Filters())

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(read)
        for number in range(2000):
            store.append(asked(f"{number:06d}", at=1000.0 + number), finished(f"{number:06d}"))
            if number % 50 == 0:
                await anyio.lowlevel.checkpoint()
    assert await store.caught_up(30)
    assert len(seen) == 40
    assert len(await everything(store)) == 2000
    assert store.health()["projection_failures"] == 0


async def test_a_reader_of_a_broken_table_harms_no_writer(tmp_path: Path, opened: Open, asked: Make, sql: Any) -> None:
    store = opened(tmp_path)
    sql("ALTER TABLE listings RENAME TO hidden")
    with pytest.raises(StoreUnavailable, match="listings"):
        await store.listing("github")
    with pytest.raises(StoreUnavailable, match="listings"):
        await store.save_listing("github", [])
    store.append(asked())
    assert await store.caught_up(30)


async def test_segments_go_once_the_database_has_them(tmp_path: Path, opened: Open, asked: Make) -> None:
    store = opened(tmp_path)
    store._journal._segment_bytes = 2000
    for number in range(200):
        store.append(asked(f"{number:04d}"))
    assert await store.caught_up(30)
    until(lambda: len(segment_files.numbers(tmp_path / "journal")) <= 2, what="the end of what the database has")
    assert len(await everything(store)) == 200


@pytest.mark.proves("GATE-13")
async def test_a_switch_and_a_listing_are_there_after_a_restart(tmp_path: Path, opened: Open) -> None:
    store = opened(tmp_path)
    assert (await store.switch("freeze"), await store.listing("github")) == (None, None)
    for value in ({"by": "ann"}, False, True):
        await store.set_switch("freeze", value)
    await store.save_listing("github", [{"name": "a\0b", "n": 10**30}])
    store.close()
    again = opened(tmp_path)
    assert (await again.switch("freeze"), await again.listing("github")) == (True, [{"name": "a\0b", "n": 10**30}])


async def test_closing_keeps_everything_and_refuses_what_comes_later(
    tmp_path: Path, opened: Open, asked: Make, finished: Make, sql: Any
) -> None:
    store = opened(tmp_path)
    for number in range(500):
        store.append(asked(f"{number:04d}"), finished(f"{number:04d}"))
    store.close()
    store.close()
    assert not store.health()["writable"]
    with pytest.raises(StoreUnavailable, match="closed"):
        store.append(asked())
    assert sql("SELECT count(*) FROM activity WHERE status = 'success'") == [(500,)]


async def test_a_segment_that_cannot_be_deleted_holds_nothing_up_and_nothing_is_read_twice(
    tmp_path: Path, opened: Open, asked: Make, recorded: Any
) -> None:
    store = opened(tmp_path)
    store.append(asked("first"))
    assert await store.caught_up(30)
    store._journal._wants_fresh = True
    in_the_way = tmp_path / "journal" / "0000000000.log"
    in_the_way.mkdir()  # looks like an old segment, and cannot be deleted like one
    store.append(asked("second"))
    assert await store.caught_up(30)
    with anyio.fail_after(30):
        while store.health()["projection_failures"] == 0:  # noqa: ASYNC110
            await anyio.sleep(0.01)
    in_the_way.rmdir()
    store.append(asked("third"))
    assert await store.caught_up(30)
    store.close()
    assert recorded(tmp_path) == [("first", "asked"), ("second", "asked"), ("third", "asked")]
