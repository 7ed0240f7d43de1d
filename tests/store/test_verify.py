"""What was written is what is there, or it is said what is not (ACT-8)."""

from __future__ import annotations

import hmac
import json
import shutil
import stat
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.core.record.events import EventText
from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store.activity.feed import FeedPosition
from mcpproxy_py.store.activity.reader import Filters
from mcpproxy_py.store.chain_key import identity, published_head
from mcpproxy_py.store.journal.chain import START, Chain, ChainHead, Sealer
from mcpproxy_py.store.journal.entries import read
from mcpproxy_py.store.options import Options
from mcpproxy_py.store.store import Store
from tests.store.conftest import ROOT, on_sqlite

pytestmark = [pytest.mark.proves("ACT-8"), pytest.mark.anyio]
Make = Callable[..., dict[str, Any]]
Open = Callable[..., Store]
Sql = Callable[..., list[Any]]
SWAP = """UPDATE events SET seq = CASE seq WHEN :one THEN -2 ELSE -1 END WHERE seq IN (:one, :other)"""


@pytest.fixture
async def store(opened: Open, tmp_path: Path, asked: Make, finished: Make) -> Store:
    """Ten finished calls, one under way, and one that its gateway did not live to see the end of."""
    first = opened(tmp_path)
    first.append(asked("left"))
    first.close()
    store = opened(tmp_path)
    for number in range(10):
        store.append(asked(f"r{number}"), finished(f"r{number}"))
    store.append(asked("open"), {"kind": "rekeyed", "at": 5.0})
    await store.synced()
    assert await store.caught_up(30)
    return store


async def findings(store: Store) -> list[tuple[str, str]]:
    report = await store.verify()
    assert report["intact"] == (not report["findings"])
    return [(found["kind"], found["message"]) for found in report["findings"]]


async def test_a_record_nobody_touched_is_intact(store: Store) -> None:
    report = await store.verify()
    (chain,) = report.pop("chains")
    assert (report.pop("result"), report.pop("unverified")) == ("intact", [])
    assert report == {"intact": True, "events": 24, "rows": 12, "wrong": 0, "findings": []}
    assert (chain["checked"], chain["first"], chain["head"]) == (True, 1, str(store.head))


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE events SET head = replace(head, 'github', 'gitlab') WHERE seq = 5", "event 5 is not what was written"),
        ("UPDATE events SET mac = replace(mac, substr(mac, 1, 1), 'x') WHERE seq = 5", "event 5 is not what was"),
        ("UPDATE events SET at = at + 1 WHERE seq = 5", "event 5 is not what was written"),
        ("UPDATE events SET mac = '' WHERE seq = 5", "event 5 was damaged"),
        ("DELETE FROM events WHERE seq = 5", "event 5 is missing"),
        ("DELETE FROM events WHERE seq BETWEEN 5 AND 8", "events 5 to 8 are missing"),
        ("DELETE FROM events WHERE seq <= 3", "events 1 to 3 are missing"),
        ("DELETE FROM events WHERE seq > 20", "its end is gone: events 21 to 24"),
        ("DELETE FROM events", "its end is gone: events 1 to 24"),
        ("UPDATE activity SET status = 'success' WHERE id = 'open'", "record open does not say what was written: st"),
        ("UPDATE activity SET tool = 'delete_repo' WHERE id = 'r3'", "record r3 does not say what was written: tool"),
        ("UPDATE activity SET arguments = '{}' WHERE id = 'r3'", "record r3 does not say what was written: arguments"),
        ("UPDATE activity SET response = NULL WHERE id = 'r3'", "record r3 does not say what was written: response"),
        ("UPDATE activity SET metadata = '{}' WHERE id = 'r3'", "record r3 does not say what was written: metadata"),
        ("UPDATE activity SET intent_type = 'read' WHERE id = 'r3'", "r3 does not say what was written: intent_type"),
        ("UPDATE activity SET n = n + 99999999999 WHERE id = 'r3'", "r3 does not say what was written: timestamp"),
        ("UPDATE activity SET principal = 'me' WHERE id = 'left'", "record left does not say what was written: prin"),
        ("DELETE FROM activity WHERE id = 'r3'", "record r3 is missing"),
        ("UPDATE activity SET id = 'mine' WHERE id = 'r3'", "record r3 is missing"),
    ],
)
async def test_what_was_changed_or_taken_away_is_named(store: Store, sql: Sql, statement: str, expected: str) -> None:
    sql(statement)
    assert any(expected in message for _, message in await findings(store)), await findings(store)


async def test_two_events_that_changed_places_are_named(store: Store, sql: Sql) -> None:
    sql(SWAP, one=6, other=8)
    sql("UPDATE events SET seq = CASE seq WHEN -2 THEN 8 ELSE 6 END WHERE seq < 0")
    found = await findings(store)
    assert ("swapped", found[0][1]) == found[0]
    assert "event 6 is not in its place: it is event 8" in found[0][1]
    assert any("event 8 is not in its place: it is event 6" in message for _, message in found)


