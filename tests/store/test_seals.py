"""What opens something counts only with its seal and its event: switches, decisions on requests (ACT-10)."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import text

from mcpproxy_py.core.catalog.approval_rules import ApprovalDecision, CapabilityWish, NotAccepted, Submitted
from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store.chain_key import Anchor, Identity
from mcpproxy_py.store.database.migrate import SCRIPTS
from mcpproxy_py.store.journal.chain import START, ChainHead
from mcpproxy_py.store.options import Options
from mcpproxy_py.store.seals import Seals
from mcpproxy_py.store.store import Store
from tests.store.conftest import ROOT, on_postgres, on_sqlite
from tests.support.postgres import Server

pytestmark = [pytest.mark.proves("ACT-10"), pytest.mark.anyio]
Make = Callable[..., dict[str, Any]]
Open = Callable[..., Store]
Sql = Callable[..., list[Any]]
NOW = 1_800_000_000_000
THAWED = "UPDATE switches SET value = 'false'"
REVIEW = '{"by":"admin","source":"cli","terminal":true,"at_ms":1800000000001,"notes":null}'
APPROVED = "UPDATE approvals SET status = 'approved', review = :review"


@pytest.fixture
async def store(opened: Open, tmp_path: Path) -> Store:
    return opened(tmp_path)


async def filed(store: Store, name: str = "notion") -> str:
    found = await store.approvals.submit(CapabilityWish("a", name, "for the report"), "local", new_id=name, now_ms=NOW)
    assert isinstance(found, Submitted)
    return found.request.id


def review(terminal: bool = False) -> ApprovalDecision:
    return ApprovalDecision("admin", "cli", terminal, NOW + 1)


async def verdict(store: Store) -> tuple[str, list[str]]:
    assert await store.caught_up(60)
    report = await store.verify()
    return report["result"], [found["kind"] for found in report["findings"]]


KILLED = """
    import os, signal, sys
    from pathlib import Path
    import anyio
    from mcpproxy_py.store import saved_state, sealed_records
    from mcpproxy_py.store.store import Options, open_store

    def killed(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    async def main():
        data_dir, options, before, what = sys.argv[1:]
        store = open_store(Path(data_dir), options=Options.from_line(options), apart=True)
        for value in range(int(before)):
            await store.set_switch("frozen", bool(value))
            await store.put_sealed_record("token", "ci", value)
        if what != "nothing":
            saved_state._put = sealed_records._put_row = killed
        if what == "switch":
            await store.set_switch("frozen", True)
        elif what == "record":
            await store.put_sealed_record("token", "ci", "new")
        killed()

    anyio.run(main)
"""


async def killed(data_dir: Path, options: Options, before: int, what: str) -> None:
    """A gateway that made so many changes, and was killed after one more was on record and before its row was there."""
    program = [sys.executable, "-c", textwrap.dedent(KILLED), str(data_dir), options.as_line(), str(before), what]
    done = await anyio.run_process(program, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("before", [0, 1], ids=["the first", "a later one"])
@pytest.mark.parametrize("what", ["switch", "record"])
async def test_a_change_that_is_on_record_and_was_never_made_for_the_gateway_was_killed_breaks_nothing(
    options: Options, opened: Open, tmp_path: Path, what: str, before: int
) -> None:
    await killed(tmp_path, options, before, what)
    store = opened(tmp_path)
    assert await store.switch("frozen") is (False if before else None)
    assert await verdict(store) == ("intact", [])
    await store.set_switch("frozen", True)
    await store.put_sealed_record("token", "ci", "newer")
    assert await verdict(store) == ("intact", [])


async def test_a_row_that_is_put_back_is_not_excused_by_killing_the_gateway(
    options: Options, opened: Open, tmp_path: Path, sql: Sql
) -> None:
    await killed(tmp_path, options, 1, "nothing")
    (switch,), (record,) = (
        sql("SELECT value, version, event, seal, at FROM switches"),
        sql("SELECT value, version, event, seal, at FROM sealed_records"),
    )
    store = opened(tmp_path)
    await store.set_switch("frozen", True)
    await store.put_sealed_record("token", "ci", "narrower")
    await verdict(store)
    store.close()
    sql("UPDATE gateways SET life = 'somebody who did not leave'")
    for table, row in (("switches", switch), ("sealed_records", record)):
        sql(
            f"UPDATE {table} SET value = :value, version = :version, event = :event, seal = :seal, at = :at",
            **dict(zip(("value", "version", "event", "seal", "at"), row, strict=True)),
        )
    assert await verdict(opened(tmp_path)) == ("broken", ["rolled_back", "rolled_back"])


@pytest.mark.proves("GATE-13")
async def test_a_freeze_lifted_in_the_database_holds_also_after_a_restart(
    store: Store, opened: Open, tmp_path: Path, sql: Sql
) -> None:
    await store.set_switch("frozen", True)
    assert await verdict(store) == ("intact", [])
    sql(THAWED)
    assert await store.switch("frozen") is True
    assert any("'frozen'" in doubt for doubt in store.health()["unbelieved"])
    assert await verdict(store) == ("broken", ["unsealed"])
    store.close()
    again = opened(tmp_path)
    assert await again.switch("frozen") is True
    await again.set_switch("frozen", False)
    assert await again.switch("frozen") is False
    assert again.health()["unbelieved"] == []
    assert await verdict(again) == ("intact", [])


@pytest.mark.parametrize("attack", [
    "DELETE FROM switches",
    "UPDATE switches SET (value, at, version, event, seal) = (SELECT value, at, version, event, seal FROM kept)",
    "UPDATE switches SET (value, at, event, seal) = (SELECT value, at, event, seal FROM kept)",
    "UPDATE switches SET value = 'false', seal = NULL",
    "UPDATE switches SET value = 'false', seal = seal || ' ' || seal",
    "UPDATE switches SET value = 'no JSON'",
    "INSERT INTO switches SELECT 'frozen', 'false', at, 99, event, seal FROM kept WHERE true ON CONFLICT (name) "
    "DO UPDATE SET value = 'false', version = 99",
])  # fmt: skip
async def test_no_row_lifts_a_freeze_not_even_one_that_once_was_sealed(
    store: Store, opened: Open, tmp_path: Path, sql: Sql, attack: str
) -> None:
    for value in (True, False):
        await store.set_switch("frozen", value)
    sql("CREATE TABLE kept AS SELECT * FROM switches")
    await store.set_switch("frozen", True)
    sql(attack)
    assert await store.switch("frozen") is True
    assert (await verdict(store))[0] == "broken"
    store.close()
    assert await opened(tmp_path).switch("frozen") is True


async def test_a_freeze_that_somebody_wrote_in_holds_until_a_person_lifts_it(store: Store, sql: Sql) -> None:
    """Whoever wrote it: what closes needs no seal. But putting back what stood there before does not open it."""
    await store.set_switch("frozen", False)
    sql("CREATE TABLE kept AS SELECT * FROM switches")
    sql("UPDATE switches SET value = 'true'")
    assert await store.switch("frozen") is True
    sql("DELETE FROM switches")
    sql("INSERT INTO switches SELECT * FROM kept")
    assert await store.switch("frozen") is True
    await store.set_switch("frozen", False)
    assert await store.switch("frozen") is False


async def test_without_its_event_no_switch_is_set(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.set_switch("frozen", True)

    def broken(*events: Any) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(store._journal, "append", broken)
    with pytest.raises(StoreUnavailable, match="disk is full"):
        await store.set_switch("frozen", False)
    assert await store.switch("frozen") is True


@pytest.mark.proves("CAT-7")
async def test_an_approval_written_into_the_database_is_none(store: Store, sql: Sql) -> None:
    name = await filed(store)
    sql(APPROVED, review=REVIEW)
    request = await store.approvals.get(name)
    assert request is not None
    assert (request.status, request.review, request.sealed) == ("pending", None, False)
    assert [each.status for each in await store.approvals.list(status="pending", limit=9)] == ["pending"]
    assert await store.approvals.list(status="approved", limit=9) == []
    again = await store.approvals.submit(CapabilityWish("a", "notion", "x"), "local", new_id="2", now_ms=NOW)
    assert isinstance(again, Submitted)
    assert again.request.status == "pending"
    assert await verdict(store) == ("broken", ["unsealed"])
    refused = await store.approvals.decide(name, "approve", review())
    assert isinstance(refused, NotAccepted)
    assert "somebody else than a gateway" in refused.message
    assert any(name in doubt for doubt in store.health()["unbelieved"])
    await store.approvals.decide(name, "deny", review())
    assert store.health()["unbelieved"] == []
    assert await verdict(store) == ("intact", [])


@pytest.mark.parametrize(("attack", "kind"), [
    ("UPDATE approvals SET wish = replace(wish, 'report', 'evil') WHERE id = 'apr_one'", "unsealed"),
    ("UPDATE approvals SET expires_at = expires_at + 1 WHERE id = 'apr_one'", "unsealed"),
    ("UPDATE approvals SET seal = (SELECT seal FROM kept WHERE id = 'apr_two') WHERE id = 'apr_one'", "unsealed"),
    ("UPDATE approvals SET principal = 'other' WHERE id = 'apr_one'", "unsealed"),
    ("DELETE FROM approvals WHERE id = 'apr_one'", "missing"),
    ("UPDATE approvals SET (status, review, seal) = (SELECT status, review, seal FROM kept WHERE id = 'apr_one') "
     "WHERE id = 'apr_one'", "changed"),
])  # fmt: skip
async def test_a_decision_that_was_changed_or_taken_back_in_the_database_is_named(
    store: Store, sql: Sql, attack: str, kind: str
) -> None:
    for name in ("one", "two"):
        await filed(store, name)
    sql("CREATE TABLE kept AS SELECT * FROM approvals")
    await store.approvals.decide("apr_one", "approve", review())
    assert await verdict(store) == ("intact", [])
    sql(attack)
    assert await verdict(store) == ("broken", [kind])
    found = await store.approvals.get("apr_one")
    assert found is None or found.status == "pending"


async def test_what_was_changed_is_not_sealed_when_it_runs_out(store: Store, sql: Sql) -> None:
    name = await filed(store)
    sql("UPDATE approvals SET wish = replace(wish, 'notion', 'evil')")
    await store.approvals.expire(name, NOW + 5)
    found = await store.approvals.get(name)
    assert found is not None
    assert (found.status, found.sealed) == ("pending", False)


async def test_a_decision_is_on_record_before_it_counts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    name = await filed(store)

    def broken(*events: Any) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(store._journal, "append", broken)
    with pytest.raises(StoreUnavailable):
        await store.approvals.decide(name, "approve", review())
    found = await store.approvals.get(name)
    assert found is not None
    assert found.status == "pending"


# -- several gateways


@on_postgres
async def test_gateways_believe_each_other_by_a_shared_chain_key_or_shared_sealing_keys(
    opened: Open, tmp_path: Path
) -> None:
    one = opened(tmp_path / "one", sealing_keys=("shared",))
    by_sealing_key = opened(tmp_path / "two", sealing_keys=("other", "shared"))
    (tmp_path / "three").mkdir()
    shutil.copy(tmp_path / "one" / "chain.key", tmp_path / "three")
    by_chain_key, stranger = opened(tmp_path / "three"), opened(tmp_path / "four")
    for value in (True, False):
        await one.set_switch("frozen", value)
        seen = [await store.switch("frozen") for store in (one, by_sealing_key, by_chain_key, stranger)]
        assert seen == [value, value, value, True], "who cannot check it, stays closed"
    await stranger.set_switch("frozen", False)
    assert [await store.switch("frozen") for store in (one, stranger)] == [False, False]


async def test_a_sealing_key_may_be_replaced_step_by_step(opened: Open, tmp_path: Path) -> None:
    store = opened(tmp_path, sealing_keys=("old",))
    await store.set_switch("frozen", False)
    name = await filed(store)
    await store.approvals.decide(name, "approve", review())
    for keys in (("old", "new"), ("new", "old"), ("new",)):
        store.close()
        store = opened(tmp_path, sealing_keys=keys)
        assert await store.switch("frozen") is False
    with store._database.reading() as connection:
        rows = [*connection.execute(text("SELECT seal FROM switches UNION ALL SELECT seal FROM approvals")).scalars()]
    assert all(len(seal.split()) == 2 for seal in rows), "of this directory's key and of the new one"
    assert await verdict(store) == ("intact", [])


def test_a_seal_is_of_all_its_parts_and_of_their_places() -> None:
    seals = Seals([b"one", b"two"])
    seal = seals.seal("a", "b", 1)
    assert seals.holds(seal, "a", "b", 1)
    assert Seals([b"two", b"three"]).holds(seal, "a", "b", 1)
    for parts in (("a", "b"), ("ab", "", 1), ("b", "a", 1), ("a", "b", "1"), ("a", "b", 1, None)):
        assert not seals.holds(seal, *parts)
    for forged in (None, "", " ", "é", seal[:-1], seal[:63], seal.upper()):
        assert not Seals([b"three"]).holds(forged, "a", "b", 1)
        assert not seals.holds(forged, "x")


# -- databases of before


def before_seals(data_dir: Path, options: Options) -> None:
    data_dir.mkdir(exist_ok=True)
    database = options.database(data_dir)
    with database.writing() as connection:
        config = Config()
        config.set_main_option("script_location", str(SCRIPTS))
        config.attributes["connection"] = connection
        command.upgrade(config, "0004")
        connection.execute(text("INSERT INTO switches VALUES ('frozen', 'false', 5)"))
        wish = ('{"agent_id":"a","mcp_name":"notion","rationale":"r","catalog_slug":null,"requested_tools":[],'
                '"context":{},"expires_at_ms":null}')  # fmt: skip
        connection.execute(
            text("INSERT INTO approvals VALUES ('apr_1', 'local', 'notion', 'approved', :wish, :review, 1, 2)"),
            {"wish": wish, "review": REVIEW},
        )
    database.close()


@pytest.fixture
def empty(options: Options, postgres: Server) -> Options:
    return Options(database_url=postgres.empty_database()) if options.database_url else options


async def test_what_a_version_before_seals_left_is_taken_over_once_and_on_record(
    tmp_path: Path, opened: Open, empty: Options
) -> None:
    before_seals(tmp_path, empty)
    (tmp_path / "chain.name").write_text("from-before\n")
    store = opened(tmp_path, database_url=empty.database_url)
    found = await store.approvals.get("apr_1")
    assert found is not None
    assert (await store.switch("frozen"), found.status, found.sealed) == (False, "approved", True)
    assert await verdict(store) == ("intact", [])
    with store._database.writing() as connection:
        told = connection.execute(text("SELECT count(*) FROM events WHERE head LIKE '%adopted%'")).scalar()
        connection.execute(text("UPDATE switches SET seal = NULL"))
        connection.execute(text("UPDATE approvals SET seal = NULL"))
    assert told == 2
    store.close()
    again = opened(tmp_path, database_url=empty.database_url)
    found = await again.approvals.get("apr_1")
    assert found is not None
    assert found.status == "pending"
    assert await verdict(again) == ("broken", ["unsealed", "unsealed"])


async def test_a_new_data_directory_takes_nothing_over(tmp_path: Path, opened: Open, empty: Options) -> None:
    before_seals(tmp_path, empty)
    store = opened(tmp_path, database_url=empty.database_url)
    found = await store.approvals.get("apr_1")
    assert found is not None
    assert (await store.switch("frozen"), found.status) == (True, "pending")


@on_sqlite
async def test_a_damaged_memory_of_the_switches_stops_the_start(tmp_path: Path, opened: Open) -> None:
    opened(tmp_path).close()
    (tmp_path / "switches.json").write_text("[]")
    with pytest.raises(StoreUnavailable, match=r"switches\.json is damaged"):
        opened(tmp_path)


# -- what verify believes


OUTSIDE = (
    ("UPDATE gateways SET key_id = '00'", "changed"),
    ("UPDATE gateways SET key_id = '00', name = 'other'", "missing"),
    ("DELETE FROM gateways", "missing"),
    ("DELETE FROM gateways; DELETE FROM events; DELETE FROM activity", "missing"),
)


@pytest.mark.proves("ACT-8")
@pytest.mark.parametrize(("attack", "kind"), OUTSIDE)
async def test_what_the_database_says_of_a_chain_excuses_nothing(
    store: Store, tmp_path: Path, sql: Sql, asked: Make, finished: Make, options: Options, attack: str, kind: str
) -> None:
    store.append(asked("r1"), finished("r1"))
    assert await verdict(store) == ("intact", [])
    for statement in (*attack.split("; "), "UPDATE activity SET tool = 'x'"):
        sql(statement)
    result, kinds = await verdict(store)
    assert result == "broken"
    assert kind in kinds
    store.close()
    done = offline(tmp_path, options)
    assert done.returncode == 1, done.stdout


def offline(data_dir: Path, options: Options, *more: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "mcpproxy_py.store.verify", str(data_dir), *more]
    return subprocess.run(
        program, cwd=ROOT, input=f"{options.as_line()}\n", capture_output=True, text=True, timeout=120
    )


@on_postgres
@pytest.mark.proves("ACT-6")
async def test_a_chain_that_was_verified_here_has_to_stay(
    opened: Open, tmp_path: Path, asked: Make, finished: Make, sql: Sql
) -> None:
    one = opened(tmp_path / "one")
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "one" / "chain.key", tmp_path / "other")
    other = opened(tmp_path / "other")
    for store, name in ((one, "a"), (other, "b")):
        store.append(asked(name), finished(name))
        assert await store.caught_up(60)
    assert await verdict(one) == ("intact", [])
    name = other._who.name
    other.close()
    sql("UPDATE gateways SET key_id = '00' WHERE name = :name", name=name)
    assert await verdict(one) == ("broken", ["changed"])
    sql("UPDATE events SET head = replace(head, 'github', 'gitlab') WHERE head LIKE '%\"id\":\"b\"%'")
    assert (await verdict(one))[0] == "broken"
    for table, column in (("events", "chain"), ("activity", "gateway"), ("gateways", "number")):
        sql(f"DELETE FROM {table} WHERE {column} <> {one._me.number}")
    assert await verdict(one) == ("broken", ["missing"])


@on_postgres
@pytest.mark.proves("ACT-6")
async def test_a_chain_of_a_gateway_with_another_key_is_said_not_to_be_verifiable(
    opened: Open, tmp_path: Path, asked: Make, options: Options
) -> None:
    one, other = opened(tmp_path / "one"), opened(tmp_path / "other")
    for store, name in ((one, "a"), (other, "b")):
        store.append(asked(name))
        assert await store.caught_up(60)
    report = await one.verify()
    assert (report["result"], report["intact"], report["findings"]) == ("not_verifiable", False, [])
    assert report["unverified"] == [f"chain {other._who.name}: sealed with another key"]
    one.close()
    assert offline(tmp_path / "one", options).returncode == 5


@on_sqlite
async def test_without_key_database_or_head_nothing_is_called_intact(
    store: Store, tmp_path: Path, asked: Make, options: Options
) -> None:
    store.append(asked())
    assert await store.caught_up(60)
    store.close()
    assert offline(tmp_path, options).returncode == 0
    (tmp_path / "chain.head").rename(tmp_path / "kept")
    shutil.rmtree(tmp_path / "journal")
    done = offline(tmp_path, options)
    assert (done.returncode, "no head of it is kept" in done.stdout) == (5, True)
    (tmp_path / "kept").rename(tmp_path / "chain.head")
    for name, said in (("chain.key", "no chain key"), ("activity.db", "no database")):
        (tmp_path / name).rename(tmp_path / "away")
        done = offline(tmp_path, options)
        assert (done.returncode, said in done.stderr, (tmp_path / name).exists()) == (5, True, False)
        (tmp_path / "away").rename(tmp_path / name)


@on_sqlite
async def test_what_waits_in_the_journal_is_checked_and_excuses_no_cut(
    store: Store, tmp_path: Path, sql: Sql, asked: Make, options: Options
) -> None:
    for number in range(9):
        store.append(asked(f"r{number}"))
    assert await store.caught_up(60)
    with store._database.writing():  # the writer has to wait, as if it had been killed
        store.append(asked("later"))
        store._journal.sync_now()
        shutil.copytree(tmp_path, tmp_path.parent / "killed")
    killed = tmp_path.parent / "killed"
    done = offline(killed, options)
    assert (done.returncode, done.stderr) == (0, "")
    (segment,) = [path for path in (killed / "journal").iterdir() if b'"later"' in path.read_bytes()]
    whole = segment.read_bytes()
    segment.write_bytes(whole.replace(b'"later"', b'"laker"'))
    assert "event 10 is not what was written" in offline(killed, options).stdout
    segment.write_bytes(whole)
    sql("DELETE FROM events WHERE seq > 4", killed)
    assert offline(killed, options).returncode == 1
    sql("DELETE FROM journal_position", killed)
    assert offline(killed, options).returncode == 1, "the rows are there and tell of events that wait"


# -- anchors


def test_an_anchor_is_read_as_it_was_written_and_no_other_way() -> None:
    anchor = Anchor.now("a1b2", ChainHead(12, "0f" * 32))
    assert Anchor.read(f"  {anchor.line}\n") == anchor
    for at in range(len(anchor.line)):
        other = "0" if anchor.line[at] != "0" else "1"
        for line in (anchor.line[:at] + other + anchor.line[at + 1 :], anchor.line[:at], anchor.line[at + 1 :]):
            with pytest.raises(ValueError, match="no anchor"):
                Anchor.read(line)


async def test_an_anchor_finds_an_older_copy_that_was_put_back_also_when_it_went_on(
    opened: Open, tmp_path: Path, asked: Make, sql: Sql
) -> None:
    data = tmp_path / "data"
    store = opened(data)
    for number in range(5):
        store.append(asked(f"r{number}"))
    assert await store.caught_up(60)
    early = await store.anchor()
    store.close()
    shutil.copytree(data, tmp_path / "copy")
    tables = ("events", "activity", "journal_position")
    for table in tables:
        sql(f"CREATE TABLE kept_{table} AS SELECT * FROM {table}", data)
    store = opened(data)
    store.append(asked("later"), asked("last"))
    assert await store.caught_up(60)
    late = await store.anchor()
    for anchor in (early, late):
        assert (await store.verify(anchor))["result"] == "intact"
    store.close()
    for table in tables:
        sql(f"DELETE FROM {table}", data)
        sql(f"INSERT INTO {table} SELECT * FROM kept_{table}", data)
    shutil.rmtree(data / "journal")
    for name in ("journal", "chain.head"):
        source = tmp_path / "copy" / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, data / name)
    store = opened(data)
    assert (await store.verify())["result"] == "intact", "in itself it is"
    assert (await store.verify(early))["result"] == "intact"
    for more in (0, 5):
        for number in range(more):
            store.append(asked(f"new{number}"))
        assert await store.caught_up(60)
        report = await store.verify(late)
        assert (report["result"], [found["kind"] for found in report["findings"]]) == ("broken", ["rolled_back"])


@on_sqlite
async def test_an_anchor_of_another_gateway_is_not_verifiable_and_a_malformed_one_wrong_usage(
    store: Store, tmp_path: Path, asked: Make, options: Options
) -> None:
    store.append(asked())
    assert await store.caught_up(60)
    line = (await store.anchor()).line
    other = Anchor.now("another", ChainHead(1, "0f" * 32))
    report = await store.verify(other)
    assert (report["result"], report["findings"]) == ("not_verifiable", [])
    assert "the anchor is of chain another" in report["unverified"][0]
    store.close()
    (tmp_path / "anchor.txt").write_text(f"{line}\n")
    for given, status in ((line, 0), (f"@{tmp_path / 'anchor.txt'}", 0), (other.line, 5), (line[:-1], 2), ("@no", 2)):
        assert offline(tmp_path, options, "--anchor", given).returncode == status, given


async def test_an_anchor_of_before_anything_happened_is_one_too(store: Store) -> None:
    anchor = await store.anchor()
    assert anchor.head == START
    assert Identity(anchor.chain, b"").name == store._who.name
    assert (await store.verify(anchor))["result"] == "intact"


@on_postgres
@pytest.mark.proves("ACT-6")
async def test_a_decision_whose_gateway_is_behind_with_its_record_is_not_called_forged(
    opened: Open, tmp_path: Path
) -> None:
    one = opened(tmp_path / "one")
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "one" / "chain.key", tmp_path / "other")
    other = opened(tmp_path / "other")
    name = await filed(one)
    other._writer.stop(30)
    await other.approvals.decide(name, "approve", review())
    report = await one.verify()
    assert (report["result"], report["findings"]) == ("not_verifiable", [])
    assert any(f"decision on request {name}" in message for message in report["unverified"])
