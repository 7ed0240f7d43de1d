"""The official scenarios of tasks at the direct surface, whose tools have their server's name in front (SURF-10)."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.everything import over_http
from tests.support.gateway import gateway
from tests.wire.suite import Outcome, run_scenario

PREFIX = "everything__"
SCENARIOS = (
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-mrtr-composition",
)
"""All but `tasks-required-task-error`, since a client without the extension gets the result here, and
`tasks-status-notifications`, which is optional and not served."""
HEADERS = ("content-type", "accept", "mcp-protocol-version", "mcp-method", "mcp-session-id")


class Renaming(BaseHTTPRequestHandler):
    """Puts the server's name before those of tools, and takes it off again."""

    protocol_version = "HTTP/1.1"
    server: Names

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name: value for name in HEADERS if (value := self.headers.get(name)) is not None}
        name = self.headers.get("mcp-name")
        with contextlib.suppress(ValueError):
            message = json.loads(body)
            if isinstance(message, dict) and message.get("method") == "tools/call":
                message["params"]["name"] = PREFIX + message["params"]["name"]
                name = name and PREFIX + name
                body = json.dumps(message).encode()
        if name is not None:
            headers["mcp-name"] = name
        with (
            contextlib.suppress(OSError),
            self.server.client.stream("POST", self.server.url, content=body, headers=headers) as answer,
        ):
            self.send_response(answer.status_code)
            for key in ("content-type", "mcp-session-id", "allow"):
                if key in answer.headers:
                    self.send_header(key, answer.headers[key])
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            for chunk in answer.iter_bytes():
                self.wfile.write(chunk.replace(PREFIX.encode(), b""))
                self.wfile.flush()

    def do_GET(self) -> None:
        self.send_response(405)
        self.send_header("content-length", "0")
        self.end_headers()

    do_DELETE = do_GET


class Names(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), Renaming)
        self.url = url
        self.client = httpx.Client(timeout=60, trust_env=False)

    def handle_error(self, request: Any, client_address: Any) -> None:
        return


@pytest.fixture(scope="module")
def directly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("directly")
    with over_http() as upstream:
        config = {"surfaces": ["direct"], "mcpServers": {"everything": {"url": upstream}}}
        with gateway(folder / "data", config) as running:
            names = Names(f"{running.mcp}/direct")
            threading.Thread(target=names.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{names.server_address[1]}/mcp"
            names.shutdown()


@pytest.mark.proves("SURF-10")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_an_official_scenario_of_tasks_passes_directly(directly: str, scenario: str, tmp_path: Path) -> None:
    found: Outcome = run_scenario(directly, scenario, tmp_path)
    assert found.passed, "something was checked"
    assert found.failed == ()
