"""Schemas that take for ever to check: nobody else waits for them, and nothing is decided by their giving up.

That others are answered in between is shown by their order, not by a clock: the process that checks is stopped, others
call and are answered, and only then it goes on.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.attacks.target import (
    ALL_SURFACES,
    ERAS,
    Later,
    Target,
    ask,
    eventually,
    fresh,
    heard,
    latch,
    over_rest,
    params,
    release,
)
from tests.support.gateway import Running, gateway, until
from tests.support.wire import MODERN

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SEC-5", "SEC-6")]

PROGRAM = b"check_program.py"
BACKTRACKING = r"^(?:(a+)\1?)+$"
"""There are 2**60 ways to see that sixty `a` and something else do not match."""


def nested(schema: Mapping[str, Any], times: int) -> Mapping[str, Any]:
    """Each level asks everything below it again, to see what it left over."""
    for _ in range(times):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return schema


TEXT = "ab" * 400
KEYS = {f"k{n}": n for n in range(60)}
HOSTILE: dict[str, tuple[Any, Any]] = {
    "branches": ({"items": {"anyOf": [*({"const": {"x": n}} for n in range(10_000)), {}]}}, [{"x": -1}] * 600),
    "values": ({"items": {"anyOf": [{"enum": [{"x": n} for n in range(18_000)]}, {}]}}, [{"x": -1}] * 250),
    "backtracks": ({"pattern": BACKTRACKING}, "a" * 60 + "!"),
    "backtracks-unseen": ({"anyOf": [{"pattern": BACKTRACKING}, {}]}, "a" * 60 + "!"),
    "large-pattern": ({"items": {"anyOf": [{"pattern": "(?:.{1,20}){1,200}!$"}, {}]}}, [TEXT, TEXT + "b"] * 20),
    "left-over": (nested({"patternProperties": {"^k": {}}}, 16), KEYS),
}
"""The schema of the argument `a`, and what is sent: a kilobyte or little more."""
DECIDABLE = {"properties": {"a": {"properties": {"b": {"type": "integer"}}, "unevaluatedProperties": False}}}
"""Never checked on the loop, and quickly checked beside it."""


def schemas() -> dict[str, Any]:
    found = {f"look_{name}": {"properties": {"a": schema}} for name, (schema, _) in HOSTILE.items()}
    return {**found, "look_decidable": DECIDABLE}


EACH = pytest.mark.parametrize("hostile", list(HOSTILE))
SERVERS = ("modern", "handshake")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("schemas")
    (folder / "schemas.json").write_text(json.dumps(schemas()))
    (folder / "changing.json").write_text(json.dumps({"look_it": DECIDABLE}))
    servers = {
        "modern": heard(folder, "modern", "--modern", "--schemas", str(folder / "schemas.json")),
        "handshake": heard(folder, "handshake", "--schemas", str(folder / "schemas.json")),
        "changing": heard(folder, "changing", "--modern", "--schemas", str(folder / "changing.json")),
        "narrow": heard(folder, "narrow", "--modern", max_concurrency=1, tools=override("b")),
        "other": heard(folder, "other", "--modern"),
    }
    with gateway(folder / "data", {"surfaces": ALL_SURFACES, "mcpServers": servers}) as running:
        running.wait_for(*servers)
        yield Target(running, folder, servers)


def override(*known: str) -> dict[str, Any]:
    """By which `look` reads where the argument `a` holds nothing unknown; that is told beside the loop only."""
    schema = {"properties": {"a": {"properties": {key: {} for key in known}, "unevaluatedProperties": False}}}
    return {"look": [{"when": schema, "class": "read"}, {"class": "destructive"}]}


def checkers(running: Running) -> list[int]:
    """The gateway's processes that hold arguments against schemas."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1]) if entry.name.isdecimal() else 0
            if parent == running.process.pid and PROGRAM in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue  # it has just ended
    return found


