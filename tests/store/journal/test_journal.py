"""The journal keeps what it acknowledged, whole, and says so when it cannot (ACT-5)."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store.journal import segment_files
from mcpproxy_py.store.journal.entries import read
from mcpproxy_py.store.journal.journal import Journal

pytestmark = pytest.mark.proves("ACT-5")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal")
    yield made
    made.close()


def lines(folder: Path, lost: tuple[int, ...] = ()) -> list[Any]:
    """The events, without what the chain adds. Those whose numbers are given went down with a disk."""
    paths = [segment_files.path_of(folder, number) for number in segment_files.numbers(folder)]
    found = [read(line) for path in paths for line in path.read_bytes().split(b"\n")[:-1]]
    numbers = [number for number in range(1, len(found) + len(lost) + 1) if number not in lost]
    assert [entry.seq for entry in found if entry] == numbers, "none missing, none twice"
    return [{key: value for key, value in entry.event.items() if key != "seq"} for entry in found if entry]


def test_what_was_appended_is_in_the_file_when_append_returns(journal: Journal) -> None:
    journal.append({"n": 1}, {"n": 2})
    journal.append({"text": "line\nbreak\r and \u2028 too"})
    assert lines(journal.folder) == [{"n": 1}, {"n": 2}, {"text": "line\nbreak\r and \u2028 too"}]


@pytest.mark.proves("OPS-2")
def test_nobody_else_can_read_the_journal(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        journal = Journal(tmp_path / "journal")
    finally:
        os.umask(before)
    assert stat.S_IMODE(journal.folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in journal.folder.iterdir()] == [0o600]
    journal.close()


def test_a_full_segment_is_followed_by_the_next_and_nothing_is_lost_between(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", segment_bytes=100)
    for number in range(50):
        journal.append({"number": number})
    assert len(segment_files.numbers(journal.folder)) > 5
    assert [event["number"] for event in lines(journal.folder)] == list(range(50))
    journal.close()


def test_every_life_begins_a_segment_with_a_number_never_used_before(tmp_path: Path) -> None:
    first = Journal(tmp_path / "journal")
    first.append({"n": 1})
    first.close()
    second = Journal(tmp_path / "journal", after=41)
    second.append({"n": 2})
    second.close()
    assert segment_files.numbers(first.folder) == [1, 42]


def test_an_unfinished_last_line_is_cut_off_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = Journal(tmp_path / "journal")
    first.append({"n": 1})
    first.close()
    with segment_files.path_of(first.folder, 1).open("ab") as file:
        file.write(b'{"n": 2, "half')
    second = Journal(tmp_path / "journal")
    assert second.torn_bytes == 14
    assert lines(second.folder) == [{"n": 1}]
    assert "unfinished record" in caplog.text
    second.close()


@pytest.mark.parametrize("reserved", [0, 1, 100_000])
@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 200_000])
def test_a_torn_line_of_any_length_is_found(tmp_path: Path, size: int, reserved: int) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"whole\n" * 20_000 + b"x" * size + b"\0" * reserved)
    assert segment_files.cut_torn_line(path) == size
    assert path.read_bytes() == b"whole\n" * 20_000


def test_room_that_was_reserved_is_no_record_and_is_given_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    killed = Journal(tmp_path / "journal")
    killed.append({"n": 1})
    path = segment_files.path_of(killed.folder, 1)
    assert killed.size == killed.end.offset == len(path.read_bytes().rstrip(b"\0")) < path.stat().st_size
    after = Journal(tmp_path / "journal")
    assert (after.torn_bytes, caplog.text) == (0, "")
    after.append({"n": 2})
    after.close()
    assert lines(after.folder) == [{"n": 1}, {"n": 2}]
    assert not [path for path in after.folder.iterdir() if b"\0" in path.read_bytes()]


def test_where_no_room_can_be_reserved_lines_are_written_all_the_same(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fallocate")  # as on macOS
    journal.append({"n": 1})
    assert segment_files.path_of(journal.folder, 1).stat().st_size == journal.size
    assert lines(journal.folder) == [{"n": 1}]


@pytest.mark.parametrize("block", [1, 5, 64, 1 << 20])
def test_reading_gives_whole_lines_whatever_the_block(tmp_path: Path, block: int) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"a\nbb\n" + b"c" * 100 + b"\r\x0b\nrest")
    found: list[bytes] = []
    place, stop = 0, path.stat().st_size
    while (step := segment_files.read_lines(path, place, stop, block))[0]:
        found += step[0]
        place = step[1]
    assert found == [b"a", b"bb", b"c" * 100 + b"\r\x0b"]
    assert place == stop - len(b"rest")


FULL = """
    import json, resource, sys
    from pathlib import Path
    from mcpproxy_py.errors import StoreUnavailable
    from mcpproxy_py.store.journal.journal import Journal
    from mcpproxy_py.store.journal import segment_files

    journal = Journal(Path(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))

    def attempt(name, size):
        try:
            journal.append({"name": name, "pad": "x" * size})
            return True
        except StoreUnavailable as error:
            assert "cannot write" in error.message and "Free some disk space" in error.message
            return False

    took = {"fits": attempt("fits", 600), "too much": attempt("too much", 600), "healthy": journal.trouble is None}
    took["next file"] = attempt("next file", 600)
    took["far too much"] = [attempt("far too much", 5000) for _ in range(3)]
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    took["after"] = attempt("after", 5000)
    took["failures"], took["well"] = journal.append_failures, journal.trouble is None
    took["files"] = len(segment_files.numbers(journal.folder))
    journal.close()
    print(json.dumps(took))
