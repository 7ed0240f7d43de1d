"""A raw client of either era over HTTP or stdio that can be asked: elicitation, sampling and roots.

Unlike `wire.Wire` it holds several requests at once, hears what comes unasked, and answers questions, as an
`input_required` round on the modern wire and as a request from the server on the handshake wire. What
comes for nobody is kept in `strays`, so that a test can say that there was none.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup

from mcpproxy_py.core.protocol.headers import encode_header_value
from tests.support.wire import HANDSHAKE, MODERN, NAMED, RpcError

Message = dict[str, Any]
Receive = Callable[[Message], Awaitable[None]]
Answer = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
CAPABILITIES = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {"listChanged": True}}
OF_THE_BRIDGE = "mcpproxy-roots-"
"""How ids begin by which `mcpproxy stdio` itself asks where its client works; no server asks that."""
WAIT = 60.0
META = "io.modelcontextprotocol/"


class Link(Protocol):
    """A way to the server. Everything that comes is given to `receive`, in order for each stream."""

    async def open(self, tasks: TaskGroup, receive: Receive) -> None: ...

    async def send(self, message: Message, headers: Mapping[str, str]) -> None: ...

    async def listen(self, headers: Mapping[str, str]) -> None:
        """Open a stream for what the server says unasked, where the transport has one apart."""
        ...

    async def cut(self, request_id: int) -> bool:
        """Hang up on a request; False where the transport cannot."""
        ...

    async def close(self) -> None: ...


async def silent(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    raise AssertionError(f"nobody expected to be asked: {method} {params}")


@dataclass
class Pending:
    """A request that was sent."""

    id: int
    done: anyio.Event = field(default_factory=anyio.Event)
    message: Message = field(default_factory=dict[str, Any])

    async def result(self, timeout: float = WAIT) -> Message:
        with anyio.fail_after(timeout):
            await self.done.wait()
        if "error" in self.message:
            raise RpcError(self.message["error"])
        return self.message["result"]


class Peer:
    def __init__(
        self, link: Link, era: str, tasks: TaskGroup, answer: Answer, capabilities: Mapping[str, Any], name: str
    ) -> None:
        self.link = link
        self.era = era
        self.tasks = tasks
        self.answer = answer
        self.capabilities = dict(capabilities)
        self.info = {"name": name, "version": "1.2.3"}
        self.heard: list[Message] = []
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.strays: list[Message] = []
        self.waiting: dict[int, Pending] = {}
        self.ids = itertools.count(1)
        self.log_level: str | None = None
        self.notifications = anyio.Event()

    @property
    def modern(self) -> bool:
        return self.era == MODERN

    async def shake_hands(self) -> None:
        hello = {"protocolVersion": self.era, "capabilities": self.capabilities, "clientInfo": self.info}
        self.welcome = await (await self.begin("initialize", hello)).result()
        await self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await self.link.listen(self._headers({"method": "GET"}))

    async def receive(self, message: Message) -> None:
        if "method" in message and "id" in message:
            self.tasks.start_soon(self._reply, message)
        elif "method" in message:
            self.heard.append(message)
            self._something_new()
        elif (pending := self.waiting.pop(message.get("id"), None)) is not None:  # type: ignore[arg-type]
            pending.message = message
            pending.done.set()
        else:
            self.strays.append(message)

    async def _reply(self, question: Message) -> None:
        head = {"jsonrpc": "2.0", "id": question["id"]}
        try:
            answer = {**head, "result": dict(await self._put(question))}
        except RpcError as error:
            answer = {**head, "error": {"code": error.code, "message": str(error)}}
        await self._send(answer)

    async def _put(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        params = question.get("params") or {}
        if str(question["id"]).startswith(OF_THE_BRIDGE):
            return {"roots": []}
        self.asked.append((question["method"], params))
        self._something_new()
        return await self.answer(question["method"], params)

    async def begin(self, method: str, params: Mapping[str, Any] | None = None, **meta: Any) -> Pending:
        """Send a request and do not wait for its answer."""
        pending = Pending(next(self.ids))
        self.waiting[pending.id] = pending
        envelope = {**self._envelope(), **(params or {}).get("_meta", {}), **meta}
        sent = {**(params or {}), **({"_meta": envelope} if envelope else {})}
        await self._send({"jsonrpc": "2.0", "id": pending.id, "method": method, "params": sent})
        return pending

    async def request(self, method: str, params: Mapping[str, Any] | None = None, **meta: Any) -> Message:
        """The final result: rounds that ask for input are answered."""
        params = dict(params or {})
        result = await (await self.begin(method, params, **meta)).result()
        while result.get("resultType") == "input_required":
            answers = {key: dict(await self._put(question)) for key, question in result["inputRequests"].items()}
            state = {"requestState": result["requestState"]} if "requestState" in result else {}
            result = await (await self.begin(method, {**params, "inputResponses": answers, **state}, **meta)).result()
        return result

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None, **meta: Any) -> Message:
        return await self.request("tools/call", {"name": tool, "arguments": dict(arguments or {})}, **meta)

    async def cancel(self, pending: Pending) -> None:
        """In the way of the era: the modern wire hangs up where there is a line of its own to hang up."""
        self.waiting.pop(pending.id, None)
        if not (self.modern and await self.link.cut(pending.id)):
            params = {"requestId": pending.id, "reason": "the test wants it"}
            await self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    async def watch(self, resource: str | None = None) -> None:
        """Hear of changes to the lists, and of one resource."""
        if not self.modern:
            if resource is not None:
                await self.request("resources/subscribe", {"uri": resource})
            return
        lists = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
        wanted = {**lists, **({"resourceSubscriptions": [resource]} if resource else {})}
        await self.begin("subscriptions/listen", {"notifications": wanted})
        await self.hear("notifications/subscriptions/acknowledged")

    async def want_logs(self, level: str) -> None:
        self.log_level = level
        if not self.modern:
            await self.request("logging/setLevel", {"level": level})

    async def hear(self, method: str, timeout: float = WAIT, times: int = 1, **params: Any) -> Message:
        """The notification of this method whose params have these values, once it came that many times."""

        def fitting() -> list[Message]:
            return [message for message in self.heard if fits(message)]

        def fits(message: Message) -> bool:
            said = message.get("params") or {}
            return message["method"] == method and all(said.get(key) == value for key, value in params.items())

        await self._until(lambda: len(fitting()) >= times, timeout)
        return fitting()[times - 1]

    async def hear_question(self, count: int = 1, timeout: float = WAIT) -> None:
        """Until we were asked that often."""
        await self._until(lambda: len(self.asked) >= count, timeout)

    async def _until(self, condition: Callable[[], bool], timeout: float) -> None:
        with anyio.fail_after(timeout):
            while not condition():
                await self.notifications.wait()

    def _something_new(self) -> None:
        self.notifications.set()
        self.notifications = anyio.Event()

    def progress(self, token: str | int) -> list[Message]:
        said = [message["params"] for message in self.heard if message["method"] == "notifications/progress"]
        return [params for params in said if params["progressToken"] == token]

    def _envelope(self) -> Message:
        if not self.modern:
            return {}
        level = {} if self.log_level is None else {f"{META}logLevel": self.log_level}
        return {
            f"{META}protocolVersion": MODERN,
            f"{META}clientInfo": self.info,
            f"{META}clientCapabilities": self.capabilities,
            **level,
        }

    async def _send(self, message: Message) -> None:
        await self.link.send(message, self._headers(message))

    def _headers(self, message: Message) -> dict[str, str]:
        method = message.get("method", "")
        if not self.modern:
            return {} if method == "initialize" else {"mcp-protocol-version": self.era}
        name = (message.get("params") or {}).get(NAMED.get(method, ""))
        routing = {"mcp-method": method} if method else {}
        return {"mcp-protocol-version": MODERN, **routing, **({"mcp-name": encode_header_value(name)} if name else {})}


@asynccontextmanager
async def connected(
    link: Link,
    era: str = MODERN,
    answer: Answer = silent,
    *,
    capabilities: Mapping[str, Any] = CAPABILITIES,
    name: str = "peer",
) -> AsyncIterator[Peer]:
    """A client of this era, ready to ask and to be asked, for the length of the block."""
    assert era in (MODERN, HANDSHAKE) or era < HANDSHAKE
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        peer = Peer(link, era, tasks, answer, capabilities, name)
        await link.open(tasks, peer.receive)
        try:
            if not peer.modern:
                await peer.shake_hands()
            yield peer
        except Exception as error:
            failure = error  # raised outside the group, which would wrap it
        finally:
            with anyio.CancelScope(shield=True):
                await link.close()
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
