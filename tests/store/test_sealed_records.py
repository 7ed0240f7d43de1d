"""Sealed records: tokens and pins are believed as a gateway wrote them last, and in no other state (ACT-10)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store import sealed_records
from mcpproxy_py.store.sealed_records import RecordConflict, SealedRecord, UnbelievedRecord
from mcpproxy_py.store.store import Store
from tests.store.conftest import on_postgres, on_sqlite

pytestmark = [pytest.mark.proves("ACT-10"), pytest.mark.anyio]
Open = Callable[..., Store]
Sql = Callable[..., list[Any]]
KIND = "pin"
OLD, NEW = {"tools": ["old"]}, {"tools": ["new", "é\0"]}


@pytest.fixture
async def store(opened: Open, tmp_path: Path) -> Store:
    return opened(tmp_path)


async def verdict(store: Store) -> tuple[str, list[str]]:
    assert await store.caught_up(60)
    report = await store.verify()
    return report["result"], [found["kind"] for found in report["findings"]]


async def values(store: Store) -> dict[str, Any]:
    return {name: record.value for name, record in (await store.sealed_records(KIND)).believed.items()}


async def reasons(store: Store) -> dict[str, str]:
    return {name: record.why for name, record in (await store.sealed_records(KIND)).unbelieved.items()}


async def test_what_was_put_is_there_after_a_restart_and_each_change_is_a_version(
    store: Store, opened: Open, tmp_path: Path
) -> None:
    heard: list[Any] = []
    store.on_event(lambda kind, payload: heard.append((kind, payload)))
    first = await store.put_sealed_record(KIND, "github", OLD, expected=0)
    second = await store.put_sealed_record(KIND, "github", NEW, expected=first.version, details={"by": "admin"})
    assert (first.version, second.version, second.value) == (1, 2, NEW)
    assert heard == [("record", [KIND, "github"])] * 2
    assert await store.sealed_records("token") == ({}, {})
    assert await store.sealed_record(KIND, "slack") is None
    assert await verdict(store) == ("intact", [])
    store.close()
    again = opened(tmp_path)
    assert await again.sealed_records(KIND) == ({"github": second}, {})
    assert await again.sealed_record(KIND, "github") == second
    assert await verdict(again) == ("intact", [])


async def test_who_decided_on_an_older_version_is_told_and_changes_nothing(store: Store) -> None:
    await store.put_sealed_record(KIND, "github", OLD)
    for expected in (0, 2):
        with pytest.raises(RecordConflict) as refused:
            await store.put_sealed_record(KIND, "github", NEW, expected=expected)
        assert refused.value.version == 1
    assert await values(store) == {"github": OLD}
    assert (await store.put_sealed_record(KIND, "github", NEW)).version == 2
    assert await verdict(store) == ("intact", [])


async def test_the_event_holds_the_digest_and_what_was_said_and_not_the_value(
    store: Store, sql: Sql, tmp_path: Path
) -> None:
    await store.put_sealed_record(KIND, "github", {"text": "a" * 3_000_000}, details={"by": "admin"})
    assert await store.caught_up(60)
    (event,) = [json.loads(head) for (head,) in sql("SELECT head FROM events")]
    assert len(json.dumps(event)) < 1000
    assert (event["kind"], event["of"], event["name"], event["version"]) == ("record", KIND, "github", 1)
    assert event["details"] == {"by": "admin"}
    assert await verdict(store) == ("intact", [])


@pytest.mark.parametrize(("attack", "why", "finding"), [
    ("UPDATE sealed_records SET value = replace(value, 'new', 'evil') WHERE name = 'a'", "changed", "unsealed"),
    ("UPDATE sealed_records SET version = 9 WHERE name = 'a'", "changed", "unsealed"),
    ("UPDATE sealed_records SET at = at + 1 WHERE name = 'a'", "changed", "unsealed"),
    ("UPDATE sealed_records SET value = 'no JSON', seal = '' WHERE name = 'a'", "changed", "unsealed"),
    ("UPDATE sealed_records SET seal = seal || ' ' || seal, event = 'x' WHERE name = 'a'", "changed", "unsealed"),
    ("UPDATE sealed_records SET (value, version, event, seal, at) = (SELECT value, version, event, seal, at FROM kept "
     "WHERE name = 'b') WHERE name = 'a'", "changed", "unsealed"),
    ("UPDATE sealed_records SET (value, version, event, seal, at) = (SELECT value, version, event, seal, at FROM kept "
     "WHERE name = 'a') WHERE name = 'a'", "put back", "rolled_back"),
    ("DELETE FROM sealed_records WHERE name = 'a'", "missing", "missing"),
])  # fmt: skip
async def test_a_row_that_somebody_else_changed_is_not_believed_and_named(
    store: Store, opened: Open, tmp_path: Path, sql: Sql, attack: str, why: str, finding: str
) -> None:
    for name in ("a", "b"):
        await store.put_sealed_record(KIND, name, OLD)
    sql("CREATE TABLE kept AS SELECT * FROM sealed_records")
    await store.put_sealed_record(KIND, "a", NEW)
    sql(attack)
    assert (await values(store), await reasons(store)) == ({"b": OLD}, {"a": why})
    assert any("pin 'a'" in doubt for doubt in store.health()["unbelieved"])
    assert await verdict(store) == ("broken", [finding])
    store.close()
    again = opened(tmp_path)
    assert await reasons(again) == {"a": why}
    found = await again.sealed_record(KIND, "a")
    assert found == UnbelievedRecord("a", why, 2)
    decided = await again.put_sealed_record(KIND, "a", OLD, expected=found.version)
    assert (decided.version, await values(again)) == (3, {"a": OLD, "b": OLD})
    assert again.health()["unbelieved"] == []
    assert await verdict(again) == ("intact", [])


@pytest.mark.parametrize("attack", [
    "INSERT INTO sealed_records SELECT kind, 'forged', value, version, event, seal, at FROM sealed_records",
    "INSERT INTO sealed_records SELECT 'token', name, value, version, event, seal, at FROM sealed_records",
    "INSERT INTO sealed_records VALUES ('pin', 'forged', '{}', 1, 'e', '', 1)",
])  # fmt: skip
async def test_a_row_copied_under_another_name_or_kind_or_made_up_is_none(store: Store, sql: Sql, attack: str) -> None:
    await store.put_sealed_record(KIND, "a", OLD)
    sql(attack)
    assert await values(store) == {"a": OLD}
    assert (await store.sealed_records("token")).believed == {}
    assert await verdict(store) == ("broken", ["unsealed"])
    sql("DELETE FROM sealed_records WHERE kind = 'token' OR name = 'forged'")
    for kind in (KIND, "token"):
        await store.sealed_records(kind)
    assert store.health()["unbelieved"] == []
    assert await verdict(store) == ("intact", [])


async def test_a_gateway_that_saw_nothing_yet_finds_an_old_row_by_the_chain(
    store: Store, sql: Sql, tmp_path: Path
) -> None:
    await store.put_sealed_record(KIND, "a", OLD)
    sql("CREATE TABLE kept AS SELECT * FROM sealed_records")
    await store.put_sealed_record(KIND, "a", NEW)
    sql("DELETE FROM sealed_records")
    sql("INSERT INTO sealed_records SELECT * FROM kept")
    (tmp_path / sealed_records.RECORD_MEMORY).unlink()
    assert await verdict(store) == ("broken", ["rolled_back"])


async def test_without_its_event_nothing_is_changed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.put_sealed_record(KIND, "a", OLD)

    def broken(*events: Any) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(store._journal, "append", broken)
    with pytest.raises(StoreUnavailable, match="disk is full"):
        await store.put_sealed_record(KIND, "a", NEW)
    assert await values(store) == {"a": OLD}


async def test_what_could_not_be_written_is_no_forgery(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event comes first. Where the row does not follow, that is on record too."""

    def full(*_: Any) -> None:
        raise OperationalError("INSERT", None, Exception("database or disk is full"))

    with monkeypatch.context() as patched:
        patched.setattr(sealed_records, "_put_row", full)
        for name in ("a", "b"):
            with pytest.raises(StoreUnavailable, match="disk is full"):
                await store.put_sealed_record(KIND, name, OLD)
    await store.put_sealed_record(KIND, "b", NEW)
    assert (await values(store), await reasons(store)) == ({"b": NEW}, {})
    assert await verdict(store) == ("intact", [])


