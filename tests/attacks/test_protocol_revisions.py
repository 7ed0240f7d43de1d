"""A server of both protocol revisions that declares tasks: what it sends during calls reaches session-based clients.

Also its tools that run as a task only, a server that changes what it declares, a client that never answers, the first
call on a session whose stream opens late, and log lines after a cancelled call.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from tests.attacks.target import ALL_SURFACES, DOORS, ERAS, Log, Target, declines, eventually, fresh, latch, release
from tests.support.gateway import SERVERS, gateway, python_server
from tests.support.links import HttpLink
from tests.support.listening import listening
from tests.support.peer import Answer, Peer, connected
from tests.support.wire import HANDSHAKE, RpcError, text

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SURF-6")]

PATHS = {"gate": "/mcp", "direct": "/mcp/direct", "passthrough": "/mcp/s/{}"}
FORM = {"message": "What is your name?", "requestedSchema": {"type": "object", "properties": {}}}
QUESTIONS = {"elicitation/create": FORM, "sampling/createMessage": {"messages": [], "maxTokens": 1}, "roots/list": {}}
ELICIT = "elicitation/create"
DONE = '{"jsonrpc": "2.0", "id": $id, "result": {"resultType": "complete", "content": []}}'


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("revisions")
    late = [sys.executable, str(SERVERS / "asks.py"), "--http", "0", "--late-stream", "0.3"]
    both = ("asks.py", "--both", "--tasks", "--log")
    servers: dict[str, Any] = {
        "dual": python_server(*both, str(folder / "dual.heard"), timeout=120),
        "strict": python_server(*both, str(folder / "strict.heard"), timeout=120),
        **{
            name: python_server("scripted.py", "--log", str(folder / f"{name}.heard"), timeout=120)
            for name in ("quiet", "agents-gate", "agents-direct")
        },
    }
    with listening(late) as origin:
        servers["late"] = {"url": f"{origin}/mcp", "sessions": "per_client", "timeout": 20}
        config = {"surfaces": ALL_SURFACES, "limits": {"input_timeout": 60}, "mcpServers": servers}
        with gateway(folder / "data", config) as running:
            running.wait_for(*servers)
            yield Target(running, folder, servers)


def wrapped(door: str, server: str, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    if door == "gate":
        inner = {"name": f"{server}:{tool}", "args": arguments, "intent": {"operation_type": "read"}}
        return {"name": "call_tool_read", "arguments": inner}
    return {"name": f"{server}__{tool}" if door == "direct" else tool, "arguments": dict(arguments)}


async def called(peer: Peer, door: str, server: str, tool: str, **arguments: Any) -> Any:
    """What the tool gave, read back from its text."""
    result = await peer.request("tools/call", wrapped(door, server, tool, arguments))
    assert not result.get("isError"), result
    return json.loads(text(result))


@asynccontextmanager
async def client(
    target: Target, door: str, server: str, answer: Answer = declines, era: str = HANDSHAKE, **options: Any
) -> AsyncIterator[Peer]:
    link = HttpLink(target.running.url + PATHS[door].format(server), token=options.pop("token", None))
    async with connected(link, era, answer, **options) as peer:
        yield peer


async def asked_back(peer: Peer, door: str, server: str, method: str) -> Any:
    """What the server was answered. A call goes without a session that takes long to open, so it is made again."""
    with anyio.fail_after(120):
        while True:
            said = await called(peer, door, server, "ask", method=method, params=QUESTIONS[method])
            if said != "there is nobody to ask":
                return said["responses"]["one"] if "responses" in said else said["result"]
            await anyio.sleep(1)


async def says_yes(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"answers": method}


@DOORS
@pytest.mark.parametrize("method", QUESTIONS)
async def test_a_server_with_tasks_still_asks_session_based_clients(target: Target, door: str, method: str) -> None:
    async with client(target, door, "dual", says_yes) as peer:
        assert await asked_back(peer, door, "dual", method) == {"answers": method}
        assert [asked for asked, _ in peer.asked] == [method]


@DOORS
async def test_a_client_that_declares_nothing_hears_log_lines_and_cannot_be_asked(target: Target, door: str) -> None:
    word = fresh("line")
    async with client(target, door, "dual", capabilities={}) as peer:
        assert (await called(peer, door, "dual", "whoami"))["capabilities"] == {}
        await called(peer, door, "dual", "log", text=word)
        await peer.hear("notifications/message", data=word)
        said = await called(peer, door, "dual", "ask", method="elicitation/create", params=FORM)
        assert "error" in said
        assert peer.asked == []


async def test_what_it_says_beside_a_call_arrives(target: Target) -> None:
    """`list_changed` by the session that a call came on."""
    async with client(target, "passthrough", "dual", capabilities={}) as peer:
        await called(peer, "passthrough", "dual", "changed", n=1, what="prompts")
        await peer.hear("notifications/prompts/list_changed")


def refused_calls(log: Log) -> list[str]:
    """Of the calls of the tool that runs as a task only: the revision that each came in."""
    calls = [each["params"] for each in log.of("tools/call") if each["params"]["name"] == "needs_task"]
    return ["stateless" if "io.modelcontextprotocol/protocolVersion" in (each.get("_meta") or {}) else "session-based"
            for each in calls]  # fmt: skip


@pytest.mark.parametrize("door", ["gate", "direct"])
async def test_a_tool_that_needs_a_task_and_one_that_asks_work_side_by_side(target: Target, door: str) -> None:
    async with client(target, door, "dual", says_yes) as peer:
        for _ in range(2):
            assert await called(peer, door, "dual", "needs_task") == "ran as a task"
            assert await asked_back(peer, door, "dual", ELICIT) == {"answers": ELICIT}
    assert refused_calls(target.log("dual")).count("session-based") <= 1, "what it needs is remembered"


async def test_a_server_that_refuses_what_it_asked_for_is_not_called_again_and_again(target: Target) -> None:
    async with client(target, "gate", "strict", says_yes) as peer:
        for _ in range(3):
            result = await peer.request("tools/call", wrapped("gate", "strict", "needs_task", {"always": True}))
            assert result["isError"]
    assert refused_calls(target.log("strict")) == ["session-based", "stateless", "stateless", "stateless"]
    rows = [row for row in target.running.activities(server="strict") if "needs_task" in json.dumps(row)]
    assert len(rows) == 3, "each call is on record once"


async def test_a_server_that_changes_what_it_declares_gets_its_calls_in_the_revision_that_it_speaks(
    target: Target,
) -> None:
    """Tasks are gone after a restart, then the stateless revision, then the session-based one."""
    async with client(target, "gate", "dual", says_yes) as peer:
        for flags in (("--both",), (), ("--modern",), ("--both", "--tasks")):
            log = str(target.folder / "dual.heard")
            target.configure("dual", args=[str(SERVERS / "asks.py"), *flags, "--log", log])
            await eventually(lambda: target.running.wait_for("dual") or True, "dual connected")
            assert await asked_back(peer, "gate", "dual", ELICIT) == {"answers": ELICIT}, flags


async def test_a_client_that_never_answers_holds_only_its_own_call(target: Target) -> None:
    forever = anyio.Event()

    async def never(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        await forever.wait()
        return {}

    async with client(target, "gate", "dual", never) as silent, client(target, "gate", "dual", says_yes) as peer:
        await asked_back(peer, "gate", "dual", ELICIT)
        asking = wrapped("gate", "dual", "ask", {"method": "elicitation/create", "params": FORM})
        pending = await silent.begin("tools/call", asking)
        await silent.hear_question()
        assert await asked_back(peer, "gate", "dual", ELICIT) == {"answers": ELICIT}
        word = fresh("line")
        await called(peer, "gate", "dual", "log", text=word)
        await peer.hear("notifications/message", data=word)
        assert word not in json.dumps(silent.heard)
        assert not pending.done.is_set()


@pytest.mark.proves("UP-5")
@DOORS
async def test_the_first_call_does_not_outrun_the_stream_of_its_session(target: Target, door: str) -> None:
    """The server opens that stream late, and drops what it asks beside a call while there is none."""
    for _ in range(3):
        async with client(target, door, "late", says_yes) as peer:
            said = await called(peer, door, "late", "ask", method="elicitation/create", params=FORM, outside=True)
            assert said["result"] == {"answers": "elicitation/create"}


def line(word: str) -> str:
    said = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": word}}
    return json.dumps(said)


async def begun(target: Target, server: str, mark: str) -> None:
    await eventually(lambda: any(each.get("mark") == mark for each in target.log(server).messages()), mark)


async def cancelled_call(target: Target, peer: Peer, door: str, server: str, *steps: Mapping[str, Any]) -> None:
    mark = fresh("given-up")
    pending = await peer.begin("tools/call", wrapped(door, server, "play", {"mark": mark, "steps": steps}))
    await begun(target, server, mark)
    await peer.cancel(pending)
    await eventually(lambda: target.log(server).given_up(mark), f"{mark} cancelled")


async def played(peer: Peer, door: str, server: str, *steps: Mapping[str, Any]) -> None:
    arguments = {"mark": fresh(), "steps": [*steps, {"own": DONE}]}
    await peer.request("tools/call", wrapped(door, server, "play", arguments))


@pytest.mark.proves("UP-5", "UP-11")
@ERAS
@DOORS
async def test_a_cancelled_call_silences_no_other_call(target: Target, door: str, era: str) -> None:
    """The protocol asks of the server not to answer it, so that it stays unanswered for ever."""
    async with client(target, door, "quiet", era=era) as peer, client(target, door, "quiet", era=era) as other:
        for each in (peer, other):
            each.log_level = "debug"
        await cancelled_call(target, peer, door, "quiet")
        for each in (peer, other):
            word = fresh("line")
            await played(each, door, "quiet", {"aside": line(word)})
            await each.hear("notifications/message", data=word)


@pytest.mark.proves("UP-5", "SEC-2")
@pytest.mark.parametrize("door", ["gate", "direct"])
async def test_what_a_cancelled_call_still_says_is_told_to_no_other_agent(target: Target, door: str) -> None:
    """Where tokens limit who may see what, a line that may be of either call is told to neither."""
    tokens: list[str] = []
    server = f"agents-{door}"
    for name in (fresh("ann"), fresh("bob")):
        made = target.running.post("/tokens", {"name": name, "servers": [server], "operations": ["read"]})
        assert made.status_code == 201, made.text
        tokens.append(made.json()["token"])
    secret, word = fresh("secret"), fresh("line")
    with latch(target.folder) as go, latch(target.folder) as said:
        async with (
            client(target, door, server, token=tokens[0]) as ann,
            client(target, door, server, token=tokens[1]) as bob,
        ):
            steps = {"wait": str(go)}, {"aside": line(secret)}, {"done": str(said)}
            await cancelled_call(target, ann, door, server, *steps)
            arguments = {"mark": fresh(), "steps": [{"wait": str(said)}, {"own": DONE}]}
            pending = await bob.begin("tools/call", wrapped(door, server, "play", arguments))
            await begun(target, server, arguments["mark"])
            release(go)
            await pending.result()
            assert secret not in json.dumps(bob.heard)
            await played(ann, door, server, {"aside": line(word)})
            await ann.hear("notifications/message", data=word)


async def test_nor_is_a_refused_tool_a_way_to_another_call(target: Target) -> None:
    """Without the tasks extension, which passthrough leaves to the client, the server's refusal stays an error."""
    async with client(target, "passthrough", "dual", says_yes) as peer:
        with pytest.raises(RpcError, match="task only") as failure:
            await peer.request("tools/call", wrapped("passthrough", "dual", "needs_task", {}))
        assert failure.value.code == -32021
