"""Everything in the bytes that a server receives for a client is in the record of that call (GATE-14, GATE-15).

Clients that follow the protocol, over a link that puts words into every place of a message that a client can choose:
each is a word that nobody else uses, so a word that a server heard and the record does not show is a hole, whatever the
place is called. The places are filled at random, so that a request which is refused for one of them hides no other.
"""

from __future__ import annotations

import copy
import itertools
import json
import random
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.attacks.target import (
    ALL_SURFACES,
    DOORS,
    ERAS,
    Target,
    ask,
    eventually,
    fresh,
    heard,
    heard_over_http,
    latch,
    params,
    path_of,
    release,
)
from tests.support.gateway import clean_environment, gateway
from tests.support.links import HttpLink
from tests.support.peer import CAPABILITIES, META, Message, Peer, Receive, connected
from tests.support.wire import HANDSHAKE, RpcError

pytestmark = [pytest.mark.anyio, pytest.mark.proves("GATE-14", "GATE-15")]
SERVERS = pytest.mark.parametrize("server", ["modern", "modern-http", "handshake", "handshake-http", "own", "own-http"])
SEED = 20260728
ASKS = 4
WORD = re.compile(r"salt[0-9]+x[0-9]+q")
HEX = re.compile(r"[0-9a-f]{16,}")
HEADERS = ("traceparent", "tracestate", "baggage", "user-agent", "accept-language", "cookie", "referer",
           "x-forwarded-for", "mcp-param-mark", "last-event-id", "x-mcp-header", "forwarded", "from")  # fmt: skip
TOOLS = ("look", "put", "wipe_ask", "look_ask", "report")


@dataclass
class Salt:
    """Words, each used once."""

    chance: random.Random
    number: int = field(default_factory=itertools.count(1).__next__)
    used: dict[str, str] = field(default_factory=dict[str, str])
    """The place of each."""

    def word(self, place: str) -> str:
        found = f"salt{self.number}x{len(self.used)}q"
        self.used[found] = place
        return found

    def hex(self, place: str, digits: int) -> str:
        found = "".join(self.chance.choice("123456789abcdef") for _ in range(digits))
        self.used[found] = place
        return found

    def within(self, text: str) -> set[str]:
        return {each for each in (*WORD.findall(text), *HEX.findall(text)) if each in self.used}

    def often(self) -> bool:
        return self.chance.random() < 0.5

    def into(self, place: str, value: Message) -> None:
        """Keys that nobody defined, with values of every kind."""
        if self.often():
            value[self.word(f"key of {place}")] = {self.word(f"key in {place}"): [self.word(f"value in {place}")]}
        if self.often():
            value["description"] = self.word(f"text in {place}")

    def capabilities(self, said: Message) -> None:
        self.into("capabilities", said)
        settings = {f"{META}{name}": {} for name in ("ui", "tasks", "skills", "own")}
        for name, each in settings.items():
            self.into(f"extension {name}", each)
            if name.endswith("ui"):
                each["mimeTypes"] = ["text/html;profile=mcp-app", self.word("type of a page")]
        if self.often():
            said["extensions"] = {name: each for name, each in settings.items() if not name.endswith("tasks")}
        if self.often():
            said["experimental"] = {self.word("experiment"): {"x": self.word("setting of an experiment")}}
        for name in ("elicitation", "sampling", "roots"):
            if isinstance(said.get(name), dict):
                said[name] = copy.deepcopy(said[name])
                self.into(name, said[name])
        if self.often():
            said["sampling"] = {"tools": {self.word("in sampling.tools"): {}}, "context": self.word("sampling.context")}

    def meta(self, said: Message) -> None:
        self.into("_meta", said)
        if self.often():
            parts = self.hex("trace id", 32), self.hex("span id", 16)
            said["traceparent"] = f"00-{parts[0]}-{parts[1]}-01" if self.often() else self.word("traceparent")
        for key in (
            "tracestate",
            "baggage",
            "Traceparent",
            f"{META}logLevel",
            f"{META}subscriptionId",
            "progressToken",
        ):
            if self.often():
                said[key] = self.word(key)
        if isinstance(info := said.get(f"{META}clientInfo"), dict):
            said[f"{META}clientInfo"] = self.info(info)
        if isinstance(able := said.get(f"{META}clientCapabilities"), dict):
            self.capabilities(able)

    def info(self, said: Mapping[str, Any]) -> Message:
        found = {**said, "name": self.word("client's name"), "version": self.word("client's version")}
        self.into("clientInfo", found)
        return found

    def message(self, said: Message) -> Message:
        said = copy.deepcopy(said)
        self.into("the message", said)
        if "method" not in said:
            if isinstance(result := said.get("result"), dict):
                self.into("an answer", result)
            return said
        inner = said.setdefault("params", {})
        self.meta(inner.setdefault("_meta", {}))
        self.into(f"params of {said['method']}", inner)
        if said["method"] == "initialize":
            self.capabilities(inner["capabilities"])
            inner["clientInfo"] = self.info(inner["clientInfo"])
        elif said["method"] == "notifications/cancelled":
            inner["reason"] = self.word("reason of a cancellation")
        for each in inner.get("inputResponses", {}).values():
            self.into("an answer of a later round", each)
        return said

    def headers(self) -> dict[str, str]:
        return {name: self.word(f"header {name}") for name in HEADERS if self.often()}


