"""Servers, clients and persons that make something else of the offer of a login (UP-9, SEC-1)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx
import pytest

from tests.attacks.target import eventually
from tests.support.authserver import AuthServer, as_json, auth_server
from tests.support.browser import visit
from tests.support.gateway import Running, gateway
from tests.support.links import HttpLink
from tests.support.peer import Answer, Message, Peer, connected, silent
from tests.support.wire import HANDSHAKE, MODERN, RpcError, text

pytestmark = [pytest.mark.anyio, pytest.mark.proves("UP-9")]

NAME = "guarded"
ERAS = pytest.mark.parametrize("era", [MODERN, HANDSHAKE], ids=["modern", "handshake"])
ACCEPT: Mapping[str, Any] = {"action": "accept"}
LOOK = {"name": "call_tool_read", "arguments": {"name": f"{NAME}:look", "intent": {"operation_type": "read"}}}
CHANGE = {"name": "call_tool_write", "arguments": {"name": f"{NAME}:change", "intent": {"operation_type": "write"}}}
MANY = 20


@pytest.fixture
def auth() -> Iterator[AuthServer]:
    with auth_server() as found:
        yield found


@contextlib.contextmanager
def waiting(auth: AuthServer, path: Path, **settings: Any) -> Iterator[Running]:
    """A gateway whose one server waits for a login."""
    with gateway(path / "data", {**auth.config, **settings}, wait=False) as running:
        running.wait_for(NAME, state="needs_login")
        yield running


@contextlib.asynccontextmanager
async def client(running: Running, era: str, answer: Answer = silent, **options: Any) -> AsyncIterator[Peer]:
    async with connected(HttpLink(running.mcp, **options), era, answer) as peer:
        yield peer


async def accepts(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    return ACCEPT


async def logs_in(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    await anyio.to_thread.run_sync(visit, params["url"])
    return ACCEPT


async def said(peer: Peer, what: Message = LOOK) -> str:
    return text(await peer.request("tools/call", what))


def token(running: Running, name: str, *servers: str) -> str:
    terms = {"name": name, "servers": [*servers], "operations": ["read", "write"]}
    answer = running.post("/tokens", terms)
    assert answer.status_code == 201, answer.text
    return answer.json()["token"]


# What a server says of where to log in.

PAGES = {
    "a script": "javascript:alert(document.domain)//", "a document": "data:text/html,<script>alert(1)</script>",
    "a file": "file:///etc/passwd", "a cloud's credentials": "http://169.254.169.254/latest/meta-data",
    "a password for somebody else": "http://login.example@127.0.0.1:1/\u202e", "nothing": "",
    "a command": "vscode://extension/run?x=1", "a list": ["http://127.0.0.1:1/"],
}  # fmt: skip


@ERAS
@pytest.mark.parametrize("page", PAGES)
async def test_a_page_that_is_none_is_offered_to_nobody(auth: AuthServer, tmp_path: Path, era: str, page: str) -> None:
    """It was fine when the server was looked at first, or nobody would be asked to log in at all."""
    with waiting(auth, tmp_path) as running:
        auth.metadata["authorization_endpoint"], discovered = PAGES[page], len(auth.issuer.asked)
        async with client(running, era) as peer:
            answers = [await said(peer) for _ in range(MANY)]
            assert peer.asked == []
        assert all(f"mcpproxy upstream login {NAME}" in each for each in answers)
        assert "does not work just now" in answers[0]
        assert not any(str(PAGES[page] or "\0") in each for each in answers), "its words are not for an agent"
        assert len(auth.issuer.asked) - discovered <= 4, "one try, and not one for each call"


@ERAS
async def test_the_page_of_another_machine_is_shown_with_its_own_name_and_gets_no_token(
    auth: AuthServer, tmp_path: Path, era: str
) -> None:
    """A page elsewhere is what servers have; what a person is told is where it is, in the gateway's words."""
    auth.metadata["authorization_endpoint"] = "http://127.0.0.1:9/enter?state=mine&note=log+in+at+bank.example"

    async def looks(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        assert "The page is at http://127.0.0.1:9." in params["message"]
        assert "bank.example" not in params["message"]
        assert "state=mine" not in params["url"]
        return {"action": "decline"}

    with waiting(auth, tmp_path) as running:
        async with client(running, era, looks) as peer:
            assert "the person declined" in await said(peer)
            assert len(peer.asked) == 1


# Clients that do not do what they say.


@ERAS
async def test_who_accepts_and_never_logs_in_waits_no_longer_than_an_answer_may_take(
    auth: AuthServer, tmp_path: Path, era: str
) -> None:
    with waiting(auth, tmp_path, limits={"input_timeout": 2}) as running:
        async with client(running, era, accepts) as peer:
            answers: list[str] = []

            async def one() -> None:
                answers.append(await said(peer))

            async with anyio.create_task_group() as tasks:
                for _ in range(MANY):
                    tasks.start_soon(one)
        assert len(answers) == MANY
        assert all("nobody logged in within 2 s" in each for each in answers)
        assert len({params["url"] for _, params in peer.asked}) == 1
        assert auth.counts["register"] == 1, "many calls are one login"
        assert auth.calls["look"] == 0


@ERAS
@pytest.mark.parametrize("answer", [{}, {"action": None}, {"action": ["accept"]}, {"action": "yes", "content": {}},
                                    {"action": "accept\n"}])  # fmt: skip
async def test_only_a_plain_yes_is_one(auth: AuthServer, tmp_path: Path, era: str, answer: Message) -> None:
    async def says(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return answer

    with waiting(auth, tmp_path) as running:
        async with client(running, era, says) as peer:
            assert "A login was offered" in await said(peer)
    assert auth.calls["look"] == 0


@ERAS
async def test_a_yes_with_a_code_of_its_own_logs_nobody_in(auth: AuthServer, tmp_path: Path, era: str) -> None:
    """The answer of a login comes in by the browser, and what a client says beside its yes is nothing."""

    async def smuggles(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        ended = await anyio.to_thread.run_sync(lambda: visit(params["url"], goes_home=False))
        return {**ACCEPT, "content": {"url": ended, "code": ended}, "url": ended, "_meta": {"url": ended}}

    with waiting(auth, tmp_path, limits={"input_timeout": 2}) as running:
        async with client(running, era, smuggles) as peer:
            assert "nobody logged in within 2 s" in await said(peer)
        shown = str(running.activities()) + running.stderr()
        assert not any(secret in shown for secret in auth.secrets)
    assert auth.counts["authorization_code"] == auth.calls["look"] == 0


@ERAS
async def test_a_client_that_gives_up_ends_its_own_call_and_no_other(
    auth: AuthServer, tmp_path: Path, era: str
) -> None:
    go_on = anyio.Event()

    async def later(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        await go_on.wait()
        return await logs_in(method, params)

    with waiting(auth, tmp_path) as running:
        async with client(running, HANDSHAKE, later) as staying, client(running, era, accepts) as leaving:
            answers: list[str] = []

            async def stays() -> None:
                answers.append(await said(staying))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stays)
                await staying.hear_question()
                pending = await leaving.begin("tools/call", CHANGE)
                if era == MODERN:
                    asked = await pending.result()
                    again = {"requestState": asked["requestState"],
                             "inputResponses": dict.fromkeys(asked["inputRequests"], ACCEPT)}  # fmt: skip
                    pending = await leaving.begin("tools/call", {**CHANGE, **again})
                    with pytest.raises(TimeoutError):  # it waits for the login
                        await pending.result(0.2)
                else:
                    await leaving.hear_question()
                await leaving.cancel(pending)
                await eventually(
                    lambda: [each["status"] for each in running.activities(tool="change")] == ["cancelled"],
                    "the end of the call that was given up",
                )
                go_on.set()
            assert answers == ["did look"]
    assert auth.calls["change"] == 0
    assert auth.counts["register"] == 1


async def test_an_answer_to_the_question_of_another_call_is_none(auth: AuthServer, tmp_path: Path) -> None:
    with waiting(auth, tmp_path) as running:
        mine, other = (token(running, each, NAME) for each in ("mine", "other"))
        async with client(running, MODERN, token=mine) as one, client(running, MODERN, token=other) as two:
            first = await (await one.begin("tools/call", LOOK)).result()
            second = await (await two.begin("tools/call", LOOK)).result()
            assert first["resultType"] == second["resultType"] == "input_required"
            said_yes = {"inputResponses": dict.fromkeys(first["inputRequests"], ACCEPT)}
            forged = [
                (two, LOOK, first["requestState"]), (one, CHANGE, first["requestState"]),
                (one, LOOK, second["requestState"]), (one, LOOK, f"{first['requestState']}x"),
            ]  # fmt: skip
            for peer, what, state in forged:
                with pytest.raises(RpcError):
                    await (await peer.begin("tools/call", {**what, **said_yes, "requestState": state})).result()
        assert auth.calls["look"] == auth.calls["change"] == 0


async def test_an_answer_in_the_session_of_another_client_is_none(auth: AuthServer, tmp_path: Path) -> None:
    asked: list[Any] = []

    class Telling(HttpLink):
        async def _take(self, answer: httpx.Response, own: int | None) -> None:
            receive = self.receive

            async def told(message: Message) -> None:
                if "method" in message and "id" in message:
                    asked.append(message["id"])
                await receive(message)

            self.receive = told
            await super()._take(answer, own)

    async def never(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        await anyio.sleep_forever()
        return {}

    with waiting(auth, tmp_path) as running:
        async with connected(Telling(running.mcp), HANDSHAKE, never) as one, client(running, HANDSHAKE) as two:
            pending = await one.begin("tools/call", LOOK)
            await one.hear_question()
            for action in ("decline", "accept", "cancel"):
                answer = {"jsonrpc": "2.0", "id": asked[0], "result": {"action": action}}
                await two.link.send(answer, {"mcp-protocol-version": HANDSHAKE})
            with pytest.raises(TimeoutError):
                await pending.result(0.5)
            await anyio.to_thread.run_sync(visit, one.asked[0][1]["url"])
            assert text(await pending.result()) == "did look"


# What changes while somebody waits.


@ERAS
async def test_a_freeze_ends_the_waiting_and_a_login_after_it_lets_nothing_through(
    auth: AuthServer, tmp_path: Path, era: str
) -> None:
    async def freezes(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        assert (await anyio.to_thread.run_sync(running.post, "/freeze")).status_code == 200
        return ACCEPT

    with waiting(auth, tmp_path) as running:
        async with client(running, era, freezes) as peer:
            assert "frozen" in await said(peer, CHANGE)
            await anyio.to_thread.run_sync(visit, peer.asked[0][1]["url"])
            await anyio.to_thread.run_sync(running.wait_for, NAME)
            assert "frozen" in await said(peer, CHANGE)
            assert len(peer.asked) == 1
    assert auth.calls["change"] == 0


@ERAS
async def test_a_frozen_gateway_offers_no_login(auth: AuthServer, tmp_path: Path, era: str) -> None:
    with waiting(auth, tmp_path) as running:
        assert running.post("/freeze").status_code == 200
        async with client(running, era) as peer:
            assert f"mcpproxy upstream login {NAME}" in await said(peer)
            assert peer.asked == []


@ERAS
async def test_a_token_that_is_revoked_while_its_person_logs_in_gets_no_result(
    auth: AuthServer, tmp_path: Path, era: str
) -> None:
    async def revoked_first(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = await anyio.to_thread.run_sync(running.post, "/tokens/short/revoke")
        assert answer.status_code == 200, answer.text
        return await logs_in(method, params)

    with waiting(auth, tmp_path) as running:
        async with client(running, era, revoked_first, token=token(running, "short", NAME)) as peer:
            with anyio.move_on_after(10), contextlib.suppress(RpcError, httpx.TransportError):
                assert "did" not in await said(peer, CHANGE)
    assert auth.calls["change"] == 0


# Who is offered one.


@ERAS
async def test_an_agent_out_of_whose_scope_the_server_is_hears_nothing_of_a_login(
    auth: AuthServer, tmp_path: Path, era: str
) -> None:
    with waiting(auth, tmp_path) as running:
        async with client(running, era, token=token(running, "outside", "catalog")) as peer:
            answer = await said(peer)
            assert "not found" in answer and "login" not in answer
            assert peer.asked == []
        assert running.activities(tool="offer_login") == []
    assert auth.counts["register"] == 0


@ERAS
@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "x-real-ip"])
async def test_who_comes_through_a_proxy_is_sent_to_no_page_of_this_machine(
    auth: AuthServer, tmp_path: Path, era: str, header: str
) -> None:
    with waiting(auth, tmp_path) as running:
        async with connected(HttpLink(running.mcp, **{header: "203.0.113.9"}), era) as peer:
            assert f"mcpproxy upstream login {NAME}" in await said(peer)
            assert peer.asked == []
    assert auth.counts["register"] == 0


async def test_two_agents_at_once_get_one_login_and_each_only_its_own_call(auth: AuthServer, tmp_path: Path) -> None:
    both = anyio.Event()
    shown: list[str] = []

    async def together(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        shown.append(params["url"])
        if len(shown) == 2:
            both.set()
        await both.wait()
        return await logs_in(method, params) if len(set(shown)) == 1 and shown[-1] is params["url"] else ACCEPT

    with waiting(auth, tmp_path) as running:
        tokens = [token(running, each, NAME) for each in ("amber", "birch")]
        answers: dict[str, str] = {}
        async with (
            client(running, MODERN, together, token=tokens[0]) as one,
            client(running, HANDSHAKE, together, token=tokens[1]) as two,
            anyio.create_task_group() as tasks,
        ):

            async def calls(peer: Peer, what: Message) -> None:
                answers[what["name"]] = await said(peer, what)

            tasks.start_soon(calls, one, LOOK)
            tasks.start_soon(calls, two, CHANGE)
        assert answers == {"call_tool_read": "did look", "call_tool_write": "did change"}
        assert len(shown) == 2 and len(set(shown)) == 1
        by = {(each["principal"], each["server"]) for each in running.activities(tool="offer_login")}
        assert {server for _, server in by} == {NAME} and len(by) == 2
    assert auth.counts["register"] == 1
    assert auth.calls == {"look": 1, "change": 1}


@ERAS
async def test_a_server_that_takes_the_login_and_refuses_its_token_holds_nobody(
    auth: AuthServer, tmp_path: Path, era: str
) -> None:
    with waiting(auth, tmp_path) as running:
        auth.faults["/mcp"] = lambda asked: as_json({}, 401, **{"www-authenticate": "Bearer"})
        async with client(running, era, logs_in) as peer:
            assert "needs a login" in await said(peer)
            assert len(peer.asked) == 1
        assert auth.counts["authorization_code"] == 1


async def test_the_address_that_was_offered_is_nowhere_but_at_the_client(auth: AuthServer, tmp_path: Path) -> None:
    with waiting(auth, tmp_path, log={"level": "debug"}) as running:
        async with client(running, HANDSHAKE, logs_in) as peer:
            assert await said(peer) == "did look"
        query = urlsplit(peer.asked[0][1]["url"]).query
        state = dict(each.split("=", 1) for each in query.split("&"))["state"]
        running.catch_up()
        shown = str(running.activities()) + running.stderr()
        kept = [each.read_bytes() for each in running.data_dir.rglob("*") if each.is_file()]
        for secret in (state, query, *auth.secrets):
            assert secret not in shown
            assert not any(secret.encode() in each for each in kept)


class NeverEnough(dict[str, str]):
    """Whatever was given, another permission is wanted."""

    def get(self, name: str, default: Any = None) -> Any:
        self[name] = f"more-{len(self.get_all)}"
        self.get_all.append(name)
        return self[name]

    def __init__(self) -> None:
        super().__init__()
        self.get_all: list[str] = []


@ERAS
async def test_a_server_that_never_has_enough_permissions_asks_once_a_call(
    auth: AuthServer, tmp_path: Path, era: str
) -> None:
    with waiting(auth, tmp_path) as running:
        async with client(running, era, logs_in) as peer:
            assert text(await peer.request("tools/call", LOOK)) == "did look"
            auth.needs = NeverEnough()
            said = await peer.request("tools/call", CHANGE)
            assert said["isError"] and "one more permission" in text(said)
            assert len(peer.asked) == 2
            assert len(auth.needs.get_all) == 2
    assert auth.calls["change"] == 0


@pytest.mark.parametrize("scope", ["", "write " * 2000, 'wr\\"ite', "\u202eetirw", "read"])
async def test_no_permission_that_cannot_be_one_is_offered(auth: AuthServer, tmp_path: Path, scope: str) -> None:
    """None, one of kilobytes, one that ends its quotes, one that turns the text around, and one that was given."""
    with waiting(auth, tmp_path) as running:
        async with client(running, MODERN, logs_in) as peer:
            assert text(await peer.request("tools/call", LOOK)) == "did look"
            header = f'Bearer error="insufficient_scope", scope="{scope}"'.encode().decode("latin-1")
            auth.faults["/mcp"] = lambda asked: as_json({}, 403, **{"www-authenticate": header})
            assert (await peer.request("tools/call", CHANGE))["isError"]
            assert len(peer.asked) == 1
    assert auth.calls["change"] == 0
