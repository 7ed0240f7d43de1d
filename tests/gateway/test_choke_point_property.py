"""GATE-14, driven at random: what a server heard is what was decided on the snapshot of that moment and was on record,
`_meta` and capabilities included; and it is the server that it was decided for.

The real gateway, recorder, journal (on a real file) and upstream room, in one process; only the wire is made of memory,
so that the test sees each message in the very turn of the event loop in which it is written. Whatever is heard is held
against a decision of its own and against the file, there and then.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpproxy_py.core.policy.decide import decide
from mcpproxy_py.core.record.events import IdMaker
from mcpproxy_py.core.values import Ask, Caller, ClientInfo, Refusal, Relay, Route
from mcpproxy_py.errors import Code, StoreUnavailable
from mcpproxy_py.gateway.gateway import CallLimits, Gateway
from mcpproxy_py.store.journal.entries import JournalEntry, read
from mcpproxy_py.store.journal.journal import Journal
from mcpproxy_py.upstream.session.rpc import Headers, Outgoing, PendingRequest, RpcPeer, cancellation, send_now
from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.supervisor import Supervisor
from mcpproxy_py.upstream.transports.dialer import Dialer

pytestmark = pytest.mark.proves("GATE-14", "GATE-12", "GATE-13", "GATE-15")

RUNS, BLOCKS, STEPS = 40, 10, 40
"""Four hundred interleavings."""
HINTS = {"read": {"readOnlyHint": True}, "write": {"readOnlyHint": False, "destructiveHint": False}, "destroy": {}}
TOOLS = [{"name": name, "inputSchema": {"type": "object"}, "annotations": hints} for name, hints in HINTS.items()]
VARIANT = {"read": "read", "write": "write", "destroy": "destructive"}
SPEC = UpstreamSpec("s", command="none", max_concurrency=2, timeout=60)
META = "io.modelcontextprotocol/"
OWN_META = frozenset((f"{META}protocolVersion", f"{META}clientInfo", f"{META}clientCapabilities", "progressToken"))
"""What the gateway says of itself with each request."""
SAID = {
    "traceparent": ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-free text", 7),
    "tracestate": ("free=text",), "baggage": ("free=text",), f"{META}logLevel": ("debug", "free text"),
    f"{META}clientInfo": ({"name": "free text"},), "x/own": ({"free": ["text"]},), "progressToken": ("free text",),
}  # fmt: skip
ABLE = {
    "elicitation": ({"form": {}}, {"form": {"free": "text"}}), "sampling": ({}, {"free text": {}}, "free text"),
    "extensions": ({f"{META}ui": {"mimeTypes": ["free/text"], "free": "text"}}, {"free/text": {}, f"{META}tasks": {}}),
    "experimental": ({"free text": {}},),
}  # fmt: skip
SERVED = frozenset(("elicitation", "form", "url", "sampling", "context", "tools", "roots", "listChanged", "extensions",
                    "mimeTypes", f"{META}ui", f"{META}tasks", f"{META}skills"))  # fmt: skip
"""All words that a server may hear of what a client can do."""
OWN = frozenset(("server/discover", "initialize", "notifications/initialized", "tools/list", "subscriptions/listen",
                 "notifications/cancelled"))  # fmt: skip


class WatchedJournal(Journal):
    """One whose disk fails when a test wants it to, and of which the test knows what has reached the disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.fails: frozenset[str] = frozenset()
        self.failures = 0
        self.safe: dict[tuple[int, int], int] = {}
        """The place up to which everything was synced, and how often recording had failed by then."""

    async def acknowledged(self) -> None: ...

    def append(self, *events: Any) -> None:
        if "append" in self.fails:
            self.failures += 1
            raise StoreUnavailable("the disk is full")
        super().append(*events)

    async def synced(self) -> None:
        end = (self.end.segment, self.end.offset)
        await super().synced()
        await asyncio.sleep(0)
        if "sync" in self.fails:
            self.failures += 1
            raise StoreUnavailable("the disk does not sync")
        self.safe[end] = self.failures

    def entries(self) -> list[tuple[tuple[int, int], JournalEntry]]:
        """Every event in the file, with the place where it ends."""
        found: list[tuple[tuple[int, int], JournalEntry]] = []
        for path in sorted(self.folder.iterdir()):
            number, offset = int(path.stem), 0
            for line in path.read_bytes().rstrip(b"\0").split(b"\n")[:-1]:
                offset += len(line) + 1
                if (entry := read(line)) is not None:
                    found.append(((number, offset), entry))
        return found

    def is_safe(self, place: tuple[int, int]) -> bool:
        """Whether it was synced, and nothing has failed since."""
        return any(end >= place and failures == self.failures for end, failures in self.safe.items())