class SaltingLink(HttpLink):
    def __init__(self, url: str, salt: Salt) -> None:
        super().__init__(url)
        self.salt = salt
        self.ids: dict[str, int] = {}

    async def open(self, tasks: Any, receive: Receive) -> None:
        async def unsalted(message: Message) -> None:
            if "method" not in message and message.get("id") in self.ids:
                message = {**message, "id": self.ids[message["id"]]}
            await receive(message)

        await super().open(tasks, unsalted)

    async def send(self, message: Message, headers: Mapping[str, str]) -> None:
        salted = self.salt.message(message)
        if "method" in message and "id" in message:
            salted["id"] = self.salt.word("id of a request")
            self.ids[salted["id"]] = message["id"]
        if message.get("method") == "notifications/cancelled":
            own = salted["params"]["requestId"]
            salted["params"]["requestId"] = next(each for each, meant in self.ids.items() if meant == own)
        await super().send(salted, {**headers, **self.salt.headers()})


@dataclass
class Watched:
    target: Target
    shown: dict[str, str] = field(default_factory=dict[str, str])
    """Records as `activity show` has them, by their ids."""
    ended: set[str] = field(default_factory=set[str])

    @asynccontextmanager
    async def client(self, salt: Salt, door: str, server: str, era: str) -> AsyncIterator[Peer]:
        async def person(method: str, asked: Any) -> Any:
            if salt.chance.random() < 0.2:
                raise RpcError(
                    {"code": -32000, "message": salt.word("error"), "data": {"x": salt.word("error's data")}}
                )
            said = {"answer": salt.word("answer"), salt.word("key of an answer"): [salt.word("list in an answer")]}
            return {"action": "accept", "content": said}

        link = SaltingLink(f"{self.target.running.url}{path_of(door, server)}", salt)
        able = copy.deepcopy(CAPABILITIES)
        async with connected(link, era, person, capabilities=able, name=fresh("client")) as peer:
            yield peer

    def records(self) -> dict[str, str]:
        """All, as they are shown; those that have ended do not change any more."""
        for row in self.target.running.activities():
            if row["id"] not in self.ended:
                self.shown[row["id"]] = json.dumps(self.target.running.get(f"/activity/{row['id']}"))
            if row["status"] != "pending":
                self.ended.add(row["id"])
        return self.shown

    def unrecorded(self, server: str, salt: Salt) -> tuple[set[str], dict[str, str]]:
        """What the server heard of these words, and which of them the record of that call does not show, with where."""
        records, seen, missing = self.records().values(), set[str](), dict[str, str]()
        for message in self.target.log(server).messages():
            text = json.dumps(message)
            if not (words := salt.within(text)):
                continue
            seen |= words
            mark = str(((message.get("params") or {}).get("arguments") or {}).get("mark", ""))
            own = "".join(each for each in records if mark in each)
            missing |= {word: f"{salt.used[word]}: {text[:2000]}" for word in words if word not in own}
        return seen, missing


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("recorded")
    with ExitStack() as stack:
        servers = {
            "modern": heard(folder, "modern", "--modern"),
            "modern-http": stack.enter_context(heard_over_http(folder, "modern-http", "--modern")),
            "handshake": heard(folder, "handshake"),
            "handshake-http": stack.enter_context(heard_over_http(folder, "handshake-http")),
            "own": heard(folder, "own", sessions="per_client"),
            "own-http": stack.enter_context(heard_over_http(folder, "own-http", sessions="per_client")),
        }
        config = {"surfaces": ALL_SURFACES, "mcpServers": servers}
        yield Watched(Target(stack.enter_context(gateway(folder / "data", config)), folder, servers))


async def called(peer: Peer, salt: Salt, door: str, server: str) -> None:
    mark, tool = fresh(), salt.chance.choice(TOOLS)
    extra = {salt.word("name of an argument"): salt.word("argument")}
    asked = params(door, server, tool, mark, **({"rounds": 2} if tool.endswith("_ask") else {}), **extra)
    if door == "gate":
        asked["arguments"]["intent"]["reason"] = salt.word("reason of a call")
    await ask(peer, asked)


