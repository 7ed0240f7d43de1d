"""Two agents with tokens at one gateway, each of which wants to know what the other has (SEC-2).

Whatever one of them sees must be what it would see if there were nothing else: so what is answered is held, text by
text, against what a gateway says that has nothing else, while the other one is busy all the time.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.agents import HANDSHAKE, MODERN, Came, RawAgent, agent, listening
from tests.attacks.target import Log, fresh
from tests.support.gateway import Running, gateway, python_server, until

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SEC-2")]

ERAS = pytest.mark.parametrize("era", [MODERN, HANDSHAKE], ids=["modern", "handshake"])
ASKS = 1250
"""Of each worker; there are eight."""
OTHER = {"amber": "birch", "birch": "amber"}
TOOLS, PROMPTS, RESOURCES = (f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources"))
UPDATED = "notifications/resources/updated"


@dataclass
class Site:
    """A gateway with an agent for each server, which has that server and `common`. Those whose server is not there are
    not there either."""

    running: Running
    folder: Path
    tokens: dict[str, str]

    @asynccontextmanager
    async def agent(self, name: str, era: str, as_: str = "") -> AsyncIterator[RawAgent]:
        """`as_`: another principal with the same scope."""
        key = f"{name}{as_}"
        if key not in self.tokens:
            self.tokens[key] = await asyncio.to_thread(made, self.running, key, [name, "common"])
        async with agent(self.running.url, self.tokens[key], era) as client:
            yield client

    def log(self, server: str) -> Log:
        return Log(self.folder / f"{server}.heard")


@asynccontextmanager
async def site(folder: Path, *servers: str, **of_each: Any) -> AsyncIterator[Site]:
    with running(folder, *servers, **of_each) as found:
        yield found


class running:
    """The same as a plain context manager, for fixtures of a module."""

    def __init__(self, folder: Path, *servers: str, **of_each: Any) -> None:
        self.folder, self.servers, self.of_each = folder, servers, of_each

    def __enter__(self) -> Site:
        self.folder.mkdir(exist_ok=True)
        configured = {
            name: python_server("secretive.py", "--name", name, "--log", str(self.folder / f"{name}.heard"),
                                **self.of_each.get(name, {}))
            for name in self.servers
        }  # fmt: skip
        config = {
            "surfaces": ["gate", "direct", "passthrough"],
            "mcpServers": configured,
            "profiles": {"empty": {"servers": ["nothing"]}},
        }
        self.gateway = gateway(self.folder / "data", config)
        up = self.gateway.__enter__()
        up.wait_for(*(name for name in self.servers if "lazy" not in self.of_each.get(name, {})))
        until(lambda: ranked(up), what="the vectors of all tools")
        tokens = {name: made(up, name, [name, "common"]) for name in self.servers if name in OTHER}
        return Site(up, self.folder, tokens)

    def __exit__(self, *why: Any) -> None:
        self.gateway.__exit__(*why)


def ranked(up: Running) -> bool:
    """Whether all is ranked in the one way in which it will be: with the extra vectors follow the words."""
    search = up.get("/status")["search"]
    return not importlib.util.find_spec("wordllama") or search["tools"] == search["by_meaning"]


def made(up: Running, name: str, servers: list[str], **terms: Any) -> str:
    terms = {"operations": ["read", "write"], **terms}
    answer = up.post("/tokens", {"name": name, "servers": servers, **terms})
    assert answer.status_code == 201, answer.text
    return answer.json()["token"]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running(tmp_path_factory.mktemp("both"), "amber", "birch", "common") as found:
        yield found


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """As the gateway would be if there were nothing but what `amber` has."""
    with running(tmp_path_factory.mktemp("alone"), "amber", "common") as found:
        yield found


# What an agent asks for, of its own, of the other's, and of what nobody has.

Ask = tuple[str, str, dict[str, Any]]


def gated(name: str, operation: str, mark: str) -> dict[str, Any]:
    inner = {"name": name, "args": {"mark": mark}, "intent": {"operation_type": operation}}
    return {"name": f"call_tool_{operation}", "arguments": inner}


def an_ask(dice: random.Random, me: str, number: int) -> Ask:
    """Path, method and parameters."""
    other = OTHER[me]
    server = dice.choice((me, "common", other, other, "nothing"))
    tool = dice.choice(("note", "put", "wipe", f"{other}_only", f"{me}_only", "non"))
    mark = f"mark-{me}-{number}"
    words = dice.choice(("keeps notes", other, f"secret-{other}", f"notes about {server}", "wipe put note"))
    search = {"query": words, "limit": 20, **({"server": server} if number % 3 else {})}
    uri = f"secret-{server}://{dice.choice(('1', f'mark-{other}-{number}'))}"
    completion = {"ref": {"type": "ref/prompt", "name": "hello"}, "argument": {"name": "x", "value": ""}}
    gate, direct, through = "/mcp", "/mcp/direct", f"/mcp/s/{server}"
    return dice.choice((
        (gate, "tools/list", {}),
        (gate, "tools/call", {"name": "retrieve_tools", "arguments": search}),
        (gate, "tools/call", {"name": "retrieve_tools", "arguments": {"names": [f"{server}:{tool}", f"{me}:note"]}}),
        (gate, "tools/call", gated(f"{server}:{tool}", dice.choice(("read", "write")), mark)),
        (gate, "tools/call", gated(f"{server}:{tool}", "read", mark)),
        (gate, "tools/call", gated(f"{server}:{tool}", "destructive", mark)),
        (gate, "resources/read", {"uri": uri}),
        (direct, "tools/list", {}),
        (direct, "tools/call", {"name": f"{server}__{tool}", "arguments": {"mark": mark}}),
        (direct, "prompts/list", {}),
        (direct, "prompts/get", {"name": f"{server}__hello"}),
        (direct, "resources/list", {}),
        (direct, "resources/templates/list", {}),
        (direct, "resources/read", {"uri": uri}),
        (through, "tools/list", {}),
        (through, "tools/call", {"name": tool, "arguments": {"mark": mark}}),
        (through, "resources/read", {"uri": uri}),
        (through, "prompts/get", {"name": "hello"}),
        (through, "completion/complete", completion),
        (through, "x/secret", {"name": tool}),
        (f"/mcp/tools?server={server}", "GET", {}),
        ("/mcp/tools", "GET", {}),
        (f"/tool/ids?server={server}", "GET", {}),
        ("/tool/ids", "GET", {}),
        ("/mcp/catalog?query=" + server, "GET", {}),
        ("/mcp/s/catalog", "tools/list", {}),
        ("/mcp/p/empty", "tools/list", {}),
        (gate, "tools/call", gated("catalog:mcp_list", "read", mark)),
    ))  # fmt: skip


async def answered(client: RawAgent, ask: Ask) -> Came:
    path, method, params = ask
    if method == "GET":
        client.asked += 1
        return await client.http("GET", path)
    token = {"progressToken": client.asked + 1} if method == "tools/call" else {}
    return await client.ask(path, method, params, **token)


async def worker(where: Site, me: str, era: str, seed: int, asks: int = ASKS) -> list[tuple[Ask, Came]]:
    """Its asks, one after the other, each with all that came back. It is a principal of its own: which resources one
    was told of depends on what it asked before."""
    dice, found = random.Random(seed), list[tuple[Ask, Came]]()
    async with where.agent(me, era, f"-{seed}") as client:
        for number in range(asks):
            ask = an_ask(dice, me, seed * 1_000_000 + number)
            found.append((ask, await answered(client, ask)))
        found.extend(((path, "initialize", {}), came) for path, came in sorted(client.welcomes.items()))
    return found


def forbidden(me: str, ask: Ask) -> list[str]:
    """What must not be in the answer: all that is of the other, unless I said it myself."""
    other, said = OTHER[me], json.dumps(ask)
    return [word for word in (f"secret-{other}", f"mark-{other}", f"{other}_only", other) if word not in said]


def says_nothing_of_the_other(me: str, rows: list[tuple[Ask, Came]]) -> None:
    for ask, came in rows:
        for word in forbidden(me, ask):
            assert word not in came.body, f"{word} reached {me} in the answer to {ask}: {came.body[:2000]}"


def without_log(came: Came) -> list[str]:
    """While others call the same server, it cannot be told whose a log line is that names no call; then it is left
    out."""
    return [each for each in came.texts if '"method":"notifications/message"' not in each]


async def test_ten_thousand_asks_tell_neither_agent_anything_of_the_other(both: Site, alone: Site) -> None:
    """And of what they tell, each text is the one that a gateway says where the other does not exist."""
    plans = [(me, era, seed) for seed, (me, era) in enumerate(
        (me, era) for me in ("amber", "birch") for era in (MODERN, HANDSHAKE, MODERN, HANDSHAKE)
    )]  # fmt: skip
    found = await asyncio.gather(*(worker(both, *plan) for plan in plans))
    assert sum(len(rows) for rows in found) >= 10_000
    for (me, _, _), rows in zip(plans, found, strict=True):
        says_nothing_of_the_other(me, rows)
    for plan, rows in [each for each in zip(plans, found, strict=True) if each[0][0] == "amber"][:2]:
        again = await worker(alone, *plan)
        for (ask, came), (_, there) in zip(rows, again, strict=True):
            assert (came.status, without_log(came)) == (there.status, without_log(there)), ask
    for server in OTHER:
        heard = [each["params"] for each in both.log(server).messages() if each.get("method") == "tools/call"]
        assert heard and f"mark-{OTHER[server]}" not in json.dumps(heard)
    await asyncio.to_thread(both.running.catch_up)
    for me, seed in (("amber", 0), ("birch", 4)):
        async with both.agent(me, MODERN, f"-{seed}") as client:
            mine = await client.http("GET", "/api/v1/activity?mine&limit=500")
            assert mine.status == 200, mine.body
            rows = json.loads(mine.body)["activities"]
            assert rows and all(row["principal"].endswith(f":{me}-{seed}") for row in rows)
            assert (await client.http("GET", "/api/v1/activity")).status == 401


@ERAS
async def test_a_path_of_a_server_out_of_scope_is_one_at_which_there_is_nothing(both: Site, era: str) -> None:
    """Byte for byte, headers too, with whatever is sent there, and in no time that could be told apart: nobody is
    asked, and nobody waits."""
    async with both.agent("amber", era) as client:
        for path in ("/mcp/s/{}", "/mcp/s/{}/", "/mcp/s/{}/x", "/mcp/p/{}", "/mcp/p/{}/direct"):
            for method, body in (("POST", b"{}"), ("GET", b""), ("DELETE", b""), ("PUT", b"x"), ("POST", b"no json")):
                came = [await client.http(method, path.format(name), body) for name in ("birch", "other")]
                for each in came:
                    each.headers.pop("date", None)
                hid, none = came
                assert (hid.status, hid.headers) == (none.status, none.headers)
                assert hid.status == 404
                assert hid.body == none.body.replace("other", "birch")


@ERAS
async def test_a_server_that_sleeps_out_of_scope_is_not_woken(tmp_path: Path, era: str) -> None:
    async with site(tmp_path / "lazy", "amber", "birch", "common", birch={"lazy": True}) as lazy:
        asleep = lazy.log("birch").path
        before = asleep.read_text() if asleep.exists() else ""
        async with lazy.agent("amber", era) as client:
            for ask in (
                ("/mcp", "tools/call", gated("birch:note", "read", "x")),
                ("/mcp/direct", "tools/call", {"name": "birch__note", "arguments": {}}),
                ("/mcp/direct", "prompts/get", {"name": "birch__hello"}),
                ("/mcp/s/birch", "tools/list", {}),
                ("/mcp/s/birch", "prompts/list", {}),
            ):
                came = await answered(client, ask)
                assert "not found" in came.body or "Unknown" in came.body or came.status == 404, came.body
        assert (asleep.read_text() if asleep.exists() else "") == before


@ERAS
@pytest.mark.parametrize("path", ["/mcp/direct", "/mcp/s/common"])
async def test_who_listens_hears_of_its_own_only(both: Site, era: str, path: str) -> None:
    """What changes at the other's server is told to the other, and only then does something change for both."""
    uris = ("secret-common://1",) if path == "/mcp/s/common" else ()
    async with (
        listening(both.running.url, both.tokens["amber"], era, path, uris) as mine,
        listening(both.running.url, both.tokens["birch"], era, "/mcp/direct") as theirs,
        both.agent("birch", MODERN) as other,
        both.agent("amber", MODERN) as me,
    ):
        for number in range(1, 4):
            await other.ask("/mcp/s/birch", "tools/call", {"name": "renew", "arguments": {"mark": "b"}})
            await theirs.wait_for(TOOLS, number)
        await other.ask("/mcp/s/birch", "tools/call", {"name": "touch", "arguments": {"mark": "b"}})
        assert mine.heard(TOOLS) == 0
        if uris:
            await me.ask("/mcp/s/common", "tools/call", {"name": "touch", "arguments": {"mark": "a"}})
            await mine.wait_for(UPDATED)
        await me.ask("/mcp/s/common", "tools/call", {"name": "renew", "arguments": {"mark": "a"}})
        for kind in (TOOLS, PROMPTS, RESOURCES):
            await mine.wait_for(kind)
        assert mine.heard(TOOLS) <= 2  # that it said so, and that there is another list
        told = json.dumps(mine.said)
        assert "birch" not in told and "notifications/message" not in told


