"""`python -m tests.cli.snapshots.pinned ARGS`: the command `mcpproxy ARGS` at a fixed time.

What differs from run to run (addresses, ids of processes, folders, sizes, versions) is replaced before it is laid out,
so that what is printed keeps its widths. With `MCPPROXY_SNAPSHOT=live`, what happens meanwhile gets fixed ids and
times.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, timedelta
from random import Random
from typing import Any, Final

from mcpproxy_py.cli import times
from mcpproxy_py.cli.commands import doctor
from mcpproxy_py.cli.gateway import client
from mcpproxy_py.cli.main import main
from mcpproxy_py.cli.record import watch
from mcpproxy_py.core.record.events import IdMaker
from tests.cli.snapshots.fixture import NOW

HOME: Final = "/home/ada/.mcpproxy"
VERSION: Final = "1.2.3"
PINNED: Final[Mapping[str, Any]] = {
    "pid": 4711, "uptime_seconds": 12_345.6, "data_dir": HOME, "version": VERSION, "since": NOW.timestamp() - 12_345,
    "lag_bytes": 0, "lag_seconds": 0.0,
}  # fmt: skip
ADDRESS: Final = re.compile(r"http://127\.0\.0\.1:\d+")
SIZE: Final = re.compile(r"[\d,]+ MB")


def pinned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: PINNED[key] if key in PINNED else pinned(each) for key, each in value.items()}
    if isinstance(value, list):
        return [pinned(each) for each in value]
    if isinstance(value, str):
        folder = os.environ["MCPPROXY_DATA_DIR"]
        return SIZE.sub("100,000 MB", ADDRESS.sub("http://127.0.0.1:8080", value).replace(folder, HOME))
    return value


class FixedTimes:
    """The records of what happens now, as if they were of the fixed time: by the order in which they are seen first."""

    def __init__(self) -> None:
        self._new_id = IdMaker(Random(15).randbytes)
        self._seen: dict[str, dict[str, Any]] = {}

    def of(self, record: Mapping[str, Any]) -> dict[str, Any]:
        known = self._seen.get(record["id"])
        if known is None:
            at = NOW - timedelta(seconds=12 - 2 * len(self._seen))
            stamp = at.astimezone(UTC).isoformat().replace("+00:00", "Z")
            known = self._seen[record["id"]] = {"id": self._new_id(at.timestamp()), "timestamp": stamp}
        return {**record, **known, "duration_ms": None if record["duration_ms"] is None else 12.3}


def pin() -> None:
    answer, findings = client.RestClient._answer, doctor._findings
    client.RestClient._answer = lambda self, *args, **options: pinned(answer(self, *args, **options))
    doctor._findings = lambda session: (each._replace(says=pinned(each.says)) for each in findings(session))
    doctor.__version__ = VERSION
    times.now = lambda: NOW
    if os.environ.get("MCPPROXY_SNAPSHOT") == "live":
        fixed, records, pending = FixedTimes(), watch.records, watch._pending

        def told(*args: Any) -> Iterator[Any]:
            for kind, record in records(*args):
                yield kind, fixed.of(record) if "duration_ms" in record else record

        watch.records = told
        watch._pending = lambda connect: list(map(fixed.of, pending(connect)))


if __name__ == "__main__":
    pin()
    main()
