"""Two gateways behind one load balancer, with one PostgreSQL (ACT-6)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Running, gateway, python_server, until
from tests.support.postgres import Server, own_server
from tests.support.wire import Wire

pytestmark = pytest.mark.proves("ACT-6")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with own_server() as server:
        yield server


@pytest.fixture
def replicas(tmp_path: Path, server: Server) -> Iterator[list[Running]]:
    config = {
        "activity": {"database_url": server.database(), "ack": "commit"},
        "mcpServers": {"s": python_server("plain.py")},
    }
    with gateway(tmp_path / "one", config) as one:
        other = tmp_path / "other"
        other.mkdir(mode=0o700)
        (other / "chain.key").write_bytes((tmp_path / "one" / "chain.key").read_bytes())
        with gateway(other, config) as two:
            yield [one, two]


class RoundRobin(Wire):
    """A modern client whose every request lands on the next gateway."""

    def __init__(self, replicas: list[Running]) -> None:
        super().__init__(replicas[0].mcp)
        self._turn = itertools.cycle(replica.mcp for replica in replicas)

    def post(self, body: Any, **headers: str) -> Any:
        self.url = next(self._turn)
        return super().post(body, **headers)


def test_what_lands_on_either_is_on_record_once_and_can_be_read_on_both_at_once(replicas: list[Running]) -> None:
    wire = RoundRobin(replicas)
    for number in range(20):
        assert not wire.via("write", "s:hint_f_f", {"marker": f"m{number}"}).get("isError")
        for replica in replicas:
            (newest,) = replica.activities(limit=1)
            assert (newest["arguments"], newest["status"]) == ({"marker": f"m{number}"}, "success")
    for replica in replicas:
        assert replica.get("/activity/summary")["by_tool"] == {"hint_f_f": 20}
        verdict = replica.get("/activity/verify")
        assert (verdict["intact"], [chain["checked"] for chain in verdict["chains"]]) == (True, [True, True])


@pytest.mark.proves("GATE-13")
def test_a_freeze_at_one_holds_at_the_other_until_it_is_lifted_at_either(replicas: list[Running]) -> None:
    one, two = replicas
    wire = Wire(two.mcp)
    one.post("/freeze")
    until(lambda: two.get("/status")["frozen"], what="the other to freeze")
    assert wire.via("write", "s:hint_f_f", {})["structuredContent"]["code"] == "FROZEN"
    assert not wire.read("s:hint_t_f", {}).get("isError")
    two.post("/unfreeze")
    until(lambda: not one.get("/status")["frozen"], what="the first to thaw")
    assert not wire.via("write", "s:hint_f_f", {}).get("isError")


@pytest.mark.proves("ACT-3")
def test_who_listens_at_one_hears_of_what_lands_on_the_other(replicas: list[Running]) -> None:
    one, two = replicas
    with one.client.stream("GET", "/api/v1/events") as response:
        lines = response.iter_lines()
        next(line for line in lines if line.startswith("event: hello"))
        Wire(two.mcp).read("s:hint_t_f", {"marker": "there"})
        heard = [json.loads(line[6:]) for line in itertools.islice(
            (line for line in lines if line.startswith("data: {")), 2)]  # fmt: skip
    assert [record["arguments"] for record in heard] == [{"marker": "there"}] * 2


def test_while_the_database_is_away_both_go_on_reading_and_catch_up_without_a_restart(
    replicas: list[Running], server: Server
) -> None:
    wires = [Wire(replica.mcp) for replica in replicas]
    server.kill()
    try:
        refused = wires[0].via("write", "s:hint_f_f", {"marker": "refused"})
        assert refused["structuredContent"]["code"] == "STORE_UNAVAILABLE"
        assert not wires[1].read("s:hint_t_f", {"marker": "read"}).get("isError")
        assert replicas[1].client.get("/api/v1/activity").status_code == 503
        assert replicas[1].get("/status")["store"]["unacknowledged"] >= 1
    finally:
        server.start()
    for replica in replicas:
        until(lambda replica=replica: replica.client.get("/api/v1/activity").status_code == 200, 60, "the database")
    until(lambda: len(replicas[0].activities()) == 2, 60, "both records")
    found = {row["arguments"]["marker"]: row["status"] for row in replicas[0].activities()}
    assert found == {"refused": "blocked", "read": "success"}
    until(lambda: not wires[0].via("write", "s:hint_f_f", {"marker": "after"}).get("isError"), 60, "writes to go on")
