"""A client that opens addresses is offered the login that a server needs, and its call goes on after it (UP-9)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.support.authserver import AuthServer, auth_server
from tests.support.browser import visit
from tests.support.gateway import Running, clean_environment
from tests.support.gateway import gateway as started
from tests.support.links import HttpLink, StdioLink
from tests.support.peer import Answer, Message, Peer, connected, silent
from tests.support.postgres import own_server
from tests.support.replicas import TOKEN, documented, replicas
from tests.support.wire import HANDSHAKE, MODERN, text

pytestmark = [pytest.mark.anyio, pytest.mark.proves("UP-9")]

NAME = "guarded"
ERAS = pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
WAYS = [(door, era) for door in ("/mcp", "/mcp/direct") for era in (MODERN, HANDSHAKE)] + [(f"/mcp/s/{NAME}", MODERN)]
"""Passed through, a client of the handshake era has no session before its server has a login."""
ACCEPT: Mapping[str, Any] = {"action": "accept"}
gateway = partial(started, wait=False)


@pytest.fixture
def site() -> Iterator[AuthServer]:
    with auth_server() as found:
        yield found


def configured(site: AuthServer, **more: Any) -> dict[str, Any]:
    return {**site.config, "surfaces": ["gate", "direct", "passthrough"], **more}


def call(door: str, tool: str = "look", operation: str = "read") -> Message:
    if door == "/mcp":
        arguments = {"name": f"{NAME}:{tool}", "intent": {"operation_type": operation}}
        return {"name": f"call_tool_{operation}", "arguments": arguments}
    return {"name": f"{NAME}__{tool}" if door == "/mcp/direct" else tool, "arguments": {}}


async def logs_in(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """A person who says yes, and a browser that opens the address."""
    assert (method, params["mode"]) == ("elicitation/create", "url")
    await anyio.to_thread.run_sync(visit, params["url"])
    return ACCEPT


def client(running: Running, era: str, answer: Answer = silent, door: str = "/mcp", **options: Any) -> Any:
    return connected(HttpLink(f"{running.url}{door}"), era, answer, **options)


@pytest.mark.parametrize(("door", "era"), WAYS)
async def test_the_call_goes_on_after_the_login_that_it_needed(
    site: AuthServer, tmp_path: Path, door: str, era: str
) -> None:
    with gateway(tmp_path / "data", configured(site)) as running:
        running.wait_for(NAME, state="needs_login")
        async with client(running, era, logs_in, door) as peer:
            assert text(await peer.request("tools/call", call(door))) == "did look"
            ((_, asked),) = peer.asked
            assert ("elicitationId" in asked) == (era == HANDSHAKE), "the modern era has none"
            if era == HANDSHAKE:
                await peer.hear("notifications/elicitation/complete", elicitationId=asked["elicitationId"])
            assert text(await peer.request("tools/call", call(door, "change", "write"))) == "did change"
            assert len(peer.asked) == 1
        (row,) = running.activities(tool="offer_login")
        assert (row["server"], row["status"]) == (NAME, "success")
        assert row["arguments"] == {"call": next(each["id"] for each in running.activities(tool="look"))}
        assert not any(secret in str(running.activities()) for secret in [asked["url"], *site.secrets])
    assert site.counts["authorize"] == site.counts["register"] == 1


async def test_two_agents_are_offered_the_same_login_and_both_calls_go_on(site: AuthServer, tmp_path: Path) -> None:
    both = anyio.Event()
    shown: list[str] = []

    async def after_both(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        shown.append(params["url"])
        if len(shown) == 2:
            both.set()
        await both.wait()
        return await logs_in(method, params) if params["url"] is shown[0] else ACCEPT

    with gateway(tmp_path / "data", configured(site)) as running:
        running.wait_for(NAME, state="needs_login")
        async with client(running, MODERN, after_both) as one, client(running, HANDSHAKE, after_both) as two:
            answers: list[str] = []

            async def calls(peer: Peer) -> None:
                answers.append(text(await peer.request("tools/call", call("/mcp"))))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(calls, one)
                tasks.start_soon(calls, two)
            assert answers == ["did look"] * 2
    assert shown[0] == shown[1]
    assert site.counts["register"] == 1


@ERAS
async def test_a_login_by_another_way_lets_the_call_go_on_while_nobody_has_answered(
    site: AuthServer, tmp_path: Path, era: str
) -> None:
    """Somebody else opened the page; the question is withdrawn, and a client that was away finds its result."""

    async def waits(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        await anyio.to_thread.run_sync(visit, params["url"])
        await anyio.to_thread.run_sync(running.wait_for, NAME)
        if era == HANDSHAKE:
            await peer.hear("notifications/cancelled")
        return {"action": "decline"}

    with gateway(tmp_path / "data", configured(site)) as running:
        running.wait_for(NAME, state="needs_login")
        async with client(running, era, waits) as peer:
            assert text(await peer.request("tools/call", call("/mcp"))) == "did look"


@ERAS
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_who_declines_is_told_what_helps_and_is_not_asked_again_at_once(
    site: AuthServer, tmp_path: Path, era: str, action: str
) -> None:
    async def declines(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"action": action}

    with gateway(tmp_path / "data", configured(site)) as running:
        running.wait_for(NAME, state="needs_login")
        async with client(running, era, declines) as peer:
            for _ in range(3):
                said = text(await peer.request("tools/call", call("/mcp")))
                assert f"mcpproxy upstream login {NAME}" in said
                assert "A login was offered: the person" in said
            assert len(peer.asked) == 1
        (row,) = running.activities(tool="offer_login")
        assert (row["status"], row["error"]["code"]) == ("error", "NOT_CONFIRMED")
        assert {each["status"] for each in running.activities(tool="look")} == {"blocked"}
    assert site.calls["look"] == site.counts["authorize"] == 0


@ERAS
@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {}}, {"elicitation": {"form": {}}}, {"elicitation": 7}])
async def test_a_client_that_opens_no_addresses_is_answered_at_once(
    site: AuthServer, tmp_path: Path, era: str, capabilities: Message
) -> None:
    with gateway(tmp_path / "data", configured(site)) as running:
        running.wait_for(NAME, state="needs_login")
        async with client(running, era, capabilities=capabilities) as peer:
            said = text(await peer.request("tools/call", call("/mcp")))
            assert f"mcpproxy upstream login {NAME}" in said
            assert "offered" not in said
        assert running.activities(tool="offer_login") == []
    assert site.counts["register"] == 0


@ERAS
async def test_over_stdio_a_login_is_offered_too(site: AuthServer, tmp_path: Path, era: str) -> None:
    with gateway(tmp_path / "data", configured(site)) as running:
        running.wait_for(NAME, state="needs_login")
        command = [sys.executable, "-m", "mcpproxy_py", "stdio", "--data-dir", str(running.data_dir)]
        async with connected(StdioLink(command, env=clean_environment()), era, logs_in) as peer:
            assert text(await peer.request("tools/call", call("/mcp"))) == "did look"


@ERAS
async def test_a_login_that_ended_is_offered_again_to_the_next_call(site: AuthServer, tmp_path: Path, era: str) -> None:
    """The call that finds out is refused: whether it may be sent again is not for the gateway to guess."""
    with gateway(tmp_path / "data", configured(site)) as running:
        running.wait_for(NAME, state="needs_login")
        async with client(running, era, logs_in) as peer:
            assert text(await peer.request("tools/call", call("/mcp"))) == "did look"
            site.forget_grants()
            assert "upstream login" in text(await peer.request("tools/call", call("/mcp", "change", "write")))
            await anyio.to_thread.run_sync(lambda: running.wait_for(NAME, state="needs_login"))
            assert text(await peer.request("tools/call", call("/mcp", "change", "write"))) == "did change"
            assert len(peer.asked) == 2
    assert site.calls["change"] == 1
    assert site.counts["register"] == 1


# One permission more, for one tool.


@pytest.mark.parametrize(("door", "era"), WAYS)
async def test_a_permission_more_is_offered_to_the_call_that_needs_it_and_the_call_goes_on(
    site: AuthServer, tmp_path: Path, door: str, era: str
) -> None:
    site.needs["change"] = "write"
    with gateway(tmp_path / "data", configured(site)) as running:
        running.wait_for(NAME, state="needs_login")
        async with client(running, era, logs_in, door) as peer:
            assert text(await peer.request("tools/call", call(door))) == "did look"
            assert text(await peer.request("tools/call", call(door, "change", "write"))) == "did change"
            (_, _), (_, asked) = peer.asked
            assert f"Server '{NAME}' wants one more permission before this call can go on: write." in asked["message"]
            if era == HANDSHAKE:
                await peer.hear("notifications/elicitation/complete", elicitationId=asked["elicitationId"])
            for tool, operation in (("change", "write"), ("look", "read")):
                assert text(await peer.request("tools/call", call(door, tool, operation))) == f"did {tool}"
            assert len(peer.asked) == 2
        assert [row["status"] for row in running.activities(tool="offer_login")] == ["success"] * 2
        assert {row["status"] for row in running.activities(tool="change")} == {"success"}
    scopes = [set(each.query["scope"].split()) for each in site.issuer.asked if each.path == "/authorize"]
    assert scopes == [{"read", "offline_access"}, {"read", "write", "offline_access"}]
    assert site.calls["change"] == 2


@ERAS
async def test_who_declines_a_permission_more_keeps_what_the_login_gave(
    site: AuthServer, tmp_path: Path, era: str
) -> None:
    site.needs["change"] = "write"

    async def no_more(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"action": "decline"} if "one more permission" in params["message"] else await logs_in(method, params)

    with gateway(tmp_path / "data", configured(site)) as running:
        running.wait_for(NAME, state="needs_login")
        async with client(running, era, no_more) as peer:
            assert text(await peer.request("tools/call", call("/mcp"))) == "did look"
            for _ in range(2):
                said = text(await peer.request("tools/call", call("/mcp", "change", "write")))
                assert "It was offered: the person declined" in said and f"mcpproxy upstream login {NAME}" in said
                assert text(await peer.request("tools/call", call("/mcp"))) == "did look"
            assert len(peer.asked) == 2
        assert running.get(f"/servers/{NAME}/login")["wanted_scope"] == "write"
        assert running.get(f"/servers/{NAME}")["server"]["state"] == "connected"
    assert site.calls["change"] == 0


@ERAS
async def test_a_client_that_opens_no_addresses_is_told_of_the_permission(
    site: AuthServer, tmp_path: Path, era: str
) -> None:
    site.needs["change"] = "write"
    with gateway(tmp_path / "data", configured(site)) as running:
        running.wait_for(NAME, state="needs_login")
        visit(running.post(f"/servers/{NAME}/login", {}).json()["authorization_url"])
        running.wait_for(NAME)
        async with client(running, era, capabilities={"elicitation": {"form": {}}}) as peer:
            said = text(await peer.request("tools/call", call("/mcp", "change", "write")))
            assert "one more permission (write)" in said and "offered" not in said
        assert running.activities(tool="offer_login") == []


@pytest.mark.proves("GATE-13")
@ERAS
async def test_a_freeze_during_the_offer_of_a_permission_refuses_the_call(
    site: AuthServer, tmp_path: Path, era: str
) -> None:
    site.needs["change"] = "write"

    async def freezes(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if "one more permission" in params["message"]:
            await anyio.to_thread.run_sync(running.post, "/freeze")
        return await logs_in(method, params)

    with gateway(tmp_path / "data", configured(site)) as running:
        running.wait_for(NAME, state="needs_login")
        async with client(running, era, freezes) as peer:
            assert text(await peer.request("tools/call", call("/mcp"))) == "did look"
            said = await peer.request("tools/call", call("/mcp", "change", "write"))
            assert said["isError"] and "frozen" in text(said), said
    assert site.calls["change"] == 0


async def test_a_login_at_one_gateway_lets_a_call_go_on_that_waits_at_another(site: AuthServer, tmp_path: Path) -> None:
    async def logs_in_there(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        def there() -> None:
            begun = two.post(f"/servers/{NAME}/login", {})
            visit(begun.json()["authorization_url"])
            two.wait_for(NAME)

        await anyio.to_thread.run_sync(there)
        return ACCEPT

    config = documented(mcpServers=site.config["mcpServers"])
    with own_server() as server, replicas(tmp_path, server.database(), config, wait=False) as (one, two):
        for each in (one, two):
            each.wait_for(NAME, state="needs_login")
        link = HttpLink(one.mcp, token=TOKEN)
        async with connected(link, HANDSHAKE, logs_in_there) as peer:
            assert text(await peer.request("tools/call", call("/mcp"))) == "did look"
