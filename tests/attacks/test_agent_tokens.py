"""Tokens of agents: stolen, forged, put back, shared, used where they open nothing, and after they ended (SEC-2)."""

from __future__ import annotations

import base64
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import psycopg
import pytest

from tests.attacks.raw import RawClient, attached
from tests.attacks.target import ALL_SURFACES, Target, declines, fresh, heard, latch, outcome, params
from tests.support.gateway import Running, clean_environment, gateway, until
from tests.support.links import HttpLink
from tests.support.peer import connected
from tests.support.postgres import own_server
from tests.support.replicas import documented, replicas
from tests.support.wire import HANDSHAKE, MODERN

pytestmark = [pytest.mark.proves("SEC-2"), pytest.mark.anyio]
INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "thief", "version": "1"}},
}  # fmt: skip
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
ACCEPT = {"accept": "application/json, text/event-stream"}
Sql = Callable[[str], list[Any]]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("tokens")
    servers = {"one": heard(folder, "one", "--modern"), "two": heard(folder, "two")}
    with gateway(folder / "data", {"surfaces": ALL_SURFACES, "mcpServers": servers}) as found:
        found.wait_for(*servers)
        yield Target(found, folder, servers)


def token(running: Running, name: str | None = None, **terms: Any) -> tuple[str, str]:
    """Its name and its secret."""
    name = name or fresh("t")
    answer = running.post("/tokens", {"name": name, **terms})
    assert answer.status_code == 201, answer.text
    return name, answer.json()["token"]


def end(running: Running, name: str) -> None:
    assert running.post(f"/tokens/{name}/revoke").status_code == 200


def knock(running: Running, secret: str | None = None, **headers: str) -> int:
    """The status of an `initialize`."""
    bearer = {"authorization": f"Bearer {secret}"} if secret is not None else {}
    with httpx.Client(timeout=60, trust_env=False) as client:
        return client.post(running.mcp, json=INITIALIZE, headers={**ACCEPT, **bearer, **headers}).status_code


def open_database(running: Running) -> Sql:
    def run(statement: str) -> list[Any]:
        with closing(sqlite3.connect(running.data_dir / "activity.db", timeout=60)) as connection, connection:
            return connection.execute(statement).fetchall()

    return run


