"""Newline JSON over the pipes of a child process: one reader, one writer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, cast

import anyio
import anyio.to_thread

from mcpproxy_py.core.json_size import MAX_VALUES
from mcpproxy_py.core.values import NOTHING
from mcpproxy_py.errors import Code, UpstreamFailure
from mcpproxy_py.jsonrpc import LineSplitter
from mcpproxy_py.upstream.processes.command import (
    ServerLog,
    child_environment,
    ending,
    on_own_path,
    resolve,
    working_directory,
)
from mcpproxy_py.upstream.processes.reaper_client import ReaperClient
from mcpproxy_py.upstream.session.rpc import Headers, Outgoing, PendingRequest, RpcPeer, cancellation, send_now
from mcpproxy_py.upstream.spec import UpstreamSpec

logger = logging.getLogger(__name__)

STDIN_GRACE: Final = 2.0
"""How long a server may take to end by itself once its stdin is closed, before it is told to."""
LAST_WORDS: Final = 0.25
"""Output and exit are reported in any order; what is still in the pipes may be an answer, or the reason."""
MOST_LINES_AT_ONCE: Final = 64
LONG_LINE: Final = 16 * 1024
"""After which the pipe is asked again whether it takes more."""
MAX_UNREAD_ANSWERS: Final = 256
"""A server that asks us things and never reads must not fill our memory with the answers."""


MOST_STDOUT_LOGGED: Final = 20
"""Lines for each start that are no messages."""
LINES_A_TURN: Final = 200
"""Enough for any honest server; a turn of that many junk lines takes well under a millisecond."""


class StdioConnection(RpcPeer):
    def __init__(self, max_result_bytes: int, log: ServerLog, max_values: int = MAX_VALUES) -> None:
        super().__init__(max_result_bytes, max_values)
        self.exited = asyncio.Event()
        self._log = log
        self.lines = LineSplitter(max_result_bytes, self._receive_line, self._oversize)
        self.postponed: deque[bytes] = deque()
        self._stdin: asyncio.WriteTransport | None = None
        self._stdout: asyncio.ReadTransport | None = None
        self._status: int | None = None
        self._open_ends = {"stdout", "stderr", "process"}
        self._paused = False
        self._holds = 0
        self._logged_stdout = 0
        self._flush_planned = False
        self._urgent: deque[Outgoing] = deque()
        self._others: deque[Outgoing] = deque()
        self._requests: dict[int, PendingRequest] = {}

    # Writing. What the pipe does not take waits here, requests by id, so that one that is given up never leaves; and
    # all of it unwritten, so that what may not leave any more by then does not.

    def _send(self, outgoing: Outgoing) -> None:
        """At once where nobody else is under way. Otherwise what comes in one turn of the loop is written together in
        the next: each write wakes the server, which costs more than our own part of a call."""
        writable = self._stdin is not None and not self._paused
        if writable and len(self._pending) < 2 and not self._flush_planned:
            send_now(outgoing, self._write)
            return
        if isinstance(outgoing, PendingRequest):
            self._requests[outgoing.id] = outgoing
        elif writable or len(self._others) < MAX_UNREAD_ANSWERS:
            self._others.append(outgoing)
        if writable and not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._flush_as_planned)

    def _flush_as_planned(self) -> None:
        self._flush_planned = False
        self._flush()

    def _retract(self, pending: PendingRequest, reason: str, cancellable: bool) -> None:
        if self._requests.pop(pending.id, None) is not None or not cancellable or self.closed.is_set():
            return
        self._urgent.append(cancellation(pending.id, reason))
        self._flush()  # at once: the caller may be gone by the next turn of the loop

    def _flush(self) -> None:
        """Everything that may leave now, permitted one by one and written together in this same turn."""
        lines: list[bytes] = []
        try:
            while (outgoing := self._next()) is not None:
                send_now(outgoing, lambda message, headers: lines.append(message))
                if len(lines) >= MOST_LINES_AT_ONCE or (lines and len(lines[-1]) > LONG_LINE):
                    self._write_lines(lines)
        finally:
            self._write_lines(lines)

    def _write_lines(self, lines: list[bytes]) -> None:
        if lines:
            self._write(b"\n".join(lines), NOTHING)
            lines.clear()

    def _next(self) -> Outgoing | None:
        """What is to be written now; nothing while the pipe is full, which it may be again after each."""
        if self._paused or self._stdin is None or self.closed.is_set():
            return None
        if waiting := self._urgent or self._others:
            return waiting.popleft()
        return self._requests.pop(next(iter(self._requests))) if self._requests else None

    def _write(self, message: bytes, headers: Headers) -> None:
        assert self._stdin is not None
        try:
            self._stdin.write(message + b"\n")
        except (OSError, RuntimeError):  # it closed its stdin a moment ago; that it ends is noticed elsewhere
            return

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._flush()

    # Reading, and the end.

    def attach(self, transport: asyncio.SubprocessTransport) -> None:
        self._stdin = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
        self._stdout = cast("asyncio.ReadTransport", transport.get_pipe_transport(1))
        self._flush()

    def read(self, fd: int, data: bytes) -> None:
        """What its pipe does not feed to `lines` at once."""
        if fd != 1:
            self._log.write(data)
        else:
            self._postpone(data)

    def _postpone(self, data: bytes) -> None:
        """A flood of lines is worked off in turns, so that it delays nobody else's calls; the pipe waits meanwhile."""
        self.postponed.append(data)
        if len(self.postponed) == 1:
            self._hold(None, True)
            self._loop.call_soon(self._work_off)

    def _work_off(self) -> None:
        now, later = _first_lines(self.postponed.popleft())
        if later:
            self.postponed.appendleft(later)
        if self.postponed:
            self._loop.call_soon(self._work_off)
        else:
            self._hold(None, False)
        self.lines.feed(now)

    def _hold(self, stream: int | None, hold: bool) -> None:
        """For lines that wait, and for a large message; there is one stream."""
        before, self._holds = self._holds, self._holds + (1 if hold else -1)
        if bool(before) != bool(self._holds) and self._stdout is not None and not self._stdout.is_closing():
            with contextlib.suppress(RuntimeError):
                self._stdout.pause_reading() if hold else self._stdout.resume_reading()

    def _receive_line(self, line: bytes) -> None:
        if line and not line.isspace():
            self.receive_text(line)

    def _unreadable(self, data: bytes, complaint: str) -> None:
        before = self._counters.garbage
        super()._unreadable(data, complaint)
        if self._counters.garbage > before and self._logged_stdout < MOST_STDOUT_LOGGED:
            self._logged_stdout += 1
            self._log.write_stdout(data)

    def end(self, which: str, status: int | None = None) -> None:
        """One of stdout, stderr and the process itself is over."""
        self._open_ends.discard(which)
        if which == "process":
            self._status = status
            self.exited.set()
        if not self._open_ends:
            self._finish()
        elif which != "stderr":
            self._wait_for_the_rest()

    def _wait_for_the_rest(self) -> None:
        due = self._loop.time() + LAST_WORDS
        self._loop.call_at(due, self._waited, due)

    def _waited(self, due: float) -> None:
        """Where the gateway itself stood still meanwhile, what came in that time has not been read yet."""
        if self._loop.time() > due + LAST_WORDS:
            self._wait_for_the_rest()
        else:
            self._finish()

    def _finish(self) -> None:
        if self.large.after(None, self._finish):
            return
        self.shut(ending(self._status) + self._log.last_words)

    def hang_up(self) -> None:
        if self._stdin is not None:
            self._stdin.close()