class MemoryPeer(RpcPeer):
    """A server in memory, behind a pipe that a test can fill."""

    def __init__(self, house: House, spec: UpstreamSpec) -> None:
        super().__init__(1 << 20)
        self.house, self.identity = house, spec.identity
        self.full = False
        self.queue: list[Outgoing] = []
        self.open: dict[int, dict[str, Any]] = {}
        self.asked = 0
        self.waiting: dict[int, int] = {}

    def _send(self, outgoing: Outgoing) -> None:
        if self.full:
            self.queue.append(outgoing)
        else:
            send_now(outgoing, self._write)

    def _retract(self, pending: PendingRequest, reason: str, cancellable: bool) -> None:
        if pending in self.queue:
            self.queue.remove(pending)
        elif cancellable and not self.closed.is_set():
            send_now(cancellation(pending.id, reason), self._write)
            self.open.pop(pending.id, None)

    def drain(self) -> None:
        self.full = False
        while self.queue and not self.full:
            send_now(self.queue.pop(0), self._write)

    def _write(self, payload: bytes, headers: Headers) -> None:
        message = json.loads(payload)
        method = message.get("method")
        if method in OWN:
            self._own(method, message)
        elif method is None:
            self.house.check_answer(message, self.identity)
        else:
            self.house.check(message, self.identity)
            self.open[message["id"]] = message

    def _own(self, method: str, message: Mapping[str, Any]) -> None:
        if method == "tools/list":
            self.say(message["id"], {"tools": TOOLS})
        elif method == "server/discover" and self.house.modern:
            self.say(message["id"], {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
        elif method == "server/discover":
            self._loop.call_soon(self.receive, {"id": message["id"], "error": {"code": -32601, "message": "no"}})
        elif method == "initialize":
            self.say(message["id"], {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}})

    def say(self, request_id: int, result: dict[str, Any]) -> None:
        self._loop.call_soon(self.receive_text, json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}))


class Person:
    """A client that answers when a test wants it to."""

    wants_progress, local, key = False, False, ""

    def __init__(self, live: bool, mark: str, house: House) -> None:
        self.live, self.mark, self.house = live, mark, house
        self.capabilities = {"elicitation": {"form": {}}, **house.some(ABLE)}
        self.caller = Caller("local", "mcp", ClientInfo("person", "1"))
        self.questions: list[asyncio.Future[dict[str, Any]]] = []

    def notify(self, method: str, params: Mapping[str, Any]) -> None: ...

    def pause(self, seconds: float) -> None:
        return None

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.house.bound[self.mark] = self.house.identity
        self.questions.append(asyncio.get_running_loop().create_future())
        return await self.questions[-1]