def own_records(running: Running, secret: str) -> list[dict[str, Any]]:
    with httpx.Client(timeout=60, trust_env=False) as client:
        headers = {"authorization": f"Bearer {secret}"}
        answer = client.get(f"{running.url}/api/v1/activity?mine&limit=500", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["activities"]


def far_end(running: Running, wish: dict[str, Any]) -> AbstractContextManager[RawClient]:
    """Of the gateway's socket, as `mcpproxy stdio` is."""
    path = json.loads((running.data_dir / "gateway.json").read_text())["socket"]
    return attached(Path(path), json.dumps(wish).encode() + b"\n")


# Where it opens nothing.


OPEN = ("/api/v1/proof", "/api/v1/page/open")
"""What looks at no credential: who knows the nonce, or the code of a link that works once, is answered."""


def test_it_opens_one_route_of_rest_and_there_its_own_records_alone(target: Target) -> None:
    running = target.running
    name, secret = token(running)
    _, others = token(running)
    for each in (secret, others, None):
        assert knock(running, each) == 200
    mark = fresh()
    running.post("/call", {"variant": "read", "name": "one:look", "args": {"mark": mark},
                           "intent": {"operation_type": "read"}})  # fmt: skip
    document = running.get("/openapi.json")
    with httpx.Client(base_url=running.url, timeout=60, trust_env=False) as client:
        bearer = {"authorization": f"Bearer {secret}"}
        for path, methods in document["paths"].items():
            if not path.startswith("/api") or path in OPEN:
                continue
            shown = path.replace("{name}", name).replace("{id}", "1" * 32)
            for method in methods:
                for headers in (bearer, {"x-api-key": secret}):
                    answer = client.request(method, shown, headers=headers)
                    assert answer.status_code == 401, (method, path)
                if (method, path) != ("get", "/api/v1/activity"):
                    assert client.request(method, f"{shown}?mine", headers=bearer).status_code == 401, (method, path)
        assert client.get("/api/v1/activity?mine", headers={"x-api-key": secret}).status_code == 401
        assert client.head("/api/v1/activity?mine", headers=bearer).status_code == 401
        for query in ("mine", "mine=", "mine=true", "mine&principal=local", "mine&principal=admin&limit=500",
                      "principal=api&mine", "mine&q=mark", "mine&exclude_type=config_change"):  # fmt: skip
            answer = client.get(f"/api/v1/activity?{query}", headers=bearer)
            assert answer.status_code == 200, (query, answer.text)
            assert {row["principal"] for row in answer.json()["activities"]} <= {f"agent:{name}"}, query
        for path in ("/api/v1/activity/?mine", "/api/v1//activity?mine", "/api/v1/activity%3Fmine",
                     "/api/v1/activity/%2e%2e/config?mine", "/api/v1/config?mine", "/api/v1/activity?MINE",
                     "/api/v1/activity?min%65x"):  # fmt: skip
            assert client.get(path, headers=bearer).status_code in (401, 404), path


async def test_an_agent_reads_its_own_records_and_no_others(target: Target) -> None:
    running = target.running
    marks: dict[str, str] = {}
    for _ in range(2):
        secret = token(running)[1]
        marks[secret] = mark = fresh()
        async with connected(HttpLink(running.mcp, token=secret), MODERN, declines) as peer:
            assert (await outcome(peer.request("tools/call", params("gate", "one", "look", mark)))).ok
    running.catch_up()
    pages = {secret: own_records(running, secret) for secret in marks}
    for secret, mark in marks.items():
        assert [row["arguments"] for row in pages[secret]] == [{"mark": mark}]


def test_what_is_wrong_expired_or_revoked_is_never_taken_for_somebody_else(target: Target) -> None:
    """Nobody needs a credential here: who brings none is `local`, and who brings a wrong one is nobody."""
    running = target.running
    name, secret = token(running)
    assert [knock(running), knock(running, secret)] == [200, 200]
    for wrong in ("mcpp_wrong", secret[:-1], secret + "x", secret.upper(), f"{secret} {secret}", "guess", running.key):
        assert knock(running, wrong) == 401, wrong
    end(running, name)
    assert [knock(running), knock(running, secret)] == [200, 401]


def test_it_is_taken_from_the_one_header_and_from_nowhere_else(target: Target) -> None:
    running = target.running
    name, secret = token(running)
    with httpx.Client(timeout=60, trust_env=False) as client:
        places: tuple[tuple[str, dict[str, str]], ...] = (
            (f"?access_token={secret}", {}), (f"?token={secret}", {}), ("", {"cookie": f"token={secret}"}),
            ("", {"x-api-key": secret}), ("", {"proxy-authorization": f"Bearer {secret}"}),
        )  # fmt: skip
        for query, headers in places:
            answer = client.post(running.mcp + query, json=INITIALIZE, headers={**ACCEPT, **headers})
            session = answer.headers["mcp-session-id"]
            own = {**ACCEPT, "mcp-session-id": session, "authorization": f"Bearer {secret}"}
            asked = client.post(running.mcp, json=PING, headers=own)
            assert asked.status_code == 404, "the session belongs to nobody's token"
        basic = base64.b64encode(f"{name}:{secret}".encode()).decode()
        answer = client.get(f"{running.url}/api/v1/activity?mine&access_token={secret}")
        assert answer.status_code == 401
        answer = client.get(f"{running.url}/api/v1/activity?mine", headers={"authorization": f"Basic {basic}"})
        assert answer.status_code == 401


def test_a_token_of_one_gateway_opens_nothing_at_another(target: Target, tmp_path: Path) -> None:
    name, secret = token(target.running)
    with gateway(tmp_path / "data", {"surfaces": ["gate"], "mcp_token": "an-agent-token-0123456789"}) as other:
        token(other, name)
        assert knock(other, secret) == 401


def test_a_gateway_where_a_token_is_needed_starts_with_nothing_but_those_of_agents(tmp_path: Path) -> None:
    config = {"surfaces": ["gate"]}
    with gateway(tmp_path / "data", config) as first:
        name, secret = token(first)
    with gateway(tmp_path / "data", {**config, "require_mcp_auth": True}) as again:
        assert [knock(again), knock(again, secret), knock(again, again.key)] == [401, 200, 401]
        end(again, name)
    with gateway(tmp_path / "data", {**config, "require_mcp_auth": True}) as closed:
        assert [knock(closed), knock(closed, secret)] == [401, 401]


@pytest.mark.proves("API-2")
def test_metrics_name_servers_to_no_agent_and_to_no_process_without_a_key(tmp_path: Path) -> None:
    """On a gateway that wants tokens; the narrow one may see one server of the two."""
    servers = {name: heard(tmp_path, name, "--modern") for name in ("seen", "hidden")}
    agents = "an-agent-token-0123456789"
    config = {"surfaces": ALL_SURFACES, "mcp_token": agents, "mcpServers": servers}
    with gateway(tmp_path / "data", config) as running, httpx.Client(timeout=60, trust_env=False) as client:
        running.wait_for(*servers)
        _, narrow = token(running, servers=["seen"])
        both = ({"authorization": f"Bearer {each}"} for each in (narrow, agents))
        credentials = ({}, {"x-api-key": narrow}, *both)
        for headers in (*credentials, *({**each, "x-forwarded-for": "127.0.0.1"} for each in credentials)):
            for accept in ("text/plain", "application/openmetrics-text"):
                found = client.get(f"{running.url}/metrics", headers={"accept": accept, **headers})
                assert found.status_code == 401 and "hidden" not in found.text, (headers, found.text)
        assert 'server="hidden"' in client.get(f"{running.url}/metrics", headers={"x-api-key": running.key}).text


def test_somebody_elses_session_is_not_there_and_a_name_used_again_inherits_nothing(target: Target) -> None:
    running = target.running
    name, secret = token(running)
    _, other = token(running)
    with httpx.Client(timeout=60, trust_env=False) as client:
        opened = client.post(running.mcp, json=INITIALIZE, headers={**ACCEPT, "authorization": f"Bearer {secret}"})
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}

        def asked(given: str | None) -> int:
            bearer = {"authorization": f"Bearer {given}"} if given else {}
            return client.post(running.mcp, json=PING, headers={**ACCEPT, **session, **bearer}).status_code

        assert [asked(secret), asked(other), asked(None)] == [200, 404, 404]
        end(running, name)
        again = running.post("/tokens", {"name": name}).json()
        assert again["principal"] == f"agent:{name}/2"
        assert [asked(secret), asked(again["token"]), asked(None)] == [401, 404, 404]
        assert own_records(running, again["token"]) == []


