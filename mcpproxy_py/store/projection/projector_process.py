"""The projector in a process of its own:
`python -m mcpproxy_py.store.projection.projector_process DATA_DIR LOCK_DESCRIPTOR`.

A batch in the gateway's process takes the interpreter from the event loop, and every call under way waits.
`remote.Remote` starts this and says on stdin how far the journal may be read: only the gateway knows which
lines it will not take back, as it does with half of a record on a full disk. Here is said on stdout how far the
database is. The gateway is gone when stdin ends, and then this goes too, after the batch it is at.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from mcpproxy_py.errors import EXIT_FAILED, EXIT_OK, StoreUnavailable
from mcpproxy_py.files import disown
from mcpproxy_py.store.chain_key import identity
from mcpproxy_py.store.cluster.membership import number_of
from mcpproxy_py.store.journal.segment_files import JournalPosition
from mcpproxy_py.store.options import JOURNAL, Options
from mcpproxy_py.store.projection.projector import Projector
from mcpproxy_py.store.projection.retention import Retention


class JournalTail:
    """The journal as far as it was told of. Looking after its health is the gateway's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.end = JournalPosition(0, 0)
        self.trouble: str | None = None
        self.changed = threading.Event()

    def probe(self) -> None:
        return

    def sync_now_and_then(self) -> None:
        return


def follow(data_dir: Path, told: Iterator[str]) -> None:
    """Until nothing more is told. First of all come the options: an address with a password has no business among
    the arguments, which everybody can read, or in the environment."""
    options = Options.from_line(next(told))
    if options.ack == "local":
        os.nice(10)  # nobody waits for this; calls under way go first
    database, tail, who = options.database(data_dir), JournalTail(data_dir / JOURNAL), identity(data_dir)
    number = number_of(database, who)
    retention = Retention(database, who.sealer(), number, options)
    writer = Projector(tail, database, who, number, retention)
    writer.on_step = lambda: _report(writer)
    _report(writer)
    writer.start()
    for line in told:
        segment, offset = line.split()
        tail.end = JournalPosition(int(segment), int(offset))
        writer.flush_soon()  # the gateway lingers already
    writer.halt()
    database.close()


def _report(writer: Projector) -> None:
    _say(
        segment=writer.place.segment,
        offset=writer.place.offset,
        failures=writer.failures,
        unreadable=writer.unreadable,
        deleted=writer.deleted,
        last_error=writer.last_error,
    )


def _say(**report: int | str | None) -> None:
    """To nobody, where the gateway has been killed; the batch under way is finished all the same."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(report).encode() + b"\n")


def _until_disowned(lock: int) -> Iterator[str]:
    """The lines of stdin; after the last, the lock says at once that it will soon be free."""
    yield from sys.stdin
    disown(lock)


def main(data_dir: str, lock: str) -> int:
    gc.freeze()
    gc.set_threshold(200_000)  # batches make many objects and no cycles
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the gateway, which still has records to write
        signal.signal(number, signal.SIG_IGN)
    try:
        follow(Path(data_dir), _until_disowned(int(lock)))
    except StoreUnavailable as error:
        _say(last_error=error.message)
        return EXIT_FAILED
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
