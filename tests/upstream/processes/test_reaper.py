"""Nothing that was started for a gateway outlives it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpproxy_py.upstream.processes import reaper
from tests.upstream.helpers import (
    LONG,
    SERVERS,
    alive,
    command_of,
    connected,
    numbers,
    running,
    stdio,
    until,
    until_now,
)  # fmt: skip

pytestmark = pytest.mark.proves("UP-3")
OWNER = Path(__file__).parents[1] / "owner.py"


@pytest.fixture
def pids(tmp_path: Path) -> Iterator[Path]:
    """Where the family writes its pids; whoever is still alive after a test is ended here."""
    path = tmp_path / "pids"
    yield path
    for pid in (pid for each in tmp_path.glob("pids*") for pid in numbers(each)):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def owner(tmp_path: Path, servers: dict[str, list[str]]) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that runs these servers, and its warden's pid."""
    command = [sys.executable, str(OWNER), str(tmp_path / "logs"), json.dumps(servers)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])})  # fmt: skip
    assert process.stdout is not None and process.stdin is not None
    try:
        word, _, pid = process.stdout.readline().strip().partition(" ")
        assert word == "READY"
        yield process, int(pid)
    finally:
        process.kill()
        process.wait(LONG)
        process.stdin.close()
        process.stdout.close()


def family(pids: Path, *more: str) -> list[str]:
    return [sys.executable, str(SERVERS / "process_tree.py"), "--pid-file", str(pids), *more]


def whole_family(pids: Path) -> list[int]:
    until_now(lambda: len(numbers(pids)) == 3)
    return numbers(pids)


def test_a_gateway_killed_with_9_leaves_nothing_of_a_three_deep_tree(tmp_path: Path, pids: Path) -> None:
    with owner(tmp_path, {"fam": family(pids)}) as (process, guard):
        members = whole_family(pids)
        assert all(alive(pid) for pid in members)
        process.kill()
        process.wait(LONG)
        until_now(lambda: not any(alive(pid) for pid in [*members, guard]))


def test_a_grandchild_that_was_orphaned_and_left_the_session_ends_too(tmp_path: Path, pids: Path) -> None:
    with owner(tmp_path, {"fam": family(pids, "--orphan")}) as (process, guard):
        members = whole_family(pids)
        until_now(lambda: sum(alive(pid) for pid in members) == 2)
        process.kill()
        process.wait(LONG)
        until_now(lambda: not any(alive(pid) for pid in [*members, guard]))


def test_a_clean_end_leaves_nothing_either(tmp_path: Path, pids: Path) -> None:
    with owner(tmp_path, {"fam": family(pids)}) as (process, guard):
        members = whole_family(pids)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(LONG) == 0
        assert not any(alive(pid) for pid in [*members, guard])


def test_a_dead_warden_is_replaced_and_its_successor_knows_the_servers(tmp_path: Path, pids: Path) -> None:
    with owner(tmp_path, {"fam": family(pids)}) as (process, guard):
        members = whole_family(pids)
        os.kill(guard, signal.SIGKILL)
        until_now(lambda: [pid for pid in wardens_of(process.pid) if pid != guard])
        process.kill()
        process.wait(LONG)
        until_now(lambda: not any(alive(pid) for pid in members))


def wardens_of(gateway: int) -> list[int]:
    children = [process.pid for process in reaper.processes().values() if process.parent == gateway]
    return [pid for pid in children if "reaper.py" in command_of(pid)]


def test_the_warden_ends_no_process_of_anybody_else(tmp_path: Path, pids: Path) -> None:
    other = tmp_path / "pids-of-others"
    with owner(tmp_path, {"fam": family(pids)}) as (process, guard):
        members = whole_family(pids)
        with owner(tmp_path, {"fam": family(other)}):
            strangers = whole_family(other)
            process.kill()
            until_now(lambda: not any(alive(pid) for pid in [*members, guard]))
            assert all(alive(pid) for pid in strangers)
    until_now(lambda: not any(alive(pid) for pid in strangers))


@pytest.mark.anyio
async def test_removing_a_server_ends_its_tree_and_no_other(tmp_path: Path, pids: Path) -> None:
    other = tmp_path / "pids-of-others"
    first = stdio("fam", "process_tree.py", "--pid-file", str(pids))
    second = stdio("fam-2", "process_tree.py", "--pid-file", str(other))
    async with running(tmp_path, first, second) as supervisor:
        await connected(supervisor, "fam", "fam-2")
        await until(lambda: len(numbers(pids)) == 3 and len(numbers(other)) == 3)
        await supervisor.apply({"fam-2": second})
        assert not any(alive(pid) for pid in numbers(pids))
        assert all(alive(pid) for pid in numbers(other))
        assert list(supervisor.snapshot.servers) == ["fam-2"]
    assert not any(alive(pid) for pid in numbers(other))


@pytest.mark.anyio
async def test_what_a_crashed_server_had_started_ends_before_it_is_started_again(tmp_path: Path, pids: Path) -> None:
    async with running(tmp_path, stdio("fam", "process_tree.py", "--pid-file", str(pids))) as supervisor:
        await until(lambda: len(numbers(pids)) == 3)
        await connected(supervisor, "fam")
        first = numbers(pids)
        table = reaper.processes()
        os.kill(next(pid for pid in first if table[pid].parent == os.getpid()), signal.SIGKILL)
        await until(lambda: len(numbers(pids)) == 6)
        assert not any(alive(pid) for pid in first)


@pytest.mark.anyio
async def test_servers_end_when_the_gateway_is_cancelled_while_they_start(tmp_path: Path, pids: Path) -> None:
    hanging = [stdio(f"h{n}", "hangs.py", "--pid-file", str(pids)) for n in range(3)]
    async with running(tmp_path, *hanging):
        await until(lambda: len(numbers(pids)) == 3)
    assert not any(alive(pid) for pid in numbers(pids))


def test_where_there_is_no_proc_the_tree_is_read_from_ps(monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps = "[sys.executable, '-c', 'import time; time.sleep(60)']"
    grandchild = f"import subprocess,sys; subprocess.run({sleeps}, start_new_session=True)"
    with subprocess.Popen([sys.executable, "-c", grandchild], start_new_session=True) as child:
        until_now(lambda: any(p.parent == child.pid for p in reaper.processes().values()))
        monkeypatch.setattr(reaper, "HAS_PROC", False)
        family = reaper.ProcessTree(b"unused")
        family.add_root(child.pid, reaper.birth(child.pid))
        assert len(family.living()) == 2
        assert reaper.sweep(family, grace=LONG) == []  # nobody here needs to be made to
    assert child.returncode == -signal.SIGTERM


def test_whoever_is_found_late_is_asked_all_the_same() -> None:
    class Hidden(reaper.ProcessTree):
        def living(self) -> list[int]:
            time.sleep(0.3)  # a busy machine
            return super().living()

    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True) as child:
        family = Hidden(reaper.marker_of_run("nobody"))
        family.add_root(child.pid, reaper.birth(child.pid))
        assert reaper.sweep(family, grace=0.2) == []
    assert child.returncode == -signal.SIGTERM


def test_a_pid_that_was_given_to_somebody_else_is_left_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True) as stranger:
        family = reaper.ProcessTree(reaper.marker_of_run("nobody"))
        family.add_root(stranger.pid, "12345")
        assert reaper.sweep(family, grace=0) == []
        assert alive(stranger.pid)
        stranger.kill()
