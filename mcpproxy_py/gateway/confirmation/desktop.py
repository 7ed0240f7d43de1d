"""A notification on this machine's desktop when a call waits for a person, where a setting asks for it.

It says at which server, whose name the operator chose, and where to look; nothing that an agent or a server said. It is
handed over as an argument, never to a shell or as a part of a script.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from asyncio.subprocess import DEVNULL
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from mcpproxy_py.gateway.confirmation.waiting_call import WaitingCall

log = logging.getLogger(__name__)

TITLE: Final = "A call waits for your yes"
SCRIPT: Final = ("on run argv", "display notification (item 1 of argv) with title (item 2 of argv)", "end run")
QUIET: Final = 5.0
"""Seconds between two of them: a desktop is no place for a hundred."""
PATIENCE: Final = 10.0


class DesktopNotices:
    def __init__(self, wanted: Callable[[], bool]) -> None:
        """`wanted`: what the setting says at the moment."""
        self._wanted = wanted
        self._waiting = 0
        self._task: asyncio.Task[None] | None = None

    def notice(self, call: WaitingCall) -> None:
        if not self._wanted():
            return
        self._waiting += 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._show(call.server))

    async def _show(self, server: str) -> None:
        while self._waiting:
            count, self._waiting = self._waiting, 0
            where = f"At the server {server}." if count == 1 else f"{count} calls wait."
            await _run(command(f"{where} See: mcpproxy approvals list"))
            await asyncio.sleep(QUIET)


def command(text: str) -> Sequence[str] | None:
    """What shows it here, if anything does. Some desktops read marks in it, so none are left."""
    plain = "".join(char for char in text if char.isprintable() and char not in "<>&")
    if (program := shutil.which("notify-send")) is not None:
        return [program, "--app-name=mcpproxy", "--", TITLE, plain]
    if (program := shutil.which("osascript")) is not None:
        return [program, *(part for line in SCRIPT for part in ("-e", line)), plain, TITLE]
    return None


async def _run(words: Sequence[str] | None) -> None:
    if words is None:
        return log.warning("notify_desktop is set, and there is neither notify-send nor osascript here")
    try:
        process = await asyncio.create_subprocess_exec(*words, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL)
        try:
            async with asyncio.timeout(PATIENCE):
                status = await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            status = "no end"
        if status != 0:
            log.warning("%s did not show a notification: %s", words[0], status)
    except OSError as error:
        log.warning("cannot show a notification: %s", error)
