"""Servers that answer with a task: at every surface, over restarts, reconnects and replicas (SURF-10)."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.target import Log, fresh
from tests.support.balancer import balanced
from tests.support.everything import over_http
from tests.support.gateway import SERVERS, Running, gateway, start, until
from tests.support.listening import listening
from tests.support.postgres import own_server
from tests.support.replicas import TOKEN, documented, replicas
from tests.support.wire import HANDSHAKE, MODERN, RpcError, Wire, text

pytestmark = pytest.mark.proves("SURF-10")
SURFACES = ["gate", "direct", "passthrough"]
ERAS = pytest.mark.parametrize("era", [MODERN, HANDSHAKE], ids=["modern", "handshake"])
HELD = pytest.mark.parametrize("door", ["direct", "passthrough"])
TASKS = "io.modelcontextprotocol/tasks"
ABLE = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}}}
OPERATIONS = {"look": "read", "put": "write", "wipe": "destructive"}


def at(url: str, door: str, era: str = MODERN, **options: Any) -> Wire:
    path = {"gate": "/mcp", "direct": "/mcp/direct", "passthrough": "/mcp/s/works"}[door]
    return Wire(url + path, era, **options)


def called(wire: Wire, door: str, tool: str, **args: Any) -> dict[str, Any]:
    """By a client that knows nothing of tasks."""
    if door == "gate":
        return wire.via(OPERATIONS[tool.partition("_")[0]], f"works:{tool}", args)
    return wire.call(f"works__{tool}" if door == "direct" else tool, args)


def begun(wire: Wire, door: str, tool: str, **args: Any) -> str:
    found = wire.call(f"works__{tool}" if door == "direct" else tool, args, **ABLE)
    assert found["resultType"] == "task", found
    return found["taskId"]


def looked(wire: Wire, task_id: str) -> dict[str, Any]:
    return wire.request("tasks/get", {"taskId": task_id}, **ABLE)


def completed(wire: Wire, task_id: str) -> dict[str, Any]:
    def there() -> dict[str, Any] | None:
        found = looked(wire, task_id)
        assert found["status"] in ("working", "completed"), found
        return found if found["status"] == "completed" else None

    found = until(there, what="the end of the task")
    assert found["taskId"] == task_id
    return found["result"]


def call_of(running: Running, mark: str) -> dict[str, Any]:
    rows = [row for row in running.activities(type="tool_call") if mark in str(row["arguments"])]
    assert len(rows) == 1, rows
    return rows[0]


def beside(work: Any) -> Future[Any]:
    done: Future[Any] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


@pytest.fixture
def works(tmp_path: Path) -> Iterator[dict[str, Any]]:
    with tasks_over_http(tmp_path / "works.heard") as url:
        yield {"url": url, "timeout": 60}


@contextlib.contextmanager
def tasks_over_http(log: Path, port: int = 0) -> Iterator[str]:
    command = [sys.executable, str(SERVERS / "tasks.py"), "--log", str(log), "--modern", "--http", str(port)]
    with listening(command) as origin:
        yield f"{origin}/mcp"


def configured(entry: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"surfaces": SURFACES, "mcpServers": {"works": {**entry}}, **more}


# Every surface.


def test_a_client_without_the_extension_gets_the_result(tmp_path: Path) -> None:
    """Of a server that passes the official scenarios, and that does some things as a task and no other way."""
    with over_http() as url, gateway(tmp_path / "data", configured({"url": url})) as running:
        for door in ("gate", "direct"):
            for era in (MODERN, HANDSHAKE):
                wire = at(running.url, door, era)
                label = fresh()
                call = {"seconds": 0.3, "label": label}
                found = (
                    wire.read("works:slow_compute", call) if door == "gate" else wire.call("works__slow_compute", call)
                )
                assert text(found) == f"computed {label}"
                assert found.get("resultType", "complete") == "complete" and "taskId" not in found
                assert call_of(running, label)["status"] == "success"
                failing = wire.read("works:failing_job", {}) if door == "gate" else wire.call("works__failing_job", {})
                assert failing["isError"] and text(failing) == "This job failed"


def test_progress_says_how_a_task_goes(tmp_path: Path, works: dict[str, Any]) -> None:
    with gateway(tmp_path / "data", configured(works)) as running:
        wire, file = at(running.url, "gate"), tmp_path / "go"
        args = {"mark": "m", "how": "until", "until": str(file)}
        params = {"name": "works:look_task", "args": args, "intent": {"operation_type": "read"}}
        log = Log(tmp_path / "works.heard")
        call = beside(
            lambda: wire.send("tools/call", {"name": "call_tool_read", "arguments": params}, progressToken="p")
        )
        until(lambda: log.of("tasks/get"), what="the task to be followed")
        file.touch()
        *said, answer = call.result(60)
    assert text(answer["result"]) == "came of m"
    progress = [each["params"] for each in said if each["method"] == "notifications/progress"]
    assert [each["message"] for each in progress] == ["The task is working", "The task is completed"]
    assert [each["progress"] for each in progress] == [1, 2]


@HELD
def test_a_task_is_on_record_as_begun_and_as_ended(tmp_path: Path, works: dict[str, Any], door: str) -> None:
    with gateway(tmp_path / "data", configured(works)) as running:
        wire, file, mark = at(running.url, door), tmp_path / "go", fresh()
        task_id = begun(wire, door, "put_task", mark=mark, how="until", until=str(file))
        assert looked(wire, task_id)["status"] == "working"
        assert call_of(running, mark)["status"] == "pending"
        file.touch()
        assert text(completed(wire, task_id)) == f"came of {mark}"
        row = call_of(running, mark)
        assert (row["status"], text(row["response"])) == ("success", f"came of {mark}")
        assert row["duration_ms"] > 0
        looks = running.activities(type="request")
        assert {row["metadata"]["task_of"] for row in looks} == {row["id"]}
        assert {row["metadata"]["decision"]["risk"] for row in looks} == {"read"}
        for how, status in (("fails", "error"), ("never", "cancelled")):
            mark = fresh()
            task_id = begun(wire, door, "put_task", mark=mark, how=how)
            if how == "never":
                wire.request("tasks/cancel", {"taskId": task_id}, **ABLE)
            looked(wire, task_id)
            assert call_of(running, mark)["status"] == status
        (cancelling,) = [r for r in running.activities(type="request") if r["metadata"]["method"] == "tasks/cancel"]
        assert cancelling["metadata"]["decision"]["risk"] == "write", "as risky as the call that it belongs to"
        assert running.stop() == 0


# A restart.


@HELD
@pytest.mark.parametrize("ends", ["stop", "kill"])
def test_a_task_goes_on_over_a_restart_of_the_gateway(
    tmp_path: Path, works: dict[str, Any], door: str, ends: str
) -> None:
    file, mark = tmp_path / "go", fresh()
    before = start(tmp_path / "data", configured(works))
    try:
        task_id = begun(at(before.url, door), door, "put_task", mark=mark, how="until", until=str(file))
    finally:
        getattr(before, ends)()
    with gateway(tmp_path / "data", configured(works)) as running:
        wire = at(running.url, door)
        assert looked(wire, task_id)["status"] == "working"
        file.touch()
        assert text(completed(wire, task_id)) == f"came of {mark}"
        row = call_of(running, mark)
        assert (row["status"], text(row["response"])) == ("success", f"came of {mark}")


@HELD
def test_a_freeze_after_a_restart_ends_a_task_from_before(tmp_path: Path, works: dict[str, Any], door: str) -> None:
    log, own = Log(tmp_path / "works.heard"), f"task-{fresh()}"
    before = start(tmp_path / "data", configured(works))
    try:
        begun(at(before.url, door), door, "wipe_task", mark=fresh(), how="never", id=own)
    finally:
        before.stop()
    with gateway(tmp_path / "data", configured(works)) as running:
        assert running.post("/freeze").status_code == 200
        until(lambda: [one for one in log.of("tasks/cancel") if one["params"]["taskId"] == own], what="the cancelling")


@ERAS
def test_a_call_whose_task_is_followed_has_its_answer_before_the_gateway_ends(
    tmp_path: Path, works: dict[str, Any], era: str
) -> None:
    file, log = tmp_path / "go", Log(tmp_path / "works.heard")
    running = start(tmp_path / "data", configured(works))
    try:
        wire = at(running.url, "gate", era)
        call = beside(lambda: called(wire, "gate", "put_task", mark="m", how="until", until=str(file)))
        until(lambda: log.of("tasks/get"), what="the task to be followed")
        stopping = beside(running.stop)
        until(lambda: "draining" in running.stderr(), what="the drain")
        file.touch()
        assert text(call.result(60)) == "came of m"
        assert stopping.result(60) == 0
    finally:
        if running.process.poll() is None:
            running.kill()


def test_a_task_that_nobody_can_wait_for_any_more_is_told_to_end(tmp_path: Path, works: dict[str, Any]) -> None:
    log, config = Log(tmp_path / "works.heard"), configured(works, shutdown_timeout=1)
    running = start(tmp_path / "data", config)
    try:
        wire = at(running.url, "gate")
        call = beside(lambda: called(wire, "gate", "put_task", mark="m", how="never"))
        until(lambda: log.of("tasks/get"), what="the task to be followed")
        assert running.stop() == 0
        assert call.exception(60) is not None or call.result()["isError"], "it was not answered with a result"
    finally:
        if running.process.poll() is None:
            running.kill()
    assert log.of("tasks/cancel")


# A reconnect.


@pytest.mark.parametrize("door", ["gate", "direct", "passthrough"])
def test_a_task_is_alive_over_a_reconnect_to_its_server(tmp_path: Path, door: str) -> None:
    log, own = tmp_path / "works.heard", f"kept-{fresh()}"
    with contextlib.ExitStack() as stack:
        first = contextlib.ExitStack()
        url = first.enter_context(tasks_over_http(log))
        port = int(url.rsplit(":", 1)[1].split("/")[0])
        running = stack.enter_context(gateway(tmp_path / "data", configured({"url": url, "timeout": 60})))
        wire = at(running.url, door)
        args = {"mark": own, "how": "never", "id": own}
        task_id = "" if door == "gate" else begun(wire, door, "put_task", **args)
        call = beside(lambda: called(wire, door, "put_task", **args)) if door == "gate" else None
        until(lambda: door != "gate" or Log(log).of("tasks/get"), what="the task to be followed")
        first.close()
        stack.enter_context(tasks_over_http(log, port))
        running.wait_for("works")
        found = call.result(60) if call is not None else completed(wire, task_id)
        assert text(found) == f"came of {own}"


# Replicas.


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Running], str, Log]]:
    """Two gateways of one PostgreSQL behind a balancer that takes turns, and the log of their server."""
    folder = tmp_path_factory.mktemp("replicas")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(own_server())
        entry = stack.enter_context(heard_tasks(folder))
        config = documented(mcpServers={"works": entry}, surfaces=SURFACES)
        gateways = stack.enter_context(replicas(folder, server.database(), config))
        address, _ = stack.enter_context(balanced(*(running.url for running in gateways)))
        yield gateways, address, Log(folder / "works.heard")


@contextlib.contextmanager
def heard_tasks(folder: Path) -> Iterator[dict[str, Any]]:
    with tasks_over_http(folder / "works.heard") as url:
        yield {"url": url}


@HELD
@pytest.mark.proves("ACT-6")
def test_every_replica_knows_whose_task_it_is(pair: tuple[list[Running], str, Log], door: str, tmp_path: Path) -> None:
    gateways, address, _ = pair
    file, mark = tmp_path / "go", fresh()
    wire = at(address, door, token=TOKEN)
    task_id = begun(wire, door, "put_task", mark=mark, how="until", until=str(file))
    for _ in range(4):
        assert looked(wire, task_id)["status"] == "working"
    for running in gateways:
        assert looked(at(running.url, door, token=TOKEN), task_id)["status"] == "working"
        other = running.post("/tokens", {"name": f"o-{door}-{gateways.index(running)}", "servers": ["works"]}).json()
        with pytest.raises(RpcError, match="There is no such task here"):
            looked(at(running.url, door, token=other["token"]), task_id)
    file.touch()
    assert text(completed(wire, task_id)) == f"came of {mark}"
    for running in gateways:
        until(lambda at=running: call_of(at, mark)["status"] == "success", what="its end on record everywhere")


@HELD
@pytest.mark.proves("GATE-13")
def test_a_freeze_at_one_replica_ends_the_tasks_of_the_other(pair: tuple[list[Running], str, Log], door: str) -> None:
    gateways, _, log = pair
    own = f"task-{fresh()}"
    begun(at(gateways[0].url, door, token=TOKEN), door, "wipe_task", mark=fresh(), how="never", id=own)
    assert gateways[1].post("/freeze").status_code == 200
    try:
        until(lambda: [one for one in log.of("tasks/cancel") if one["params"]["taskId"] == own], what="the cancelling")
    finally:
        assert gateways[1].post("/unfreeze").status_code == 200
        until(lambda: not gateways[0].get("/status")["frozen"], what="the thaw everywhere")
