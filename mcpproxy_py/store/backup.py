"""A copy of a whole data directory, also while a gateway uses it: `python -m mcpproxy_py.store.backup FROM TO`.

`mcpproxy backup` makes one archive of such a copy.

The published head of the chain is copied first, with what the gateway remembers of its sealed rows, then the journal,
then the database. An event is in the one or already
in the other, so the copy holds everything up to the moment it was begun; the other way round, what moved over in
between would be in neither. And no head is published of an event that the copy does not hold, nor a version
remembered of a row that it holds an older one of.

A row that is sealed is in the database before its event is. So the view of the database that is copied begins while
nobody can write to it, and what the journal has grown by until then is copied in the same moment.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from contextlib import closing, suppress
from pathlib import Path

from mcpproxy_py.errors import EXIT_FAILED, EXIT_OK, EXIT_USAGE, StoreUnavailable
from mcpproxy_py.files import explained, private_file, private_folder
from mcpproxy_py.store.chain_key import HEAD
from mcpproxy_py.store.journal import segment_files
from mcpproxy_py.store.sealed_records import RECORD_MEMORY
from mcpproxy_py.store.seals import MEMORY
from mcpproxy_py.store.store import DATABASE, JOURNAL, LOCK

# Belong to a running gateway, and mean nothing without it; the last two are inside the database's copy.
LEFT_OUT = frozenset({LOCK, "start.lock", "gateway.json", f"{DATABASE}-wal", f"{DATABASE}-shm"})
PATIENCE = 30.0
"""Seconds until nobody writes to the database; a gateway does for some milliseconds at a time."""
ASIDE = "before-restore-"
"""What a restore put aside is no part of a later backup."""


def back_up(data_dir: Path, target: Path, *, needs_database: bool = True) -> None:
    """Raises `StoreUnavailable`, naming the path, when it cannot be read, or when `target` holds something already.
    A gateway that never ran, or whose record is in PostgreSQL, has no database here."""
    if needs_database and not (data_dir / DATABASE).is_file():
        raise StoreUnavailable(f"there is no mcpproxy database in {data_dir}.")
    private_folder(target)
    if any(target.iterdir()):
        raise StoreUnavailable(f"{target} is not empty. Name a directory that does not exist yet.")
    with explained(target, "copy to"):
        for path in (data_dir / HEAD, data_dir / MEMORY, data_dir / RECORD_MEMORY, data_dir / JOURNAL):
            _copy_tree(path, target / path.name) if path.is_dir() else _copy_file(path, target / path.name)
        if (data_dir / DATABASE).is_file():
            _copy_database(data_dir, target)
        _copy_tree(data_dir, target)


def _copy_tree(source: Path, target: Path) -> None:
    """Regular files only, and only those not copied yet. A journal's segment may be gone by the time it is its turn:
    the database has it then."""
    private_folder(target)
    for path in sorted(source.iterdir()):
        copy = target / path.name
        if path.is_symlink() or path.name in LEFT_OUT or path.name.startswith(ASIDE) or copy.is_file():
            continue
        if path.is_dir():
            _copy_tree(path, copy)
        elif path.is_file():
            _copy_file(path, copy)


def _copy_file(source: Path, target: Path) -> None:
    try:
        with source.open("rb") as original, os.fdopen(private_file(target), "wb") as copy:
            shutil.copyfileobj(original, copy)
    except FileNotFoundError:
        target.unlink(missing_ok=True)


def _copy_database(data_dir: Path, target: Path) -> None:
    source, place = data_dir / DATABASE, target / DATABASE
    os.close(private_file(place))
    try:
        with closing(sqlite3.connect(source, isolation_level=None)) as view, closing(sqlite3.connect(place)) as copy:
            with closing(sqlite3.connect(source, timeout=PATIENCE, isolation_level=None)) as turn:
                turn.execute("BEGIN IMMEDIATE")
                view.execute("BEGIN")
                view.execute("SELECT name FROM sqlite_schema").fetchone()
                _copy_growth(data_dir / JOURNAL, target / JOURNAL)
            view.backup(copy)
    except sqlite3.Error as error:
        raise StoreUnavailable(f"cannot copy {source}: {error}.") from error


def _copy_growth(journal: Path, target: Path) -> None:
    """What was appended since the journal was copied. A segment may be gone: the database has it then."""
    if not journal.is_dir():
        return
    for number in segment_files.numbers(journal):
        copy = segment_files.path_of(target, number)
        if not copy.exists():
            os.close(private_file(copy))
        segment_files.cut_torn_line(copy)
        with (
            suppress(FileNotFoundError),
            segment_files.path_of(journal, number).open("rb") as grown,
            copy.open("ab") as end,
        ):
            grown.seek(end.tell())
            shutil.copyfileobj(grown, end)


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print("usage: python -m mcpproxy_py.store.backup DATA_DIR NEW_FOLDER", file=sys.stderr)
        return EXIT_USAGE
    try:
        back_up(Path(arguments[0]).expanduser(), Path(arguments[1]).expanduser())
    except StoreUnavailable as error:
        print(error.message, file=sys.stderr)
        return EXIT_FAILED
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
