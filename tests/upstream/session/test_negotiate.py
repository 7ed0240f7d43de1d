"""Finding the era, with servers that answer the question badly."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mcpproxy_py.errors import UpstreamFailure
from mcpproxy_py.upstream.session import negotiate
from mcpproxy_py.upstream.session.session import MAX_ENTRIES, MAX_PAGES, ListPages, Page, read_all
from tests.upstream.helpers import connected, running, stdio, until

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SURF-6")]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The silence of a server that says nothing to the probe is not what these tests are about."""
    monkeypatch.setattr(negotiate, "PROBE_TIMEOUT", 0.3)


@pytest.mark.parametrize(
    ("program", "mode", "version"),
    [
        ("sdk.py", "", "2026-07-28"),
        ("plain.py", "", "2025-11-25"),
        ("eras.py", "stuck", "2026-07-28"),
        ("eras.py", "silent", "2025-06-18"),
        ("eras.py", "advertises", "2025-06-18"),
        ("eras.py", "crash", "2025-06-18"),
        ("eras.py", "late", "2025-06-18"),
        ("eras.py", "bare", "2025-06-18"),
    ],
)
@pytest.mark.usefixtures("impatient")
async def test_every_server_is_spoken_to_in_its_own_era(program: str, mode: str, version: str, tmp_path: Path) -> None:
    async with running(tmp_path, stdio("s", program, *mode.split())) as supervisor:
        await connected(supervisor, "s")
        assert supervisor.snapshot.servers["s"].protocol_version == version
        assert bool(supervisor.snapshot.servers["s"].tools) is (mode != "bare")


@pytest.mark.parametrize("mode", ["future", "ancient"])
async def test_a_server_without_a_common_revision_fails_and_says_so(mode: str, tmp_path: Path) -> None:
    async with running(tmp_path, stdio("s", "eras.py", mode)) as supervisor:
        await until(lambda: supervisor.describe()[0]["error"])
        assert "unknown to mcpproxy" in supervisor.describe()[0]["error"]


def read(page: Page) -> Awaitable[ListPages]:
    return read_all("s", "tools/list", "tools", page)


def pages(*listed: list[Any], cursor: str | None) -> Any:
    given = iter(listed)

    async def page(params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"tools": next(given, listed[-1]), "nextCursor": cursor}

    return page


@pytest.mark.proves("UP-6", "SEC-5")
async def test_a_listing_that_goes_in_circles_is_read_once_around() -> None:
    listed = await read(pages([{"name": "a"}], [{"name": "b"}], cursor="same"))
    assert listed.entries == [{"name": "a"}, {"name": "b"}]


@pytest.mark.proves("UP-6", "SEC-5")
async def test_a_listing_without_end_is_cut() -> None:
    asked = 0

    async def page(params: Mapping[str, Any]) -> Mapping[str, Any]:
        nonlocal asked
        asked += 1
        return {"tools": [{}] * many, "nextCursor": str(asked)}

    many = 1
    assert len((await read(page)).entries) == MAX_PAGES == asked
    many = 15_000
    assert len((await read(page)).entries) == MAX_ENTRIES


@pytest.mark.proves("UP-6")
async def test_an_answer_without_a_list_is_a_failure() -> None:
    async def page(params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"tools": "none"}

    with pytest.raises(UpstreamFailure):
        await read(page)
