"""Searches that no agent in its right mind would ask, and servers that list what nobody can read: every search is
answered, and no server's text crowds out the others (FIND-1, FIND-3, FIND-5)."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import SERVERS, Running, gateway, python_server, until
from tests.support.wire import HANDSHAKE, MODERN, Wire, text

pytestmark = [pytest.mark.proves("FIND-3", "FIND-5")]
ERAS = pytest.mark.parametrize("era", [MODERN, HANDSHAKE], ids=["modern", "handshake"])
WITH_MEANING = all(importlib.util.find_spec(name) for name in ("wordllama", "numpy", "tokenizers"))
MANY = 40
EACH = 250
BOOK = "Sends a letter. " + "letter " * 30_000
LIBRARY = "Sends a letter. " + "letter " * 150_000
ODD = {
    "4,000 letters": "x" * 4000, "4,000 characters of words": ("send a letter " * 300)[:4000], "a letter": "a",
    "Chinese": "在图书馆里找一本书", "one sign": "漢", "controls": "\x00\x01\x1b[2J\x7f",
    "a bell and a word": "\x07letter",
    "turned around": "\u202erettel", "only marks": "?!…", "a pattern": "(a+)+$", "quotes": '"\'`', "a tag": "~show",
    "an order": "'; DROP TABLE tools; --", "long words": "letter" * 600, "one word a thousand times": "send " * 800,
}  # fmt: skip


def tool(name: str, about: str) -> dict[str, Any]:
    return {
        "name": name, "description": about, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}
    }  # fmt: skip


def listing(folder: Path, name: str, tools: list[dict[str, Any]]) -> str:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(tools))
    return str(path)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("odd")
    books = listing(folder, "books", [tool("book", BOOK), tool("library", LIBRARY), tool("note", "Sends a letter.")])
    with gateway(folder / "data", {"mcpServers": {"books": python_server("plain.py", "--tools", books)}}) as up:
        yield up


def search(agent: Wire, query: str, **params: Any) -> dict[str, Any]:
    result = agent.call("retrieve_tools", {"query": query, **params})
    assert not result.get("isError"), text(result)
    return result["structuredContent"]


@ERAS
@pytest.mark.parametrize("query", ODD.values(), ids=ODD.keys())
def test_an_odd_query_is_answered_like_any_other_and_the_next_one_too(running: Running, era: str, query: str) -> None:
    agent = Wire(running.mcp, era)
    if query.strip():
        found = search(agent, query)
        assert len(found["tools"]) <= min(5, found["total"])
        assert all(0 <= row["confidence"] <= 1 and 0 <= row["score"] <= 1 for row in found["tools"])
        assert found["fits"] is False or found["tools"]
    names = [row["name"] for row in search(agent, "send a letter")["tools"]]
    assert "books:note" in names


@ERAS
@pytest.mark.parametrize(
    ("query", "why"),
    [("x" * 4001, "query is 4001 characters long; at most 4000"), (" \t\n", "query must not be empty")],
)
def test_a_query_that_is_none_is_refused_in_a_sentence(running: Running, era: str, query: str, why: str) -> None:
    refused = Wire(running.mcp, era).call("retrieve_tools", {"query": query})
    assert refused["isError"] is True
    assert why in text(refused) and len(text(refused)) < 500


@ERAS
@pytest.mark.parametrize("detail", ["full", "auto", "compact"])
@pytest.mark.proves("FIND-1")
def test_a_book_in_a_description_is_not_read_to_everybody_who_searches(running: Running, era: str, detail: str) -> None:
    agent = Wire(running.mcp, era)
    result = agent.call("retrieve_tools", {"query": "send a letter", "detail": detail})
    rows = {row["name"]: row for row in result["structuredContent"]["tools"]}
    assert {"books:book", "books:note"} <= set(rows)
    assert "books:library" not in rows, "a definition of a megabyte is left out"
    assert len(rows["books:book"]["description"]) <= 160 and "signature" in rows["books:book"]
    assert len(text(result)) < 10_000
    whole = agent.call("retrieve_tools", {"names": ["books:book"]})["structuredContent"]["tools"]
    assert whole[0]["description"] == BOOK and "inputSchema" in whole[0]


def indexed(running: Running) -> bool:
    """By what they mean too, with the extra."""
    said = running.get("/status")["search"]
    return said["tools"] >= MANY * EACH and said["by_meaning"] == (said["tools"] if WITH_MEANING else 0)


def test_ten_thousand_tools_that_are_all_alike_are_answered_in_one_order_and_hide_no_other(tmp_path: Path) -> None:
    alike = listing(tmp_path, "alike", [tool(f"send_{number:03}", "Sends a letter.") for number in range(EACH)])
    other = listing(tmp_path, "other", [tool("rain", "Says whether it will rain tomorrow.")])
    command = [sys.executable, str(SERVERS / "plain_http.py"), "--http", "0", "--tools", alike]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin and process.stdout
    try:
        url = f"http://127.0.0.1:{process.stdout.readline().split()[1]}/mcp"
        servers = {f"s{number:02}": {"url": url} for number in range(MANY)}
        config = {"mcpServers": {**servers, "other": python_server("plain.py", "--tools", other)}}
        with gateway(tmp_path / "data", config, wait=False) as running:
            agent = Wire(running.mcp)
            until(lambda: indexed(running), timeout=180, what="all of the listings, and what they mean")
            first = [row["name"] for row in search(agent, "send letter", limit=50, detail="compact")["tools"]]
            assert len(first) == 50 and all(":send_" in name for name in first)
            again = [row["name"] for row in search(agent, "send letter", limit=50, detail="compact")["tools"]]
            assert again == first
            assert search(agent, "send letter")["total"] >= MANY * EACH
            found = search(agent, "will it rain tomorrow", limit=1)["tools"]
            assert [row["name"] for row in found] == ["other:rain"]
            theirs = search(agent, "send letter", server="s39", limit=1)
            assert theirs["tools"][0]["name"].startswith("s39:send_")
    finally:
        process.stdin.close()
        process.stdout.close()
        process.kill()
        process.wait()