"""


def test_a_write_that_falls_short_leaves_nothing_behind_and_is_refused(
    tmp_path: Path, child: Callable[..., Any]
) -> None:
    out, err = child(FULL, tmp_path / "journal").communicate(timeout=60)
    assert json.loads(out or "null") == {
        "fits": True, "too much": False, "healthy": False, "next file": True, "far too much": [False] * 3,
        "after": True, "failures": 4, "well": True, "files": 3,
    }, err  # fmt: skip
    assert [event["name"] for event in lines(tmp_path / "journal")] == ["fits", "next file", "after"]


def test_a_closed_journal_refuses(journal: Journal) -> None:
    journal.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        journal.append({"n": 1})


def test_what_no_encoder_takes_is_written_all_the_same(journal: Journal) -> None:
    deep: Any = "end"
    for _ in range(1000):
        deep = [deep]
    journal.append({"deep": deep, "half": "\ud800", "nan": float("nan"), "bytes": b"\xff", "tab": "a\tb"})
    (found,) = lines(journal.folder)
    assert (found["nan"], found["tab"]) == ("nan", "a\tb")


@pytest.mark.anyio
async def test_many_who_wait_for_the_disk_share_its_syncs(journal: Journal) -> None:
    done: list[int] = []

    async def call(number: int) -> None:
        journal.append({"n": number})
        await journal.synced()
        done.append(number)

    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(call, number)
    assert sorted(done) == list(range(100))
    assert 1 <= journal.syncs < 20


@pytest.mark.anyio
async def test_syncing_goes_on_across_a_change_of_segments(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", segment_bytes=50)
    for number in range(20):
        journal.append({"number": number})
        if number % 5 == 0:
            await journal.synced()
    segment_files.path_of(journal.folder, 3).unlink()  # as the writer does once the database has it
    await journal.synced()
    assert journal.trouble is None
    journal.close()


def break_disk(journal: Journal) -> None:
    """Puts a device where the segment was that can be written, and that the kernel refuses to sync."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, journal._segment._descriptor)
    os.close(nothing)


@pytest.mark.anyio
async def test_a_failed_sync_reaches_everyone_it_concerns_and_the_segment_is_given_up(journal: Journal) -> None:
    journal.append({"n": 0})
    await journal.synced()
    break_disk(journal)
    failed: list[int] = []

    async def wait_for_disk(number: int) -> None:
        try:
            await journal.synced()
        except StoreUnavailable:
            failed.append(number)

    for number in (1, 2, 3):  # all before the first sync can fail: what is appended after that is in another segment
        journal.append({"n": number})
    async with anyio.create_task_group() as group:
        for number in (1, 2, 3):
            group.start_soon(wait_for_disk, number)
    assert sorted(failed) == [1, 2, 3]
    assert journal.trouble is not None
    assert "cannot sync" in journal.trouble
    with pytest.raises(StoreUnavailable):
        await journal.synced()
    journal.append({"n": 4})
    assert journal.end.segment == 2
    await journal.synced()
    assert journal.trouble is None
    assert [event["n"] for event in lines(journal.folder, lost=(2, 3, 4))] == [0, 4]


@pytest.mark.anyio
async def test_a_caller_that_is_cancelled_while_it_waits_harms_nobody_else(journal: Journal) -> None:
    async def impatient() -> None:
        with anyio.move_on_after(0):
            await journal.synced()

    for number in range(20):
        journal.append({"n": number})
        async with anyio.create_task_group() as group:
            group.start_soon(impatient)
            group.start_soon(journal.synced)
    await journal.synced()
    assert len(lines(journal.folder)) == 20


def test_a_probe_notices_that_the_disk_is_well_again_and_leaves_nothing_behind(journal: Journal) -> None:
    journal.trouble = "it was full"
    journal.probe()
    assert journal.trouble is None
    assert [path.name for path in journal.folder.iterdir()] == ["0000000001.log"]


def test_a_journal_that_the_database_does_not_empty_is_bounded_and_says_so(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", segment_bytes=1000, most_bytes=5000)
    kept = 0
    with pytest.raises(
        StoreUnavailable, match=r"is full .* Bring the database back, or raise activity\.max_journal_mb"
    ):
        while True:
            journal.append({"n": kept, "pad": "x" * 100})
            kept += 1
    assert (journal.append_failures, journal.trouble is None) == (1, False)
    assert 4000 < journal.size <= 5500
    segment_files.path_of(journal.folder, 1).unlink()  # as the writer does once the database has it
    journal.append({"n": kept})
    assert journal.trouble is None
    journal.close()


def test_the_chain_goes_on_where_an_earlier_life_left_it(tmp_path: Path) -> None:
    first = Journal(tmp_path / "journal")
    first.append({"n": 1}, {"n": 2})
    first.close()
    second = Journal(tmp_path / "journal")
    assert second.head == first.head
    second.append({"n": 3})
    assert [event["n"] for event in lines(second.folder)] == [1, 2, 3]
    second.close()


def test_a_refused_event_leaves_no_gap_in_the_chain(tmp_path: Path, child: Callable[..., Any]) -> None:
    child(FULL, tmp_path / "journal").communicate(timeout=60)
    assert len(lines(tmp_path / "journal")) == 3
