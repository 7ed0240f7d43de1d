"""Modern clients whose rounds land on different gateways, and news that has to reach the clients of all of them.

Two gateways as documented, one PostgreSQL, and a load balancer that never gives two requests in a row to the same.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.providers.test_elicitation_journey import PROVIDER
from tests.support.balancer import Balancer, balanced
from tests.support.everything import over_http, over_stdio
from tests.support.gateway import Running, python_server, until
from tests.support.links import HttpLink
from tests.support.peer import Message, Peer, connected
from tests.support.postgres import Server, own_server
from tests.support.replicas import TOKEN, documented, replicas
from tests.support.wire import HANDSHAKE, MODERN, RpcError, Wire, text

pytestmark = [pytest.mark.anyio, pytest.mark.proves("ACT-6", "SURF-6")]
TOOLS_CHANGED = "notifications/tools/list_changed"
PROMPTS_CHANGED = "notifications/prompts/list_changed"
ERAS = pytest.mark.parametrize("era", [MODERN, HANDSHAKE], ids=["modern", "handshake"])


@dataclass(frozen=True)
class Pair:
    gateways: list[Running]
    url: str
    balancer: Balancer

    @asynccontextmanager
    async def client(self, era: str = MODERN, path: str = "/mcp", at: int | None = None) -> AsyncIterator[Peer]:
        """Of the address that clients know, or of one gateway."""
        url = self.url if at is None else self.gateways[at].url
        async with connected(HttpLink(url + path, token=TOKEN), era) as peer:
            yield peer

    def rows(self, **filters: Any) -> list[dict[str, Any]]:
        return self.gateways[0].activities(**filters)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with own_server() as server:
        yield server


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("replicas")
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(over_http("--era", "modern"))
        servers = {
            "modern": {"url": url},
            "apart": python_server("asks.py", "--modern"),
            "held": over_stdio("--era", "handshake", "--notes", str(folder / "notes")),
            "asks": python_server("asks.py"),
        }
        config = documented(mcpServers=servers, surfaces=["gate", "direct", "passthrough"],
                            providers={"shop": "shop:Shop"})  # fmt: skip
        files = {"shop.py": PROVIDER}
        gateways = stack.enter_context(replicas(folder, server.database(), config, files=files))
        for running in gateways:
            running.wait_for("shop", "catalog")
        address, balancer = stack.enter_context(balanced(*(running.url for running in gateways)))
        yield Pair(gateways, address, balancer)


def gated(name: str, variant: str = "write", **args: Any) -> Message:
    intent = {"operation_type": variant}
    return {"name": f"call_tool_{variant}", "arguments": {"name": name, "args": args, "intent": intent}}


async def turn(peer: Peer, params: Message) -> Message:
    """One request, and whatever comes back."""
    return await (await peer.begin("tools/call", params)).result()


def retry(params: Message, round_: Message, **content: Any) -> Message:
    """The request again, with an answer to each question of this round."""
    assert round_.get("resultType") == "input_required", round_
    said = {key: {"action": "accept", "content": content} for key in round_["inputRequests"]}
    state = {"requestState": round_["requestState"]}
    return {**params, "inputResponses": said, **state}


async def refusal(peer: Peer, params: Message) -> str:
    with pytest.raises(RpcError) as caught:
        await turn(peer, params)
    return str(caught.value)


# Rounds.


async def test_a_call_whose_every_round_lands_on_another_gateway_is_one_call_with_one_row(pair: Pair) -> None:
    params = gated("modern:test_input_required_result_multi_round")
    before = [*pair.balancer.served]
    async with pair.client() as peer:
        first = await turn(peer, params)
        second = await turn(peer, retry(params, first, name="Ada"))
        done = await turn(peer, retry(params, second, color="green"))
    assert text(done) == "Ada likes green"
    assert sorted(now - then for now, then in zip(pair.balancer.served, before, strict=True)) == [1, 2]
    for running in pair.gateways:
        (row,) = running.activities(tool="test_input_required_result_multi_round")
        assert (row["status"], text(row["response"])) == ("success", "Ada likes green")


async def test_each_gateway_may_have_a_process_of_its_own_of_a_server_that_keeps_no_state(pair: Pair) -> None:
    params = gated("apart:ask", method="elicitation/create", params={"message": "Go?", "requestedSchema": {}})
    async with pair.client() as peer:
        first = await turn(peer, params)
        assert '"yes": true' in text(await turn(peer, retry(params, first, yes=True)))


async def test_a_provider_that_asks_goes_on_at_the_other_gateway(pair: Pair) -> None:
    params = gated("shop:interview")
    async with pair.client() as peer:
        first = await turn(peer, params)
        second = await turn(peer, retry(params, first, name="Ada"))
        assert text(await turn(peer, retry(params, second, name="Lovelace"))) == "Ada Lovelace"
    assert [row["status"] for row in pair.rows(tool="interview")] == ["success"]


async def test_a_held_call_goes_on_where_it_waits_and_elsewhere_hears_that_the_server_may_have_acted(
    pair: Pair,
) -> None:
    params = gated("held:ask", who="olga")
    async with pair.client() as peer:
        again = retry(params, await turn(peer, params), answer="blue")
        told = await refusal(peer, again)
        assert "another replica" in told
        assert "may already have acted" in told
        assert text(await turn(peer, again)) == "olga says blue", "and here it waited all the while"
    refused, held = pair.rows(server="held", tool="ask")
    assert (held["status"], refused["status"]) == ("success", "blocked")
    assert "may already have acted" in refused["error"]["message"]
    assert refused["metadata"]["refused_by"] == "request_state"


async def test_every_round_is_decided_where_it_lands_on_what_everybody_knows(pair: Pair) -> None:
    params = gated("shop:remove", item="ice")
    async with pair.client(at=1) as peer:
        first = await turn(peer, params)
        pair.gateways[0].post("/freeze")
        try:
            until(lambda: pair.gateways[1].get("/status")["frozen"], what="the other to freeze")
            told = await turn(peer, retry(params, first))
        finally:
            pair.gateways[0].post("/unfreeze")
            until(lambda: not pair.gateways[1].get("/status")["frozen"], what="the other to thaw")
    assert told["structuredContent"]["code"] == "FROZEN"


async def test_a_client_that_never_comes_back_leaves_one_row_that_says_so(tmp_path: Path, server: Server) -> None:
    """And one that comes back elsewhere has the last word, although the gateway that asked gives it up meanwhile."""
    config = documented(mcpServers={"apart": python_server("asks.py", "--modern")}, limits={"input_timeout": 10})
    wait = gated("apart:ask", method="elicitation/create", params={"message": "Go?", "requestedSchema": {}})
    with (
        replicas(tmp_path, server.database(), config) as gateways,
        balanced(*(each.url for each in gateways)) as (url, _),
    ):
        async with connected(HttpLink(f"{url}/mcp", token=TOKEN), MODERN) as peer:
            await turn(peer, retry(wait, await turn(peer, wait), yes=True))
            await turn(peer, wait)
        until(lambda: "timeout" in statuses(gateways[0]), what="the end of its patience")
        assert statuses(gateways[0]) == ["timeout", "success"]
        assert gateways[1].get("/activity/verify")["findings"] == []


async def test_a_call_outlives_the_gateway_where_it_began(tmp_path: Path, server: Server) -> None:
    """Killed between two rounds: what it left is in the client's hands and in the database, and the other goes on."""
    config = documented(mcpServers={"apart": python_server("asks.py", "--modern")})
    params = gated("apart:ask", method="elicitation/create", params={"message": "Go?", "requestedSchema": {}})
    with replicas(tmp_path, server.database(), config) as gateways, balanced(*(each.url for each in gateways)) as (
        url, balancer,
    ):  # fmt: skip
        async with connected(HttpLink(f"{url}/mcp", token=TOKEN), MODERN) as peer:
            first, second = await turn(peer, params), await turn(peer, params)
            assert balancer.served == [1, 1]
            gateways[0].kill()
            assert '"yes": true' in text(await turn(peer, retry(params, first, yes=True)))
            assert '"yes": true' in text(await turn(peer, retry(params, second, yes=True)))
        assert statuses(gateways[1]) == ["success", "success"]
        verdict = gateways[1].get("/activity/verify")
        assert (verdict["findings"], [chain["checked"] for chain in verdict["chains"]]) == ([], [True, True])


