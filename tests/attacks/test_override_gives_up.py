"""An override whose `when` nobody can tell: padding that makes its pattern try for ever does not lower the class."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.target import ALL_SURFACES, DOORS, ERAS, Target, ask, fresh, heard, params
from tests.support.gateway import gateway

pytestmark = [pytest.mark.anyio, pytest.mark.proves("GATE-8", "SEC-5")]

PATTERN = r"^(?:(a+)\1?)+!$|drop table"
"""Two things that are destructive. For the first there are 2**60 ways to see that a row of `a` is none."""
PADDED = "a" * 60 + " drop table users"
HARMLESS = "select 1"
DESTRUCTIVE = {"required": ["sql"], "properties": {"sql": {"pattern": PATTERN}}}
SHAPES: dict[str, Any] = {
    "plain": DESTRUCTIVE,
    "under anyOf": {"anyOf": [{"maxProperties": 0}, DESTRUCTIVE]},
    "a name of an argument": {"patternProperties": {PATTERN: False}, "not": {"patternProperties": {PATTERN: False}}},
}
SERVERS = ("modern", "handshake")


def override(fallback: str) -> list[dict[str, Any]]:
    return [{"when": {"anyOf": [{"maxProperties": 0}, DESTRUCTIVE]}, "class": "destructive"}, {"class": fallback}]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("gives-up")
    tools = {"look": override("read"), "put": override("write")}
    servers = {
        "modern": heard(folder, "modern", "--modern", confirm="destructive", tools=tools),
        "handshake": heard(folder, "handshake", confirm="destructive", tools=tools),
        "open": heard(folder, "open", "--modern", tools=tools),
        "other": heard(folder, "other", "--modern"),
    }
    with gateway(folder / "data", {"surfaces": ALL_SURFACES, "mcpServers": servers}) as running:
        yield Target(running, folder, servers)


@ERAS
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("tool", ["look", "put"])
async def test_at_the_gate_padding_does_not_get_a_destructive_call_through_a_lower_variant(
    target: Target, era: str, server: str, tool: str
) -> None:
    mark = fresh()
    async with target.client("gate", server, era) as peer:
        answer = await ask(peer, params("gate", server, tool, mark, sql=PADDED))
        harmless = await ask(peer, params("gate", server, tool, fresh(), sql=HARMLESS))
    assert answer.code == "SERVER_MISMATCH", answer
    assert "could not be checked" in answer.words
    assert harmless.ok, harmless
    assert not target.log(server).calls(mark)
    (row,) = target.ended(mark)
    assert row["metadata"]["decision"]["class"] == "destructive"
    assert row["metadata"]["decision"]["class_origin"] == "undecided"
    await target.marker("gate", "other", era)


@ERAS
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("door", ["direct", "passthrough"])
@pytest.mark.parametrize("tool", ["look", "put"])
async def test_where_nothing_is_declared_padding_does_not_get_past_a_persons_yes(
    target: Target, era: str, server: str, door: str, tool: str
) -> None:
    mark = fresh()
    async with target.client(door, server, era) as peer:
        answer = await ask(peer, params(door, server, tool, mark, sql=PADDED))
        assert answer.code == "NOT_CONFIRMED", answer
        assert len(peer.asked) == 1
        harmless = await ask(peer, params(door, server, tool, fresh(), sql=HARMLESS))
    assert harmless.ok, harmless
    assert not target.log(server).calls(mark)


@ERAS
@DOORS
async def test_a_call_that_counts_as_the_highest_class_says_so_in_its_result_and_on_record(
    target: Target, era: str, door: str
) -> None:
    mark = fresh()
    asked = params(door, "open", "put", mark, sql=PADDED)
    if door == "gate":
        asked["name"] = "call_tool_destructive"
        asked["arguments"]["intent"] = {"operation_type": "destructive"}
    async with target.client(door, "open", era) as peer:
        answer = await ask(peer, asked)
    assert answer.ok, answer
    assert "highest class" in answer.result["_meta"]["mcpproxy/warning"]
    assert target.log("open").calls(mark)
    (row,) = target.ended(mark)
    decision = row["metadata"]["decision"]
    assert (decision["class"], decision["risk"], decision["verdict"]) == ("destructive", "destructive", "warn")
    assert "highest class" in decision["warning"]


@DOORS
async def test_a_freeze_stops_it_as_the_highest_class(target: Target, door: str) -> None:
    mark = fresh()
    with target.frozen():
        async with target.client(door, "open", "2026-07-28") as peer:
            answer = await ask(peer, params(door, "open", "look", mark, sql=PADDED))
    assert answer.code in ("FROZEN", "SERVER_MISMATCH"), answer
    assert not target.log("open").calls(mark)


@pytest.mark.parametrize("variant", ["read", "write", "destructive"])
def test_over_rest_it_is_refused_and_explained_as_the_highest_class(target: Target, variant: str) -> None:
    mark = fresh()
    body = {"variant": variant, "name": "open:put", "args": {"mark": mark, "sql": PADDED},
            "intent": {"operation_type": variant}}  # fmt: skip
    answer = target.running.post("/call", body)
    explained = target.running.post("/explain", {"variant": variant, "name": "open:put", "args": body["args"]}).json()
    rung = next(each for each in explained["rungs"] if each["rule"] == "class")
    if variant == "destructive":
        assert "highest class" in answer.json()["warning"], answer.text
        assert rung["outcome"] == "passed"
        assert "highest class" in rung["message"]
    else:
        assert answer.json()["error"]["code"] == "SERVER_MISMATCH", answer.text
        assert rung["outcome"] == "failed"
        assert "could not be checked" in rung["message"]
        assert not target.log("open").calls(mark)
    assert explained["decision"]["decision"]["class_origin"] == "undecided"


@pytest.mark.parametrize("shape", SHAPES)
def test_wherever_the_pattern_stands_it_is_never_taken_for_no_match(target: Target, tmp_path: Path, shape: str) -> None:
    tools = {"look": [{"when": SHAPES[shape], "class": "destructive"}, {"class": "read"}]}
    target.configure("open", tools=tools)
    try:
        mark = fresh()
        args = {"mark": mark, PADDED if "name" in shape else "sql": PADDED}
        body = {"variant": "read", "name": "open:look", "args": args, "intent": {"operation_type": "read"}}
        answer = target.running.post("/call", body)
        assert answer.json()["error"]["code"] == "SERVER_MISMATCH", answer.text
        assert not target.log("open").calls(mark)
    finally:
        target.configure("open")


def test_a_pattern_that_needs_many_tries_and_comes_to_an_end_decides(target: Target) -> None:
    """The way beside the loop is not only for giving up: what can be told is told."""
    tools = {"look": [{"when": DESTRUCTIVE, "class": "destructive"}, {"class": "read"}]}
    target.configure("open", tools=tools)
    try:
        for sql, code in (("a" * 12 + " drop table users", "SERVER_MISMATCH"), ("a" * 12 + " select", None)):
            mark = fresh()
            body = {"variant": "read", "name": "open:look", "args": {"mark": mark, "sql": sql},
                    "intent": {"operation_type": "read"}}  # fmt: skip
            answer = target.running.post("/call", body).json()
            assert answer.get("error", {}).get("code") == code, answer
            assert bool(target.log("open").calls(mark)) == (code is None)
            (row,) = target.ended(mark)
            assert row["metadata"]["decision"]["class_origin"] == "override"
    finally:
        target.configure("open")


async def yes(method: str, asked: Any) -> Any:
    return {"action": "accept", "content": {"allow": True}}


@ERAS
async def test_with_a_persons_yes_it_is_sent_once(target: Target, era: str) -> None:
    mark = fresh()
    async with target.client("direct", "modern", era, answer=yes) as peer:
        answer = await ask(peer, params("direct", "modern", "put", mark, sql=PADDED))
    assert answer.ok, answer
    assert len(target.log("modern").calls(mark)) == 1
