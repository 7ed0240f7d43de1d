"""Vectors of tools are made once for all who share a store, and whatever the store does tools are found."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

import anyio
import pytest

from mcpproxy_py import word_vectors
from mcpproxy_py.app import tool_meanings
from mcpproxy_py.app.tool_meanings import ToolMeanings
from mcpproxy_py.core.search.index import Index, segment
from mcpproxy_py.core.values import Snapshot, Tool

pytestmark = [
    pytest.mark.proves("FIND-5"),
    pytest.mark.anyio,
    pytest.mark.skipif(not word_vectors.installed() and not os.environ.get("CI"), reason="without the extra"),
]
DEADLINE = 60.0


class Shelf:
    def __init__(self) -> None:
        self.rows: dict[str, bytes] = {}

    async def load(self, digests: Collection[str]) -> dict[str, bytes]:
        return {digest: self.rows[digest] for digest in digests if digest in self.rows}

    async def save(self, values: Mapping[str, bytes]) -> None:
        self.rows.update(values)


class Broken(Shelf):
    async def load(self, digests: Collection[str]) -> dict[str, bytes]:
        raise OSError("no such table")

    async def save(self, values: Mapping[str, bytes]) -> None:
        raise OSError("disk full")


def snapshot(*names: str) -> Snapshot:
    wires = [{"name": name, "description": f"{name} something"} for name in names]
    return Snapshot(index=Index({"s": segment([Tool("s", wire["name"], wire, "unknown") for wire in wires])}))


async def given(meanings: ToolMeanings, *published: Snapshot) -> None:
    with anyio.fail_after(DEADLINE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(meanings.run)
            for each in published:
                assert meanings.seen(each) is each
                while each.index.segments["s"].vectors is None:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()


async def test_what_one_has_made_another_reads() -> None:
    shelf = Shelf()
    one, two = ToolMeanings(shelf), ToolMeanings(shelf)
    await given(one, snapshot("send", "fetch"))
    await given(two, snapshot("fetch", "send"), snapshot("fetch", "send", "draw"))
    assert (one.made, two.made) == (2, 1)
    assert len(shelf.rows) == 3


async def test_the_same_vectors_come_from_the_store_and_from_making_them() -> None:
    shelf, query = Shelf(), "dispatch a letter"
    made, read = snapshot("send", "fetch"), snapshot("send", "fetch")
    await given(ToolMeanings(shelf), made)
    await given(ToolMeanings(shelf), read)
    assert made.index.rank(query, 5) == read.index.rank(query, 5)
    assert made.index.rank(query, 5).by_meaning


@pytest.mark.parametrize("junk", [b"", b"x" * 512, b"\x00\x7c" * 256, b"\xff\xff" * 256, b"\x00" * 1024])
async def test_what_somebody_else_wrote_and_is_no_vector_is_made_anew(junk: bytes) -> None:
    shelf = Shelf()
    await given(ToolMeanings(shelf), snapshot("send"))
    shelf.rows = dict.fromkeys(shelf.rows, junk)
    again = ToolMeanings(shelf)
    await given(again, snapshot("send"))
    assert again.made == 1


async def test_a_store_that_fails_costs_the_work_and_nothing_else() -> None:
    meanings = ToolMeanings(Broken())
    await given(meanings, snapshot("send"), snapshot("send", "fetch"))
    assert meanings.made == 3


async def test_without_the_extra_it_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_meanings.word_vectors, "installed", lambda: False)
    with anyio.fail_after(DEADLINE):
        await ToolMeanings(Shelf()).run()
