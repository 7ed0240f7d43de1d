"""What a person typed is found along the index of ids, on both engines (USE-6)."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from sqlalchemy import select, text

from mcpproxy_py.core.record.events import IdMaker
from mcpproxy_py.core.record.short_ids import IdRange, short_id, short_ids
from mcpproxy_py.store.activity.reader import MOST_CANDIDATES, Reader
from mcpproxy_py.store.chain_key import Identity
from mcpproxy_py.store.cluster.membership import join
from mcpproxy_py.store.database.columns import within
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.migrate import migrate
from mcpproxy_py.store.database.tables import activity
from mcpproxy_py.store.journal.chain import Chain, Sealer
from mcpproxy_py.store.journal.entries import entries, read
from mcpproxy_py.store.options import Options
from mcpproxy_py.store.projection.apply import project

pytestmark = pytest.mark.proves("USE-6")

AT = 1_795_000_000.0
SEVEN_WEEKS = (1 << 32) / 1000
TIMES = [AT - 3 * SEVEN_WEEKS, AT - SEVEN_WEEKS, AT - 60, AT - 1, *[AT] * 15, AT + 0.25]
"""Some far apart and alike in their short form, some close together, many within one millisecond."""


def ids() -> list[str]:
    new_id = IdMaker(Random(5).randbytes)
    return [new_id(at) for at in TIMES]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres").database()
    made = Options(database_url=url).database(tmp_path_factory.mktemp("activity"))
    migrate(made)
    join(made, Identity("test", b"k"))
    asked = [
        {"kind": "asked", "id": row_id, "at": at, "type": "tool_call", "source": "mcp", "server": "s", "tool": "t",
         "arguments": {}, "client": {"name": "c"}, "principal": "local", "metadata": {}}
        for row_id, at in zip(["a1", *ids()], [AT - 5, *TIMES], strict=True)
    ]  # fmt: skip
    lines = Chain(Sealer(b"k", "test")).link(asked)[0].split(b"\n")[:-1]
    with made.writing() as connection:
        project(made, connection, 1, entries(lines, map(read, lines), 0), 0, Sealer(b"", ""))
    yield made
    made.close()


def meant(database: Database, typed: str) -> list[str]:
    return [each["id"] for each in Reader(database).candidates(typed)]


def test_every_record_is_found_by_the_short_form_that_a_list_of_all_shows(database: Database) -> None:
    for whole, short in short_ids(ids()[2:]).items():
        assert whole in meant(database, short)
    assert meant(database, short_id(ids()[2])) == [ids()[2]]


def test_short_forms_that_are_alike_weeks_apart_are_all_candidates_and_the_newest_comes_first(
    database: Database,
) -> None:
    assert short_id(ids()[0]) == short_id(ids()[1]) == short_id(ids()[4])
    alike = f"{short_id(ids()[4])}.{ids()[4][-2:]}"
    assert ids()[4] in meant(database, alike)
    assert meant(database, ids()[0][:12]) == [ids()[0]]


def test_no_more_candidates_are_read_than_are_told(database: Database) -> None:
    assert len(meant(database, short_id(ids()[4]))) == MOST_CANDIDATES + 1


def test_a_candidate_says_what_it_is(database: Database) -> None:
    (found,) = Reader(database).candidates(short_id(ids()[2]))
    assert (found["server"], found["tool"], found["status"]) == ("s", "t", "pending")
    assert found["timestamp"].startswith("20")


def test_what_is_no_uuid_is_found_by_all_of_it_alone(database: Database) -> None:
    assert meant(database, "a1") == []
    assert Reader(database).get("a1") is not None


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_it_is_looked_for_along_the_index(database: Database) -> None:
    query = select(activity.c.id).where(within(activity.c.id, IdRange("0", "0g", "1"))).order_by(activity.c.id.desc())
    with database.reading() as connection:
        compiled = query.compile(connection, compile_kwargs={"literal_binds": True})
        plan = " ".join(row[3] for row in connection.execute(text(f"EXPLAIN QUERY PLAN {compiled}".replace("%", "%%"))))
    assert "USING COVERING INDEX activity_id" in plan
    assert "B-TREE" not in plan


def test_an_empty_record_has_no_candidates(tmp_path_factory: pytest.TempPathFactory) -> None:
    empty = Options().database(tmp_path_factory.mktemp("empty"))
    migrate(empty)
    assert Reader(empty).candidates("12345678") == []
    empty.close()