# What somebody finds, or writes, who has the database.


def test_what_is_in_the_database_opens_nothing(target: Target) -> None:
    running = target.running
    name, secret = token(running)
    sql = open_database(running)
    ((text,),) = sql(f"SELECT value FROM sealed_records WHERE kind = 'token' AND name = '{name}'")
    assert secret not in text and secret.removeprefix("mcpp_") not in text
    digest = json.loads(text)["digest"]
    raw = bytes.fromhex(digest)
    encoded = base64.urlsafe_b64encode(raw).decode()
    for guess in (digest, f"mcpp_{digest}", encoded, encoded.rstrip("="), f"mcpp_{encoded}", raw.decode("latin-1")):
        if guess.isprintable():
            assert knock(running, guess.encode("latin-1", "ignore").decode("latin-1")) == 401
    ((seal,),) = sql(f"SELECT seal FROM sealed_records WHERE kind = 'token' AND name = '{name}'")
    assert knock(running, f"mcpp_{seal.split()[0]}") == 401


ROW = "value, version, event, seal, at"


@pytest.mark.proves("ACT-10")
@pytest.mark.parametrize("attack", [
    "UPDATE sealed_records SET ({row}) = (SELECT {row} FROM kept WHERE name = '{gone}') WHERE name = '{gone}'",
    "UPDATE sealed_records SET value = replace(value, '\"revoked\":', '\"revoked\":null,\"x\":') WHERE name = '{gone}'",
    "UPDATE sealed_records SET ({row}) = (SELECT {row} FROM kept WHERE name = '{kept}') WHERE name = '{gone}'",
    "INSERT INTO sealed_records SELECT kind, '{new}', {row} FROM kept WHERE name = '{gone}'",
    "UPDATE sealed_records SET name = '{gone}x' WHERE name = '{kept}'",
    "DELETE FROM sealed_records WHERE kind = 'token'",
])  # fmt: skip
def test_a_row_forged_changed_copied_or_put_back_opens_nothing(tmp_path: Path, attack: str) -> None:
    with gateway(tmp_path / "data", {"surfaces": ["gate"]}) as running:
        gone, stolen = token(running, "gone")
        kept, _ = token(running, "kept", operations=["read"])
        sql = open_database(running)
        sql("CREATE TABLE kept AS SELECT * FROM sealed_records")
        end(running, gone)
        sql(attack.format(row=ROW, gone=gone, kept=kept, new="new"))
        running.post("/tokens", {"name": "another"})  # whereupon all are read again
        assert knock(running, stolen) == 401
        running.catch_up()
        assert running.get("/activity/verify")["result"] == "broken"
        assert running.get("/status")["tokens"]["not_believed"] >= 1
    with gateway(tmp_path / "data", {"surfaces": ["gate"]}) as again:
        assert knock(again, stolen) == 401