def _first_lines(data: bytes) -> tuple[bytes, bytes]:
    """What to read in this turn, and what to leave for the next."""
    later = data.split(b"\n", LINES_A_TURN)[LINES_A_TURN:]
    return (data[: -len(later[0])], later[0]) if later and later[0] else (data, b"")


class _Pipes(asyncio.SubprocessProtocol):
    """Hands what asyncio reports to the connection; nothing here may raise, or asyncio drops the pipe."""

    def __init__(self, connection: StdioConnection) -> None:
        self._connection = connection
        self._transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        connection = self._connection
        try:
            if fd == 1 and not connection.postponed and data.count(b"\n") <= LINES_A_TURN:
                connection.lines.feed(data)
            else:
                connection.read(fd, data)
        except Exception:
            logger.exception("reading from a server failed")

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd:
            self._connection.end("stdout" if fd == 1 else "stderr")

    def process_exited(self) -> None:
        self._connection.end("process", self._transport.get_returncode() if self._transport else None)

    def pause_writing(self) -> None:
        self._connection.pause()

    def resume_writing(self) -> None:
        self._connection.resume()


@asynccontextmanager
async def open_stdio(
    spec: UpstreamSpec, *, reaper: ReaperClient, log: ServerLog, max_result_bytes: int, mark: str,
    max_values: int = MAX_VALUES,
) -> AsyncIterator[StdioConnection]:  # fmt: skip
    """A started server. Leaving ends it and everything it started, which is known by its `mark`."""
    env = child_environment(spec, os.environ, reaper.cookie(mark))
    find = partial(resolve, spec, env)
    program, path = find() if on_own_path(spec, env) else await anyio.to_thread.run_sync(find)
    if path is not None:
        env["PATH"] = path
    place = working_directory(spec)
    await reaper.ensure()
    log.begin(f"starting {os.path.basename(program)}")
    connection = StdioConnection(max_result_bytes, log, max_values)
    transport = await _spawn(connection, program, spec.args, env, place)
    pid = transport.get_pid()
    reaper.announce(pid)
    try:
        connection.attach(transport)
        yield connection
    finally:
        connection.shut("the gateway is closing this connection")
        with anyio.CancelScope(shield=True):
            await _end(connection, reaper, mark, pid)
        transport.close()
        log.close()


async def _spawn(
    connection: StdioConnection, program: str, args: tuple[str, ...], env: dict[str, str], place: str | None
) -> asyncio.SubprocessTransport:
    options: dict[str, Any] = {"env": env, "cwd": place, "start_new_session": True}
    starting = asyncio.get_running_loop().subprocess_exec(lambda: _Pipes(connection), program, *args, **options)
    # Shielded, because a child that is started while we are cancelled would belong to nobody.
    started = asyncio.ensure_future(starting)
    with anyio.CancelScope(shield=True):
        await asyncio.wait([started])
    try:
        return started.result()[0]
    except (OSError, ValueError) as error:
        raise UpstreamFailure(Code.SERVER_UNAVAILABLE, f"cannot start {program}: {error}", sent=False) from None


async def _end(connection: StdioConnection, reaper: ReaperClient, mark: str, pid: int) -> None:
    connection.hang_up()
    with anyio.move_on_after(STDIN_GRACE):
        await connection.exited.wait()
    await reaper.end(mark, pid)  # also when it ended by itself: its children may not have
