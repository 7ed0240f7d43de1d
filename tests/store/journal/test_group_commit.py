"""One thread for all who wait: nobody is told too early, and nobody is forgotten."""

from __future__ import annotations

from threading import Event

import anyio
import pytest

from mcpproxy_py.store.journal.journal import GroupCommit

pytestmark = [pytest.mark.anyio, pytest.mark.proves("ACT-5")]


async def test_who_comes_during_a_turn_waits_for_the_next_one() -> None:
    done: list[int] = []
    begun, go_on = Event(), Event()

    def work() -> None:
        begun.set()
        go_on.wait(20)
        done.append(1)

    turns = GroupCommit(work, "test")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(turns.next)
        await anyio.to_thread.run_sync(begun.wait, 20)
        seen: list[int] = []

        async def late() -> None:
            await turns.next()
            seen.append(len(done))

        for _ in range(5):
            tasks.start_soon(late)
        await anyio.wait_all_tasks_blocked()
        assert not done
        go_on.set()
    assert (seen, len(done)) == ([2] * 5, 2)
    turns.close()


async def test_work_that_fails_keeps_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    turns = GroupCommit(lambda: [][0], "test")
    for _ in range(2):
        with anyio.fail_after(20):
            await turns.next()
    assert "a group commit failed" in caplog.text
    turns.close()


def test_a_loop_that_ended_in_the_middle_of_a_turn_is_none_of_the_next_ones_business() -> None:
    begun, go_on = Event(), Event()

    def work() -> None:
        begun.set()
        go_on.wait(20)

    turns = GroupCommit(work, "test")

    async def leaves() -> None:
        with anyio.move_on_after(0):
            await turns.next()

    anyio.run(leaves)
    begun.wait(20)
    go_on.set()
    anyio.run(turns.next)
    turns.close()
