"""The processes that hold arguments against schemas: bounded in number, in time, in memory, and in what waits."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpproxy_py.core.pending_checks import CheckVerdict, PendingCheck
from mcpproxy_py.upstream.schemas import check_workers
from mcpproxy_py.upstream.schemas.argument_check import compile_check
from mcpproxy_py.upstream.schemas.check_workers import CheckWorkers

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SEC-5", "SEC-6")]

FOR_EVER = {"properties": {"a": {"pattern": r"^(?:(a+)\1?)+$"}}}
ENDLESS = {"a": "a" * 60 + "!"}


@pytest.fixture
async def workers() -> AsyncIterator[CheckWorkers]:
    made = CheckWorkers()
    yield made
    await made.aclose()
    assert running() == 0


def running() -> int:
    """Processes of ours that check."""
    found = 0
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1]) if entry.name.isdecimal() else 0
            found += parent == os.getpid() and check_workers.PROGRAM.encode() in (entry / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue
    return found


def pending(schema: Any, args: Any) -> PendingCheck:
    return PendingCheck(compile_check(schema), args)


async def test_it_says_what_is_wrong_and_what_is_right(workers: CheckWorkers) -> None:
    schema = {"properties": {"pin": {"type": "integer"}}, "unevaluatedProperties": False}
    assert (await workers.check("s", pending(schema, {"pin": 1}))).wrong is None
    verdict = await workers.check("s", pending(schema, {"pin": "s3cret"}))
    assert verdict.wrong == 'pin: the value is not of type "integer"'
    assert verdict.cannot is None


async def test_what_takes_for_ever_is_ended_and_the_next_check_is_made(workers: CheckWorkers) -> None:
    assert (await workers.check("s", pending(FOR_EVER, ENDLESS))).cannot == check_workers.TOO_LONG
    assert running() == 0
    assert (await workers.check("s", pending(FOR_EVER, {"a": "aaaa"}))) == CheckVerdict(
        compile_check(FOR_EVER).text, {"a": "aaaa"}, None
    )


async def test_a_server_whose_checks_never_end_does_not_keep_another_waiting(workers: CheckWorkers) -> None:
    """By the order in which they come back: sixteen that take all the time there is, and one that takes none."""
    ended: list[str] = []

    async def check(server: str, schema: Any, args: Any) -> None:
        await workers.check(server, pending(schema, args))
        ended.append(server)

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(check, "hostile", FOR_EVER, ENDLESS)
        tasks.start_soon(check, "honest", {"unevaluatedProperties": False}, {})
    assert ended.index("honest") < 3


async def test_no_more_wait_than_may(workers: CheckWorkers) -> None:
    found: list[str | None] = []

    async def check() -> None:
        found.append((await workers.check("s", pending({"unevaluatedProperties": False}, {}))).cannot)

    async with anyio.create_task_group() as tasks:
        for _ in range(check_workers.WAITING + 3):
            tasks.start_soon(check)
    assert found[:3] == [check_workers.NO_ROOM] * 3
    assert found[3:] == [None] * check_workers.WAITING


async def test_there_are_never_more_processes_than_places(workers: CheckWorkers) -> None:
    for number in range(check_workers.PROCESSES + 3):
        assert (await workers.check(f"s{number}", pending({"unevaluatedProperties": False}, {}))).cannot is None
        assert running() <= check_workers.PROCESSES


async def test_who_goes_away_takes_the_check_along(workers: CheckWorkers) -> None:
    with anyio.move_on_after(0.5):
        for _ in range(100):
            await workers.check("s", pending(FOR_EVER, ENDLESS))
    verdict = await workers.check("s", pending({"unevaluatedProperties": False}, {"a": 1}))
    assert verdict.wrong is not None, "and its answer is not taken for that of another"


async def test_arguments_that_cannot_be_written_down_cannot_be_checked(workers: CheckWorkers) -> None:
    many = {"a": [[]] * (check_workers.MOST_VALUES + 1)}
    assert (await workers.check("s", pending({}, many))).cannot == check_workers.TOO_MANY
    assert (await workers.check("s", pending({}, {"a": "\ud800"}))).cannot
    assert running() == 0


async def test_a_schema_that_points_elsewhere_is_not_fetched_there_either(workers: CheckWorkers) -> None:
    large = {"$defs": {f"d{n}": {} for n in range(6000)}, "$ref": "http://127.0.0.1:1/schema"}
    assert "not fetched" in str((await workers.check("s", pending(large, {}))).cannot)


async def test_a_pattern_whose_stack_is_too_small_is_not_taken_for_no_match(workers: CheckWorkers) -> None:
    schema = {"properties": {"a": {"anyOf": [{"pattern": r"^(?:(a|b)(?!\1\1\1c))*$"}, {"type": "string"}]}}}
    assert (await workers.check("s", pending(schema, {"a": "ab" * 700_000}))).cannot
