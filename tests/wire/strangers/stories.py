"""The Python SDK's stories: small servers, each with a client that checks itself, straight and through passthrough.

A story's client names the tools of its server, so there is none for the gate and the direct surface, where tools have
other names. Stories that log in belong to no cell here: they bake in a port and an authorization server. A
story on a pipe is compared with the same over HTTP: its client starts a server only where the stories are installed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from tests.support.gateway import gateway
from tests.support.ports import kept_port
from tests.wire.foreign import stories
from tests.wire.strangers.matrix import Cell
from tests.wire.through import served

FLAGS: Final = {"session-based": ("--legacy",), "stateless": ()}
ERAS: Final = {"dual": ("session-based", "stateless"), "legacy": ("session-based",), "modern": ("stateless",),
               "dual-in-body": ("stateless",)}  # fmt: skip
"""Which clients a story has, by what its manifest calls its era."""
CLIENT_TIMEOUT: Final = 90
IN_MEMORY: Final = ["in-memory"]
AT_A_TIME: Final = 4


def told() -> dict[str, dict[str, Any]]:
    """The stories that have a client and do not log in, with what the manifest says of each."""
    manifest = tomllib.loads((stories() / "stories" / "manifest.toml").read_text())
    all_of_them = {name: {**manifest["defaults"], **said} for name, said in manifest["story"].items()}
    return {name: said for name, said in all_of_them.items()
            if not said["fixed_port"] and said["transports"] != IN_MEMORY}  # fmt: skip


@contextlib.contextmanager
def story_server(name: str, said: Mapping[str, Any]) -> Iterator[str]:
    with kept_port() as port:
        http = ["--http"] if said["server_export"] == "factory" else []
        command = [sys.executable, "-m", f"stories.{name}.server", *http, "--port", str(port)]
        with served(command, f"http://127.0.0.1:{port}{said['mcp_path']}", cwd=stories()) as url:
            yield url


def ran(name: str, *flags: str) -> str:
    """What the story's client says: OK, or its last words."""
    command = [sys.executable, "-m", f"stories.{name}.client", *flags]
    try:
        found = subprocess.run(
            command, cwd=stories(), capture_output=True, text=True, timeout=CLIENT_TIMEOUT, env={**os.environ}
        )
    except subprocess.TimeoutExpired:
        return f"no end within {CLIENT_TIMEOUT} s"
    if found.returncode == 0:
        return "OK"
    lines = [line.strip(" |+-") for line in found.stderr.splitlines() if line.strip(" |+-")]
    return next((line for line in reversed(lines) if "Error" in line or "Exception" in line), lines[-1])[:200]


def cells(chosen: tuple[str, ...]) -> list[Cell]:
    """Of the stories whose name, with `story` before it, begins so."""
    with contextlib.ExitStack() as stack:
        known = {name: said for name, said in told().items() if f"story {name}".startswith(chosen)}
        if not known:
            return []
        pool = stack.enter_context(ThreadPoolExecutor(AT_A_TIME))
        started = pool.map(lambda each: stack.enter_context(story_server(*each)), known.items())
        urls = dict(zip(known, started, strict=True))
        servers: dict[str, Any] = {f"{name}-http": {"url": url} for name, url in urls.items()}
        on_pipes = [name for name, said in known.items() if said["server_export"] == "factory"
                    and "session-based" in ERAS[said["era"]]]  # fmt: skip
        for name in on_pipes:
            servers[f"{name}-stdio"] = {
                "command": sys.executable, "args": ["-m", f"stories.{name}.server"], "cwd": str(stories()),
            }  # fmt: skip
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        config = {"surfaces": ["gate", "passthrough"], "mcpServers": servers}
        running = stack.enter_context(gateway(folder / "data", config))
        running.wait_for(*servers)
        over_http = [(f"{name}-http", client) for name, said in known.items() for client in ERAS[said["era"]]]
        rows = [*over_http, *((f"{name}-stdio", "session-based") for name in on_pipes)]
        return list(pool.map(lambda row: _cell(running.mcp, *row), rows))


def _cell(gateway_url: str, server: str, client: str) -> Cell:
    """The story straight at a server of its own, since some change their server for good, and through the gateway."""
    name = server.rpartition("-")[0]
    with story_server(name, told()[name]) as url:
        straight = ran(name, "--http", url, *FLAGS[client])
    through = ran(name, "--http", f"{gateway_url}/s/{server}", *FLAGS[client])
    cell = Cell(f"story {server}", client, "passthrough", "story", straight, through)
    print("equal     " if cell.equal else "differs   ", cell, "" if straight == "OK" else f"({straight})", flush=True)
    return cell