def test_a_forged_token_opens_nothing_for_whoever_forged_it(tmp_path: Path) -> None:
    """Its digest is right, and its seal is not."""
    with gateway(tmp_path / "data", {"surfaces": ["gate"]}) as running:
        token(running, "real")
        with gateway(tmp_path / "mine", {"surfaces": ["gate"]}) as mine:
            _, secret = token(mine, "real")
            rows = open_database(mine)(f"SELECT {ROW} FROM sealed_records")
        with closing(sqlite3.connect(running.data_dir / "activity.db", timeout=60)) as connection, connection:
            into = f"INSERT INTO sealed_records (kind, name, {ROW})"
            connection.execute(f"{into} VALUES ('token', 'forged', ?, ?, ?, ?, ?)", rows[0])
            value, _, _, seal, _ = rows[0]
            connection.execute("UPDATE sealed_records SET (value, seal) = (?, ?) WHERE name = 'real'", (value, seal))
        running.post("/tokens", {"name": "another"})
        assert knock(running, secret) == 401
        states = {row["name"]: row["state"] for row in running.get("/tokens")["tokens"]}
        assert states == {"real": "not believed", "forged": "not believed", "another": "active"}
        assert running.post("/tokens/real/revoke").status_code == 200
        assert running.post("/tokens", {"name": "real"}).json()["principal"] != "agent:real"


# After it ended.


async def test_what_goes_on_ends_with_the_token(target: Target) -> None:
    """A call under way, and one that waits for its next round."""
    running = target.running
    name, secret = token(running)
    hanging, held = fresh(), fresh()
    with latch(target.folder) as file:
        async with anyio.create_task_group() as tasks:

            async def call_until_cut() -> None:
                with suppress(httpx.HTTPError, OSError, BaseExceptionGroup):
                    async with connected(HttpLink(running.mcp, token=secret), MODERN, declines) as peer:
                        asked = params("gate", "one", "look", hanging, until=str(file))
                        await outcome(peer.request("tools/call", asked))

            tasks.start_soon(call_until_cut)
            await target.log("one").wait_for(hanging)
            async with connected(HttpLink(running.mcp, token=secret), MODERN, declines) as peer:
                asked = params("gate", "two", "put_ask", held)
                round_ = await (await peer.begin("tools/call", asked)).result()
                assert round_.get("resultType") == "input_required"
            await anyio.to_thread.run_sync(end, running, name)
            await anyio.to_thread.run_sync(until, lambda: target.log("one").given_up(hanging), 60, "the call's end")
            tasks.cancel_scope.cancel()
    assert {row["status"] for row in target.ended(hanging)} == {"cancelled"}
    assert {row["status"] for row in target.ended(held)} == {"cancelled"}


@pytest.mark.parametrize("ends", ["revoke", "rotate"])
def test_streams_and_attached_clients_end_with_the_token_and_not_with_its_secret(target: Target, ends: str) -> None:
    running = target.running
    name, secret = token(running)
    with far_end(running, {"surface": "gate", "token": secret}) as far, listening_at(running, secret) as stream:
        assert far.line()["ok"] is True
        if ends == "rotate":
            answer = running.post(f"/tokens/{name}/rotate", {"grace": "0"})
            assert far.send(json.dumps(INITIALIZE).encode() + b"\n")
            assert "serverInfo" in far.line()["result"], "who it is stays, and so does its connection"
            secret = answer.json()["token"]
        end(running, name)
        assert far.rest() == b"" and over(stream)
    assert knock(running, secret) == 401


