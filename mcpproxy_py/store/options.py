"""What a store is told at its start."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from mcpproxy_py.store.database.engine import Database

DATABASE = "activity.db"
JOURNAL = "journal"


@dataclass(frozen=True, slots=True)
class Options:
    """The defaults are SQLite in the data directory, and nothing is ever deleted."""

    database_url: str | None = field(default=None, repr=False)
    ack: Literal["local", "commit"] = "local"
    retention_days: float | None = None
    max_size_mb: float | None = None
    max_journal_mb: float = 1024
    sealing_keys: tuple[str, ...] = field(default=(), repr=False)
    """What gateways that share a database believe each other's switches and decisions by, beside a shared chain key."""

    def database(self, data_dir: Path) -> Database:
        # Each engine is imported only where it is used.
        if self.database_url is None:
            from mcpproxy_py.store.database.sqlite import Sqlite

            return Sqlite(data_dir / DATABASE)
        from mcpproxy_py.store.database.postgres import Postgres

        return Postgres(self.database_url)

    def as_line(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str) -> Options:
        told = json.loads(line)
        return cls(**{**told, "sealing_keys": tuple(told.get("sealing_keys", ()))})