@contextmanager
def held(target: Target, server: str) -> Iterator[None]:
    """This server's checking process is there, and does nothing until the block ends."""
    before = set(checkers(target.running))
    mark = fresh()
    answer = over_rest(target.running, server, "look_decidable" if server != "changing" else "look_it", mark, a={})
    assert answer.status_code == 200, answer.text
    new = set(checkers(target.running)) - before
    pids = new or set(checkers(target.running))
    assert pids, "nothing is checked beside the loop"
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@ERAS
@EACH
async def test_while_a_hostile_schema_is_checked_others_are_answered(target: Target, era: str, hostile: str) -> None:
    mark, later, server = fresh(), Later(), SERVERS[(era == MODERN) ^ (hostile in ("values", "backtracks"))]
    asked = params("gate", server, f"look_{hostile}", mark, a=HOSTILE[hostile][1])
    async with target.client("gate", server, era) as peer, anyio.create_task_group() as tasks:
        with held(target, server):
            tasks.start_soon(later.run, peer, asked)
            for _ in range(3):
                await target.marker("gate", "other", era)
                await target.marker("gate", server, era)
            assert not target.log(server).calls(mark)
            assert not later.over
        answer = await later.outcome()
    assert answer.ok, answer
    assert "not checked against its input schema" in answer.result["_meta"]["mcpproxy/warning"]
    assert len(target.log(server).calls(mark)) == 1
    (row,) = target.ended(mark)
    assert "not checked" in row["metadata"]["decision"]["warning"]
    assert row["metadata"]["decision"]["verdict"] == "warn"


@ERAS
@pytest.mark.parametrize("door", ["direct", "passthrough"])
async def test_at_the_other_doors_too(target: Target, era: str, door: str) -> None:
    """Passthrough leaves arguments to their server, so nothing is checked there."""
    mark = fresh()
    async with target.client(door, "modern", era) as peer:
        answer = await ask(peer, params(door, "modern", "look_backtracks", mark, a=HOSTILE["backtracks"][1]))
    assert answer.ok, answer
    assert len(target.log("modern").calls(mark)) == 1
    assert ("mcpproxy/warning" in (answer.result.get("_meta") or {})) == (door == "direct")


def test_over_rest_the_answer_and_the_explanation_say_it(target: Target) -> None:
    mark, sent = fresh(), HOSTILE["backtracks"][1]
    answer = over_rest(target.running, "modern", "look_backtracks", mark, a=sent).json()
    assert "not checked against its input schema" in answer["warning"], answer
    asked = {"variant": "read", "name": "modern:look_backtracks", "args": {"mark": mark, "a": sent}}
    explained = target.running.post("/explain", asked).json()
    rung = explained["rungs"][-1]
    assert (rung["rule"], rung["outcome"]) == ("schema", "passed")
    assert "not checked" in rung["message"]
    assert "not checked" in target.running.stderr(), "it is in the log"


@ERAS
async def test_what_is_checked_beside_the_loop_is_held_to_its_schema(target: Target, era: str) -> None:
    async with target.client("gate", "modern", era) as peer:
        right, wrong = fresh(), fresh()
        fits = await ask(peer, params("gate", "modern", "look_decidable", right, a={"b": 1}))
        refused = await ask(peer, params("gate", "modern", "look_decidable", wrong, a={"b": 1, "c": 2}))
    assert fits.ok, fits
    assert "mcpproxy/warning" not in (fits.result.get("_meta") or {})
    assert refused.code == "INVALID_ARGUMENTS", refused
    assert "a: " in refused.words
    assert target.log("modern").calls(right)
    assert not target.log("modern").calls(wrong)


