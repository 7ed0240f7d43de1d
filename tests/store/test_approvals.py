"""Requests for a capability, kept: once, for good, and decided once (CAT-6, CAT-7)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from mcpproxy_py.core.catalog.approval_rules import (
    HOUR,
    MOST_PENDING,
    ApprovalDecision,
    CapabilityWish,
    NotAccepted,
    Submitted,
)
from mcpproxy_py.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.proves("CAT-6", "CAT-7")]

NOW = 1_800_000_000_000
OPEN = Callable[[Path], Store]


def wish(name: str = "notion", agent: str = "a", **more: object) -> CapabilityWish:
    return CapabilityWish(agent, name, "for the report", **more)  # type: ignore[arg-type]


def review(at: int = NOW + 1, notes: str | None = None) -> ApprovalDecision:
    return ApprovalDecision("admin (ada)", "cli", True, at, notes)


async def filed(store: Store, name: str = "notion", number: int = 1, **more: object) -> Submitted:
    found = await store.approvals.submit(wish(name, **more), "local", new_id=f"{number:04d}", now_ms=NOW)
    assert isinstance(found, Submitted)
    return found


async def test_a_request_comes_back_as_it_was_filed_after_a_restart(tmp_path: Path, opened: OPEN) -> None:
    store = opened(tmp_path)
    told = (await filed(store, requested_tools=("a", "b"), context={"deep": [1, None, "\x00"]})).request
    store.close()
    store = opened(tmp_path)
    assert await store.approvals.get(told.id) == told
    assert await store.approvals.list(limit=9) == [told]


async def test_a_decision_is_kept_with_who_made_it_and_is_final(tmp_path: Path, opened: OPEN) -> None:
    store = opened(tmp_path)
    request = (await filed(store)).request
    decided = await store.approvals.decide(request.id, "deny", review(notes="no budget"))
    again = await store.approvals.decide(request.id, "approve", review())
    assert isinstance(again, NotAccepted)
    store.close()
    kept = await opened(tmp_path).approvals.get(request.id)
    assert kept == decided
    assert kept is not None
    assert kept.review == review(notes="no budget")


async def test_deciding_what_was_never_filed_is_an_error(tmp_path: Path, opened: OPEN) -> None:
    with pytest.raises(KeyError):
        await opened(tmp_path).approvals.decide("apr_none", "approve", review())


async def test_pages_are_the_newest_first_and_may_be_of_one_state(tmp_path: Path, opened: OPEN) -> None:
    book = opened(tmp_path).approvals
    for number, name in enumerate(("one", "two", "three")):
        await book.submit(wish(name), "local", new_id=f"{number}", now_ms=NOW)
    await book.decide("apr_1", "approve", review())
    assert [each.id for each in await book.list(limit=2)] == ["apr_2", "apr_1"]
    assert [each.id for each in await book.list(before="apr_1", limit=2)] == ["apr_0"]
    assert [each.id for each in await book.list(status="pending", limit=9)] == ["apr_2", "apr_0"]


async def test_what_ran_out_of_time_is_found_and_marked_and_nothing_else(tmp_path: Path, opened: OPEN) -> None:
    book = opened(tmp_path).approvals
    await book.submit(wish("short", expires_at_ms=NOW + HOUR), "local", new_id="1", now_ms=NOW)
    await book.submit(wish("long"), "local", new_id="2", now_ms=NOW)
    assert await book.overdue(NOW, 9) == []
    late = NOW + 2 * HOUR
    assert [each.id for each in await book.overdue(late, 9)] == ["apr_1"]
    for request_id in ("apr_1", "apr_2"):
        await book.expire(request_id, late)
    assert {each.id: each.status for each in await book.list(limit=9)} == {"apr_1": "expired", "apr_2": "pending"}


async def test_many_asking_the_same_at_once_get_one_request(tmp_path: Path, opened: OPEN) -> None:
    book = opened(tmp_path).approvals
    found: list[str] = []

    async def ask(number: int) -> None:
        got = await book.submit(wish(agent=f"agent-{number}"), "local", new_id=f"{number}", now_ms=NOW)
        assert isinstance(got, Submitted)
        found.append(got.request.id)

    async with anyio.create_task_group() as tasks:
        for number in range(12):
            tasks.start_soon(ask, number)
    assert len(set(found)) == 1
    assert len(await book.list(limit=99)) == 1


async def test_no_rush_files_more_than_may_be_pending(tmp_path: Path, opened: OPEN) -> None:
    book = opened(tmp_path).approvals

    async def ask(number: int) -> None:
        await book.submit(wish(f"server-{number}"), "local", new_id=f"{number:03d}", now_ms=NOW)

    async with anyio.create_task_group() as tasks:
        for number in range(MOST_PENDING + 15):
            tasks.start_soon(ask, number)
    assert len(await book.list(limit=99)) == MOST_PENDING


async def test_of_two_people_who_decide_at_once_one_is_told_that_it_is_decided(tmp_path: Path, opened: OPEN) -> None:
    store = opened(tmp_path)
    request = (await filed(store)).request
    outcomes: list[object] = []
    start = threading.Barrier(2)

    def decide(step: str) -> None:
        start.wait(20)
        outcomes.append(store.approvals._decide(request.id, step, review()))  # type: ignore[arg-type]

    async with anyio.create_task_group() as tasks:
        for step in ("approve", "deny"):
            tasks.start_soon(anyio.to_thread.run_sync, decide, step)
    assert sum(isinstance(outcome, NotAccepted) for outcome in outcomes) == 1
