"""Any server, directly and behind a passthrough surface: `python -m tests.wire.through URL`.

The official suite runs at both, and what passes directly and not through the gateway is printed, check by check.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.support.gateway import gateway, until
from tests.wire.suite import REVISIONS, Report, failures, lost, run

START_TIMEOUT = 180.0


@contextlib.contextmanager
def served(command: list[str], url: str, **options: Any) -> Iterator[str]:
    """A server of somebody else's, started for the length of the block, once something answers at its address."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        until(lambda: process.poll() is not None or _answers(url), START_TIMEOUT, f"an answer at {url}")
        assert process.poll() is None, f"{command[0]} ended with {process.returncode}"
        yield url
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        httpx.get(url, trust_env=False, timeout=5)
    except httpx.ReadTimeout:
        return True  # it took the request, and sends the head with the first event
    except httpx.TransportError:
        return False
    return True


@contextlib.contextmanager
def behind(where: Path, entry: Mapping[str, Any], *surfaces: str) -> Iterator[str]:
    """The address of a passthrough surface in front of an upstream."""
    servers = {"behind": {**entry}}
    config = {"surfaces": ["gate", "passthrough", *surfaces], "limits": {"input_timeout": 20}, "mcpServers": servers}
    with gateway(where / "data", config) as running:
        yield f"{running.mcp}/s/behind"


def compared(url: str, entry: Mapping[str, Any], revision: str, where: Path) -> tuple[Report, Report]:
    """What the suite says of a server directly, and of the same server behind a gateway of its own."""
    direct = run(url, revision, where / f"direct-{revision}")
    with behind(where / revision, entry) as through:
        return direct, run(through, revision, where / f"through-{revision}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.wire.through", description=__doc__)
    parser.add_argument("url", help="where the server answers over streamable HTTP")
    parser.add_argument("--start", metavar="COMMAND", help="starts that server, which ends with the run")
    parser.add_argument("--stdio", metavar="COMMAND", help="the same server on a pipe, to be put behind the gateway")
    parser.add_argument("--revision", action="append", choices=REVISIONS, help="a set of requirements; all if not told")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        where = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if given.start:
            stack.enter_context(served(shlex.split(given.start), given.url))
        wanted = given.revision or REVISIONS
        return max(_shown(revision, *compared(given.url, _entry(given), revision, where)) for revision in wanted)


def _entry(given: argparse.Namespace) -> Mapping[str, Any]:
    if not given.stdio:
        return {"url": given.url}
    command, *args = shlex.split(given.stdio)
    return {"command": command, "args": args}


def _shown(revision: str, direct: Report, through: Report) -> int:
    """Exit status 1 where something is lost."""
    print(f"{revision}: {_passed(direct)} directly, {_passed(through)} through the gateway, of {len(direct)} scenarios")
    missing = lost(direct, through)
    for scenario, lines in missing.items():
        print(*(f"  {scenario}: {line}" for line in lines), sep="\n")
    return 1 if missing else 0


def _passed(report: Report) -> int:
    return len(report) - len(failures(report))


if __name__ == "__main__":
    sys.exit(main())