async def relayed(peer: Peer, salt: Salt, server: str, era: str) -> None:
    asked: dict[str, Message] = {
        "resources/list": {"cursor": salt.word("cursor")},
        "prompts/get": {"name": "hello", "arguments": {"x": salt.word("argument of a prompt")}},
        "resources/read": {"uri": f"note://{salt.word('uri')}"},
        "completion/complete": {
            "ref": {"type": "ref/prompt", "name": "hello"},
            "argument": {"name": "a", "value": "b"},
        },
        "x/unknown": {"some": salt.word("parameter")},
    }
    if era == HANDSHAKE and not server.startswith("modern"):  # those offer no watching
        asked["resources/subscribe"] = {"uri": f"note://{salt.word('watched uri')}"}
        asked["logging/setLevel"] = {"level": "debug"}
    for method, each in asked.items():
        await ask(peer, each, method)


async def cancelled(watched: Watched, peer: Peer, door: str, server: str) -> None:
    mark, log = fresh(), watched.target.log(server)
    with latch(watched.target.folder) as file:
        pending = await peer.begin("tools/call", params(door, server, "look", mark, until=str(file)))
        await log.wait_for(mark)
        await peer.cancel(pending)
        await eventually(lambda: log.given_up(mark), "the cancellation at the server")
        release(file)


async def said_unasked(peer: Peer, salt: Salt) -> None:
    for method in (
        "notifications/roots/list_changed",
        "notifications/progress",
        "notifications/message",
        "notifications/x",
    ):
        said = {"progressToken": 1, "progress": 1, "message": salt.word(method), "data": salt.word(method)}
        await peer.link.send({"jsonrpc": "2.0", "method": method, "params": said}, {})


@ERAS
@DOORS
@SERVERS
async def test_what_a_server_hears_is_in_the_record_of_that_call(
    watched: Watched, era: str, door: str, server: str
) -> None:
    salt = Salt(random.Random(f"{SEED} {era} {door} {server}"))
    async with watched.client(salt, door, server, era) as peer:
        for _ in range(ASKS):
            await called(peer, salt, door, server)
        if door == "passthrough":
            await relayed(peer, salt, server, era)
        if era == HANDSHAKE:
            await cancelled(watched, peer, door, server)
            await said_unasked(peer, salt)
            await called(peer, salt, door, server)
    seen, missing = watched.unrecorded(server, salt)
    places = {salt.used[word] for word in seen}
    assert "argument" in places, "what is decided on arrives"
    assert not missing, f"{len(missing)} words reached a server and are in no record: {missing}"


# What a client answers in mid-call can be seen, masked, and erased.

SECRET = "ghp_" + "a1B2c3D4e5F6" * 3


def show(watched: Watched, record: str, *options: str) -> str:
    running = watched.target.running
    command = [sys.executable, "-m", "mcpproxy_py", "activity", "show", record, *options]
    env = clean_environment(MCPPROXY_DATA_DIR=str(running.data_dir), COLUMNS="300")
    return subprocess.run(command, env=env, capture_output=True, timeout=60, check=True, text=True).stdout


@pytest.mark.proves("ACT-3", "ACT-9")
@ERAS
@pytest.mark.parametrize("server", ["modern", "handshake"])
async def test_what_a_client_answers_in_mid_call_is_shown_and_can_be_erased(
    watched: Watched, era: str, server: str
) -> None:
    mark, word, target = fresh(), fresh("answered"), watched.target

    async def person(method: str, asked: Any) -> Any:
        return {"action": "accept", "content": {"answer": word, "password": SECRET}}

    async with target.client("gate", server, era, person) as peer:
        assert (await ask(peer, params("gate", server, "wipe_ask", mark))).ok
    assert target.log(server).has(word)
    (row,) = target.ended(mark)
    assert "rounds" not in row and "rounds" not in row["metadata"], "lists are short"
    whole = target.running.get(f"/activity/{row['id']}")
    kinds = [each["kind"] for each in whole["rounds"]]
    assert kinds.count("input_required") == 1 and "answered" in kinds
    for shown in (json.dumps(whole["rounds"]), show(watched, row["id"]), show(watched, row["id"], "-o", "json")):
        assert word in shown
        assert SECRET not in shown
    assert target.running.get("/activity/verify")["result"] == "intact"
    erased = target.running.client.delete(f"/api/v1/activity/{row['id']}/payload")
    assert erased.status_code == 200
    assert [each["kind"] for each in erased.json()["rounds"]] == kinds, "that it was answered stays"
    assert word not in erased.text and word not in show(watched, row["id"], "-o", "json")
    assert target.running.get("/activity/verify")["result"] == "intact"
