"""What a client wants to hear of, and what it says of itself, at a passthrough surface."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway import Running, gateway, python_server, until
from tests.support.wire import HANDSHAKE, Wire, text
from tests.upstream.helpers import web_server

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


@pytest.mark.proves("SURF-3", "SURF-7")
def test_a_client_is_sent_away_and_comes_back_as_the_server_wants_it(tmp_path: Path) -> None:
    with web_server("asks.py", "--http", "0") as origin:
        config = {"surfaces": ["passthrough"], "mcpServers": {"s": {"url": f"{origin}/mcp"}}}
        with gateway(tmp_path / "data", config) as running:
            client = Wire(f"{running.mcp}/s/s", HANDSHAKE)
            params = {"name": "broken_off", "arguments": {"method": "ping", "retry": 30_000}}
            answer = client.post({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
            lines = answer.text.splitlines()
            assert [line for line in lines if line.startswith("data: {")] == [], "it ends without the answer"
            assert "retry: 30000" in lines, "the server's own pause"
            last = [line for line in lines if line.startswith("id: ")][-1].removeprefix("id: ")
            back = {**client.headers, "accept": "text/event-stream", "last-event-id": last}
            with client.http.stream("GET", client.url, headers=back) as rest:
                said = next(line for line in rest.iter_lines() if line.startswith("data: {"))
            assert json.loads(said[6:])["id"] == 7
            assert "result" in json.loads(said[6:])
