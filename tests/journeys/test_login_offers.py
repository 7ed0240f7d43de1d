"""A client that opens addresses is offered the login that a server needs, and its call goes on after it (UP-9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.support.authserver import AuthServer, auth_server
from tests.support.browser import visit
from tests.support.gateway import Running
from tests.support.gateway import gateway as started
from tests.support.links import HttpLink
from tests.support.peer import Answer, Message, connected, silent
from tests.support.wire import HANDSHAKE, MODERN, text

pytestmark = [pytest.mark.anyio, pytest.mark.proves("UP-9")]

NAME = "guarded"
ERAS = pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
DOORS = pytest.mark.parametrize("door", ["/mcp", "/mcp/direct", f"/mcp/s/{NAME}"])
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


@ERAS
@DOORS
async def test_the_call_goes_on_after_the_login_that_it_needed(
    site: AuthServer, tmp_path: Path, era: str, door: str
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
    assert site.counts["authorize"] == site.counts["register"] == 1
