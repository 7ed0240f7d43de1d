"""PostgreSQL: for several gateways at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

from sqlalchemy import ARRAY, URL, Connection, Engine, Table, bindparam, create_engine, func, make_url, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import ArgumentError, IntegrityError, OperationalError

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store.cluster.event_bus import PostgresEventBus
from mcpproxy_py.store.database.engine import READERS, Database, adding

CHANNEL: Final = "mcpproxy"
LOCK: Final = 0x6D637070
"""Of the advisory lock around changes of the tables: 'mcpp', because the number has to be ours."""
SCHEME: Final = "postgresql+psycopg"
_NOTIFY: Final = text("SELECT pg_notify(:channel, :said)")
_SAMPLE: Final = 1000
_INDEXED: Final = 1.5
"""A record with its part of the indexes, against the record alone."""
_WEIGHT: Final = f"""
    SELECT (SELECT coalesce(sum(many), 0) FROM rollup WHERE span = 24) * {_INDEXED} * (
        (SELECT coalesce(avg(pg_column_size(a)), 0) FROM (SELECT * FROM activity ORDER BY n DESC LIMIT {_SAMPLE}) a)
        + (SELECT coalesce(avg(pg_column_size(w)), 0)
           FROM (SELECT * FROM activity_words ORDER BY rowid DESC LIMIT {_SAMPLE}) w)
        + 2 * (SELECT coalesce(avg(pg_column_size(e)), 0) FROM (SELECT * FROM events LIMIT {_SAMPLE}) e))
"""
SECONDS: Final[Mapping[str, Any]] = {
    "connect_timeout": 5, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3,
}  # fmt: skip
SETTINGS: Final = "-c application_name=mcpproxy -c timezone=UTC -c idle_in_transaction_session_timeout=60s"
"""A connection whose other end is silently gone must not hold its locks for ever."""


READING: Final = "-c statement_timeout=30s -c lock_timeout=5s -c default_transaction_read_only=on"
"""Reading waits for no lock but that of somebody who works on the tables, and then the answer is that it is so."""


class Postgres(Database):
    shared = True

    def __init__(self, url: str) -> None:
        self.url = parsed(url)
        super().__init__(
            _label(self.url),
            _engine(self.url, 1, "-c statement_timeout=60s", isolation_level="READ COMMITTED"),
            _engine(self.url, READERS, READING, isolation_level="REPEATABLE READ"),
        )  # fmt: skip

    def insert_many(self, connection: Connection, table: Any, columns: Sequence[str], rows: Sequence[Any]) -> None:
        if rows:
            driver: Any = connection.connection.driver_connection
            names = ", ".join(f'"{column}"' for column in columns)
            into = f"COPY {table.name} ({names}) FROM STDIN"
            with _errors_named(), driver.cursor() as cursor, cursor.copy(into) as copy:
                for row in rows:
                    copy.write_row(row)

    def add_many(self, connection: Connection, table: Table, rows: Sequence[Any]) -> None:
        if rows:
            connection.execute(
                _adding(table), dict(zip(table.columns.keys(), map(list, zip(*rows, strict=True)), strict=True))
            )

    def now(self, connection: Connection) -> int:
        return connection.execute(text("SELECT (extract(epoch FROM clock_timestamp()) * 1e6)::bigint")).scalar_one()

    def lock_for_changes(self, connection: Connection) -> None:
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": LOCK})

    def publish_recorded(self, connection: Connection, gateway: int) -> None:
        connection.execute(_NOTIFY, {"channel": CHANNEL, "said": str(gateway)})

    def event_bus(self) -> PostgresEventBus:
        return PostgresEventBus(self)

    @contextmanager
    def listening(self) -> Iterator[Any]:
        """A connection of the driver's own that hears what others announce."""
        import psycopg

        address = self.url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(address, autocommit=True, options=SETTINGS, **SECONDS) as connection:
            connection.execute(f"LISTEN {CHANNEL}")
            yield connection

    def notify(self, said: str) -> None:
        with self.writing() as connection:
            connection.execute(_NOTIFY, {"channel": CHANNEL, "said": said})

    def size(self) -> int:
        """What the records weigh, from the newest of them. The files are no measure: PostgreSQL keeps the space of
        what was deleted for what comes next, so a limit on them would never be met and retention never end."""
        with self.readers.connect() as connection:
            return int(connection.execute(text(_WEIGHT)).scalar_one())


@cache
def _adding(table: Table) -> Any:
    """One statement for any number of rows, handed over by column."""
    arrays = [bindparam(column.name, type_=ARRAY(column.type)) for column in table.c]
    rows = func.unnest(*arrays).table_valued(*table.columns.keys()).render_derived()
    return adding(insert(table).from_select(table.columns.keys(), select(rows)), table)


@contextmanager
def _errors_named() -> Iterator[None]:
    """The driver's errors as those that SQLAlchemy makes of them, for what goes past it."""
    import psycopg

    try:
        yield
    except psycopg.IntegrityError as error:
        raise IntegrityError("COPY", None, error) from error
    except psycopg.Error as error:
        raise OperationalError("COPY", None, error) from error


def _label(url: URL) -> str:
    """Where it is, without who we are there."""
    host = url.host or "(local)"
    return f"postgresql://{host}:{url.port}/{url.database}" if url.port else f"postgresql://{host}/{url.database}"


def parsed(url: str) -> URL:
    """Raises `StoreUnavailable` for an address that leads to no PostgreSQL, or without the driver for it."""
    try:
        found = make_url(url)
    except ArgumentError:
        raise StoreUnavailable("activity.database_url is not an address such as postgresql://user@host/name") from None
    if found.get_backend_name() not in ("postgresql", "postgres"):
        raise StoreUnavailable(f"activity.database_url names {found.get_backend_name()}; only postgresql:// is known.")
    if find_spec("psycopg") is None:
        raise StoreUnavailable("PostgreSQL needs its driver: pip install 'mcpproxy-py[postgres]'.")
    return found.set(drivername=SCHEME)


def _engine(url: URL, size: int, options: str, **more: Any) -> Engine:
    return create_engine(
        url,
        pool_size=size,
        max_overflow=0,
        pool_timeout=10,
        pool_pre_ping=True,
        hide_parameters=True,
        connect_args={**SECONDS, "options": f"{SETTINGS} {options}"},
        **more,
    )