@pytest.mark.parametrize("name", ["", "x" * 513])
async def test_a_name_has_its_bounds(store: Store, name: str) -> None:
    with pytest.raises(ValueError, match="1 to 512 characters"):
        await store.put_sealed_record(KIND, name, OLD)


async def test_a_sealing_key_may_be_replaced_step_by_step(opened: Open, tmp_path: Path) -> None:
    store = opened(tmp_path, sealing_keys=("old",))
    await store.put_sealed_record(KIND, "a", OLD)
    for keys in (("old", "new"), ("new", "old"), ("new",)):
        store.close()
        store = opened(tmp_path, sealing_keys=keys)
        assert await values(store) == {"a": OLD}
    assert await verdict(store) == ("intact", [])


@on_sqlite
async def test_a_damaged_memory_of_the_records_stops_the_start(opened: Open, tmp_path: Path) -> None:
    opened(tmp_path).close()
    (tmp_path / sealed_records.RECORD_MEMORY).write_text("[]")
    with pytest.raises(StoreUnavailable, match=r"records\.json is damaged"):
        opened(tmp_path)


@on_postgres
async def test_gateways_believe_each_other_and_one_is_first(opened: Open, tmp_path: Path) -> None:
    one = opened(tmp_path / "one", sealing_keys=("shared",))
    two = opened(tmp_path / "two", sealing_keys=("shared",))
    stranger = opened(tmp_path / "three")
    await one.put_sealed_record(KIND, "a", OLD)
    assert await values(two) == {"a": OLD}
    assert (await values(stranger), await reasons(stranger)) == ({}, {"a": "changed"})
    await two.put_sealed_record(KIND, "a", NEW, expected=1)
    with pytest.raises(RecordConflict):
        await one.put_sealed_record(KIND, "a", OLD, expected=1)
    assert await values(one) == {"a": NEW}


@on_postgres
async def test_what_another_gateway_saw_later_cannot_be_put_back_here(opened: Open, tmp_path: Path, sql: Sql) -> None:
    one = opened(tmp_path, sealing_keys=("shared",))
    two = opened(tmp_path / "two", sealing_keys=("shared",))
    await one.put_sealed_record(KIND, "a", OLD)
    sql("CREATE TABLE kept AS SELECT * FROM sealed_records")
    await one.put_sealed_record(KIND, "a", NEW)
    assert await values(two) == {"a": NEW}
    sql("DELETE FROM sealed_records")
    sql("INSERT INTO sealed_records SELECT * FROM kept")
    assert [await reasons(store) for store in (one, two)] == [{"a": "put back"}] * 2


@on_postgres
async def test_a_record_whose_gateway_is_behind_is_not_called_forged(opened: Open, tmp_path: Path) -> None:
    one = opened(tmp_path / "one")
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "one" / "chain.key", tmp_path / "other")
    other = opened(tmp_path / "other")
    other._writer.stop(30)
    assert isinstance(await other.put_sealed_record(KIND, "a", OLD), SealedRecord)
    report = await one.verify()
    assert (report["result"], report["findings"]) == ("not_verifiable", [])
