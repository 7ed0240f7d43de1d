"""The two ways from a `Peer` to a server: HTTP with its streams, and the pipes of a command."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import anyio
import httpx
from anyio.abc import Process, TaskGroup

from tests.support.peer import Message, Receive
from tests.support.wire import ACCEPT

SESSION = "mcp-session-id"
OPEN_TIMEOUT = 60
CLOSE_TIMEOUT = 10


class HttpLink:
    def __init__(self, url: str, *, token: str | None = None, **headers: str) -> None:
        self.url = url
        self.headers = {**ACCEPT, **headers, **({"authorization": f"Bearer {token}"} if token else {})}
        self.exchanges: dict[int, anyio.CancelScope] = {}
        self.statuses: list[int] = []

    async def open(self, tasks: TaskGroup, receive: Receive) -> None:
        self.tasks, self.receive = tasks, receive
        # Plain HTTP only: loading certificates takes longer than a call.
        self.http = httpx.AsyncClient(timeout=httpx.Timeout(60, read=None), trust_env=False, verify=False)

    async def send(self, message: Message, headers: Mapping[str, str]) -> None:
        if "id" in message and "method" in message:
            self.tasks.start_soon(self._exchange, message, headers)
        else:
            await self._exchange(message, headers)

    async def _exchange(self, message: Message, headers: Mapping[str, str]) -> None:
        if self.http.is_closed:
            return  # the answer to a question, from a client that has just gone
        own = message["id"] if "method" in message and "id" in message else None
        with anyio.CancelScope() as scope:
            if own is not None:
                self.exchanges[own] = scope
            async with self.http.stream(
                "POST", self.url, content=json.dumps(message).encode(), headers={**self.headers, **headers}
            ) as answer:
                self.statuses.append(answer.status_code)
                if SESSION in answer.headers:
                    self.headers[SESSION] = answer.headers[SESSION]
                await self._take(answer, own)
        if own is not None:
            self.exchanges.pop(own, None)

    async def _take(self, answer: httpx.Response, own: int | None) -> None:
        if _is_stream(answer):
            async for message in _events(answer):
                await self.receive(message)
            return
        body = await answer.aread()
        try:
            found = json.loads(body) if body else {}
        except ValueError:
            found = {}
        if own is not None and found.get("id") is None:
            error = found.get("error", {"code": answer.status_code, "message": body.decode(errors="replace")[:500]})
            found = {"jsonrpc": "2.0", "id": own, "error": error}
        if found:
            await self.receive(found)

    async def listen(self, headers: Mapping[str, str]) -> None:
        opened = anyio.Event()
        self.tasks.start_soon(self._listen, headers, opened)
        with anyio.fail_after(OPEN_TIMEOUT):
            await opened.wait()

    async def _listen(self, headers: Mapping[str, str], opened: anyio.Event) -> None:
        with contextlib.suppress(httpx.TransportError):
            async with self.http.stream("GET", self.url, headers={**self.headers, **headers}) as answer:
                opened.set()
                if _is_stream(answer):
                    async for message in _events(answer):
                        await self.receive(message)
        opened.set()

    async def cut(self, request_id: int) -> bool:
        if (scope := self.exchanges.get(request_id)) is not None:
            scope.cancel()
        return True

    async def close(self) -> None:
        for scope in [*self.exchanges.values()]:
            scope.cancel()
        with anyio.move_on_after(CLOSE_TIMEOUT), contextlib.suppress(httpx.TransportError):
            if SESSION in self.headers:
                await self.http.delete(self.url, headers=self.headers)
        self.tasks.cancel_scope.cancel()
        await self.http.aclose()


def _is_stream(answer: httpx.Response) -> bool:
    return answer.headers.get("content-type", "").startswith("text/event-stream")


async def _events(answer: httpx.Response) -> AsyncIterator[Message]:
    """The messages of an event stream; priming events and comments have none."""
    data: list[str] = []
    async for line in answer.aiter_lines():
        if line.startswith("data:"):
            data.append(line[5:].strip())
        elif not line:
            if text := "\n".join(data):
                yield json.loads(text)
            data = []


class StdioLink:
    def __init__(
        self, command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None,
        skips_junk: bool = False,
    ) -> None:  # fmt: skip
        """`skips_junk`: lines that are no JSON objects are left out, as the SDKs' clients do."""
        self.command = [*command]
        self.skips_junk = skips_junk
        self.cwd = cwd
        self.env = dict(env) if env is not None else dict(os.environ)

    async def open(self, tasks: TaskGroup, receive: Receive) -> None:
        self.receive = receive
        self.process: Process = await anyio.open_process(
            self.command, cwd=self.cwd, env=self.env, stderr=subprocess.DEVNULL
        )
        self.lock = anyio.Lock()
        tasks.start_soon(self._read)

    async def _read(self) -> None:
        assert self.process.stdout
        rest = b""
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for chunk in self.process.stdout:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.startswith(b"{") if self.skips_junk else line.strip():
                        await self.receive(json.loads(line))

    async def send(self, message: Message, headers: Mapping[str, str]) -> None:
        assert self.process.stdin
        async with self.lock:
            await self.process.stdin.send(json.dumps(message).encode() + b"\n")

    async def listen(self, headers: Mapping[str, str]) -> None:
        """The pipe carries what is said unasked too."""

    async def cut(self, request_id: int) -> bool:
        return False

    async def close(self) -> None:
        assert self.process.stdin
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self.process.stdin.aclose()
        with anyio.move_on_after(CLOSE_TIMEOUT):
            await self.process.wait()
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