async def test_what_waits_for_a_persons_yes_is_not_sent_after_the_token_ended(target: Target) -> None:
    running = target.running
    target.configure("two", confirm="write")
    try:
        name, secret = token(running)
        mark = fresh()
        link = HttpLink(running.mcp, token=secret)

        async def late(method: str, asked: Any) -> Any:
            await anyio.to_thread.run_sync(end, running, name)
            return {"action": "accept", "content": {"answer": "yes"}}

        with anyio.move_on_after(60), suppress(BaseExceptionGroup, httpx.HTTPError, OSError):
            async with connected(link, HANDSHAKE, late, capabilities={"elicitation": {}}) as peer:
                await outcome(peer.request("tools/call", params("gate", "two", "put", mark)))
        await target.marker("gate", "two", MODERN)
        assert not target.log("two").calls(mark)
    finally:
        target.configure("two")


def test_an_old_secret_lives_for_its_grace_and_no_longer(target: Target) -> None:
    running = target.running
    name, first = token(running)
    second = running.post(f"/tokens/{name}/rotate", {"grace": "1h"}).json()["token"]
    assert [knock(running, each) for each in (first, second)] == [200, 200]
    third = running.post(f"/tokens/{name}/rotate", {"grace": "0"}).json()["token"]
    assert [knock(running, each) for each in (first, second, third)] == [401, 401, 200]
    end(running, name)
    assert knock(running, third) == 401
    assert running.post(f"/tokens/{name}/rotate", {}).status_code == 409


@pytest.mark.parametrize("ends", ["revoke", "rotate", "revoke and make again"])
def test_the_very_same_request_on_the_same_connection_is_asked_each_time_whether_it_may(
    target: Target, ends: str
) -> None:
    """Byte for byte what was let in a moment ago, when the gateway knows its head."""
    running = target.running
    name, secret = token(running)
    headers = {**ACCEPT, "authorization": f"Bearer {secret}"}
    with httpx.Client(timeout=60, trust_env=False, headers=headers) as agent:
        assert [agent.post(running.mcp, json=INITIALIZE).status_code for _ in range(3)] == [200, 200, 200]
        if ends == "rotate":
            running.post(f"/tokens/{name}/rotate", {"grace": "0"}).raise_for_status()
        else:
            end(running, name)
        if ends == "revoke and make again":
            _, other = token(running, name)
            assert knock(running, other) == 200
        assert [agent.post(running.mcp, json=INITIALIZE).status_code for _ in range(3)] == [401, 401, 401]
    assert (knock(running, secret), knock(running)) == (401, 200)


# How often.


@pytest.mark.proves("SEC-7")
async def test_who_asks_too_often_is_refused_with_how_long_to_wait_and_cannot_fill_the_record(target: Target) -> None:
    running = target.running
    name, secret = token(running, rate="3/h")
    _, other = token(running)
    marks = [fresh() for _ in range(12)]
    async with connected(HttpLink(running.mcp, token=secret), MODERN, declines) as peer:
        found = [await outcome(peer.request("tools/call", params("gate", "one", "look", mark))) for mark in marks]
    assert [one.ok for one in found] == [True] * 3 + [False] * 9
    assert {one.code for one in found[3:]} == {"OVERLOADED"}
    refusal = found[-1].result["structuredContent"]
    assert "3/h" in refusal["message"] and "ask again in" in refusal["message"], refusal
    async with connected(HttpLink(running.mcp, token=other), MODERN, declines) as peer:
        assert (await outcome(peer.request("tools/call", params("gate", "one", "look", fresh())))).ok
    assert not any(target.log("one").calls(mark) for mark in marks[3:])
    rows = running.activities(principal=f"agent:{name}")
    assert len([row for row in rows if row["status"] == "success"]) == 3
    assert len(rows) < 6, "what is refused for that is counted"


# What it leaves.