@ERAS
async def test_the_log_of_a_shared_server_goes_to_whose_call_it_is(both: Site, tmp_path: Path, era: str) -> None:
    """While both have calls under way there, nobody can tell whose a line is that names no call, and nobody gets it."""
    files = {me: tmp_path / me for me in OTHER}
    marks = {me: fresh(f"mark-{me}") for me in OTHER}
    async with (
        both.agent("amber", era) as amber,
        both.agent("birch", era) as birch,
        listening(both.running.url, both.tokens["amber"], HANDSHAKE, "/mcp/s/common") as mine,
        listening(both.running.url, both.tokens["birch"], HANDSHAKE, "/mcp/s/common") as theirs,
        listening(both.running.url, None, HANDSHAKE, "/mcp/s/common") as anybodys,
        asyncio.TaskGroup() as tasks,
    ):
        calls: dict[str, asyncio.Task[Came]] = {}
        for me, client in (("amber", amber), ("birch", birch)):
            arguments = {"mark": marks[me], "until": str(files[me])}
            ask: Ask = ("/mcp/s/common", "tools/call", {"name": "wait", "arguments": arguments})
            calls[me] = tasks.create_task(answered(client, ask))
            await asyncio.to_thread(_once, lambda me=me: bool(both.log("common").calls(marks[me])))
        for file in files.values():
            file.touch()
    for me in OTHER:
        assert marks[me] in calls[me].result().body
        assert marks[OTHER[me]] not in calls[me].result().body
    assert "mark-" not in json.dumps([mine.said, theirs.said, anybodys.said])


