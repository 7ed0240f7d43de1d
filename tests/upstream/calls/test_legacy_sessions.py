"""A server of both eras, and the clients it can only ask in the older one (SURF-6)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcpproxy_py.errors import UpstreamFailure
from mcpproxy_py.upstream.calls import legacy_sessions
from mcpproxy_py.upstream.spec import UpstreamSpec
from tests.upstream.helpers import LONG, Chat, Upstreams, connected, running, stdio, text_of, until

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SURF-6", "UP-5")]


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that opens too slowly is gone without, and these tests are about those that open."""
    monkeypatch.setattr(legacy_sessions, "OPEN_PATIENCE", LONG)


def both(**more: Any) -> UpstreamSpec:
    return stdio("s", "asks.py", "--both", timeout=2 * LONG, **more)


def person(number: int = 1, **more: Any) -> Chat:
    async def answer(method: str, params: Any) -> dict[str, Any]:
        return {"number": number}

    return Chat(answer, capabilities={"elicitation": {}}, **more)


async def call(supervisor: Upstreams, tool: str, chat: Chat | None = None, **args: Any) -> Any:
    return json.loads(text_of(await supervisor.call_tool("s", tool, args, channel=chat)))


async def asked(supervisor: Upstreams, chat: Chat) -> Any:
    said = await call(supervisor, "ask", chat, method="elicitation/create")
    return said["result"] if isinstance(said, dict) else said


async def test_a_client_that_can_be_asked_in_mid_call_is_asked(tmp_path: Path) -> None:
    async with running(tmp_path, both()) as supervisor:
        await connected(supervisor, "s")
        assert supervisor.describe()[0]["protocol_version"] == "2026-07-28"
        assert await asked(supervisor, person(5)) == {"number": 5}
        assert supervisor.describe()[0]["extra_sessions"] == 1


async def test_a_stateless_client_keeps_to_the_stateless_session(tmp_path: Path) -> None:
    async with running(tmp_path, both()) as supervisor:
        await connected(supervisor, "s")
        for chat in (person(live=False), None):
            assert await asked(supervisor, chat) == "there is nobody to ask"  # type: ignore[arg-type]
        assert supervisor.describe()[0]["extra_sessions"] == 0


async def test_a_client_that_cannot_be_asked_gets_a_session_that_declares_nothing(tmp_path: Path) -> None:
    """Whether the others' sessions are shared or not, all of these share one."""
    async with running(tmp_path, both()) as supervisor:
        await connected(supervisor, "s")
        for known in ({}, {"number": 5}):
            for chat in (Chat(capabilities={}), Chat(capabilities={"x": {}})):
                seen = await call(supervisor, "whoami", chat)
                assert seen["capabilities"] == {}
                assert "io.modelcontextprotocol/protocolVersion" not in seen["meta"]
            assert supervisor.describe()[0]["extra_sessions"] == 1 + bool(known)
            assert await asked(supervisor, person(5)) == {"number": 5}  # from now on it asks outside of calls
        assert supervisor.describe()[0]["extra_sessions"] == 2


async def test_requests_about_tasks_and_tools_that_need_one_are_stateless(tmp_path: Path) -> None:
    log = tmp_path / "log"
    spec = replace(both(), args=(*both().args, "--tasks", "--log", str(log)))
    follows = person(1)
    follows.capabilities = {**follows.capabilities, "extensions": {"io.modelcontextprotocol/tasks": {}}}
    async with running(tmp_path, spec) as supervisor:
        await connected(supervisor, "s")
        for _ in range(2):
            assert await call(supervisor, "needs_task", follows) == "ran as a task"
        assert await asked(supervisor, follows) == {"number": 1}
        with pytest.raises(UpstreamFailure):
            await supervisor.request("s", "tasks/get", {"taskId": "1"}, channel=follows)
        with pytest.raises(UpstreamFailure, match="task only"):
            await supervisor.call_tool("s", "needs_task", {"always": True}, channel=person(1))
    heard = [json.loads(line) for line in log.read_text().splitlines()]
    stateless = [each["method"] for each in heard if "io.modelcontextprotocol/protocolVersion" in str(each)]
    assert stateless.count("tools/call") == 2
    assert "tasks/get" in stateless


