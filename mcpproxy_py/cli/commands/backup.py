"""`mcpproxy backup` and `restore`: the whole data directory as one private file, and back again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from mcpproxy_py import __version__
from mcpproxy_py.cli.common import CommandContext, Yes, command, confirmed, group
from mcpproxy_py.cli.output import note, say, waiting
from mcpproxy_py.errors import EXIT_FAILED, EXIT_OK, Code, GatewayError

app = group("The data directory as one file.")

File = Annotated[Path, typer.Argument(metavar="FILE", help="The archive, such as mcpproxy.tar.gz.")]
CONFIG = "mcp_config.json"


@command(app, "backup")
def backup(session: CommandContext, file: File, yes: Yes = False) -> None:
    """Save the data directory in one file.

    That is configuration, keys, journal and database. A gateway may go on running. The file holds everything
    recorded before the command began, with a digest of each part. It also holds the admin key, the key that signs
    the record, and whatever secrets the configuration spells out: only you can read it, so keep it so. A record in
    PostgreSQL is not in it: back that up with pg_dump, after this.

    For example: mcpproxy backup mcpproxy-backup.tar.gz
    """
    data_dir, target = session.where.home(), file.expanduser().absolute()
    if not data_dir.is_dir():
        raise GatewayError(Code.NOT_FOUND, f"There is no data directory {data_dir}")
    if target.resolve().is_relative_to(data_dir.resolve()):
        raise GatewayError(Code.BAD_REQUEST, f"{target} is in the data directory; keep a backup somewhere else")
    if not target.parent.is_dir():
        raise GatewayError(Code.NOT_FOUND, f"There is no directory {target.parent}")
    if target.exists():
        if not target.is_file():
            raise GatewayError(Code.BAD_REQUEST, f"{target} is no file")
        confirmed(f"Replace {target}?", yes)
    database = _database(session, data_dir)
    with waiting("Copying"), _beside(target) as copy:
        manifest = _packed(session, data_dir, copy, target, database)
    answer = {"file": str(target), "size": target.stat().st_size, "files": len(manifest["files"]), "database": database}
    session.show(answer, _print_backup)


def _database(session: CommandContext, data_dir: Path) -> str:
    """Where the record is: `sqlite`, `postgresql`, or `none` where no gateway ever ran."""
    with suppress(GatewayError):  # a configuration that cannot be used is backed up all the same
        if session.where.loaded().settings.activity.database_url is not None:
            return "postgresql"
    return "sqlite" if (data_dir / "activity.db").is_file() else "none"


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """A private directory for as long as it is needed."""
    try:
        made = Path(tempfile.mkdtemp(dir=target.parent, prefix=".mcpproxy-"))
    except OSError as error:
        raise GatewayError(Code.NOT_FOUND, f"{target.parent} cannot be written: {error.strerror}") from None
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _packed(session: CommandContext, data_dir: Path, copy: Path, target: Path, database: str) -> dict[str, Any]:
    from mcpproxy_py.cli.archive import pack
    from mcpproxy_py.store.backup import back_up

    back_up(data_dir, copy, needs_database=False)
    config = session.where.config_path()
    if config.is_file() and (config.is_symlink() or config.absolute().parent != data_dir.absolute()):
        # Where it is kept elsewhere, or leads there, it is the one in force all the same.
        (copy / CONFIG).write_bytes(config.read_bytes())
        (copy / CONFIG).chmod(0o600)
    about = {"made": datetime.now(UTC).isoformat(timespec="seconds"), "version": __version__, "database": database,
             "data_dir": str(data_dir), "config": str(config) if config.is_file() else None}  # fmt: skip
    return pack(copy, target, about)


def _print_backup(answer: Mapping[str, Any]) -> None:
    say(f"Wrote {answer['file']}: {answer['files']} files, {answer['size']:,} bytes.")
    note("It holds the admin key and the secrets of the configuration; keep it like a password.")
    if answer["database"] == "postgresql":
        note("The record is in PostgreSQL and not in this file: back it up now, with pg_dump.")


@command(app, "restore")
def restore(session: CommandContext, file: File, yes: Yes = False) -> int:
    """Put a backup in place of the data directory.

    Asks first. No gateway may run. The archive, its digests, the version of its database and the chain of its
    record are checked first. What was in the data directory is kept in it, in a directory before-restore-DATE. A
    record in PostgreSQL is restored with its own tools.

    For example: mcpproxy restore mcpproxy-backup.tar.gz
    """
    from mcpproxy_py.cli.archive import unpack
    from mcpproxy_py.cli.gateway.running import in_use
    from mcpproxy_py.store.store import LOCK

    data_dir, archive = session.where.home(), file.expanduser().absolute()
    if not archive.is_file():
        raise GatewayError(Code.NOT_FOUND, f"There is no file {archive}")
    if in_use(data_dir):
        remedy = {"remedy": "Stop it first: mcpproxy stop"}
        raise GatewayError(Code.CONFLICT, f"A gateway uses {data_dir}", details=remedy)
    from mcpproxy_py import settings
    from mcpproxy_py.files import FolderLock

    settings.ensure_data_dir(data_dir)
    lock = FolderLock(data_dir / LOCK)
    try:
        with _beside(data_dir / "restored") as fresh:
            with waiting("Reading and checking"):
                manifest = unpack(archive, fresh)
                verdict = _checked(fresh)
            what = f"the backup of {manifest.get('made')!s:.40} (mcpproxy {manifest.get('version')!s:.40})"
            confirmed(f"{verdict}\nPut {what} in place of {data_dir}?", yes)
            aside = _exchange(data_dir, fresh, keep=(LOCK,))
    finally:
        lock.release()
    answer = {"data_dir": str(data_dir), "files": len(manifest["files"]), "record": verdict,
              "aside": str(aside) if aside else None, "database": manifest.get("database")}  # fmt: skip
    session.show(answer, _print_restored)
    return EXIT_OK


def _checked(fresh: Path) -> str:
    """What can be said of the record in there. Raises `GatewayError` for one that was changed, or is too new."""
    if not (fresh / "activity.db").is_file():
        return "It has no database."
    from mcpproxy_py.store.database.migrate import refuse_newer
    from mcpproxy_py.store.options import Options

    database = Options().database(fresh)
    try:
        refuse_newer(database)
    finally:
        database.close()
    done = subprocess.run(
        [sys.executable, "-m", "mcpproxy_py.store.verify", str(fresh)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode == EXIT_FAILED:
        raise GatewayError(
            Code.CONFLICT,
            "The record in this backup is not what was written: its chain does not hold. Nothing was changed",
            details={"remedy": "Use another backup. To see what is wrong, unpack it with tar, and run "
                     "`python -m mcpproxy_py.store.verify DIRECTORY`"},
        )  # fmt: skip
    if done.returncode == EXIT_OK:
        return "Its record is intact."
    return "Its record could not be verified in full; `mcpproxy activity verify` says why, once it is in use."


def _exchange(data_dir: Path, fresh: Path, keep: tuple[str, ...]) -> Path | None:
    """Everything there goes aside, and everything fresh takes its place; where that fails, all is as before. By
    renaming within the directory, which may be a volume that cannot be renamed itself."""
    from mcpproxy_py.store.backup import ASIDE

    aside = data_dir / f"{ASIDE}{datetime.now(UTC):%Y-%m-%d-%H%M%S}"
    there = [path for path in data_dir.iterdir() if path.name not in (*keep, fresh.name)
             and not path.name.startswith(ASIDE)]  # fmt: skip
    moved: list[tuple[Path, Path]] = []
    try:
        if there:
            aside.mkdir(mode=0o700)
        pairs = [(path, aside / path.name) for path in there]
        pairs += [(path, data_dir / path.name) for path in fresh.iterdir() if path.name not in keep]
        for source, target in pairs:
            os.rename(source, target)
            moved.append((source, target))
    except OSError as error:
        for source, target in reversed(moved):
            os.rename(target, source)
        raise GatewayError(
            Code.CONFLICT,
            f"{error.filename} cannot be moved: {error.strerror}. All is as it was before",
            details={"remedy": f"Make {data_dir} writable, or choose another --data-dir."},
        ) from None
    return aside if there else None


def _print_restored(answer: Mapping[str, Any]) -> None:
    say(f"Restored {answer['files']} files to {answer['data_dir']}. {answer['record']}")
    if answer["aside"]:
        note(f"What was there before is in {answer['aside']}")
    if answer["database"] == "postgresql":
        note("Its record is in PostgreSQL: restore that too, from the pg_dump made after this backup.")
    note("Start it with `mcpproxy serve`.")
