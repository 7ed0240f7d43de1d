"""Servers that are not of this repository, at pinned versions, on ports of their own.

The Python SDK's server for the conformance suite is not published, but it is in the SDK's source distribution. The npm
package is the reference server that people try MCP with; it has none of the suite's tools, and still a wire.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
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
FETCH_TIMEOUT: Final = 60


@contextlib.contextmanager
def python_sdk() -> Iterator[str]:
    """Its address. It knows both eras, and asks its clients in both."""
    with kept_port() as port:
        command = [sys.executable, "-m", "mcp_everything_server", "--port", str(port)]
        with served(command, f"http://127.0.0.1:{port}/mcp", cwd=_unpacked()) as url:
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


def _launcher() -> Path:
    return packages(Path(__file__).parent / "npm") / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"


def _unpacked() -> Path:
    """Where its package can be imported from; fetched once for all workers."""
    target = CACHE.parent / "pypi" / SHA256[:16]
    with alone(target):
        if not (target / "fetched").exists():
            _unpack(_fetched(), target)
            (target / "fetched").touch()
    return target / WITHIN


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
        wanted = [member for member in archive.getmembers() if member.isfile() and member.name.startswith(WITHIN)]
        for member in wanted:
            file = archive.extractfile(member)
            assert file is not None
            path = target / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.read())