async def test_two_records_that_changed_names_are_named(store: Store, sql: Sql, asked: Make) -> None:
    store.append(asked("other", tool="list_issues"))
    assert await store.caught_up(30)
    for old, new in (("open", "x"), ("other", "open"), ("x", "other")):
        sql("UPDATE activity SET id = :new WHERE id = :old", old=old, new=new)
    assert {message for _, message in await findings(store)} == {
        "record open does not say what was written: tool", "record other does not say what was written: tool",
    }  # fmt: skip


async def test_a_record_that_somebody_added_is_named(store: Store, sql: Sql) -> None:
    columns = ", ".join(name for name in ("gateway", "type", "source", "tool", "status", "metadata"))
    sql(f"INSERT INTO activity (n, id, {columns}) SELECT n + 1, 'forged', {columns} FROM activity WHERE id = 'r3'")
    assert await findings(store) == [("added", "no event tells of record forged")]


async def test_an_event_that_was_forged_without_the_key_is_named(store: Store, sql: Sql) -> None:
    ((head, at),) = sql("SELECT head, at FROM events WHERE seq = 23")
    forged = json.dumps({**json.loads(head), "seq": 25, "id": "forged"})
    mac = Sealer(b"another key", "test").mac(store.head.mac, forged.encode())
    sql("INSERT INTO events VALUES (1, 25, :at, :head, :mac)", at=at, head=forged, mac=mac)
    assert any("event 25 is not what was written" in message for _, message in await findings(store))


async def test_a_payload_that_was_erased_leaves_a_chain_that_holds(store: Store, tmp_path: Path, sql: Sql) -> None:
    await store.erase("r3", by={"principal": "admin"})
    assert await store.caught_up(30)
    row = await store.activity("r3")
    assert row is not None
    assert (row["arguments"], row["response"], row["tool"]) == (None, None, "create_issue")
    assert row["metadata"]["erased"] == {"principal": "admin"}
    assert await findings(store) == []
    assert sql("SELECT count(*) FROM events WHERE head LIKE '%Broken%'") == [(0,)]


async def test_what_was_erased_is_not_found_any_more_and_leaves_the_journal(
    opened: Open, tmp_path: Path, asked: Make
) -> None:
    from mcpproxy_py.store.activity.reader import Filters

    store = opened(tmp_path)
    store.append(asked("a1", arguments={"name": "Rumpelstiltskin"}))
    await store.synced()
    await store.erase("a1", by={})
    assert await store.caught_up(30)
    assert (await store.activities(Filters(q="rumpelstiltskin"))).activities == []
    store.close()
    assert b"Rumpelstiltskin" not in b"".join(path.read_bytes() for path in (tmp_path / "journal").iterdir())


async def test_what_comes_after_an_erasure_is_erased_too(store: Store, asked: Make, finished: Make, sql: Sql) -> None:
    """The word of a gateway that saw the end later than another one guessed it."""
    store.append(asked("late", arguments={"name": "Rumpelstiltskin"}))
    await store.erase("late", by={"principal": "admin"})
    error = {"code": "TOOL_ERROR", "message": "no Rumpelstiltskin here"}
    store.append(finished("late", status="error", error=error, response={"text": "Rumpelstiltskin"}))
    assert await store.caught_up(30)
    row = await store.activity("late")
    assert row is not None
    assert (row["arguments"], row["response"], row["status"]) == (None, None, "error")
    assert row["error"] == {"code": "TOOL_ERROR", "message": "erased"}
    assert sql("SELECT count(*) FROM events WHERE head LIKE '%Rumpelstiltskin%'") == [(0,)]
    assert await findings(store) == []


async def test_the_key_is_outside_of_the_database_and_nobody_elses_to_read(store: Store, tmp_path: Path) -> None:
    key = tmp_path / "chain.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(bytes.fromhex(key.read_text().strip())) == 32
    database = tmp_path / "activity.db"
    if database.exists():
        assert key.read_text().strip().encode() not in database.read_bytes()


async def test_a_key_that_is_damaged_is_not_replaced(opened: Open, tmp_path: Path) -> None:
    opened(tmp_path).close()
    (tmp_path / "chain.key").write_text("nonsense\n")
    with pytest.raises(StoreUnavailable, match=r"chain\.key .* is damaged\. Restore it from a backup"):
        opened(tmp_path)
    assert (tmp_path / "chain.key").read_text() == "nonsense\n"


