"""A thread that says we live, and looks after what dead gateways left pending."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread

from sqlalchemy.exc import SQLAlchemyError

from mcpproxy_py.failure import StoreUnavailable
from mcpproxy_py.store.cluster import membership
from mcpproxy_py.store.database.engine import Database, plain

log = logging.getLogger(__name__)


class Watchman:
    """`bury` is handed the ids of calls whose gateway died."""

    def __init__(self, database: Database, me: membership.Membership, bury: Callable[[list[str]], None]) -> None:
        self._database = database
        self._me = me
        self._bury = bury
        self._closing = Event()
        self._well = True
        self._thread = Thread(target=self._watch, name="mcpproxy-watchman", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(membership.RENEWAL)

    def _watch(self) -> None:
        while not self._closing.wait(membership.RENEWAL):
            try:
                for dead in membership.renew(self._database, self._me):
                    self._look_after(dead)
                self._well = True
            except (SQLAlchemyError, StoreUnavailable) as error:
                if self._well:
                    reason = plain(error) if isinstance(error, SQLAlchemyError) else error.message
                    log.warning("cannot renew the heartbeat of this gateway: %s", reason)
                self._well = False

    def _look_after(self, dead: tuple[int, str]) -> None:
        if not membership.bury(self._database, dead):
            return
        with self._database.reading() as connection:
            pending = membership.pending_of(connection, dead[0])
        log.warning("gateway %d is dead; %d of its calls are recorded as interrupted", dead[0], len(pending))
        if pending:
            self._bury(pending)