async def test_arguments_that_were_checked_against_a_schema_that_is_gone_are_checked_again(target: Target) -> None:
    """A person approves the new schema while they are checked: before that the tool waits."""
    mark, later = fresh(), Later()
    asked = params("gate", "changing", "look_it", mark, a={"b": 1})
    async with target.client("gate", "changing", MODERN) as peer, anyio.create_task_group() as tasks:
        with held(target, "changing"):
            tasks.start_soon(later.run, peer, asked)
            await target.marker("gate", "other", MODERN)
            stricter = {"properties": {"a": {"properties": {"b": {"type": "string"}}, "unevaluatedProperties": False}}}
            (target.folder / "changing.json").write_text(json.dumps({"look_it": stricter}))
            assert target.running.post("/servers/changing/restart").status_code == 200
            await eventually(lambda: target.running.get("/pins/changing")["waiting"], "the new schema, to be decided")
            await anyio.to_thread.run_sync(target.running.approve_pins, "changing")

            def listed() -> bool:
                found = target.running.get("/tools", server="changing")["tools"]
                return any(tool["name"].endswith("look_it") and tool["inputSchema"] == stricter for tool in found)

            await eventually(listed, "the new schema")
        answer = await later.outcome()
    assert answer.code == "INVALID_ARGUMENTS", answer
    assert not target.log("changing").calls(mark)


async def test_a_class_that_was_found_out_for_another_override_does_not_let_a_call_leave(target: Target) -> None:
    """It waits for a place, already decided; then the operator changes the `when`. At the moment of sending nobody has
    checked the new one, so it counts as the highest class."""
    mark, later = fresh(), Later()
    with latch(target.folder) as file:
        async with target.client("direct", "narrow", MODERN) as peer, anyio.create_task_group() as tasks:
            first, occupant = Later(), fresh()
            tasks.start_soon(first.run, peer, params("direct", "narrow", "put", occupant, until=str(file)))
            await target.log("narrow").wait_for(occupant)
            tasks.start_soon(later.run, peer, params("direct", "narrow", "look", mark, a={"b": 1}))
            await target.has_calls("narrow", 2)
            target.configure("narrow", tools=override("b", "c"))
            release(file)
            answer = await later.outcome()
            assert (await first.outcome()).ok
        assert not answer.ok
        assert not target.log("narrow").calls(mark)
        again = fresh()
        async with target.client("direct", "narrow", MODERN) as peer:
            assert (await ask(peer, params("direct", "narrow", "look", again, a={"b": 1}))).ok
        (row,) = target.ended(again)
        assert row["metadata"]["decision"]["class"] == "read"


async def test_a_checking_process_that_is_killed_costs_one_check(target: Target) -> None:
    mark, later = fresh(), Later()
    async with target.client("gate", "modern", MODERN) as peer, anyio.create_task_group() as tasks:
        with held(target, "modern"):
            tasks.start_soon(later.run, peer, params("gate", "modern", "look_decidable", mark, a={"b": 1}))
            await target.marker("gate", "other", MODERN)
            for pid in checkers(target.running):
                os.kill(pid, signal.SIGKILL)
            answer = await later.outcome()
        assert answer.ok, answer
        assert "not checked" in answer.result["_meta"]["mcpproxy/warning"]
        refused = await ask(peer, params("gate", "modern", "look_decidable", fresh(), a={"c": 2}))
    assert refused.code == "INVALID_ARGUMENTS", refused


def test_no_checking_process_outlives_its_gateway(tmp_path: Path) -> None:
    (tmp_path / "schemas.json").write_text(json.dumps(schemas()))
    server = heard(tmp_path, "modern", "--modern", "--schemas", str(tmp_path / "schemas.json"))
    with gateway(tmp_path / "data", {"mcpServers": {"modern": server}}) as running:
        running.wait_for("modern")
        over_rest(running, "modern", "look_decidable", fresh(), a={})
        pids = checkers(running)
        assert pids
        running.kill()
        until(lambda: not any(is_alive(pid) for pid in pids), what="their end")


def is_alive(pid: int) -> bool:
    try:
        return PROGRAM in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
