"""What a gateway needs of its machine: a place to write to, room there, an address, a database."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from mcpproxy_py.doctor.running import CheckResult, CheckWarning, found
from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.gateway.access.tokens import may_have_tokens
from mcpproxy_py.serve.http import listen
from mcpproxy_py.settings import Settings, check_data_dir, check_doors, login_key_place, nearest_there_is

LITTLE_ROOM: Final = 1 << 30
NO_ROOM: Final = 100 << 20
MEGABYTE: Final = 1 << 20


def folder(settings: Settings) -> Iterator[CheckResult]:
    """Also of a gateway that runs: its disk may have filled since."""
    has_logins = login_key_place(settings.data_dir) is not None
    return _each({**FOLDER, "logins": _logins} if has_logins else FOLDER, settings)


def before_start(settings: Settings) -> Iterator[CheckResult]:
    """What a running gateway has taken, or has passed, already."""
    return _each(START, settings)


def _each(looks: Looks, settings: Settings) -> Iterator[CheckResult]:
    return (found(subject, partial(look, settings)) for subject, look in looks.items())


def _data_directory(settings: Settings) -> str:
    path = settings.data_dir
    check_data_dir(path)
    return f"{path} can be written, and only by you" if path.exists() else f"{path} will be made at the first start"


def _logins(settings: Settings) -> str:
    shared = " after sealing_keys" if settings.sealing_keys else ""
    return f"the key of logins at servers is in {login_key_place(settings.data_dir)}{shared}; keep it beside the record"


def _room(settings: Settings) -> str:
    free = shutil.disk_usage(nearest_there_is(settings.data_dir)).free
    left = f"{free // MEGABYTE:,} MB are free for the record"
    if free < NO_ROOM:
        raise StoreUnavailable(
            f"only {left}, and without free space calls above read are refused; free some, or set "
            "activity.retention_days or activity.max_size_mb"
        )
    if free < LITTLE_ROOM:
        raise CheckWarning(f"only {left}; activity.retention_days and activity.max_size_mb bound it")
    return left


def _doors(settings: Settings) -> str:
    shared = settings.activity.database_url is not None
    check_doors(settings, has_tokens=may_have_tokens(settings.data_dir, shared=shared))
    if settings.listens_publicly:
        return "other machines need the agent token"
    return "only this machine can connect"


def _address(settings: Settings) -> str:
    host, port = settings.address
    listen.bind(host, port, or_any_port=False).close()
    return f"{settings.listen} is free" if port else "any free port is used"


def _database(settings: Settings) -> str:
    url = settings.activity.database_url
    if url is None:
        return "SQLite in the data directory"
    from mcpproxy_py.store.database.postgres import Postgres  # only where it is used: it takes a fifth of a second

    database = Postgres(url)
    try:
        with database.reading():
            return f"{database.label} answers"
    except StoreUnavailable as error:
        mend = "See that it runs, and that activity.database_url leads there."
        raise StoreUnavailable(f"{error.message} {mend}") from None
    finally:
        database.close()


Looks = Mapping[str, Callable[[Settings], str]]
FOLDER: Final[Looks] = {"data directory": _data_directory, "disk": _room}
START: Final[Looks] = {"access": _doors, "address": _address, "database": _database}
