"""Whether the database that is configured can be had, as `mcpproxy doctor` finds out."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpproxy_py import doctor
from mcpproxy_py.settings import Settings
from tests.support.postgres import Server

pytestmark = pytest.mark.proves("USE-3")


def database(folder: Path, url: str | None) -> doctor.CheckResult:
    settings = Settings.model_validate({"data_dir": folder, "listen": "127.0.0.1:0", "activity": {"database_url": url}})
    return next(each for each in doctor.before_start(settings) if each.subject == "database")


def test_a_postgresql_that_answers(tmp_path: Path, postgres: Server) -> None:
    found = database(tmp_path, postgres.empty_database())
    assert found.state == "ok"
    assert found.says.endswith(" answers")


def test_one_without_that_database(tmp_path: Path, postgres: Server) -> None:
    url = postgres.empty_database()
    name = url.rpartition("/")[2].partition("?")[0]
    found = database(tmp_path, url.replace(name, "no_such_database"))
    assert found.state == "problem"
    assert "no_such_database" in found.says
    assert "See that it runs, and that activity.database_url leads there." in found.says


def test_without_one_it_is_a_file(tmp_path: Path) -> None:
    assert database(tmp_path, None) == ("database", "ok", "SQLite in the data directory")
