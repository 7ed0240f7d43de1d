"""What a client wants to hear of, and what it says of itself, at a passthrough surface."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.gateway import Running, gateway, python_server, until
from tests.support.wire import HANDSHAKE, Wire, text

ABOUT = {"uri": "note://1"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    servers = {"s": python_server("asks.py", sessions="per_client")}
    with gateway(
        tmp_path_factory.mktemp("news") / "data", {"surfaces": ["passthrough"], "mcpServers": servers}
    ) as found:
        yield found


@pytest.mark.proves("ACT-1", "SURF-3")
def test_watching_a_resource_and_leaving_it_are_on_record_for_every_client(running: Running) -> None:
    ann, bob = (Wire(f"{running.mcp}/s/s", HANDSHAKE, name=name) for name in ("ann", "bob"))
    for client in (ann, bob):
        assert client.request("resources/subscribe", ABOUT) == {}
    assert ann.request("resources/unsubscribe", ABOUT) == {}
    rows = [row for row in running.activities(server="s") if row["tool"] == ABOUT["uri"]]
    seen = sorted((row["client"]["name"], row["metadata"]["method"], row["status"]) for row in rows)
    assert seen == [
        ("ann", "resources/subscribe", "success"),
        ("ann", "resources/unsubscribe", "success"),
        ("bob", "resources/subscribe", "success"),
    ]


@pytest.mark.proves("UP-5")
def test_a_client_that_says_its_roots_changed_is_heard_by_the_server_in_its_own_session(running: Running) -> None:
    ann, bob = (Wire(f"{running.mcp}/s/s", HANDSHAKE, name=name) for name in ("ann", "bob"))

    def told(client: Wire) -> int:
        result = client.request("tools/call", {"name": "whoami", "arguments": {}})
        return json.loads(text(result))["asked"].get("notifications/roots/list_changed", 0)

    assert (told(ann), told(bob)) == (0, 0)
    said = ann.post({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
    assert said.status_code == 202
    until(lambda: told(ann) == 1)
    assert told(bob) == 0