async def test_a_server_that_is_shared_whatever_happens_is_not_started_twice(tmp_path: Path) -> None:
    async with running(tmp_path, both(sessions="shared")) as supervisor:
        await connected(supervisor, "s")
        assert await asked(supervisor, person()) == "there is nobody to ask"
        assert supervisor.describe()[0]["extra_sessions"] == 0


async def test_clients_share_that_session_until_the_server_asks_outside_a_call(tmp_path: Path) -> None:
    """On a pipe every question is outside the stream of a call: the first one shows that."""
    async with running(tmp_path, both()) as supervisor:
        await connected(supervisor, "s")
        seen = {(await call(supervisor, "whoami", person()))["session"] for _ in range(3)}
        assert len(seen) == 1
        assert await asked(supervisor, person(2)) == {"number": 2}
        assert supervisor.describe()[0]["sessions"] == "auto"  # the modern one is as it was


async def test_each_client_has_its_own_where_that_is_configured(tmp_path: Path) -> None:
    async with running(tmp_path, both(sessions="per_client")) as supervisor:
        await connected(supervisor, "s")
        ann, bob = person(1, key="ann"), person(2, key="bob")
        sessions = [(await call(supervisor, "whoami", chat))["session"] for chat in (ann, bob, ann)]
        assert sessions[0] == sessions[2] != sessions[1]
        assert (await asked(supervisor, ann), await asked(supervisor, bob)) == ({"number": 1}, {"number": 2})
        supervisor.forget("ann")
        await until(lambda: supervisor.describe()[0]["extra_sessions"] == 1)


async def test_a_server_of_the_modern_era_only_is_tried_once_and_costs_no_call(tmp_path: Path) -> None:
    log = tmp_path / "log"
    spec = replace(both(), args=(*both().args[:1], "--modern", "--log", str(log)))
    async with running(tmp_path, spec) as supervisor:
        await connected(supervisor, "s")
        for _ in range(3):
            assert (await call(supervisor, "whoami", person()))["capabilities"] == {}
        await until(lambda: supervisor.describe()[0]["extra_sessions"] == 0)
    assert sum(json.loads(line).get("method") == "initialize" for line in log.read_text().splitlines()) == 1


@pytest.mark.proves("UP-4")
async def test_what_it_tells_of_in_the_older_era_only_is_watched_there_also_after_a_restart(
    tmp_path: Path,
) -> None:
    heard: list[Any] = []
    hook = lambda server, method, params: heard.append(params.get("uri"))  # noqa: E731
    async with running(tmp_path, both(), on_notification=hook) as supervisor:
        await connected(supervisor, "s")
        ann, bob, about = person(), person(), {"uri": "note://1"}
        for chat in (ann, bob):
            assert await supervisor.request("s", "resources/subscribe", about, channel=chat) == {}
        await supervisor.request("s", "resources/unsubscribe", about)  # one has left
        assert await call(supervisor, "touch", ann, uri="note://1") == ["note://1"]
        await until(lambda: heard.count("note://1") == 1)
        await supervisor.restart("s")
        await connected(supervisor, "s")
        await until(lambda: supervisor.describe()[0]["extra_sessions"] == 1)
        assert await call(supervisor, "touch", ann, uri="note://1") == ["note://1"]
        await supervisor.request("s", "resources/unsubscribe", about)
        assert await call(supervisor, "touch", ann, uri="note://1") == []


def levels(tmp_path: Path) -> list[str]:
    messages = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    return [message["params"]["level"] for message in messages if message.get("method") == "logging/setLevel"]


@pytest.mark.parametrize("kind", ["auto", "per_client"])
async def test_a_log_level_reaches_the_sessions_of_the_older_era_alone(kind: Any, tmp_path: Path) -> None:
    spec = stdio("s", "asks.py", "--both", "--log", str(tmp_path / "log"), sessions=kind)
    async with running(tmp_path, spec) as supervisor:
        await connected(supervisor, "s")
        ann = person(1, key="ann")
        for level in ("debug", "info"):
            assert await supervisor.request("s", "logging/setLevel", {"level": level}, channel=ann) == {}
            await call(supervisor, "whoami", ann)
            assert levels(tmp_path)[-1] == level
        assert await supervisor.request("s", "logging/setLevel", {"level": "error"}, channel=Chat(live=False)) == {}
    assert levels(tmp_path) == ["debug", "info", *(["error"] if kind == "auto" else [])]
