"""Every snapshot, taken from the real command on a terminal, against a real gateway with the fixed record."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import httpx

from tests.cli.snapshots.fixture import ZONE, recorded_gateway
from tests.cli.snapshots.screen import screen
from tests.cli.snapshots.terminal import run
from tests.support.gateway import Running, clean_environment, until
from tests.support.wire import RpcError, Wire

FOLDER: Final = Path(__file__).parent
WIDTHS: Final = (60, 80, 120)
PROGRAM: Final = ("-m", "tests.cli.snapshots.pinned")
COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "activity-list": ("activity", "list"),
    "activity-summary": ("activity", "summary", "--since", "today"),
    "upstream-list": ("upstream", "list"),
    "tools-list": ("tools", "list", "--server", "github"),
    "status": ("status",),
    "doctor": ("doctor",),
}
WATCH: Final = "activity-watch"
ASKS: Final = 2
"""That come while it is watched."""
FILES: Final = tuple(f"{name}.{width}.txt" for name in (*COMMANDS, WATCH) for width in WIDTHS)


def taken(widths: tuple[int, ...] = WIDTHS) -> dict[str, str]:
    """What stands on the terminal, by the name of the file."""
    with tempfile.TemporaryDirectory(prefix="mcpproxy-snapshots-") as folder:
        data_dir = Path(folder) / "data"
        with recorded_gateway(data_dir) as running:
            environment = environment_of(data_dir)
            found: dict[str, str] = {}
            with ThreadPoolExecutor(2) as pool:
                jobs = {
                    file_name(name, width): pool.submit(run, words, width, environment, PROGRAM)
                    for name, words in COMMANDS.items()
                    for width in widths
                }
                found = {name: screen(job.result()) for name, job in jobs.items()}
            ask_without_end(running)  # after the others: what is asked from here on is on record too
            found |= {file_name(WATCH, width): watched(running, width, environment) for width in widths}
            running.kill()
            return found


def environment_of(data_dir: Path, **more: str) -> dict[str, str]:
    return clean_environment(
        MCPPROXY_DATA_DIR=str(data_dir),
        TZ=ZONE,
        PYTHONUTF8="1",
        NO_COLOR="1",
        TERM="xterm-256color",
        COLUMNS="",
        **more,
    )


def file_name(name: str, width: int) -> str:
    return f"{name}.{width}.txt"


def watched(running: Running, width: int, environment: Mapping[str, str]) -> str:
    """One ask is under way when the watch begins; one that runs and one that is refused come while it watches."""
    wire, shown = Wire(running.mcp, name="claude-code"), ""

    def seen(written: str) -> bool:
        """Whether it shows all of it. Called again and again."""
        nonlocal shown
        lines = screen(written).splitlines()
        if not lines[-1].startswith("1 under way"):
            return False
        if not shown:
            wire.read("github:echo", {"text": "x"}, intent=_intent("say it once more"))
            with contextlib.suppress(RpcError):
                wire.read("github:delete_note", {"text": "all of it"}, intent=_intent("tidy up"))
        shown = "\n".join(lines) + "\n"
        return len(lines) == ASKS + 1

    run(("activity", "watch"), width, {**environment, "MCPPROXY_SNAPSHOT": "live"}, PROGRAM, seen)
    return shown


def _intent(reason: str) -> dict[str, str]:
    return {"operation_type": "read", "reason": reason}


def ask_without_end(running: Running) -> None:
    """An ask that is under way until the gateway ends."""
    wire = Wire(running.mcp, name="claude-code")

    def ask() -> None:
        with contextlib.suppress(httpx.HTTPError, RpcError):
            wire.read("github:never", {})

    threading.Thread(target=ask, daemon=True).start()
    until(lambda: running.get("/activity", status="pending")["activities"], what="an ask that is under way")
