"""A small real HTTP server that speaks the shapes of the REST interface, and ways to run the command against it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from typer.testing import CliRunner

from mcpproxy_py.cli.main import app
from mcpproxy_py.core.protocol.admin_key_proof import proof
from tests.support.threaded import threaded

KEY = "mcpk_" + "t" * 43


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class FakeGateway:
    """Answers what a test told it to answer, and remembers what it was asked."""

    url: str = ""
    key: str = KEY
    answers: dict[tuple[str, str], list[tuple[int, Any]]] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    proofs: int = 0
    hang_up_after_each: bool = False
    hang_up_after_proofs: bool = False

    def answer(self, method: str, path: str, *bodies: Any, status: int = 200) -> None:
        """The bodies to give one after the other; the last one again and again."""
        self.answers[method, f"/api/v1{path}"] = [(status, body) for body in bodies]

    def refuse(self, method: str, path: str, status: int, code: str, message: str, **details: Any) -> None:
        error = {"code": code, "message": message, "hint": "the hint", "details": details}
        self.answer(method, path, {"error": error}, status=status)

    def next_answer(self, seen: Seen) -> tuple[int, Any]:
        if seen.headers.get("x-api-key") != self.key:
            return 401, {"error": {"code": "UNAUTHORIZED", "message": "no key", "hint": "", "details": {}}}
        waiting = self.answers.get((seen.method, seen.path))
        if waiting is None:
            return 404, {"error": {"code": "NOT_FOUND", "message": f"no {seen.path}", "hint": "", "details": {}}}
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]


def _handler(gateway: FakeGateway) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # the key goes over the connection on which it was proved

        def _serve(self) -> None:
            split = urlsplit(self.path)
            if split.path == "/api/v1/proof":
                self._prove(parse_qs(split.query)["nonce"][0])
                return
            size = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            query = {key: values[0] for key, values in parse_qs(split.query).items()}
            headers = {key.lower(): value for key, value in self.headers.items()}
            seen = Seen(self.command, unquote(split.path), query, headers, body)
            gateway.seen.append(seen)
            status, answer = gateway.next_answer(seen)
            self.close_connection = (
                self.close_connection or gateway.hang_up_after_each or answer in ("hang up", "cut short")
            )
            if answer == "hang up":
                return
            if answer == "cut short":
                self._send(status, b"half", claimed=1000)
                return
            self._send(status, answer if isinstance(answer, bytes) else json.dumps(answer).encode())

        def _prove(self, nonce: str) -> None:
            gateway.proofs += 1
            self.close_connection = self.close_connection or gateway.hang_up_after_proofs
            port = self.server.server_address[1]  # type: ignore[index]
            shape = {"nonce": "0" * 32, "port": port, "proof": proof(gateway.key, nonce, "0" * 32, port)}
            self._send(200, json.dumps(shape).encode())

        def _send(self, status: int, data: bytes, claimed: int | None = None) -> None:
            with suppress(ConnectionError):  # some tests hang up
                self.send_response(status)
                self.send_header("Content-Length", str(claimed or len(data)))
                if self.close_connection:  # said, so that no client writes to a connection that is just ending
                    self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _serve

        def log_message(self, format: str, *args: Any) -> None: ...

    return Handler


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    fake = FakeGateway()
    with threaded(_handler(fake)) as where:
        fake.url = f"http://{where}"
        yield fake


@pytest.fixture
def data_dir(tmp_path: Path, gateway: FakeGateway) -> Path:
    """A data directory as the running gateway leaves it."""
    path = tmp_path / "data"
    path.mkdir(mode=0o700)
    (path / "admin.key").write_text(KEY + "\n")
    (path / "admin.key").chmod(0o600)
    announcement = {"pid": os.getpid(), "url": gateway.url, "socket": "", "version": "0"}
    (path / "gateway.json").write_text(json.dumps(announcement))
    return path


@dataclass
class Ran:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def clean_env(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("MCPPROXY_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def run(data_dir: Path, clean_env: None) -> Run:
    """The command in this process: fast, and with everything but its own process."""

    def invoke(*args: str, stdin: str | None = None, env: dict[str, str] | None = None) -> Ran:
        result = CliRunner().invoke(
            app, list(args), input=stdin, env={"MCPPROXY_DATA_DIR": str(data_dir), **(env or {})}
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return invoke


@pytest.fixture
def command(data_dir: Path, clean_env: None) -> Callable[..., Any]:
    """The real command, as a process that was started and not waited for."""

    def start(*args: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        environment = {**os.environ, "MCPPROXY_DATA_DIR": str(data_dir), **(env or {})}
        return subprocess.Popen([sys.executable, "-m", "mcpproxy_py", *args], env=environment, **pipes)

    return start