def _once(there: Callable[[], bool]) -> None:
    from tests.support.gateway import until

    until(there, what="the call at the server")


async def test_a_session_of_another_is_one_that_does_not_exist(both: Site) -> None:
    """Whatever is done with its id: asked, listened to, resumed, answered, ended."""
    async with both.agent("amber", HANDSHAKE) as mine, both.agent("birch", HANDSHAKE) as client:
        for path in ("/mcp", "/mcp/direct", "/mcp/s/common"):
            await mine.ask(path, "ping")
            real, made_up = mine.sessions[path], "0" * len(mine.sessions[path])
            ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
            answer = json.dumps({"jsonrpc": "2.0", "id": "mcpproxy-1", "result": {}}).encode()
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
            for method, body, more in (
                ("POST", ping, {}), ("POST", answer, {}), ("POST", json.dumps(cancel).encode(), {}), ("GET", b"", {}),
                ("GET", b"", {"last_event_id": "s-1"}), ("GET", b"", {"last_event_id": "r1-1"}), ("DELETE", b"", {}),
            ):  # fmt: skip
                came = [
                    await client.http(
                        method, path, body, mcp_session_id=session, mcp_protocol_version=HANDSHAKE, **more
                    )
                    for session in (real, made_up)
                ]
                for each in came:
                    each.headers.pop("date", None)
                assert came[0] == came[1] and came[0].status == 404
            assert '"result"' in (await mine.ask(path, "ping")).body


