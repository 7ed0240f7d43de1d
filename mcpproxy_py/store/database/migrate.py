"""Brings a database to this version's tables, and refuses one that a newer version has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store.database.engine import Database, plain
from mcpproxy_py.store.database.tables import HEAD

SCRIPTS = Path(__file__).parent / "migrations"
HEAD_SQL = SCRIPTS / "head.sql"
STATEMENT_ENDS = ";\n"


def migrate(database: Database) -> None:
    """Raises `StoreUnavailable`, with nothing changed, for a database that this version does not know."""
    try:
        with database.readers.connect() as connection:
            found = revision(connection)
        if found != HEAD and not (found is None and _filled(database)):
            upgrade(database, found)
    except SQLAlchemyError as error:
        raise StoreUnavailable(f"cannot use the database {database.label}: {plain(error)}. {_remedy(database)}") from (
            error
        )


def _remedy(database: Database) -> str:
    if database.shared:
        return "Check that it runs, and that activity.database_url is right and its user may create tables."
    return "Restore it from a backup, or move it away to start with a new one."


def revision(connection: Connection) -> str | None:
    """Which migration this database is at; `None` for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _filled(database: Database) -> bool:
    """An empty SQLite file gets at once all that the migrations would have made there. `tests.house.head_sql` writes
    the script, from what they make."""
    if database.writer.dialect.name != "sqlite":
        return False
    with database.writing() as connection:
        if inspect(connection).get_table_names():
            return False
        for statement in HEAD_SQL.read_text("utf-8").removesuffix(STATEMENT_ENDS).split(STATEMENT_ENDS):
            connection.exec_driver_sql(statement)
    return True


def refuse_newer(database: Database) -> None:
    """Raises `StoreUnavailable` for a database that this version does not know, or what is none."""
    try:
        with database.readers.connect() as connection:
            found = revision(connection)
    except SQLAlchemyError as error:
        raise StoreUnavailable(f"{database.label} is not a database of mcpproxy: {plain(error)}.") from error
    if found != HEAD:
        _must_be_known(database, found, _known(_config()))


def _config() -> Any:
    # Imported here: most starts find the database current or empty, and Alembic costs a quarter of a second.
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    return config


def _known(config: Any) -> set[str]:
    from alembic.script import ScriptDirectory

    return {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}


def upgrade(database: Database, found: str | None) -> None:
    from alembic import command

    config = _config()
    known = _known(config)
    _must_be_known(database, found, known)
    with database.writing() as connection:
        database.lock_for_changes(connection)
        _must_be_known(database, revision(connection), known)  # another gateway may have been quicker, and newer
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _must_be_known(database: Database, found: str | None, known: set[str]) -> None:
    if found is not None and found not in known:
        raise StoreUnavailable(
            f"the database {database.label} was written by a newer mcpproxy (its revision is {found}, "
            f"this version knows up to {HEAD}). Nothing was changed. Install the newer version again, "
            "restore the backup made before the upgrade, or choose another --data-dir."
        )
