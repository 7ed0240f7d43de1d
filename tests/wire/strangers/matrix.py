"""One cell of the matrix: a kind of interaction, a client, a transport and a surface, compared with no gateway."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import httpx

from tests.support.gateway import Running
from tests.support.links import HttpLink, StdioLink
from tests.support.peer import Link, Peer, connected
from tests.support.ports import kept_port
from tests.support.wire import HANDSHAKE, MODERN, RpcError
from tests.wire.strangers.servers import Stranger
from tests.wire.through import served

CLIENTS: Final = {"session-based": HANDSHAKE, "stateless": MODERN}
SURFACES: Final = ("gate", "direct", "passthrough")
QUIET: Final = 2.0
"""Seconds in which what a server sends beside its answers has come, if there is no gateway to compare with."""
PATIENCE: Final = 10.0
SHOWN: Final = 240
CELL_TIMEOUT: Final = 60.0
TASKS: Final = "io.modelcontextprotocol/tasks"
Outcome = Callable[[], Any]
"""What has come of an interaction so far: notifications may follow the answer."""


@dataclass
class Seat:
    """A client of a stranger, straight at it or at a surface in front of it."""

    peer: Peer
    stranger: Stranger
    surface: str = ""
    server: str = ""

    async def call(self, kind: str, **meta: Any) -> Any:
        params = self.wrapped(*self.stranger.tools[kind])
        return await outcome(self.peer.request("tools/call", params, **meta))

    def wrapped(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if self.surface == "gate":
            inner = {"name": f"{self.server}:{tool}", "args": arguments, "intent": {"operation_type": "destructive"}}
            return {"name": "call_tool_destructive", "arguments": inner}
        return {"name": self.named(tool), "arguments": dict(arguments)}

    def named(self, name: str) -> str:
        return f"{self.server}__{name}" if self.surface == "direct" else name

    def heard(self, *methods: str) -> list[Mapping[str, Any]]:
        return [each for each in self.peer.heard if each["method"] in methods]


async def outcome(answer: Awaitable[Mapping[str, Any]]) -> Any:
    """An answer as far as it has to be equal."""
    try:
        result = await answer
    except RpcError as error:
        return {"error": error.code, "says": str(error)}
    kept = {key: value for key, value in result.items() if key not in ("_meta", "resultType", "ttlMs", "cacheScope")}
    return {key: value for key, value in kept.items() if value not in (False, None)}


# The kinds of interaction.


async def plain(seat: Seat, kind: str) -> Outcome:
    came = await seat.call(kind)
    return lambda: came


async def asking(seat: Seat, kind: str) -> Outcome:
    """Some servers want the roots of every client that connects, which says nothing of a call."""
    came = await seat.call(kind)
    methods = [method for method, _ in seat.peer.asked if kind == "roots" or method != "roots/list"]
    return lambda: {"came": came, "asked": methods}


async def progress(seat: Seat, kind: str) -> Outcome:
    came = await seat.call(kind, progressToken="mine")
    return lambda: {"came": came, "progress": [each["progress"] for each in seat.peer.progress("mine")]}


async def log(seat: Seat, kind: str) -> Outcome:
    if seat.peer.modern:
        await seat.peer.want_logs("debug")
    came = await seat.call(kind)
    lines = "notifications/message"
    return lambda: {"came": came, "heard": [each["params"].get("data") for each in seat.heard(lines)]}


async def cancellation(seat: Seat, kind: str) -> Outcome:
    """The call ends, and the next one works."""
    pending = await seat.peer.begin("tools/call", seat.wrapped(*seat.stranger.tools[kind]), progressToken="slow")
    with anyio.move_on_after(PATIENCE):
        while not seat.peer.progress("slow"):
            await seat.peer.notifications.wait()
    begun = bool(seat.peer.progress("slow"))
    await seat.peer.cancel(pending)
    came = await seat.call("call")
    return lambda: {"begun": begun, "then": came, "answered": pending.done.is_set()}


async def list_changed(seat: Seat, kind: str) -> Outcome:
    if seat.peer.modern:
        with anyio.move_on_after(QUIET):
            await seat.peer.watch()
    came = await seat.call(kind)
    kinds = [f"notifications/{each}/list_changed" for each in ("tools", "prompts", "resources")]
    return lambda: {"came": came, "heard": sorted({each["method"] for each in seat.heard(*kinds)})}


async def followed(seat: Seat, kind: str) -> Outcome:
    """The client asks about the task itself, which the stateless revision has."""
    params = seat.wrapped(*seat.stranger.tools[kind])
    declared = {"extensions": {TASKS: {}}}
    about = {"io.modelcontextprotocol/clientCapabilities": declared} if seat.peer.modern else {}
    begun = await outcome((await seat.peer.begin("tools/call", params, **about)).result())
    if "taskId" not in begun:
        return lambda: begun.get("content", begun)
    with anyio.fail_after(CELL_TIMEOUT / 2):
        while True:
            asked = await seat.peer.begin("tasks/get", {"taskId": begun["taskId"]}, **about)
            said = await outcome(asked.result())
            if said.get("status") not in ("working", "input_required"):
                break
            await anyio.sleep(0.1)
    return lambda: said.get("result", said).get("content", said)


async def resources(seat: Seat, kind: str) -> Outcome:
    listed = await outcome(seat.peer.request("resources/list"))
    read = await outcome(seat.peer.request("resources/read", {"uri": seat.stranger.resource}))
    return lambda: {"listed": [each["uri"] for each in listed.get("resources", [])], "read": read}


async def template(seat: Seat, kind: str) -> Outcome:
    listed = await outcome(seat.peer.request("resources/templates/list"))
    read = await outcome(seat.peer.request("resources/read", {"uri": seat.stranger.template}))
    found = [each["uriTemplate"] for each in listed.get("resourceTemplates", [])]
    return lambda: {"listed": found, "read": read}


async def subscription(seat: Seat, kind: str) -> Outcome:
    if seat.peer.modern:
        wanted = {"resourceSubscriptions": [seat.stranger.resource]}
        await seat.peer.begin("subscriptions/listen", {"notifications": wanted})
        said = "notifications/subscriptions/acknowledged"
        return lambda: [each["params"].get("notifications") for each in seat.heard(said)]
    came = await outcome(seat.peer.request("resources/subscribe", {"uri": seat.stranger.resource}))
    return lambda: came


async def prompts(seat: Seat, kind: str) -> Outcome:
    assert seat.stranger.prompt
    name, arguments = seat.stranger.prompt
    given = {"name": seat.named(name), "arguments": dict(arguments)}
    came = await outcome(seat.peer.request("prompts/get", given))
    return lambda: came


async def completion(seat: Seat, kind: str) -> Outcome:
    assert seat.stranger.prompt
    ref = {"type": "ref/prompt", "name": seat.named(seat.stranger.prompt[0])}
    argument = {"name": seat.stranger.completes, "value": "A"}
    came = await outcome(seat.peer.request("completion/complete", {"ref": ref, "argument": argument}))
    return lambda: came


KINDS: Final[Mapping[str, Callable[[Seat, str], Awaitable[Outcome]]]] = {
    "call": plain, "error": plain, "structured result": plain, "progress": progress, "log": log,
    "elicitation, form": asking, "elicitation, url": asking, "sampling": asking, "roots": asking,
    "resources": resources, "resource of a template": template, "subscription": subscription,
    "prompts": prompts, "completion": completion, "cancellation": cancellation, "list_changed": list_changed,
    "tool that can be a task": plain, "tool that is a task": plain, "task that the client follows": followed,
}  # fmt: skip


def kinds_of(stranger: Stranger) -> list[str]:
    offered = {"resources": stranger.resource, "resource of a template": stranger.template,
               "subscription": stranger.resource, "prompts": stranger.prompt,
               "completion": stranger.completes}  # fmt: skip
    return [kind for kind in KINDS if offered.get(kind) or kind in stranger.tools]


# Where they are made.


ANSWERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "elicitation/create": {"action": "accept", "content": {"name": "Ann", "value": "Ann", "username": "ann",
                                                           "email": "ann@example.com", "newsletter": True}},
    "sampling/createMessage": {"role": "assistant", "model": "none", "content": {"type": "text", "text": "hi"}},
    "roots/list": {"roots": [{"uri": "file:///home/ann", "name": "home"}]},
}  # fmt: skip


async def answers(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    if params.get("mode") == "url":
        return {"action": "accept"}
    return ANSWERS[method]


@dataclass
class Place:
    """A stranger that runs, or the command of one on a pipe, for the gateway and for clients of its own."""

    stranger: Stranger
    transport: str
    url: str = ""
    straight: dict[tuple[str, str], Any] = field(default_factory=dict[tuple[str, str], Any])
    """What came without a gateway, by client and kind."""

    @property
    def name(self) -> str:
        return f"{self.stranger.name}-{self.transport}"

    @property
    def entry(self) -> dict[str, Any]:
        if self.url:
            return {"url": self.url, "timeout": 30}
        command, *args = self.stranger.stdio or ()
        return {"command": command, "args": args, "timeout": 30}

    def link(self) -> Link:
        return HttpLink(self.url) if self.url else StdioLink(self.stranger.stdio or (), skips_junk=True)


@contextlib.contextmanager
def place(stranger: Stranger, transport: str) -> Iterator[Place]:
    if transport == "stdio":
        yield Place(stranger, transport)
        return
    with kept_port() as port:
        command = [part.format(port=port) for part in stranger.http or ()]
        env = {name: value.format(port=port) if value == "{port}" else value for name, value in stranger.env.items()}
        options: dict[str, Any] = {"env": env} if env else {}
        if stranger.cwd:
            options["cwd"] = stranger.cwd
        with served(command, f"http://127.0.0.1:{port}/mcp", **options) as url:
            yield Place(stranger, transport, url)


@contextlib.asynccontextmanager
async def seated(where: Place, client: str, surface: str, running: Running | None) -> AsyncIterator[Seat]:
    link = where.link()
    if running is not None:
        path = {"gate": "", "direct": "/direct", "passthrough": f"/s/{where.name}"}[surface]
        link = HttpLink(running.mcp + path)
    async with connected(link, CLIENTS[client], answers) as peer:
        yield Seat(peer, where.stranger, surface, where.name)


async def interacted(
    where: Place, client: str, kind: str, surface: str = "", running: Running | None = None, expected: Any = None
) -> Any:
    """What came of it. Where that is known from elsewhere, as soon as it is equal; a failure is an outcome too."""
    try:
        with anyio.fail_after(CELL_TIMEOUT):
            async with seated(where, client, surface, running) as seat:
                came = await KINDS[kind](seat, kind)
                with anyio.move_on_after(QUIET if running is None else PATIENCE):
                    while running is None or came() != expected:
                        await seat.peer.notifications.wait()
                return came()
    except (TimeoutError, OSError, AssertionError, httpx.TransportError, ExceptionGroup) as error:
        return {"failed": type(error).__name__}


@dataclass(frozen=True)
class Cell:
    place: str
    client: str
    surface: str
    kind: str
    straight: Any
    through: Any

    @property
    def equal(self) -> bool:
        return self.straight == self.through

    def __str__(self) -> str:
        return f"{self.place} · {self.client} · {self.surface} · {self.kind}"

    def difference(self) -> str:
        one, other = json.dumps(self.straight), json.dumps(self.through)
        differs = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
        begin = max(0, differs - SHOWN // 2)
        return f"straight …{one[begin:][:SHOWN]}\n    through  …{other[begin:][:SHOWN]}"


async def compared(where: Place, running: Running, client: str, surface: str, kind: str) -> Cell:
    other = client if where.stranger.stateless else "session-based"
    if (other, kind) not in where.straight:
        where.straight[other, kind] = await interacted(where, other, kind)
    straight = where.straight[other, kind]
    return Cell(where.name, client, surface, kind, straight, await interacted(
        where, client, kind, surface, running, straight
    ))  # fmt: skip
