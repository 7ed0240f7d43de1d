"""`python -m tests.cli.snapshots.pinned ARGS`: the command `mcpproxy ARGS` at a fixed time.

What differs from run to run (addresses, ids of processes, folders, sizes) is replaced in what the gateway answers, so
that what is printed keeps its widths.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.cli import client, times
from mcpproxy_py.cli.main import main
from tests.cli.snapshots.fixture import NOW

HOME: Final = "/home/ada/.mcpproxy"
PINNED: Final[Mapping[str, Any]] = {
    "pid": 4711, "uptime_seconds": 12_345.6, "data_dir": HOME, "version": "1.2.3", "since": NOW.timestamp() - 12_345,
    "lag_bytes": 0, "lag_seconds": 0.0, "database": f"{HOME}/activity.db",
}  # fmt: skip
ADDRESS: Final = re.compile(r"http://127\.0\.0\.1:\d+")


def pinned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: PINNED[key] if key in PINNED else pinned(each) for key, each in value.items()}
    if isinstance(value, list):
        return [pinned(each) for each in value]
    if isinstance(value, str):
        folder = os.environ.get("MCPPROXY_DATA_DIR") or HOME
        return ADDRESS.sub("http://127.0.0.1:8080", value).replace(folder, HOME)
    return value


def pin() -> None:
    answer = client.RestClient._answer
    client.RestClient._answer = lambda self, *args, **options: pinned(answer(self, *args, **options))
    times.now = lambda: NOW


if __name__ == "__main__":
    pin()
    main()
