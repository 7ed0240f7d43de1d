"""Signs of gaps as they stand in the record (MISS-3)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcpproxy_py.core.record.events import IdMaker
from mcpproxy_py.store.activity import gap_signals
from mcpproxy_py.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.proves("MISS-3")]

START = 1_800_000_000.0
NOTHING = {"content": [], "structuredContent": {"tools": [], "usage_instructions": "", "total": 0, "unavailable": {}}}
SOMETHING = {"content": [], "structuredContent": {"tools": [{"description": '"total":0,'}], "total": 1}}
BLOCKED = {"code": "SERVER_MISMATCH", "message": "use call_tool_write"}

Asked = Callable[..., dict[str, Any]]


class Diary:
    """A store whose record a test writes."""

    def __init__(self, store: Store, asked: Asked, finished: Asked) -> None:
        self.store = store
        self._asked, self._finished = asked, finished
        self._new_id = IdMaker(os.urandom)

    def write(
        self, at: float = 0, status: str = "success", response: Any = None, error: Any = None, **asked: Any
    ) -> str:
        row_id = self._new_id(START + at)
        self.store.append(self._asked(row_id, at=START + at, **asked))
        self.store.append(self._finished(row_id, at=START + at, status=status, response=response, error=error))
        return row_id

    async def seen(self, since: float = 0) -> list[tuple[str, str]]:
        assert await self.store.caught_up(30)
        found = await self.store.gaps.seen(int((START + since) * 1000))
        return sorted((one.kind, one.subject) for one in found.sightings)

    def search(self, query: str, response: Any, at: float = 0, **more: Any) -> str:
        return self.write(at, type="tool_search", server=None, tool="retrieve_tools", arguments={"query": query},
                          response=response, **more)  # fmt: skip


@pytest.fixture
def diary(tmp_path: Path, opened: Callable[[Path], Store], asked: Asked, finished: Asked) -> Diary:
    return Diary(opened(tmp_path), asked, finished)


async def test_what_is_asked_for_aloud_is_seen_whichever_way(diary: Diary) -> None:
    first = diary.write(server=None, tool="request_capability", arguments={"capability": "export PDF", "context": None})
    wish = {"agent_id": "a", "mcp_name": "Notion", "catalog_slug": "notion", "rationale": "why"}
    diary.write(server="catalog", tool="mcp_request_capability", arguments=wish)
    diary.write(server="catalog", tool="mcp_request_capability", arguments={"mcp_name": "x"}, status="error")
    assert await diary.seen() == [
        ("failing", "catalog:mcp_request_capability"), ("formal_request", "notion"), ("request", "export PDF"),
    ]  # fmt: skip
    sighting = next(one for one in (await diary.store.gaps.seen(0)).sightings if one.kind == "request")
    assert (sighting.id, sighting.at_ms) == (first, int(START * 1000))


async def test_what_is_said_in_passing_counts_where_it_speaks_of_a_lack(diary: Diary) -> None:
    for source, reason in (
        ("passive", "no tool for PDF"), ("passive", "read issues"), ("declared", "no tool for CSV"), ("passive", None),
    ):  # fmt: skip
        diary.write(metadata={"intent": {"operation_type": "read", "source": source, "reason": reason}})
    assert await diary.seen() == [("passive", "no tool for PDF")]


async def test_a_search_is_met_by_a_call_of_the_same_client_within_ten_minutes(diary: Diary) -> None:
    other = {"client": {"name": "codex", "version": "1"}}
    diary.search("met", SOMETHING, at=0)
    diary.search("of another client", SOMETHING, at=1, **other)
    diary.search("of another principal", SOMETHING, at=2, principal="agent")
    diary.write(at=599)
    diary.search("too late", SOMETHING, at=1000)
    diary.write(at=1000 + 601)
    diary.search("found nothing", NOTHING, at=3000)
    diary.write(at=3001)
    assert await diary.seen() == [
        ("unmet_search", "found nothing"), ("unmet_search", "of another client"),
        ("unmet_search", "of another principal"), ("unmet_search", "too late"),
    ]  # fmt: skip


async def test_refused_and_failing_tools_are_seen_with_their_names(diary: Diary) -> None:
    diary.write(status="blocked", error=BLOCKED)
    diary.write(status="error")
    diary.write(status="timeout")
    diary.write(status="cancelled")
    diary.write(status="blocked", server=None, tool="call_tool")
    assert await diary.seen() == [
        ("failing", "github:create_issue"), ("failing", "github:create_issue"), ("refused", "github:create_issue"),
    ]  # fmt: skip


async def test_only_what_happened_since_then_is_seen(diary: Diary) -> None:
    for at in (0, 100):
        diary.write(at, server=None, tool="request_capability", arguments={"capability": f"at {at}"})
    assert await diary.seen(since=50) == [("request", "at 100")]


async def test_what_was_cut_or_is_not_as_expected_is_skipped(diary: Diary) -> None:
    for arguments in (None, "cut short", {"capability": 7}, {"capability": "  "}, []):
        diary.write(server=None, tool="request_capability", arguments=arguments)
    assert await diary.seen() == []


async def test_a_report_over_very_much_says_that_it_read_the_newest(
    diary: Diary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gap_signals, "MOST", 3)
    for at in range(5):
        diary.write(at, server=None, tool="request_capability", arguments={"capability": f"at {at}"})
    assert [subject for _, subject in await diary.seen()] == ["at 2", "at 3", "at 4"]
    assert (await diary.store.gaps.seen(0)).cut == ["request"]
