"""The published snapshot: one reference, replaced whole, so that a decision reads one consistent world."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from mcpproxy_py.core.search.index import Index, IndexSegment
from mcpproxy_py.core.values import Policy, Server, Snapshot

logger = logging.getLogger(__name__)


class SnapshotPublisher:
    def __init__(self, on_change: Callable[[], object] | None) -> None:
        self.snapshot = Snapshot(index=Index({}))
        self._on_change = on_change

    def publish(self, server: Server, segment: IndexSegment | None = None) -> None:
        """Publish one server's state, and its tools' part of the index where they are new; nobody else's is rebuilt."""
        index = self.snapshot.index if segment is None else self.snapshot.index.with_segment(server.name, segment)
        self._publish(replace(self.snapshot, servers={**self.snapshot.servers, server.name: server}, index=index))

    def retain(self, names: Iterable[str]) -> None:
        """Take down every server that is not named, and put the rest into this order."""
        index = self.snapshot.index
        for gone in self.snapshot.servers.keys() - set(names):
            index = index.with_segment(gone, None)
        servers = {name: self.snapshot.servers[name] for name in names if name in self.snapshot.servers}
        self._publish(replace(self.snapshot, servers=servers, index=index))

    def set_policy(self, policy: Policy) -> None:
        self._publish(replace(self.snapshot, policy=policy))

    def _publish(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        if self._on_change is not None:
            try:
                self._on_change()
            except Exception:
                logger.exception("a change notification failed")