async def test_the_head_is_published_in_health_in_a_file_and_in_the_log(
    opened: Open, tmp_path: Path, asked: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    store = opened(tmp_path)
    store.append(asked())
    await store.synced()
    assert store.head.seq == 1
    assert (store.health()["chain_head"], store.health()["chain_events"]) == (str(store.head), 1)
    store.close()
    assert published_head(tmp_path, identity(tmp_path).name) == store.head
    assert str(store.head) in caplog.text


async def test_an_end_that_was_cut_off_while_nobody_ran_stays_missing(
    store: Store, opened: Open, tmp_path: Path, sql: Sql, asked: Make
) -> None:
    store.close()
    shutil.rmtree(tmp_path / "journal")
    sql("DELETE FROM events WHERE seq > 20")
    again = opened(tmp_path)
    again.append(asked("later"))
    assert await again.caught_up(30)
    assert any("events 21 to " in message and "missing" in message for _, message in await findings(again))


async def test_the_record_can_be_verified_while_no_gateway_runs(store: Store, tmp_path: Path, options: Options) -> None:
    store.close()

    def verify() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mcpproxy_py.store.verify", str(tmp_path)]
        return subprocess.run(
            command, cwd=ROOT, input=f"{options.as_line()}\n", capture_output=True, text=True, timeout=60
        )

    done = verify()
    assert (done.returncode, json.loads(done.stdout)["intact"]) == (0, True), done.stderr


@on_sqlite
async def test_a_chain_sealed_with_another_key_is_listed_and_not_checked(
    store: Store, opened: Open, tmp_path: Path
) -> None:
    store.close()
    shutil.rmtree(tmp_path / "journal")
    (tmp_path / "chain.key").unlink()
    (tmp_path / "chain.name").unlink()
    again = opened(tmp_path)
    report = await again.verify()
    assert report["findings"] == []
    assert {chain["checked"] for chain in report["chains"]} == {True, False}


@given(st.lists(st.dictionaries(st.text(), st.text() | st.integers() | st.none()), min_size=1, max_size=8), st.data())
def test_no_line_of_a_chain_can_be_changed_without_the_key(events: list[dict[str, Any]], data: st.DataObject) -> None:
    sealer = Sealer(b"k", "c")
    written, head = Chain(sealer).link(events)
    lines = [read(line) for line in written.split(b"\n")[:-1]]
    before = START
    for seq, entry in enumerate(lines, 1):
        assert entry is not None
        assert (entry.seq, sealer.mac(before.mac, entry.head.encode())) == (seq, entry.mac)
        text = entry.head.encode()
        place = data.draw(st.integers(0, len(text) - 1))
        changed = text[:place] + bytes([text[place] ^ 1]) + text[place + 1 :]
        assert sealer.mac(before.mac, changed) != entry.mac
        before = ChainHead(entry.seq, entry.mac)
    assert before == head


@given(
    st.binary(max_size=200), st.text(st.characters(exclude_categories=["Cs"])), st.text("0f", max_size=64), st.binary()
)
def test_a_hash_of_the_chain_is_the_hmac_that_everybody_has(key: bytes, chain: str, before: str, head: bytes) -> None:
    own = hmac.digest(key, chain.encode(), "sha256")
    assert Sealer(key, chain).mac(before, head) == hmac.digest(own, before.encode() + head, "sha256").hex()


async def test_events_as_text_and_as_earlier_versions_wrote_them_make_the_same_rows(
    opened: Open, tmp_path: Path, asked: Make, finished: Make
) -> None:
    """Earlier ones wrote what is null, too; such journals and databases go on to be read and to be vouched for."""
    nothing = {"session_id": None, "request_id": None, "server": None}
    store = opened(tmp_path)
    for name, start, end in (
        ("full", asked(), finished()),
        ("nulls", asked(**nothing), finished(error=None, response=None)),
        ("failed", asked(), finished(error={"code": "X", "message": "no"}, duration_ms=None)),
    ):
        store.append({**start, "id": f"{name} as dict"}, {**end, "id": f"{name} as dict"})
        store.append(as_text({**start, "id": f"{name} as text"}), as_text({**end, "id": f"{name} as text"}))
    await store.synced()
    assert await store.caught_up(30)
    assert await findings(store) == []
    rows = {row["id"]: row for row in (await store.activities(Filters(limit=50))).activities}
    assert len(rows) == 6
    for name in ("full", "nulls", "failed"):
        one, other = ({**rows[f"{name} as {kind}"], "id": ""} for kind in ("dict", "text"))
        assert one == other
    page = [told.record async for told in first_of(store.events(FeedPosition({})), 12)]
    assert page and all(record is not None for record in page[1:])


def as_text(event: dict[str, Any]) -> EventText:
    payload = event.get("arguments") or event.get("response")
    head = {key: value for key, value in event.items() if value is not None and key not in ("arguments", "response")}
    return EventText(json.dumps(head).encode(), b"" if payload is None else json.dumps(payload).encode())


async def first_of(told: AsyncGenerator[Any], many: int) -> AsyncGenerator[Any]:
    try:
        while many > 0:
            batch = await anext(told)
            for event in batch.events[:many]:
                yield event
            many -= len(batch.events)
    finally:
        await told.aclose()


def test_an_identity_is_made_once_and_read_afterwards(tmp_path: Path) -> None:
    first = identity(tmp_path)
    assert identity(tmp_path) == first
    assert first.key_id not in first.key.hex()
