"""What a gateway needs of its machine: a place to write to, room there, an address, a database."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from mcpproxy_py.doctor.finding import Doubt, Finding, found
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.serve import place
from mcpproxy_py.settings import Settings, check_data_dir, check_doors
from mcpproxy_py.store.failure import StoreUnavailable

LITTLE_ROOM: Final = 1 << 30
NO_ROOM: Final = 100 << 20
MEGABYTE: Final = 1 << 20


def folder(settings: Settings) -> Iterator[Finding]:
    """Also of a gateway that runs: its disk may have filled since."""
    for subject, look in FOLDER.items():
        yield found(subject, partial(look, settings))


def before_start(settings: Settings) -> Iterator[Finding]:
    """What a running gateway has taken, or has passed, already."""
    for subject, look in START.items():
        yield found(subject, partial(look, settings))


def _data_directory(settings: Settings) -> str:
    path = settings.data_dir
    if os.path.lexists(path):
        check_data_dir(path)
        return f"{path} can be written, and only by you"
    above = _what_there_is_of(path)
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise GatewayError(
            Code.CONFIG_INVALID,
            f"the data directory {path} cannot be made, because {above} cannot be written; make it writable with "
            f"`chmod u+rwx {above}`, or choose another with --data-dir",
        )
    return f"{path} will be made at the first start"


def _what_there_is_of(path: Path) -> Path:
    return next(above for above in path.parents if os.path.lexists(above))


def _room(settings: Settings) -> str:
    path = settings.data_dir
    free = shutil.disk_usage(path if path.exists() else _what_there_is_of(path)).free
    left = f"{free // MEGABYTE:,} MB are free for the record"
    if free < NO_ROOM:
        raise StoreUnavailable(
            f"only {left}, and without room nothing above read is let through; free some space, or set "
            "activity.retention_days or activity.max_size_mb"
        )
    if free < LITTLE_ROOM:
        raise Doubt(f"only {left}; activity.retention_days and activity.max_size_mb bound it")
    return left


def _doors(settings: Settings) -> str:
    check_doors(settings)
    if settings.listens_publicly:
        return "other machines need the agent token"
    return "only this machine can connect"


def _address(settings: Settings) -> str:
    host, port = settings.address
    place.bind(host, port, or_any_port=False).close()
    return f"{settings.listen} is free" if port else "any free port is taken"


def _database(settings: Settings) -> str:
    url = settings.activity.database_url
    if url is None:
        return "SQLite in the data directory"
    from mcpproxy_py.store.postgres import Postgres  # only where it is used: it takes a fifth of a second

    database = Postgres(url)
    try:
        with database.reading():
            return f"{database.label} answers"
    except StoreUnavailable as error:
        mend = "See that it runs, and that activity.database_url leads there."
        raise StoreUnavailable(f"{error.message} {mend}") from None
    finally:
        database.close()


Look = Callable[[Settings], str]
FOLDER: Final[Mapping[str, Look]] = {"data directory": _data_directory, "disk": _room}
START: Final[Mapping[str, Look]] = {"doors": _doors, "address": _address, "database": _database}
