"""Other proxies to measure beside, each in a virtual environment of its own: they need other versions than we do."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from tests.bench.measure import RESULTS

PEERS: dict[str, tuple[str, ...]] = {
    "fastmcp": ("fastmcp==4.1.2", "uvloop", "httptools"),
    "mcp-proxy": ("mcp-proxy==0.13.0", "mcp<2", "uvloop", "httptools"),
    "granian": ("granian==2.8.7", "uvloop"),
}
"""What is installed for each; uvloop and httptools because uvicorn is faster with them, and so would be ours."""


def program(peer: str, name: str) -> str:
    """The path of a program in this peer's environment, which is made the first time."""
    wanted = PEERS[peer]
    home = RESULTS / "peers" / peer
    note = home / "installed.txt"
    if not note.exists() or note.read_text() != "\n".join(wanted):
        print(f"installing {' '.join(wanted)} into {home}", file=sys.stderr)
        venv.create(home, clear=True, with_pip=True)
        subprocess.run([home / "bin" / "pip", "install", "--quiet", *wanted], check=True)
        note.write_text("\n".join(wanted))
    return str(home / "bin" / name)


FASTMCP = str(Path(__file__).parent / "fastmcp_proxy.py")
