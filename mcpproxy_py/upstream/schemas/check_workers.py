"""The gateway's side of `check_program`: which process holds which arguments against which schema, for how long, and
what is said where none can.

Each server has a process of its own, started when one is needed and ended when it has not been for a while. So a server
whose schema takes all the time there is keeps only its own tools waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

from pydantic_core import to_json

from mcpproxy_py.core.pending_checks import CheckVerdict, PendingCheck
from mcpproxy_py.upstream.schemas import check_program

log = logging.getLogger(__name__)

PATIENCE: Final = 10.0
"""Seconds by the clock for what may take half of one of processor time."""
WAITING: Final = 16
"""Checks of one server that wait for its process, and of all servers that wait for a place."""
PROCESSES: Final = 4
IDLE: Final = 30.0
MOST_VALUES: Final = 100_000
"""In the arguments: to write down more than that would itself take too long."""
PROGRAM: Final = str(Path(check_program.__file__).resolve())
PASSED_ON: Final = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
TOO_LONG: Final = "it takes too long"
TOO_MANY: Final = "they hold too many values"
NO_ROOM: Final = "too many checks are under way"
ENDED: Final = "the process for it ended"


class CheckWorkers:
    """All of one gateway. To be closed in the end."""

    def __init__(self) -> None:
        self._workers: dict[str, CheckWorker] = {}
        self._places = asyncio.Semaphore(PROCESSES)

    async def check(self, server: str, pending: PendingCheck) -> CheckVerdict:
        """What there is to say of these arguments and this schema. Raises nothing but cancellation."""
        schema, args = pending.schema.text, pending.args
        said = await self._said(server, pending, schema, args)
        if "wrong" in said:
            return CheckVerdict(schema, args, said["wrong"])
        log.warning("%s: arguments cannot be held against a schema: %s", server, said["cannot"])
        return CheckVerdict(schema, args, None, said["cannot"])

    async def _said(self, server: str, pending: PendingCheck, schema: bytes, args: Any) -> dict[str, Any]:
        if _values(args) > MOST_VALUES:
            return {"cannot": TOO_MANY}
        worker = self._workers.setdefault(server, CheckWorker())
        if worker.wanted >= WAITING:
            return {"cannot": NO_ROOM}
        try:
            request = to_json({"schema": schema.decode(), "patterns": pending.schema.patterns, "args": args})
        except Exception as error:
            return {"cannot": check_program.short(error)}
        worker.wanted += 1
        try:
            async with worker.turn, self._places:
                for idle in self._idle(worker):
                    await idle.end()
                return await worker.ask(request)
        finally:
            worker.wanted -= 1

    def _idle(self, wanted: CheckWorker) -> list[CheckWorker]:
        """Which have to go for it: as many are at work as there are places at most, so of too many, some are idle."""
        others = [each for each in self._workers.values() if each.running and each is not wanted]
        return [each for each in others if not each.busy][: max(0, len(others) + 1 - PROCESSES)]

    async def aclose(self) -> None:
        for worker in self._workers.values():
            await worker.end()


class CheckWorker:
    """One process at a time, which answers one line with one line."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.wanted = 0
        self.busy = False
        self._process: asyncio.subprocess.Process | None = None
        self._retiring: asyncio.TimerHandle | None = None

    @property
    def running(self) -> bool:
        return self._process is not None

    async def ask(self, request: bytes) -> dict[str, Any]:
        """Its answer. Whatever else happens, the process is ended, and the next question has another."""
        self.busy, answered = True, False
        if self._retiring is not None:
            self._retiring.cancel()
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await self._answer(request)
            answered = self.running
            return answer
        except TimeoutError:
            return {"cannot": TOO_LONG}
        except (OSError, ValueError) as error:
            return {"cannot": check_program.short(error)}
        finally:
            self.busy = False
            if answered:
                self._retiring = asyncio.get_running_loop().call_later(IDLE, self._kill)
            else:
                self._kill()

    async def _answer(self, request: bytes) -> dict[str, Any]:
        process = self._process = self._process or await _started()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(request + b"\n")
        line = await process.stdout.readline()
        if line.endswith(b"\n"):
            return json.loads(line)
        self._process = None
        ended_by = -await process.wait()
        return {"cannot": TOO_LONG} if ended_by == signal.SIGPROF else {"cannot": ENDED}

    async def end(self) -> None:
        if (process := self._kill()) is not None:
            await process.wait()

    def _kill(self) -> asyncio.subprocess.Process | None:
        process, self._process = self._process, None
        if self._retiring is not None:
            self._retiring.cancel()
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            if process.stdin is not None:
                process.stdin.close()
        return process


async def _started() -> asyncio.subprocess.Process:
    """A new process that has said that it is there. Raises `OSError`, and `ValueError` for one that says otherwise."""
    # A session of its own, because a terminal's Ctrl-C is for the gateway; no folder that others fill.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", PROGRAM,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        cwd=os.sep, env={name: os.environ[name] for name in PASSED_ON if name in os.environ}, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        json.loads(await process.stdout.readline())
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        raise
    return process


def _values(args: Any) -> int:
    """How many there are in it, or a few more than may be."""
    count, waiting = 1, [args]
    while waiting and count <= MOST_VALUES:
        item = waiting.pop()
        count += len(item)
        waiting.extend(each for each in (item.values() if isinstance(item, dict) else item)
                       if isinstance(each, dict | list))  # fmt: skip
    return count