async def test_a_resource_that_one_was_told_of_is_unknown_to_the_other(both: Site) -> None:
    mark = fresh("mark-amber")
    async with both.agent("amber", MODERN) as mine, both.agent("birch", MODERN) as client:
        told = await mine.ask("/mcp", "tools/call", gated("common:note", "read", mark))
        assert f"secret-common://{mark}" in told.body
        assert "contents" in (await mine.ask("/mcp", "resources/read", {"uri": f"secret-common://{mark}"})).body
        for path in ("/mcp", "/mcp/direct"):
            hid = await client.ask(path, "resources/read", {"uri": f"secret-common://{mark}"})
            none = await client.ask(path, "resources/read", {"uri": "secret-common://" + "n" * len(mark)})
            same = none.body.replace("n" * len(mark), mark).replace(f'"id":{client.asked}', f'"id":{client.asked - 1}')
            assert hid.body == same
            # `common` lists the template secret-common://{id}, so that direct reads any expansion for both of them.
            assert ("Unknown resource" in hid.body) == (path == "/mcp")


@ERAS
async def test_a_revoked_token_ends_all_that_goes_on_with_it(tmp_path: Path, era: str) -> None:
    """Streams, sessions and calls under way, at the server too; and what others do goes on."""
    async with site(tmp_path / "revoked", "amber", "birch", "common") as found:
        waits, mark = tmp_path / "never", fresh("mark-amber")
        ask: Ask = ("/mcp/s/amber", "tools/call", {"name": "wait", "arguments": {"mark": mark, "until": str(waits)}})
        url, token = found.running.url, found.tokens["amber"]
        async with (
            listening(url, token, era, "/mcp/direct") as stream,
            listening(url, found.tokens["birch"], era, "/mcp/direct") as theirs,
            found.agent("amber", era) as client,
            found.agent("amber", HANDSHAKE) as later,
        ):
            await later.ask("/mcp", "ping")
            call = asyncio.create_task(answered(client, ask))
            await asyncio.to_thread(_once, lambda: bool(found.log("amber").calls(mark)))
            revoked = await asyncio.to_thread(found.running.post, "/tokens/amber/revoke")
            assert revoked.status_code == 200, revoked.text
            async with asyncio.timeout(30):
                await stream.over.wait()
                ended = (await asyncio.gather(call, return_exceptions=True))[0]
            assert not isinstance(ended, Came) or "did wait" not in ended.body
            assert not theirs.over.is_set()
            assert (await later.ask("/mcp", "ping")).status == 401
            await asyncio.to_thread(_once, lambda: found.log("amber").given_up(mark))
        async with found.agent("birch", era) as other:
            assert "secret-birch" in (await other.ask("/mcp/s/birch", "tools/list")).body
