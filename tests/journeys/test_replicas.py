"""Two gateways behind one load balancer, with one PostgreSQL (ACT-6)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.balancer import balanced
from tests.support.gateway import Running, python_server, until
from tests.support.postgres import Server, own_server
from tests.support.replicas import TOKEN, documented, replicas
from tests.support.wire import Wire

pytestmark = pytest.mark.proves("ACT-6")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with own_server() as server:
        yield server


@pytest.fixture
def gateways(tmp_path: Path, server: Server) -> Iterator[list[Running]]:
    config = documented(mcpServers={"s": python_server("plain.py")})
    with replicas(tmp_path, server.database(), config) as running:
        yield running


def test_what_lands_on_either_is_on_record_once_and_can_be_read_on_both_at_once(gateways: list[Running]) -> None:
    with balanced(*(replica.url for replica in gateways)) as (url, balancer):
        wire = Wire(f"{url}/mcp", token=TOKEN)
        for number in range(20):
            assert not wire.via("write", "s:hint_f_f", {"marker": f"m{number}"}).get("isError")
            for replica in gateways:
                (newest,) = replica.activities(limit=1)
                assert (newest["arguments"], newest["status"]) == ({"marker": f"m{number}"}, "success")
        assert balancer.served == [10, 10]
    for replica in gateways:
        assert replica.get("/activity/summary")["by_tool"] == {"hint_f_f": 20}
        verdict = replica.get("/activity/verify")
        assert (verdict["intact"], [chain["checked"] for chain in verdict["chains"]]) == (True, [True, True])


@pytest.mark.proves("GATE-13")
def test_a_freeze_at_one_holds_at_the_other_until_it_is_lifted_at_either(gateways: list[Running]) -> None:
    one, two = gateways
    wire = Wire(two.mcp, token=TOKEN)
    one.post("/freeze")
    until(lambda: two.get("/status")["frozen"], what="the other to freeze")
    assert wire.via("write", "s:hint_f_f", {})["structuredContent"]["code"] == "FROZEN"
    assert not wire.read("s:hint_t_f", {}).get("isError")
    two.post("/unfreeze")
    until(lambda: not one.get("/status")["frozen"], what="the first to thaw")
    assert not wire.via("write", "s:hint_f_f", {}).get("isError")


@pytest.mark.proves("ACT-3")
def test_who_listens_at_one_hears_of_what_lands_on_the_other(gateways: list[Running]) -> None:
    one, two = gateways
    with one.client.stream("GET", "/api/v1/events") as response:
        lines = response.iter_lines()
        next(line for line in lines if line.startswith("event: hello"))
        Wire(two.mcp, token=TOKEN).read("s:hint_t_f", {"marker": "there"})
        heard = [json.loads(line[6:]) for line in itertools.islice(
            (line for line in lines if line.startswith("data: {")), 2)]  # fmt: skip
    assert [record["arguments"] for record in heard] == [{"marker": "there"}] * 2


def test_while_the_database_is_away_both_go_on_reading_and_catch_up_without_a_restart(
    gateways: list[Running], server: Server
) -> None:
    wires = [Wire(replica.mcp, token=TOKEN) for replica in gateways]
    server.kill()
    try:
        refused = wires[0].via("write", "s:hint_f_f", {"marker": "refused"})
        assert refused["structuredContent"]["code"] == "STORE_UNAVAILABLE"
        assert not wires[1].read("s:hint_t_f", {"marker": "read"}).get("isError")
        assert gateways[1].client.get("/api/v1/activity").status_code == 503
        assert gateways[1].get("/status")["store"]["unacknowledged"] >= 1
    finally:
        server.start()
    for replica in gateways:
        until(lambda replica=replica: replica.client.get("/api/v1/activity").status_code == 200, 60, "the database")
    for replica in gateways:
        replica.catch_up()
    found = {row["arguments"]["marker"]: row["status"] for row in gateways[0].activities()}
    assert found == {"refused": "blocked", "read": "success"}
    until(lambda: not wires[0].via("write", "s:hint_f_f", {"marker": "after"}).get("isError"), 60, "writes to go on")
