"""A state works once, at whichever gateway of a database, and after a restart (GATE-15)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import select

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.tables import spent_states
from mcpproxy_py.store.saved_state import KEPT_SPENT, SavedState
from mcpproxy_py.store.seals import Seals, SwitchMemory, UnbelievedRows

pytestmark = pytest.mark.proves("GATE-15")


def saved_state(database: Database, data_dir: Path) -> SavedState:
    """Of one more gateway. No switch is set here, so nothing comes on record."""
    return SavedState(database, Seals([b"key"]), SwitchMemory(data_dir), lambda event: None, UnbelievedRows())


def test_of_many_who_come_with_the_same_key_one_is_the_first(database: Database, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(lambda _: saved_state(database, tmp_path).spend("one", time.time() + 60), range(16)))
    assert sorted(won) == [False] * 15 + [True]
    assert saved_state(database, tmp_path).spend("another", time.time() + 60)


def test_what_is_over_for_all_clocks_is_forgotten_and_nothing_else(database: Database, tmp_path: Path) -> None:
    shelf, now = saved_state(database, tmp_path), time.time()
    shelf.spend("old", now - KEPT_SPENT - 60)
    shelf.spend("late", now - 60)
    shelf.spend("new", now + 60)
    with database.reading() as connection:
        assert set(connection.execute(select(spent_states.c.key)).scalars()) == {"late", "new"}


def test_a_database_that_cannot_be_written_says_so_instead_of_guessing(database: Database, tmp_path: Path) -> None:
    with database.writing() as connection:
        spent_states.drop(connection)
    with pytest.raises(StoreUnavailable):
        saved_state(database, tmp_path).spend("one", time.time() + 60)