class House:
    """A gateway, its servers, its clients, and the one invariant."""

    def __init__(self, folder: Path, chance: random.Random, modern: bool) -> None:
        self.chance, self.modern = chance, modern
        self.journal = WatchedJournal(folder / "journal")
        self.supervisor = Supervisor(log_dir=folder)
        self.gateway = Gateway(self.supervisor, self.journal, CallLimits(), IdMaker(os.urandom))
        self.peer: MemoryPeer | None = None
        self.asks: dict[str, Ask] = {}
        self.again: dict[str, Ask] = {}
        self.calls: list[asyncio.Task[Any]] = []
        self.people: list[Person] = []
        self.heard = 0
        self.rounds_heard: dict[str, int] = {}
        self.said = 0
        self.spec = SPEC
        self.bound: dict[str, str] = {}
        """The server that an ask is for, by its mark: that it was decided for, that a person was asked about, or that
        asked a question itself."""
        self.broken: list[str] = []

    # The invariant.

    def must(self, true: object, why: str, about: object) -> None:
        if not true:
            self.broken.append(f"{why}: {about}")

    @property
    def identity(self) -> str:
        return self.supervisor.snapshot.servers["s"].identity

    def some(self, places: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
        return {key: self.chance.choice(values) for key, values in places.items() if self.chance.random() < 0.3}

    def check(self, message: Mapping[str, Any], identity: str) -> None:
        params = message["params"]
        mark = (params.get("arguments") or params)["mark"]
        ask = self.asks[mark]
        self.heard += 1
        now = decide(ask, self.supervisor.snapshot)
        self.must(not isinstance(now, Refusal | None), "sent, and refused on the snapshot of that moment", now)
        self.must(self.bound.get(mark, identity) == identity, "sent to another program than was decided on", message)
        self.bound[mark] = identity
        able = (params.get("_meta") or {}).get(f"{META}clientCapabilities", {})
        self.must(_words(able) <= SERVED | {"text/html;profile=mcp-app"}, "words in capabilities", able)
        if isinstance(now, Route):
            sent = {key: value for key, value in params.items() if key not in ("_meta", *ask.carried)}
            self.must(sent.pop("inputResponses", None) is None or not self.modern or self._live(ask), "answers", params)
            sent.pop("requestState", None)
            self.must(message["method"] == "tools/call", "another method", message)
            self.must(sent == {"name": now.tool.name, "arguments": now.args}, "not what was decided", message)
            self._check_record(ask, now, params)
        elif isinstance(now, Relay):
            self.must(message["method"] == now.method, "another method", message)
            self.must(
                {key: params[key] for key in params if key != "_meta"} == now.params, "not what was decided", params
            )
            self._check_record(ask, now, params)

    def _live(self, ask: Ask) -> bool:
        return ask.session_id == "live"

    def _check_record(self, ask: Ask, now: Route | Relay, params: Mapping[str, Any]) -> None:
        mine = [(place, entry) for place, entry in self.journal.entries() if entry.event.get("id") == ask.id]
        kinds = [entry.kind for _, entry in mine]
        self.must("finished" not in kinds, "sent after its record was closed", kinds)
        if now.confirm:
            self.must("confirmed" in kinds, "sent without a yes", kinds)
        answers = params.get("inputResponses")
        beside = {key: value for key, value in (params.get("_meta") or {}).items() if key not in OWN_META}
        told = [entry.event.get("forwarded") or entry.event.get("metadata", {}).get("forwarded") for _, entry in mine]
        if not mine:  # a read, which is written in a moment
            told = [self.gateway.recorder.asked(ask, now)["metadata"].get("forwarded")]
        self.must(not beside or beside in told or self.journal.failures, "not on record, in _meta", (beside, told))
        if now.risk == "read":
            handed = [call.ask.id for call in self.gateway.recorder._later]
            self.must("asked" in kinds or ask.id in handed or self.journal.failures, "a read nobody records", ask)
            if answers is not None and not self.journal.failures:
                self.must(answers in _answers(mine), "answers that are not on record", answers)
            return
        self.must("asked" in kinds, "sent without its record", ask)
        needed = [place for place, entry in mine if entry.kind == "asked"]
        if answers is not None:
            found = [place for place, entry in mine if entry.kind == "answered" and entry.event["answers"] == answers]
            self.must(found, "answers that are not on record", answers)
            needed = found[:1]
        self.must(all(map(self.journal.is_safe, needed)), "sent before the disk had it, or after a failure", kinds)
        recorded = next((entry for _, entry in mine if entry.kind == "asked"), None)
        if recorded is not None:
            shown = json.loads(recorded.payload)
            self.must(shown == (now.args if isinstance(now, Route) else now.params), "not what is on record", shown)

    def check_answer(self, message: Mapping[str, Any], identity: str) -> None:
        """An answer of a client's to a server's own question, in mid-call."""
        said = message.get("result", {}).get("content", {}).get("said") if "result" in message else None
        if said is None:
            return  # a refusal of ours
        self.heard += 1
        mark = message["result"]["content"]["mark"]
        ask = self.asks[mark]
        self.must(self.bound[mark] == identity, "answered to another program than asked", message)
        now = decide(ask, self.supervisor.snapshot)
        gone = isinstance(now, Refusal) and now.code is Code.SERVER_UNAVAILABLE  # which is for the call to tell
        self.must(gone or isinstance(now, Route | Relay), "answered, and refused on the snapshot of that moment", now)
        mine = [(place, entry) for place, entry in self.journal.entries() if entry.event.get("id") == ask.id]
        found = [place for place, entry in mine if entry.kind == "answered" and
                 entry.event["answers"] == {"result": message["result"]}]  # fmt: skip
        if isinstance(now, Route | Relay) and now.risk != "read":
            self.must(found and self.journal.is_safe(found[0]), "answered without its record", mine)
        elif not self.journal.failures:
            self.must(found, "answered without its record", mine)

    # What may happen, each at any time.

    def ask(self) -> None:
        mark, tool = str(len(self.asks)), self.chance.choice(list(HINTS))
        args = {"mark": mark}
        kind = self.chance.choice(("gate", "gate", "direct", "relay", "read_relay"))
        live = self.chance.random() < 0.5
        more: dict[str, Any] = {"source": "mcp", "principal": "local", "client": ClientInfo("person", "1")}
        more["session_id"] = "live" if live else None
        more["meta"] = self.some(SAID)
        if kind == "gate":
            variant = VARIANT[tool]
            params = {"name": f"s:{tool}", "args": args, "intent": {"operation_type": variant}}
            ask = self.gateway.new_ask(f"call_tool_{variant}", params, surface="gate", **more)
        elif kind == "direct":
            ask = self.gateway.new_ask(f"s__{tool}", args, surface="direct", **more)
        else:
            method = "x/do" if kind == "relay" else "completion/complete"
            ask = self.gateway.new_ask(method, args, surface="passthrough", server="s", method=method, **more)
        self.asks[mark] = ask
        self._run(ask, mark, Person(live, mark, self))

    def _run(self, ask: Ask, mark: str, person: Person) -> None:
        async def go() -> None:
            self.bound.pop(mark, None)
            if isinstance(decide(ask, self.supervisor.snapshot), Route | Relay):
                self.bound[mark] = self.identity
            reply = await self.gateway.call(ask, person)
            if reply.status == "pending":
                self.again[mark] = ask

        self.people.append(person)
        self.calls.append(asyncio.get_running_loop().create_task(go()))

    def next_round(self) -> None:
        """A modern client comes back with answers."""
        if not self.again:
            return
        mark = self.chance.choice(list(self.again))
        self.said += 1
        carried = {"inputResponses": {"q": {"said": self.said}}, "requestState": "theirs"}
        meta = self.gateway.new_ask(
            "", {}, source="mcp", surface="gate", principal="local", client=ClientInfo(), meta=self.some(SAID)
        ).meta
        asker = self.bound[mark]
        ask = self.again.pop(mark)._replace(again=True, carried=carried, meta=meta, asked_by=asker.__eq__)
        self.asks[mark] = ask
        self._run(ask, mark, Person(False, mark, self))

    def freeze(self) -> None:
        policy = self.supervisor.snapshot.policy
        self.supervisor.set_policy(replace(policy, frozen=not policy.frozen))

    def _configure(self, **changes: Any) -> None:
        self.spec = replace(self.spec, **changes)
        self.supervisor.tighten({"s": self.spec}, self.supervisor.snapshot.policy)
        self.calls.append(asyncio.get_running_loop().create_task(self.supervisor.apply({"s": self.spec})))

    def deny(self) -> None:
        self._configure(deny_tools=() if self.spec.deny_tools else (self.chance.choice(list(HINTS)), "x/do"))

    def confirm(self) -> None:
        self._configure(confirm=self.chance.choice(("none", "write", "destructive")))

    def disable(self) -> None:
        self._configure(enabled=not self.spec.enabled)

    def reclass(self) -> None:
        self._configure(overrides={} if self.spec.overrides else {"read": (("destructive", None),)})

    def replace_server(self) -> None:
        self._configure(command="another" if self.spec.command == "none" else "none")

    def fill(self) -> None:
        if self.peer is not None:
            self.peer.full = True

    def drain(self) -> None:
        if self.peer is not None:
            self.peer.drain()

    def leave(self) -> None:
        if self.calls:
            self.chance.choice(self.calls).cancel()

    def break_append(self) -> None:
        self.journal.fails = self.journal.fails ^ {"append"}

    def break_sync(self) -> None:
        self.journal.fails = self.journal.fails ^ {"sync"}

    def answer(self) -> None:
        """The server answers some request: with a result, or with questions."""
        peer = self.peer
        if peer is None or not peer.open:
            return
        request_id = self.chance.choice(list(peer.open))
        message = peer.open[request_id]
        if self.chance.random() < 0.4:
            self._ask_back(peer, request_id, message)
        else:
            del peer.open[request_id]
            peer.say(request_id, {"content": []})

    def _ask_back(self, peer: MemoryPeer, request_id: int, message: Mapping[str, Any]) -> None:
        if self.modern and message["method"] == "tools/call":
            del peer.open[request_id]
            asked = {"q": {"method": "elicitation/create", "params": {"message": "?"}}}
            peer.say(request_id, {"resultType": "input_required", "inputRequests": asked, "requestState": "theirs"})
        elif not self.modern and len(peer.open) == 1:  # else nobody can tell whose question it is
            peer.asked += 1
            params = {"message": (message["params"].get("arguments") or message["params"])["mark"]}
            asked = {"jsonrpc": "2.0", "id": f"q{peer.asked}", "method": "elicitation/create", "params": params}
            peer._loop.call_soon(peer.receive, asked)

    def tell(self) -> None:
        """Some person answers some question; a confirmation mostly with yes."""
        asked = [(each, person) for person in self.people for each in person.questions if not each.done()]
        if not asked:
            return
        question, person = self.chance.choice(asked)
        self.said += 1
        content = {"allow": self.chance.random() < 0.9, "said": self.said, "mark": person.mark}
        question.set_result({"action": "accept", "content": content})

    async def turn(self) -> None:
        """Some turns of the loop; now and then as long as a thread needs to come by."""
        if self.chance.random() < 0.3:
            await asyncio.sleep(0.001)
        for _ in range(self.chance.randrange(4)):
            await asyncio.sleep(0)
        self._mend()

    def _mend(self) -> None:
        """Most of the time all is well, or nothing would ever be sent."""
        if self.chance.random() < 0.4:
            self.journal.fails = frozenset()
        if self.supervisor.snapshot.policy.frozen and self.chance.random() < 0.4:
            self.freeze()
        if not self.spec.enabled and self.chance.random() < 0.6:
            self.disable()


def _words(value: Any) -> set[str]:
    if isinstance(value, str):
        return {value}
    inner = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return {word for each in inner for word in _words(each)}


def _answers(mine: list[tuple[tuple[int, int], JournalEntry]]) -> list[Any]:
    return [entry.event["answers"] for _, entry in mine if entry.kind == "answered"]


MOVES: tuple[Callable[[House], None], ...] = (
    *(House.ask,) * 9, *(House.answer,) * 9, *(House.tell,) * 4, *(House.next_round,) * 4, *(House.fill,) * 2,
    *(House.drain,) * 4, House.freeze, House.freeze, House.deny, House.confirm, House.disable, House.reclass,
    House.replace_server, House.replace_server,
    House.leave, House.break_append, House.break_append, House.break_sync, House.break_sync,
)  # fmt: skip


async def run(folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> House:
    chance = random.Random(seed)
    house = House(folder, chance, modern=seed % 2 == 0)

    @asynccontextmanager
    async def opened(dialer: Any, spec: UpstreamSpec, *args: Any) -> AsyncIterator[MemoryPeer]:
        house.peer = peer = MemoryPeer(house, spec)
        try:
            yield peer
        finally:
            peer.shut("it ends")

    monkeypatch.setattr(Dialer, "open", opened)
    async with anyio.create_task_group() as tasks:
        await tasks.start(house.supervisor.run, {"s": SPEC})
        await house.supervisor.ready("s")
        for _ in range(STEPS):
            chance.choice(MOVES)(house)
            await house.turn()
        house.journal.fails = frozenset()
        for task in house.calls:
            task.cancel()
        await asyncio.wait(house.calls or [asyncio.create_task(asyncio.sleep(0))], timeout=60)
        (server,) = house.supervisor.measured()
        house.must((house.gateway.in_flight, server.in_flight, server.waiting) == (0, 0, 0), "places are kept", server)
        tasks.cancel_scope.cancel()
    house.journal.close()
    return house


@pytest.mark.parametrize("block", range(BLOCKS))
def test_what_a_server_heard_was_decided_and_on_record_at_that_moment(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = 0
    for number in range(RUNS):
        seed = block * RUNS + number
        folder = tmp_path / str(seed)
        folder.mkdir()
        house = asyncio.run(run(folder, seed, monkeypatch))
        assert not house.broken, f"seed {seed}: {house.broken[0]}"
        heard += house.heard
    assert heard > RUNS, "nothing was sent, so nothing was proven"