def statuses(running: Running) -> list[str]:
    return [row["status"] for row in running.activities(tool="ask")]


async def test_keys_can_be_changed_one_gateway_at_a_time_and_a_wrong_one_is_named(
    tmp_path: Path, server: Server
) -> None:
    """While both are known it does not matter which one signs; who knows neither says what to look at."""
    config = documented(mcpServers={"apart": python_server("asks.py", "--modern")})
    keys: Sequence[Sequence[str]] = (
        ("the-old-one-of-both", "the-new-one-of-both"), ("the-new-one-of-both", "the-old-one-of-both"),
        ("the-one-of-a-stranger",),
    )  # fmt: skip
    params = gated("apart:ask", method="elicitation/create", params={"message": "Go?", "requestedSchema": {}})
    with replicas(tmp_path, server.database(), config, sealing_keys=keys) as gateways:
        links = [HttpLink(running.mcp, token=TOKEN) for running in gateways]
        async with connected(links[0]) as old, connected(links[1]) as new, connected(links[2]) as stranger:
            for begins, goes_on in ((old, new), (new, old)):
                again = retry(params, await turn(begins, params), yes=True)
                assert "sealing_keys" in await refusal(stranger, again)
                assert '"yes": true' in text(await turn(goes_on, again))
        assert {row["status"] for row in gateways[2].activities(tool="ask")} == {"success", "blocked"}