async def test_the_secret_is_nowhere_but_with_its_agent(target: Target) -> None:
    running = target.running
    name, secret = token(running, note="for a test")
    file = target.folder / f"{name}.token"
    file.write_text(secret)
    async with connected(HttpLink(running.mcp, token=secret), MODERN, declines) as peer:
        asked = params("gate", "one", "look", fresh())
        asked["arguments"]["args"]["text"] = f"my token is {secret}"
        await outcome(peer.request("tools/call", asked))
    await anyio.to_thread.run_sync(_over_stdio, running, file, secret)
    _assert_nowhere(target, name, secret)


def _over_stdio(running: Running, file: Path, secret: str) -> None:
    program = [sys.executable, "-m", "mcpproxy_py", "stdio", "--token-file", str(file), "--data-dir",
               str(running.data_dir)]  # fmt: skip
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_environment()) as bridge:
        assert bridge.stdin and bridge.stdout
        bridge.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        bridge.stdin.flush()
        assert b"serverInfo" in bridge.stdout.readline()
        shown = Path(f"/proc/{bridge.pid}/cmdline")
        assert not shown.exists() or secret.encode() not in shown.read_bytes()
        bridge.stdin.close()


def _assert_nowhere(target: Target, name: str, secret: str) -> None:
    running = target.running
    knock(running, secret + "x")
    rotated = running.post(f"/tokens/{name}/rotate", {}).json()["token"]
    end(running, name)
    running.catch_up()
    said = [running.stderr(), target.journal(), running.client.get("/metrics").text]
    said += [json.dumps(running.get(path)) for path in ("/tokens", f"/tokens/{name}", "/status", "/config")]
    said += [json.dumps(running.activities())]
    said += [line for (line,) in open_database(running)("SELECT value FROM sealed_records")]
    said += [line for (line,) in open_database(running)("SELECT head FROM events")]
    for each in (secret, secret.removeprefix("mcpp_"), rotated):
        assert not any(each in text for text in said)


def test_the_socket_takes_no_token_that_opens_nothing(target: Target) -> None:
    running = target.running
    name, secret = token(running)
    with far_end(running, {"surface": "gate", "token": secret}) as far:
        assert far.line()["ok"] is True
    end(running, name)
    for wrong in (secret, "mcpp_x", "", 7, [secret], {"token": secret}):
        with far_end(running, {"surface": "gate", "token": wrong}) as far:
            assert "opens nothing" in far.line()["error"]
    with far_end(running, {"surface": "gate"}) as far:
        assert far.line()["ok"] is True


# Two gateways on one database.


@contextmanager
def listening_at(running: Running, secret: str) -> Iterator[httpx.Response]:
    """A stream of the handshake era on which this agent listens."""
    bearer = {"authorization": f"Bearer {secret}"}
    with httpx.Client(timeout=60, trust_env=False) as client:
        opened = client.post(running.mcp, json=INITIALIZE, headers={**ACCEPT, **bearer})
        assert opened.status_code == 200, opened.text
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        headers = {"accept": "text/event-stream", **session, **bearer}
        with client.stream("GET", running.mcp, headers=headers) as stream:
            yield stream


def over(stream: httpx.Response) -> bool:
    """Its end, however it comes."""
    try:
        for _ in stream.iter_lines():
            continue
    except httpx.HTTPError:
        pass
    return True


@pytest.mark.proves("ACT-6")
def test_a_token_revoked_at_one_replica_ends_at_the_other(tmp_path: Path) -> None:
    with own_server() as server:
        url = server.database()
        with replicas(tmp_path, url, documented(mcpServers={}, surfaces=["gate"])) as (one, two):
            name, secret = token(one)
            until(lambda: knock(two, secret) == 200, what="the token at the other gateway")
            with listening_at(one, secret) as here, listening_at(two, secret) as there:
                end(one, name)
                assert over(here) and over(there)
            assert [knock(one, secret), knock(two, secret)] == [401, 401]
            with psycopg.connect(url.replace("postgresql+psycopg", "postgresql"), autocommit=True) as connection:
                connection.execute(
                    'UPDATE sealed_records SET value = replace(value, \'"revoked":\', \'"revoked":null,"x":\')'
                )
                connection.execute("""SELECT pg_notify('mcpproxy', '["an attacker", "record", ["token", "x"]]')""")
            until(lambda: two.get("/status")["tokens"]["not_believed"] == 1, what="the forgery noticed")
            assert [knock(one, secret), knock(two, secret)] == [401, 401]
