"""Long results at running gateways: whole for whoever was given them, and for nobody else (SURF-13)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.servers.long_results import marked
from tests.support.gateway import Running, gateway, python_server, until
from tests.support.wire import HANDSHAKE, MODERN, Wire, text

CUT = "mcpproxy/cut"
MB = 1 << 20
TOKEN = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
CONFIG: dict[str, Any] = {
    "mcpServers": {
        "long": python_server("long_results.py"),
        "short": python_server("long_results.py", result_tokens={"get_*": 0, "*": 1000}),
    },
    "require_mcp_auth": True,
    "surfaces": ["gate", "direct", "passthrough"],
    "limits": {"max_result_values": 300_000},
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with gateway(tmp_path_factory.mktemp("long") / "data", CONFIG, env={"MCPPROXY_MCP_TOKEN": TOKEN}) as up:
        yield up


def token(running: Running, name: str, **terms: Any) -> str:
    answer = running.post("/tokens", {"name": name, **terms})
    assert answer.status_code in (200, 201), answer.text
    return answer.json()["token"]


@pytest.fixture(scope="module")
def agent(running: Running) -> Wire:
    return Wire(running.mcp, token=TOKEN)


def long(size: int = MB, shape: str = "rows", **more: Any) -> dict[str, Any]:
    return {"shape": shape, "size": size, "mark": "ada", **more}


def handle(result: dict[str, Any]) -> dict[str, Any]:
    return result["_meta"][CUT]


def rest_of(agent: Wire, cut: dict[str, Any]) -> str:
    pieces: list[str] = []
    at = cut["from"]
    while at is not None:
        read = agent.call("read_result", {"id": cut["id"], "from": at})
        assert not read.get("isError"), text(read)
        pieces.append(read["content"][0]["text"])
        at = read["_meta"][CUT]["next"]
    return "".join(pieces)


def code(result: dict[str, Any]) -> str:
    assert result["isError"] is True
    return result["structuredContent"]["code"]


@pytest.mark.proves("SURF-13", "SEC-5")
@pytest.mark.parametrize("shape", ["one line", "a million lines", "a million rows", "rows", "deep", "base64"])
def test_ten_megabytes_are_read_to_the_last_byte_by_two_agents_at_once_and_nothing_crosses(
    running: Running, shape: str
) -> None:
    """Two with one token, which cannot tell them apart; what they hold does."""

    def read_all(mark: str, era: str) -> None:
        agent = Wire(running.mcp, era, token=TOKEN, name=mark)
        whole = marked(shape, 10 * MB, mark)
        result = agent.read("long:get", {"shape": shape, "size": 10 * MB, "mark": mark})
        shown, cut = result["content"][0]["text"], handle(result)
        assert cut["total"] == len(whole.encode()) and len(shown) < 110_000
        assert whole.startswith(shown[: cut["from"] - 200])
        assert rest_of(agent, cut) == whole.encode()[cut["from"] :].decode()

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(read_all, "ada", MODERN), pool.submit(read_all, "bob", HANDSHAKE)]:
            done.result()


@pytest.mark.proves("SURF-13")
@pytest.mark.parametrize("form", ["structured", "both"])
def test_a_structure_is_cut_to_one_of_the_same_kind(agent: Wire, form: str) -> None:
    result = agent.read("long:get", long(6 * MB, **{"as": form}))
    structured = result["structuredContent"]
    assert structured.pop(CUT) == result["content"][-1]["text"]
    assert 50 < len(structured["rows"]) < 2000 and all(row["mark"] == "ada" for row in structured["rows"])
    if form == "both":
        assert json.loads(result["content"][0]["text"]) == structured
        assert len(result["content"]) == 2
    cut = handle(result)
    whole = rest_of(agent, {**cut, "from": 0})
    assert json.loads(whole) == json.loads(marked("rows", 6 * MB, "ada"))


@pytest.mark.proves("SURF-13")
def test_only_what_holds_the_words_can_be_had(agent: Wire) -> None:
    cut = handle(agent.read("long:get", long(7 * MB, **{"as": "both"})))
    found = agent.call("read_result", {"id": cut["id"], "query": "ADA 12345"})["content"][0]["text"]
    (line,) = found.splitlines()
    place, _, item = line.partition(": ")
    assert json.loads(item) == {"id": 12345, "mark": "ada", "text": "x" * 380}
    read = agent.call("read_result", {"id": cut["id"], "from": int(place)})
    assert read["content"][0]["text"].startswith(item)
    cut = handle(agent.read("long:get", {"shape": "a million lines", "size": 1, "mark": "ada"}))
    found = agent.call("read_result", {"id": cut["id"], "query": "ada 77777"})["content"][0]["text"]
    holding = [f"{n} ada" for n in range(1_000_000) if "77777" in str(n)]
    assert [line.partition(": ")[2] for line in found.splitlines()] == holding


@pytest.mark.proves("SURF-13")
def test_errors_images_and_short_results_are_not_cut(agent: Wire) -> None:
    failed = agent.read("long:get", long(error=True))
    assert failed["isError"] is True and len(text(failed)) > 900_000 and CUT not in failed.get("_meta", {})
    seen = agent.read("long:get", {"shape": "words", "size": 100, "beside": ["image", "audio"]})
    assert CUT not in seen["_meta"]
    seen = agent.read("long:get", long(beside=["image", "audio"]))
    assert [each["type"] for each in seen["content"]] == ["text", "image", "audio", "text"]
    assert all(len(each["data"]) == MB for each in seen["content"][1:3])


@pytest.mark.proves("SURF-13")
def test_the_limit_is_by_server_and_tool(agent: Wire) -> None:
    assert handle(agent.read("short:get", long(20_000, "words")))["from"] < 5_000
    assert CUT not in agent.read("long:get", long(20_000, "words"))["_meta"]
    assert CUT not in agent.read("short:get_other", long(MB, "words"))["_meta"]


@pytest.mark.proves("SURF-13")
def test_other_surfaces_and_people_get_all_of_it(running: Running) -> None:
    whole = marked("rows", MB, "ada")
    direct = Wire(f"{running.mcp}/direct", token=TOKEN)
    assert text(direct.call("long__get", long())) == whole
    assert "read_result" not in {tool["name"] for tool in direct.request("tools/list")["tools"]}
    assert text(Wire(f"{running.mcp}/s/long", token=TOKEN).call("get", long())) == whole
    body = {"variant": "read", "name": "long:get", "args": long(), "intent": {"operation_type": "read"}}
    assert text(running.post("/call", body).json()["result"]) == whole


@pytest.mark.proves("SURF-13", "SEC-2")
def test_somebody_elses_handle_is_as_one_that_never_was(running: Running, agent: Wire) -> None:
    cut = handle(agent.read("long:get", long()))
    other = Wire(running.mcp, token=token(running, "other"))
    forged = cut["id"][:-4] + ("aaaa" if cut["id"][-4:] != "aaaa" else "bbbb")
    tried = [(agent, forged), (other, cut["id"]), (other, forged)]
    answers = [who.call("read_result", {"id": each, "from": 0}) for who, each in tried]
    assert {code(each) for each in answers} == {"RESULT_NOT_KEPT"}
    assert len({re.sub(r"[0-9a-f-]{36}", "", json.dumps(each, sort_keys=True)) for each in answers}) == 1
    assert not agent.call("read_result", {"id": cut["id"]}).get("isError")


@pytest.mark.proves("SURF-13", "SEC-2", "SURF-12")
def test_a_scope_that_ends_ends_reading_on(running: Running) -> None:
    """What a token may not call any more it does not read on, and a token that ended leaves nothing."""
    agent = Wire(running.mcp, token=token(running, "narrow", servers=["long"], operations=["read"]))
    assert "read_result" in {tool["name"] for tool in agent.request("tools/list")["tools"]}
    cut = handle(agent.read("long:get", long()))
    assert not agent.call("read_result", {"id": cut["id"]}).get("isError")
    assert running.post("/freeze").status_code == 200
    try:
        assert not agent.call("read_result", {"id": cut["id"]}).get("isError"), "a freeze lets reads through"
    finally:
        running.post("/unfreeze")
    assert running.post("/servers/long/disable").status_code == 200
    try:
        assert code(agent.call("read_result", {"id": cut["id"]})) == "RESULT_NOT_KEPT"
    finally:
        running.post("/servers/long/enable")
        running.wait_for("long")
    assert not agent.call("read_result", {"id": cut["id"]}).get("isError")


BAD: list[tuple[dict[str, Any], str]] = [
    ({"from": 10**9}, "from is 1000000000, and the result ends at"),
    ({"from": -1}, "from must be between 0 and"),
    ({"from": 10**40}, "from must be between 0 and"),
    ({"from": 1.5}, "from must be integer, not number"),
    ({"from": "7"}, "from must be integer, not string"),
    ({"from": True}, "from must be integer, not boolean"),
    ({"query": 7}, "query must be string, not number"),
    ({"query": "x" * 4001}, "is 4001 characters long; at most 4000"),
    ({"query": " ".join(map(str, range(33)))}, "query has 33 different words; at most 32"),
    ({"id": 7}, "id must be string, not number"),
    ({"id": ""}, "id must not be empty"),
    ({"id": "x" * 4001}, "at most 4000"),
    ({"form": 1}, "from"),
]


@pytest.mark.proves("SURF-13", "SEC-5")
@pytest.mark.parametrize(("bad", "says"), BAD, ids=[json.dumps(bad)[:40] for bad, _ in BAD])
def test_bad_wishes_get_a_sentence_and_lose_nothing(agent: Wire, bad: dict[str, Any], says: str) -> None:
    cut = handle(agent.read("long:get", long(200_000)))
    answer = agent.call("read_result", {"id": cut["id"], **bad})
    assert code(answer) == "INVALID_ARGUMENTS" and says in text(answer)
    assert not agent.call("read_result", {"id": cut["id"]}).get("isError")


@pytest.mark.proves("SURF-13", "SEC-5")
@pytest.mark.parametrize("query", ["x" * 4000, "x ada " * 600, "\x00\x01\x1b[2J", "a", "漢", "(a+)+$", '"', " ", "İ"])
def test_odd_queries_are_answered(agent: Wire, query: str) -> None:
    cut = handle(agent.read("long:get", long(2 * MB, **{"as": "both"})))
    answer = agent.call("read_result", {"id": cut["id"], "query": query})
    assert not answer.get("isError"), text(answer)
    assert len(text(answer)) < 60_000


@pytest.mark.proves("SURF-13", "ACT-1")
def test_reading_on_is_on_record_beside_what_it_reads_and_the_record_of_the_call_is_as_it_was(
    running: Running, agent: Wire
) -> None:
    result = agent.read("long:get", long(MB, mark="recorded"))
    cut = handle(result)
    agent.call("read_result", {"id": cut["id"], "from": cut["from"]})
    rows = running.activities()
    read, called = (next(row for row in rows if row["tool"] == tool) for tool in ("read_result", "get"))
    assert read["status"] == "success" and read["metadata"]["of"] == "long:get"
    assert read["metadata"]["reads_on"] == called["id"]
    assert read["arguments"] == {"id": cut["id"], "from": cut["from"]}
    whole = json.dumps({"content": [{"type": "text", "text": marked("rows", MB, "recorded")}], "isError": False})
    shown = running.get(f"/activity/{called['id']}")
    assert abs(shown["response_size"] - len(whole)) < 100, "the size of all of it"


@pytest.mark.proves("SURF-13")
def test_the_oldest_go_when_there_is_no_room_and_after_a_restart_it_says_so(tmp_path: Path) -> None:
    limits = {"kept_results_mb": 4, "kept_results_seconds": 2, "per_principal": {"kept_results_mb": 3}}
    config = {"mcpServers": {"long": python_server("long_results.py")}, "limits": limits}
    with gateway(tmp_path / "data", config) as running:
        agent = Wire(running.mcp)
        first, *_, last = [handle(agent.read("long:get", long(MB))) for _ in range(4)]
        answer = agent.call("read_result", {"id": first["id"]})
        assert code(answer) == "RESULT_NOT_KEPT" and "less where there is no room" in text(answer)
        huge = agent.read("long:get", long(5 * MB))
        assert CUT not in huge["_meta"] and len(text(huge)) > 4 * MB, "what could not be read on is not cut"
        until(lambda: agent.call("read_result", {"id": last["id"]}).get("isError"), what="the end of its time")
        kept = handle(agent.read("long:get", long(MB)))
        files = [each for each in running.data_dir.rglob("*") if each.is_file() and "bash" not in each.name]
        holds = {each.relative_to(running.data_dir).parts[0] for each in files if b"x" * 380 in each.read_bytes()}
        assert holds <= {"journal", "activity.db", "activity.db-wal"}, "the masked record, and nothing beside it"
    with gateway(tmp_path / "data", config) as running:
        answer = Wire(running.mcp).call("read_result", {"id": kept["id"]})
        assert code(answer) == "RESULT_NOT_KEPT" and "at this gateway" in text(answer)
        assert "Call the tool again" in text(answer)


@pytest.mark.proves("SURF-13")
def test_without_a_limit_nothing_is_cut_and_no_tool_is_there_for_it(tmp_path: Path) -> None:
    config = {"mcpServers": {"long": python_server("long_results.py")}, "limits": {"result_tokens": 0}}
    with gateway(tmp_path / "data", config) as running:
        agent = Wire(running.mcp)
        assert "read_result" not in {tool["name"] for tool in agent.request("tools/list")["tools"]}
        assert text(agent.read("long:get", long())) == marked("rows", MB, "ada")
