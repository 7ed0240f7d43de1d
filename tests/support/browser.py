"""A browser that says yes to everything: `python -m tests.support.browser ADDRESS`. It goes where it is sent, and with
`MCPPROXY_TEST_ENDED_AT` it writes into that file where it ended instead of going to this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from urllib.parse import urljoin

import httpx

MOST = 10


def visit(address: str, *, goes_home: bool = True) -> str:
    """Where it ended."""
    with httpx.Client(trust_env=False, timeout=60) as client:
        for _ in range(MOST):
            if not goes_home and "/callback?" in address:
                return address
            answer = client.get(address, headers={"accept": "text/html"})
            if answer.status_code not in (301, 302, 303, 307):
                return address
            address = urljoin(address, answer.headers["location"])
    raise AssertionError("sent around in circles")


if __name__ == "__main__":
    note = os.environ.get("MCPPROXY_TEST_ENDED_AT")
    ended = visit(sys.argv[-1], goes_home=note is None)
    if note is not None:
        Path(note).write_text(ended)
