"""A real gateway in a process of its own, for the tests that look at it from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

READY_TIMEOUT = 60.0
"""Generous: the machine runs many tests at once, and nobody waits longer than it takes."""

SERVERS = Path(__file__).parents[1] / "servers"


def until(condition: Callable[[], Any], timeout: float = READY_TIMEOUT, what: str = "condition") -> Any:
    """Poll until something true comes back, and give it; fail when it takes too long."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come true in {timeout} s")


def python_server(script: str, *args: str, **extra: Any) -> dict[str, Any]:
    """The configuration of one of `tests/servers/`."""
    return {"command": sys.executable, "args": [str(SERVERS / script), *args], **extra}


def clean_environment(**extra: str) -> dict[str, str]:
    """This process's environment without what would configure a gateway, or keep it from having its bytecode like an
    installed one: compiling takes longer than the rest of a start."""
    left_out = ("MCPPROXY_", "OTEL_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {**kept, **extra}


@dataclass
class Running:
    """A gateway that is up."""

    process: subprocess.Popen[bytes]
    data_dir: Path
    url: str
    log: Path
    key: str
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = httpx.Client(base_url=self.url, headers={"X-API-Key": self.key}, timeout=60, trust_env=False)

    @property
    def mcp(self) -> str:
        return f"{self.url}/mcp"

    def get(self, path: str, **params: Any) -> Any:
        answer = self.client.get(f"/api/v1{path}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None) -> httpx.Response:
        return self.client.post(f"/api/v1{path}", json=body)

    def activities(self, **filters: Any) -> list[dict[str, Any]]:
        self.catch_up()
        return self.get("/activity", **{"limit": 500, **filters})["activities"]

    def approve_pins(self, server: str) -> None:
        """All that waits of what this server lists, as a person who works on it would."""
        while (pin := self.get(f"/pins/{server}"))["waiting"]:
            answer = self.post(f"/pins/{server}/approve", {"seen": pin["seen"]})
            assert answer.status_code in (200, 409), answer.text

    def catch_up(self) -> None:
        """Until the database has all that was answered. A reader waits two seconds for that, and then reads what there
        is; the process that writes it may have to wait longer than that for its turn."""

        def there() -> bool:
            self.get("/activity", limit=1)  # where somebody reads, it makes haste
            return self.get("/status")["store"]["lag_bytes"] == 0

        until(there, what="the database to catch up")

    def wait_for(self, *servers: str, state: str = "connected") -> None:
        """Until these servers are in this state."""

        def there() -> bool:
            states = {row["name"]: row["state"] for row in self.get("/servers")["servers"]}
            return all(states.get(name) == state for name in servers)

        until(there, what=f"{servers} {state}")

    def stderr(self) -> str:
        return self.log.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(READY_TIMEOUT)

    def stop(self) -> int:
        """A polite end; its exit status."""
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(READY_TIMEOUT)


def start(
    data_dir: Path, config: Mapping[str, Any] | None = None, *, env: Mapping[str, str] | None = None, wait: bool = True,
    program: Sequence[str] = ("-m", "mcpproxy_py"), python: str = sys.executable, cwd: Path | None = None,
    port: int = 0,
) -> Running:  # fmt: skip
    """Start a gateway on this data directory, on a port of its own, and wait until it answers."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if config is not None:
        (data_dir / "mcp_config.json").write_text(json.dumps(config))
    log = data_dir.parent / f"{data_dir.name}.stderr"
    with log.open("ab") as stderr:
        process = subprocess.Popen(
            [python, *program, "serve", "--data-dir", str(data_dir), "--listen", f"127.0.0.1:{port}"],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
            env=clean_environment(**(env or {})),
        )
    where = data_dir / "gateway.json"

    def announced() -> dict[str, Any] | None:
        assert process.poll() is None, f"the gateway ended with {process.returncode}:\n{log.read_text()}"
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(where.read_text())
            return found if found["pid"] == process.pid else None
        return None

    try:
        found = until(announced, READY_TIMEOUT, "the gateway's announcement")
    except BaseException:
        process.kill()
        process.wait()
        raise
    key = (env or {}).get("MCPPROXY_API_KEY") or (data_dir / "admin.key").read_text().strip()
    running = Running(process, data_dir, found["url"], log, key)
    try:
        if wait and config is not None:
            lively = [name for name, entry in config.get("mcpServers", {}).items() if entry.get("enabled", True)]
            running.wait_for(*(name for name in lively if not config["mcpServers"][name].get("lazy")))
    except BaseException:
        running.stop()
        raise
    return running


@contextlib.contextmanager
def gateway(data_dir: Path, config: Mapping[str, Any] | None = None, **options: Any) -> Iterator[Running]:
    """A gateway for the length of a `with` block."""
    running = start(data_dir, config, **options)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.send_signal(signal.SIGTERM)
            try:
                running.process.wait(READY_TIMEOUT)
            except subprocess.TimeoutExpired:
                running.kill()
                raise