# News.


@ERAS
@pytest.mark.proves("UP-4")
@pytest.mark.parametrize("path", ["/mcp/direct", "/mcp/s/asks"])
async def test_what_a_server_says_to_one_gateway_of_its_lists_clients_of_the_other_hear(
    pair: Pair, era: str, path: str
) -> None:
    async with pair.client(era, path, at=1) as listener, pair.client(at=0) as caller:
        await listener.watch()
        for change, method in (("sprout", TOOLS_CHANGED), ("grow", PROMPTS_CHANGED)):
            so_far = sum(message["method"] == method for message in listener.heard)
            assert not (await turn(caller, gated(f"asks:{change}", "read"))).get("isError")
            await listener.hear(method, times=so_far + 1)


@pytest.mark.proves("CAT-7")
async def test_what_a_person_decides_at_one_gateway_the_agent_hears_at_the_other(pair: Pair) -> None:
    one, other = (Wire(running.mcp, token=TOKEN) for running in pair.gateways)
    wish = {"agent_id": "a", "mcp_name": "weather", "rationale": "for the forecast"}

    def ask(wire: Wire) -> Mapping[str, Any]:
        return wire.via("write", "catalog:mcp_request_capability", wish)["structuredContent"]["approval"]

    with pair.gateways[1].client.stream("GET", "/api/v1/events") as response:
        lines = response.iter_lines()
        next(line for line in lines if line.startswith("event: hello"))
        filed = ask(one)
        assert (ask(other)["approval_id"], ask(other)["status"]) == (filed["approval_id"], "pending")
        assert pair.gateways[0].post(f"/approvals/{filed['approval_id']}/approve", {}).status_code == 200
        assert ask(other)["status"] == "approved"
        for _ in ("filed", "decided"):
            next(line for line in lines if line == "event: approval")
            assert json.loads(next(lines).removeprefix("data: "))["approval_id"] == filed["approval_id"]
