"""Servers that are not of this repository, at pinned versions, on ports of their own.

The Python SDK's server for the conformance suite is not published, but it is in the SDK's source distribution. The npm
package is the reference server that people try MCP with; it has none of the suite's tools, and still a wire.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.support.node import CACHE, alone, environment, lacking, node, packages
from tests.support.ports import kept_port
from tests.wire.through import served

SDIST: Final = (
    "https://files.pythonhosted.org/packages/9d/8d/e0d339616f4810e9051d4aba6887afab289ab1f81875fe908b606cdfd0e3/"
    "mcp-2.3.0.tar.gz"
)
SHA256: Final = "8b147a50441cf059dc88c684e0aeed3687f0aa0f39c6cde7b90330effd2b34d8"
WITHIN: Final = "mcp-2.3.0/examples/servers/everything-server/"
STORIES: Final = "mcp-2.3.0/examples/stories/"
FETCH_TIMEOUT: Final = 60
INSTALL_TIMEOUT: Final = 600


@contextlib.contextmanager
def python_sdk() -> Iterator[str]:
    """Its address. It knows both eras, and asks its clients in both."""
    with kept_port() as port:
        command = [sys.executable, "-m", "mcp_everything_server", "--port", str(port)]
        with served(command, f"http://127.0.0.1:{port}/mcp", cwd=python_server_folder()) as url:
            yield url


@contextlib.contextmanager
def npm_everything() -> Iterator[str]:
    """Its address. It knows the handshake era only."""
    with kept_port() as port:
        env = {**environment(), "PORT": str(port)}
        with served([node(), str(_launcher()), "streamableHttp"], f"http://127.0.0.1:{port}/mcp", env=env) as url:
            yield url


def npm_everything_on_a_pipe() -> dict[str, Any]:
    """The configuration of one that the gateway starts itself."""
    return {"command": node(), "args": [str(_launcher()), "stdio"]}


@functools.cache
def python_with(project: Path) -> str:
    """The Python of an environment with what `requirements.txt` locks by hash there, made once for all workers."""
    lock_file = project / "requirements.txt"
    target = CACHE.parent / "pypi" / hashlib.sha256(lock_file.read_bytes() + sys.version.encode()).hexdigest()[:16]
    python, done = target / "venv" / "bin" / "python", target / "installed"
    with alone(target):
        if not done.exists():
            install = [str(python), "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(lock_file)]
            for command in ([sys.executable, "-m", "venv", "--clear", str(target / "venv")], install):
                _run(command)
            done.touch()
    return str(python)


def _run(command: list[str]) -> None:
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT)
    except subprocess.TimeoutExpired:
        lacking(f"{' '.join(command[1:4])} took longer than {INSTALL_TIMEOUT} s")
    if found.returncode:
        lacking(f"{' '.join(command[1:4])} failed: {found.stderr[-500:]}")


def python_server_folder() -> Path:
    """The folder from which the Python SDK's server for the conformance suite is imported."""
    return _unpacked()


def stories() -> Path:
    """The folder from which the Python SDK's example package `stories` is imported."""
    return _unpacked(STORIES).parent


def _launcher() -> Path:
    return packages(Path(__file__).parent / "npm") / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"


def _unpacked(folder: str = WITHIN) -> Path:
    """Where a folder of the source distribution is; fetched once for all workers."""
    target = CACHE.parent / "pypi" / SHA256[:16]
    with alone(target):
        if not (target / "examples").exists():
            _unpack(_fetched(), target)
            (target / "examples").touch()
    return target / folder


def _fetched() -> bytes:
    try:
        with urllib.request.urlopen(SDIST, timeout=FETCH_TIMEOUT) as response:
            data: bytes = response.read()
    except OSError as error:
        lacking(f"the Python SDK's source distribution could not be fetched: {error}")
    assert hashlib.sha256(data).hexdigest() == SHA256, "this is not the file that was pinned"
    return data


def _unpack(data: bytes, target: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        files = [member for member in archive.getmembers() if member.isfile()]
        wanted = [member for member in files if member.name.startswith((WITHIN, STORIES))]
        for member in wanted:
            file = archive.extractfile(member)
            assert file is not None
            path = target / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.read())
